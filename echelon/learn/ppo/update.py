"""PPO (Schulman et al. 2017): the objective, and the update in epochs of minibatches of whole sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from tensordict.utils import NestedKey, expand_as_right
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torchrl.objectives import LossModule

from echelon.env.blocks import one_thread
from echelon.learn.config import PPOConfig
from echelon.learn.models.actor_critic import ActorCritic, PolicyOperator, ValueHead
from echelon.learn.padding import EXISTS, without_padding
from echelon.learn.ppo.forked_parts import CAN_FORK, ForkedParts, Part, SharedMemory
from echelon.learn.ppo.sequences import DECISIONS, LIVING, NOT_OF_MECHS, MechSequences, Sequences
from echelon.rules.actions import CONTROLS, Act
from echelon.runtime.compile import PROGRESS, keep_graphs
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.runtime.device import can_compile
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import require
from echelon.runtime.tensor_files import StateDict

HEADS: dict[str, tuple[int, ...]] = {
    "move": (int(Act.FORWARD), int(Act.STRAFE), int(Act.VERTICAL)),
    "turn": (int(Act.YAW_RATE),),
    "fire": (int(Act.PRIMARY), int(Act.SECONDARY), int(Act.TERTIARY), int(Act.SPECIAL)),
    "vent": (int(Act.VENT),),
    "prefer": tuple(range(Act.PREFER_0, Act.PREFER_4 + 1)),
    "sort": tuple(range(Act.PREFER_4 + 1, CONTROLS)),
}
"""Action columns by purpose, as plain ints for torch.compile; all other columns are the message."""
LOSSES = ("loss_objective", "loss_critic", "loss_entropy")
DIAGNOSTICS = ("kl", "clip_fraction", "entropy", *(f"entropy_{head}" for head in (*HEADS, "message")))
REPORTED = (*LOSSES, *DIAGNOSTICS, "gradient_norm")
ESTIMATES = ("advantage", "value_target", "value_target_normalized")
"""The entries of `TRAINING_KEYS` that are recomputed for every rollout."""
CPU_PART = 24_576
"""Maximum number of mech decisions per minibatch part on a CPU; larger parts exceed its caches."""
CPU_WHOLE = 1_024
"""Maximum number of mech decisions in a minibatch that a CPU does not split; in smaller ones the fixed cost of
operations dominates."""
LOSS = "the loss"
"""Name of the compiled loss in the log."""
PATIENCE = 3
"""Number of consecutive non-finite steps after which a run stops."""


class RecurrentPPOLoss(LossModule):
    """Clipped PPO objective over whole sequences `[S, L]` of S teams of A mechs.

    Policy and entropy terms average over living mechs. The value term averages over all mechs, because terminal rewards
    of dead mechs enter the loss only through their values. TorchRL's `ClipPPOLoss` has one mask for all terms, reports
    one entropy for all columns, and includes dead mechs in its diagnostics; without dead mechs the two losses agree. If
    the minibatch contains `exists [S, L, A]`, padding enters no term, even if it contains NaN.

    For values in real units, as from TorchRL's estimators, call `set_keys(value="state_value",
    value_target="value_target")`.

    The result has the scalars `LOSSES`, whose sum is minimised, and the detached `DIAGNOSTICS`.

    Args:
        actor_network: its `get_dist` returns the distribution; use `ActorCritic.get_policy_operator()`.
        critic_network: writes the value; the policy's value head is enough, because the actor writes `embed`.
        clip_epsilon: clipping range of the ratio around 1.
        entropy_coeff: weight of the entropy; a buffer, so a schedule can change it.
        critic_coeff: weight of the value term.
        clip_value: clipping range around the value of the rollout, in the units of `tensor_keys.value`; 0 disables it.
    """

    @dataclass
    class _AcceptedKeys:
        """Entries of the minibatch, see `TeamCollector` and `NormalizedGAE`."""

        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target_normalized"
        value: NestedKey = "state_value_normalized"
        sample_log_prob: NestedKey = "pre_tanh_log_prob"
        action: NestedKey = "pre_tanh"
        mask: NestedKey = "mask"

    default_keys = _AcceptedKeys
    actor_network: PolicyOperator
    critic_network: ValueHead | TensorDictModule
    entropy_coeff: Tensor

    def __init__(
        self,
        actor_network: PolicyOperator,
        critic_network: ValueHead | TensorDictModule,
        *,
        clip_epsilon: float = 0.2,
        entropy_coeff: float = 0.01,
        critic_coeff: float = 0.5,
        clip_value: float = 0.0,
    ) -> None:
        super().__init__()
        self.actor_network = actor_network
        self.critic_network = critic_network
        self.clip_epsilon, self.critic_coeff, self.clip_value = clip_epsilon, critic_coeff, clip_value
        device = next(actor_network.parameters()).device
        self.register_buffer("entropy_coeff", torch.tensor(entropy_coeff, dtype=torch.float32, device=device))
        self._set_in_keys()
        self.out_keys = [*LOSSES, *DIAGNOSTICS]

    def _set_in_keys(self) -> None:
        self.in_keys = [*self.actor_network.in_keys, *vars(self.tensor_keys).values(), LIVING, DECISIONS]

    def _forward_value_estimator_keys(self, **kwargs: NestedKey) -> None:
        """Do nothing when `set_keys` calls this: advantages are estimated outside the loss."""
        self._set_in_keys()

    @classmethod
    def of(cls, actor_network: PolicyOperator, critic_network: ValueHead, config: PPOConfig) -> RecurrentPPOLoss:
        """Build the loss with the coefficients of a config."""
        return cls(
            actor_network,
            critic_network,
            clip_epsilon=config.clip,
            entropy_coeff=config.entropy_coef.first,
            critic_coeff=config.value_coef,
            clip_value=config.value_clip,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute losses and diagnostics, scalars, of a minibatch `[S, L]`."""
        data, keys = without_padded_mechs(tensordict.copy()), self.tensor_keys
        # Run the actor first, because it writes the input of the value head.
        distribution = self.actor_network.get_dist(data)
        old_value = data.get(keys.value, None)
        value = self.critic_network(data).get(keys.value)
        mask, exists = data.get(keys.mask), data.get(EXISTS, None)
        living, decisions = counts(data, mask)

        def mean_of_living(per_decision: Tensor) -> Tensor:
            return summed(torch.where(expand_as_right(mask, per_decision), per_decision, 0.0), mask.dim()) / living

        log_ratio = distribution.log_prob(data.get(keys.action)) - data.get(keys.sample_log_prob)
        ratio = log_ratio.exp()
        advantage = data.get(keys.advantage)[..., 0]
        clipped = ratio.clamp(1 - self.clip_epsilon, 1 + self.clip_epsilon)
        with torch.no_grad():
            # KL estimator of Schulman (2020), "Approximating KL divergence", which is unbiased and never negative
            kl, is_clipped = (ratio - 1 - log_ratio), (ratio - 1).abs() > self.clip_epsilon
        # Stack the terms, because one reduction is faster than three.
        terms = torch.stack((torch.minimum(ratio * advantage, clipped * advantage), kl, is_clipped.float()), -1)
        objective, kl, clip_fraction = mean_of_living(terms).unbind()
        entropies = mean_of_living(distribution.entropies())
        error = value_error(value, old_value, data.get(keys.value_target), self.clip_value)
        error = without_padding(error, exists)
        report: dict[str, Any] = {
            "loss_objective": -objective,
            "loss_critic": self.critic_coeff * summed(error, error.dim()) / decisions,
            "loss_entropy": -self.entropy_coeff * entropies.mean(),
            "kl": kl.detach(),
            "clip_fraction": clip_fraction.detach(),
            **entropy_report(entropies.detach()),
        }
        return TensorDict(report)


def without_padded_mechs(data: TensorDictBase) -> TensorDictBase:
    """Return a minibatch `[S, L]` with zeros in all entries of padding. Without these zeros, NaN in padding would reach
    the weights' gradients, because NaN times 0 is NaN.
    """
    exists = data.get(EXISTS, None)
    if exists is None:
        return data

    def blank(name: NestedKey, leaf: Tensor) -> Tensor:
        return leaf if name in NOT_OF_MECHS else without_padding(leaf, exists)

    return data.named_apply(blank, nested_keys=True)


def counts(data: TensorDictBase, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers of decisions of living and of all mechs, from the minibatch or counted in `mask [S, L, A]`."""
    if LIVING in data.keys():
        return data.get(LIVING)[0, 0, 0], data.get(DECISIONS)[0, 0, 0]
    return mask.sum().clamp_min(1), count_decisions(data)


def count_decisions(data: TensorDictBase) -> Tensor:
    """Return the number of mech decisions in a minibatch, without padding."""
    mask = data.get("mask")
    return data.get(EXISTS).sum() if EXISTS in data.keys() else torch.full((), mask.numel(), device=mask.device)


def summed(value: Tensor, depth: int) -> Tensor:
    """Sum over the first `depth` dimensions of `value [S, L, ...]`, in the order of memory, with time first."""
    return value.transpose(0, 1).contiguous().sum(tuple(range(depth)))


def entropy_report(entropies: Tensor) -> Mapping[str, Tensor]:
    """Return the mean entropy of all action columns, of each of `HEADS`, and of the message, from `entropies [D]`."""
    # Stack single columns: indexing with a list would copy the list to the device and synchronise.
    columns, message = entropies.unbind(), entropies[CONTROLS:]
    return {
        "entropy": entropies.mean(),
        **{f"entropy_{name}": torch.stack([columns[act] for act in acts]).mean() for name, acts in HEADS.items()},
        "entropy_message": message.mean() if len(message) > 0 else entropies.new_zeros(()),
    }


def value_error(value: Tensor, old: Tensor | None, target: Tensor, clip: float) -> Tensor:
    """Return the squared error, or with `clip > 0` the maximum of this error and the one of the value clipped around
    `old`. All shapes are equal."""
    error = (value - target).square()
    if clip > 0:
        assert old is not None
        clipped = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (clipped - target).square())
    return error


class PPO:
    """Updates an `ActorCritic` from its rollouts.

    A step with a non-finite loss or gradient is skipped on the device: it sets the flag `found_inf`, which Adam checks
    for gradient scalers, so weights and moments stay unchanged. The report contains the number of skipped steps.

    Args:
        policy: the policy to train.
        ranks: data-parallel processes; a step equals a step of one process on the joint minibatch.
        loss: the objective, by default a `RecurrentPPOLoss`. Entries that begin with `loss_` are summed and minimised,
            the others are reported. With several parts or processes the results are added, so the loss must divide by
            `LIVING` and `DECISIONS` and list them in `in_keys`.
        compiled: whether torch.compile makes one graph of the loss, forward and backward.
        cuda_graph: whether a step is captured as a CUDA graph and replayed; not with several processes. A CUDA graph
            needs tensors that are updated in place; on a CPU the same code runs without it.

    Raises:
        ConfigError: if there are several parts or processes, and `loss` lacks these `in_keys`.
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
        """The objective, wrapped in `DistributedDataParallel` for several processes."""
        self.threads = torch.get_num_threads() if device.type == "cpu" else 1
        """Number of processes that share the parts of a minibatch; does not affect gradients."""
        self.is_shared = device.type == "cpu" and ranks.is_alone and not compiled and not cuda_graph
        """Whether parts may be computed in parallel."""
        self.weights = [weight for weight in policy.parameters() if weight.requires_grad]
        self.memory: SharedMemory | None = None
        """Memory shared by the processes that compute parts."""
        self.side_by_side = ForkedParts(self._part, None, 1)
        """Computes the parts of a minibatch."""
        self.drops_absent = False
        """Whether batches mark absent mechs by `exists`, and their sequences are left out; only with `is_shared`."""
        self.cuda_graph = cuda_graph and ranks.is_alone
        self.optimizer = self._make_optimizer(device)
        self.found_inf = torch.zeros((), dtype=torch.float32, device=device)
        """`[]` 1 to skip the optimiser step; Adam reads this attribute, meant for gradient scalers."""
        setattr(self.optimizer, "found_inf", self.found_inf)  # noqa: B010
        self.graphed = GraphedFunction(self._learn_next, device, "learning")
        self.sequences: Sequences | None = None
        """The last rollout."""
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        """`[1]` number of steps so far in this update."""
        self.reported: list[str] = []
        """Names of the entries in a step's report."""
        self.entries: list[str] = []
        """Names of the entries returned by the loss."""
        self.estimates: dict[str, Tensor] = {}
        """Advantages and targets of the last rollout at fixed addresses, for CUDA graphs."""
        self.indices: dict[int, Tensor] = {}
        """Index tensors at fixed addresses, for CUDA graphs, by number of sequences."""
        self.host_may_read = device.type == "cpu"
        """Whether the host may read results: on a GPU that would synchronise."""
        self._make_counts(device)

    def _make_counts(self, device: torch.device) -> None:
        """Create the counters of steps on the device."""
        self.is_running = torch.ones((), dtype=torch.bool, device=device)
        """`[]` bool, False after an epoch whose KL exceeds `target_kl`; further steps are then skipped."""
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
            # torch 2.13 renames `broadcast_buffers`, but torch 2.11 has only this name.
            warnings.simplefilter("ignore", FutureWarning)
            return DistributedDataParallel(self.objective, broadcast_buffers=False)

    def _make_optimizer(self, device: torch.device) -> torch.optim.Adam:
        rate: float | Tensor = self.config.learning_rate.first
        on_gpu = device.type == "cuda"
        if self.cuda_graph:
            # A float would become a constant of the CUDA graph. Fused Adam on a GPU needs a float32 tensor.
            rate = torch.tensor(rate, dtype=torch.float32 if on_gpu else torch.float64, device=device)
        weights, capturable = self.policy.parameters(), self.cuda_graph and on_gpu
        return torch.optim.Adam(weights, lr=rate, eps=1e-5, fused=True, capturable=capturable)

    def anneal(self, progress: float) -> dict[str, float]:
        """Set learning rate and entropy coefficient for `progress` 0..1 of the run; return both."""
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

        Minibatches are shuffled with torch's default generator. The update never syncs with a GPU: after an epoch with
        a KL above `target_kl`, the remaining steps are skipped on the device. On a CPU the remaining steps are not
        computed.

        Args:
            batch: the rollout `[G, T]`, see `TeamCollector`.
            memory: recurrent memory at the start of each training sequence, `[G, T / chunk]`.

        Returns:
            The mean of each entry of the loss and of `gradient_norm` over minibatches (`REPORTED`), the number of
            `epochs`, and `skipped`, the number of skipped steps so far.
        """
        # Multi-threaded torch operations wait for their slowest thread, which is expensive while other programs run.
        with one_thread(batch.get("is_init").device):
            return self._update(batch, memory)

    def _update(self, batch: TensorDictBase, memory: TensorDictBase) -> dict[str, Tensor]:
        """Like `update`, but without changing the number of threads."""
        kind = MechSequences if self.drops_absent else Sequences
        sequences = self._in_place(kind(batch, memory, self.config.chunk_decisions))
        if self.sequences is None or self.sequences.places() != sequences.places():
            self.graphed.forget()
        self.sequences = sequences
        self.at.zero_()
        self.longest.zero_()
        self.is_running.fill_(True)
        with self._several_processes(sequences) as self.side_by_side:
            counted = torch.stack(self._epochs(sequences))
        rows = self.rows[: len(counted)].T.contiguous()
        values = dict(zip(self.reported, rows, strict=True))
        means = {name: torch.where(counted, row, 0.0).sum() / counted.sum() for name, row in values.items()}
        return {**means, "epochs": counted.sum().float() / self.config.minibatches, "skipped": self.skipped.clone()}

    def _several_processes(self, sequences: Sequences) -> ForkedParts:
        """Return processes for the minibatch parts of an update, at most one per thread and per part."""
        largest = -(-sequences.count // self.config.minibatches)
        parts = self._count_parts(sequences.decisions(largest), largest) if self.is_shared else 1
        size = min(self.threads, parts) if CAN_FORK else 1
        if size > 1 and (self.memory is None or not self.memory.fits(largest, parts)):
            self.memory = SharedMemory(self.weights, largest, parts)
        return ForkedParts(self._part, self.memory, size)

    def _epochs(self, sequences: Sequences) -> list[Tensor]:
        """Take the steps of an update; return for each step a scalar bool that tells whether the step counts."""
        counts: list[Tensor] = []
        for epoch in range(self.config.epochs):
            for index in sequences.shuffled(self.config.minibatches):
                if self.cuda_graph:
                    # Copy the index to the fixed address from which the CUDA graph for this length reads it.
                    index = self.indices.setdefault(len(index), index.clone()).copy_(index)
                self.index = index
                self.graphed(len(index) if self.cuda_graph else None)
            done = len(counts)
            counts += [self.is_running.clone()] * self.config.minibatches
            if self.config.target_kl > 0 and epoch + 1 < self.config.epochs:
                column = self.reported.index("kl" if "kl" in self.reported else "kl_approx")
                kl = self.rows[done : len(counts), column].contiguous().mean()
                self.is_running &= ~(kl > self.config.target_kl)
                if self.host_may_read and not self.is_running:
                    break
        return counts

    def _in_place(self, sequences: Sequences) -> Sequences:
        """Copy the estimates of the sequences to the addresses from which a CUDA graph reads; return the sequences."""
        for name in ESTIMATES if self.cuda_graph else ():
            estimate, captured = sequences.data.get(name), self.estimates.get(name)
            if captured is None or captured.shape != estimate.shape:
                self.estimates[name] = estimate
            else:
                sequences.data.set(name, captured.copy_(estimate))
        return sequences

    def _learn_next(self) -> None:
        """Take a step on the sequences `index`, and write its report to the next row of `self.rows`."""
        assert self.sequences is not None
        size = len(self.index)
        parts = self._count_parts(self.sequences.decisions(size), size) if self.is_shared else 1
        report = self._learn_in_parts(parts) if parts > 1 else self.learn(self.sequences.take(self.index))
        row = torch.stack(list(report.values()))
        if not self.reported:
            self.reported = list(report)
            steps = self.config.epochs * self.config.minibatches
            self.rows = torch.zeros((steps, len(row)), dtype=row.dtype, device=row.device)
        self.rows.index_copy_(0, self.at, row[None])
        self.at += 1
        if self.cuda_graph:
            # Free the gradients: they are in the CUDA graph's memory pool, which the next graph reuses.
            self.optimizer.zero_grad(set_to_none=True)

    def learn(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """Take one gradient step on whole sequences, batch `[S, L]`, accumulated over parts."""
        living, size = minibatch.get("mask").sum(), self.ranks.size
        decisions = count_decisions(minibatch)
        # The minibatches of all processes have equal size, but their numbers of padded mechs may differ.
        decisions = self.ranks.sum(decisions) if EXISTS in minibatch.keys() else decisions * size
        set_counts(minibatch, self.ranks.sum(living), decisions)
        self.optimizer.zero_grad(set_to_none=True)
        reports = self._in_turn(minibatch.chunk(self._count_parts(minibatch.get("mask").numel(), len(minibatch)), 0))
        return self._step_by(reduce(torch.add, reports))

    def _learn_in_parts(self, parts: int) -> dict[str, Tensor]:
        """Like `learn`, on the sequences `self.index`, in `parts` that may be computed in parallel.

        Gradients are added in the order of the parts, so the result does not depend on the number or speed of
        processes.
        """
        computed = self.side_by_side.compute(self.index, parts)
        self.optimizer.zero_grad(set_to_none=True)
        for _, gradients in computed:
            for weight, gradient in zip(self.weights, gradients, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        return self._step_by(reduce(torch.add, (part.report for part in computed)))

    def _part(self, index: Tensor, number: int, parts: int) -> Part:
        """Compute report and gradients of one of the `parts` of the sequences `index [S]`."""
        assert self.sequences is not None
        everything, part = self.sequences.counted(index), self.sequences.take(index.tensor_split(parts)[number])
        set_counts(part, everything.get("mask").sum(), count_decisions(everything))
        losses = dict(self.loss(part).items())
        self.entries = list(losses)
        gradients = torch.autograd.grad(total(losses), self.weights, allow_unused=True)
        # Fused Adam assumes that a gradient has its weight's memory layout.
        return Part(detached(losses), [None if gradient is None else gradient.contiguous() for gradient in gradients])

    def _step_by(self, values: Tensor) -> dict[str, Tensor]:
        """Take the optimiser step with the current gradients; return the report summed over all processes, given the
        `values` of this process."""
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm, foreach=True)
        report = dict(zip(self.entries, self.ranks.sum(values).unbind(), strict=True))
        self.step(total(report).isfinite() & norm.isfinite())
        return {**report, "gradient_norm": norm}

    def _in_turn(self, parts: Sequence[TensorDictBase]) -> list[Tensor]:
        """Accumulate the gradients of all `parts` and return the report of each."""
        reports, size = [], self.ranks.size
        for i, chunk in enumerate(parts):
            with self._gradient_sync(is_last=i + 1 == len(parts)), PROGRESS.calling(LOSS):
                losses = dict(self.loss(chunk).items())
                # DistributedDataParallel averages over processes, but the losses are already divided by global counts.
                (total(losses) * size).backward()
            self.entries = list(losses)
            reports.append(detached(losses))
        return reports

    def _count_parts(self, decisions: int, sequences: int) -> int:
        """Return the number of parts for a minibatch with these numbers of mech decisions and sequences."""
        may_choose = self.config.accumulate == 0 and self.host_may_read and LIVING in self.objective.in_keys
        if not may_choose:
            return max(self.config.accumulate, 1)
        minimum = 1 if decisions <= CPU_WHOLE else 2
        return min(max(math.ceil(decisions / CPU_PART), minimum), sequences)

    def _gradient_sync(self, is_last: bool) -> AbstractContextManager[object]:
        """Return a context that synchronises gradients between processes only for the last part of a minibatch."""
        wrapper = self.loss
        return wrapper.no_sync() if isinstance(wrapper, DistributedDataParallel) and not is_last else nullcontext()

    def state_dict(self) -> StateDict:
        """Return the counts of skipped steps; checkpoints store weights and optimiser separately."""
        return StateDict({"skipped": self.skipped, "in_a_row": self.in_a_row})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the counts from a checkpoint."""
        state_dict.check({"skipped": self.skipped, "in_a_row": self.in_a_row})
        self.skipped.copy_(state_dict.tensors["skipped"])
        self.in_a_row.copy_(state_dict.tensors["in_a_row"])

    def step(self, is_finite: Tensor) -> None:
        """Step the optimiser if `is_finite []` bool is True and the update is not stopped, without a host sync."""
        self.found_inf.copy_(~(is_finite & self.is_running))
        self.optimizer.step()
        skip = (~is_finite & self.is_running).float()
        self.skipped += skip
        self.in_a_row.copy_(torch.where(self.is_running, (self.in_a_row + 1) * skip, self.in_a_row))
        torch.maximum(self.longest, self.in_a_row, out=self.longest)


def set_counts(minibatch: TensorDictBase, living: Tensor, decisions: Tensor) -> None:
    """Write the numbers of decisions of living and of all mechs (scalars) to a minibatch or a part of it."""
    shape = (*minibatch.shape, 1)
    minibatch.set(LIVING, living.clamp_min(1).expand(shape)).set(DECISIONS, decisions.expand(shape))


def total(losses: Mapping[str, Tensor]) -> Tensor:
    """Return the sum of the losses of a report."""
    return torch.stack([value for name, value in losses.items() if name.startswith("loss_")]).sum()


def detached(losses: Mapping[str, Tensor]) -> Tensor:
    """Return the entries of a report as one tensor `[entries]`, detached from the graph."""
    return torch.stack([value.detach() if value.dim() == 0 else value.detach().mean() for value in losses.values()])
