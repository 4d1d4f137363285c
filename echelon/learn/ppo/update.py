"""PPO update: epochs of minibatches of whole sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torchrl.envs.utils import set_exploration_type
from torchrl.modules import set_recurrent_mode
from torchrl.objectives import LossModule

from echelon.env.blocks import one_thread, workers
from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.padding import EXISTS
from echelon.learn.ppo.objective import DECISIONS, DIAGNOSTICS, LIVING, LOSSES, RecurrentPPOLoss, count_decisions
from echelon.runtime.compile import PROGRESS, keep_graphs
from echelon.runtime.cuda_graphs import GraphedFunction, storage_of
from echelon.runtime.device import can_compile
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import require
from echelon.runtime.state_dict import StateDict

REPORTED = (*LOSSES, *DIAGNOSTICS, "gradient_norm")
TRAINING_KEYS = (
    *("observation", "telemetry", "enemy", "mask", EXISTS, "is_init", "pre_tanh", "pre_tanh_log_prob", "advantage"),
    *("state_value", "state_value_normalized", "value_target", "value_target_normalized"),
)
ESTIMATES = ("advantage", "value_target", "value_target_normalized")
"""Those of `TRAINING_KEYS` that are made anew of every rollout."""
CPU_PART = 24_576
"""Decisions of mechs in a part of a minibatch at most, on a CPU: larger ones leave its caches."""
CPU_WHOLE = 8_192
"""Decisions of mechs in a minibatch that a CPU computes as a whole at most: threads gain nothing from smaller parts,
because they wait for Python's lock."""
LOSS = "the loss"
"""What the log calls it where it is compiled."""
PATIENCE = 3
"""Number of consecutive non-finite steps after which a run stops."""


