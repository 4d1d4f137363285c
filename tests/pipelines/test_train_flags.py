"""Flags of `train.py` and their resolution for the device."""

import dataclasses
import importlib.util
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
import torchrl.objectives.value
from tiny_runs import tiny_run

from echelon.learn import device_defaults
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import METADATA, open_checkpoint
from echelon.learn.config import CurriculumConfig, EvalConfig, TrainConfig
from echelon.learn.models.registry import kind_of
from echelon.learn.ppo import advantage
from echelon.learn.schedules import Schedule
from echelon.learn.train_flags import read_config, resolve_config, resume_command
from echelon.learn.trainer import Trainer
from echelon.pipelines import train as program
from echelon.runtime.command_line import program_words
from echelon.runtime.distributed import ALONE, Ranks
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.runtime.terminal import terminal

GPU = torch.device("cuda:0")


@pytest.mark.parametrize(
    ("found", "python", "script"),
    [
        (None, ".venv/bin/python3", ".venv/bin/echelon-train"),
        ("/usr/bin", ".venv/bin/python3", ".venv/bin/echelon-train"),
        ("{tmp}/.venv/bin", "python3", "echelon-train"),
    ],
)
def test_printed_command_names_this_program(tmp_path, monkeypatch, found, python, script):
    """Another program of the same name may be on the search path."""
    own = tmp_path / ".venv/bin"
    monkeypatch.setattr(sys, "executable", str(own / "python3"))
    monkeypatch.setattr(shutil, "which", lambda name: None if found is None else f"{found.format(tmp=tmp_path)}/{name}")
    monkeypatch.chdir(tmp_path)
    assert program_words("pipelines/train.py") == [python, "pipelines/train.py"]
    assert program_words(str(own / "echelon-train")) == [script]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.chdir("/")
    assert program_words("pipelines/train.py")[0].endswith(f"{own}/python3"[1:])


def test_preset_sets_model_unless_flag_does():
    recurrent = read_config(["--preset", "quick-gru"])
    assert recurrent == read_config(["--preset", "quick", "--model", "gru"])
    assert kind_of(recurrent.model) == "gru" and recurrent.model.hidden == TrainConfig.quick().model.hidden
    assert kind_of(read_config(["--preset", "quick-gru", "--model", "lstm"]).model) == "lstm"


def test_gpu_settings_are_printed_in_one_line(monkeypatch):
    for name in ("free_memory", "total_memory"):
        monkeypatch.setattr(device_defaults, name, lambda device: 16 * 2**30)
    monkeypatch.setattr(device_defaults, "resolve_precision", lambda name, device: torch.bfloat16)
    monkeypatch.setattr("echelon.runtime.device.compiling_lacks", lambda device: [])
    said = io.StringIO()
    config = resolve_config(read_config(["--preset", "standard"]), GPU, None, ALONE, terminal(file=said))
    assert config.num_envs == 1024
    (line,) = said.getvalue().splitlines()
    assert line.startswith("cuda:0: 1,024 battles (") and line.endswith(
        " of 16.0 GiB), bf16, simulation compiled, acting and learning compiled, CUDA graphs"
    )
    own = read_config(["--preset", "standard", "--num-envs", "64", "--precision", "fp32", "--compile-policy", "off"])
    config = resolve_config(own, GPU, None, ALONE, terminal(file=said))
    assert (config.num_envs, config.precision, config.compile_policy) == (64, "fp32", "off")
    assert said.getvalue().splitlines()[1].endswith(" fp32, simulation compiled, networks not compiled, CUDA graphs")


def test_cpu_prints_no_gpu_settings(monkeypatch):
    said = io.StringIO()
    config = resolve_config(read_config(["--preset", "large"]), torch.device("cpu"), None, ALONE, terminal(file=said))
    assert (config.num_envs, config.compile_policy, said.getvalue()) == (256, "off", "")


