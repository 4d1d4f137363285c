"""`benchmarks/gpu.sh`, which a machine with a GPU runs, runs through on a CPU, and tells what went wrong."""

import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import tyro
from patience import STUCK_S

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def programs():
    """The modules `gpu`, `gpu_steps` and `gpu_launches` of the benchmarks."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield [importlib.import_module(name) for name in ("gpu", "gpu_steps", "gpu_launches")]
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.slow
def test_every_step_runs_on_a_cpu(tmp_path):
    out = tmp_path / "cpu.json"
    command = [str(ROOT / "benchmarks" / "gpu.sh"), "--device", "cpu", "--tiny", "--out", str(out)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": str(Path.home()), "COLUMNS": "120"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    named = {"device", "driver", "torch", "torchrl", "tensordict", "python", "echelon", "commit", "date", "seconds"}
    assert named <= set(told) and told["device"].startswith("cpu")
    assert [step["status"] for step in told["steps"]] == ["ok"] * 6
    figures = {figure["figure"]: figure for figure in told["figures"]}
    assert all(figure["command"].startswith("python ") for figure in figures.values())
    unmeasured = {name for name, figure in figures.items() if figure["value"] is None}
    assert {figures[name]["reason"] for name in unmeasured} == {"not measured: no GPU"}
    assert {"kernels a decision of a rollout", "waits while collecting", "waits while updating"} < unmeasured
    measured = ["environment, 4 battles", "with a policy, 4 battles", "arena, 2 battles at once"]
    assert all(figures[name]["value"] > 0 for name in measured)
    assert any(name.startswith("training, 4 battles") for name in set(figures) - unmeasured)
    assert "skipped" in figures["tests that need a GPU"]["value"]
    assert "environment, 4 battles" in done.stdout and "not measured: no GPU" in done.stdout


def test_a_gpu_that_is_not_here_is_told_in_one_line():
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu.py"), "--device", "cuda:99"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 1 and done.stderr.startswith("error: device must be") and done.stderr.count("\n") == 1


def outcome_of(programs, code, limit_s=60.0, left_s=1e3):
    gpu, steps, _ = programs
    return gpu.run_step(steps.Step("made up", ("-c", code), limit_s), left_s)


def test_a_step_that_fails_tells_its_last_lines(programs):
    found = outcome_of(programs, "print('before'); raise ValueError('why')")
    assert (found.status, found.reason) == ("failed", "ValueError: why")
    assert found.last_lines[0] == "before" and found.last_lines[-1] == "ValueError: why"
    (figure,) = programs[0].figures_of(found)
    assert figure["value"] is None and figure["reason"] == "failed: ValueError: why" and figure["command"]


def test_a_step_that_takes_too_long_is_stopped_with_all_it_has_started(programs):
    child = "import time; time.sleep(3600)"
    code = f"import subprocess, sys; print('x', flush=True); subprocess.run([sys.executable, '-c', '{child}'])"
    found = outcome_of(programs, code, limit_s=1.0)
    assert (found.status, found.reason) == ("skipped", "stopped after 1 s")
    assert outcome_of(programs, "print()", left_s=1.0).reason == "no time was left for it"


@pytest.mark.parametrize(
    "said", ["torch.OutOfMemoryError: CUDA out of memory. Tried to", "32,768 battles need 99 GB: fewer num_envs"]
)
def test_what_does_not_fit_into_memory_says_so(programs, said):
    found = outcome_of(programs, f"raise SystemExit({said!r})")
    assert (found.status, found.reason) == ("does not fit into memory", said)


def test_figures_carry_what_the_programs_print(programs):
    line = {"benchmark": "env", "num_envs": 8192, "agent_steps_per_s": 10**7, "first_decision_s": 40.5}
    found = outcome_of(programs, f"import json; print('noise'); print(json.dumps({line!r}))")
    speed, first, memory = programs[0].figures_of(found)
    assert speed["figure"] == "environment, 8,192 battles" and speed["value"] == 10**7
    assert first["value"] == 40.5 and memory["reason"] == "not measured: no GPU"


def test_kernels_and_launches_are_counted_apart(programs):
    events = [
        *({"cat": "kernel", "name": f"triton_{number}"} for number in range(3)),
        {"cat": "gpu_memcpy", "name": "Memcpy DtoD"},
        *({"cat": "cuda_runtime", "name": name} for name in ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync")),
        {"cat": "cuda_driver", "name": "cuLaunchKernel"},
        {"ph": "M", "name": "process_name"},
    ]
    assert programs[2].count_launches(events) == {"kernels": 3, "launches": 3}


def test_waits_are_counted_by_place(programs):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)
        warnings.warn("Synchronization debug mode does not yet detect all synchronizing operations", stacklevel=1)
    ((place, count),) = programs[2].count_waits(told).items()
    assert place.startswith("test_gpu_benchmarks.py:") and count == 2


def arguments_of(path):
    """The settings of a benchmark, which is imported under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Args


@pytest.mark.parametrize("tiny", [False, True])
def test_every_step_is_a_command_that_its_program_takes(programs, tiny):
    tests, *steps = programs[1].steps_of("cuda:1", tiny)
    assert tests.words[:4] == ("-m", "pytest", "-m", "gpu")
    for step in steps:
        program, *words = step.words
        assert tyro.cli(arguments_of(ROOT / program), args=words).device == "cuda:1"
    if not tiny:
        assert {f"env {battles}" for battles in programs[1].MANY} <= {step.name for step in steps}
