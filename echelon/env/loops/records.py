"""Constants of observation as records, and records of perception; see `echelon.sim.loops.records`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from echelon.env.loops.stream_arrays import FILLED
from echelon.env.observation import features, layout, sensing
from echelon.env.observation.streams import contacts, ego
from echelon.env.outcome import SCORE_TIE_S, Reason, Winner
from echelon.env.reward import TERMS
from echelon.rules.actions import CONTROLS, PREFERENCES, SORT_MODES, Act
from echelon.rules.config import RewardConfig
from echelon.rules.roster import SUITE_DESCRIPTOR
from echelon.rules.specs import MAX_TIMERS, MAX_WEAPONS
from echelon.runtime.limits import hints_of
from echelon.sim.loops.records import record
from echelon.sim.loops.tables import filled
from echelon.sim.model import SimModel

View: TypeAlias = Any
Viewer: TypeAlias = Any
Cockpit: TypeAlias = Any
Codes: TypeAlias = Any
Reward: TypeAlias = Any
Viewers: TypeAlias = Any  # [N] VIEWER
Cockpits: TypeAlias = Any  # [N] COCKPIT
VIEWER = record(floats="quality jam radar_vox path:2 path_length", flags="finds_painted")
"""Sensors of a mech; `path` is the direction of the path to the zone, `path_length` its length in vox."""
VIEW = record(
    floats="sight_range_vox radar_range_vox bloom_heat muffled_noise noise_scale friends intel heaviest"
    " speed_scale quarter_turn longest targeted_vox critical_heat zone_ceiling_vox longest_path"
    " score_to_win_s decision_s contested_share contested_rest",
    flags="sees_all",
)
"""Constants of observation that are the same for all mechs."""
COCKPIT = record(
    floats=f"sensor_factor fidelity leg_hp slug_speed descriptor:{SUITE_DESCRIPTOR}",
    ints=f"visual_slots intel_slots squad_detail longest_cooldown:{MAX_TIMERS}",
    indices=f"pack_slot:{layout.PACK_SIZE} shown_timer:{layout.COOLDOWNS}",
    octets=f"carries:{MAX_WEAPONS}",
    flags="sees_engaged",
)
"""Constants of a mech's suite and hull that only observation uses."""
COLUMNS = np.dtype(
    [(s.name, record(indices=" ".join(feature.name for feature in s.features_of(0)))) for s in FILLED], align=True
)
"""Index of the first column of each feature, by stream."""


ACTION = record(
    ints="num_preferences num_sort_modes num_controls",
    indices="forward strafe vertical yaw_rate vent secondary first_preference first_sort_mode hostile_only",
)
"""Index of each part of an action; see `actions.Act`."""


CODES = record(
    floats="score_tie_s",
    longs="last_tick",
    ints="running_winner draw blue red running_reason elimination zone time_up objective",
    flags="time_up_terminates",
)
"""Numbers of `outcome.judge`: a `Winner` or a `Reason` by name, and limits. `last_tick`: the battle's last substep."""
REWARD = record(
    floats=f"{' '.join(name for name in hints_of(RewardConfig))} team_share blue_size red_size",
    indices=" ".join(f"at_{name}" for name in TERMS),
)
"""The fields of `RewardConfig`, team sizes, and the index of each term in `reward.TERMS`. `team_share` is
1 - `team_mix_alpha`."""


class ScoreTables(NamedTuple):
    """Constants of outcomes and rewards, which GPU loops do not use."""

    codes: Any
    """[1] CODES."""
    reward: Any
    """[1] REWARD."""


class ViewTables(NamedTuple):
    """Constants of actions and observation, which substeps do not need."""

    action: Any
    """[1] ACTION."""

    numbers: Any
    """[1] VIEW."""
    columns: Any
    """[1] COLUMNS."""
    cockpits: Any
    """[N] COCKPIT."""
    squads: Any
    """[N, S] int64."""


def build_view_tables(sim_model: SimModel) -> ViewTables:
    """Return the constants of `sim_model`."""
    return ViewTables(
        action_record(),
        view_record(sim_model),
        column_record(),
        cockpit_records(sim_model),
        sim_model.roster.squad.numpy(),
    )


