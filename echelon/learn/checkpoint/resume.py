"""Resume a run: check its settings, restore the optimiser, and restore the running battles of a collector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from echelon.env.battle_states import MAX_TICK, index_limits
from echelon.env.blocks import no_grad_outside_inference_mode
from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.format import LEARNER, METADATA, Checkpoint
from echelon.learn.config import TrainConfig
from echelon.learn.levels import LevelScores
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.ppo.collector import TeamCollector
from echelon.rules.config_json import as_json, flat, typed
from echelon.rules.versions import completed
from echelon.runtime.errors import require
from echelon.runtime.files import FileError, as_file_error, expect
from echelon.runtime.json_checks import integer, of_type
from echelon.runtime.limits import hints_of
from echelon.runtime.tensor_files import StateDict, check_tensors
from echelon.state import Maps, State, Terrain, initial_terrain, leaves_of, with_leaves
from echelon.world.splits import seed_range

OF_PROCESS = ("run_dir", "resume", "device", "threads", "profile", "dashboard", "dashboard_port")
"""Settings of one process and machine, which are not part of the run."""


def stored_config(start: Checkpoint) -> TrainConfig:
    """Return the config of the run that wrote a checkpoint; missing settings get their default."""
    hints = hints_of(TrainConfig)
    with as_file_error(METADATA):
        values = completed(TrainConfig, start.metadata["settings"])
        for name, value in values.items():
            is_known = name in hints and name not in ("env", "model")
            require(is_known, f"settings.{name}", "absent, because this version of Echelon has no such setting", value)
        settings = {name: typed(hints[name], value, f"settings.{name}", strict=True) for name, value in values.items()}
        return TrainConfig(env=start.env, model=start.model, **settings)


def changed_settings(config: TrainConfig, start: Checkpoint) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from the resumed checkpoint, keyed by dotted name; each value is the pair of the
    old and the new JSON value. The result is empty if the checkpoint does not belong to a run.
    """
    if not start.metadata["settings"]:
        return {}
    ignored = ("env", "model", *OF_PROCESS)
    before, now = (
        flat({name: value for name, value in as_json(run, whole=True).items() if name not in ignored})
        for run in (stored_config(start), config)
    )
    return {name: (before[name], value) for name, value in now.items() if before[name] != value}


def find_changes(config: TrainConfig, start: Checkpoint) -> tuple[dict[str, tuple[Any, Any]], list[dict[str, Any]]]:
    """Return `changed_settings`, and the list of all changes of the run in the form of `Checkpoint.changes`. The new
    changes are in this list only if the run had finished an iteration before this resume.
    """
    changed, since = changed_settings(config, start), start.counters.iterations + 1
    known = {change["setting"] for change in start.changes if change["since"] == since}
    new = {name: before for name, (before, _) in changed.items() if since > 1 and name not in known}
    entries = [{"since": since, "setting": name, "before": before} for name, before in new.items()]
    return changed, [*start.changes, *entries]


