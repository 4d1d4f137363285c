"""Plays battles between arbitrary policies in batches. The command `arena.py play`, evaluations and leagues use this
module.

The course of a battle depends only on its seed, its two policies and the settings (precision, compiled or not). The
actions of an `ActorCritic` are sampled by `echelon.runtime.noise` from the seed of the battle. On a CPU and without
compilation, the result of a battle is bit-identical in every batch, whatever the size and the other battles of the
batch. If a policy that is not an `ActorCritic` samples from torch's global generator, all battles of the batch share
that random stream.
"""

from __future__ import annotations

import functools
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type

from echelon.agents.env_teams import pad_mechs
from echelon.agents.runner import SharedTeam, TeamObservation, TeamSeat, action_noise
from echelon.agents.seating import RunnerMaker, check_policy, keeps_memory
from echelon.agents.stacked import SLOTS, StackedPolicies, is_stackable
from echelon.agents.team_policy import TeamPolicy, reads_action_mask, reads_factor_mask
from echelon.arena.config import COMPUTE, ArenaConfig, check_settings
from echelon.arena.pack_commanders import BatchOrders
from echelon.arena.until_done import run_until_done
from echelon.arena.value_estimates import ValueEstimates
from echelon.env import rehearsal
from echelon.env.arguments import one_seed
from echelon.env.blocks import one_thread
from echelon.env.discrete import COMPOSITES, ActionMasks, factors
from echelon.env.env import EchelonEnv
from echelon.env.footprint import require_memory
from echelon.env.form import Backend
from echelon.env.leaves import Shown
from echelon.env.observation import layout
from echelon.env.observation.layout import GROUPS
from echelon.env.outcome import Reason, Winner
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.runtime.allocator import keep_freed_memory
from echelon.runtime.device import processor_name
from echelon.runtime.errors import require
from echelon.runtime.jit import loops_on
from echelon.runtime.shared_modes import full_products, kept_generators
from echelon.state import Maps
from echelon.world.authored_maps import maps_of
from echelon.world.splits import placed_seed

Policies = Callable[[str], "TeamPolicy | SharedTeam"]
"""Maps a name to a policy in evaluation mode, or to the two policies of a shared team."""


class StepSink(Protocol):
    """Interface of objects that store the steps of battles, for example `echelon.datasets.dataset.DatasetWriter`."""

    def begin(self, battles: Sequence[Battle]) -> None:
        """Start a batch of `battles`; steps may contain more battles after these, which are padding."""

    def step(self, stepped: TensorDictBase, running: Tensor) -> None:
        """Store one decision of each battle where `running [B]` is True; `stepped` has batch `[B]` and a `next`
        entry.
        """

    def end(self, outcome: TensorDictBase) -> None:
        """Finish the batch; `outcome` is the result of `run_until_done`."""


class Battle(NamedTuple):
    """A battle to play between two named policies."""

    blue: str
    """Name of the policy that commands the blue team."""
    red: str
    """Name of the policy that commands the red team."""
    seed: int
    """Seed of the battle, as in `EchelonEnv(seed=...)`."""


class BattleResult(NamedTuple):
    """Result of one battle."""

    winner: Winner
    reason: Reason
    score: list[float]
    """Seconds of zone control, `[blue, red]`."""
    decisions: int
    """Length of the battle in decisions."""
    idle_s: float
    """Seconds before its end in which no team did damage or scored."""
    stats: list[list[float]]
    """Per side (blue, red), the values of `echelon.env.outcome.stat_names`."""
    state_hash: str
    """Hash of the final state as 16 hexadecimal digits, see `echelon.arena.fingerprint.state_hash`."""


@dataclass(frozen=True)
class BatchResult:
    """Results of a batch of battles, in the order of the batch."""

    results: list[BattleResult]
    seconds: float
    """Wall-clock time of the whole batch."""

    def __len__(self) -> int:
        return len(self.results)


