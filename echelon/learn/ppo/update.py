"""PPO (Schulman et al. 2017): its objective, and its update by epochs of minibatches of whole sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
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
from echelon.learn.models.keys import IS_INIT, TELEMETRY
from echelon.learn.padding import EXISTS, without_padding
from echelon.learn.ppo.forked_parts import CAN_FORK, ForkedParts, Part, SharedMemory
from echelon.rules.actions import CONTROLS, Act
from echelon.runtime.compile import PROGRESS, keep_graphs
from echelon.runtime.cuda_graphs import GraphedFunction, storage_of
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
"""Action columns by purpose, as plain integers for torch.compile; all further columns are the message."""
LOSSES = ("loss_objective", "loss_critic", "loss_entropy")
DIAGNOSTICS = ("kl", "clip_fraction", "entropy", *(f"entropy_{head}" for head in (*HEADS, "message")))
LIVING, DECISIONS = "living", "decisions"
"""Entries `[S, L, 1]`: numbers of decisions of living mechs and of all mechs in the minibatch. They exceed those of the
data with gradient accumulation or several processes; without them the data's own are taken."""
NOT_OF_MECHS = (TELEMETRY, IS_INIT, EXISTS, LIVING, DECISIONS, "enemy")
"""Entries of a minibatch without an axis of the team's own mechs."""
REPORTED = (*LOSSES, *DIAGNOSTICS, "gradient_norm")
TRAINING_KEYS = (
    *("observation", "telemetry", "enemy", "mask", EXISTS, "is_init", "pre_tanh", "pre_tanh_log_prob", "advantage"),
    *("state_value", "state_value_normalized", "value_target", "value_target_normalized"),
)
ESTIMATES = ("advantage", "value_target", "value_target_normalized")
"""Those of `TRAINING_KEYS` that are made anew of every rollout."""
CPU_PART = 24_576
"""Decisions of mechs in a part of a minibatch at most, on a CPU: larger ones leave its caches."""
CPU_WHOLE = 1_024
"""Decisions of mechs in a minibatch that a CPU computes as a whole at most: in smaller ones the fixed cost of
operations is most of the time."""
LOSS = "the loss"
"""What the log calls it where it is compiled."""
PATIENCE = 3
"""Number of consecutive non-finite steps after which a run stops."""


class RecurrentPPOLoss(LossModule):
    """Clipped PPO objective over whole sequences `[S, L]` of S teams of A mechs.

    Policy and entropy terms average over the mechs that were alive at the decision; the value term averages over all,
    because terminal rewards reach dead mechs through it alone (R37). TorchRL's `ClipPPOLoss` has one mask for both,
    reports one entropy for all columns, and includes dead mechs in its diagnostics; without dead mechs both agree.
    Where the minibatch has `exists [S, L, A]`, mechs that do not exist enter no term, whatever they hold.

    Where values are in real units, as from TorchRL's estimators, `set_keys(value="state_value",
    value_target="value_target")` fits the critic to these.

    The result has the scalars `LOSSES`, whose sum is minimised, and the detached `DIAGNOSTICS`.

    Args:
        actor_network: its `get_dist` gives the distribution, for `ActorCritic.get_policy_operator()`.
        critic_network: writes the value; the policy's value head suffices, because the actor has written `embed`.
        clip_epsilon: range of the ratio around 1.
        entropy_coeff: weight of the entropy; a buffer, so that a schedule can set it.
        critic_coeff: weight of the value term.
        clip_value: range around the value of the rollout, in the units of `tensor_keys.value`; 0 for none.
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
        """Called by `set_keys`; the advantages are estimated outside."""
        self._set_in_keys()

    @classmethod
    def of(cls, actor_network: PolicyOperator, critic_network: ValueHead, config: PPOConfig) -> RecurrentPPOLoss:
        """The loss with the coefficients of a config."""
        return cls(
            actor_network,
            critic_network,
            clip_epsilon=config.clip,
            entropy_coeff=config.entropy_coef.first,
            critic_coeff=config.value_coef,
            clip_value=config.value_clip,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Scalar losses and diagnostics of a minibatch `[S, L]`."""
        data, keys = without_padded_mechs(tensordict.copy()), self.tensor_keys
        # The actor writes what the value head reads.
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
            # Schulman 2020, "Approximating KL divergence": unbiased and never negative.
            kl, is_clipped = (ratio - 1 - log_ratio), (ratio - 1).abs() > self.clip_epsilon
        # Side by side, because each operation on its own takes longer than what it computes.
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
    """A minibatch `[S, L]` with zeros in all that belongs to mechs that do not exist: a weight's gradient would be that
    of its input times 0."""
    exists = data.get(EXISTS, None)
    if exists is None:
        return data

    def blank(name: NestedKey, leaf: Tensor) -> Tensor:
        return leaf if name in NOT_OF_MECHS else without_padding(leaf, exists)

    return data.named_apply(blank, nested_keys=True)


