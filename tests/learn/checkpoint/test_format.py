"""Checkpoints match their metadata, or loading raises one line."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tiny_runs import TINY

from echelon.env.env import EchelonEnv
from echelon.learn.checkpoint.files import find_checkpoint, inspect_checkpoint, newest_checkpoint, save_checkpoint
from echelon.learn.checkpoint.format import LEARNER, METADATA, POLICY, Counters, RunState, open_checkpoint
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig
from echelon.runtime.files import FileError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of an untrained policy."""
    torch.manual_seed(0)
    policy, norm = TINY.build(PolicySpecs(8)), ValueNorm()
    norm.update(torch.tensor([1.0, 4.0]))
    path = tmp_path / "checkpoints" / "one"
    save_checkpoint(path, policy, norm, EnvConfig.small(), Counters(7, 700, 1.5), {"x": torch.arange(3.0)})
    return path


def edit(path: Path, **changes: object) -> None:
    """Change entries of `checkpoint.json`; None removes one."""
    metadata = json.loads((path / METADATA).read_text())
    for name, value in changes.items():
        if value is None:
            del metadata[name]
        else:
            metadata[name] = value
    (path / METADATA).write_text(json.dumps(metadata))


def replace_policy(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Replace the weights and update their hash."""
    import hashlib

    data = safetensors.torch.save(tensors)
    (path / POLICY).write_bytes(data)
    files = json.loads((path / METADATA).read_text())["files"]
    edit(path, files={**files, POLICY: hashlib.sha256(data).hexdigest()})


def weights(path: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load((path / POLICY).read_bytes())


def test_saved_checkpoint_loads(saved):
    torch.manual_seed(0)
    original = TINY.build(PolicySpecs(8))
    loaded = open_checkpoint(saved)
    policy = loaded.policy()
    for name, value in original.state_dict().items():
        assert torch.equal(policy.state_dict()[name], value), name
    assert not policy.training
    assert loaded.counters == Counters(7, 700, 1.5)
    norm = ValueNorm()
    norm.update(torch.tensor([1.0, 4.0]))
    assert loaded.value_norm().moments() == norm.moments()
    assert loaded.tensors(LEARNER)["x"].tolist() == [0, 1, 2]
    assert loaded.metadata["env"] == json.loads(json.dumps(EnvConfig.small().signature()))


def test_checkpoint_stores_names_and_weights_of_custom_terms(saved):
    assert open_checkpoint(saved).extra_rewards == {}
    path = saved.parent / "two"
    run = RunState({}, {}, extra_rewards={"cool": 0.1})
    policy = TINY.build(PolicySpecs(8))
    save_checkpoint(path, policy, ValueNorm(), EnvConfig.small(), Counters(1, 1, 1.0), {}, run=run)
    env = json.loads((path / METADATA).read_text())["env"]
    assert open_checkpoint(path).extra_rewards == env["reward"]["extra"] == {"cool": 0.1}
    assert open_checkpoint(path).env == EnvConfig.small()
    for extra in (["cool"], {"cool": "1"}, {"cool": True}, 3):
        edit(path, env={**env, "reward": {**env["reward"], "extra": extra}})
        with pytest.raises(FileError, match=r"checkpoint.json: env.reward.extra must be numbers keyed by name, got"):
            _ = open_checkpoint(path).extra_rewards


@pytest.mark.requirement("R4")
def test_loading_builds_no_environment(saved, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("an environment was built")

    monkeypatch.setattr(EchelonEnv, "__init__", refuse)
    open_checkpoint(saved).policy()


def test_saving_leaves_nothing_but_the_checkpoint(saved):
    assert sorted(p.name for p in saved.parent.iterdir()) == ["one"]
    assert sorted(p.name for p in saved.iterdir()) == [METADATA, LEARNER, POLICY]


def test_newest_checkpoint_is_chosen_by_iterations(saved):
    other = saved.parent / "zzz"
    save_checkpoint(other, TINY.build(PolicySpecs(8)), ValueNorm(), EnvConfig.small(), Counters(3, 300, 1.0), {})
    assert newest_checkpoint(saved.parent) == saved


def flip_a_byte(path: Path) -> None:
    data = bytearray((path / POLICY).read_bytes())
    data[-1] ^= 1
    (path / POLICY).write_bytes(data)


def symlink(path: Path) -> None:
    target = path.parent / "elsewhere"
    (path / POLICY).rename(target)
    (path / POLICY).symlink_to(target)


def truncate(path: Path) -> None:
    os.truncate(path / POLICY, 4)
    metadata = json.loads((path / METADATA).read_text())["files"]
    import hashlib

    edit(path, files={**metadata, POLICY: hashlib.sha256((path / POLICY).read_bytes()).hexdigest()})


def long_header(path: Path) -> None:
    import hashlib

    data = struct.pack("<Q", (1 << 20) + 1) + b" " * ((1 << 20) + 1)
    (path / POLICY).write_bytes(data)
    files = json.loads((path / METADATA).read_text())["files"]
    edit(path, files={**files, POLICY: hashlib.sha256(data).hexdigest()})


def with_nan(path: Path) -> None:
    tensors = weights(path)
    tensors["critic.value.weight"][0, 0] = float("nan")
    replace_policy(path, tensors)


def wrong_dtype(path: Path) -> None:
    tensors = weights(path)
    tensors["critic.value.weight"] = tensors["critic.value.weight"].to(torch.int8)
    replace_policy(path, tensors)


def missing_tensor(path: Path) -> None:
    tensors = weights(path)
    del tensors["critic.value.bias"]
    replace_policy(path, tensors)


def extra_tensor(path: Path) -> None:
    replace_policy(path, {**weights(path), "canary": torch.zeros(2)})


def duplicate_key(path: Path) -> None:
    text = (path / METADATA).read_text()
    (path / METADATA).write_text(text.replace('"version"', '"schema": "echelon-checkpoint", "version"', 1))


def pipe(path: Path) -> None:
    (path / POLICY).unlink()
    os.mkfifo(path / POLICY)


def a_folder(path: Path) -> None:
    (path / METADATA).unlink()
    (path / METADATA).mkdir()


def many_keys(path: Path) -> None:
    (path / METADATA).write_text(json.dumps({f"k{i}": i for i in range(60_000)}))


BAD = {
    "flipped byte": (flip_a_byte, "policy.safetensors: sha256 mismatch: expected .*, got "),
    "truncated": (truncate, "policy.safetensors: truncated"),
    "long header": (long_header, "policy.safetensors: header must be at most 1048576 bytes, got 1048577"),
    "NaN": (with_nan, "tensor critic.value.weight: expected finite values"),
    "int8": (wrong_dtype, r"tensor critic.value.weight: expected torch.float32 \(1, 16\), got torch.int8"),
    "missing tensor": (missing_tensor, r"tensor critic.value.bias is missing, expected shape \(1,\)"),
    "extra tensor": (extra_tensor, r"unexpected tensor canary of shape \(2,\)"),
    "symlink": (symlink, "policy.safetensors: cannot be read"),
    "no weights": (lambda p: (p / POLICY).unlink(), "policy.safetensors: cannot be read: No such file"),
    "no metadata": (lambda p: (p / METADATA).unlink(), "expected a checkpoint folder with checkpoint.json"),
    "not JSON": (lambda p: (p / METADATA).write_text("{"), "checkpoint.json: not valid JSON"),
    "a list": (lambda p: (p / METADATA).write_text("[]"), "checkpoint.json: metadata must be an object"),
    "nested": (lambda p: (p / METADATA).write_text("[" * 100_000), "checkpoint.json: not valid JSON"),
    "duplicate key": (duplicate_key, "checkpoint.json: duplicate key 'schema'"),
    "a pipe": (pipe, "policy.safetensors: expected a regular file"),
    "a folder": (a_folder, "checkpoint.json: expected a regular file"),
    "many keys": (many_keys, "checkpoint.json: schema must be 'echelon-checkpoint', got None"),
    "infinite": (lambda p: (p / METADATA).write_text('{"a": 1e999}'), "expected finite numbers, got 1e999"),
    "long number": (lambda p: (p / METADATA).write_text("9" * 5000), "checkpoint.json: expected integers of 64 bits"),
    "memory": (lambda p: edit(p, memory={"h": [1]}), "memory must be "),
    "huge model": (
        lambda p: edit(p, model={**json.loads((p / METADATA).read_text())["model"], "hidden": 10**9}),
        r"LSTMConfig.hidden must be 1..8192, got 1000000000",
    ),
    "version 99": (
        lambda p: edit(p, version=99),
        "version must be 3, got 99: other versions of a checkpoint are not supported",
    ),
    "schema": (lambda p: edit(p, schema="other"), "schema must be 'echelon-checkpoint', got 'other'"),
    "wrong type": (lambda p: edit(p, comm_dim="8"), "comm_dim must be an integer 0..1024, got '8'"),
    "missing field": (lambda p: edit(p, env=None), "env must be an object, got None"),
    "layout": (lambda p: edit(p, layout_hash="0" * 64), "layout_hash must be "),
    "model field": (lambda p: edit(p, model={"kind": "lstm", "depth": 2}), "model.depth must be absent: this version"),
    "model type": (
        lambda p: edit(p, model={**json.loads((p / METADATA).read_text())["model"], "hidden": "16"}),
        "model.hidden must be a int, got '16'",
    ),
}


@pytest.mark.requirement("R2", "R3", "R5")
@pytest.mark.parametrize("case", BAD)
def test_invalid_checkpoint_raises_one_line(saved, case):
    spoil, message = BAD[case]
    spoil(saved)
    with pytest.raises(FileError, match=message) as caught:
        open_checkpoint(saved).policy()
    assert "\n" not in str(caught.value)


def test_folder_without_checkpoint_raises(tmp_path):
    with pytest.raises(FileError, match="expected a checkpoint folder"):
        open_checkpoint(tmp_path / "nothing")
    with pytest.raises(FileError, match="expected a checkpoint, found none"):
        newest_checkpoint(tmp_path)


def test_run_folder_resolves_to_newest_checkpoint(saved, tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileError, match=r"run/checkpoints: expected a checkpoint, found none"):
        find_checkpoint(run)
    shutil.copytree(saved, run / "checkpoints" / "iteration_000007")
    assert find_checkpoint(run) == run / "checkpoints" / "iteration_000007"
    assert find_checkpoint(saved) == saved and find_checkpoint("nothing") == Path("nothing")
    assert inspect_checkpoint(run).is_valid
