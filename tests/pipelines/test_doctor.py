"""`echelon doctor` on working and broken machines."""

import dataclasses

import pytest
import torch
from graphs import dense_forms, simulate

from echelon.pipelines.commands import Doctor
from echelon.reports import doctor
from echelon.reports.doctor import captures, compiles
from echelon.runtime import cuda_graphs, fallback
from echelon.runtime.loop_cache import cache_folder

CPU = torch.device("cpu")


@pytest.fixture
def answers(capsys, monkeypatch):
    """Run the command and return its lines by name."""
    monkeypatch.setattr(fallback, "REASONS", [])

    def ask(**settings) -> dict[str, str]:
        Doctor(device="cpu", **settings).run()
        return {line[: doctor.WIDTH].strip(): line[doctor.WIDTH :] for line in capsys.readouterr().out.splitlines()}

    return ask


def test_doctor_on_working_machine(answers, monkeypatch):
    monkeypatch.setenv("ECHELON_BACKEND", "eager")
    told = answers()
    assert told["torch"].startswith(f"{torch.__version__}, CUDA ") and told["device"].startswith("cpu, ")
    assert told["battles run as"] == "eager" and "ECHELON_BACKEND=eager" in told["variables"]
    assert str(cache_folder()) in told["caches"] and " free of " in told["memory"]
    assert not [line for line in told.values() if line.startswith("fail")]


def test_doctor_on_broken_machine_names_every_cause(answers, monkeypatch):
    dense_forms(monkeypatch)
    monkeypatch.setattr(doctor, "HAS_LOOPS", False)
    monkeypatch.setattr(doctor, "PACKAGES", ("numba_that_is_not_here",))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("ECHELON_BACKEND", "fast")
    fallback.fall_back("a thing runs without another: no reason")
    told = answers()
    assert told["numba"].startswith("not installed: ") and told["packages"].endswith("not installed")
    assert told["compiler"] == "no C++ compiler: torch.compile is off"
    assert told["battles run as"].startswith("fails: ECHELON_BACKEND must be one of auto, ")
    assert told["fell back"] == "a thing runs without another: no reason"
    assert compiles(CPU).startswith("off: ")


def test_doctor_tries_compile_and_capture(monkeypatch):
    monkeypatch.setattr(doctor, "compiling_lacks", lambda device: [])
    monkeypatch.setattr(doctor, "fused", lambda function, device: function)
    assert compiles(CPU).startswith("works (")
    monkeypatch.setattr(doctor, "fused", lambda function, device: lambda values: function(values) + 1)
    assert compiles(CPU) == "fails: the result differs from eager mode"
    counted = simulate(monkeypatch)
    assert captures(CPU) == "work" and counted.captures == 1
    monkeypatch.setattr(counted, "replay", lambda self: None)
    assert captures(CPU) == "fails: a replay differs from a call"
    monkeypatch.setattr(cuda_graphs.GraphedFunction, "_capture", lambda self, key: setattr(self, "is_graphed", False))
    assert captures(CPU) == "fail: see below"
    monkeypatch.setenv("ECHELON_CUDA_GRAPHS", "off")
    assert captures(CPU) == "off: ECHELON_CUDA_GRAPHS=off"


def test_doctor_answers_gpu_questions_without_gpu(monkeypatch):
    """Includes a driver that fails during the command."""
    monkeypatch.setattr(doctor, "compiles", lambda device: "works")
    asked = {name: doctor.answer(ask) for name, ask in doctor.questions(torch.device("cuda", 0), False)}
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert {"driver", "CUDA graphs"} <= asked.keys()
    assert all(asked[name].startswith("fails: ") for name in ("device", "driver", "memory", "CUDA graphs"))


def test_doctor_rehearsal_equals_battle_rehearsal(answers, monkeypatch):
    monkeypatch.setattr(doctor, "compiles", lambda device: "works")
    monkeypatch.setattr(doctor, "EchelonEnv", lambda config, battles, device, seed: (config.title, battles))
    line = dataclasses.make_dataclass("Line", ["line"])
    monkeypatch.setattr(doctor, "rehearse", lambda env, captures: line(f"rehearsed {env}"))
    assert answers(rehearse=True)["rehearsal"] == "rehearsed ('small', 64)"
