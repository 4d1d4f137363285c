"""Check whether edited states of saved battles are valid, and compute their observation."""

from __future__ import annotations

import functools
import math

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env import outcome
from echelon.env.areas import draw_places, has_areas, has_fixed_place
from echelon.env.decision import outcome_tensors
from echelon.env.observation import layout
from echelon.env.observation.build import observe
from echelon.rules import actions
from echelon.rules.actions import SORT_MODES, Act
from echelon.runtime import noise
from echelon.runtime.errors import ConfigError, quoted, require
from echelon.sim.model import SimModel
from echelon.sim.movement import overlap
from echelon.sim.terrain import hits_terrain
from echelon.state import State, Tally, initial_state, is_off, leaves_of

ROUNDING = 1e-5


def fingerprint(saved: TensorDictBase) -> Tensor:
    """Return `[R]` int64 hashes of state and observation. Policy memories and `next_seed` are not included, so a
    battle in which a user changed only these does not count as edited."""
    left_out = ("map_id", "memory", "next_seed", "is_init", "fingerprint")
    total = torch.zeros(saved.shape, dtype=torch.int64, device=saved.device)
    keys = [key if isinstance(key, tuple) else (key,) for key in saved.keys(True, True)]
    keys = [key for key in keys if not set(key) & set(left_out) and not is_off(key[-1], saved.get(key))]
    for i, key in enumerate(sorted(keys)):
        leaf = saved.get(key)
        # Adding 0.0 turns -0.0 into 0.0, as `clone` of a TensorDict does.
        bits = as_words(leaf + 0.0 if leaf.is_floating_point() else leaf)
        seed = torch.tensor([i], device=bits.device)
        # With odd weights, any single change alters the sum. Integer overflow gives the same result on every device.
        total += (bits * (noise.bits(seed, 0, 0, bits.shape[1]) * 2 + 1)).cumsum(1)[:, -1]
    return total


def as_words(leaf: Tensor) -> Tensor:
    """Return the bytes of `leaf [R, ...]` as `[R, W]` int64, eight bytes per word."""
    flat = leaf.reshape(leaf.shape[0], -1).contiguous().view(torch.uint8)
    return torch.nn.functional.pad(flat, (0, -flat.shape[1] % 8)).view(torch.int64)


def observe_edited(state: State, tensordict: TensorDictBase, sim_model: SimModel) -> tuple[State, TensorDictBase]:
    """Return `state` with new contact slots, and a copy of `tensordict` with the observation of `state`.

    Mechs keep the settings of their emitters and the sort order of their contacts; focus targets are cleared.
    """
    tensordict = tensordict.clone()
    teams = sim_model.roster.teams
    ego = torch.cat([tensordict.get((group, "observation", "ego")) for group in teams], 1)
    orders = actions.decode(settings(ego, sim_model), state.focus_slots, sim_model.roster, sim_model.config.features)
    state, streams = observe(state, orders, sim_model)
    for group, span in teams.items():
        for name in layout.STREAMS:
            tensordict.set((group, "observation", name), streams[name][:, span])
        tensordict.set((group, "mask"), state.mechs.alive[:, span])
        if "reward_terms" in tensordict.get(group).keys():
            tensordict.get((group, "reward_terms")).zero_()
    flags, result = outcome_tensors(state, outcome.judge(state, sim_model), sim_model)
    tensordict.set("telemetry", sim_model.maps.telemetry[state.map_id]).update(flags)
    if "outcome" in tensordict.keys():
        tensordict.get("outcome").update(result)
    return state, tensordict


def settings(ego: Tensor, sim_model: SimModel) -> Tensor:
    """Return the action `[R, N, D]` that repeats the settings in `ego [R, N, F]` (emitters and order of contacts)
    and does nothing else."""
    action = ego.new_zeros(*ego.shape[:2], layout.action_width(sim_model.config.comm_dim))

    def column(name: str) -> Tensor:
        return ego[..., layout.columns(layout.EGO, name)]

    action[..., Act.SORT_CLOSEST : Act.SORT_CLOSEST + SORT_MODES] = column("sort_mode")
    action[..., Act.HOSTILE_ONLY] = column("hostile_only")[..., 0]
    action[..., Act.SECONDARY] = column("eccm")[..., 0] + column("ecm")[..., 0] * actions.ECCM_TRIGGER / 2
    return action


def limits(sim_model: SimModel) -> dict[str, tuple[Tensor | float, Tensor | float]]:
    """Return the lowest and highest valid value of each leaf of a state, by name: scalars, or tensors without the
    batch axis."""
    rules, roster, weapons = sim_model.rules, sim_model.roster, sim_model.roster.weapons
    suppressed = max(rules.substeps(spec.suppress_s) for spec in weapons)
    return {
        "mechs.pos": (roster.half_size, sim_model.size - roster.half_size),
        "mechs.yaw": (-math.pi - ROUNDING, math.pi + ROUNDING),
        "mechs.hp": (0, roster.hp),
        "mechs.leg_hp": (0, roster.leg_hp),
        "mechs.heat": (0, roster.heat_cap * rules.heat_ceiling),
        "mechs.stability": (0, rules.stability_cap),
        "mechs.fallen": (0, rules.substeps(rules.fall_s)),
        "mechs.suppressed": (0, suppressed),
        "mechs.cooldown": (0, roster.longest_cooldown),
        "mechs.paint": (0, rules.substeps(sim_model.catalog.paint_s)),
        "mechs.under_fire": (0, rules.substeps(rules.under_fire_s)),
        "mechs.hit_from": (-1 - ROUNDING, 1 + ROUNDING),
        "shots.ttl": (0, (roster.shot_flight_s / rules.dt_s).ceil() + 1),
        "clouds.ttl": (0, rules.substeps(sim_model.catalog.cloud_s)),
        **{f"tally.{name}": (0, math.inf) for name in Tally.__dataclass_fields__},
        "tick": (0, rules.max_decisions * rules.decision_repeat),
        "last_event": (0, rules.max_decisions * rules.decision_repeat),
        "score": (0, math.inf),
        "control": (0, 1),
        "messages": (-1, 1),
    }


