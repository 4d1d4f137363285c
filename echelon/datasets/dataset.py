"""Battles as data for imitation and offline learning: every mech's observations, actions and rewards, in one file.

`arena.py dataset` writes such a file, and `open_dataset` maps it into memory: data is read only when it is used, and
nothing in the file is executed. The format is safetensors, whose header is validated first; `TensorDict.load_memmap`
would unpickle untrusted files.

>>> dataset = open_dataset("hard.safetensors")
>>> buffer = ReplayBuffer(storage=LazyMemmapStorage(len(dataset)), batch_size=256)
>>> for part in dataset.transitions():
...     buffer.extend(part)
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Composite

from echelon.arena.batch_arena import Battle, StepSink
from echelon.arena.until_done import Endings, state_hashes
from echelon.command.port import CommandPort
from echelon.env.observation.layout import COMMAND, GROUPS, TELEMETRY_CELLS, action_width
from echelon.env.specs import DONE_KEYS, Specs
from echelon.rules.config import EnvConfig, env_from_json
from echelon.runtime import version
from echelon.runtime.errors import require
from echelon.runtime.files import (
    FileError,
    as_file_error,
    atomic_write,
    check_writable,
    expect,
    open_file,
    parse_json,
    writing_to,
)
from echelon.runtime.json_checks import OBJECT, check_schema
from echelon.runtime.tensor_files import Header, read_header
from echelon.views.transforms import FlatObservation
from echelon.views.view import ObservationForm

SCHEMA, VERSION = "echelon-dataset", 1
METADATA = "claims"
"""Key of the metadata, a JSON object that describes the file."""
MOST_BYTES = 1 << 44
MOST_COLUMNS = 4096
LONGEST_NAME = 4096
"""Maximum length of a commander's name, which may be the path of a checkpoint."""
ROWS, BATTLES = "rows", "battles"
DRIVEN = "driven"
"""Column of a group that marks mechs driven by a person instead of their policy."""
UNSAID = (DRIVEN, *(f"{group}/action" for group in COMMAND.values()))
"""Suffixes of columns that are zero without a commander or a driver."""
KINDS = {torch.float32: "F32", torch.int64: "I64", torch.int8: "I8", torch.bool: "BOOL"}
"""Names of dtypes in safetensors."""


@dataclass(frozen=True)
class Column:
    """The dtype of a column, and the shape of one of its rows."""

    dtype: torch.dtype
    shape: tuple[int, ...] = ()


def columns(config: EnvConfig) -> dict[str, Column]:
    """Return the columns of a dataset file for battles of `config`.

    A column `rows/...` has one row per decision, a column `battles/...` one row per battle.
    """
    sizes = dict(zip(GROUPS, (len(config.blue), len(config.red)), strict=True))
    specs = Specs(config, sizes, Composite(), 1, torch.device("cpu"), info=False, has_commanders=True)
    observation, orders = specs.observation(), specs.commanders
    streams = {group: tuple(observation[group, "observation"].keys()) for group in (*GROUPS, *orders)}
    observations = {
        f"{group}/{name}": Column(spec.dtype, tuple(spec.shape[1:]))
        for group, names in streams.items()
        for name, spec in (
            *((f"observation/{stream}", observation[group, "observation", stream]) for stream in names),
            ("mask", observation[group, "mask"]),
        )
    }
    flag, integer, tiny = Column(torch.bool, (1,)), Column(torch.int64), Column(torch.int8)
    width = action_width(config.comm_dim)
    actions = {f"{group}/action": Column(torch.float32, (count, width)) for group, count in sizes.items()}
    if orders:
        actions |= {f"{group}/{DRIVEN}": Column(torch.bool, (count,)) for group, count in sizes.items()}
        action = specs.action()
        actions |= {
            f"{group}/action": Column(torch.float32, tuple(action[group, "action"].shape[1:])) for group in orders
        }
    counts = {**sizes, **{group: packs for group, (packs, _) in orders.items()}}
    rewards = {f"next/{group}/reward": Column(torch.float32, (count, 1)) for group, count in counts.items()}
    ends = {f"next/{key}": flag for key in DONE_KEYS}
    rows = {**observations, **actions, **rewards, **ends, "is_init": flag, "battle": integer}
    battles = {
        **{f"last/{name}": column for name, column in observations.items()},
        "telemetry": Column(torch.float32, (TELEMETRY_CELLS, TELEMETRY_CELLS)),
        **{"seed": integer, "decisions": integer, "winner": tiny, "reason": tiny},
        "commander": Column(torch.int64, (2,)),
        "score": Column(torch.float32, (2,)),
    }
    tables = {ROWS: rows, BATTLES: battles}
    return {f"{table}/{name}": column for table, leaves in tables.items() for name, column in leaves.items()}


