"""What a mech sees, as features: sets of contacts, comrades and messages, small maps, its own state."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from echelon.env.observation import layout
from echelon.learn.config import ModelConfig

HAS_LOOPS = importlib.util.find_spec("numba") is not None
if HAS_LOOPS:
    from echelon.learn.models.packing import PackedPool, filled

STEEP = 1e30
"""Slope that tells the largest entry of a set from every other one."""


def orthogonal(layer: nn.Linear, gain: float = math.sqrt(2)) -> nn.Linear:
    """Orthogonal weights, zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class MaskedPool(torch.autograd.Function):
    """Mean and maximum of max(x, 0) over the filled rows of a set.

    Autograd's own way back compares every entry with its maximum, which took more time on a CPU than the products of
    the whole encoder (5.6 against 2.2 us for 19 contacts of width 64 in bf16). Equal maxima get the gradient each.
    """

    @staticmethod
    def forward(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`[R, 2 * W]` from `x [R, C, W]` and `mask [R, C]`; the rest is kept for the way back."""
        share = mask.to(x.dtype)
        filled = F.relu(x).mul_(share[..., None])
        count = share.sum(-1, keepdim=True).clamp_min(1)
        largest = filled.amax(-2)
        return torch.cat((filled.sum(-2) / count, largest), -1), filled, largest, count

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what the gradient needs."""
        _, filled, largest, count = output
        ctx.mark_non_differentiable(filled, largest, count)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(filled, largest, count)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor, None]:
        """The mean's gradient to every filled entry above 0, the maximum's to the largest."""
        filled, largest, count = ctx.saved_tensors
        to_mean, to_largest = grad.chunk(2, -1)
        is_largest = torch.rsub(filled - largest[..., None, :], 1, alpha=-STEEP).clamp_min_(0)
        each = torch.addcmul((to_mean / count)[..., None, :], is_largest, to_largest[..., None, :])
        return torch.ops.aten.threshold_backward(each, filled, 0), None


def packs(members: Tensor) -> bool:
    """Whether sets are encoded without their empty places: in plain loops on a CPU, not in compiled or batched code."""
    is_plain = not torch.compiler.is_compiling() and not torch._C._functorch.is_batchedtensor(members)
    return HAS_LOOPS and members.device.type == "cpu" and is_plain


