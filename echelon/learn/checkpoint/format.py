"""Checkpoints: weights as safetensors, everything else as JSON, checked before anything is built.

A checkpoint is a folder: `checkpoint.json` (what it claims, with the sha256 of every other file), `policy.safetensors`,
`learner.safetensors` (the optimiser) and, of a run that may go on, `run_R.safetensors` of each process R: its battles
and whatever else must be as it was. A league or a match reads the policy alone. It is written beside its place and
renamed into it, so a folder that exists is complete. Loading never executes anything: no pickle, no code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from echelon.env.observation import layout
from echelon.learn.config import ModelConfig
from echelon.learn.curriculum import Standing
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig, as_json, env_from_json, from_json
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import (
    MAX_HEADER_BYTES,
    FileError,
    check_tensors,
    parse_json,
    read_file,
    read_tensors,
)
from echelon.runtime.state_dict import StateDict, unpack

SCHEMA, VERSION = "echelon-checkpoint", 3
CLAIMS, POLICY, LEARNER = "checkpoint.json", "policy.safetensors", "learner.safetensors"
MAX_RUN_BYTES = 16 << 30
"""Battles take up to 150 kB each."""
MAX_PROCESSES = 1024
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
    "settings": dict,
    "battles": dict,
    "processes": int,
    "files": dict,
}
"""What `checkpoint.json` holds, and of which type."""
ONLY = {"schema": SCHEMA, "version": VERSION}
"""Fields that have one value."""


@dataclass(frozen=True)
class Counters:
    """How far a run has come."""

    iterations: int = 0
    agent_steps: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("iterations", "agent_steps", "seconds"):
            require(getattr(self, name) >= 0, f"counters.{name}", ">= 0", getattr(self, name))


@dataclass(frozen=True)
class Run:
    """What a run needs to go on exactly, beside what it has learnt."""

    settings: Mapping[str, Any]
    """What it was told: schedules, seeds and all, as JSON."""
    battles: Mapping[str, Any]
    """What its battles are like, as JSON: only in battles of the same kind can they be fought on."""
    parts: Mapping[str, StateDict] = field(default_factory=dict)
    """Of this process, by name."""


def run_file(rank: int) -> str:
    """Where process `rank` keeps what it goes on with."""
    return f"run_{rank}.safetensors"


def memory_shapes(policy: ActorCritic) -> dict[str, list[int]]:
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
    def env(self) -> EnvConfig:
        """The battle it was trained in."""
        try:
            return env_from_json(self.claims["env"])
        except ConfigError as error:
            raise FileError(f"{CLAIMS}: {error}") from None

    @property
    def model(self) -> ModelConfig:
        """What its network is like."""
        return claimed(ModelConfig, self.claims, "model")

    @property
    def battles(self) -> dict[str, Any]:
        """What the battles are like that it may fight on, `Run.battles`; settings that it does not name included."""
        found = dict(self.claims["battles"])
        if isinstance(found.get("env"), dict):
            found["env"] = as_json(env_from_json(found["env"]))
        return found

    @property
    def standing(self) -> Standing:
        """How far it had come in its curriculum."""
        return claimed(Standing, self.claims, "curriculum")

    def policy(self, device: torch.device | str = "cpu") -> ActorCritic:
        """Build the policy from the checkpoint alone, in evaluation mode."""
        model = self.model
        # Shapes without numbers: nothing is built from what a stranger claims before the weights are seen to fit.
        with torch.device("meta"):
            like = ActorCritic(model, self.claims["comm_dim"])
        memory = memory_shapes(like)
        if self.claims["memory"] != memory:
            raise FileError(f"{CLAIMS}: memory must be {memory}, got {self.claims['memory']}")
        expected = like.state_dict()
        tensors = self.tensors(POLICY, MAX_HEADER_BYTES + sum(value.nbytes for value in expected.values()))
        check_tensors(POLICY, tensors, expected)
        policy = ActorCritic(model, self.claims["comm_dim"])
        policy.load_state_dict(tensors)
        return policy.to(device).eval()

    def parts(self, rank: int) -> dict[str, StateDict]:
        """What process `rank` goes on with; that of the first, if there were fewer. Empty if none was kept."""
        processes = self.claims["processes"]
        if processes == 0:
            return {}
        name = run_file(rank if rank < processes else 0)
        return unpack(name, *read_tensors(self.path / name, self.claims["files"][name], MAX_RUN_BYTES))

    def value_norm(self) -> ValueNorm:
        """The normaliser of the critic's values."""
        norm, claimed = ValueNorm(), self.claims["value_norm"]
        for name, buffer in norm.named_buffers():
            if not isinstance(claimed.get(name), float | int):
                raise FileError(f"{CLAIMS}: value_norm.{name} must be a number, got {claimed.get(name)!r}")
            buffer.fill_(claimed[name])
        return norm

    def tensors(self, name: str, limit: int = MAX_RUN_BYTES) -> dict[str, Tensor]:
        """Read one safetensors file of at most `limit` bytes: once, its header and hash checked."""
        return read_tensors(self.path / name, self.claims["files"][name], limit)[0]


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
        # Before the other fields, which differ from version to version.
        if name in ONLY and claims[name] != ONLY[name]:
            hint = ": only checkpoints of this version are read" if name == "version" else ""
            raise FileError(f"{CLAIMS}: {name} must be {ONLY[name]!r}, got {claims[name]!r:.80}{hint}")
    require_comm_dim(claims["comm_dim"])
    require_files(claims["files"], claims["processes"])
    ours = layout.layout_hash(claims["comm_dim"])
    if claims["layout_hash"] != ours:
        hint = "it was made with another feature layout; use the Echelon it was trained with"
        raise FileError(f"{CLAIMS}: layout_hash must be {ours}, got {claims['layout_hash']}: {hint}")
    return Checkpoint(path, claims)


def require_comm_dim(comm_dim: int) -> None:
    """A message of a sane length, before anything is built from it."""
    if not 0 <= comm_dim <= 1024:
        raise FileError(f"{CLAIMS}: comm_dim must be 0..1024, got {comm_dim}")


def require_files(files: dict[str, Any], processes: int) -> None:
    """The files of a checkpoint and no others, each with a hash: no name leads elsewhere."""
    if not 0 <= processes <= MAX_PROCESSES:
        raise FileError(f"{CLAIMS}: processes must be 0..{MAX_PROCESSES}, got {processes}")
    expected = {POLICY, LEARNER, *(run_file(rank) for rank in range(processes))}
    for name in sorted(files.keys() ^ expected):
        raise FileError(f"{CLAIMS}: files[{name!r:.80}] must be {'present' if name in expected else 'absent'}")
    for name, sha256 in files.items():
        if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
            raise FileError(f"{CLAIMS}: files.{name} must be a sha256, got {sha256!r:.80}")


def claimed(kind: Any, claims: dict[str, Any], name: str) -> Any:
    """A config dataclass as `checkpoint.json` describes it."""
    try:
        return from_json(kind, claims[name], name)
    except ConfigError as error:
        raise FileError(f"{CLAIMS}: {error}") from None
