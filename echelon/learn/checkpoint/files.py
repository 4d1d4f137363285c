"""Write checkpoints atomically, find the checkpoints of a run, check them, and delete old ones."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from echelon.learn.checkpoint.format import (
    ANCESTORS,
    CHANGES,
    LEARNER,
    METADATA,
    POLICY,
    SAVED_AT,
    SCHEMA,
    VERSION,
    Checkpoint,
    Counters,
    RunState,
    memory_shapes,
    open_checkpoint,
    run_file,
)
from echelon.learn.checkpoint.provenance import PROVENANCE, UNKNOWN, Provenance, provenance_from_json, weight_bytes
from echelon.learn.curriculum import CurriculumState
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import model_to_json
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig
from echelon.rules.config_json import as_json
from echelon.rules.versions import MAP_MAKER, RULES
from echelon.runtime import version
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.files import FileError, json_bytes, new_folder, sync_folder, write_through, writing_to
from echelon.runtime.tensor_files import check_finite, pack, read_tensors


def save_checkpoint(
    path: Path,
    policy: ActorCritic,
    norm: ValueNorm,
    env: EnvConfig,
    counters: Counters,
    learner: dict[str, Tensor],
    curriculum: CurriculumState | None = None,
    run: RunState | None = None,
    ranks: Ranks = ALONE,
    provenance: Provenance = UNKNOWN,
    ancestors: tuple[str, ...] = (),
) -> None:
    """Write a checkpoint atomically. With several processes, all processes must call this function with a path on a
    shared disk.

    Args:
        path: the folder to create; it must not exist yet.
        learner: optimiser state as named tensors, see `optimizer_tensors`.
        curriculum: state of the curriculum; by default the state of a new run.
        run: state to resume the run exactly; None for a policy that is only played.
        ranks: the processes of the run; rank 0 writes the common files.
        provenance: training history of the weights; the union over all processes is written.
        ancestors: sha256 of the weights that these weights were trained from, oldest first.

    Raises:
        FileError: if a file cannot be written; then no folder is created.
    """
    temporary = path.parent / f".{path.name}.draft"
    with new_folder(path, temporary) if ranks.is_first else contextlib.nullcontext():
        ranks.barrier()
        hashes = {} if run is None else write_run_files(temporary, run, ranks)
        merged = gather_provenance(provenance, ranks)
        if ranks.is_first:
            for name, tensors in ((POLICY, policy.state_dict()), (LEARNER, learner)):
                hashes[name] = write_hashed(temporary / name, weight_bytes(tensors))
            metadata = {
                **policy_metadata(policy, norm, env, {} if run is None else run.extra_rewards),
                **{"counters": as_json(counters), "curriculum": as_json(curriculum or CurriculumState())},
                **run_metadata(run, ranks),
                "files": hashes,
                **{PROVENANCE: merged.as_json(), ANCESTORS: list(ancestors)},
                SAVED_AT: round(time.time(), 3),
            }
            write_through(temporary / METADATA, json_bytes(metadata))
    ranks.barrier()


def write_run_files(folder: Path, run: RunState, ranks: Ranks) -> dict[str, str]:
    """Write this process's resume state; return the sha256 of every process's file, keyed by name."""
    sha256 = write_hashed(folder / run_file(ranks.rank), pack(run.parts))
    digests = ranks.gather(torch.tensor(list(bytes.fromhex(sha256)), dtype=torch.uint8, device="cpu"))
    return {run_file(rank): bytes(digest.tolist()).hex() for rank, digest in enumerate(digests)}


def run_metadata(run: RunState | None, ranks: Ranks) -> dict[str, Any]:
    """Return the entries of `checkpoint.json` that describe a resumable run; the entries are empty if `run` is None."""
    if run is None:
        return {"settings": {}, "battles": {}, "processes": 0}
    changes = {CHANGES: list(run.changes)} if run.changes else {}
    return {"settings": dict(run.settings), "battles": dict(run.battles), "processes": ranks.size, **changes}


def gather_provenance(provenance: Provenance, ranks: Ranks) -> Provenance:
    """Return the union of the provenance of all processes."""
    for text in ranks.gather_texts(json.dumps(provenance.as_json())):
        provenance = provenance.union(provenance_from_json({PROVENANCE: json.loads(text)}, METADATA))
    return provenance


def policy_metadata(
    policy: ActorCritic, norm: ValueNorm, env: EnvConfig, extra_rewards: Mapping[str, float]
) -> dict[str, Any]:
    """Return the entries of `checkpoint.json` that describe a policy and its training environment."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "written_by": version.VERSION,
        "model": model_to_json(policy.model),
        "comm_dim": policy.comm_dim,
        "layout": policy.specs.columns.as_json(),
        "layout_hash": policy.specs.columns.sha256,
        "group_sizes": {"blue": len(env.blue), "red": len(env.red)},
        "memory": memory_shapes(policy),
        "value_norm": {name: value.item() for name, value in norm.named_buffers()},
        "env": env.signature(extra_rewards),
    }


def write_hashed(path: Path, data: bytes) -> str:
    """Write a file with fsync; return its sha256."""
    write_through(path, data)
    return hashlib.sha256(data).hexdigest()


def checkpoints_in(folder: Path) -> list[Path]:
    """List the checkpoints in `folder`, sorted by name, without reading them. Unfinished checkpoints, whose names begin
    with a dot, are left out.
    """
    return sorted(entry.parent for entry in folder.glob(f"[!.]*/{METADATA}"))