class SetEncoder(nn.Module):
    """A set as its members' mean and maximum (Zaheer et al. 2017, "Deep Sets"): order and number do not matter."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.each = nn.Sequential(
            orthogonal(nn.Linear(width_in, width)), nn.ReLU(), orthogonal(nn.Linear(width, width))
        )

    def forward(self, members: Tensor, mask: Tensor) -> Tensor:
        """`[R, 2 * width]` from `[R, C, width_in]`, those that `mask [R, C]` bool holds."""
        if packs(members):
            index, ends = filled(mask)
            each = self.each(members.flatten(0, 1).index_select(0, index))
            return PackedPool.apply(each.float(), ends)
        pool = MaskedPool.apply if torch.is_grad_enabled() else MaskedPool.forward
        return pool(self.each(members), mask)[0]


class GridEncoder(nn.Module):
    """A square map, by one convolution over the 3x3 neighbourhood of every other cell.

    The convolution is written as one product with its kernel laid out over the map: the maps are so small that this
    took a third of the time of `nn.Conv2d` on a CPU, forward and back.
    """

    places: Tensor
    """[9, P * cells²] 1 where an entry of the kernel meets a cell, for each of P positions of the kernel."""

    def __init__(self, cells: int, width: int, channels: int = 8) -> None:
        super().__init__()
        self.kernel = nn.Parameter(nn.init.orthogonal_(torch.empty(channels, 9), math.sqrt(2)))
        self.bias = nn.Parameter(torch.zeros(channels, 1))
        corners = range(0, cells - 2, 2)
        places = torch.zeros(9, len(corners), len(corners), cells, cells)
        for number in range(9):
            for row, y in enumerate(corners):
                for column, x in enumerate(corners):
                    places[number, row, column, y + number // 3, x + number % 3] = 1.0
        self.register_buffer("places", places.flatten(1), persistent=False)
        self.cells = cells
        self.project = orthogonal(nn.Linear(channels * len(corners) ** 2, width))

    def forward(self, grid: Tensor) -> Tensor:
        """`[R, width]` from `[R, cells, cells]`."""
        laid_out = (self.kernel @ self.places).view(-1, self.cells**2)
        positions = len(laid_out) // len(self.kernel)
        seen = F.linear(grid.flatten(1), laid_out, self.bias.expand(-1, positions).flatten())
        return F.relu(self.project(F.relu(seen)))


class Encoder(nn.Module):
    """Fuse what mechs see into `[..., hidden]` features.

    The map from above is the same for all mechs of a battle, so it is encoded once and its features are shared.
    """

    shown: Tensor
    """[F] 1 for each column of a mech's own state that the network may see."""

    def __init__(self, model: ModelConfig, comm_dim: int) -> None:
        super().__init__()
        self.contact = SetEncoder(layout.width(layout.CONTACT), model.contact_width)
        self.comrade = SetEncoder(layout.width(layout.SQUAD), model.squad_width)
        self.message = SetEncoder(comm_dim, model.comm_width) if comm_dim > 0 else None
        self.ground = GridEncoder(layout.LOCAL_MAP_CELLS, model.map_width)
        self.telemetry = GridEncoder(layout.TELEMETRY_CELLS, model.telemetry_width)
        self.body = nn.Sequential(orthogonal(nn.Linear(layout.width(layout.EGO), model.body_width)), nn.ReLU())
        sets = model.contact_width + model.squad_width + (model.comm_width if comm_dim > 0 else 0)
        rest = model.map_width + model.telemetry_width + model.body_width
        self.fuse = orthogonal(nn.Linear(2 * sets + rest, model.hidden))
        self.norm = nn.LayerNorm(model.hidden)
        shown = torch.ones(layout.width(layout.EGO))
        if not model.path_observed:
            for name in ("path_direction", "path_length"):
                shown[layout.columns(layout.EGO, name)] = 0.0
        self.register_buffer("shown", shown, persistent=False)

    def forward(
        self,
        contacts: Tensor,
        contacts_mask: Tensor,
        squad: Tensor,
        squad_mask: Tensor,
        ego: Tensor,
        comms: Tensor,
        local_map: Tensor,
        telemetry: Tensor,
    ) -> Tensor:
        """`[..., A, hidden]` from the streams `[..., A, *]` of teams of A mechs and `telemetry [..., 16, 16]`."""
        teams = ego.shape[:-1]

        def rows(stream: Tensor) -> Tensor:
            return stream.flatten(0, len(teams) - 1)

        parts = [
            self.contact(rows(contacts), rows(contacts_mask)),
            self.comrade(rows(squad), rows(squad_mask)),
            self.body(rows(ego) * self.shown.to(ego.dtype)),
            self.ground(rows(local_map)),
        ]
        if self.message is not None:
            heard = rows(comms)
            parts.append(self.message(heard, (heard != 0).any(-1)))
        above = self.telemetry(telemetry.flatten(0, -3)).view(*teams[:-1], 1, -1)
        shared = rows(above.expand(*teams, -1))
        fused = self.fuse(torch.cat([part.to(shared.dtype) for part in (*parts, shared)], -1))
        return F.relu(self.norm(fused)).view(*teams, -1)


class BattlePooling(nn.Module):
    """All mechs of a battle as one vector, for a critic that may see them: either team as a set."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = SetEncoder(layout.width(layout.EGO), width)
        self.enemy = SetEncoder(layout.width(layout.EGO), width)

    def forward(self, own: Tensor, enemy: Tensor) -> Tensor:
        """`[..., 4 * width]` from the own state of A mechs `[..., A, F]` and of E enemies `[..., E, F]`."""
        sides = []
        for encoder, team in ((self.own, own), (self.enemy, enemy)):
            mechs = team.flatten(0, -3)
            alive = mechs[..., layout.columns(layout.EGO, "alive")].squeeze(-1) > 0
            sides.append(encoder(mechs, alive).view(*team.shape[:-2], -1))
        return torch.cat(sides, -1)
