"""Open settings, resolved for a device with fake memory."""

import dataclasses
import subprocess
import sys

import pytest
import torch
from tiny_runs import run_to_the_end, tiny_run

from echelon.learn import device_defaults
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import CPU_BATTLES, PPOConfig, TrainConfig
from echelon.learn.device_defaults import describe_settings, fitting_battles, resolve_settings, stored_settings
from echelon.learn.footprint import (
    footprint_of_learning,
    memory_explained,
    require_training_memory,
    resident_bytes,
    training_bytes,
)
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.trainer import Trainer
from echelon.runtime.cuda_graphs import GraphedFunction
from echelon.runtime.distributed import Ranks
from echelon.runtime.errors import ConfigError

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
STANDARD = dataclasses.replace(
    TrainConfig.standard(), precision="bf16", compile_policy="all", cuda_graphs="on", device="cuda:0"
)
GIB = 2**30


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with 78 GiB free memory and native bf16."""
    monkeypatch.setattr(device_defaults, "free_memory", lambda device: 78 * GIB)
    monkeypatch.setattr(device_defaults, "total_memory", lambda device: 78 * GIB)
    monkeypatch.setattr(device_defaults, "resolve_precision", lambda name, device: torch.bfloat16)
    monkeypatch.setattr("echelon.runtime.device.compiling_lacks", lambda device: [])


def test_cpu_defaults_are_unchanged():
    for preset, battles in ((TrainConfig.quick, 128), (TrainConfig.standard, 256), (TrainConfig.large, 256)):
        config = resolve_settings(dataclasses.replace(preset(), precision="fp32"), CPU)
        assert (config.num_envs, config.compile_policy, config.device) == (battles, "off", "cpu")
        assert resolve_settings(config, CPU) is config, "resolved settings are unchanged"


def test_gpu_defaults_compile_everything_in_bf16(gpu):
    config = resolve_settings(TrainConfig.standard(), GPU)
    chosen = {"num_envs": 1024, "precision": "bf16", "compile_policy": "all", "cuda_graphs": "on", "device": "cuda:0"}
    assert config == dataclasses.replace(TrainConfig.standard(), **chosen)
    said = describe_settings(config, GPU)
    assert said.startswith("cuda:0: 1,024 battles (") and " of 78.0 GiB), bf16, simulation compiled, acting and" in said
    assert said.endswith(", CUDA graphs")
    assert "graphs" not in describe_settings(dataclasses.replace(config, cuda_graphs="off"), GPU)
    assert resolve_settings(TrainConfig.quick(), GPU).num_envs == 128, "a preset sets the number"


def test_custom_model_is_compiled_only_on_request(gpu):
    @dataclasses.dataclass(frozen=True)
    class Own(LSTMConfig):
        """Not a built-in kind."""

    own = dataclasses.replace(TrainConfig.standard(), model=Own())
    assert resolve_settings(own, GPU).compile_policy == resolve_settings(own, GPU).cuda_graphs == "off"
    assert resolve_settings(dataclasses.replace(own, cuda_graphs="on"), GPU).cuda_graphs == "on"
    assert resolve_settings(dataclasses.replace(own, compile_policy="all"), GPU).compile_policy == "all"


def test_environment_variable_disables_cuda_graphs(gpu, monkeypatch):
    monkeypatch.setenv("ECHELON_CUDA_GRAPHS", "off")
    for wanted in ("auto", "on", "off"):
        config = dataclasses.replace(TrainConfig.standard(), cuda_graphs=wanted)
        assert resolve_settings(config, GPU).cuda_graphs == "off"
    assert not GraphedFunction(lambda: None, GPU, "nothing").is_graphed
    monkeypatch.setenv("ECHELON_CUDA_GRAPHS", "no")
    with pytest.raises(ConfigError, match=r"^ECHELON_CUDA_GRAPHS must be one of on, off, got 'no'$"):
        resolve_settings(TrainConfig.standard(), GPU)


def test_user_settings_override_defaults(gpu):
    own = {"num_envs": 64, "precision": "fp32", "compile_policy": "act", "cuda_graphs": "off", "device": "cuda"}
    config = dataclasses.replace(TrainConfig.standard(), **own)
    assert resolve_settings(config, GPU) is config


@pytest.mark.parametrize(("free", "battles"), [(10**9, 1024), (10**8, 512), (5 * 10**5, 4)])
def test_largest_fitting_number_of_battles_is_chosen(free, battles):
    config = dataclasses.replace(STANDARD, ppo=PPOConfig(minibatches=1))
    assert fitting_battles(config, free, lambda one: one.num_envs * 10**5).num_envs == battles


def test_shares_and_minibatches_divide_the_battles():
    def fit(**changes):
        return fitting_battles(dataclasses.replace(STANDARD, **changes), 10**6, lambda one: one.num_envs * 10**4)

    assert fit().num_envs == 64
    # A quarter of 64 battles is one per side for each of 8 blocks; 32 blocks would have none.
    assert fit(snapshot_opponent_share=0.25, past_blocks=8).num_envs == 64
    with pytest.raises(ConfigError, match=r"256 battles of standard.* need about 2.56 MB, cuda:0 has 1 MB free"):
        fit(snapshot_opponent_share=0.25, past_blocks=32)
    with pytest.raises(ConfigError, match=r"snapshot_opponent_share must be a share of num_envs \(256\)"):
        dataclasses.replace(STANDARD, snapshot_opponent_share=0.3)
    with pytest.raises(ConfigError, match=r"minibatches"):
        dataclasses.replace(STANDARD, ppo=PPOConfig(minibatches=CPU_BATTLES * 4))


def test_the_gpu_with_the_least_memory_decides(gpu):
    class Least(Ranks):
        def max(self, value):
            return max(value, -1.5 * GIB)  # another process has 1.5 GiB

    alone, together = (resolve_settings(TrainConfig.standard(), GPU, ranks=ranks) for ranks in (Ranks(), Least(1, 2)))
    assert alone.num_envs == 1024 and 64 <= together.num_envs <= 512


def test_default_battles_fit_gpus_of_any_size(monkeypatch):
    from echelon.env import footprint as env_footprint
    from echelon.learn import footprint

    for gib in (2, 4, 8, 16, 80):
        for module in (footprint, env_footprint):
            monkeypatch.setattr(module, "total_memory", lambda device, gib=gib: gib * GIB)
        for changes in ({}, {"opponent": "self"}, {"snapshot_opponent_share": 0.5}, {"precision": "fp32"}):
            config = dataclasses.replace(STANDARD, **changes)
            chosen = fitting_battles(config, gib * GIB, lambda one: training_bytes(one, GPU))
            assert resident_bytes(chosen, GPU) < training_bytes(chosen, GPU) < gib * GIB
            require_training_memory(chosen, chosen.env, GPU)
    huge = dataclasses.replace(STANDARD, num_envs=2**17)
    with pytest.raises(ConfigError, match=r"rollouts of 32 decisions need about .* GB, cuda:0 has 85.9 GB: fewer"):
        require_training_memory(huge, huge.env, GPU)


def test_captured_graphs_add_their_memory():
    captured, called = (dataclasses.replace(STANDARD, num_envs=8192, cuda_graphs=each) for each in ("on", "off"))
    each = footprint_of_learning(captured)
    acting = 8192 * (each.row + each.activations)
    assert training_bytes(captured, GPU) - training_bytes(called, GPU) == pytest.approx(acting, abs=1)
    card = int(22.0 * GIB)  # free memory of a 24 GB card that also drives a desktop
    four, eight = (training_bytes(dataclasses.replace(STANDARD, num_envs=each), GPU) for each in (4096, 8192))
    assert four <= (1 - device_defaults.SPARE) * card < eight


OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.2 GiB is free."
)


def test_out_of_memory_message_names_settings_to_lower(monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 77 * 10**9)
    config = dataclasses.replace(STANDARD, num_envs=8192, snapshot_opponent_share=0.5)
    with pytest.raises(ConfigError) as told, memory_explained(config, GPU):
        raise torch.OutOfMemoryError(OUT_OF_MEMORY)
    said = str(told.value)
    assert said.startswith("cuda:0: CUDA out of memory. Tried to allocate 2.00 GiB (") and "torch had 77 GB): " in said
    assert said.endswith(
        "lower --num-envs (8192) or --past-slots (2), or raise --ppo.minibatches (8) or --ppo.accumulate (1)"
    )
    assert "\n" not in said


def test_out_of_memory_on_cpu_raises_one_line():
    with (
        pytest.raises(ConfigError, match=r"^cpu: .*lower --num-envs \(4\), or raise"),
        memory_explained(tiny_run(), CPU),
    ):
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="another"), memory_explained(tiny_run(), CPU):
        raise RuntimeError("another")


def test_resumed_run_keeps_stored_settings_for_open_flags(tmp_path):
    run_to_the_end(Trainer(tiny_run(), tmp_path))
    start = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    stored = start.metadata["settings"]
    told = {name: stored[name] for name in ("num_envs", "precision", "compile_policy", "device")}
    assert told["num_envs"] == 4 and told["compile_policy"] == "off" and told["device"] == "cpu"
    assert told["precision"] in ("fp32", "bf16"), "resolved"
    again = Trainer(tiny_run(num_envs=0, total_agent_steps=640), tmp_path, start)
    assert again.config.num_envs == 4 and again.resume_note == ""
    assert resolve_settings(tiny_run(num_envs=8), CPU, start).num_envs == 8


def test_moved_run_keeps_battles_but_not_precision():
    stored = {"num_envs": 64, "precision": "bf16", "compile_policy": "all", "cuda_graphs": "off", "device": "cuda:1"}
    config = TrainConfig.standard()
    assert stored_settings(config, GPU, stored) == {k: v for k, v in stored.items() if k != "device"}
    assert stored_settings(config, CPU, stored) == {"num_envs": 64}
    assert stored_settings(STANDARD, GPU, stored) == {"num_envs": 64}
    # Files of earlier versions do not contain the device.
    old = {"num_envs": 4096, "precision": "auto", "compile_policy": "off", "device": "auto"}
    assert stored_settings(config, GPU, old) == {"num_envs": 4096, "precision": "auto", "compile_policy": "off"}
    assert stored_settings(config, GPU, {}) == {} and stored_settings(config, CPU, {**old, "num_envs": 8}) == {
        "num_envs": 8
    }
    assert stored_settings(config, GPU, {**stored, "device": "cpu"}) == {"num_envs": 64}


def test_counting_bytes_draws_no_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    footprint_of_learning(dataclasses.replace(STANDARD, env=TrainConfig.quick().env, precision="fp32"))
    assert torch.equal(torch.rand(1), expected)


PEAK = """
import dataclasses, os, pathlib, resource, sys, tempfile, torch
from echelon.learn.config import PPOConfig, TrainConfig
from echelon.learn.footprint import training_bytes
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.trainer import Trainer

def peak(config):
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(config, pathlib.Path(folder))
        trainer.iterate()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

quick = TrainConfig.quick()
ppo = PPOConfig(minibatches=2, accumulate=1, epochs=1)
run = dataclasses.replace(quick, precision=sys.argv[1], opponent=sys.argv[2], ppo=ppo, device="cpu", num_envs=4)
run = dataclasses.replace(run, env=dataclasses.replace(quick.env, map_pool=1))
many = dataclasses.replace(run, num_envs=768)
if os.fork() == 0:  # what is compiled on the way is none of it
    peak(run)
    os._exit(0)
os.wait()
before = peak(run)
print((peak(many) - before) / training_bytes(many, torch.device("cpu")))
"""


@pytest.mark.long
@pytest.mark.parametrize("opponent", ["heuristic:easy", "self"])
def test_memory_estimate_bounds_measured_memory(opponent):
    """The measured memory is at most the estimate, and at least a third: memory freed earlier may be reused."""
    done = subprocess.run([sys.executable, "-c", PEAK, "fp32", opponent], capture_output=True, text=True, check=True)
    assert 1 / 3 < float(done.stdout.split()[-1]) < 1, done.stdout
