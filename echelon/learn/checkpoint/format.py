"""Checkpoint format: weights as safetensors, everything else as JSON, verified before anything is built.

A checkpoint is a folder. `checkpoint.json` holds the metadata and the sha256 of every other file. `policy.safetensors`
holds the policy, `learner.safetensors` the optimiser. In a resumable run, `run_R.safetensors` holds the running battles
and all other exact state of process R. Leagues and matches read only the policy. A checkpoint is written to a temporary
folder and then renamed, so an existing folder is complete. Loading never executes anything: no pickle, no code.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from echelon.learn.checkpoint.provenance import Provenance, provenance_from_json
from echelon.learn.curriculum import CurriculumState
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import without_numbers
from echelon.learn.models.policy_layout import SELECTABLE, stored_layout
from echelon.learn.models.registry import ModelConfig, PolicySpecs, is_available, model_from_json
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EXTRA, EnvConfig
from echelon.rules.config_json import from_json
from echelon.rules.limits import MOST_BATTLES, MOST_COMMS
from echelon.rules.upgrade import env_under_current_rules
from echelon.rules.versions import Versions, current_versions, stored_versions
from echelon.runtime.errors import quoted
from echelon.runtime.files import (
    MAX_FILE_BYTES,
    MAX_HEADER_BYTES,
    FileError,
    as_file_error,
    expect,
    open_file,
    parse_json,
    read_file,
)
from echelon.runtime.json_checks import OBJECT, SHA256, Rule, check_schema, integer, listed, number, record, table, text
from echelon.runtime.limits import Limits, Settings, check_text
from echelon.runtime.renamed import RENAMED, renamed_settings, warn_renamed
from echelon.runtime.tensor_files import StateDict, check_tensors, read_tensors, unpack

SCHEMA, VERSION = "echelon-checkpoint", 3
METADATA, POLICY, LEARNER = "checkpoint.json", "policy.safetensors", "learner.safetensors"
SAVED_AT = "saved_at"
"""Key in `checkpoint.json`: time of writing, Unix seconds. Files of other programs may lack it."""
CHANGES = "changes"
"""Key in `checkpoint.json`: settings changed by a resume; absent if there were none."""
MOST_CHANGES = 10_000
ANCESTORS = "ancestors"
"""Key in `checkpoint.json`: sha256 of the weights that these were trained from, oldest first: earlier checkpoints of
the run and its initial policy. Files of Echelon 1.0 lack it."""
MOST_ANCESTORS = 256
"""Number of ancestors kept, the newest ones."""
MAX_PROCESSES = 1024
MOST_VALUE = 1e30
"""Largest value in a value normaliser, whose buffers are float32."""
COUNT, VALUE = integer(0, MOST_BATTLES), number(-MOST_VALUE, MOST_VALUE)
JSON_VALUE = Rule("a JSON value", lambda value: True)
CHECK = record(
    {
        **dict.fromkeys(("model", "layout", "group_sizes", "env", "counters", "curriculum", "battles"), OBJECT),
        "files": OBJECT,
        **{"comm_dim": integer(0, MOST_COMMS), "processes": integer(0, MAX_PROCESSES), "layout_hash": text()},
        "memory": table(listed(COUNT, 0, 8), 1000, text()),
        "value_norm": record({name: VALUE for name, _ in ValueNorm().named_buffers()}, is_open=True),
        "settings": record({}, dict.fromkeys(("past_kept", "past_blocks", "num_envs"), COUNT), is_open=True),
    },
    {
        CHANGES: listed(record({"since": integer(1), "setting": text(), "before": JSON_VALUE}), 0, MOST_CHANGES),
        ANCESTORS: listed(SHA256, 0, MOST_ANCESTORS),
    },
    is_open=True,
)
"""Required fields of `checkpoint.json`, in addition to those of `check_schema`."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counters(Settings):
    """Progress of a run."""

    iterations: Annotated[int, Limits(0, 2**53)] = 0
    agent_steps: Annotated[int, Limits(0, 2**62)] = 0
    seconds: Annotated[float, Limits(0, 1e12)] = 0.0