@dataclass(frozen=True)
class Dataset:
    """Recorded battles, one after another, memory-mapped from a file; use `open_dataset` to create an instance.

    `rows [R]`, one per decision, have the keys of `echelon.teams`. For each group (team) these are `(group,
    "observation", stream)`, `(group, "mask")` (alive), `(group, "action") [R, A, D]` and `("next", group, "reward") [R,
    A, 1]`; at the root they are `("next", "done")`, `("next", "terminated")`, `("next", "truncated")` and `is_init`,
    `[R, 1]` each, and `battle [R]` int64, the index of the battle.

    If orders are enabled (`EnvConfig.command`), rows have three more kinds of keys, as in `EchelonEnv`: the stream
    `order`, `(group, "driven") [R, A]` bool (mechs under a person's control), and the groups `blue_command` and
    `red_command`, whose `action [R, P, D]` is zero without a commander.

    `battles [N]` have `seed`, `decisions`, `winner`, `reason`, `score [N, 2]`, `telemetry [N, 16, 16]` (the map that
    both teams observe), the last observation `("last", group, ...)`, and `commander [N, 2]`, the indices of blue's and
    red's commander in `commanders`.
    """

    config: EnvConfig
    commanders: tuple[str, ...]
    rows: TensorDict
    battles: TensorDict

    def __len__(self) -> int:
        """Return R, the number of rows."""
        return len(self.rows)

    def transitions(self, observation: ObservationForm = "flat", size: int = 1024) -> Iterator[TensorDict]:
        """Yield copies of all rows with their next observations, `size` rows at a time, for `ReplayBuffer.extend`.

        The copies have the keys of `rows` and, in addition, `("next", group, "observation")` and `("next", group,
        "mask")` (after the last decision of a battle these hold its last observation), `telemetry [n, 16, 16]`, and
        `(group, "commander") [n, A]` int64.

        Args:
            observation: form of the observations, either `flat`, a vector `[n, A, F]`, or `structured`, streams by
                name, as in `echelon.versus`.
            size: number of rows at a time.
        """
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            batch = self.rows[start:stop].clone()
            after = torch.arange(start + 1, stop + 1, device="cpu").clamp(max=len(self) - 1)
            battle, done = batch["battle"], batch["next", "done"][:, 0]
            batch["telemetry"] = self.battles["telemetry"][battle]
            for group in filter(self.rows.keys().__contains__, (*GROUPS, *COMMAND.values())):
                following = self.rows[group].select("observation", "mask")[after]
                following[done] = self.battles["last", group][battle[done]]
                batch["next", group].update(following)
            for side, group in enumerate(GROUPS):
                commander = self.battles["commander"][battle, side]
                batch[group, "commander"] = commander[:, None].expand(batch[group].shape).clone()
                for team in (batch[group], batch["next", group]):
                    as_form(team, observation)
            yield batch

    def mechs_of(self, commander: str, observation: ObservationForm = "flat", size: int = 1024) -> Iterator[TensorDict]:
        """Yield observations and actions of a commander's living mechs for imitation, with a row per mech and decision.

        Each TensorDict has `observation [n, F]` (or streams), `action [n, D]` and `battle [n]`, from `size` decisions.
        """
        require(commander in self.commanders, "commander", " or ".join(self.commanders), commander)
        is_commander = self.battles["commander"] == self.commanders.index(commander)  # [N, 2]
        for start in range(0, len(self), size):
            rows = self.rows[start : start + size]
            for side, group in enumerate(GROUPS):
                team = rows[group][is_commander[rows["battle"], side]]
                battle = rows["battle"][is_commander[rows["battle"], side]]
                mechs = team.select("observation", "action").set("battle", battle[:, None].expand(team.shape))
                living = mechs[team["mask"]]
                if len(living) > 0:
                    yield as_form(living, observation)