def counts(data: TensorDictBase, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`[]` numbers of decisions of living mechs and of all mechs, from the minibatch or counted in `mask [S, L, A]`."""
    if LIVING in data.keys():
        return data.get(LIVING)[0, 0, 0], data.get(DECISIONS)[0, 0, 0]
    return mask.sum().clamp_min(1), count_decisions(data)


def count_decisions(data: TensorDictBase) -> Tensor:
    """`[]` number of decisions of all mechs in a minibatch, padding left out."""
    mask = data.get("mask")
    return data.get(EXISTS).sum() if EXISTS in data.keys() else torch.full((), mask.numel(), device=mask.device)


def summed(value: Tensor, depth: int) -> Tensor:
    """Sum over the first `depth` dimensions of `value [S, L, ...]`, time first, as sequences lie in memory."""
    return value.transpose(0, 1).contiguous().sum(tuple(range(depth)))


def entropy_report(entropies: Tensor) -> Mapping[str, Tensor]:
    """Mean entropy of all columns of the action, of each of `HEADS`, and of the message, from `entropies [D]`."""
    # Indexing by a list would copy it to the device, and wait.
    columns, message = entropies.unbind(), entropies[CONTROLS:]
    return {
        "entropy": entropies.mean(),
        **{f"entropy_{name}": torch.stack([columns[act] for act in acts]).mean() for name, acts in HEADS.items()},
        "entropy_message": message.mean() if len(message) > 0 else entropies.new_zeros(()),
    }


def value_error(value: Tensor, old: Tensor | None, target: Tensor, clip: float) -> Tensor:
    """Squared error; with `clip > 0` the maximum of it and that of the value clipped to `old`. All of one shape."""
    error = (value - target).square()
    if clip > 0:
        assert old is not None
        clipped = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (clipped - target).square())
    return error


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
        """Number of processes that share the parts of a minibatch; gradients do not depend on it."""
        self.is_shared = device.type == "cpu" and ranks.is_alone and not compiled and not cuda_graph
        """Whether parts may be computed side by side."""
        self.weights = [weight for weight in policy.parameters() if weight.requires_grad]
        self.memory: SharedMemory | None = None
        """What processes share that compute parts."""
        self.side_by_side = ForkedParts(self._part, None, 1)
        """Computes the parts of a minibatch."""
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
        self.entries: list[str] = []
        """Those that the loss has made."""
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
        with self._several_processes(sequences) as self.side_by_side:
            counted = torch.stack(self._epochs(sequences))
        rows = self.rows[: len(counted)].T.contiguous()
        values = dict(zip(self.reported, rows, strict=True))
        means = {name: torch.where(counted, row, 0.0).sum() / counted.sum() for name, row in values.items()}
        return {**means, "epochs": counted.sum().float() / self.config.minibatches, "skipped": self.skipped.clone()}

    def _several_processes(self, sequences: Sequences) -> ForkedParts:
        """Processes for the parts of the minibatches of an update, as many as there are threads and parts."""
        largest = -(-sequences.count // self.config.minibatches)
        parts = self._count_parts(sequences.decisions(largest), largest) if self.is_shared else 1
        size = min(self.threads, parts) if CAN_FORK else 1
        if size > 1 and (self.memory is None or not self.memory.fits(largest, parts)):
            self.memory = SharedMemory(self.weights, largest, parts)
        return ForkedParts(self._part, self.memory, size)

    def _epochs(self, sequences: Sequences) -> list[Tensor]:
        """Take the steps of an update; returns `[]` bool of each, whether it counts."""
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
        return counts

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
            # They lie in the memory of the graph, which the next one uses too.
            self.optimizer.zero_grad(set_to_none=True)

    def learn(self, minibatch: TensorDictBase) -> dict[str, Tensor]:
        """One gradient step on whole sequences, batch `[S, L]`, accumulated over parts of it."""
        living, size = minibatch.get("mask").sum(), self.ranks.size
        decisions = count_decisions(minibatch)
        # Minibatches of several processes are of one size, but may hold different numbers of padded mechs.
        decisions = self.ranks.sum(decisions) if EXISTS in minibatch.keys() else decisions * size
        set_counts(minibatch, self.ranks.sum(living), decisions)
        self.optimizer.zero_grad(set_to_none=True)
        reports = self._in_turn(minibatch.chunk(self._count_parts(minibatch.get("mask").numel(), len(minibatch)), 0))
        return self._step_by(reduce(torch.add, reports))

    def _learn_in_parts(self, parts: int) -> dict[str, Tensor]:
        """`learn` from the sequences `index`, in `parts` that may be computed side by side.

        Gradients are added in the order of the parts, so that neither the number of processes nor their pace changes
        one.
        """
        computed = self.side_by_side.compute(self.index, parts)
        self.optimizer.zero_grad(set_to_none=True)
        for _, gradients in computed:
            for weight, gradient in zip(self.weights, gradients, strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)
        return self._step_by(reduce(torch.add, (part.report for part in computed)))

    def _part(self, index: Tensor, number: int, parts: int) -> Part:
        """Report and gradients of one of the `parts` of the sequences `index [S]`."""
        assert self.sequences is not None
        everything, part = self.sequences.counted(index), self.sequences.take(index.tensor_split(parts)[number])
        set_counts(part, everything.get("mask").sum(), count_decisions(everything))
        losses = dict(self.loss(part).items())
        self.entries = list(losses)
        gradients = torch.autograd.grad(total(losses), self.weights, allow_unused=True)
        # Fused Adam reads a gradient as if it lay in memory as its weight does.
        return Part(detached(losses), [None if gradient is None else gradient.contiguous() for gradient in gradients])

    def _step_by(self, values: Tensor) -> dict[str, Tensor]:
        """Take the step by the gradients that the weights have; returns the report of all processes, from the `values`
        of this one's."""
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_grad_norm, foreach=True)
        report = dict(zip(self.entries, self.ranks.sum(values).unbind(), strict=True))
        self.step(total(report).isfinite() & norm.isfinite())
        return {**report, "gradient_norm": norm}

    def _in_turn(self, parts: Sequence[TensorDictBase]) -> list[Tensor]:
        """Add the gradients of all `parts` to the weights' and return the report of each."""
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
        """Number of parts to compute a minibatch in, of so many decisions of mechs in so many sequences."""
        may_choose = self.config.accumulate == 0 and self.may_ask and LIVING in self.objective.in_keys
        if not may_choose:
            return max(self.config.accumulate, 1)
        minimum = 1 if decisions <= CPU_WHOLE else 2
        return min(max(math.ceil(decisions / CPU_PART), minimum), sequences)

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