def raise_where(
    state: State, places: list[int], names: list[str], what: str, name: str, bad: Tensor, limit: str
) -> None:
    """Raise `ConfigError` for the first value of the leaf `name` where `bad [E, ...]` is True; the arguments are as
    in `check_edited`."""
    if not bad.any():
        return
    leaves, at = leaves_of(state), bad.nonzero()[0].tolist()
    suffix = f" of {names[at[1]]}" if bad.dim() > 1 and bad.shape[1] == len(names) else f" {at[1:]}" if at[1:] else ""
    actual = leaves[name][tuple(at)].tolist() if name in leaves else True
    raise ConfigError(f"{what}: state.{name}{suffix} in battle {places[at[0]]} must be {limit}, got {quoted(actual)}")


def check_edited(state: State, places: list[int], names: list[str], sim_model: SimModel, what: str = "saved") -> None:
    """Raise `ConfigError` if the state of a battle is invalid. The message contains `what`, field, mech, battle,
    limit and value."""
    leaves, check = leaves_of(state), functools.partial(raise_where, state, places, names, what)
    for name, (low, high) in limits(sim_model).items():
        leaf = leaves[name]
        out_of_range = (leaf < low) | (leaf > high)
        if out_of_range.any():
            index = tuple(out_of_range.nonzero()[0].tolist())
            edges = [torch.as_tensor(edge).expand(leaf.shape[1:])[index[1:]].item() for edge in (low, high)]
            check(name, out_of_range, f"{edges[0]:g}..{edges[1]:g}")
    mechs, terrain = state.mechs, state.terrain
    check("tick", state.tick % sim_model.rules.decision_repeat != 0, f"a multiple of {sim_model.rules.decision_repeat}")
    check("last_event", state.last_event > state.tick, "no later than tick")
    check("mechs.wrecked", mechs.wrecked & mechs.alive, "False for a mech with hp")
    packs = torch.arange(sim_model.roster.num_packs, device=mechs.hp.device)
    stranger = (mechs.paint > 0) & (sim_model.roster.pack[mechs.painter] != packs)
    check("mechs.painter", stranger, "a mech of the pack that the paint belongs to")
    living = mechs.alive[:, :, None] & mechs.alive[:, None] & ~torch.eye(len(names), dtype=torch.bool).to(packs.device)
    overlaps = overlap(mechs.pos, mechs.pos, sim_model.roster.half_size) & living
    other_name = names[int(overlaps.nonzero()[0, 2])] if overlaps.any() else ""
    check("mechs.pos", overlaps.any(-1), f"clear of the hull of {other_name}")
    inside = hits_terrain(terrain.solid, mechs.pos, sim_model.roster.half_size, mechs.alive)
    check("mechs.pos", inside, "clear of solid terrain")
    for name in ("solid", "opaque"):
        extra = terrain.get(name) & ~(getattr(sim_model.maps, name)[state.map_id] | terrain.rubble)
        check(f"terrain.{name}", extra != 0, "set only where the map or rubble has a voxel")
    z = torch.arange(terrain.damage.shape[1], device=packs.device)[:, None, None]
    check("terrain.damage", (terrain.damage > 0) & ((terrain.solid[:, None] >> z) & 1 == 0), "0 outside solid terrain")


def check_room(sim_model: SimModel, names: list[str]) -> None:
    """Raise `ConfigError` if a mech's spawn area may have no free place left, depending on the draws of earlier
    mechs."""
    maps, half_size = sim_model.maps, sim_model.roster.half_size
    if not has_areas(maps):
        return
    for battle, (fixed, places) in enumerate(zip(has_fixed_place(maps).tolist(), maps.spawn_places, strict=True)):
        for mech, area in enumerate(places):
            earlier = [n for n in range(len(names)) if n != mech and (fixed[n] or n < mech)]
            if fixed[mech] or not earlier:
                continue
            areas, half = places[earlier], half_size[earlier].repeat_interleave(len(area), 0)
            overlaps = overlap(area[None], areas.flatten(0, 1)[None], half, half_size[mech, None])
            taken = sum(overlaps[0].view(len(area), len(earlier), -1).count_nonzero(0).amax(-1).tolist())
            room, limit = int(area[:, 0].isfinite().count_nonzero()), "larger: more places than other mechs may block"
            require(taken < room, f"scenario: area of {names[mech]} in battle {battle}", limit, room)


def check_initial_positions(sim_model: SimModel) -> None:
    """Raise `ConfigError` if, in a start position of the config, a mech overlaps terrain or another mech.

    Args:
        sim_model: model of the battles, with one map per start position of its config.
    """
    maps, config = sim_model.maps, sim_model.config
    count = len(config.positions)
    require(maps.shape[0] == count, "maps", f"{count}, one per position of the config", maps.shape[0])
    names = [name for name, _ in config.positions[0].named]
    check_room(sim_model, names)
    authored = [i for i, position in enumerate(config.positions) if position.map_index < 0]
    index = torch.tensor(authored, device=maps.seed.device, dtype=torch.int64)
    state = draw_places(initial_state(index, index, maps, sim_model.roster, config), sim_model)
    check_edited(state, authored, names, sim_model, "scenario")