def as_form(team: TensorDictBase, observation: ObservationForm) -> TensorDictBase:
    """Return `team`; if `observation` is `flat`, its observation streams are concatenated to one vector."""
    require(observation in ("flat", "structured"), "observation", "flat or structured", observation)
    if observation == "flat":
        team["observation"] = FlatObservation.of(team["observation"])
    return team


def open_dataset(path: Path | str) -> Dataset:
    """Open a dataset file as memory-mapped tensors.

    The header and the ends of battles are validated on opening; observations, actions and rewards are read only when
    used.

    Args:
        path: the file.

    Returns:
        The battles.

    Raises:
        FileError: if the file is not a valid dataset.
    """
    path = Path(path)
    with open_file(path, MOST_BYTES) as file:
        header = read_header(path.name, file)[0]
    config, commanders = check_metadata(path.name, header.metadata.get(METADATA, "{}"))
    check_columns(path.name, header, as_written(header, columns(config)))
    try:
        with safetensors.safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in header.tensors}
    except Exception as error:
        raise FileError(f"{path.name}: not a safetensors file: {error}") from None
    count, battles = len(tensors["rows/battle"]), len(tensors["battles/seed"])
    check_battles(path.name, tensors, len(commanders))
    return Dataset(config, commanders, nested(tensors, ROWS, count), nested(tensors, BATTLES, battles))


def check_metadata(name: str, text: str) -> tuple[EnvConfig, tuple[str, ...]]:
    """Return the environment config and the commanders' names from a file's metadata."""
    metadata: Any = parse_json(name, text.encode())
    check_schema(name, metadata, SCHEMA, VERSION)
    env, commanders = metadata.get("env"), metadata.get("commanders")
    is_list = isinstance(commanders, list) and 0 < len(commanders) == len(set(map(str, commanders)))
    holds = is_list and all(isinstance(entry, str) and 0 < len(entry) <= LONGEST_NAME for entry in commanders)
    expect(holds, f"{name}: commanders", "different names", commanders)
    OBJECT(f"{name}: env", env)
    with as_file_error(name):
        return env_from_json(env), tuple(commanders)


def as_written(header: Header, expected: dict[str, Column]) -> dict[str, Column]:
    """Return the expected columns as the file's version has them: without later streams, and with its stream widths."""
    columns = {}
    for key, column in expected.items():
        if "/observation/" in key:
            if key not in header.tensors:
                continue
            width = header.tensors[key][1][-1:]
            if 0 < math.prod(width) <= MOST_COLUMNS:
                column = Column(column.dtype, (*column.shape[:-1], *width))
        columns[key] = column
    return columns


def check_columns(name: str, header: Header, expected: dict[str, Column]) -> None:
    """Check that the file has exactly the expected columns, and that all columns of a table have the same length."""
    if header.tensors.keys() != expected.keys():
        differing = sorted(header.tensors.keys() ^ expected.keys())[0]
        raise FileError(f"{name}: tensor {differing} must {'be absent' if differing in header.tensors else 'exist'}")
    lengths = {table: header.tensors[key][1][:1] for table, key in ((ROWS, "rows/battle"), (BATTLES, "battles/seed"))}
    for key, column in expected.items():
        want = (KINDS[column.dtype], (*lengths[key.partition("/")[0]], *column.shape))
        if header.tensors[key] != want or not all(lengths.values()) or 0 in want[1][:1]:
            raise FileError(f"{name}: tensor {key} must be {want[0]} {want[1]}, got {header.tensors[key]}")