def optimizer_tensors(policy: ActorCritic, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors, `optimizer.<parameter>.<entry>`."""
    return {
        f"optimizer.{name}.{entry}": value
        for name, parameter in policy.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(policy: ActorCritic, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state saved by `optimizer_tensors` on each parameter's device.

    An empty dict is valid: an optimiser has no state before its first step.
    """
    if not tensors:
        return
    expected: dict[str, Tensor] = {}
    for name, parameter in policy.named_parameters():
        detached = parameter.detach().cpu()
        expected |= {f"optimizer.{name}.{entry}": detached for entry in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{name}.step"] = torch.zeros((), dtype=torch.float32, device="cpu")
    check_tensors(LEARNER, tensors, expected)
    for name, parameter in policy.named_parameters():
        prefix = f"optimizer.{name}."
        # Fused Adam needs its step counter on the parameter's device, independent of the checkpoint's device.
        optimizer.state[parameter] = {
            entry: tensors[f"{prefix}{entry}"].to(parameter.device) for entry in ("step", "exp_avg", "exp_avg_sq")
        }


GROUND, LEVELS = "terrain", "levels"


class EnvSnapshot:
    """Snapshot of the running battles: state, observations, recurrent memory, returns so far, seeds of the next
    battles, and the map pool.

    Terrain is stored as its sparse difference from the map; the difference takes at most a tenth of the full size.
    """

    def __init__(self, collector: TeamCollector, levels: LevelScores | None = None) -> None:
        self.collector, self.levels = collector, levels

    def state_dict(self) -> StateDict:
        """Return the current state, valid until the next rollout; call this between rollouts."""
        env, map_pool = self.collector.env, self.collector.env.map_pool
        tensors = {f"state.{key}": value for key, value in leaves_of(env.state).items()}
        tensors |= {f"now.{key}": value for key, value in current_step(self.collector).items()}
        tensors |= {f"{GROUND}.{key}": value for key, value in terrain_diff(env.state, env.sim_model.maps).items()}
        tensors |= {"next_seed": env.next_seed, "earned": self.collector.earned, "map_seeds": env.sim_model.maps.seed}
        scores = {} if self.levels is None else self.levels.tensors
        tensors |= {f"{LEVELS}.{key}": value for key, value in scores.items()}
        facts = {
            "drawn": map_pool.active.tolist(),
            "spares": list(map_pool.spares),
            "renewals": map_pool.renewals,
            "oldest": map_pool.oldest,
            **({"weighted": map_pool.map_slots.tolist()} if map_pool.is_weighted else {}),
        }
        return StateDict(tensors, facts)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the battles in the collector's environment, which must have the same config."""
        collector, env = self.collector, self.collector.env
        maps = env.sim_model.maps
        expected = {f"state.{key}": value for key, value in leaves_of(env.state).items()}
        expected |= {f"now.{key}": value for key, value in current_step(collector).items()}
        expected |= {"next_seed": env.next_seed, "earned": collector.earned, "map_seeds": maps.seed}
        sparse = {prefix: parts_of(state_dict.tensors, prefix) for prefix in (GROUND, LEVELS)}
        dense = StateDict(
            {key: value for key, value in state_dict.tensors.items() if key.partition(".")[0] not in sparse},
            state_dict.facts,
            state_dict.name,
        )
        dense.check(expected)
        check_indices(dense, env)
        with no_grad_outside_inference_mode():
            self._restore_maps(dense, sparse[LEVELS])
            tensors = {key: value.to(env.device) for key, value in dense.tensors.items()}
            state = with_leaves(env.state, {key: tensors[f"state.{key}"] for key in leaves_of(env.state)})
            difference = {key: value.to(env.device) for key, value in sparse[GROUND].items()}
            env.state = state.replace(
                terrain=apply_terrain_diff(initial_terrain(state.map_id, maps), difference, state_dict.name)
            )
            env.next_seed = tensors["next_seed"]
            collector.earned.copy_(tensors["earned"])
            collector.resume_from({tuple(key.split(".")): tensors[f"now.{key}"] for key in current_step(collector)})

    def _restore_maps(self, stored: StateDict, scored: Mapping[str, Tensor]) -> None:
        """Restore the map pool, and the map scores if both this run and the checkpoint use them."""
        map_pool, levels = self.collector.env.map_pool, self.levels
        active = stored.row("drawn", of_type(int), len(map_pool.active))
        spares = stored.row("spares", of_type(int), len(map_pool.spares))
        expected = sorted(map_pool.active.tolist() + map_pool.spares)
        if sorted(active + spares) != expected:
            often = f"{len(expected)} maps once" if len(set(expected)) == len(expected) else "position by its weight"
            raise FileError(f"{stored.name}.drawn and .spares must name each of {often}, got {active}, {spares}")
        renewals = stored.fact("renewals", integer(0, MAX_TICK))
        oldest = stored.fact("oldest", integer(0, len(active) - 1))
        # If the map scores are dropped, also drop the map weights that were computed from them.
        is_weighted = "weighted" in stored.facts and (levels is not None or not scored)
        weighted = stored.row("weighted", of_type(int), len(map_pool.map_slots)) if is_weighted else None
        if not set(weighted or active) <= set(active):
            raise FileError(f"{stored.name}.weighted must name maps of {active}, got {sorted(set(weighted or ()))}")
        map_pool.restore(stored.tensors["map_seeds"], active, spares, renewals, oldest, weighted)
        if levels is not None and scored:
            levels.restore(StateDict(scored, name=f"{stored.name}: {LEVELS}"))


def parts_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors named `PART.NAME`, keyed by `NAME`."""
    split_keys = {key.partition("."): value for key, value in tensors.items()}
    return {name: value for (owner, _, name), value in split_keys.items() if owner == part}


def current_step(collector: TeamCollector) -> dict[str, Tensor]:
    """Return the inputs of the next decision, keyed by dotted name, without the previous action, rewards and
    outcome."""
    flat = collector.current.flatten_keys(".")
    return {
        key: value
        for key, value in flat.items()
        if not (key.endswith((".action", ".reward_terms")) or key.startswith("outcome."))
    }


def terrain_diff(state: State, maps: Maps) -> dict[str, Tensor]:
    """Compute the sparse difference between the current terrain and the maps.

    For each field of `Terrain` the result has `FIELD.index [K]` int64, into the flattened field, and `FIELD.value [K]`,
    the XOR of the two values.
    """
    result: dict[str, Tensor] = {}
    original = initial_terrain(state.map_id, maps)
    for field, value in state.terrain.items():
        difference = (value ^ original.get(field)).flatten()
        index = difference.nonzero()[:, 0]
        result |= {f"{field}.index": index, f"{field}.value": difference[index]}
    return result


def apply_terrain_diff(ground: Terrain, entries: dict[str, Tensor], name: str) -> Terrain:
    """Apply the result of `terrain_diff` to `ground` in place and return it."""
    expected = {f"{field}.{suffix}" for field in ground.keys() for suffix in ("index", "value")}
    expect(entries.keys() == expected, f"{name}: terrain", f"of {sorted(expected)}", sorted(entries))
    for field, value in ground.items():
        index, difference = entries[f"{field}.index"], entries[f"{field}.value"]
        is_list = index.dim() == 1 and index.shape == difference.shape
        if not is_list or index.dtype != torch.int64 or difference.dtype != value.dtype:
            actual = f"{index.dtype} {tuple(index.shape)} and {difference.dtype} {tuple(difference.shape)}"
            raise FileError(f"{name}: changes of {field}: expected int64 [K] and {value.dtype} [K], got {actual}")
        require_within(name, f"{field}.index", index, 0, value.numel() - 1)
        value.view(-1)[index] ^= difference
    return ground


def check_indices(stored: StateDict, env: EchelonEnv) -> None:
    """Check the range of all integer tensors used as indices, because compiled loops do no bounds checks."""
    mechs, maps = env.config.num_mechs, env.sim_model.maps.shape[0]
    lowest, highest = seed_range(env.config.split)
    seeds = (lowest, min(highest, 2**32 - 1))
    limits = {
        "state.map_id": (0, maps - 1),
        **{f"state.{name}": limit for name, limit in index_limits(mechs).items()},
        "state.seed": seeds,
        "next_seed": (0, 2**63 - 1),
        "map_seeds": seeds,
    }
    for key, (low, high) in limits.items():
        require_within(stored.name, key, stored.tensors[key], low, high)


def require_within(name: str, key: str, value: Tensor, low: int, high: int) -> None:
    """Raise `FileError` unless every entry is in `low..high`."""
    if value.numel() == 0:
        return
    lowest, highest = (int(x) for x in value.aminmax())
    if lowest < low or highest > high:
        raise FileError(f"{name}: tensor {key}: expected {low}..{high}, got {lowest}..{highest}")
