"""Reward terms for mechs that shall learn to follow orders; `--extra-reward echelon.command.rewards:following=6`."""

from torch import Tensor

from echelon.env.orders.destination import destination, way_there
from echelon.env.outcome import Ending
from echelon.runtime import exact
from echelon.sim.model import SimModel
from echelon.state import State

ARRIVED = 0.02
"""What a decision at the place is worth, in lengths of the map's longest side."""


def following(before: State, after: State, ending: Ending, sim_model: SimModel) -> Tensor:
    """`[B, N]` how much less a mech has to walk to where it was sent, in lengths of the map's longest side, and a
    little for each decision there; 0 for who was sent nowhere."""
    target = destination(after, sim_model)
    left_vox = way_there(after, target, sim_model).left_vox
    nearer = exact.divide(way_there(before, target, sim_model).left_vox - left_vox, sim_model.config.world.longest_side)
    return (nearer + ARRIVED * (left_vox == 0)) * target.is_sent
