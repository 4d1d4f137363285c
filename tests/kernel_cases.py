"""What the tests of `sim/kernels` and `env/kernels` share."""

import torch

from echelon.rules.config import EnvConfig
from echelon.rules.roster import build_roster
from echelon.state import Maps
from echelon.world.pool import make_maps

BATTLES = 24
HALF_SIZE = torch.tensor([[0.6, 0.6, 0.9], [0.75, 0.75, 1.0], [1.25, 1.25, 1.5], [1.75, 1.75, 2.0]]).repeat(5, 1)
"""Of 20 hulls, vox."""


def standard_maps() -> Maps:
    """A generated map for each of `BATTLES` battles."""
    config = EnvConfig.standard()
    return make_maps(config, build_roster(config, torch.device("cpu")), torch.arange(BATTLES))


def hull_places(generator: torch.Generator) -> torch.Tensor:
    """`[BATTLES, 20, 3]` places of hulls about the map, some over its border, some on the faces of voxels."""
    pos = torch.rand(BATTLES, 20, 3, generator=generator) * torch.tensor([68.0, 68.0, 10.0]) - 2
    pos[:, ::3] = pos[:, ::3].round()
    return pos


def check_operator(operator, *arguments) -> None:
    """Shapes and types without data are those with data, and only what is declared is written: compiling needs both."""
    torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))
