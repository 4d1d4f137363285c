"""`benchmarks/gpu.sh` runs to its end on a CPU and reports failures."""

import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import tyro
from patience import STUCK_S
from programs import run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def programs():
    """Import the modules `gpu`, `gpu_steps` and `gpu_launches` of the benchmarks."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield [importlib.import_module(name) for name in ("gpu", "gpu_steps", "gpu_launches")]
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.long
def test_each_step_runs_on_a_cpu(tmp_path):
    out = tmp_path / "cpu.json"
    command = [str(ROOT / "benchmarks" / "gpu.sh"), "--device", "cpu", "--tiny", "--out", str(out)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": str(Path.home()), "COLUMNS": "120"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(out.read_text())
    named = {"device", "driver", "torch", "torchrl", "tensordict", "python", "echelon", "commit", "date", "seconds"}
    assert named <= set(told) and told["device"].startswith("cpu")
    assert [step["status"] for step in told["steps"]] == ["ok"] * 8
    figures = {figure["figure"]: figure for figure in told["figures"]}
    assert all(figure["command"].startswith("python ") for figure in figures.values())
    unmeasured = {name for name, figure in figures.items() if figure["value"] is None}
    assert {figures[name]["reason"] for name in unmeasured} == {"not measured: no GPU"}
    assert {"kernels a decision of a rollout", "waits while collecting", "waits while updating"} < unmeasured
    measured = ["environment, 4 battles", "with a policy, 4 battles", "arena, 2 battles at once"]
    assert all(figures[name]["value"] > 0 for name in measured)
    assert any(name.startswith("training, 4 battles") for name in set(figures) - unmeasured)
    assert "skipped" in figures["tests that need a GPU"]["value"]
    assert "passed" in figures["cases of pytest-benchmark"]["value"]
    assert figures["first contact, equal"]["value"] == "ok"
    assert "environment, 4 battles" in done.stdout and "not measured: no GPU" in done.stdout


@pytest.mark.long
def test_missing_gpu_is_reported_in_one_line():
    done = run("benchmarks/gpu.py", "--device", "cuda:99")
    assert done.returncode == 1 and done.stderr.startswith("error: device must be") and done.stderr.count("\n") == 1


def outcome_of(programs, code, limit_s=STUCK_S):
    gpu, steps, _ = programs
    return gpu.run_step(steps.Step("made up", ("-c", code), limit_s), limit_s)


def test_failed_step_reports_its_last_lines(programs):
    found = outcome_of(programs, "print('before'); raise ValueError('why')")
    assert (found.status, found.reason) == ("failed", "ValueError: why")
    assert found.last_lines[0] == "before" and found.last_lines[-1] == "ValueError: why"
    (figure,) = programs[0].figures_of(found)
    assert figure["value"] is None and figure["reason"] == "failed: ValueError: why" and figure["command"]


def test_slow_step_is_stopped_with_its_children(programs):
    child = "import time; time.sleep(3600)"
    code = f"import subprocess, sys; print('x', flush=True); subprocess.run([sys.executable, '-c', '{child}'])"
    found = outcome_of(programs, code, limit_s=3.0)
    assert (found.status, found.reason) == ("timed out", "stopped after 3 s")


def test_fallback_of_a_step_is_reported(programs):
    code = "import sys; print('fine'); print('fallback: graph: eager, for it differs', file=sys.stderr)"
    found = outcome_of(programs, code)
    assert (found.status, found.reason) == ("fell back", "fallback: graph: eager, for it differs")


@pytest.mark.parametrize(("printed", "status"), [("1 passed in 0.1s", "ok"), ("2 skipped", "ok"), ("", "failed")])
def test_pytest_step_without_tests_fails(programs, printed, status):
    gpu, steps, _ = programs
    found = gpu.run_step(steps.Step("tests", ("-c", f"print({printed!r})"), STUCK_S), STUCK_S)
    assert found.status == status and (status == "ok" or found.reason == "pytest reported no tests")


def run_all(programs, monkeypatch, tmp_path, *codes, limit_s=STUCK_S, minutes=STUCK_S):
    """Run the program with steps of Python code; return its status, and the file after each step."""
    gpu, steps, _ = programs
    made = [steps.Step(f"step {n}", ("-c", code), limit_s) for n, code in enumerate(codes)]
    monkeypatch.setattr(gpu, "steps_of", lambda *args: made)
    out, written = tmp_path / "out.json", []
    write = gpu.write_whole

    def watched(path, content):
        write(path, content)
        written.append(json.loads(out.read_text()))

    monkeypatch.setattr(gpu, "write_whole", watched)
    return gpu.main(gpu.Args(device="cpu", minutes=minutes, out=out)), written


def test_results_are_written_after_each_step(programs, monkeypatch, tmp_path):
    status, written = run_all(programs, monkeypatch, tmp_path, "print()", "print()")
    assert status == 0 and [len(each["steps"]) for each in written] == [1, 2]


@pytest.mark.parametrize("code", ["1 / 0", "print('fallback: eager')", "raise SystemExit('out of memory')"])
def test_status_is_1_if_a_step_did_not_finish(programs, monkeypatch, tmp_path, code):
    status, written = run_all(programs, monkeypatch, tmp_path, code, "print()")
    assert status == 1 and [step["status"] == "ok" for step in written[-1]["steps"]] == [False, True]


def test_unused_time_of_a_step_is_added_to_the_next(programs, monkeypatch, tmp_path):
    limits = []
    gpu = programs[0]

    def run_step(step, limit_s):
        limits.append(limit_s)
        return gpu.Outcome(step.name, "", "ok")

    monkeypatch.setattr(gpu, "run_step", run_step)
    monkeypatch.setattr(gpu, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    run_all(programs, monkeypatch, tmp_path, "", "", limit_s=20, minutes=3)
    assert limits == [160, 180], "each step is given 20 s, and all of them three minutes"


@pytest.mark.long
def test_missing_package_is_reported_in_one_line(tmp_path):
    (tmp_path / "tyro.py").write_text("raise ModuleNotFoundError('no tyro here')\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gpu_imports.py"), "--help"],
        capture_output=True,
        text=True,
        timeout=STUCK_S,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "cannot import tyro (no tyro here)" in done.stderr and "gpu_first.py" in done.stderr


@pytest.mark.parametrize(
    "said", ["torch.OutOfMemoryError: CUDA out of memory. Tried to", "32,768 battles need 99 GB: fewer num_envs"]
)
def test_out_of_memory_is_reported(programs, said):
    found = outcome_of(programs, f"raise SystemExit({said!r})")
    assert (found.status, found.reason) == ("does not fit into memory", said)


def test_figures_contain_program_output(programs):
    line = {"benchmark": "env", "num_envs": 8192, "agent_steps_per_s": 10**7, "first_decision_s": 40.5}
    found = outcome_of(programs, f"import json; print('noise'); print(json.dumps({line!r}))")
    speed, first, memory = programs[0].figures_of(found)
    assert speed["figure"] == "environment, 8,192 battles" and speed["value"] == 10**7
    assert first["value"] == 40.5 and memory["reason"] == "not measured: no GPU"


def test_kernels_and_launches_are_counted_separately(programs):
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
    """Return the settings class of a benchmark, imported under a unique name."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Args


@pytest.mark.parametrize(("tiny", "minutes"), [(False, 3), (False, 10), (False, 30), (True, 10)])
def test_each_step_is_a_valid_command(programs, tiny, minutes):
    first, *steps = programs[1].steps_of("cuda:1", tiny, minutes)
    assert first.words[0] == "benchmarks/gpu_first.py" and first.words[-2:] == ("--device", "cuda:1")
    for step in steps:
        program, *words = step.words
        if program != "-m":
            assert tyro.cli(arguments_of(ROOT / program), args=words).device == "cuda:1"
    if not tiny:
        spent = sum(step.limit_s for step in (first, *steps))
        assert 0 <= 60 * minutes - spent - programs[1].RESERVE_S < 20
    if minutes == 30 or tiny:
        assert {"train", "tests", "arena", "launches", "rollout", "cases"} <= {step.name for step in steps}