def check_battles(name: str, tensors: dict[str, Tensor], commanders: int) -> None:
    """Check that rows are ordered by battle, and that `done` is true exactly at the last decision of each battle."""
    decisions, battle_of_row = tensors["battles/decisions"], tensors["rows/battle"]
    if bool((decisions < 1).any()) or int(decisions.double().sum()) != len(battle_of_row):
        raise FileError(f"{name}: decisions must be positive and add up to {len(battle_of_row)}, the number of rows")
    if not torch.equal(battle_of_row, torch.repeat_interleave(torch.arange(len(decisions), device="cpu"), decisions)):
        raise FileError(f"{name}: rows must be ordered by battle, 0 to {len(decisions) - 1}")
    ends = torch.zeros(len(battle_of_row), dtype=torch.bool, device="cpu")
    ends[decisions.cumsum(0) - 1] = True
    if not torch.equal(tensors["rows/next/done"][:, 0], ends):
        raise FileError(f"{name}: done must be true exactly in the last row of each battle")
    index = tensors["battles/commander"]
    if bool((index < 0).any() or (index >= commanders).any()):
        raise FileError(f"{name}: commander must be 0..{commanders - 1}, got {int(index.min())}..{int(index.max())}")


def nested(tensors: dict[str, Tensor], part: str, count: int) -> TensorDict:
    """Return the columns of one table as a TensorDict, in which a group's mechs are a second batch dimension."""
    values = {key.partition("/")[2]: value for key, value in tensors.items() if key.startswith(f"{part}/")}
    td = TensorDict({tuple(key.split("/")): value for key, value in values.items()}, [count])
    for parent in (td, td.get("next", None), td.get("last", None)):
        for group in (*GROUPS, *COMMAND.values()):
            team = None if parent is None else parent.get(group, None)
            if team is not None:
                team.batch_size = [count, next(iter(team.values(True, True))).shape[1]]
    return td


