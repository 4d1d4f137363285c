"""`benchmarks/gpu_first.py` on a CPU: reports for a correct, wrong or slow device, and for missing packages."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from graphs import SimulatedGraph, dense_forms, simulate
from patience import STUCK_S

from echelon.rules.config import ENV_PRESETS, EnvConfig
from echelon.rules.physics import RulesConfig

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
BRIEF = dataclasses.replace(EnvConfig.small(), rules=RulesConfig(decision_repeat=1))


@pytest.fixture(scope="module")
def first():
    """Import the program as a module."""
    spec = importlib.util.spec_from_file_location("gpu_first", ROOT / "benchmarks" / "gpu_first.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def brief(monkeypatch):
    """Use decisions of one substep."""
    monkeypatch.setattr(EnvConfig, "small", lambda: BRIEF)
    monkeypatch.setitem(ENV_PRESETS, "small", lambda: BRIEF)


def report_of(first, capsys, work, seconds=STUCK_S):
    """Return the line of one step, and whether it counts as failed."""
    journal = first.Journal(None, time.perf_counter() + seconds)
    journal.step("made up", work)
    return json.loads(capsys.readouterr().out), journal.has_failed


def test_wrong_device_is_reported_and_correct_one_is_equal(first, brief, monkeypatch):
    found = first.equal(CPU, 2, 1, 1)
    assert found["unequal_tensors"] == 0 and found["same_bits"].startswith("2 of 2 battles")
    moved = first.Compared.moved

    def wrong(self):
        shown = moved(self)
        self.gpu.state.mechs.pos[0, 0, 0] += 0.5
        return shown

    monkeypatch.setattr(first.Compared, "moved", wrong)
    with pytest.raises(RuntimeError, match="a decision on cpu differs from the CPU's by"):
        first.equal(CPU, 2, 1, 1)


def test_nan_counts_as_largest_difference(first):
    one = {"pos": torch.zeros(3), "alive": torch.ones(3, dtype=torch.bool)}
    assert first.difference(one, {**one, "pos": torch.tensor([0.0, 0.25, 0.0])}) == (0.25, "pos", 1)
    assert first.difference(one, {**one, "pos": torch.tensor([0.0, torch.nan, 0.0])}) == (torch.inf, "pos", 1)
    assert first.difference(one, {**one, "alive": torch.zeros(3, dtype=torch.bool)}) == (torch.inf, "alive", 1)
    assert first.difference(one, one) == (0.0, "", 0)


@pytest.mark.long
def test_captured_decisions_are_compared_with_called_ones(first, brief, monkeypatch):
    with pytest.raises(first.Skipped):
        first.captured(CPU, 2, 4)
    dense_forms(monkeypatch)
    counted = simulate(monkeypatch)
    assert first.captured(CPU, 2, 3)["same_bits"].startswith("2 of 2 battles")
    assert counted.captures == 1 and counted.replays == 1
    monkeypatch.setattr(SimulatedGraph, "replay", lambda self: None)
    with pytest.raises(RuntimeError, match="captured decisions differ from called ones"):
        first.captured(CPU, 2, 3)


def test_failed_capture_of_decisions_is_a_failure(first, brief, monkeypatch, capsys):
    dense_forms(monkeypatch)
    simulate(monkeypatch)
    decide = first.Player.decide
    monkeypatch.setattr(first.Player, "decide", lambda self: (decide(self), self.env.state.tick.sum().item()))
    line, has_failed = report_of(first, capsys, lambda: first.captured(CPU, 2, 3))
    assert line["status"] == "failed" and "fallback: decisions run eagerly" in line["reason"] and has_failed


def test_step_is_reported_when_it_ends(first, tmp_path, capsys):
    journal = first.Journal(tmp_path / "out.jsonl", time.perf_counter() + STUCK_S)
    for number in range(2):
        journal.step(f"step {number}", lambda number=number: {"value": number})
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["value"] for line in lines] == list(range(number + 1)) and not journal.has_failed


def test_timeout_is_late_and_out_of_memory_is_no_failure(first, capsys):
    def raises(error):
        raise error

    line, has_failed = report_of(first, capsys, lambda: time.sleep(3600), seconds=0.2)
    assert line["status"] == "timed out" and has_failed
    line, has_failed = report_of(first, capsys, lambda: {}, seconds=-1)
    assert line["status"] == "timed out" and has_failed
    line, has_failed = report_of(first, capsys, lambda: raises(torch.OutOfMemoryError("CUDA out of memory. Tried")))
    assert line["status"] == "does not fit into memory" and not has_failed
    line, has_failed = report_of(first, capsys, lambda: raises(first.Skipped("no graphs")))
    assert (line["status"], line["reason"], has_failed) == ("skipped", "no graphs", False)


def test_failure_reports_causes_and_place(first, capsys):
    def fails():
        try:
            raise ValueError("the cause\nand more")
        except ValueError:
            raise RuntimeError("previous error during capture") from None

    line, has_failed = report_of(first, capsys, fails)
    assert has_failed and line["reason"] == "RuntimeError: previous error during capture"
    assert line["causes"] == ["ValueError: the cause"] and line["where"][-1].endswith(" fails")


def test_waits_for_the_device_are_counted(first, monkeypatch):
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def run():
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    assert first.waits_of(run) == 3 and modes == ["warn", "default"]


def test_gpu_is_described(first, monkeypatch):
    about = SimpleNamespace(name="a card", major=9, minor=0, total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    found = first.describe(torch.device("cuda:0"))
    assert (found["device"], found["capability"], found["memory_gib"]) == ("a card", "9.0", 80.0)


def test_missing_gpu_is_one_failed_step(first, capsys):
    assert first.main(["--device", "cuda:99"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["step"], line["status"]) for line in lines] == [("imports", "ok"), ("device", "failed")]
    assert "device must be" in lines[1]["reason"]


@pytest.mark.long
def test_echelon_imports_without_command_line_packages():
    code = (
        "import gpu_first, sys\n"
        "find = gpu_first.importlib.util.find_spec\n"
        "hidden = ('tyro', 'rich')\n"
        "gpu_first.importlib.util.find_spec = lambda name, *rest: None if name in hidden else find(name, *rest)\n"
        "assert gpu_first.prepare_imports() == {'done_without': ['tyro', 'rich']}\n"
        "import echelon.learn.trainer, echelon.arena.fingerprint\n"
        "assert sys.modules['tyro'].__class__.__name__ == 'MagicMock'\n"
        "print(echelon.learn.config.TrainConfig.quick().num_envs)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=STUCK_S,
        env={"PYTHONPATH": str(ROOT / "benchmarks")},
    )
    assert done.stdout == "128\n", done.stderr


@pytest.mark.long
def test_each_step_runs_on_a_cpu_with_simulated_graphs(first, monkeypatch, capsys):
    dense_forms(monkeypatch)
    counted = simulate(monkeypatch)
    assert first.main(["--device", "cpu", "--seconds", str(STUCK_S)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["status"] for line in lines] == ["ok"] * 7 and counted.captures >= 3
