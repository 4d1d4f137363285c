"""The PPO update: epochs of minibatches of whole sequences."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.ppo.objective import DIAGNOSTICS, LOSSES, RecurrentPPOLoss
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.state_dict import StateDict

REPORTED = (*LOSSES, *DIAGNOSTICS, "gradient_norm")
LEARNT_FROM = (
    *("observation", "telemetry", "enemy", "alive", "is_init"),
    *("pre_tanh", "log_prob", "value", "advantage", "value_target"),
)
PATIENCE = 3
"""Steps in a row whose loss or gradient is not finite, after which a run stops."""


class PPO:
    """Learns from rollouts of `ActorCritic`.

    A step whose loss or gradient is not finite is not taken: Adam is told so by the flag that gradient scalers use, so
    weights and moments stay what they were, and the host learns of it with the report.

    Args:
        policy: what learns; rollouts of its decisions act with the same weights.
        ranks: processes that learn the same from different rollouts: each step is that of all their
            minibatches as one.
    """

    def __init__(self, policy: ActorCritic, config: PPOConfig, ranks: Ranks = ALONE) -> None:
        self.policy = policy
        self.config = config
        self.ranks = ranks
        self.loss: nn.Module = RecurrentPPOLoss(policy, config)
        if not ranks.is_alone:
            with warnings.catch_warnings():
                # torch 2.13 renames the argument, which 2.11 has under this name only. No buffer ever changes.
                warnings.simplefilter("ignore", FutureWarning)
                self.loss = DistributedDataParallel(self.loss, broadcast_buffers=False)
        device = next(policy.parameters()).device
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate.first, eps=1e-5, fused=True)
        self.entropy_coef = torch.tensor(config.entropy_coef.first, device=device)
        self.skipped = torch.zeros((), device=device)
        """Steps not taken since the run began."""
        self.in_a_row = torch.zeros((), device=device)
        """The last of them, those with no step taken between."""
        self.longest = torch.zeros((), device=device)
        """The longest such row of the last update."""

    def anneal(self, progress: float) -> dict[str, float]:
        """Set learning rate and entropy's weight for `progress` 0..1 of the run, and tell them."""
        rate = self.config.learning_rate.at(progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        weight = self.config.entropy_coef.at(progress)
        self.entropy_coef.fill_(weight)
        return {"learning_rate": rate, "entropy_coef": weight}

    def update(self, batch: TensorDict, memory: TensorDict) -> dict[str, Tensor]:
        """Learn from one rollout with advantages.

        The order of the minibatches comes from torch's own generator. With `target_kl` the host reads one number an
        epoch, else none.

        Args:
            batch: `[T, G]`, see `TeamCollector`.
            memory: `[T / chunk, G]`.

        Returns:
            The mean of each of `REPORTED` over the minibatches, the `epochs` learnt, and steps `skipped` so far.
        """
        sequences = Sequences(batch, memory, self.config.chunk_decisions)
        self.longest.zero_()
        reports: list[dict[str, Tensor]] = []
        for epoch in range(self.config.epochs):
            fresh = [self.learn(sequences.take(index)) for index in sequences.shuffled(self.config.minibatches)]
            reports += fresh
            is_last = epoch + 1 == self.config.epochs
            if self.config.target_kl > 0 and not is_last:
                kl = torch.stack([report["kl"] for report in fresh]).mean()
                if kl.item() > self.config.target_kl:
                    break
        means = {name: torch.stack([report[name] for report in reports]).mean() for name in REPORTED}
        epochs = torch.tensor(float(len(reports) // self.config.minibatches))
        return {**means, "epochs": epochs.to(self.skipped.device), "skipped": self.skipped.clone()}

    def learn(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """One gradient step on whole sequences `[L, S]`, in `accumulate` parts."""
        alive, size = minibatch.get("alive"), self.ranks.size
        living, decisions = self.ranks.sum(alive.sum()).clamp_min(1), alive.numel() * size
        self.optimizer.zero_grad(set_to_none=True)
        report: dict[str, Tensor] = {}
        parts = minibatch.chunk(self.config.accumulate, 1)
        for number, part in enumerate(parts):
            with self._apart(is_last=number + 1 == len(parts)):
                found = self.loss(part, self.entropy_coef, living, decisions)
                # The wrapper takes the mean over processes, where the counts are those of all.
                (torch.stack([found[name] for name in LOSSES]).sum() * size).backward()
            report = {name: report.get(name, 0.0) + value.detach() for name, value in found.items()}
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm, foreach=True)
        report = dict(zip(report, self.ranks.sum(torch.stack(list(report.values()))).unbind(), strict=True))
        loss = torch.stack([report[name] for name in LOSSES]).sum()
        self.step(loss.isfinite() & norm.isfinite())
        return {**report, "gradient_norm": norm}

    def _apart(self, is_last: bool) -> AbstractContextManager[object]:
        """Processes exchange gradients with the last part of a minibatch."""
        wrapper = self.loss
        return wrapper.no_sync() if isinstance(wrapper, DistributedDataParallel) and not is_last else nullcontext()

    def state_dict(self) -> StateDict:
        """Steps that were not taken; weights and optimiser are kept elsewhere."""
        return StateDict({"skipped": self.skipped, "in_a_row": self.in_a_row})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Count on."""
        state_dict.check({"skipped": self.skipped, "in_a_row": self.in_a_row})
        self.skipped.copy_(state_dict.tensors["skipped"])
        self.in_a_row.copy_(state_dict.tensors["in_a_row"])

    def step(self, sound: Tensor) -> None:
        """Take the optimiser's step if the gradient is `sound []` bool, without asking the host."""
        unsound = (~sound).float()
        setattr(self.optimizer, "found_inf", unsound)  # noqa: B010
        self.optimizer.step()
        self.skipped += unsound
        self.in_a_row.copy_((self.in_a_row + 1) * unsound)
        torch.maximum(self.longest, self.in_a_row, out=self.longest)


class Sequences:
    """A rollout as training sequences of equal length, which are drawn in any order."""

    def __init__(self, batch: TensorDict, memory: TensorDict, length: int) -> None:
        self.data = batch.select(*LEARNT_FROM, strict=False).flatten(0, 1)
        self.memory = memory.flatten(0, 1)
        self.length = length
        self.teams = batch.shape[1]
        self.count = memory.shape.numel()
        self.device = batch.device
        self.offsets = torch.arange(length, device=self.device)[:, None] * self.teams

    def shuffled(self, parts: int) -> Iterator[Tensor]:
        """Numbers of sequences in random order, in so many nearly equal parts."""
        yield from torch.randperm(self.count, device=self.device).tensor_split(parts)

    def take(self, index: Tensor) -> TensorDict:
        """`[L, S]` the sequences `index [S]`, with the `memory` they begin with."""
        chunk, team = index // self.teams, index % self.teams
        rows = (chunk * self.length * self.teams + team + self.offsets).flatten()
        shape = (self.length, len(index))

        def pick(leaf: Tensor) -> Tensor:
            return leaf.index_select(0, rows).unflatten(0, shape)

        def begin(leaf: Tensor) -> Tensor:
            return leaf.index_select(0, index)[None].expand(self.length, -1, -1, -1)

        taken = self.data.apply(pick, batch_size=shape)
        return taken.set("memory", self.memory.apply(begin, batch_size=shape))
