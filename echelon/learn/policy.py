"""The recurrent policy of a mech: encoder, LSTM, actor, critic. All mechs of a team share its weights."""

from __future__ import annotations

import math

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torchrl.data import Composite, Unbounded
from torchrl.modules.tensordict_module.rnn import recurrent_mode

from echelon.env import layout
from echelon.learn.config import ModelConfig
from echelon.learn.distribution import SquashedNormal

LOG_STD_RANGE = (-3.0, 0.5)
ACTION_GAIN = 0.01
"""Gain of the actor's last layer: the first actions are almost independent of what is seen."""
FORGET_BIAS = 1.0
"""The LSTM begins by remembering (Jozefowicz et al. 2015)."""


def orthogonal(layer: nn.Linear, gain: float = math.sqrt(2)) -> nn.Linear:
    """Orthogonal weights, zero bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Encoder(nn.Module):
    """Fuse the streams of a mech into `[..., hidden]` features.

    Contacts and comrades form sets: each is encoded alone, then the masked mean and maximum are taken (Zaheer et al.
    2017, "Deep Sets"), so neither their order nor their number matters.
    """

    def __init__(self, model: ModelConfig, comm_dim: int) -> None:
        super().__init__()
        own = layout.width(layout.EGO) + layout.PACK_SIZE * comm_dim + layout.LOCAL_MAP_CELLS**2
        width = model.contact_width
        self.contact = nn.Sequential(
            orthogonal(nn.Linear(layout.width(layout.CONTACT), width)), nn.ReLU(), orthogonal(nn.Linear(width, width))
        )
        self.comrade = nn.Sequential(
            orthogonal(nn.Linear(layout.width(layout.SQUAD), width)), nn.ReLU(), orthogonal(nn.Linear(width, width))
        )
        self.body = nn.Sequential(orthogonal(nn.Linear(own, model.body_width)), nn.ReLU())
        self.fuse = orthogonal(nn.Linear(4 * width + model.body_width, model.hidden))
        self.norm = nn.LayerNorm(model.hidden)

    def forward(
        self,
        contacts: Tensor,
        contacts_mask: Tensor,
        squad: Tensor,
        squad_mask: Tensor,
        ego: Tensor,
        comms: Tensor,
        local_map: Tensor,
    ) -> Tensor:
        """Streams `[..., C, F]`, `[..., S, F]`, their masks, `[..., F]`, `[..., 5, comm_dim]` and `[..., 11, 11]`."""
        others = pool(self.contact(contacts), contacts_mask)
        comrades = pool(self.comrade(squad), squad_mask)
        body = self.body(torch.cat((ego, comms.flatten(-2), local_map.flatten(-2)), -1))
        return F.relu(self.norm(self.fuse(torch.cat((others, comrades, body), -1))))


def pool(each: Tensor, mask: Tensor) -> Tensor:
    """`[..., 2 * width]` mean and maximum over the filled rows of `[..., C, width]`, `mask [..., C]` bool."""
    filled = F.relu(each) * mask[..., None]
    mean = filled.sum(-2) / mask.sum(-1, keepdim=True).clamp_min(1)
    return torch.cat((mean, filled.amax(-2)), -1)


class MaskedLSTM(TensorDictModuleBase):
    """An LSTM cell over decisions, one hidden state a mech.

    TorchRL's `LSTMModule` splits sequences at resets on the host; this one multiplies the state by a mask instead,
    and reads the stored state at the first decision of a sequence only. Forward and backward of 640 sequences of
    32 decisions, width 64, on 2 CPU cores: 58 ms, `LSTMModule` 151 ms.

    Outside `set_recurrent_mode` it takes one decision, batch `[..., A]`; inside, sequences `[S, T]`, time last, and
    `is_init [S, T, 1]` marks decisions that begin a battle.
    """

    def __init__(self, width_in: int, hidden: int) -> None:
        super().__init__()
        self.from_input = orthogonal(nn.Linear(width_in, 4 * hidden), gain=1.0)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)
        for gate in self.from_hidden.weight.data.split(hidden):
            nn.init.orthogonal_(gate)
        self.from_input.bias.data[hidden : 2 * hidden] = FORGET_BIAS
        self.in_keys = ["features", ("memory", "h"), ("memory", "c")]
        self.out_keys = ["embed", ("next", "memory", "h"), ("next", "memory", "c")]

    def cell(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One decision: input gates `[..., 4 * hidden]`, state `[..., hidden]`."""
        i, f, g, o = (gates + self.from_hidden(h)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write `embed [..., hidden]`, and for one decision the state to remember."""
        gates = self.from_input(tensordict.get("features"))
        h, c = tensordict.get(("memory", "h")), tensordict.get(("memory", "c"))
        if recurrent_mode():
            keep = (~tensordict.get("is_init")).to(gates.dtype)
            tensordict.set("embed", self.unroll(gates, h[..., 0, :], c[..., 0, :], keep))
            return tensordict
        h, c = self.cell(gates, h, c)
        tensordict.set("embed", h)
        tensordict.set(("next", "memory", "h"), h)
        tensordict.set(("next", "memory", "c"), c)
        return tensordict

    def unroll(self, gates: Tensor, h: Tensor, c: Tensor, keep: Tensor) -> Tensor:
        """`[S, T, hidden]` from gates `[S, T, 4 * hidden]`, first state `[S, hidden]` and `keep [S, T, 1]`."""
        embed = []
        for gates_t, keep_t in zip(gates.unbind(-2), keep.unbind(-2), strict=True):
            h, c = self.cell(gates_t, h * keep_t, c * keep_t)
            embed.append(h)
        return torch.stack(embed, -2)


class ActorHead(nn.Module):
    """Mean and standard deviation of the pre-tanh actions, both seen from the state."""

    def __init__(self, hidden: int, width: int, initial_std: float) -> None:
        super().__init__()
        self.loc = orthogonal(nn.Linear(hidden, width), ACTION_GAIN)
        self.log_std = orthogonal(nn.Linear(hidden, width), ACTION_GAIN)
        nn.init.constant_(self.log_std.bias, math.log(initial_std))

    def forward(self, embed: Tensor) -> tuple[Tensor, Tensor]:
        """`[..., D]` loc and scale, in float32 under autocast too."""
        return self.loc(embed).float(), self.log_std(embed).float().clamp(*LOG_STD_RANGE).exp()


class MechPolicy(TensorDictModuleBase):
    """A team policy (see `echelon.agents.seat`), the same weights for every mech.

    Reads `("observation", stream)` and `("memory", h | c)`; writes `action` in [-1, 1], `pre_tanh`, `log_prob`,
    `state_value` (normalised, see `ValueNorm`) and `("next", "memory", h | c)`. It samples its actions unless called
    within `set_exploration_type(ExplorationType.DETERMINISTIC)`.

    Args:
        model: sizes of the network.
        comm_dim: numbers in a message, as in `EnvConfig.comm_dim`.
    """

    def __init__(self, model: ModelConfig, comm_dim: int) -> None:
        super().__init__()
        self.model = model
        self.comm_dim = comm_dim
        streams = [("observation", name) for name in layout.STREAMS]
        encoder = TensorDictModule(Encoder(model, comm_dim), in_keys=streams, out_keys=["features"])
        head = ActorHead(model.hidden, layout.action_width(comm_dim), model.initial_std)
        law = ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["pre_tanh"],
            distribution_class=SquashedNormal,
            return_log_prob=True,
            log_prob_key="log_prob",
            default_interaction_type=InteractionType.RANDOM,
        )
        self.actor = ProbabilisticTensorDictSequential(
            encoder,
            MaskedLSTM(model.hidden, model.hidden),
            TensorDictModule(head, in_keys=["embed"], out_keys=["loc", "scale"]),
            law,
        )
        value = orthogonal(nn.Linear(model.hidden, 1), gain=1.0)
        self.critic = TensorDictModule(value, in_keys=["embed"], out_keys=["state_value"])
        self.in_keys = [*streams, ("memory", "h"), ("memory", "c")]
        self.out_keys = ["action", ("next", "memory", "h"), ("next", "memory", "c")]

    def memory_spec(self) -> Composite:
        """The hidden state of a mech."""
        return Composite(h=Unbounded((self.model.hidden,)), c=Unbounded((self.model.hidden,)))

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for every mech of a team, batch `[B, A]`."""
        decided = self.critic(self.actor(team))
        return decided.set("action", decided.get("pre_tanh").tanh())

    def value(self, team: TensorDictBase) -> Tensor:
        """`[B, A, 1]` normalised value of a state; changes nothing."""
        *trunk, _, _ = self.actor.module
        seen = team.copy()
        for part in trunk:
            seen = part(seen)
        return self.critic(seen).get("state_value")

    def num_parameters(self) -> int:
        """How many numbers are learnt."""
        return sum(p.numel() for p in self.parameters())