@dataclass(frozen=True)
class RunState:
    """State to resume a run exactly, in addition to weights and optimiser."""

    settings: Mapping[str, Any]
    """`TrainConfig` without `env` and `model`, as JSON."""
    battles: Mapping[str, Any]
    """Description of the battles, as JSON; running battles are resumed only if it is unchanged."""
    parts: Mapping[str, StateDict] = field(default_factory=dict)
    """State of the components of this process, keyed by name."""
    extra_rewards: Mapping[str, float] = field(default_factory=dict)
    """Weight of each custom reward term, keyed by name."""
    changes: Sequence[Mapping[str, Any]] = ()
    """Settings changed by a resume, as in `Checkpoint.changes`."""


def run_file(rank: int) -> str:
    """Return the name of the file with the resume state of process `rank`."""
    return f"run_{rank}.safetensors"


def memory_shapes(policy: ActorCritic) -> dict[str, list[int]]:
    """Return the shapes of one mech's recurrent state, as JSON."""
    return {name: list(leaf.shape) for name, leaf in policy.memory_spec().items()}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint with a verified `checkpoint.json`. Tensors are read on demand."""

    path: Path
    metadata: dict[str, Any]

    @property
    def claims(self) -> dict[str, Any]:
        """Old name of `metadata`, valid until 2.0."""
        warn_renamed("Checkpoint.claims", "Checkpoint.metadata")
        return self.metadata

    @property
    def id(self) -> str:
        """sha256 of the weights."""
        return str(self.metadata["files"][POLICY])

    @property
    def counters(self) -> Counters:
        return from_metadata(Counters, self.metadata, "counters")

    @property
    def versions(self) -> Versions:
        """Versions of the rules and the map generator used in training."""
        with as_file_error(METADATA):
            return stored_versions(self.metadata["env"], "env")

    @property
    def env(self) -> EnvConfig:
        """Config of the training environment, under the current rules."""
        with as_file_error(METADATA):
            return env_under_current_rules(self.metadata["env"])

    @property
    def extra_rewards(self) -> dict[str, float]:
        """Weight of each custom reward term, keyed by name. The functions themselves are not in any file."""
        reward = self.metadata["env"].get("reward", {})
        extra = reward.get(EXTRA, {}) if isinstance(reward, dict) else {}
        is_valid = isinstance(extra, dict) and all(type(weight) in (int, float) for weight in extra.values())
        expect(is_valid, f"{METADATA}: env.reward.{EXTRA}", "numbers keyed by name", extra)
        return dict(extra)

    @property
    def model(self) -> ModelConfig:
        with as_file_error(METADATA):
            return model_from_json(self.metadata["model"])

    @functools.cached_property
    def specs(self) -> PolicySpecs:
        """Inputs and outputs of the policy: the columns used in training."""
        comm_dim, written_by = self.metadata["comm_dim"], str(self.metadata.get("written_by"))
        columns = stored_layout(f"{METADATA}: layout", self.metadata["layout"], comm_dim, written_by)
        return PolicySpecs(comm_dim, columns)

    @property
    def provenance(self) -> Provenance:
        """Training history of the weights."""
        return provenance_from_json(self.metadata, METADATA)

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Settings changed by resumes of the run, oldest first. Each entry has the first iteration with the new value
        (`since`), the dotted name (`setting`) and the old value (`before`)."""
        changes = self.metadata.get(CHANGES, [])
        return [{**change, "setting": RENAMED.get(change["setting"], change["setting"])} for change in changes]

    @property
    def ancestors(self) -> tuple[str, ...]:
        """sha256 of each of the earlier weights that this policy was trained from, oldest first; empty if the file
        lists none.
        """
        return tuple(self.metadata.get(ANCESTORS, ()))

    @property
    def lineage(self) -> tuple[str, ...]:
        """The ancestors of any weights trained from this checkpoint, which are `ancestors` and this checkpoint's own
        weights.
        """
        return descent(self.ancestors, str(self.metadata["files"][POLICY]))

    @property
    def curriculum(self) -> CurriculumState:
        return from_metadata(CurriculumState, self.metadata, "curriculum")

    def policy_for(self, name: str, env: EnvConfig, device: torch.device) -> ActorCritic:
        """Build the policy for battles of `env`, in evaluation mode. Log a warning if the policy was trained under old
        rules.
        """
        width = self.metadata["comm_dim"]
        expect(width == env.comm_dim, f"{name}: comm_dim", f"{env.comm_dim} for this battle", width)
        warn_rules_version(name, self.versions.rules)
        return self.policy(device)

    def policy(self, device: torch.device | str = "cpu") -> ActorCritic:
        """Build the policy from the checkpoint alone, in evaluation mode."""
        meta_model = self.meta_model()
        memory = memory_shapes(meta_model)
        expect(self.metadata["memory"] == memory, f"{METADATA}: memory", f"{memory}", self.metadata["memory"])
        expected, stored = meta_model.state_dict(), self.tensors(POLICY)
        # Shipped policies may store their critic in half precision.
        tensors = {
            name: values.float() if name.startswith("critic.") and values.dtype == torch.bfloat16 else values
            for name, values in stored.items()
        }
        try:
            check_tensors(POLICY, tensors, expected)
        except FileError as error:
            if self.specs == PolicySpecs(self.specs.comm_dim):
                raise
            # List the stored columns in the error, because the expected tensor shapes follow from them.
            widths = ", ".join(f"{self.specs.columns.width(name)} of {name}" for name in SELECTABLE)
            writer = quoted(self.metadata.get("written_by"))
            raise FileError(f"{error}; {METADATA} lists columns: {widths}; written by Echelon {writer}") from None
        policy = self.model.build(self.specs)
        policy.load_state_dict(tensors)
        return policy.to(device).eval()

    def meta_model(self) -> ActorCritic:
        """Build the policy on the meta device, so that stored tensors can be checked against its shapes before any
        allocation.
        """
        with without_numbers():
            return self.model.build(self.specs)

    def most_bytes(self, name: str) -> int:
        """Return the maximum size of a file in bytes, computed from the metadata."""
        weights = self.weight_bytes
        if name == POLICY:
            return MAX_HEADER_BYTES + weights
        if name == LEARNER:
            return MAX_HEADER_BYTES + ADAM * weights
        return most_run_bytes(self.metadata, self.env, weights)

    @functools.cached_property
    def weight_bytes(self) -> int:
        """Size of the weights in bytes; if the model's class may not be imported here, the size of the weights'
        file.
        """
        if is_available(self.metadata["model"]):
            return sum(value.nbytes for value in self.meta_model().state_dict().values())
        with open_file(self.path / POLICY, MAX_FILE_BYTES) as file:
            return os.fstat(file.fileno()).st_size

    def parts(self, rank: int) -> dict[str, StateDict]:
        """Read the resume state of process `rank`, or of rank 0 if there were fewer processes. Empty if none was
        saved."""
        processes = self.metadata["processes"]
        if processes == 0:
            return {}
        name = run_file(rank if rank < processes else 0)
        return unpack(name, *read_tensors(self.path / name, self.metadata["files"][name], self.most_bytes(name)))

    def value_norm(self) -> ValueNorm:
        norm = ValueNorm()
        for name, buffer in norm.named_buffers():
            buffer.fill_(self.metadata["value_norm"][name])
        return norm

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Read one safetensors file; verify header and hash."""
        return read_tensors(self.path / name, self.metadata["files"][name], self.most_bytes(name))[0]


def descent(ancestors: tuple[str, ...], digest: str) -> tuple[str, ...]:
    """Return `ancestors` followed by `digest`: the ancestors of any weights that are trained from the weights
    `digest`.
    """
    return (*(ancestor for ancestor in ancestors if ancestor != digest), digest)[-MOST_ANCESTORS:]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Read and verify `checkpoint.json` without building anything."""
    check_text("a checkpoint", str(path))
    path = Path(path)
    if not os.path.lexists(path / METADATA):
        raise FileError(f"{path}: expected a checkpoint folder with {METADATA}, found none")
    metadata = parse_json(METADATA, read_file(path / METADATA, MAX_HEADER_BYTES))
    check_schema(METADATA, metadata, SCHEMA, VERSION)
    checkpoint = Checkpoint(path, {"env": None, **metadata})
    # Check the versions first: a file of another Echelon version may differ in every other field.
    _ = checkpoint.versions
    CHECK(METADATA, metadata)  # Validate all fields before their values determine any allocation.
    checkpoint.metadata["settings"] = renamed_settings(metadata["settings"])
    require_files(metadata["files"], metadata["processes"])
    _ = checkpoint.provenance
    columns = checkpoint.specs.columns
    expect(
        metadata["layout_hash"] == columns.sha256, f"{METADATA}: layout_hash", columns.sha256, metadata["layout_hash"]
    )
    return checkpoint


