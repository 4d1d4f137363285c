"""Checkpoints: weights as safetensors, everything else as JSON, checked before anything is built.

A checkpoint is a folder: `checkpoint.json` (what it claims, with the sha256 of every other file), `policy.safetensors`,
and `learner.safetensors` (the optimiser, for resuming). It is written beside its place and renamed into
it, so a folder that exists is complete. Loading never executes anything: no pickle, no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from echelon.config import ConfigError, EnvConfig, as_json, from_json
from echelon.env import layout
from echelon.files import MAX_HEADER_BYTES, FileError, parse_json, parse_tensors, read_file, sync_folder, write_through
from echelon.learn.advantage import ValueNorm
from echelon.learn.config import ModelConfig
from echelon.learn.curriculum import Standing
from echelon.learn.policy import MechPolicy

SCHEMA, VERSION = "echelon-checkpoint", 2
CLAIMS, POLICY, LEARNER = "checkpoint.json", "policy.safetensors", "learner.safetensors"
FIELDS: dict[str, type] = {
    "schema": str,
    "version": int,
    "model": dict,
    "comm_dim": int,
    "layout": dict,
    "layout_hash": str,
    "group_sizes": dict,
    "memory": dict,
    "value_norm": dict,
    "env": dict,
    "counters": dict,
    "curriculum": dict,
    "files": dict,
}
"""What `checkpoint.json` holds, and of which type."""


@dataclass(frozen=True)
class Counters:
    """How far a run has come."""

    iterations: int = 0
    agent_steps: int = 0
    seconds: float = 0.0


def save(
    path: Path,
    policy: MechPolicy,
    norm: ValueNorm,
    env: EnvConfig,
    counters: Counters,
    learner: dict[str, Tensor],
    standing: Standing | None = None,
) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: the folder to make; it must not exist yet.
        learner: named tensors to resume from, see `optimizer_tensors`.
        standing: where the curriculum stands.
    """
    files = {
        POLICY: safetensors.torch.save({k: v.contiguous().cpu() for k, v in policy.state_dict().items()}),
        LEARNER: safetensors.torch.save({k: v.contiguous().cpu() for k, v in learner.items()}),
    }
    claims = {
        "schema": SCHEMA,
        "version": VERSION,
        "model": as_json(policy.model),
        "comm_dim": policy.comm_dim,
        "layout": layout.describe(policy.comm_dim),
        "layout_hash": layout.layout_hash(policy.comm_dim),
        "group_sizes": {"blue": len(env.blue), "red": len(env.red)},
        "memory": memory_shapes(policy),
        "value_norm": {name: value.item() for name, value in norm.named_buffers()},
        "env": env.signature(),
        "counters": as_json(counters),
        "curriculum": as_json(standing or Standing()),
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files[CLAIMS] = (json.dumps(claims, indent=1) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{path.name}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    for name, data in files.items():
        write_through(draft / name, data)
    sync_folder(draft)
    draft.rename(path)
    sync_folder(path.parent)


def memory_shapes(policy: MechPolicy) -> dict[str, list[int]]:
    """What the policy remembers of one mech, as JSON."""
    return {name: list(leaf.shape) for name, leaf in policy.memory_spec().items()}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose claims were checked. Tensors are read on demand."""

    path: Path
    claims: dict[str, Any]

    @property
    def counters(self) -> Counters:
        """How far its run had come."""
        return claimed(Counters, self.claims, "counters")

    @property
    def standing(self) -> Standing:
        """How far it had come in its curriculum."""
        return claimed(Standing, self.claims, "curriculum")

    def policy(self, device: torch.device | str = "cpu") -> MechPolicy:
        """Build the policy from the checkpoint alone, in evaluation mode."""
        model = claimed(ModelConfig, self.claims, "model")
        tensors = self.tensors(POLICY)
        policy = MechPolicy(model, self.claims["comm_dim"])
        memory = memory_shapes(policy)
        if self.claims["memory"] != memory:
            raise FileError(f"{CLAIMS}: memory must be {memory}, got {self.claims['memory']}")
        check_tensors(POLICY, tensors, policy.state_dict())
        policy.load_state_dict(tensors)
        return policy.to(device).eval()

    def value_norm(self) -> ValueNorm:
        """The normaliser of the critic's values."""
        norm, claimed = ValueNorm(), self.claims["value_norm"]
        for name, buffer in norm.named_buffers():
            if not isinstance(claimed.get(name), float | int):
                raise FileError(f"{CLAIMS}: value_norm.{name} must be a number, got {claimed.get(name)!r}")
            buffer.fill_(claimed[name])
        return norm

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Read one safetensors file: once, hashed, its header checked before the library sees it."""
        data = read_file(self.path / name)
        expected, got = self.claims["files"].get(name), hashlib.sha256(data).hexdigest()
        if got != expected:
            raise FileError(f"{name}: sha256 mismatch: expected {expected}, got {got}")
        return parse_tensors(name, data)[0]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Read and check what a checkpoint claims; builds nothing.

    Raises:
        FileError: naming the file, what was expected and what came.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileError(f"{path}: expected a checkpoint folder holding {CLAIMS}, found none")
    claims = parse_json(CLAIMS, read_file(path / CLAIMS, MAX_HEADER_BYTES))
    if not isinstance(claims, dict):
        raise FileError(f"{CLAIMS}: expected an object, got {type(claims).__name__}")
    for name, kind in FIELDS.items():
        if name not in claims:
            raise FileError(f"{CLAIMS}: {name} is missing, expected a {kind.__name__}")
        if type(claims[name]) is not kind:
            raise FileError(f"{CLAIMS}: {name} must be a {kind.__name__}, got {type(claims[name]).__name__}")
    for name, expected in (("schema", SCHEMA), ("version", VERSION)):
        if claims[name] != expected:
            raise FileError(f"{CLAIMS}: {name} must be {expected!r}, got {claims[name]!r}")
    require_comm_dim(claims["comm_dim"])
    ours = layout.layout_hash(claims["comm_dim"])
    if claims["layout_hash"] != ours:
        hint = "it was made with another feature layout; use the Echelon it was trained with"
        raise FileError(f"{CLAIMS}: layout_hash must be {ours}, got {claims['layout_hash']}: {hint}")
    return Checkpoint(path, claims)


def require_comm_dim(comm_dim: int) -> None:
    """A message of a sane length, before anything is built from it."""
    if not 0 <= comm_dim <= 1024:
        raise FileError(f"{CLAIMS}: comm_dim must be 0..1024, got {comm_dim}")


def newest(folder: Path) -> Path:
    """The checkpoint in `folder` that has come furthest, by its own counters."""
    found = [open_checkpoint(entry.parent) for entry in folder.glob(f"[!.]*/{CLAIMS}")]
    if not found:
        raise FileError(f"{folder}: expected a checkpoint to resume from, found none")
    return max(found, key=lambda checkpoint: checkpoint.counters.iterations).path


def check_tensors(name: str, got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """The same names, shapes and dtypes, and finite values."""
    for key in sorted(expected.keys() - got.keys()):
        raise FileError(f"{name}: tensor {key} is missing, expected shape {tuple(expected[key].shape)}")
    for key in sorted(got.keys() - expected.keys()):
        raise FileError(f"{name}: unexpected tensor {key} of shape {tuple(got[key].shape)}")
    for key, want in expected.items():
        have = got[key]
        if have.shape != want.shape or have.dtype != want.dtype:
            shapes = f"expected {want.dtype} {tuple(want.shape)}, got {have.dtype} {tuple(have.shape)}"
            raise FileError(f"{name}: tensor {key}: {shapes}")
        if have.is_floating_point() and not bool(have.isfinite().all()):
            raise FileError(f"{name}: tensor {key}: expected finite values, got NaN or infinity")


def claimed(kind: Any, claims: dict[str, Any], name: str) -> Any:
    """A config dataclass as `checkpoint.json` describes it."""
    try:
        return from_json(kind, claims[name], name)
    except ConfigError as error:
        raise FileError(f"{CLAIMS}: {error}") from None


def optimizer_tensors(policy: MechPolicy, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors, `optimizer.<parameter>.<entry>`."""
    return {
        f"optimizer.{name}.{entry}": value
        for name, parameter in policy.named_parameters()
        for entry, value in optimizer.state[parameter].items()
    }


def restore_optimizer(policy: MechPolicy, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` named, on each parameter's device."""
    expected: dict[str, Tensor] = {}
    for name, parameter in policy.named_parameters():
        like = parameter.detach().cpu()
        expected |= {f"optimizer.{name}.{entry}": like for entry in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{name}.step"] = torch.zeros(())
    check_tensors(LEARNER, tensors, expected)
    for name, parameter in policy.named_parameters():
        prefix = f"optimizer.{name}."
        # Fused Adam keeps its step counter beside the parameter.
        optimizer.state[parameter] = {
            "step": tensors[f"{prefix}step"].to(parameter.device),
            "exp_avg": tensors[f"{prefix}exp_avg"].to(parameter.device),
            "exp_avg_sq": tensors[f"{prefix}exp_avg_sq"].to(parameter.device),
        }