class PPO:
    """Updates an `ActorCritic` from its rollouts.

    A step with a non-finite loss or gradient is skipped on the device: it sets the flag `found_inf`, which Adam checks
    for gradient scalers, so weights and moments stay unchanged. The count is part of the report.

    Args:
        policy: the policy to train.
        ranks: data-parallel processes; a step is equal to that on their joint minibatch.
        loss: the objective, by default a `RecurrentPPOLoss`. Its entries that begin with `loss_` are summed and
            minimised, the others are reported. Parts of a minibatch and processes add up, so that a loss must divide
            by `LIVING` and `DECISIONS` where there are several; it then has them among its `in_keys`.
        compiled: whether the loss, forward and backward, is one graph of torch.compile.
        cuda_graph: whether a step is captured once as a CUDA graph and replayed; not with several processes. Everything
            then lies in tensors that are written in place, on a CPU too, where the same code is called.

    Raises:
        ConfigError: `loss` does not, and there are several parts or processes.
    """

    def __init__(
        self,
        policy: ActorCritic,
        config: PPOConfig,
        ranks: Ranks = ALONE,
        loss: LossModule | None = None,
        compiled: bool = False,
        cuda_graph: bool = False,
    ) -> None:
        self.policy, self.config, self.ranks = policy, config, ranks
        policy.network.recomputes_encoder = config.checkpoint_gradients
        self.objective = loss or RecurrentPPOLoss.of(policy.get_policy_operator(), policy.get_value_head(), config)
        is_single = config.accumulate <= 1 and ranks.is_alone
        limit = f"one that reads {LIVING} and {DECISIONS}, or accumulate 1 and one process"
        require(is_single or LIVING in self.objective.in_keys, "loss", limit, type(self.objective).__name__)
        device = next(policy.parameters()).device
        compiled = compiled and can_compile(device)
        self.loss = self._make_loss(compiled)
        """The objective, wrapped where there are several processes."""
        self.threads = torch.get_num_threads() if device.type == "cpu" else 1
        """Number of threads that share the parts of a minibatch; gradients do not depend on it."""
        self.is_shared = device.type == "cpu" and ranks.is_alone and not compiled and not cuda_graph
        """Whether parts may be computed side by side."""
        self.cuda_graph = cuda_graph and ranks.is_alone
        self.optimizer = self._make_optimizer(device)
        self.found_inf = torch.zeros((), dtype=torch.float32, device=device)
        """`[]` 1 where the optimiser skips the step; Adam knows it under this name, for gradient scalers."""
        setattr(self.optimizer, "found_inf", self.found_inf)  # noqa: B010
        self.graphed = GraphedFunction(self._learn_next, device, "learning")
        self.sequences: Sequences | None = None
        """The last rollout."""
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        """`[1]` steps of this update so far."""
        self.reported: list[str] = []
        """Entries of a step's report."""
        self.estimates: dict[str, Tensor] = {}
        """What was estimated from the last rollout, where a CUDA graph reads it."""
        self.indices: dict[int, Tensor] = {}
        """Where a CUDA graph reads which sequences are next, by their number."""
        self.may_ask = device.type == "cpu"
        """Whether the host may look at a result: it would wait for a GPU."""
        self._make_counts(device)

    def _make_counts(self, device: torch.device) -> None:
        """Make what is counted of steps, on the device."""
        self.goes_on = torch.ones((), dtype=torch.bool, device=device)
        """`[]` bool, whether steps are taken: until an epoch's KL is above `target_kl`."""
        self.skipped = torch.zeros((), dtype=torch.float32, device=device)
        """`[]` skipped steps since the start of the run."""
        self.in_a_row = torch.zeros((), dtype=torch.float32, device=device)
        """`[]` current number of consecutive skipped steps."""
        self.longest = torch.zeros((), dtype=torch.float32, device=device)
        """`[]` maximum of `in_a_row` in the last update."""

    def _make_loss(self, compiled: bool) -> nn.Module:
        if compiled:
            PROGRESS.expect(LOSS)
            self.objective.compile(fullgraph=True, dynamic=False, **keep_graphs())
        if self.ranks.is_alone:
            return self.objective
        with warnings.catch_warnings():
            # torch 2.13 renames the argument, which 2.11 has under this name only. No buffer ever changes.
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(self.objective, broadcast_buffers=False)

    def _make_optimizer(self, device: torch.device) -> torch.optim.Adam:
        rate: float | Tensor = self.config.learning_rate.first
        on_gpu = device.type == "cuda"
        if self.cuda_graph:
            # A number would be a constant of the graph. On a GPU fused Adam reads a float32.
            rate = torch.tensor(rate, dtype=torch.float32 if on_gpu else torch.float64, device=device)
        weights, capturable = self.policy.parameters(), self.cuda_graph and on_gpu
        return torch.optim.Adam(weights, lr=rate, eps=1e-5, fused=True, capturable=capturable)

    def anneal(self, progress: float) -> dict[str, float]:
        """Set learning rate and entropy coefficient for `progress` 0..1 of the run, and return them."""
        rate = self.config.learning_rate.at(progress)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        weight = self.config.entropy_coef.at(progress)
        self.objective.entropy_coeff.fill_(weight)
        return {"learning_rate": rate, "entropy_coef": weight}

    def update(self, batch: TensorDictBase, memory: TensorDictBase) -> dict[str, Tensor]:
        """Update from one rollout with advantages.

        Minibatches are shuffled with torch's default generator. Never syncs with the device: after an epoch with a KL
        above `target_kl` the steps of the following ones are skipped there. On a CPU, where asking costs nothing, they
        are not computed.

        Args:
            batch: `[G, T]`, see `TeamCollector`.
            memory: `[G, T / chunk]` what the mechs remembered at the start of each training sequence.

        Returns:
            The mean of each entry of the loss and of `gradient_norm` over the minibatches (`REPORTED`), the number of
            `epochs`, and `skipped` steps so far.
        """
        # An operation on several threads ends when the last one does: beside other programs they mostly wait, busily.
        with one_thread(batch.get("is_init").device):
            return self._update(batch, memory)

    def _update(self, batch: TensorDictBase, memory: TensorDictBase) -> dict[str, Tensor]:
        """`update`, on whatever threads."""
        sequences = self._in_place(Sequences(batch, memory, self.config.chunk_decisions))
        if self.sequences is None or self.sequences.places() != sequences.places():
            self.graphed.forget()
        self.sequences = sequences
        self.at.zero_()
        self.longest.zero_()
        self.goes_on.fill_(True)
        counts: list[Tensor] = []
        for epoch in range(self.config.epochs):
            for index in sequences.shuffled(self.config.minibatches):
                if self.cuda_graph:
                    # To where a CUDA graph reads so many.
                    index = self.indices.setdefault(len(index), index.clone()).copy_(index)
                self.index = index
                self.graphed(len(index) if self.cuda_graph else None)
            done = len(counts)
            counts += [self.goes_on.clone()] * self.config.minibatches
            if self.config.target_kl > 0 and epoch + 1 < self.config.epochs:
                column = self.reported.index("kl" if "kl" in self.reported else "kl_approx")
                kl = self.rows[done : len(counts), column].contiguous().mean()
                self.goes_on &= ~(kl > self.config.target_kl)
                if self.may_ask and not self.goes_on:
                    break
        counted, rows = torch.stack(counts), self.rows[: len(counts)].T.contiguous()
        values = dict(zip(self.reported, rows, strict=True))
        means = {name: torch.where(counted, row, 0.0).sum() / counted.sum() for name, row in values.items()}
        return {**means, "epochs": counted.sum().float() / self.config.minibatches, "skipped": self.skipped.clone()}

    def _in_place(self, sequences: Sequences) -> Sequences:
        """The sequences, what was estimated of them copied to where a CUDA graph has read it before."""
        for name in ESTIMATES if self.cuda_graph else ():
            estimate, captured = sequences.data.get(name), self.estimates.get(name)
            if captured is None or captured.shape != estimate.shape:
                self.estimates[name] = estimate
            else:
                sequences.data.set(name, captured.copy_(estimate))
        return sequences

    def _learn_next(self) -> None:
        """A step on the sequences `index`, whose report becomes the next of `rows`."""
        assert self.sequences is not None
        report = self.learn(self.sequences.take(self.index))
        row = torch.stack(list(report.values()))
        if not self.reported:
            self.reported = list(report)
            steps = self.config.epochs * self.config.minibatches
            self.rows = torch.zeros((steps, len(row)), dtype=row.dtype, device=row.device)
        self.rows.index_copy_(0, self.at, row[None])
        self.at += 1
        if self.cuda_graph:
            # They lie in the memory of the graph, which the next one uses too.
            self.optimizer.zero_grad(set_to_none=True)

    def learn(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """One gradient step on whole sequences, batch `[S, L]`, accumulated over parts of it."""
        living, shape, size = minibatch.get("mask").sum(), (*minibatch.shape, 1), self.ranks.size
        minibatch.set(LIVING, self.ranks.sum(living).clamp_min(1).expand(shape))
        decisions = count_decisions(minibatch)
        # Minibatches of several processes are of one size, but may hold different numbers of padded mechs.
        decisions = self.ranks.sum(decisions) if EXISTS in minibatch.keys() else decisions * size
        minibatch.set(DECISIONS, decisions.expand(shape))
        self.optimizer.zero_grad(set_to_none=True)
        chunks = minibatch.chunk(self._count_parts(minibatch), 0)
        reports = self._side_by_side(chunks) if self.is_shared and len(chunks) > 1 else self._in_turn(chunks)
        report = {name: reduce(torch.add, [losses[name] for losses in reports]) for name in reports[0]}
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm, foreach=True)
        report = dict(zip(report, self.ranks.sum(torch.stack(list(report.values()))).unbind(), strict=True))
        self.step(total(report).isfinite() & norm.isfinite())
        return {**report, "gradient_norm": norm}

    def _in_turn(self, parts: Sequence[TensorDictBase]) -> list[dict[str, Tensor]]:
        """Add the gradients of all `parts` to the weights' and return the report of each."""
        reports, size = [], self.ranks.size
        for i, chunk in enumerate(parts):
            with self._gradient_sync(is_last=i + 1 == len(parts)), PROGRESS.calling(LOSS):
                losses = dict(self.loss(chunk).items())
                # DistributedDataParallel averages over processes, but the losses are already divided by global counts.
                (total(losses) * size).backward()
            reports.append(detached(losses))
        return reports

    def _side_by_side(self, parts: Sequence[TensorDictBase]) -> list[dict[str, Tensor]]:
        """`_in_turn` on several threads, each of which computes a part by itself.

        Gradients are added in the order of the parts, so that neither the number of threads nor their pace changes one.
        """
        weights = [weight for weight in self.policy.parameters() if weight.requires_grad]

        def differentiate(part: TensorDictBase) -> tuple[dict[str, Tensor], tuple[Tensor | None, ...]]:
            # These modes belong to a thread; `training_process` has set the caller's.
            with torch.enable_grad(), torch.autocast("cpu", enabled=False, cache_enabled=False):
                losses = dict(self.loss(part).items())
                return detached(losses), torch.autograd.grad(total(losses), weights, allow_unused=True)

        run = workers(self.threads).map if self.threads > 1 else map
        reports = []
        # TorchRL's losses set these modes of the process and put back what they met, which may be another thread's.
        with set_exploration_type(self.objective.deterministic_sampling_mode), set_recurrent_mode(True):
            computed = list(run(differentiate, parts))
        for report, gradients in computed:
            reports.append(report)
            for weight, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        return reports

    def _count_parts(self, minibatch: TensorDictBase) -> int:
        """Number of parts to compute a minibatch `[S, L]` in."""
        mask = minibatch.get("mask")
        may_choose = self.config.accumulate == 0 and mask.device.type == "cpu" and LIVING in self.objective.in_keys
        if not may_choose:
            return max(self.config.accumulate, 1)
        minimum = 1 if mask.numel() <= CPU_WHOLE else 2
        return min(max(math.ceil(mask.numel() / CPU_PART), minimum), len(mask))

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[object]:
        """Context that synchronises gradients between processes only for the last part of a minibatch."""
        wrapper = self.loss
        return wrapper.no_sync() if isinstance(wrapper, DistributedDataParallel) and not is_last else nullcontext()

    def state_dict(self) -> StateDict:
        """Counts of skipped steps; a checkpoint stores weights and optimiser separately."""
        return StateDict({"skipped": self.skipped, "in_a_row": self.in_a_row})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the counts from a checkpoint."""
        state_dict.check({"skipped": self.skipped, "in_a_row": self.in_a_row})
        self.skipped.copy_(state_dict.tensors["skipped"])
        self.in_a_row.copy_(state_dict.tensors["in_a_row"])

    def step(self, is_finite: Tensor) -> None:
        """Step the optimiser if `is_finite []` bool and the update goes on, without a host sync."""
        self.found_inf.copy_(~(is_finite & self.goes_on))
        self.optimizer.step()
        skip = (~is_finite & self.goes_on).float()
        self.skipped += skip
        self.in_a_row.copy_(torch.where(self.goes_on, (self.in_a_row + 1) * skip, self.in_a_row))
        torch.maximum(self.longest, self.in_a_row, out=self.longest)


def total(losses: Mapping[str, Tensor]) -> Tensor:
    """`[]` sum of the losses of a report."""
    return torch.stack([value for name, value in losses.items() if name.startswith("loss_")]).sum()


def detached(losses: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`[]` each entry of a report, without its graph."""
    return {name: value.detach().mean() for name, value in losses.items()}


