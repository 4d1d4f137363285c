"""Untrusted files: one clear line, fast, with little memory, and no code runs (R1, R10)."""

import hashlib
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from apart import apart
from tiny_runs import TINY

from echelon.learn.checkpoint.files import inspect_checkpoint, save_checkpoint
from echelon.learn.checkpoint.format import LEARNER, METADATA, POLICY, Counters, RunState, open_checkpoint, run_file
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError
from echelon.runtime.tensor_files import StateDict

LONGEST_S = 1.0
"""Limit in CPU seconds, which do not depend on the machine's load."""
MOST_BYTES = 200 << 20
GIB = 1 << 30


class Bomb:
    """Pickle that creates a canary file when loaded."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.system, (f"touch {self.canary}",)


def claims_of(path: Path) -> dict:
    return json.loads((path / METADATA).read_text())


def claim(path: Path, **changes: object) -> None:
    """Change entries of `checkpoint.json`."""
    (path / METADATA).write_text(json.dumps({**claims_of(path), **changes}))


def put(path: Path, data: bytes, name: str = POLICY) -> None:
    """Replace a file and update its hash."""
    (path / name).write_bytes(data)
    claim(path, files={**claims_of(path)["files"], name: hashlib.sha256(data).hexdigest()})


def header(text: str, body: int = 0) -> bytes:
    """Return a safetensors file with this header and `body` zero bytes."""
    return struct.pack("<Q", len(text)) + text.encode() + bytes(body)


def sparse(path: Path, size: int, begins: bytes = b"") -> None:
    """Create a sparse file of `size` bytes that takes no disk space."""
    (path / POLICY).write_bytes(begins)
    os.truncate(path / POLICY, size)


def listed(count: int) -> str:
    return json.dumps({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(count)})


def huge_and_empty(path: Path) -> None:
    """Write a valid header of a one-gigabyte tensor to a sparse file."""
    text = json.dumps({"t": {"dtype": "U8", "shape": [GIB - 4096], "data_offsets": [0, GIB - 4096]}})
    sparse(path, GIB - 4096 + 8 + len(text), header(text))


def linked(path: Path, name: str) -> None:
    target = path.parent / "elsewhere"
    (path / name).rename(target)
    (path / name).symlink_to(target)


def zipped(path: Path) -> bytes:
    """Return a TorchScript archive, which is a zip of code and pickles."""
    archive = path.parent / "script.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/code/__torch__.py", "def forward(self): pass\n")
        file.writestr("archive/data.pkl", pickle.dumps(Bomb(path.parent / "canary")))
    return archive.read_bytes()


def twice(path: Path) -> None:
    text = (path / METADATA).read_text()
    (path / METADATA).write_text(text.replace('"comm_dim"', '"comm_dim": 8, "comm_dim"', 1))


def renamed(path: Path, name: str) -> None:
    """Rename a file in the metadata, in addition to or instead of the weights."""
    files = claims_of(path)["files"]
    claim(path, files={name if key == POLICY else key: value for key, value in files.items()})


TRUNCATED = "policy.safetensors: truncated: header of"
HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickle bomb": (lambda p: put(p, pickle.dumps(Bomb(p.parent / "canary"))), TRUNCATED),
    "pickled metadata": (
        lambda p: (p / METADATA).write_bytes(pickle.dumps(Bomb(p.parent / "canary"))),
        "not valid JSON",
    ),
    "TorchScript archive": (lambda p: put(p, zipped(p)), TRUNCATED),
    "truncated to 4 bytes": (lambda p: put(p, b"\0\0\0\0"), TRUNCATED),
    "half": (lambda p: put(p, (p / POLICY).read_bytes()[:-1000]), r"tensors must fill \d+ bytes, got \d+"),
    "empty": (lambda p: put(p, b""), "truncated: header of 0 bytes in a file of 0"),
    "empty metadata": (lambda p: (p / METADATA).write_bytes(b""), "checkpoint.json: not valid JSON"),
    "long metadata": (
        lambda p: (p / METADATA).write_bytes(b" " * (2 << 20)),
        "expected at most 1048576 bytes, got 2097152",
    ),
    "header of 100 MB": (
        lambda p: sparse(p, 101 << 20, struct.pack("<Q", 100 << 20)),
        r"policy.safetensors: expected at most \d+ bytes, got 105906176",
    ),
    "header beyond the file": (lambda p: put(p, struct.pack("<Q", 2**63) + b"{}"), TRUNCATED),
    "duplicate key in a header": (
        lambda p: put(p, header('{"a": {}, "a": {}}')),
        "policy.safetensors: duplicate key 'a'",
    ),
    "duplicate key in the metadata": (twice, "checkpoint.json: duplicate key 'comm_dim'"),
    "200,000 empty tensors": (lambda p: put(p, header(listed(200_000))), r"expected at most \d+ bytes, got \d+"),
    "5,000 empty tensors": (lambda p: put(p, header(listed(5_000))), "header must list at most 4096 tensors"),
    "64 GiB that are not there": (lambda p: sparse(p, 64 * GIB), r"expected at most \d+ bytes, got 68719476736"),
    "a gigabyte that is not there": (huge_and_empty, r"expected at most \d+ bytes, got 10737\d+"),
    "zeros behind the tensors": (
        lambda p: put(p, (p / POLICY).read_bytes() + bytes(1 << 16)),
        r"tensors must fill \d+ bytes, got \d+",
    ),
    "overlapping tensors": (
        lambda p: put(
            p,
            header(
                '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},'
                ' "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
                8,
            ),
        ),
        "policy.safetensors: not a safetensors file",
    ),
    "offsets that are no numbers": (
        lambda p: put(p, header('{"a": {"dtype": "F32", "shape": [2], "data_offsets": ["x"]}}', 8)),
        "tensor a.data_offsets must be a list of 2, got",
    ),
    "nesting bomb in a header": (lambda p: put(p, header("[" * 100_000)), "policy.safetensors: not valid JSON"),
    "nesting bomb in the metadata": (
        lambda p: (p / METADATA).write_text('{"a":' * 100_000),
        "checkpoint.json: not valid",
    ),
    "symlink": (lambda p: linked(p, POLICY), "policy.safetensors: cannot be read: Too many levels of symbolic links"),
    "symlinked metadata": (lambda p: linked(p, METADATA), "checkpoint.json: cannot be read"),
    "a name with ..": (lambda p: renamed(p, "../../etc/shadow"), r"files\['../../etc/shadow'\] must be absent"),
    "an absolute name": (lambda p: renamed(p, "/etc/shadow"), r"files\['/etc/shadow'\] must be absent"),
    "no hash": (lambda p: claim(p, files={**claims_of(p)["files"], POLICY: 7}), "policy.safetensors must be a sha256"),
    "a million processes": (lambda p: claim(p, processes=10**6), "processes must be an integer 0..1024, got 1000000"),
    "a network too wide": (
        lambda p: claim(p, model={**claims_of(p)["model"], "hidden": 8192}),
        r"memory must be .*8192.*, got .*16",
    ),
    "a network wider than its weights": (
        lambda p: claim(
            p, model={**claims_of(p)["model"], "hidden": 8192, "body_width": 8192}, memory={"h": [8192], "c": [8192]}
        ),
        r"tensor .*: expected torch.float32 \(.*8192.*\), got torch.float32",
    ),
}


@pytest.fixture(scope="module")
def policy() -> ActorCritic:
    torch.manual_seed(0)
    return TINY.build(PolicySpecs(8))


@pytest.fixture
def saved(tmp_path: Path, policy: ActorCritic) -> Path:
    """A checkpoint with all files."""
    path = tmp_path / "checkpoints" / "one"
    run = RunState({}, {}, {"battles": StateDict({"at": torch.zeros(3)}, {"at": 1})})
    save_checkpoint(path, policy, ValueNorm(), EnvConfig.small(), Counters(7), {"x": torch.arange(3.0)}, None, run)
    return path


@pytest.mark.requirement("R1", "R10")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file_is_refused_fast_with_little_memory(saved, case):
    spoil, message = HOSTILE[case]
    spoil(saved)
    said, seconds, needed = apart(lambda: open_checkpoint(saved).policy())
    with pytest.raises(FileError, match=message):
        raise FileError(said)
    assert "\n" not in said and len(said) < 400
    assert seconds < LONGEST_S and needed < MOST_BYTES, f"{seconds:.2f} s, {needed >> 20} MB"
    assert not (saved.parent / "canary").exists()


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("name", [LEARNER, run_file(0)])
@pytest.mark.parametrize("case", ["pickle bomb", "nesting bomb", "64 GiB", "a gigabyte", "facts"])
def test_hostile_resume_file_is_refused_fast_with_little_memory(saved, name, case):
    if case == "pickle bomb":
        put(saved, pickle.dumps(Bomb(saved.parent / "canary")), name)
    elif case == "nesting bomb":
        put(saved, header("[" * 100_000), name)
    elif case == "facts":
        put(saved, safetensors.torch.save({"x": torch.zeros(1)}, {"facts": "[" * 10_000}), name)
    else:
        os.truncate(saved / name, 64 * GIB if case == "64 GiB" else GIB)
    read = open_checkpoint(saved)
    said, seconds, needed = apart(lambda: read.parts(0) if name == run_file(0) else read.tensors(LEARNER))
    if (name, case) == (LEARNER, "facts"):
        assert said == "", "the facts of this file are not read"
    else:
        assert said.startswith(name) and "\n" not in said, said
    assert seconds < LONGEST_S and needed < MOST_BYTES, f"{seconds:.2f} s, {needed >> 20} MB"
    assert not (saved.parent / "canary").exists()
    assert case == "facts" or not inspect_checkpoint(saved).is_valid


def test_only_critic_may_be_half_precision(saved):
    tensors = safetensors.torch.load_file(saved / POLICY)
    put(saved, safetensors.torch.save(tensors | {"critic.value.weight": tensors["critic.value.weight"].bfloat16()}))
    assert open_checkpoint(saved).policy().critic.value.weight.dtype == torch.float32
    put(saved, safetensors.torch.save(tensors | {"network.head.loc.weight": tensors["network.head.loc.weight"].half()}))
    with pytest.raises(FileError, match=r"network.head.loc.weight: expected torch.float32 .* got torch.float16"):
        open_checkpoint(saved).policy()
    actor = tensors["network.head.loc.weight"].bfloat16()
    put(saved, safetensors.torch.save(tensors | {"network.head.loc.weight": actor}))
    with pytest.raises(FileError, match=r"network.head.loc.weight: expected torch.float32 .* got torch.bfloat16"):
        open_checkpoint(saved).policy()


def test_unmodified_checkpoint_is_valid(saved):
    said, seconds, needed = apart(lambda: open_checkpoint(saved).policy())
    assert said == "" and inspect_checkpoint(saved).is_valid
    assert seconds < LONGEST_S and needed < MOST_BYTES


@pytest.mark.requirement("R1")
def test_pickle_bomb_works_when_loaded(tmp_path):
    """Loading the pickle creates the canary, so its absence above means that no pickle was loaded."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "canary")))  # noqa: S301
    assert (tmp_path / "canary").exists()
