"""Export a policy as one ONNX file for other programs: a decision of single mechs, tensors in and tensors out."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from echelon.env.describe.columns import describe_battle
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.keys import TELEMETRY
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError, missing_package
from echelon.runtime.files import atomic_write

Actions = Literal["mean", "sampled"]
ACTION, NOISE = "action", "noise"
OPSET = 20
TRACED = 3
"""Number of mechs in the inputs for tracing; the graph accepts any number."""


class MechStep(nn.Module):
    """One decision of a batch of independent mechs, by a copy of a policy's network in evaluation mode and float32. The
    first axis of every input and output is the mech.

    Args:
        env: the battles; they define the number of contacts and squad mates in the observation.
        actions: either `mean`, the squashed mean of the distribution, or `sampled`, which has an additional input of
            standard normal numbers, `noise [mechs, D]`.
    """

    def __init__(self, policy: ActorCritic, env: EnvConfig, actions: Actions) -> None:
        super().__init__()
        self.network = copy.deepcopy(policy.network).cpu().eval()
        self.network.compute = torch.float32
        self.memory, fields = list(policy.memory_spec().keys()), describe_battle(env)
        streams = {f"observation.{name}": fields["blue", "observation", name] for name in self.network.streams}
        self.inputs = {name: zeros(leaf.shape[2:], leaf.dtype) for name, leaf in streams.items()}
        """Zeros shaped like one mech's inputs, keyed by the names of `echelon describe`, in argument order."""
        self.inputs[TELEMETRY] = zeros(fields[TELEMETRY].shape[1:])
        self.inputs |= {f"memory.{name}": zeros(leaf.shape) for name, leaf in policy.memory_spec().items()}
        if actions == "sampled":
            self.inputs[NOISE] = zeros((policy.specs.action_width,))
        self.outputs = [ACTION, *(f"next.memory.{name}" for name in self.memory)]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return `action [mechs, D]` in -1..1 and the next memory of each mech, from arguments in the order of
        `self.inputs`.
        """
        named_inputs = dict(zip(self.inputs, inputs, strict=True))
        streams = tuple(named_inputs[f"observation.{name}"][:, None] for name in self.network.streams)
        memory = {name: named_inputs[f"memory.{name}"][:, None] for name in self.memory}
        output = self.network(streams, named_inputs[TELEMETRY], memory)
        u = output.loc[:, 0]
        if NOISE in named_inputs:
            u = u + output.scale[:, 0] * named_inputs[NOISE]
        return (u.tanh(), *(output.memory[name][:, 0] for name in self.memory))


def zeros(shape: Sequence[int], dtype: str = "torch.float32") -> Tensor:
    """Return zeros; `dtype` is given as torch prints it, such as `torch.float32`."""
    return torch.zeros(*shape, dtype=getattr(torch, dtype.removeprefix("torch.")), device="cpu")


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings and logs in a context: the exporter warns about packages that it does not need."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


def export_onnx(
    policy: ActorCritic,
    env: EnvConfig,
    path: Path | str,
    actions: Actions = "mean",
    about: Mapping[str, str] | None = None,
) -> MechStep:
    """Write a policy as an ONNX file.

    Args:
        env, actions: as in `MechStep`.
        about: texts to store as the file's metadata.

    Returns:
        The exported module, whose `inputs` and `outputs` are those of the file.

    Raises:
        ConfigError: if a package for writing ONNX files is missing.
        FileError: if the file cannot be written.
    """
    step = MechStep(policy, env, actions)
    mechs = torch.export.Dim("mechs")
    try:
        with torch.no_grad(), quietly():
            program = torch.onnx.export(
                step,
                tuple(torch.stack([tensor] * TRACED) for tensor in step.inputs.values()),
                input_names=list(step.inputs),
                output_names=step.outputs,
                dynamic_shapes=(tuple({0: mechs} for _ in step.inputs),),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except ModuleNotFoundError as error:
        raise ConfigError(missing_package("writing ONNX", error.name, "onnx")) from None
    assert program is not None
    program.model.metadata_props.update(about or {})
    with atomic_write(Path(path)) as temporary:
        program.save(temporary, external_data=False)
    return step