class Sequences:
    """A rollout `[G, T]` as G * T / length training sequences of equal length.

    Args:
        batch: the rollout, with advantages; its `TRAINING_KEYS` are taken.
        memory: `[G, T / length]` what the mechs remembered at the start of each sequence.
        length: length L of a sequence.
    """

    def __init__(self, batch: TensorDictBase, memory: TensorDictBase, length: int) -> None:
        # Time first, as a `TeamCollector` stores it, so that nothing is copied here.
        self.data = batch.select(*TRAINING_KEYS, strict=False).transpose(0, 1).flatten(0, 1)
        self.memory = memory.transpose(0, 1).flatten(0, 1)
        self.length = length
        self.teams = batch.shape[0]
        self.count = memory.shape.numel()
        # A batch of TorchRL's `next(collector)` has no device.
        self.device = batch.get("is_init").device

    def places(self) -> tuple[int, ...]:
        """Where its tensors lie: another rollout may lie elsewhere."""
        return tuple(storage_of(leaf) for data in (self.data, self.memory) for leaf in data.values(True, True))

    def shuffled(self, parts: int) -> Iterator[Tensor]:
        """Indices of all sequences in random order, split in `parts` of nearly equal size."""
        yield from torch.randperm(self.count, device=self.device).tensor_split(parts)

    def take(self, index: Tensor) -> TensorDictBase:
        """Sequences `index [S]`, batch `[S, L]`, with the `memory` of their first step at every step."""
        chunk, team = index // self.teams, index % self.teams
        offsets = torch.arange(self.length, device=self.device)[:, None] * self.teams
        rows = (chunk * self.length * self.teams + team + offsets).flatten()
        shape = (self.length, len(index))

        def pick(leaf: Tensor) -> Tensor:
            return leaf.index_select(0, rows).unflatten(0, shape)

        def begin(leaf: Tensor) -> Tensor:
            first = leaf.index_select(0, index)
            return first[:, None].expand(-1, self.length, *first.shape[1:])

        sequences = self.data.apply(pick, batch_size=shape).transpose(0, 1)
        return sequences.set("memory", self.memory.apply(begin, batch_size=sequences.shape))