def build_score_tables(sim_model: SimModel) -> ScoreTables:
    """Return the constants of `sim_model`."""
    rules, roster = sim_model.rules, sim_model.roster
    winners = {name: Winner[name.upper()] for name in ("draw", "blue", "red")}
    reasons = {name: Reason[name.upper()] for name in ("elimination", "zone", "time_up", "objective")}
    codes = filled(
        CODES,
        1,
        **winners,
        **reasons,
        running_winner=Winner.RUNNING,
        running_reason=Reason.RUNNING,
        score_tie_s=SCORE_TIE_S,
        last_tick=rules.max_decisions * rules.decision_repeat,
        time_up_terminates=rules.time_up_terminates,
    )
    config = sim_model.config.reward
    reward = filled(
        REWARD,
        1,
        **{name: getattr(config, name) for name in hints_of(RewardConfig)},
        **{f"at_{name}": column for column, name in enumerate(TERMS)},
        team_share=1 - config.team_mix_alpha,
        blue_size=roster.num_blue,
        red_size=roster.num_mechs - roster.num_blue,
    )
    return ScoreTables(codes, reward)


def cockpit_records(sim_model: SimModel) -> Any:
    """Return the `COCKPIT` record of each mech."""
    roster = sim_model.roster
    carries = np.zeros((roster.num_mechs, MAX_WEAPONS), np.bool_)
    carries[:, : len(roster.weapons)] = (roster.trigger >= 0).t().numpy()
    longest = np.zeros((roster.num_mechs, MAX_TIMERS), np.int32)
    longest[:, : roster.num_timers] = roster.longest_cooldown.numpy()
    fields = {name: getattr(roster.cockpits, name) for name in COCKPIT.names or () if hasattr(roster.cockpits, name)}
    return filled(
        COCKPIT,
        roster.num_mechs,
        **fields,
        leg_hp=roster.leg_hp,
        slug_speed=roster.slug_speed.squeeze(-1),
        pack_slot=roster.pack_slot,
        shown_timer=roster.shown_timer,
        longest_cooldown=longest,
        carries=carries,
    )


def view_record(sim_model: SimModel) -> Any:
    """Return the `VIEW` record of `sim_model`."""
    config, world, rules = sim_model.config, sim_model.config.world, sim_model.rules
    return filled(
        VIEW,
        1,
        sight_range_vox=config.sight_range_vox,
        radar_range_vox=config.radar_range_vox,
        sees_all=config.observation_mode == "full",
        bloom_heat=rules.bloom_heat,
        muffled_noise=rules.muffled_noise,
        noise_scale=sensing.NOISE_SCALE,
        friends=contacts.FRIENDS,
        intel=contacts.INTEL,
        heaviest=100,
        speed_scale=features.SPEED_SCALE,
        quarter_turn=math.pi / 4,
        longest=world.longest_side,
        targeted_vox=ego.TARGETED_VOX,
        critical_heat=ego.CRITICAL_HEAT,
        zone_ceiling_vox=rules.zone_ceiling_vox,
        longest_path=4.0,
        score_to_win_s=rules.zone_score_to_win_s,
        decision_s=rules.decision_s,
        contested_share=rules.contested_share,
        contested_rest=1 - rules.contested_share,
    )


def action_record() -> Any:
    """Return the `ACTION` record."""
    single = ("forward", "strafe", "vertical", "yaw_rate", "vent", "secondary", "hostile_only")
    return filled(
        ACTION,
        1,
        **{name: Act[name.upper()] for name in single},
        first_preference=Act.PREFER_0,
        num_preferences=PREFERENCES,
        first_sort_mode=Act.SORT_CLOSEST,
        num_sort_modes=SORT_MODES,
        num_controls=CONTROLS,
    )


def column_record() -> Any:
    """Return the `COLUMNS` record."""
    table = np.zeros(1, COLUMNS)
    for stream in FILLED:
        parts = stream.features_of(0)
        for part in parts:
            table[stream.name][part.name] = layout.columns(parts, part.name).start
    return table