class BatchArena:
    """Plays battles between policies in batches. Later batches of the same size reuse the environment.

    Args:
        policies: maps a name to its policy; called once per name and batch.
        settings: batch size, precision and compilation; each `auto` or None is resolved for the device. With
            compilation, batches are padded to a power of two that never decreases, and networks run on chunks of a
            fixed size, so that few graphs are compiled. A batch is not captured as a CUDA graph if it is recorded or
            stored, or contains a policy without `graph_key`.
    """

    def __init__(self, env: EnvConfig, policies: Policies, settings: ArenaConfig) -> None:
        check_settings(settings)
        require_memory(env, 1, settings.device)
        self.config, self.policies, self.device = env, policies, settings.device
        self.settings = settings = settings.definite(env.rules.max_decisions)
        self.compute = COMPUTE[settings.precision]
        self.processor = processor_name(self.device)
        """Name of the GPU, or the kind of CPU."""
        self.make_batch: Callable[[BatchArena, Sequence[Battle], Recorder | None], MatchBatch] = MatchBatch
        """Creates the object that plays a batch; `echelon.arena.branches` replaces it."""
        self.on_progress: Callable[[float], None] | None = None
        """Called during a batch with the number of battles played since the last call, as a fraction while battles run.
        The numbers of a batch add up to its size."""
        self.orders: Tensor | None = None
        """`[K, P, D]` orders of commanders to packs in every battle, see `echelon.replay.battle.Battle.commands`."""
        self._env: EchelonEnv | None = None
        self.deciders = RunnerMaker(self.device, self.compute, settings.compiled is True)

    @property
    def setup(self) -> dict[str, Any]:
        """Device, precision and compilation with which results are computed, as JSON values."""
        return {"device": self.processor, **self.settings.as_json()}

    @functools.cached_property
    def maps(self) -> Maps:
        return maps_of(self.config, self.device)

    def play_all(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> Iterator[BatchResult]:
        """Play any number of battles and yield one result per batch, in order.

        Args:
            recorder: records some battles of the first batch; indices beyond that batch are dropped.
        """
        ended: dict[int, BatchResult] = {}
        first = 0
        for start, batch_result in self.play_batches(battles, recorder, sink):
            ended[start] = batch_result
            while first in ended:
                yield (batch_result := ended.pop(first))
                first += len(batch_result)

    def play_batches(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> Generator[tuple[int, BatchResult], None, None]:
        """Play any number of battles; for each finished batch, yield the index of its first battle and its result.

        Only the first batch can be recorded.
        """
        for start in range(0, len(battles), self.settings.batch):
            yield start, self.play(battles[start : start + self.settings.batch], recorder, sink)
            recorder = None

    def play(
        self, battles: Sequence[Battle], recorder: Recorder | None = None, sink: StepSink | None = None
    ) -> BatchResult:
        """Play one batch.

        Args:
            battles: between 1 and `settings.batch` battles.
        """
        most = self.settings.batch
        require(1 <= len(battles) <= most, "battles of a batch", f"1..{most}", len(battles))
        split = self.config.split
        battles = [battle._replace(seed=placed_seed(one_seed(battle.seed), split)) for battle in battles]
        start_s = time.perf_counter()
        if self.device.type == "cpu":
            keep_freed_memory()
        if recorder is not None:
            require(isinstance(recorder, Recorder), "recorder", "a Recorder", recorder)
            recorder.battles = [battle_index for battle_index in recorder.battles if battle_index < len(battles)]
            require(len(recorder.battles) > 0, "battles to record", f"below {len(battles)}, the batch size", "none")
        # A custom policy may sample from torch's global generator, so restore the caller's generator state afterwards.
        # Networks compute in the precision `compute`, so the caller's autocast is disabled.
        with (
            kept_generators(self.device),
            full_products(self.device),
            torch.inference_mode(),
            torch.autocast(self.device.type, enabled=False),
            set_exploration_type(ExplorationType.RANDOM),
        ):
            batch = self.make_batch(self, battles, recorder)
            torch.manual_seed(battles[0].seed)
            # CPU threads split the battles and networks; a multi-threaded operation would wait for the slowest thread.
            with one_thread(self.device):
                outcome = batch.play(sink, self.on_progress)
        return BatchResult(to_results(outcome), time.perf_counter() - start_s)

    def env_of(self, count: int, recorder: Recorder | None) -> EchelonEnv:
        """Return an environment for `count` battles, or more if compiled graphs require a larger batch."""
        current, size = self._env, count
        if self.settings.compiled:
            size = min(
                self.settings.batch, max(1 << (count - 1).bit_length(), 0 if current is None else current.num_envs)
            )
        if recorder is None and current is not None and current.num_envs == size:
            return current
        self._env = None
        with torch.inference_mode(False):
            backend: Backend = "auto" if self.settings.compiled or loops_on(self.device) else "eager"
            env = EchelonEnv(self.config, size, self.device, seed=0, maps=self.maps, backend=backend, observer=recorder)
            if rehearsal.should_rehearse(env):
                rehearsal.rehearse(env)
        if recorder is None:
            self._env = env
        return env


def slot_index(battle: Battle, side: int) -> int:
    """Return a team's slot in a block of `SLOTS` teams of one policy: a hash of battle and side, so blocks fill
    evenly.
    """
    return zlib.crc32(f"{battle.blue} {battle.red} {battle.seed} {side}".encode(errors="surrogatepass")) % SLOTS


class MatchBatch:
    """A batch of battles in progress: the environment and the policies of all teams.

    Args:
        policy_of: maps a name to a policy; by default `arena.policies`.
    """

    def __init__(
        self,
        arena: BatchArena,
        battles: Sequence[Battle],
        recorder: Recorder | None = None,
        policy_of: Policies | None = None,
    ) -> None:
        self.battles, self.arena, self.policy_of = battles, arena, policy_of or functools.cache(arena.policies)
        self.env = arena.env_of(len(battles), recorder)
        self.sizes = (len(arena.config.blue), len(arena.config.red))
        self.mechs = max(self.sizes)
        """Mechs of the larger team, A; the other team is padded to it."""
        count, device = self.env.num_envs, arena.device
        # The batch is padded to full size with battles of seed 0, in which all actions are zero.
        self.seeds = torch.tensor([battle.seed for battle in battles] + [0] * (count - len(battles)), device=device)
        slots, policies = self._teams(count)
        for name, policy in policies.items():
            check_policy(name, policy, self.env)
        alone = [policy for policy in policies.values() if not is_stackable(policy)]
        any_reads = any(reads_action_mask(policy) or reads_factor_mask(policy) for policy in alone)
        masked = (COMPOSITES, *factors(self.env.config.comm_dim))
        self.action_masks = ActionMasks(self.env.sim_model, masked) if any_reads else None
        self.pack_commanders = BatchOrders.of(policies, slots, count)
        self.threads = torch.get_num_threads()
        self.runner = arena.deciders.runner(policies, slots, self.sizes, count)
        self.recorder, self.estimates = recorder, None
        stacked = [decider for decider in self.runner.deciders.values() if isinstance(decider, StackedPolicies)]
        if recorder is not None and stacked and not self.runner.is_shared:
            self.estimates = ValueEstimates(stacked, recorder.battles, self.sizes, count)

    def _teams(self, count: int) -> tuple[dict[str, list[TeamSeat]], dict[str, TeamPolicy]]:
        """Return two dicts keyed by policy name: the teams or parts of teams that the policy commands, and the
        policy.
        """
        with torch.inference_mode(False):
            names = dict.fromkeys(name for battle in self.battles for name in (battle.blue, battle.red))
            by_name = {name: self.policy_of(name) for name in names}
            policies = {name: policy for name, policy in by_name.items() if not isinstance(policy, SharedTeam)}
            shared = {name: team for name, team in by_name.items() if isinstance(team, SharedTeam)}
            for member in dict.fromkeys(member for team in shared.values() for member in (team.own, team.rest)):
                if member not in policies:
                    policies[member] = self.policy_of(member)  # type: ignore[assignment]
        slots: dict[str, list[TeamSeat]] = defaultdict(list)
        for b, battle in enumerate(self.battles):
            for side, name in enumerate((battle.blue, battle.red)):
                members = shared[name].members(self.sizes[side]) if name in shared else {name: None}
                for member, mechs in members.items():
                    slots[member].append(TeamSeat(b + side * count, slot_index(battle, side), mechs))
        return slots, policies

    def graph_key(self) -> Hashable | None:
        """Return a key under which a CUDA graph can be reused: all that decisions depend on, except tensors updated in
        place. None if unknown.
        """
        return self.runner.graph_key()

    def play(
        self, sink: StepSink | None = None, on_progress: Callable[[float], object] | None = None
    ) -> TensorDictBase:
        """Play all battles to their end; return the result of `run_until_done`, `[len(battles)]`."""
        if sink is None:
            can_capture = self.arena.settings.cuda_graph and self.recorder is None and self.graph_key() is not None
            key = self.graph_key if can_capture else None
            narrow = functools.partial(narrow_to, self) if type(self) is MatchBatch and can_narrow(self) else None
            in_leaves = key is None and type(self) is MatchBatch
            run = functools.partial(
                run_until_done, on_progress=on_progress, graph_key=key, narrow=narrow, in_leaves=in_leaves
            )
            return run(self.env, self.reset_battles(), self._decide, len(self.battles))
        sink.begin(self.battles)
        outcome = run_until_done(
            self.env, self.reset_battles(), self._decide, len(self.battles), sink.step, on_progress
        )
        sink.end(outcome)
        return outcome

    def reset_battles(self) -> TensorDictBase:
        """Reset the battles and return their observation."""
        self.env.set_seed(self.seeds)
        return self.env.reset()

    def _decide(self, td: Shown, decision: Tensor | int) -> None:
        """Write the actions of all teams into `td`."""
        if self.arena.orders is not None:
            command_packs(self.env, self.arena.orders, td, decision)
        elif self.pack_commanders is not None:
            self.pack_commanders.write(self.env, td, int(decision))
        count, width = self.env.num_envs, layout.action_width(self.env.config.comm_dim)
        normals = action_noise(self.seeds, decision, sum(self.sizes), width)
        masks = None if self.action_masks is None else self.action_masks(self.env.state).split(self.sizes, 1)
        telemetry = torch.cat([td.get(("telemetry",))] * 2)
        observation = TeamObservation.from_groups(td, self._rows, telemetry, normals.split(self.sizes, 1), masks)
        action = self.runner(observation)
        for group, group_action, mechs in zip(GROUPS, action.split(count), self.sizes, strict=True):
            td[group, "action"] = group_action[:, :mechs]
        if self.recorder is not None and self.estimates is not None:
            self.recorder.expect(self.estimates(observation))

    def _rows(self, *sides: Tensor) -> Tensor:
        """Pad and join the values of both teams, `[B, A_g, ...]` each, to `[2B, A, ...]`."""
        return torch.cat([pad_mechs(side, self.mechs) for side in sides])


def command_packs(env: EchelonEnv, orders: Tensor, td: Shown, decision: Tensor | int) -> None:
    """Write into `td` the orders that the pack commanders of a recorded battle gave for a decision.

    Args:
        orders: recorded orders, `[K, P, D]`, see `BatchArena.orders`.
        decision: index of the decision in its battle, a number or `[B]`.
    """
    number = torch.as_tensor(decision, device=env.device).expand(env.num_envs) // env.config.command.period
    silence = torch.zeros_like(orders[:1])
    team_orders = torch.cat((orders, silence))[number.clamp_max(len(orders))]
    sizes = [len(packs) for packs in env.command_map.values()]
    for group, group_orders in zip(env.command_map, team_orders.split(sizes, 1), strict=True):
        td[group, "action"] = group_orders[..., : env.action_spec[group, "action"].shape[-1]]


def to_results(outcome: TensorDictBase) -> list[BattleResult]:
    """Convert the tensors returned by `run_until_done` to one `BattleResult` per battle."""
    host = {name: value.tolist() for name, value in outcome.items()}
    return [
        BattleResult(
            winner=Winner(host["winner"][b][0]),
            reason=Reason(host["reason"][b][0]),
            score=host["score"][b],
            decisions=host["decisions"][b][0],
            idle_s=host["idle_s"][b][0],
            stats=host["stats"][b],
            state_hash=f"{host['state_hash'][b][0] & (1 << 64) - 1:016x}",
        )
        for b in range(len(outcome))
    ]


def can_narrow(batch: MatchBatch) -> bool:
    """Return whether ended battles can leave the batch: no graph fixes the batch size, and the commanders' whole state
    is in memory tensors.
    """
    is_free = loops_on(batch.arena.device) and not batch.arena.settings.compiled and batch.recorder is None
    return is_free and not batch.runner.is_shared and all(map(keeps_memory, batch.runner.deciders.values()))


def narrow_to(batch: MatchBatch, left: Tensor) -> tuple[EchelonEnv, TensorDictBase]:
    """Drop all battles except those at the indices `left [R]` int64, between two decisions; the course of the remaining
    battles does not change by a bit.

    Returns:
        The environment and the observation of the remaining battles.
    """
    count, states = batch.env.num_envs, batch.env.get_state(left)
    memories = batch.runner.memories()
    with one_thread(batch.arena.device, batch.threads):
        rest = type(batch)(batch.arena, [batch.battles[b] for b in left.tolist()], None, batch.policy_of)
    running, places = len(left), left.tolist()
    rest.runner.remember(lambda row: memories[row // running * count + places[row % running]])
    batch.battles, batch.env, batch.seeds, batch.runner = rest.battles, rest.env, rest.seeds, rest.runner
    batch.action_masks = rest.action_masks
    return batch.env, batch.env.set_state(states)
