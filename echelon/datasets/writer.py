"""Writes the battles of an arena as one file of `echelon.datasets.dataset`, whole or not at all."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.arena.batch_arena import Battle
from echelon.datasets.dataset import BATTLES, CLAIMS, KINDS, ROWS, SCHEMA, VERSION, Column, columns
from echelon.rules.config import EnvConfig
from echelon.runtime import version
from echelon.runtime.errors import require
from echelon.runtime.files import check_writable, replacing, writing_to


class DatasetWriter:
    """A sink of `BatchArena.play` that keeps what is played, battle after battle, and writes it when it is left.

    Columns grow in files of a hidden folder beside `path`. Without an error they become one file there; after an
    error, an interrupt or a full disk nothing is left.

        with DatasetWriter(path, env, names) as writer:
            for start in range(0, len(battles), arena.batch):
                arena.play(battles[start : start + arena.batch], sink=writer)

    In memory there is one batch: about 5 kB for each mech and decision.
    """

    def __init__(self, path: Path, config: EnvConfig, commanders: Sequence[str]) -> None:
        require(len(set(commanders)) == len(commanders) > 0, "commanders", "different names", commanders)
        check_writable(path)
        self.path, self.config, self.commanders = path, config, list(commanders)
        self.columns = columns(config)
        self.lengths = {ROWS: 0, BATTLES: 0}
        """Rows and battles written so far."""

    def __enter__(self) -> DatasetWriter:
        with writing_to(self.path):
            self._folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=self.path.parent))
        self._parts = {name: self._folder / str(number) for number, name in enumerate(self.columns)}
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self._write()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    # What an arena tells its sink

    def begin(self, battles: Sequence[Battle]) -> None:
        self._battles = battles
        self._steps: list[tuple[Tensor, dict[str, Tensor]]] = []
        self._last: dict[str, Tensor] = {}

    def step(self, stepped: TensorDictBase, running: Tensor) -> None:
        which = running.nonzero()[:, 0]
        rows = stepped[which]
        if not self._last:
            self._telemetry = rows["telemetry"].cpu()
        own = {name: value_of(rows, name).cpu() for name in self._names(ROWS) if name != "battle"}
        self._steps.append((which.cpu(), own))
        ended = rows["next", "done"][:, 0]
        for name in (name.removeprefix("last/") for name in self._names(BATTLES) if name.startswith("last/")):
            value = value_of(rows, f"next/{name}")
            kept = self._last.setdefault(name, value.new_zeros(len(self._battles), *value.shape[1:]).cpu())
            kept[which[ended].cpu()] = value[ended].cpu()

    def end(self, outcome: TensorDictBase) -> None:
        battle = torch.cat([which for which, _ in self._steps])
        order = battle.argsort(stable=True)
        for name in self._names(ROWS):
            if name == "battle":
                values = battle[order] + self.lengths[BATTLES]
            else:
                values = torch.cat([own.pop(name) for _, own in self._steps])[order]
            self._append(f"{ROWS}/{name}", values)
        for name, values in self._of_battles(outcome.cpu()).items():
            self._append(f"{BATTLES}/{name}", values)
        self.lengths[ROWS] += len(battle)
        self.lengths[BATTLES] += len(self._battles)

    def _of_battles(self, outcome: TensorDictBase) -> dict[str, Tensor]:
        """Columns of the battles of this batch."""
        index = {name: number for number, name in enumerate(self.commanders)}
        told = {name: outcome[name][:, 0] for name in ("decisions", "winner", "reason")}
        return {
            **{f"last/{name}": value for name, value in self._last.items()},
            **told,
            "telemetry": self._telemetry,
            "score": outcome["score"],
            "seed": torch.tensor([battle.seed for battle in self._battles], device="cpu"),
            "commander": torch.tensor([[index[battle.blue], index[battle.red]] for battle in self._battles]),
        }

    def _names(self, part: str) -> list[str]:
        return [name.partition("/")[2] for name in self.columns if name.startswith(f"{part}/")]

    def _append(self, name: str, values: Tensor) -> None:
        column = self.columns[name]
        assert values.dtype == column.dtype and tuple(values.shape[1:]) == column.shape, (name, values.shape)
        with writing_to(self.path), open(self._parts[name], "ab") as file:
            file.write(values.contiguous().numpy().data)

    # The file

    def _write(self) -> None:
        require(self.lengths[BATTLES] > 0, "battles", "at least one played", 0)
        # Larger numbers first, so that each begins at a multiple of its own size.
        ordered = sorted(self.columns.items(), key=lambda item: -item[1].dtype.itemsize)
        with replacing(self.path) as draft, open(draft, "wb") as file:
            file.write(self._header(ordered))
            for name, _ in ordered:
                with open(self._parts[name], "rb") as part:
                    shutil.copyfileobj(part, file, 1 << 22)
                self._parts[name].unlink()

    def _header(self, ordered: Sequence[tuple[str, Column]]) -> bytes:
        """Length and header of a safetensors file, a multiple of 8 bytes."""
        claims = {
            "schema": SCHEMA,
            "version": VERSION,
            "written_by": version.VERSION,
            "env": self.config.signature(),
            "commanders": self.commanders,
        }
        entries: dict[str, object] = {"__metadata__": {CLAIMS: json.dumps(claims)}}
        start = 0
        for name, column in ordered:
            shape = [self.lengths[name.partition("/")[0]], *column.shape]
            stop = start + math.prod(shape) * column.dtype.itemsize
            entries[name] = {"dtype": KINDS[column.dtype], "shape": shape, "data_offsets": [start, stop]}
            start = stop
        text = json.dumps(entries).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text


def value_of(rows: TensorDictBase, name: str) -> Tensor:
    """The value of a column, `[n, ...]`."""
    value: Tensor = rows[tuple(name.split("/"))]
    return value
