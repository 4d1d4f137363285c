"""Lowest and highest value of every number of a battle's settings: beyond what anybody plays, within what a machine
computes in float32 and ends in a day. The catalog has its own in `echelon.rules.catalog_checks`."""

from __future__ import annotations

from echelon.runtime.limits import SEED, SHARE, Limits

LARGEST_MAP_VOX = 500
"""Longest side of a map, so that a stranger's settings cannot ask for more memory than there is."""
MOST_COMMS = 1024
"""Numbers in a message."""
MOST_MAPS = 100_000
MOST_BATTLES = 1 << 24
"""Battles side by side."""
LONGEST_BATTLE_SUBSTEPS = 1_000_000
"""A battle of the standard rules has 1,200."""
SIDE = Limits(32, LARGEST_MAP_VOX, "vox: room for both spawn areas and a zone")
HEAT_PER_S = Limits(-1e3, 1e3, "heat points a second")
FACTOR, SECONDS, RANGE = Limits(0, 1e3), Limits(0, 3600, "s"), Limits(0, 1e6, "vox")

WORLD = {
    "size_x": SIDE,
    "size_y": SIDE,
    "size_z": Limits(6, 31, "vox (a column is one int32)"),
    "difficulty": SHARE,
}
RULES = {
    "dt_s": Limits(0.001, 1, "s"),
    "decision_repeat": Limits(1, 1000, "substeps"),
    "max_episode_s": Limits(0.001, 86_400, "s"),
    "gravity_vox_per_s2": Limits(0, 1e3, "vox/s²"),
    "velocity_damping": SHARE,
    "shutdown_damping": SHARE,
    "step_up_vox": Limits(0, 31, "vox"),
    "water_speed": FACTOR,
    "legged_speed": FACTOR,
    "legged_jet": FACTOR,
    "jet_heat_per_s": HEAT_PER_S,
    "vent_factor": FACTOR,
    "heat_ceiling": FACTOR,
    "lava_heat_per_s": HEAT_PER_S,
    "lava_damage_per_s": Limits(0, 1e3, "hit points a second"),
    "water_heat_per_s": HEAT_PER_S,
    "stability_cap": Limits(0.001, 1e6),
    "stability_regen_per_s": Limits(0, 1e6),
    **dict.fromkeys(("legged_unsteadiness", "walking_unsteadiness", "suppressed_unsteadiness"), SHARE),
    **dict.fromkeys(("least_regeneration", "legged_stability", "risen_stability"), SHARE),
    "steady_vox_per_s": Limits(0, 1e3, "vox/s"),
    "fall_s": SECONDS,
    "rear_arc_cos": Limits(-1, 1),
    "rear_factor": FACTOR,
    "leg_height": SHARE,
    "leg_hit_share": SHARE,
    **dict.fromkeys(("jam_loss", "eccm_gain", "blind_quality"), FACTOR),
    "best_quality": Limits(0.001, 1e3),
    "bloom_heat": FACTOR,
    "muffled_noise": SHARE,
    "under_fire_s": SECONDS,
    "zone_score_to_win_s": Limits(0.001, 1e9, "s"),
    "zone_ceiling_vox": RANGE,
    "contested_share": SHARE,
}
WEIGHT = Limits(-1e6, 1e6)
REWARD = {
    **dict.fromkeys(("approach", "zone", "damage", "kill", "assist", "death", "terminal"), WEIGHT),
    "contested_offence": WEIGHT,
    "contested_death": WEIGHT,
    "team_mix_alpha": SHARE,
    "gamma": Limits(1e-6, 1),
}
ENV = {
    "sight_range_vox": Limits(0.1, 1e6, "vox"),
    "radar_range_vox": RANGE,
    "comm_dim": Limits(0, MOST_COMMS, "numbers in a message"),
    "map_pool": Limits(1, MOST_MAPS, "maps"),
    "map_spares": Limits(0, MOST_MAPS, "maps"),
    "map_seed": SEED,
}