def test_resume_command_repeats_torchrun_launch(monkeypatch):
    words = ["pipelines/train.py", "--resume", "latest", "--run-dir", "runs/old", "--seed", "3"]
    rest = " pipelines/train.py --seed 3 --run-dir runs/new --resume latest"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "1")
    assert resume_command(words, Path("runs/new"), Ranks(0, 8)) == f"torchrun --nproc-per-node 8{rest}"
    for name, value in {"GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "first", "TORCHELASTIC_RUN_ID": "job 7"}.items():
        monkeypatch.setenv(name, value)
    meeting = "--rdzv-backend c10d --rdzv-endpoint first --rdzv-id 'job 7'"
    expected = f"torchrun --nnodes 2 --nproc-per-node 8 {meeting}{rest}"
    assert resume_command(words, Path("runs/new"), Ranks(0, 16)) == expected


def saved_run(folder: Path, **changes: object) -> TrainConfig:
    """Save a tiny run of seed 3 before its first iteration; return its config."""
    rate = dataclasses.replace(tiny_run().ppo, learning_rate=Schedule(5e-4, 1e-4))
    trainer = Trainer(tiny_run(**{"seed": 3, "ppo": rate, "past_kept": 5, **changes}), folder)
    trainer.save()
    return trainer.config


def test_resume_without_flags_keeps_every_setting_of_the_run(tmp_path):
    run = saved_run(tmp_path)
    flags = ["--preset", "quick", "--run-dir", str(tmp_path), "--device", "cpu", "--resume", "latest"]
    flags += ["--env.map-pool", "2"]
    kept = read_config(flags)
    expected = dataclasses.replace(run, run_dir=str(tmp_path), resume="latest", precision="auto")
    assert kept == dataclasses.replace(expected, compile_policy="auto", cuda_graphs="auto")
    changed = read_config([*flags, "--seed", "4", "--ppo.learning_rate.last", "1e-5"])
    rate = Schedule(5e-4, 1e-5)
    assert changed == dataclasses.replace(kept, seed=4, ppo=dataclasses.replace(kept.ppo, learning_rate=rate))


def test_resume_ignores_code_names_in_checkpoint(tmp_path):
    saved_run(tmp_path)
    path = newest_checkpoint(tmp_path / "checkpoints") / METADATA
    metadata = json.loads(path.read_text())
    code, tiers = "module_of_mine:Pacer", CurriculumConfig().opponents
    metadata["settings"] |= {"opponent": code, "callbacks": [code], "extra_rewards": [f"{code}=0.5"]}
    metadata["settings"]["curriculum"]["opponents"] = metadata["settings"]["evaluation"]["tiers"] = ["easy", code]
    path.write_text(json.dumps(metadata))
    config = read_config(["--run-dir", str(tmp_path), "--resume", "latest"])
    assert (config.opponent, config.callbacks, config.extra_rewards) == ("curriculum", (), ())
    assert (config.curriculum.opponents, config.evaluation.tiers) == (tiers, EvalConfig().tiers)
    assert config.seed == 3
    given = read_config(["--run-dir", str(tmp_path), "--resume", "latest", "--opponent", code])
    assert given.opponent == code


def test_resume_with_preset_of_other_battles_raises(tmp_path):
    saved_run(tmp_path)
    said = r"--preset must be .* preset of the resumed run \(5v5 on .*, lstm\), got 'large \(10v10 on"
    with pytest.raises(ConfigError, match=said):
        read_config(["--preset", "large", "--run-dir", str(tmp_path), "--resume=latest"])
    with pytest.raises(ConfigError, match=r"--preset must be left out.*got 'quick-gru \(5v5 on .*, gru\)'"):
        read_config(["--preset", "quick-gru", "--run-dir", str(tmp_path), "--resume=latest"])
    assert read_config(["--preset", "quick", "--run-dir", str(tmp_path), "--resume=latest"]).env == tiny_run().env


def test_unknown_stored_setting_is_named(tmp_path):
    saved_run(tmp_path)
    path = newest_checkpoint(tmp_path / "checkpoints") / METADATA
    metadata = json.loads(path.read_text())
    metadata["settings"]["weather"] = 1
    path.write_text(json.dumps(metadata))
    with pytest.raises(FileError, match=r"checkpoint.json: settings.weather must be absent"):
        read_config(["--run-dir", str(tmp_path), "--resume", "latest"])
    assert open_checkpoint(path.parent).metadata["settings"]["weather"] == 1


def test_older_torchrl_supports_all_but_training(monkeypatch, tmp_path):
    """Programs that do not train import this module too; TorchRL below 0.14 has no `MultiAgentGAE`."""
    monkeypatch.delattr(torchrl.objectives.value, "MultiAgentGAE")
    spec = importlib.util.spec_from_file_location("with_older_torchrl", advantage.__file__)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    assert not older.CAN_TRAIN and advantage.CAN_TRAIN
    assert advantage.check_torchrl() == "TorchRL is recent enough for training"
    monkeypatch.setattr(advantage, "CAN_TRAIN", False)
    monkeypatch.setattr(advantage, "version_of", lambda package: "0.11.1")
    said = r"^training needs TorchRL 0\.14 or later, got 0\.11\.1: pip install 'torchrl>=0\.14,<0\.15'$"
    for train in (
        lambda: Trainer(tiny_run(), tmp_path / "run"),
        lambda: program.train(tiny_run(run_dir=str(tmp_path / "run")), ALONE, SignalHandler()),
        lambda: advantage.NormalizedGAE(gamma=0.9, lmbda=0.9),
    ):
        with pytest.raises(ConfigError, match=said):
            train()
    assert not (tmp_path / "run").exists()
