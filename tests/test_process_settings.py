"""Process settings of the user: results have the same bits under any of them, and they are restored."""

import contextlib
import decimal
import functools
import gc
import hashlib
import locale
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager

import matplotlib
import numpy as np
import pytest
import torch
from builders import short_battles
from leagues import policy_of
from patience import STUCK_S
from tensordict import TensorDictBase, lazy_legacy, set_lazy_legacy
from tiny_runs import tiny_run
from torch.overrides import TorchFunctionMode
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type
from torchrl.modules import recurrent_mode, set_recurrent_mode

import echelon
from echelon.env.tasks.task import Protocol, Task
from echelon.learn.callbacks.base import Callback
from echelon.learn.callbacks.signals import SignalHandler
from echelon.learn.trainer import Trainer
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError


@contextmanager
def assigned(read: Callable, write: Callable, value):
    """A setting that is written and read by functions."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


@contextmanager
def working_folder_removed():
    before = os.getcwd()
    gone = f"/tmp/echelon-gone-{os.getpid()}"
    os.mkdir(gone)
    os.chdir(gone)
    os.rmdir(gone)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextmanager
def no_garbage_collection():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def environment(name, value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        yield


class Passing(TorchFunctionMode):
    """A mode that changes nothing, like those of profilers."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def deterministic(value):
    return torch.use_deterministic_algorithms(value)


def default_dtype(dtype):
    return lambda: assigned(torch.get_default_dtype, torch.set_default_dtype, dtype)


def of_dynamo(name, value):
    config = torch._dynamo.config
    return lambda: assigned(lambda: getattr(config, name), lambda new: setattr(config, name, new), value)


SETTINGS = {
    "float64 by default": default_dtype(torch.float64),
    "float16 by default": default_dtype(torch.float16),
    "bfloat16 by default": default_dtype(torch.bfloat16),
    "another device by default": lambda: torch.device("meta"),
    "no gradients": torch.no_grad,
    "inference mode": torch.inference_mode,
    "deterministic algorithms": lambda: assigned(torch.are_deterministic_algorithms_enabled, deterministic, True),
    "cudnn benchmark": lambda: assigned(
        lambda: torch.backends.cudnn.benchmark, lambda new: setattr(torch.backends.cudnn, "benchmark", new), True
    ),
    "two threads": lambda: assigned(torch.get_num_threads, torch.set_num_threads, 2),
    "denormals flushed": lambda: assigned(lambda: False, torch.set_flush_denormal, True),
    "matmul precision": lambda: assigned(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a function mode": Passing,
    "torch's seed": lambda: contextlib.nullcontext(torch.manual_seed(12345)),
    "NumPy's seed": lambda: contextlib.nullcontext(np.random.seed(7)),
    "Python's seed": lambda: contextlib.nullcontext(random.seed(7)),
    "NumPy raises": lambda: np.errstate(all="raise"),
    "NumPy prints": lambda: np.printoptions(precision=1, threshold=2),
    "torch prints": lambda: assigned(
        lambda: torch._tensor_str.PRINT_OPTS.precision, lambda new: torch.set_printoptions(precision=new), 1
    ),
    "warnings are errors": warnings_as_errors,
    "decimal context": lambda: decimal.localcontext(decimal.Context(prec=2, rounding=decimal.ROUND_UP)),
    "no garbage collection": no_garbage_collection,
    "recursion limit": lambda: assigned(sys.getrecursionlimit, sys.setrecursionlimit, 700),
    "a clock that stands still": lambda: assigned(
        lambda: time.perf_counter, lambda new: setattr(time, "perf_counter", new), lambda: 1.0
    ),
    "switch interval": lambda: assigned(sys.getswitchinterval, sys.setswitchinterval, 1e-4),
    "C locale": lambda: assigned(
        lambda: locale.setlocale(locale.LC_ALL), lambda new: locale.setlocale(locale.LC_ALL, new), "C"
    ),
    "removed folder": working_folder_removed,
    "matplotlib": lambda: matplotlib.rc_context({"text.usetex": True, "font.size": 30}),
    "NUMBA_DISABLE_JIT later": lambda: environment("NUMBA_DISABLE_JIT", "1"),
    "OMP_NUM_THREADS": lambda: environment("OMP_NUM_THREADS", "3"),
    "dynamo's limit": of_dynamo("recompile_limit", 1),
    "dynamo's errors": of_dynamo("suppress_errors", True),
    "no exploration": lambda: set_exploration_type(ExplorationType.DETERMINISTIC),
    "recurrent mode": lambda: set_recurrent_mode(True),
    "lazy stacks": lambda: set_lazy_legacy(True),
}


def settings_now():
    """Return the settings that must be restored."""
    with contextlib.suppress(FileNotFoundError):
        os.getcwd()
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "torchrl": (exploration_type(), recurrent_mode(), lazy_legacy()),
        "threads": torch.get_num_threads(),
        "precision": torch.get_float32_matmul_precision(),
        "generators": (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()),
        "errors": (np.geterr(), warnings.filters[:]),
        "prints": (np.get_printoptions()["precision"], torch._tensor_str.PRINT_OPTS.precision),
        "python": (sys.getrecursionlimit(), gc.isenabled(), locale.setlocale(locale.LC_ALL), str(decimal.getcontext())),
        "dynamo": (torch._dynamo.config.recompile_limit, torch._dynamo.config.suppress_errors),
        "environment": dict(os.environ),
        "matplotlib": dict(matplotlib.rcParams),
    }


