"""Datasets of battles: exact round trips, atomic writes, and checks of untrusted files."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors
import torch
from builders import short_battles
from patience import STUCK_S
from safetensors.torch import save_file
from tensordict import TensorDict
from torchrl.data import LazyMemmapStorage, ReplayBuffer, SliceSampler, TensorStorage

from echelon.agents.heuristic import scripted
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.datasets.dataset import METADATA, DatasetWriter, columns, open_dataset
from echelon.env.env import EchelonEnv
from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.dataset import WriteDataset
from echelon.rules.config import EnvConfig
from echelon.rules.orders import CommandConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.views.group_policy import GroupPolicy, memory_spec
from echelon.views.transforms import FlatObservation

CPU = torch.device("cpu")
HARD, EASY = "heuristic:hard", "heuristic:easy"
EVEN = short_battles(6)
UNEQUAL = EnvConfig(**{**vars(EVEN), "blue": ("medium", "light", "scout")})
BATTLES = [
    Battle(HARD, EASY, 3),
    Battle(EASY, HARD, 3),
    Battle(HARD, HARD, 4),
    Battle(HARD, EASY, 5),
    Battle(EASY, HARD, 6),
]
LONG = EnvConfig(**{**vars(EVEN), "rules": RulesConfig()})
DRILLED = EnvConfig(**{**vars(EVEN), "command": CommandConfig(enabled=True, drill_s=2.0)})
GROUPS = ("blue", "red")


def write(path, config=EVEN, battles=BATTLES, batch=3):
    """Write some battles to a file and return the mapped dataset."""
    arena = BatchArena(config, lambda name: scripted(name, config, CPU), ArenaConfig(CPU, batch))
    with DatasetWriter(path, config, [HARD, EASY]) as writer:
        for start in range(0, len(battles), batch):
            arena.play(battles[start : start + batch], sink=writer)
    return open_dataset(path)


def rollout(config, battle):
    """Play the same battle in an environment to its end."""
    policies = {"blue": scripted(battle.blue, config, CPU), "red": scripted(battle.red, config, CPU)}
    env = EchelonEnv(config, 1, CPU, torch.tensor([battle.seed]), memory=memory_spec(**policies))
    td, steps = env.reset(), []
    for _ in range(config.rules.max_decisions):
        for group, policy in policies.items():
            td = GroupPolicy(policy, group, group)(td)
        stepped = env.step(td)
        steps.append(stepped)
        if stepped["next", "done"].any():
            break
        td = env.step_mdp(stepped)
    return TensorDict.stack(steps, 0)[:, 0]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset") / "battles.safetensors"
    write(path)
    return path


@pytest.mark.parametrize("config", [EVEN, UNEQUAL, LONG, DRILLED], ids=["even", "unequal", "to the end", "with orders"])
def test_dataset_round_trip_is_bitwise_equal(tmp_path, config):
    """Bitwise equality, with a smaller last batch and battles of different length."""
    battles = BATTLES if config is not LONG else BATTLES[:3]
    dataset = write(tmp_path / "battles.safetensors", config, battles, 2)
    assert dataset.config == config and dataset.commanders == (HARD, EASY)
    begin = 0
    for number, battle in enumerate(battles):
        played = rollout(config, battle)
        rows = dataset.rows[begin : begin + len(played)]
        begin += len(played)
        assert (rows["battle"] == number).all() and rows["is_init"][:, 0].nonzero().tolist() == [[0]]
        for group in GROUPS:
            for key in ("observation", "mask", "action"):
                assert (rows[group, key] == played[group, key]).all()
            assert torch.equal(rows["next", group, "reward"], played["next", group, "reward"])
            for key in ("observation", "mask"):
                assert (dataset.battles["last", group, key][number] == played["next", group, key][-1]).all()
        for flag in ("done", "terminated", "truncated"):
            assert torch.equal(rows["next", flag], played["next", flag])
        told, outcome = dataset.battles[number], played["next", "outcome"][-1]
        assert [dataset.commanders[i] for i in told["commander"].tolist()] == [battle.blue, battle.red]
        assert (told["seed"], told["decisions"]) == (battle.seed, len(played))
        assert torch.equal(told["telemetry"], played["telemetry"][0]) and torch.equal(told["score"], outcome["score"])
        assert (told["winner"], told["reason"]) == (outcome["winner"][0], outcome["reason"][0])
    assert begin == len(dataset)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_transitions_contain_true_last_observation(path, size):
    dataset = open_dataset(path)
    rows = torch.cat([*dataset.transitions(size=size)])
    assert len(rows) == len(dataset) and rows["next", "done"].sum() == 5
    begin = 0
    for battle in BATTLES:
        played = rollout(EVEN, battle)
        own = rows[begin : begin + len(played)]
        begin += len(played)
        assert torch.equal(own["telemetry"], played["telemetry"])
        for group, name in zip(GROUPS, battle[:2], strict=True):
            for mine, theirs in ((own[group], played[group]), (own["next", group], played["next", group])):
                assert torch.equal(mine["observation"], FlatObservation.of(theirs["observation"]))
                assert torch.equal(mine["mask"], theirs["mask"])
            assert (own[group, "commander"] == (HARD, EASY).index(name)).all()


def test_structured_transitions_contain_streams(path):
    dataset = open_dataset(path)
    (rows,) = dataset.transitions("structured")
    assert (rows["blue", "observation"] == dataset.rows["blue", "observation"]).all()
    assert (rows["next", "red", "observation"][0] == dataset.rows["red", "observation"][1]).all()
    with pytest.raises(ConfigError, match="observation must be flat or structured"):
        next(dataset.transitions("pixels"))


@pytest.mark.parametrize("config", [EVEN, UNEQUAL])
def test_dataset_selects_living_mechs_of_commander(tmp_path, config):
    """For both sides and unequal teams; dead mechs are excluded."""
    dataset = write(tmp_path / "battles.safetensors", config)
    flags = {name: 0 for name in (HARD, EASY)}
    for name in flags:
        parts = [*dataset.mechs_of(name, "structured", size=7)]
        mechs = torch.cat(parts)
        expected = []
        for number, battle in enumerate(BATTLES):
            rows = dataset.rows[dataset.rows["battle"] == number]
            for group, own in zip(GROUPS, battle[:2], strict=True):
                expected += [rows[group].select("action")[rows[group, "mask"]]] if own == name else []
        expected = torch.cat(expected)
        assert len(mechs) == len(expected)
        key = mechs["action"].double().sum(-1).sort().values
        assert torch.equal(key, expected["action"].double().sum(-1).sort().values)
        flat = torch.cat([*dataset.mechs_of(name, size=7)])
        assert torch.equal(flat["observation"], FlatObservation.of(mechs["observation"]))
        assert torch.equal(flat["action"], mechs["action"])
    with pytest.raises(ConfigError, match="commander must be heuristic:hard or heuristic:easy, got 'me'"):
        next(dataset.mechs_of("me"))


def test_torchrl_replay_buffer_accepts_dataset(path, tmp_path):
    """Directly as storage, or copied into a memory-mapped storage with next observations."""
    dataset = open_dataset(path)
    mapped = ReplayBuffer(
        storage=TensorStorage(dataset.rows),
        sampler=SliceSampler(slice_len=3, traj_key="battle"),
        batch_size=12,
    )
    sample = mapped.sample()
    assert sample["blue", "action"].shape[0] == 12 and (sample["battle"].view(4, 3).diff(dim=1) == 0).all()
    buffer = ReplayBuffer(storage=LazyMemmapStorage(len(dataset), scratch_dir=tmp_path / "buffer"), batch_size=8)
    for part in dataset.transitions(size=10):
        buffer.extend(part)
    assert len(buffer) == len(dataset) == 30
    sample = buffer.sample()
    assert sample["next", "blue", "observation"].shape == sample["blue", "observation"].shape
    again = TensorDict.load_memmap(dataset.rows.memmap(tmp_path / "memmap").saved_path)
    assert (again["red", "observation"] == dataset.rows["red", "observation"]).all()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists memory maps")
def test_columns_are_memory_mapped(path):
    """All columns are consecutive in the file's own memory pages."""
    dataset = open_dataset(path)
    mapped = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    spans = [[int(end, 16) for end in each.split("-")] for each in mapped]
    for part in (dataset.rows, dataset.battles):
        for leaf in part.values(True, True):
            assert any(low <= leaf.data_ptr() < high for low, high in spans)


