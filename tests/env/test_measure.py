"""The measurement of loops on a device: it is stored, and `auto` uses it on a GPU."""

import dataclasses
import json

import pytest
import torch

from echelon.env import form, measure, measurement, rehearsal
from echelon.env.form import form_of
from echelon.env.loops.play import Loops
from echelon.env.measurement import Measurement, load_measurement, machine_of, measurement_file, save_measurement
from echelon.pipelines.commands import Doctor
from echelon.rules.config import EnvConfig
from echelon.runtime import device, jit

GPU, CPU = torch.device("cuda"), torch.device("cpu")
FASTER = Measurement(other="graph", is_equal=True, loops_per_s=2e6, other_per_s=1e6)
loops = pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The folder of measurements."""
    monkeypatch.setattr(measurement, "cache_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def gpu(monkeypatch):
    """Simulate the properties of a GPU with loops."""
    monkeypatch.setattr(measurement, "processor_name", lambda device: "A GPU")
    monkeypatch.setattr(form, "has_device_loops", lambda: True)
    monkeypatch.setattr(device, "compiling_lacks", lambda device: [])


@pytest.fixture
def short(monkeypatch):
    """Use few battles of few mechs."""
    config = dataclasses.replace(EnvConfig.small(), map_pool=1, blue=("medium", "scout"), red=("heavy", "light"))
    monkeypatch.setattr(EnvConfig, "small", lambda: config)
    for name, value in (("BATTLES", 4), ("ROUNDS", 1), ("DECISIONS", 3)):
        monkeypatch.setattr(measure, name, value)
    monkeypatch.setattr(rehearsal, "DECISIONS", 3)


@loops
def test_doctor_measures_and_stores_the_result(short, capsys):
    Doctor(device="cpu", measure=True).run()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("measured ")]
    result = load_measurement(CPU)
    assert result.is_equal and result.other == "eager" and result.loops_per_s > 0 < result.other_per_s
    assert line.endswith(result.line) and "agent-steps/s, the bits of the dense form; eager " in line


@loops
def test_unequal_loops_are_not_preferred(short, monkeypatch):
    decide = Loops.decide

    def fault(*arguments):
        result = decide(*arguments)
        mechs = result.state.mechs.replace(heat=-result.state.mechs.heat * -1.0000001)
        return dataclasses.replace(result, state=result.state.replace(mechs=mechs))

    monkeypatch.setattr(Loops, "decide", fault)
    result = measure.measure(CPU)
    assert not result.is_equal and "OTHER BITS" in result.line
    assert not dataclasses.replace(result, loops_per_s=1e9).prefers_loops


@loops
def test_failed_measurement_deletes_the_old_result(short, monkeypatch):
    save_measurement(CPU, FASTER)

    def fault(*arguments):
        raise RuntimeError("no loops today")

    monkeypatch.setattr(Loops, "decide", fault)
    with pytest.raises(RuntimeError):
        measure.measure(CPU)
    assert load_measurement(CPU) is None


def test_auto_selects_gpu_loops_only_if_equal_and_faster(gpu, monkeypatch):
    assert (form_of(GPU), form_of(GPU, "loops")) == ("graph", "loops")
    for changes, expected in (({}, "loops"), ({"is_equal": False}, "graph"), ({"other_per_s": 2e6}, "graph")):
        save_measurement(GPU, dataclasses.replace(FASTER, **changes))
        assert (form_of(GPU), form_of(GPU, "graph"), form_of(GPU, "eager")) == (expected, "graph", "eager")
    save_measurement(GPU, FASTER)
    monkeypatch.setattr(form, "has_device_loops", lambda: False)
    assert form_of(GPU) == "graph"


def test_cpu_needs_no_measurement(monkeypatch):
    monkeypatch.setattr(form, "load_measurement", lambda device: pytest.fail("asked"))
    assert form_of(CPU) == ("loops" if jit.HAS_LOOPS else "eager")


@pytest.mark.parametrize("what", ["processor_name", "version_of", "sources"])
def test_measurement_is_valid_for_one_machine_versions_and_sources(gpu, monkeypatch, folder, what):
    save_measurement(GPU, FASTER)
    file = measurement_file(GPU)
    monkeypatch.setattr(measurement, what, lambda *_: "another")
    assert load_measurement(GPU) is None and form_of(GPU) == "graph"
    file.rename(measurement_file(GPU))  # as if the hashes were equal
    assert load_measurement(GPU) is None


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text[:-9], "not valid JSON"),
        (lambda text: text.replace("true", "1"), "is_equal must be true or false, got 1"),
        (lambda text: text.replace('"other_per_s"', '"others_per_s"'), "other_per_s is missing"),
        (lambda text: text.replace("2000000.0", "NaN"), "NaN"),
        (lambda text: text.replace('"graph"', '"loops"'), "other must be one of graph, eager, got 'loops'"),
        (lambda text: "[]", "must be an object, got []"),
    ],
)
def test_damaged_measurement_is_ignored_with_a_warning(gpu, caplog, damage, says):
    save_measurement(GPU, FASTER)
    file = measurement_file(GPU)
    damaged = damage(file.read_text())
    assert damaged != file.read_text()
    file.write_text(damaged)
    assert form_of(GPU) == "graph"
    (line,) = caplog.messages
    assert says in line and str(file) in line and line.endswith("measure again, `echelon doctor --measure`")


def test_measurement_file_names_the_machine(gpu):
    save_measurement(GPU, FASTER)
    stored = json.loads(measurement_file(GPU).read_text())
    assert stored == {**machine_of(GPU), **dataclasses.asdict(FASTER)} and stored["device"] == "cuda A GPU"


def test_without_cache_folder_there_is_no_measurement(gpu, monkeypatch):
    monkeypatch.setattr(measurement, "cache_folder", lambda: None)
    save_measurement(GPU, FASTER)
    assert load_measurement(GPU) is None and form_of(GPU) == "graph"


def test_number_of_timed_battles_fits_gpu_memory(monkeypatch):
    for free, expected in ((10**15, measure.MOST_BATTLES), (10**9, 256), (1, measure.BATTLES)):
        monkeypatch.setattr(measure, "free_memory", lambda device, free=free: free)
        assert measure.battles_to_time(EnvConfig.standard(), GPU) == expected