BATTLES = short_battles(6)
PROTOCOL = Protocol(("heuristic:easy",), 2, seed=9)
TASK = Task("tests/brief-v1", "a few decisions", BATTLES, *current_versions(), protocol=PROTOCOL)


def digest(leaves) -> str:
    """Return a hash of named tensors and their dtypes."""
    found = hashlib.sha256()
    for name, value in sorted((str(name), value) for name, value in leaves):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        found.update(value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def of_rollout(env) -> str:
    """Play three decisions with equal actions."""
    rolled: TensorDictBase = env.reset()
    for number in range(3):
        for key in env.action_keys:
            spec = env.full_action_spec[key]
            rolled.set(key, torch.full(spec.shape, 0.3 - 0.1 * number, dtype=torch.float32, device="cpu"))
        rolled = env.step_and_maybe_reset(rolled)[1]
    return digest(rolled.items(include_nested=True, leaves_only=True))


def environments(folder) -> str:
    """Environments in loops and in the dense form."""
    arguments = (BATTLES, 2, "cpu", 3)
    return of_rollout(echelon.EchelonEnv(*arguments)) + of_rollout(echelon.EchelonEnv(*arguments, backend="eager"))


def views(folder) -> str:
    """Views: a team against a scripted one, each mech as a row, and a team against a network."""
    battles = {"num_envs": 2, "device": "cpu", "seed": 3}
    one = echelon.versus(BATTLES, "heuristic:expert", **battles)
    rows = echelon.mechs(BATTLES, "heuristic:normal", **battles)
    return " ".join(map(of_rollout, (one, rows, echelon.versus(BATTLES, policy(), **battles))))


def evaluation(folder) -> str:
    """Evaluate two battles of a network against a scripted commander."""
    played = echelon.evaluate(policy(), TASK, device="cpu", compiled=False)
    return " ".join(outcome.state_hash for outcome in played.results["heuristic:easy"].outcomes)


@functools.cache
def policy():
    """Return a policy, built once with torch's default settings."""
    return policy_of(5)


def training(folder) -> str:
    """Run one training iteration."""
    trainer = Trainer(tiny_run(total_agent_steps=160), folder)
    trainer.train()
    return digest(trainer.policy.state_dict().items())


WORK = (environments, views, evaluation, training)
BY_SETTING = {"two threads": (views, evaluation, training), "matmul precision": (views,)}
"""Network outputs depend in their last bits on the number of threads. In a view they use the caller's precision of
matrix products."""
QUICK = (
    *("float64 by default", "another device by default", "inference mode", "warnings are errors", "removed folder"),
    "autocast",
)
"""One setting of each kind that once caused a fault; the others take minutes together."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Results with torch's default settings."""
    return {work: work(tmp_path_factory.mktemp("plain") / "run") for work in WORK}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in SETTINGS]
)
def test_results_have_same_bits_and_settings_are_restored(expected, tmp_path, name):
    if name == "removed folder" and sys.version_info[:3] == (3, 13, 0):
        pytest.skip("Python 3.13.0 itself raises SystemError there")
    with SETTINGS[name]():
        for number, work in enumerate(WORK):
            before = settings_now()
            found = work(tmp_path / str(number))
            after = settings_now()
            assert [key for key in before if before[key] != after[key]] == [], work.__name__
            assert found == expected[work] or work in BY_SETTING.get(name, ()), work.__name__


