"""Collecting experience: T decisions of all battles into buffers made once."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon import noise
from echelon.env.env import EchelonEnv
from echelon.env.layout import GROUPS, STREAMS
from echelon.env.outcome import STATS
from echelon.env.reward import TERMS
from echelon.learn.policy import MechPolicy
from echelon.learn.seats import LEARNER, Seats
from echelon.noise import Stream

RECORDED = ("pre_tanh", "log_prob", "state_value")


class Rollout:
    """Plays the environment with the seats' policies and keeps what the learner needs.

    Mechs are folded into rows, R = battles times mechs the learner commands: `batch [R, T]` holds the streams,
    `pre_tanh`, `log_prob`, `state_value`, `alive`, `is_init`, and under `next` `state_value`, `reward`, `done`,
    `terminated`. Values are the critic's own, normalised. `memory` is the first decision's, seen at all T.

    TorchRL's `Collector` stores both groups, every step's memory and every observation twice; here one build of the
    observation is written once.
    """

    def __init__(self, env: EchelonEnv, seats: Seats, decisions: int) -> None:
        self.env = env
        self.seats = seats
        self.decisions = decisions
        self.batch: TensorDict | None = None
        self.now = env.reset()
        stagger(env)
        self.earned = torch.zeros((), device=env.device)

    @torch.inference_mode()
    def collect(self) -> tuple[TensorDict, dict[str, Tensor]]:
        """Play on for T decisions.

        Returns:
            The buffers, valid until the next call, and on the device: sums over the battles that ended (`[]`, `stats
            [len(STATS)]`) and `reward_terms [len(TERMS)]`, what each paid a mech a decision on average.
        """
        learner = self.seats.policies[LEARNER]
        assert isinstance(learner, MechPolicy)
        ended = Ended(self.env.device)
        paid = torch.zeros(len(TERMS), device=self.env.device)
        for t in range(self.decisions):
            now = self.now
            decided = self.seats.decide(now)
            played, self.now = self.env.step_and_maybe_reset(now)
            after = played.get("next")
            # The learner's view of the true next state, before any restart.
            next_value = learner.value(self.seats.view(after, LEARNER))
            self._write(t, now, decided, after, next_value)
            ended.count(after, self.seats, self._returns(after))
            paid += self.seats.rows({g: after.get((g, "reward_terms")) for g in GROUPS}).mean((0, 1))
        assert self.batch is not None
        return self.batch, {**ended.sums, "reward_terms": paid / self.decisions}

    def _returns(self, after: TensorDictBase) -> Tensor:
        """`[R / A]` what a mech earned on average in the battles that end now, 0 where the battle goes on."""
        reward = {g: after.get((g, "reward")).mean((1, 2)) for g in GROUPS}
        done = self.seats.each_team(after.get("done")[:, 0])
        earned = self.earned + self.seats.rows(reward)
        self.earned = torch.where(done, 0.0, earned)
        return torch.where(done, earned, 0.0)

    def _write(
        self, t: int, now: TensorDictBase, decided: TensorDictBase, after: TensorDictBase, next_value: Tensor
    ) -> None:
        mechs = decided.shape[1]

        def each(per_battle: Tensor) -> Tensor:
            """`[B, 1]` for every mech row: `[R, 1]`."""
            return self.seats.each_team(per_battle).repeat_interleave(mechs, 0)

        rewards = self.seats.rows({g: after.get((g, "reward")) for g in GROUPS})
        step = TensorDict(
            {
                "observation": decided.get("observation").select(*STREAMS).flatten(0, 1),
                "alive": decided.get("mask").flatten(0, 1),
                "is_init": each(now.get("is_init")),
                **{key: decided.get(key).flatten(0, 1) for key in RECORDED},
                "next": {
                    "state_value": next_value.flatten(0, 1),
                    "reward": rewards.flatten(0, 1),
                    "done": each(after.get("done")),
                    "terminated": each(after.get("terminated")),
                },
            },
            [decided.shape.numel()],
            device=self.env.device,
        )
        if self.batch is None:
            self.batch = self._allocate(step, decided)
        if t == 0:
            self.memory.copy_(decided.get("memory").flatten(0, 1))
        self.batch.select(*step.keys())[:, t] = step

    def _allocate(self, step: TensorDict, decided: TensorDictBase) -> TensorDict:
        """Buffers as the first step shows them; ordinary tensors, so that the update may differentiate."""
        with torch.inference_mode(False):
            rows = step.shape[0]

            def empty(leaf: Tensor) -> Tensor:
                return torch.zeros((rows, self.decisions, *leaf.shape[1:]), dtype=leaf.dtype, device=leaf.device)

            batch = step.apply(empty, batch_size=[rows, self.decisions])
            memory = decided.get("memory").flatten(0, 1)
            self.memory = memory.apply(torch.zeros_like)
            return batch.set("memory", self.memory[:, None].expand(rows, self.decisions))


def stagger(env: EchelonEnv) -> None:
    """Begin the first battles part-way through, so that they do not all end together.

    Battles that march in step show the learner one phase of the game at a time, and its values forget the others.
    Clock and both scores of each battle are set on by one share of their limits; its first observation still shows
    them at zero.
    """
    rules, state = env.config.rules, env.state
    share = noise.uniform(state.seed, 0, Stream.STAGGER, 1)[:, 0]
    decisions = (share * rules.max_decisions).long()
    env.state = state.replace(
        tick=decisions * rules.decision_repeat,
        score=(share * rules.zone_score_to_win_s)[:, None].expand_as(state.score).clone(),
    )


class Ended:
    """Sums over the battles that ended, kept on the device."""

    def __init__(self, device: torch.device) -> None:
        zero = torch.zeros((), device=device)
        self.sums = {name: zero.clone() for name in ("battles", "won", "lost", "decisions", "returns")}
        self.sums["stats"] = torch.zeros(len(STATS), device=device)

    def count(self, after: TensorDictBase, seats: Seats, returns: Tensor) -> None:
        """Add the battles that ended in this decision, one entry for each team the learner commands."""
        self.sums["returns"] += returns.sum()
        outcome = after.get("outcome")
        done = after.get("done")[:, 0].float()
        won, lost = seats.won_and_lost(outcome.get("winner")[:, 0])
        stats, decisions = outcome.get("stats"), outcome.get("decisions")[:, 0].float()
        self.sums["battles"] += seats.each_team(done).sum()
        self.sums["won"] += won.sum()
        self.sums["lost"] += lost.sum()
        self.sums["decisions"] += seats.each_team(decisions).sum()
        self.sums["stats"] += seats.rows({"blue": stats[:, 0], "red": stats[:, 1]}).sum(0)
