"""Lowest and highest value of every number of a training run's settings; `echelon.rules.limits` has a battle's."""

from __future__ import annotations

from echelon.rules.limits import MOST_BATTLES
from echelon.runtime.limits import ANY, MANY, SHARE, Limits

BATTLES = Limits(2, 10**6, "battles")
DECISIONS = Limits(1, 10**5, "decisions")
OPEN = Limits(1e-6, 1e12)
"""Greater than 0; a huge one switches off what it bounds."""
FROM_ZERO = Limits(0, 1e12)
FASTEST = 100
"""Highest learning rate."""
MECHS = Limits(1, 20, "mechs")

SCHEDULE = {"first": ANY, "last": ANY}
WIDTHS = ("hidden", "contact_width", "squad_width", "comm_width", "map_width", "telemetry_width", "body_width")
MODEL = {
    **dict.fromkeys(WIDTHS, Limits(1, 8192)),
    "initial_std": Limits(1e-6, 1e3),
    "eval_std_scale": Limits(1e-6, 1e3),
}
PPO = {
    "rollout_decisions": DECISIONS,
    "chunk_decisions": DECISIONS,
    "epochs": Limits(1, 1000),
    "minibatches": Limits(1, 10**6),
    "accumulate": Limits(0, 10**6),
    "clip": OPEN,
    "value_clip": FROM_ZERO,
    "target_kl": FROM_ZERO,
    "gae_lambda": SHARE,
    "value_coef": FROM_ZERO,
    "max_grad_norm": OPEN,
}
CURRICULUM = {
    "weapon_use": SHARE,
    "difficulty": SHARE,
    "team_size": MECHS,
    "enemies": MECHS,
    "levels_uniform": SHARE,
    "levels_stale": SHARE,
    "step_up": Limits(1e-6, 1),
    "window": MANY,
}
EVALUATION = {
    "every": Limits(0, MANY.high),
    "battles": BATTLES._replace(unit="battles, an even number"),
    "final_battles": BATTLES._replace(unit="battles, an even number"),
    "pieces": Limits(0, MANY.high, "battles"),
}
TRAIN = {
    "num_envs": Limits(0, MOST_BATTLES, "battles, an even number"),
    "total_agent_steps": Limits(1, 10**18),
    "max_minutes": Limits(0, 1e9),
    "self_share": SHARE,
    "past_share": SHARE,
    "past_blocks": Limits(1, 4096),
    "past_slots": Limits(2, 16),
    "past_every": MANY,
    "past_kept": Limits(1, 10**4, "snapshots"),
    "league_every": MANY,
    "league_seeds": BATTLES._replace(low=1, unit="seeds"),
    "seed": Limits(0, 2**31 - 1),
    "threads": Limits(0, 1024),
    "checkpoint_every": MANY,
    "keep_checkpoints": MANY,
    "renew_maps_every": Limits(0, MANY.high),
    "replay_battles": Limits(0, BATTLES.high),
}
