"""Collecting experience: T decisions of all battles into buffers made once."""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.env.env import EchelonEnv
from echelon.env.observation.layout import GROUPS, STREAMS
from echelon.env.reward import TERMS
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.opponents.assignment import LEARNER, PolicyAssignment
from echelon.learn.ppo.episode_stats import EpisodeStats
from echelon.runtime import noise
from echelon.runtime.noise import Stream
from echelon.runtime.profiling import Stopwatch, part

FLAGS = ("done", "terminated", "truncated")


class TeamCollector:
    """Plays the environment with the seats' policies and keeps what the learner needs.

    `batch [T, G]` holds the decisions of the G teams the learner commands, A mechs each: `("observation", stream) [T,
    G, A, *]`, `telemetry`, `alive`, `is_init`, `pre_tanh`, `log_prob`, `value` and, for a central critic, `enemy`, and
    under `next` `value`, `reward`, `done`, `terminated`, `truncated`. Values are the critic's own, normalised. `memory
    [T / chunk, G, A]` is what mechs remembered as each training sequence began. Streams are kept in the dtype the
    network computes in.

    TorchRL's `Collector` stores both groups, every step's memory and every observation twice; here one build of the
    observation is written once. The value of a next state is that of the following decision. Only where time was up is
    there none: those last observations are kept apart and judged after the rollout, and so is the moment it stops at.

    Args:
        chunk: decisions of a training sequence, a divisor of `decisions`.
    """

    def __init__(self, env: EchelonEnv, seats: PolicyAssignment, decisions: int, chunk: int) -> None:
        self.env = env
        self.seats = seats
        self.decisions = decisions
        self.chunk = chunk
        learner = seats.policies[LEARNER]
        assert isinstance(learner, ActorCritic)
        self.policy = learner
        self.scale = torch.ones(len(TERMS), device=env.device)
        """Factor on each term of the reward; numbers that a schedule may change."""
        self.mix = torch.ones((), device=env.device)
        """Factor on `RewardConfig.team_mix_alpha`, the same."""
        self.watch = Stopwatch(env.device)
        self.now = env.reset()
        stagger_episode_starts(env)
        teams = sum(part.stop - part.start for _, part in seats.places[LEARNER])
        self.earned = torch.zeros(teams, len(TERMS), device=env.device)
        rules = env.config.rules
        # Time is up at most so often in a battle's place.
        self.last_views = 0 if rules.time_up_terminates else (decisions - 1) // rules.max_decisions + 1
        self.batch: TensorDict | None = None

    @torch.inference_mode()
    def collect(self) -> tuple[TensorDict, TensorDict, dict[str, Tensor]]:
        """Play on for T decisions.

        Returns:
            The buffers `batch` and `memory`, valid until the next call, and sums over the battles that ended.
        """
        ended = EpisodeStats(self.env.device, self.seats)
        for t in range(self.decisions):
            now = self.now
            with part("act"):
                decided = self.seats.decide(now)
                value = self._judge(decided, now)
            self.watch.lap("act")
            played, self.now = self.env.step_and_maybe_reset(now)
            self.watch.lap("env")
            after = played.get("next")
            paid = self._pay(after)
            self._write(t, now, decided, value, paid.sum(-1), after)
            self._keep_last(t, after)
            self._count(ended, now, after, paid)
        assert self.batch is not None
        self._value_what_follows()
        self.watch.lap("act")
        return self.batch, self.memory, ended.sums

    def _judge(self, team: TensorDictBase, whole: TensorDictBase) -> Tensor:
        """`[G, A]` what the critic thinks of a decision."""
        own = team.get(("observation", "ego"))
        return self.policy.critic(team.get("embed"), own, self._enemy(whole))

    def _enemy(self, whole: TensorDictBase) -> Tensor | None:
        """`[G, E, F]` the state of every enemy, for a critic that may see it."""
        if self.policy.critic.gathering is None:
            return None
        return self.seats.facing({group: whole.get((group, "observation", "ego")) for group in GROUPS})

    def _pay(self, after: TensorDictBase) -> Tensor:
        """`[G, A, len(TERMS)]` what each term pays as the schedules have it now.

        The environment mixed each term with the mean of its team; mixing once more multiplies the shares.
        """
        terms = self.seats.rows({group: after.get((group, "reward_terms")) for group in GROUPS}) * self.scale
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
        flags = {name: self.seats.each_team(after.get(name))[:, 0] for name in FLAGS}
        step.update(
            {
                "alive": decided.get("mask"),
                "is_init": self.seats.each_team(now.get("is_init"))[:, 0],
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
            self.memory[t // self.chunk] = remembered_by(self.policy, decided)

    def _view_of(self, team: TensorDictBase, whole: TensorDictBase) -> TensorDict:
        """What the network needs of the learner's teams, batch `[G]`."""
        kept = self.policy.network.compute

        def small(leaf: Tensor) -> Tensor:
            return leaf if leaf.dtype == torch.bool else leaf.to(kept)

        streams = {name: small(team.get(("observation", name))) for name in STREAMS}
        view = TensorDict(
            {"observation": streams, "telemetry": small(team.get("telemetry")[:, 0])},
            team.shape[:1],
            device=self.env.device,
        )
        enemy = self._enemy(whole)
        return view if enemy is None else view.set("enemy", small(enemy))

    def _keep_last(self, t: int, after: TensorDictBase) -> None:
        """Keep what battles showed when their time was up, before the environment began others in their places."""
        if self.last_views == 0:
            return
        if t == 0:
            self.views_taken.zero_()
        up = self.seats.each_team(after.get("truncated"))[:, 0]
        seen = self.seats.view(after, LEARNER)
        fresh = self._view_of(seen, after).set("memory", remembered_by(self.policy, seen))
        for number, kept in enumerate(self.last.unbind(0)):
            here = up & (self.views_taken == number)
            kept.copy_(fresh.where(here, kept))
        self.views_taken += up

    def _value_what_follows(self) -> None:
        """Write `next.value`: the following decision's, or that of a view kept apart. Nothing follows a termination."""
        assert self.batch is not None
        following, value = self.batch.get(("next", "value")), self.batch.get("value")
        following[:-1] = value[1:]
        seen = self.seats.view(self.now, LEARNER)
        view = self._view_of(seen, self.now).set("memory", remembered_by(self.policy, seen))
        following[-1] = self._value_of(view)
        if self.last_views == 0:
            return
        up = self.batch.get(("next", "truncated"))
        number = up.cumsum(0) - 1
        for which, kept in enumerate(self.last.unbind(0)):
            there = up & (number == which)
            following.copy_(torch.where(there[..., None], self._value_of(kept), following))

    def _value_of(self, view: TensorDictBase) -> Tensor:
        """`[G, A]` value of a moment, changing nothing."""
        streams = tuple(view.get(("observation", name)) for name in STREAMS)
        h, c = view.get(("memory", "h")), view.get(("memory", "c"))
        _, _, embed, _ = self.policy.act(streams, view.get("telemetry"), h, c)
        return self.policy.critic(embed, view.get(("observation", "ego")), view.get("enemy", None))

    def _count(self, ended: EpisodeStats, now: TensorDictBase, after: TensorDictBase, paid: Tensor) -> None:
        """Add to the sums what this decision ended."""
        earned = self.earned + paid.mean(1)
        done = self.seats.each_team(after.get("done"))
        self.earned = torch.where(done, 0.0, earned)
        ended.count(now, after, torch.where(done, earned, 0.0))

    def _allocate(self, step: TensorDict, decided: TensorDictBase) -> None:
        """Buffers as the first step shows them; ordinary tensors, so that the update may differentiate."""
        with torch.inference_mode(False):

            def empty(times: int, like: TensorDictBase) -> TensorDict:
                def make(leaf: Tensor) -> Tensor:
                    return torch.zeros((times, *leaf.shape), dtype=leaf.dtype, device=leaf.device)

                return like.apply(make, batch_size=[times, *like.batch_size])

            self.batch = empty(self.decisions, step)
            memory = remembered_by(self.policy, decided)
            self.memory = empty(self.decisions // self.chunk, memory)
            view = step.select("observation", "telemetry", "enemy", strict=False)
            self.last = empty(self.last_views, view.set("memory", memory))
            self.views_taken = torch.zeros(step.shape[0], dtype=torch.int64, device=self.env.device)


def remembered_by(policy: ActorCritic, team: TensorDictBase) -> TensorDict:
    """`[G]` what the learner's mechs remember: `h` and `c` `[G, A, hidden]`."""
    h, c = policy.state(team)
    return TensorDict({"h": h, "c": c}, h.shape[:1], device=h.device)


def stagger_episode_starts(env: EchelonEnv) -> None:
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
