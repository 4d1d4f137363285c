"""Reward terms for training mechs to follow orders, used with `--extra-reward echelon.command.rewards:following=6`."""

from torch import Tensor

from echelon.env.orders.destination import destination, way_there
from echelon.env.outcome import Ending
from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.state import State

ARRIVED = 0.02
"""Reward of one decision at the destination, in units of the map's longest side."""


def following(before: State, after: State, ending: Ending, sim_model: SimModel) -> Tensor:
    """Return the reward `[B, N]` of each mech for moving to the destination of its order.

    The reward is the decrease of the walking distance, in units of the map's longest side, plus `ARRIVED` for each
    decision at the destination. The reward is 0 for mechs without a destination.
    """
    target = destination(after, sim_model)
    left_vox = way_there(after, target, sim_model).left_vox
    nearer = exact.divide(way_there(before, target, sim_model).left_vox - left_vox, sim_model.config.world.longest_side)
    return (nearer + ARRIVED * (left_vox == 0)) * target.is_sent