class DatasetWriter:
    """A sink for `BatchArena.play`: it stores the played battles and writes them to a file when its context exits.

    Columns are collected in files of a hidden folder beside `path`, and are joined at the end. After an error, an
    interrupt or a full disk no file is left.

        with DatasetWriter(path, env, names) as writer:
            for start in range(0, len(battles), arena.settings.batch):
                arena.play(battles[start : start + arena.settings.batch], sink=writer)

    It keeps one batch in memory: about 5 kB per mech and decision.
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

    # Interface of a sink

    def begin(self, battles: Sequence[Battle]) -> None:
        self._battles = battles
        self._steps: list[tuple[Tensor, dict[str, Tensor]]] = []
        self._last: dict[str, Tensor] = {}

    def step(self, stepped: TensorDictBase, running: Tensor) -> None:
        indices = running.nonzero()[:, 0]
        rows = stepped[indices]
        if not self._last:
            self._telemetry = rows["telemetry"].cpu()
        values = {name: self._value(rows, name).cpu() for name in self._names(ROWS) if name != "battle"}
        self._steps.append((indices.cpu(), values))
        ended = rows["next", "done"][:, 0]
        for name in (name.removeprefix("last/") for name in self._names(BATTLES) if name.startswith("last/")):
            value: Tensor = rows[("next", *name.split("/"))]
            last_values = self._last.setdefault(name, value.new_zeros(len(self._battles), *value.shape[1:]).cpu())
            last_values[indices[ended].cpu()] = value[ended].cpu()

    def end(self, outcome: TensorDictBase) -> None:
        battle = torch.cat([indices for indices, _ in self._steps])
        order = battle.argsort(stable=True)
        for name in self._names(ROWS):
            if name == "battle":
                values = battle[order] + self.lengths[BATTLES]
            else:
                values = torch.cat([step_values.pop(name) for _, step_values in self._steps])[order]
            self._append(f"{ROWS}/{name}", values)
        for name, values in self._of_battles(outcome.cpu()).items():
            self._append(f"{BATTLES}/{name}", values)
        self.lengths[ROWS] += len(battle)
        self.lengths[BATTLES] += len(self._battles)

    def _of_battles(self, outcome: TensorDictBase) -> dict[str, Tensor]:
        """Return the columns of the table `battles` for the battles of the current batch."""
        index = {name: number for number, name in enumerate(self.commanders)}
        values = {name: outcome[name][:, 0] for name in ("decisions", "winner", "reason")}
        return {
            **{f"last/{name}": value for name, value in self._last.items()},
            **values,
            "telemetry": self._telemetry,
            "score": outcome["score"],
            "seed": torch.tensor([battle.seed for battle in self._battles], device="cpu"),
            "commander": torch.tensor([[index[battle.blue], index[battle.red]] for battle in self._battles]),
        }

    def _value(self, rows: TensorDictBase, name: str) -> Tensor:
        """Return the values `[n, ...]` of a column from the batch's rows; zeros if an optional column is missing."""
        key, column = tuple(name.split("/")), self.columns[f"{ROWS}/{name}"]
        if name.endswith(UNSAID) and rows.get(key, None) is None:
            return torch.zeros((len(rows), *column.shape), dtype=column.dtype, device=rows.device)
        value: Tensor = rows[key]
        return value

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
        # Write columns with larger dtypes first, so that each column starts at a multiple of its item size.
        ordered = sorted(self.columns.items(), key=lambda item: -item[1].dtype.itemsize)
        with atomic_write(self.path) as draft, open(draft, "wb") as file:
            file.write(self._header(ordered))
            for name, _ in ordered:
                with open(self._parts[name], "rb") as source:
                    shutil.copyfileobj(source, file, 1 << 22)
                self._parts[name].unlink()

    def _header(self, ordered: Sequence[tuple[str, Column]]) -> bytes:
        """Return the length field and the header of a safetensors file, padded to a multiple of 8 bytes."""
        metadata = {
            "schema": SCHEMA,
            "version": VERSION,
            "written_by": version.VERSION,
            "env": self.config.signature(),
            "commanders": self.commanders,
        }
        entries: dict[str, object] = {"__metadata__": {METADATA: json.dumps(metadata)}}
        start = 0
        for name, column in ordered:
            shape = [self.lengths[name.partition("/")[0]], *column.shape]
            stop = start + math.prod(shape) * column.dtype.itemsize
            entries[name] = {"dtype": KINDS[column.dtype], "shape": shape, "data_offsets": [start, stop]}
            start = stop
        text = json.dumps(entries).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text


class CommandedGame:
    """Passes the decisions in a port's battles to a sink, such as `DatasetWriter`, until each battle has ended once.

    Args:
        port: the port of the battles, before their first decision.
        names: names of blue's and red's commander.
    """

    def __init__(self, port: CommandPort, sink: StepSink, names: tuple[str, str]) -> None:
        self.port, self.sink, self.env = port, sink, port.view.env
        self.endings = Endings(self.env.last_observation(), self.env.num_envs)
        port.view.on_decision = self._keep
        sink.begin([Battle(*names, seed) for seed in self.env.state.seed.tolist()])

    def _keep(self, stepped: TensorDictBase) -> None:
        for group in GROUPS:
            stepped[group, DRIVEN] = self._driven(group)
        self.sink.step(stepped, self.endings.running.clone())
        self.endings.store(stepped["next"], lambda ends: state_hashes(self.env.state, ends))

    def _driven(self, group: str) -> torch.Tensor:
        """Return which mechs of a group are controlled manually by a person, `[B, A]` bool."""
        names, stick = self.env.group_map[group], self.port.stick
        is_driven = torch.zeros((self.env.num_envs, len(names)), dtype=torch.bool, device=self.env.device)
        if stick is not None and stick.mech in names:
            is_driven[stick.battle, names.index(stick.mech)] = True
        return is_driven

    def end(self) -> None:
        """Finish the recording, after all battles have ended."""
        self.port.view.on_decision = None
        self.sink.end(self.endings.outcome)
