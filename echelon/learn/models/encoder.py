"""Observation encoders: sets of contacts, squad mates and messages, small grids, and the mech's own state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from echelon.env.observation import layout
from echelon.learn.loops.arithmetic import uses_loops
from echelon.learn.loops.convolution import Convolution
from echelon.learn.loops.dense import DenseReLU
from echelon.learn.loops.packing import PackedPool, valid_rows
from echelon.learn.models.policy_layout import PolicyLayout
from echelon.learn.models.specs import ModelSizes, PolicySpecs
from echelon.runtime.errors import ConfigError

STEEP = 1e30
"""Slope of 1 - STEEP * (largest - x); clamped to >= 0 this is 1 at the largest entry of a set and 0 elsewhere."""


_new_on: ContextVar[str] = ContextVar("device of new layers", default="cpu")


def new_layer() -> dict[str, Any]:
    """Return dtype and device for new tensors of a network, independent of torch's defaults: float32 on the CPU, or on
    the device `meta` inside `without_numbers`. The caller moves the complete network to its device.
    """
    return {"dtype": torch.float32, "device": _new_on.get()}


@contextmanager
def without_numbers() -> Iterator[None]:
    """Create networks on the meta device in a context: they have shapes only, and use no memory."""
    token = _new_on.set("meta")
    try:
        with torch.device("meta"):
            yield
    finally:
        _new_on.reset(token)


def orthogonal(layer: nn.Linear, gain: float = math.sqrt(2)) -> nn.Linear:
    """Initialise with orthogonal weights and zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def rectified(layer: Any, x: Tensor) -> Tensor:
    """Apply a linear layer and ReLU to `x [R, F]`; return `[R, W]`."""
    return DenseReLU.apply(x, layer.weight, layer.bias) if uses_loops(x, layer.weight) else F.relu(layer(x))


class MaskedPool(torch.autograd.Function):
    """Mean and maximum of ReLU(x) over the valid rows of a padded set.

    Autograd's backward pass would compare every entry with the maximum of its set. On a CPU, this comparison took
    longer than the matrix products of the whole encoder (5.6 against 2.2 us for 19 contacts of width 64 in bf16). Equal
    maxima each receive the full gradient.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return mean and maximum of `x [R, C, W]` under `mask [R, C]`, `[R, 2 * W]`, followed by the tensors that are
        saved for the backward pass.
        """
        weight = mask.to(x.dtype)
        masked = F.relu(x) * weight[..., None]
        count = weight.sum(-1, keepdim=True).clamp_min(1)
        largest = masked.amax(-2)
        return torch.cat((masked.sum(-2) / count, largest), -1), masked, largest, count

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Save the tensors of the backward pass."""
        _, masked, largest, count = output
        ctx.mark_non_differentiable(masked, largest, count)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(masked, largest, count)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Tensor, None]:
        """Route the mean's gradient to all valid entries above 0, and the maximum's gradient to the largest entry."""
        masked, largest, count = ctx.saved_tensors
        to_mean, to_largest = grad.chunk(2, -1)
        is_largest = torch.rsub(masked - largest[..., None, :], 1, alpha=-STEEP).clamp_min_(0)
        grad_input = torch.addcmul((to_mean / count)[..., None, :], is_largest, to_largest[..., None, :])
        return torch.ops.aten.threshold_backward(grad_input, masked, 0), None


class SetEncoder(nn.Module):
    """Permutation-invariant set encoder (Zaheer et al. 2017, "Deep Sets"): mean and maximum over encoded members."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.each = nn.Sequential(
            orthogonal(nn.Linear(width_in, width, **new_layer())),
            nn.ReLU(),
            orthogonal(nn.Linear(width, width, **new_layer())),
        )

    def forward(self, members: Tensor, mask: Tensor) -> Tensor:
        """Return the encodings of sets, `[R, 2 * width]`, from `members [R, C, width_in]`; `mask [R, C]` bool is True
        for valid members.
        """
        # On a CPU, skip padding in all matrix products.
        if uses_loops(members):
            index, ends = valid_rows(mask)
            packed = rectified(self.each[0], members.flatten(0, 1).index_select(0, index))
            return PackedPool.apply(rectified(self.each[2], packed), ends)
        pool = MaskedPool.apply if torch.is_grad_enabled() else MaskedPool.forward
        return pool(self.each(members), mask)[0]


