"""A commander of one's own: every mech walks to the zone and pulls its primary trigger.

python pipelines/arena.py play --blue charger:Charger --red heuristic:easy
python pipelines/train.py --preset quick --opponent charger:Charger
"""

import torch

from echelon.env.observation import layout
from echelon.rules.actions import Act

PATH = layout.columns(layout.EGO, "path_direction")


class Charger:
    """Turn each mech to the zone, from the direction in its own frame, and walk."""

    def __init__(self, config):
        self.width = layout.action_width(config.comm_dim)

    def __call__(self, team):
        ego = team["observation", "ego"]
        ahead, left = ego[..., PATH].unbind(-1)
        action = torch.zeros(*team.shape, self.width, device=ego.device)
        action[..., Act.FORWARD], action[..., Act.STRAFE] = ahead, left
        action[..., Act.YAW_RATE] = (2 * left).clamp(-1, 1)
        action[..., Act.PRIMARY] = 1.0
        action[..., Act.HOSTILE_ONLY] = 1.0
        return team.set("action", action)
