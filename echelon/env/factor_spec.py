"""The spec of multi-discrete actions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchrl.data import MultiCategorical


class FactorSpec(MultiCategorical):
    """A `MultiCategorical` spec for actions whose factors are the same for all mechs.

    TorchRL creates one box for each factor of each mech, which takes seconds for thousands of battles. This spec
    creates only the boxes of one mech.

    Args:
        nvec: number of options of each of F factors, `[F]` or `[..., F]` with equal rows.
        shape: shape of an action, `[..., F]`; by default that of `nvec`.
        device: device of the actions.
        dtype: an integer dtype.
        mask: which options are available, concatenated over all factors, `[..., S]` bool.
        remove_singleton: whether a single factor has no axis, as in `MultiCategorical`.
    """

    def __init__(
        self,
        nvec: Sequence[int] | Tensor | int,
        shape: torch.Size | None = None,
        device: torch.device | str | int | None = None,
        dtype: str | torch.dtype | None = torch.int64,
        mask: Tensor | None = None,
        remove_singleton: bool = True,
    ) -> None:
        counts = torch.as_tensor(nvec)
        sizes = counts.reshape(-1, counts.shape[-1])[0]
        super().__init__(sizes, None, device, dtype, None, remove_singleton)
        self.shape = counts.shape if shape is None else torch.Size(shape)
        self.nvec = sizes.expand(self.shape)
        self.update_mask(mask)

    @property
    def sizes(self) -> list[int]:
        """Number of options of each factor, `[F]`."""
        counts: list[int] = self.nvec.reshape(-1, self.nvec.shape[-1])[0].tolist()
        return counts

    def rand(self, shape: torch.Size | None = None) -> Tensor:
        """Return random options; if there is a mask, only available options."""
        if self.mask is not None:
            masked: Tensor = MultiCategorical.rand(self, shape)
            return masked
        lead = (*(shape or ()), *self.shape[:-1])
        columns = [torch.randint(count, lead, device=self.device, dtype=self.dtype) for count in self.sizes]
        return torch.stack(columns, -1)