# Atomic writes


def test_error_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError), DatasetWriter(tmp_path / "battles.safetensors", EVEN, [HARD]):
        raise RuntimeError
    assert [*tmp_path.iterdir()] == []
    with (
        pytest.raises(ConfigError, match="battles must be at least one played"),
        DatasetWriter(tmp_path / "battles.safetensors", EVEN, [HARD]),
    ):
        pass
    assert [*tmp_path.iterdir()] == []


@pytest.mark.long
def test_full_disk_keeps_previous_file(tmp_path):
    """At any column, also after a partial write."""
    path = tmp_path / "battles.safetensors"
    path.write_bytes(b"before")
    code = f"""
import resource, signal, sys
sys.path += [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
import test_dataset as t
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (100, 5000, 20001, 50000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        t.write(t.Path({str(path)!r}))
    except t.FileError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [f"{path}: cannot be written: File too large"] * 4, ran.stderr
    assert path.read_bytes() == b"before" and [*tmp_path.iterdir()] == [path]


@pytest.mark.long
def test_kill_leaves_no_partial_file_and_keeps_previous_one(tmp_path):
    """Kill the process repeatedly, at different times."""
    path = tmp_path / "battles.safetensors"
    path.write_bytes(b"before")
    command = [sys.executable, "-m", "echelon.pipelines.arena", "dataset", "--commanders", EASY, "--battles", "2000"]
    process = subprocess.Popen(
        [*command, "--batch", "4", "--device", "cpu", "--out", str(path), "--quiet"], cwd=Path(__file__).parents[2]
    )
    began = time.monotonic()
    while not any(part.stat().st_size for part in tmp_path.glob(".*/0")) and time.monotonic() - began < STUCK_S:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.read_bytes() == b"before" and [*tmp_path.glob(".*/0")]


# The command


def test_command_plays_every_pair_once_per_seed_and_side(tmp_path, capsys):
    path = tmp_path / "battles.safetensors"
    names = (HARD, EASY, "heuristic:normal")
    command = WriteDataset(names, path, battles=2, seed=9, quiet=True, arena=ArenaArgs("cpu", batch=4))
    schedule = command.schedule()
    assert len(schedule) == 6 and len({battle.seed for battle in schedule}) == 1
    assert {battle[:2] for battle in schedule} == {(x, y) for x in names for y in names if x != y}
    alone = WriteDataset((EASY,), path, battles=4, quiet=True, arena=ArenaArgs("cpu", batch=4))
    assert [battle[:2] for battle in alone.schedule()] == [(EASY, EASY)] * 4
    alone.run()
    assert f"{path}: 4 battles" in capsys.readouterr().err
    dataset = open_dataset(path)
    assert dataset.commanders == (EASY,) and len(dataset.battles) == 4 and dataset.config == EnvConfig.small()
    for what, how in {
        "--battles must be even": {"battles": 3},
        "--commanders must be": {"commanders": (EASY, EASY)},
    }.items():
        with pytest.raises(ConfigError, match=what):
            WriteDataset(**{"commanders": (EASY,), "out": path, **how})


# Untrusted files


def parts_of(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def forge(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path


def claim(header, **changes):
    metadata = json.loads(header["__metadata__"][METADATA])
    header["__metadata__"][METADATA] = json.dumps({**metadata, **changes})


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("is this a dataset", lambda header: claim(header, schema="echelon-replay")),
        ("version must be 1, got 3", lambda header: claim(header, version=3)),
        ("is this a dataset", lambda header: header.pop("__metadata__")),
        ("commanders must be different names", lambda header: claim(header, commanders=[HARD, HARD])),
        ("commanders must be different names", lambda header: claim(header, commanders="hard")),
        ("commander must be 0..0, got 0..1", lambda header: claim(header, commanders=[HARD])),
        ("env must be an object", lambda header: claim(header, env=[])),
        ("env.blue", lambda header: claim(header, env={**UNEQUAL.signature(), "blue": 7})),
        ("tensor rows/blue/observation/contacts must be F32", lambda header: claim(header, env=UNEQUAL.signature())),
        ("tensors must fill", lambda header: header.pop("rows/battle")),
        (
            "tensor rows/battel must be absent",
            lambda header: header.update({"rows/battel": header.pop("rows/is_init")}),
        ),
        ("tensor rows/next/done must be BOOL", lambda header: header["rows/next/done"].update(dtype="U8")),
        ("tensor rows/next/done must be BOOL", lambda header: header["rows/next/done"].update(shape=[1, 30])),
        ("done must be true exactly in the last row", lambda header: swap(header, "rows/next/done", "rows/is_init")),
        (
            "decisions must be positive and add up to 30",
            lambda header: swap(header, "battles/seed", "battles/decisions"),
        ),
    ],
)
def test_invalid_dataset_header_is_refused(path, tmp_path, what, change):
    header, body = parts_of(path)
    change(header)
    with pytest.raises(FileError, match=what):
        open_dataset(forge(tmp_path / "forged.safetensors", header, body))


def test_rows_out_of_battle_order_are_refused(path, tmp_path):
    header, body = parts_of(path)
    start = header["rows/battle"]["data_offsets"][0]
    forged = forge(tmp_path / "forged.safetensors", header, body[:start] + b"\1" + body[start + 1 :])
    with pytest.raises(FileError, match="rows must be ordered by battle, 0 to "):
        open_dataset(forged)


def swap(header, one, other):
    header[one], header[other] = header[other], header[one]


def test_truncated_linked_or_missing_file_is_refused(path, tmp_path):
    cut = tmp_path / "cut.safetensors"
    for length in (0, 7, 100, path.stat().st_size - 1):
        cut.write_bytes(path.read_bytes()[:length])
        with pytest.raises(FileError):
            open_dataset(cut)
    link = tmp_path / "link.safetensors"
    link.symlink_to(path)
    for missing in (link, tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(FileError):
            open_dataset(missing)


def test_columns_are_aligned(path):
    """Each column starts at a multiple of its item size, as memory maps require."""
    header, _ = parts_of(path)
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert (8 + length) % 8 == 0
    for name, column in columns(EVEN).items():
        assert header[name]["data_offsets"][0] % column.dtype.itemsize == 0


def test_older_file_with_fewer_columns_is_readable(path, tmp_path):
    """Later versions add columns and streams; files of earlier versions keep their own."""
    with safetensors.safe_open(path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
    ego = [name for name in tensors if name.endswith("/observation/ego")]
    earlier = {name: leaf[..., :-3].contiguous() if name in ego else leaf for name, leaf in tensors.items()}
    earlier = {name: leaf for name, leaf in earlier.items() if not name.endswith("/observation/comms")}
    save_file(earlier, tmp_path / "earlier.safetensors", metadata)
    (rows,) = open_dataset(tmp_path / "earlier.safetensors").transitions("structured")
    (whole,) = open_dataset(path).transitions("structured")
    for place in ("blue", ("next", "blue")):
        observation, expected = rows[place]["observation"], whole[place]["observation"]
        assert set(expected.keys()) - set(observation.keys()) == {"comms"}
        assert torch.equal(observation["ego"], expected["ego"][..., :-3])
    (flat,) = open_dataset(tmp_path / "earlier.safetensors").transitions()
    missing = 3 + whole["blue", "observation", "comms"][0, 0].numel()
    (whole_flat,) = open_dataset(path).transitions()
    assert flat["blue", "observation"].shape[-1] == whole_flat["blue", "observation"].shape[-1] - missing