class GridEncoder(nn.Module):
    """Encodes a square map with one 3x3 convolution of stride 2 and a linear layer.

    The convolution is one matrix product with a dense matrix built from the kernel, or a loop on a CPU. For such small
    maps, `nn.Conv2d` takes several times as long as either form.
    """

    places: Tensor
    """`[9, P * cells²]` 1 where a kernel entry is multiplied with a cell, for each of P kernel positions."""
    matrix: Tensor | None
    """`[channels * P, cells²]` the convolution as a matrix, precomputed for constant weights; else None."""

    def __init__(self, cells: int, width: int, channels: int = 8) -> None:
        super().__init__()
        self.kernel = nn.Parameter(nn.init.orthogonal_(torch.empty(channels, 9, **new_layer()), math.sqrt(2)))
        self.bias = nn.Parameter(torch.zeros(channels, 1, **new_layer()))
        corners = range(0, cells - 2, 2)
        kernels = torch.zeros(9, len(corners), len(corners), cells, cells, **new_layer())
        for offset in range(9):
            for row, y in enumerate(corners):
                for column, x in enumerate(corners):
                    kernels[offset, row, column, y + offset // 3, x + offset % 3] = 1.0
        self.register_buffer("places", kernels.flatten(1), persistent=False)
        self.register_buffer("matrix", None, persistent=False)
        self.cells = cells
        self.project = orthogonal(nn.Linear(channels * len(corners) ** 2, width, **new_layer()))

    def forward(self, grid: Tensor) -> Tensor:
        """Return the encodings `[R, width]` of maps `[R, cells, cells]`."""
        channels = len(self.kernel)
        if uses_loops(grid, self.kernel) and not grid.requires_grad:
            # The loop writes features position by position, so reorder the weights, which are sorted by channel.
            by_place = self.project.weight.unflatten(1, (channels, -1)).transpose(1, 2).flatten(1)
            features = Convolution.apply(grid, self.kernel, self.bias).flatten(1)
            return DenseReLU.apply(features, by_place, self.project.bias)
        matrix = self.constants()["matrix"] if self.matrix is None else self.matrix
        positions = len(matrix) // channels
        features = F.linear(grid.flatten(1), matrix, self.bias.expand(-1, positions).flatten())
        return F.relu(self.project(F.relu(features)))

    def constants(self) -> dict[str, Tensor]:
        """Return the tensors that depend only on weights, see `echelon.agents.stacked.with_constants`."""
        return {"matrix": (self.kernel @ self.places).view(-1, self.cells**2)}


class Encoder(nn.Module):
    """Fuses all observation streams of a mech into `[..., hidden]` features.

    The telemetry map is the same for all mechs of a battle, so it is encoded once and its features are shared.

    Args:
        model: the widths of the layers.
        specs: the input columns; an int means `PolicySpecs(comm_dim)`, the columns of this version. Models that pass
            their own specs can also open checkpoints of earlier layouts.
    """

    streams = ("contacts", "contacts_mask", "squad", "squad_mask", "ego", "comms", "local_map")
    """Names of the streams that `forward` takes, in order; an encoder without this attribute takes all streams."""
    accepts_reduced_precision = True
    """Whether streams in the dtype of the matrix products give the same features. True here, because streams are only
    multiplied by 0 or 1 and compared with 0 before the first layer."""
    ego_mask: Tensor
    """`[F]` 1 for each ego column that the network may read, else 0."""

    def __init__(self, model: ModelSizes, specs: PolicySpecs | int) -> None:
        super().__init__()
        specs = PolicySpecs(specs) if isinstance(specs, int) else specs
        columns, self.comm_dim = specs.columns, specs.comm_dim
        self.contact = SetEncoder(columns.width("contacts"), model.contact_width)
        self.comrade = SetEncoder(columns.width("squad"), model.squad_width)
        self.message = SetEncoder(self.comm_dim, model.comm_width) if self.comm_dim > 0 else None
        self.ground = GridEncoder(layout.LOCAL_MAP_CELLS, model.map_width)
        self.telemetry = GridEncoder(layout.TELEMETRY_CELLS, model.telemetry_width)
        self.body = nn.Sequential(
            orthogonal(nn.Linear(columns.width("ego"), model.body_width, **new_layer())), nn.ReLU()
        )
        sets = model.contact_width + model.squad_width + (model.comm_width if self.comm_dim > 0 else 0)
        rest = model.map_width + model.telemetry_width + model.body_width
        self.fuse = orthogonal(nn.Linear(2 * sets + rest, model.hidden, **new_layer()))
        self.norm = nn.LayerNorm(model.hidden, **new_layer())
        ego_mask = torch.ones(columns.width("ego"), **new_layer())
        if not model.path_observed:
            for name in columns.places("ego").keys() & {"path_direction", "path_length"}:
                ego_mask[columns.places("ego")[name]] = 0.0
        self.register_buffer("ego_mask", ego_mask, persistent=False)

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
        """Return features `[..., A, hidden]` of teams of A mechs, from streams `[..., A, *]` and `telemetry [..., 16,
        16]`.
        """
        teams = ego.shape[:-1]
        if comms.shape[-1] != self.comm_dim:
            raise ConfigError(
                f"comm_dim: expected {self.comm_dim}, that of the policy, got {comms.shape[-1]} in the battles"
            )

        def rows(stream: Tensor) -> Tensor:
            return stream.flatten(0, len(teams) - 1)

        parts = [
            self.contact(rows(contacts), rows(contacts_mask)),
            self.comrade(rows(squad), rows(squad_mask)),
            rectified(self.body[0], rows(ego) * self.ego_mask.to(ego.dtype)),
            self.ground(rows(local_map)),
        ]
        if self.message is not None:
            messages = rows(comms)
            parts.append(self.message(messages, (messages != 0).any(-1)))
        cells = telemetry.shape[-2:]
        overview = self.telemetry(telemetry.reshape(-1, *cells)).view(*teams[:-1], 1, -1)
        shared = rows(overview.expand(*teams, -1))
        fused = self.fuse(torch.cat([part.to(shared.dtype) for part in (*parts, shared)], -1))
        return F.relu(self.norm(fused)).view(*teams, -1)


class BattlePooling(nn.Module):
    """Pools all mechs of a battle into one vector for the central critic, each team as a set.

    Args:
        width: width of the encoding of a mech.
        columns: layout of the input ego streams.
    """

    def __init__(self, width: int, columns: PolicyLayout) -> None:
        super().__init__()
        self.own = SetEncoder(columns.width("ego"), width)
        self.enemy = SetEncoder(columns.width("ego"), width)
        self.alive = columns.places("ego")["alive"].start
        """Index of the ego column that is 1 for living mechs."""

    def forward(self, own: Tensor, enemy: Tensor) -> Tensor:
        """Return a vector `[..., 4 * width]` from the ego streams of the team, `[..., A, F]`, and of the enemy team,
        `[..., E, F]`.
        """
        sides = []
        for encoder, team in ((self.own, own), (self.enemy, enemy)):
            mechs = team.reshape(-1, *team.shape[-2:])
            alive = mechs[..., self.alive] > 0
            sides.append(encoder(mechs, alive).view(*team.shape[:-2], -1))
        return torch.cat(sides, -1)
