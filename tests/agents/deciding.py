"""Decisions of a commander in a scene."""

from __future__ import annotations

import dataclasses

import torch
from builders import Scene
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from echelon.agents.heuristic import MEMORY, Heuristic
from echelon.agents.view import View, look
from echelon.env.observation.build import observe
from echelon.rules.actions import Act, Orders, idle


def streams(scene: Scene, orders: Orders | None = None, **memory: float) -> TensorDictBase:
    """Return the observation of a scene's mechs as one team, all sensed; `memory` leaves are 0 unless given."""
    sim_model = scene.sim_model
    told = idle(1, sim_model.roster, sim_model.config) if orders is None else orders
    full = dataclasses.replace(sim_model, config=dataclasses.replace(sim_model.config, observation_mode="full"))
    _, seen = observe(scene.state, told, full)
    shape = [1, sim_model.roster.num_mechs]
    kept = {name: torch.full((*shape, width), memory.get(name, 0.0)) for name, width in MEMORY.items()}
    return TensorDict({"observation": seen, "memory": kept}, shape)


def decide(
    scene: Scene, mech: int = 0, tier: str = "normal", weapon_use: float = 1.0, orders: Orders | None = None, **memory
) -> tuple[Tensor, TensorDictBase]:
    """Return the action of one mech of a scene, and its next memory."""
    team = Heuristic(scene.sim_model.config, tier, weapon_use)(streams(scene, orders, **memory))
    return team["action"][0, mech], team["next", "memory"][0, mech]


def view_of(scene: Scene) -> View:
    """Return the view of a scene's mechs."""
    world = scene.sim_model.config.world
    size = torch.tensor([world.size_x, world.size_y], dtype=torch.float32)
    return look(streams(scene), size, float(world.longest_side))


def preferred(action: Tensor) -> int:
    """Return the contact slot that an action prefers."""
    return int(action[Act.PREFER_0 : Act.PREFER_4 + 1].argmax())