@functools.cache
def warn_rules_version(name: str, rules: int) -> None:
    """Log once that a policy trained under earlier rules plays under the current ones."""
    current = current_versions().rules
    if rules != current:
        logger.warning("%s: trained under rules %d, but plays under rules %d, which may differ", name, rules, current)


def require_files(files: dict[str, Any], processes: int) -> None:
    """Check that `files` lists exactly the files of a checkpoint, each with a sha256. The check prevents path
    traversal.
    """
    expected = {POLICY, LEARNER, *(run_file(rank) for rank in range(processes))}
    for name in sorted(files.keys() ^ expected):
        raise FileError(f"{METADATA}: files[{name!r:.80}] must be {'present' if name in expected else 'absent'}")
    for name, sha256 in files.items():
        SHA256(f"{METADATA}: files.{name}", sha256)


def from_metadata(kind: Any, metadata: dict[str, Any], name: str) -> Any:
    """Parse a config dataclass from entry `name` of `checkpoint.json`."""
    with as_file_error(METADATA):
        return from_json(kind, metadata[name], name)


MAX_RUN_BYTES = 16 << 30
"""Maximum size of any file of resume state, bytes."""
ADAM = 3
"""Size of weights with Adam's two moments, in units of the weights."""
OTHERS_BYTES = 32 << 20
"""Maximum size of the state of callbacks and custom components, bytes."""
POLICIES_A_BLOCK = 64
"""Maximum number of frozen policies stored per block of battles."""
MECH_BYTES, MECH_PAIR_BYTES, COLUMN_BYTES = 16 << 10, 64, 64
"""Maximum bytes per mech for state and observations, per pair of mechs, and per column of destroyed voxels. Each is
about four times the bytes actually written."""


def most_run_bytes(metadata: Mapping[str, Any], env: EnvConfig, weights: int) -> int:
    """Return the maximum size of one process's resume state in bytes: battles, frozen opponents, and callback state."""
    memory = sum(map(math.prod, metadata["memory"].values()))
    mech = MECH_BYTES + 4 * (memory + 8 * env.comm_dim)
    terrain = COLUMN_BYTES * env.world.size_x * env.world.size_y
    battle = env.num_mechs * (mech + MECH_PAIR_BYTES * env.num_mechs) + terrain
    maps = 64 * sum((env.num_maps, *(position.weight for position in env.positions)))
    kept, blocks, battles = (metadata["settings"].get(name, 0) for name in ("past_kept", "past_blocks", "num_envs"))
    policies = kept + POLICIES_A_BLOCK * (blocks + 1)
    total = MAX_HEADER_BYTES + OTHERS_BYTES + battles * battle + maps + policies * weights
    return int(min(total, MAX_RUN_BYTES))
