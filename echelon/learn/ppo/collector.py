"""Collects rollouts of T decisions into preallocated buffers."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.ppo.episode_stats import EpisodeStats
from echelon.runtime import noise
from echelon.runtime.noise import Stream
from echelon.runtime.profiling import Stopwatch, part

FLAGS = ("done", "terminated", "truncated")


class TeamCollector:
    """Steps the environment with the policies of a `PolicyAssignment` and stores the learner's part.

    `batch [T, G]` holds the decisions of the G teams the learner commands, A mechs each: `("observation", stream) [T,
    G, A, *]`, `telemetry`, `alive`, `is_init`, `pre_tanh`, `log_prob`, `value` and, for a central critic, `enemy`, and
    under `next` `value`, `reward`, `done`, `terminated`, `truncated`. Values are the critic's own, normalised. `memory
    [T / chunk, G, A]` is the recurrent state at the start of each training sequence. Streams are stored in the dtype of
    the forward pass.

    TorchRL's `Collector` stores both groups, every step's memory and every observation twice; here each observation
    is written once. The value of a next state is that of the following decision. Truncated battles and the last step of
    the rollout have no following decision: their final observations are stored separately and evaluated after the
    rollout.

    Args:
        env: the environment; it is reset here.
        assignment: the policies; that of the learner must be an `ActorCritic`.
        decisions: length T of a rollout.
        chunk: length of a training sequence, a divisor of `decisions`.
    """

    def __init__(self, env: EchelonEnv, assignment: PolicyAssignment, decisions: int, chunk: int) -> None:
        self.env = env
        self.assignment = assignment
        self.decisions = decisions
        self.chunk = chunk
        learner = assignment.policies[LEARNER]
        assert isinstance(learner, ActorCritic)
        self.policy = learner
        self.scale = torch.ones(len(env.reward_terms), device=env.device)
        """`[K]` factor on each reward term, set by schedules."""
        self.mix = torch.ones((), device=env.device)
        """`[]` factor on `RewardConfig.team_mix_alpha`, set by a schedule."""
        self.watch = Stopwatch(env.device)
        self.now = env.reset()
        stagger_episode_starts(env)
        teams = sum(part.stop - part.start for _, part in assignment.teams[LEARNER])
        self.earned = torch.zeros(teams, len(env.reward_terms), device=env.device)
        rules = env.config.rules
        # Upper bound on truncations per environment in one rollout.
        self.last_views = 0 if rules.time_up_terminates else (decisions - 1) // rules.max_decisions + 1
        self.batch: TensorDict | None = None

    @torch.inference_mode()
    def collect(self) -> tuple[TensorDict, TensorDict, dict[str, Tensor]]:
        """Continue all battles for T decisions.

        Returns:
            The buffers `batch` and `memory`, valid until the next call, and the sums of `EpisodeStats`.
        """
        ended = EpisodeStats(self.env.device, self.assignment, len(self.env.reward_terms))
        for t in range(self.decisions):
            now = self.now
            with part("act"):
                decided = self.assignment.decide(now)
                value = self._value(decided, now)
            self.watch.lap("act")
            played, self.now = self.env.step_and_maybe_reset(now)
            self.watch.lap("env")
            after = played.get("next")
            reward_terms = self._reward_terms(after)
            self._write(t, now, decided, value, reward_terms.sum(-1), after)
            self._store_final_views(t, after)
            self._count(ended, now, after, reward_terms)
        assert self.batch is not None
        self._bootstrap_values()
        self.watch.lap("act")
        return self.batch, self.memory, ended.sums

    def _value(self, team: TensorDictBase, whole: TensorDictBase) -> Tensor:
        """`[G, A]` normalised values of the current decision."""
        own = team.get(("observation", "ego"))
        return self.policy.critic(team.get("embed"), own, self._enemy(whole))

    def _enemy(self, whole: TensorDictBase) -> Tensor | None:
        """`[G, E, F]` ego streams of the enemies for a central critic, None for a local one."""
        if self.policy.critic.gathering is None:
            return None
        return self.assignment.enemy_rows({group: whole.get((group, "observation", "ego")) for group in GROUPS})

    def _reward_terms(self, after: TensorDictBase) -> Tensor:
        """`[G, A, K]` reward terms with the scheduled factors.

        The environment has mixed each term with its team mean by `team_mix_alpha`; mixing again multiplies the shares.
        """
        terms = self.assignment.rows({group: after.get((group, "reward_terms")) for group in GROUPS}) * self.scale
        return torch.lerp(terms.mean(1, keepdim=True).expand_as(terms), terms, self.mix)

    def _write(
        self,
        t: int,
        now: TensorDictBase,
        decided: TensorDictBase,
        value: Tensor,
        reward: Tensor,
        after: TensorDictBase,
    ) -> None:
        step = self._view_of(decided, now)
        flags = {name: self.assignment.each_team(after.get(name))[:, 0] for name in FLAGS}
        step.update(
            {
                "alive": decided.get("mask"),
                "is_init": self.assignment.each_team(now.get("is_init"))[:, 0],
                "pre_tanh": decided.get("pre_tanh"),
                "log_prob": decided.get("log_prob"),
                "value": value,
                "next": {"value": torch.zeros_like(value), "reward": reward, **flags},
            }
        )
        if self.batch is None:
            self._allocate(step, decided)
        assert self.batch is not None
        self.batch[t] = step
        if t % self.chunk == 0:
            self.memory[t // self.chunk] = recurrent_state(self.policy, decided)

    def _view_of(self, team: TensorDictBase, whole: TensorDictBase) -> TensorDict:
        """Network inputs of the learner's teams, batch `[G]`, in the dtype of the forward pass."""
        dtype = self.policy.network.compute

        def cast(leaf: Tensor) -> Tensor:
            return leaf if leaf.dtype == torch.bool else leaf.to(dtype)

        streams = {name: cast(team.get(("observation", name))) for name in STREAMS}
        view = TensorDict(
            {"observation": streams, "telemetry": cast(team.get("telemetry")[:, 0])},
            team.shape[:1],
            device=self.env.device,
        )
        enemy = self._enemy(whole)
        return view if enemy is None else view.set("enemy", cast(enemy))

    def _store_final_views(self, t: int, after: TensorDictBase) -> None:
        """Store the final observations of truncated battles, which the environment has already reset."""
        if self.last_views == 0:
            return
        if t == 0:
            self.views_taken.zero_()
        truncated = self.assignment.each_team(after.get("truncated"))[:, 0]
        seen = self.assignment.view(after, LEARNER)
        fresh = self._view_of(seen, after).set("memory", recurrent_state(self.policy, seen))
        for number, stored in enumerate(self.last.unbind(0)):
            here = truncated & (self.views_taken == number)
            stored.copy_(fresh.where(here, stored))
        self.views_taken += truncated

    def _bootstrap_values(self) -> None:
        """Write `next.value`: the value of the following decision, or of a stored final view."""
        assert self.batch is not None
        following, value = self.batch.get(("next", "value")), self.batch.get("value")
        following[:-1] = value[1:]
        seen = self.assignment.view(self.now, LEARNER)
        view = self._view_of(seen, self.now).set("memory", recurrent_state(self.policy, seen))
        following[-1] = self._value_of(view)
        if self.last_views == 0:
            return
        truncated = self.batch.get(("next", "truncated"))
        number = truncated.cumsum(0) - 1
        for which, stored in enumerate(self.last.unbind(0)):
            there = truncated & (number == which)
            following.copy_(torch.where(there[..., None], self._value_of(stored), following))

    def _value_of(self, view: TensorDictBase) -> Tensor:
        """`[G, A]` normalised values of a view, without side effects."""
        streams = tuple(view.get(("observation", name)) for name in STREAMS)
        h, c = view.get(("memory", "h")), view.get(("memory", "c"))
        _, _, embed, _ = self.policy.act(streams, view.get("telemetry"), h, c)
        return self.policy.critic(embed, view.get(("observation", "ego")), view.get("enemy", None))

    def _count(self, ended: EpisodeStats, now: TensorDictBase, after: TensorDictBase, reward_terms: Tensor) -> None:
        """Add the battles that this decision ended to the sums."""
        earned = self.earned + reward_terms.mean(1)
        done = self.assignment.each_team(after.get("done"))
        self.earned = torch.where(done, 0.0, earned)
        ended.count(now, after, torch.where(done, earned, 0.0))

    def _allocate(self, step: TensorDict, decided: TensorDictBase) -> None:
        """Allocate buffers shaped like the first step, as ordinary tensors: inference tensors cannot enter autograd."""
        with torch.inference_mode(False):

            def empty(times: int, like: TensorDictBase) -> TensorDict:
                def make(leaf: Tensor) -> Tensor:
                    return torch.zeros((times, *leaf.shape), dtype=leaf.dtype, device=leaf.device)

                return like.apply(make, batch_size=[times, *like.batch_size])

            self.batch = empty(self.decisions, step)
            memory = recurrent_state(self.policy, decided)
            self.memory = empty(self.decisions // self.chunk, memory)
            view = step.select("observation", "telemetry", "enemy", strict=False)
            self.last = empty(self.last_views, view.set("memory", memory))
            self.views_taken = torch.zeros(step.shape[0], dtype=torch.int64, device=self.env.device)


def recurrent_state(policy: ActorCritic, team: TensorDictBase) -> TensorDict:
    """Recurrent state of the learner's mechs, batch `[G]`: `h` and `c` `[G, A, hidden]`."""
    h, c = policy.state(team)
    return TensorDict({"h": h, "c": c}, h.shape[:1], device=h.device)


def stagger_episode_starts(env: EchelonEnv) -> None:
    """Start the first battles part-way through, so that they do not all end together.

    Synchronous battles would show the learner one phase of the game at a time, and the critic would forget the others.
    Clock and both scores of each battle advance by the same random share of their limits; the first observation still
    has them at zero.
    """
    rules, state = env.config.rules, env.state
    share = noise.uniform(state.seed, 0, Stream.STAGGER, 1)[:, 0]
    decisions = (share * rules.max_decisions).long()
    env.state = state.replace(
        tick=decisions * rules.decision_repeat,
        score=(share * rules.zone_score_to_win_s)[:, None].expand_as(state.score).clone(),
    )