@pytest.mark.long
def test_programs_are_imported_where_warnings_are_errors():
    """In a separate process, because TorchRL warns at its first import."""
    rest = "import echelon.pipelines.train, echelon.pipelines.arena, echelon.__main__"
    program = f"import torch, torchrl.envs, warnings; warnings.simplefilter('error'); {rest}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=STUCK_S)
    assert done.returncode == 0, done.stderr


def test_training_runs_in_a_thread_and_stop_is_refused(tmp_path, expected):
    told = {}

    def work():
        told["bits"] = training(tmp_path / "run")
        try:
            Trainer(tiny_run(), tmp_path / "other", callbacks=[SignalHandler()])
        except ConfigError as error:
            told["error"] = str(error)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    assert told["bits"] == expected[training]
    assert told["error"].startswith("SignalHandler must be entered in the main thread") and "worker" in told["error"]


class Beside(Callback):
    """Train and play at the end of an iteration, in the thread of the training or in another one."""

    def __init__(self, folder, in_thread):
        self.folder, self.in_thread, self.found = folder, in_thread, []

    def on_iteration_end(self, trainer, metrics):
        def work():
            for each in (training, evaluation):
                try:
                    self.found.append(each(self.folder))
                except ConfigError as error:
                    self.found.append(str(error))

        if self.in_thread:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()


@pytest.mark.parametrize("in_thread", [False, True])
def test_work_beside_a_training_has_same_bits_or_is_refused(expected, tmp_path, in_thread):
    """A training in another thread would use the same generator and the same process settings."""
    beside, before = Beside(tmp_path / "beside", in_thread), settings_now()
    trainer = Trainer(tiny_run(total_agent_steps=160), tmp_path / "run", callbacks=[beside])
    trainer.train()
    assert digest(trainer.policy.state_dict().items()) == expected[training] and settings_now() == before
    if in_thread:
        assert len(beside.found) == 2 and not (tmp_path / "beside").exists()
        assert all(told.startswith("another thread of this process trains, 'MainThread'") for told in beside.found)
    else:
        assert beside.found == [expected[training], expected[evaluation]]


def test_evaluations_in_two_threads_wait_for_each_other(expected):
    found, before = [], settings_now()
    together = threading.Barrier(2)

    def work():
        together.wait(STUCK_S)
        found.append(evaluation(None))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected[evaluation]] * 2 and settings_now() == before


@pytest.mark.parametrize("words", [["-c", "import echelon"], ["-m", "echelon", "doctor"]])
def test_start_in_removed_folder_exits_in_one_line(tmp_path, words):
    """torch cannot be imported there: its libraries exit the process."""
    shell = 'cd "$0" && rmdir "$0" && exec "$@"'
    command = ["sh", "-c", shell, str(tmp_path / "gone"), sys.executable, *words]
    (tmp_path / "gone").mkdir()
    done = subprocess.run(command, capture_output=True, text=True, timeout=STUCK_S)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "the current folder was deleted" in last and "Errno" not in done.stderr
    assert words[0] == "-c" or done.stderr.startswith("error: ")


def test_callback_uses_the_generator_of_the_run(tmp_path):
    """It is seeded for each iteration, independent of the user's generator."""
    drawn = []

    class Draws(Callback):
        def on_iteration_end(self, trainer, metrics):
            drawn.append(torch.rand(1).item())

    for seed in (1, 2):
        torch.manual_seed(seed)
        Trainer(tiny_run(total_agent_steps=160), tmp_path / str(seed), callbacks=[Draws()]).train()
    assert drawn[0] == drawn[1]