def set_counts(minibatch: TensorDictBase, living: Tensor, decisions: Tensor) -> None:
    """Write the `[]` numbers of decisions of living mechs and of all mechs to a minibatch or a part of it."""
    shape = (*minibatch.shape, 1)
    minibatch.set(LIVING, living.clamp_min(1).expand(shape)).set(DECISIONS, decisions.expand(shape))


def total(losses: Mapping[str, Tensor]) -> Tensor:
    """`[]` sum of the losses of a report."""
    return torch.stack([value for name, value in losses.items() if name.startswith("loss_")]).sum()


def detached(losses: Mapping[str, Tensor]) -> Tensor:
    """`[entries]` the entries of a report, without their graph."""
    return torch.stack([value.detach() if value.dim() == 0 else value.detach().mean() for value in losses.values()])


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

    def decisions(self, sequences: int) -> int:
        """Number of decisions of mechs in so many sequences."""
        return sequences * self.length * self.data.get("mask").shape[-1]

    def rows(self, index: Tensor) -> Tensor:
        """`[L * S]` rows of `data` that hold the sequences `index [S]`, time first."""
        chunk, team = index // self.teams, index % self.teams
        offsets = torch.arange(self.length, device=self.device)[:, None] * self.teams
        return (chunk * self.length * self.teams + team + offsets).flatten()

    def counted(self, index: Tensor) -> TensorDictBase:
        """`mask [L * S, A]` of the sequences `index [S]`, and `exists` if there is padding."""
        rows, data = self.rows(index), self.data.select("mask", EXISTS, strict=False)
        return data.apply(lambda leaf: leaf.index_select(0, rows), batch_size=rows.shape)

    def take(self, index: Tensor) -> TensorDictBase:
        """Sequences `index [S]`, batch `[S, L]`, with the `memory` of their first step at every step."""
        rows, shape = self.rows(index), (self.length, len(index))

        def pick(leaf: Tensor) -> Tensor:
            return leaf.index_select(0, rows).unflatten(0, shape)

        def begin(leaf: Tensor) -> Tensor:
            first = leaf.index_select(0, index)
            return first[:, None].expand(-1, self.length, *first.shape[1:])

        sequences = self.data.apply(pick, batch_size=shape).transpose(0, 1)
        return sequences.set("memory", self.memory.apply(begin, batch_size=sequences.shape))