def find_checkpoint(path: str | Path) -> Path:
    """Return `path` if it is a checkpoint, else the newest checkpoint of that run folder."""
    path = Path(path)
    is_run = (path / "checkpoints").is_dir() and not (path / METADATA).exists()
    return newest_checkpoint(path / "checkpoints") if is_run else path


def newest_checkpoint(folder: Path) -> Path:
    """Return the checkpoint in `folder` with the most iterations."""
    checkpoints = [open_checkpoint(entry) for entry in checkpoints_in(folder)]
    if not checkpoints:
        raise FileError(f"{folder}: expected a checkpoint, found none")
    return max(checkpoints, key=lambda checkpoint: checkpoint.counters.iterations).path


def checkpoint_path(folder: Path, iteration: int) -> Path:
    """Return the path of an iteration's checkpoint in the run folder."""
    return folder / "checkpoints" / f"iteration_{iteration:06d}"


def prune_checkpoints(folder: Path, last: int, best: int | None) -> None:
    """Delete all checkpoints of the run folder except the `last` newest and the one of iteration `best`.

    A checkpoint is renamed before it is deleted, so every checkpoint with a regular name is complete. Unfinished
    checkpoints of killed processes are deleted too.
    """
    root = folder / "checkpoints"
    keep = set() if best is None else {checkpoint_path(folder, best)}
    numbered = [path for path in checkpoints_in(root) if re.fullmatch(r"iteration_\d+", path.name)]
    for path in sorted(numbered, key=lambda path: int(path.name[len("iteration_") :]))[: max(0, len(numbered) - last)]:
        if path not in keep:
            with writing_to(path):
                path.rename(path.parent / f".{path.name}.gone")
    with writing_to(root):
        sync_folder(root)
        for leftover in root.glob(".iteration_*"):
            shutil.rmtree(leftover)


@dataclass(frozen=True)
class FileReport:
    """Result of checking one file of a checkpoint."""

    name: str
    bytes: int = 0
    tensors: int = 0
    numbers: int = 0
    """Number of elements in all tensors."""
    problem: str = ""
    """Reason why the file is invalid, in one line; empty if it is valid."""


@dataclass(frozen=True)
class CheckpointReport:
    """Result of checking a whole checkpoint."""

    path: str
    metadata: dict[str, Any] = field(default_factory=dict)
    """Contents of `checkpoint.json`; empty if the file is invalid."""
    files: list[FileReport] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    """Versions of the rules and the map generator used in training, with defaults where the file has none."""
    provenance: dict[str, list[str]] = field(default_factory=dict)
    """Training history of the weights, with defaults where the file has none."""

    @property
    def is_valid(self) -> bool:
        return all(not file.problem for file in self.files)


def inspect_checkpoint(path: Path) -> CheckpointReport:
    """Read every file of a checkpoint, or of the newest checkpoint of a run folder. Verify hashes, headers and that all
    numbers are finite.
    """
    try:
        path = find_checkpoint(path)
        checkpoint = open_checkpoint(path)
    except FileError as error:
        return CheckpointReport(str(path), files=[FileReport(METADATA, problem=str(error))])
    files = [inspect_file(checkpoint, name) for name in sorted(checkpoint.metadata["files"])]
    return CheckpointReport(
        str(path), checkpoint.metadata, files, checkpoint.versions.as_json(), checkpoint.provenance.as_json()
    )


def inspect_file(checkpoint: Checkpoint, name: str) -> FileReport:
    path = checkpoint.path / name
    try:
        tensors, _ = read_tensors(path, checkpoint.metadata["files"][name], checkpoint.most_bytes(name))
        for key, value in tensors.items():
            check_finite(name, key, value)
    except FileError as error:
        return FileReport(name, problem=str(error))
    return FileReport(name, path.stat().st_size, len(tensors), sum(value.numel() for value in tensors.values()))


def format_report(report: CheckpointReport) -> list[str]:
    lines = [f"checkpoint  {report.path}"]
    if report.metadata:
        metadata, env, counters = report.metadata, report.metadata["env"], report.metadata["counters"]
        sizes, model, processes = metadata["group_sizes"], metadata["model"], metadata["processes"]
        lines += [
            f"schema      {metadata['schema']} version {metadata['version']}",
            f"trained     {', '.join(f'{value} {name}' for name, value in counters.items())}",
            f"rules       version {report.versions[RULES]}, map maker {report.versions[MAP_MAKER]}",
            f"battle      {sizes.get('blue')} against {sizes.get('red')}, world {env.get('world')}",
            f"model       {', '.join(f'{name} {value}' for name, value in model.items())}",
            f"layout      {metadata['layout_hash']}",
            *provenance_lines(report.provenance),
            f"resumable   {f'running battles, processes: {processes}' if processes else 'without running battles'}",
        ]
    for file in report.files:
        size = f"{file.bytes} bytes, {file.tensors} tensors, {file.numbers} numbers"
        lines.append(f"file        {file.problem or f'{file.name}: {size}, sha256 and values are valid'}")
    return [*lines, "valid" if report.is_valid else "INVALID"]


def provenance_lines(provenance: dict[str, list[str]]) -> list[str]:
    """Format the training history as one line per kind, with a note on kinds that are incomplete."""
    unknown = provenance["unknown"]
    entries = {kind: provenance[kind] + ["unknown"] * (kind in unknown) for kind in provenance if kind != "unknown"}
    return [f"history     {kind} {', '.join(names) or 'none'}" for kind, names in entries.items()]
