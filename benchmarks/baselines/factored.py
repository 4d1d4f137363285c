"""An actor with factored actions (`action="multi_discrete"`) for the plain route: one masked categorical per factor."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor
from torch.distributions import Independent
from torchrl.envs import EnvBase
from torchrl.modules import MLP, MaskedCategorical, ProbabilisticActor


class FactorCategorical(Independent):
    """The distribution of an action `[..., F]`: an available option of each factor, independent of the other factors.

    Args:
        logits: `[..., S]` of all options, factor after factor.
        mask: `[..., S]` bool, which options are available.
        sizes: number of options of each factor, S in all.
    """

    def __init__(self, logits: Tensor, mask: Tensor, sizes: tuple[int, ...]) -> None:
        counts = torch.tensor(sizes, device=logits.device)
        option = torch.arange(max(sizes), device=logits.device)
        is_option = option < counts[:, None]  # [F, M]
        index = torch.where(is_option, (counts.cumsum(0) - counts)[:, None] + option, 0)
        super().__init__(MaskedCategorical(logits=logits[..., index], mask=mask[..., index] & is_option), 1)

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely option of each factor."""
        return self.base_dist.mode


def make_networks(env: EnvBase) -> tuple[ProbabilisticActor, TensorDictModule]:
    """Create an actor and a critic of the size of `pipelines/torchrl_ppo.py`, shared by all mechs."""
    inputs = env.observation_spec["observation"].shape[-1]
    options = env.full_action_spec["action"].nvec  # of each mech, `[..., F]`
    sizes = tuple(options.reshape(-1, options.shape[-1])[0].tolist())
    logits, value = (MLP(inputs, width, num_cells=[128, 128]) for width in (sum(sizes), 1))
    actor = ProbabilisticActor(
        TensorDictModule(logits, ["observation"], ["logits"]),
        {"logits": "logits", "mask": "action_mask"},
        distribution_class=FactorCategorical,
        distribution_kwargs={"sizes": sizes},
        return_log_prob=True,
    )
    return actor.to(env.device), TensorDictModule(value, ["observation"], ["state_value"]).to(env.device)
