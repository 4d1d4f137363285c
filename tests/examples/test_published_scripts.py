"""TorchRL's published multi-agent programs train on Echelon after replacing the line that creates their environment.

`TORCHRL_SOURCES` names a checkout of TorchRL at the installed version; without it these tests are skipped.
Only the environment and the size variables of a program change.
"""

import ast
import csv
import difflib
import importlib
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
from patience import STUCK_S

"""Time limit of a program."""
FLOAT = r"(-?[\d.]+(?:e-?\d+)?|nan|inf)"


@pytest.fixture
def sources():
    """Return the checkout in `TORCHRL_SOURCES`."""
    named = os.environ.get("TORCHRL_SOURCES")
    if named is None:
        pytest.skip("TORCHRL_SOURCES names no checkout of TorchRL")
    return Path(named)


def needs(*modules):
    """Skip unless the imports of the program work; a video encoder may lack its libraries."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            pytest.skip(f"the program imports {module}, which cannot be imported: {error!r:.200}")


def made_in(source):
    """Return the text of every `name = VmasEnv(...)` of a program, keyed by name."""
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "VmasEnv"
    ]
    return {ast.unparse(node.targets[0]): ast.get_source_segment(source, node) for node in found}


def replaced(source, old, new):
    """Return `source` with its only `old` replaced by `new`, indented like the line of `old`."""
    assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
    start = source.index(old)
    margin = re.match(r"[ ]*", source[source.rfind("\n", 0, start) + 1 :])[0]
    return source.replace(old, textwrap.indent(new.strip(), margin)[len(margin) :])


def adapted(source, environments: Mapping[str, str], sizes: Mapping[str, str]):
    """Return the program with replaced environments (name -> call) and sizes (text -> text); print the diff."""
    changed, made = source, made_in(source)
    assert set(made) == set(environments)
    for name, call in environments.items():
        changed = replaced(changed, made[name], f"import builders, echelon\n{name} = {call}")
    for old, new in sizes.items():
        changed = replaced(changed, old, new)
    print("\n".join(difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")))
    return changed


def run(program, folder, *arguments):
    """Run a program in `folder` and return its output; a failure fails the test."""
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join(filter(None, (str(tests.parent), str(tests), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STUCK_S,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def last(pattern, text):
    """Return the last number that matches `pattern` in `text`."""
    return float(re.findall(pattern + FLOAT, text)[-1])


def test_torchrl_multi_agent_ppo_tutorial_runs(sources, tmp_path):
    needs("tqdm", "matplotlib")
    source = (sources / "tutorials/sphinx-tutorials/multiagent_ppo.py").read_text()
    call = "echelon.versus(builders.short_battles(max_steps), num_envs=num_vmas_envs, device=vmas_device, seed=0)"
    sizes = {
        "frames_per_batch = 6_000": "frames_per_batch = 48",
        "n_iters = 5": "n_iters = 2",
        "num_epochs = 30": "num_epochs = 2",
        "minibatch_size = 400": "minibatch_size = 16",
        "max_steps = 100": "max_steps = 8",
    }
    program = tmp_path / "program.py"
    program.write_text(adapted(source, {"env": call}, sizes))
    output = run(program, tmp_path)
    assert "2/2" in output
    paid = last("episode_reward_mean = ", output)
    assert math.isfinite(paid) and paid != 0


def test_torchrl_competitive_ddpg_tutorial_runs(sources, tmp_path):
    needs("tqdm", "matplotlib", "torchcodec.encoders")
    source = (sources / "tutorials/sphinx-tutorials/multiagent_competitive_ddpg.py").read_text()
    groups = "groups=('adversary', 'agent')"
    call = (
        f"echelon.teams(builders.short_battles(max_steps), num_envs=num_vmas_envs, device=device, seed=seed, {groups})"
    )
    sizes = {
        "frames_per_batch = 1_000": "frames_per_batch = 48",
        "n_iters = 10": "n_iters = 2",
        "memory_size = 1_000_000": "memory_size = 200",
        "n_optimiser_steps = 100": "n_optimiser_steps = 2",
        "train_batch_size = 128": "train_batch_size = 16",
        "max_steps = 100": "max_steps = 8",
    }
    program = tmp_path / "program.py"
    program.write_text(adapted(source, {"base_env": call}, sizes))
    output = run(program, tmp_path)
    assert "2/2" in output
    for group in ("adversary", "agent"):
        assert f"Running value and policy for group '{group}'" in output
        paid = last(f"episode_reward_mean_{group} = ", output)
        assert math.isfinite(paid) and paid != 0
    assert "vmas_rendered_0.mp4" in output.split("Saved!")[1]


def test_torchrl_mappo_implementation_runs(sources, tmp_path):
    """With evaluation and video, as in the original."""
    needs("hydra", "torchcodec.encoders")
    folder = tmp_path / "multiagent"
    shutil.copytree(sources / "sota-implementations/multiagent", folder)
    program = folder / "mappo_ippo.py"
    made = (
        "echelon.versus(builders.short_battles(cfg.env.max_steps), num_envs={}, device=cfg.env.device, seed=cfg.seed)"
    )
    calls = {
        "env": made.format("cfg.env.vmas_envs"),
        "env_test": made.format("cfg.eval.evaluation_episodes"),
    }
    program.write_text(adapted(program.read_text(), calls, {}))
    sizes = (
        "env.max_steps=8",
        "collector.frames_per_batch=48",
        "collector.n_iters=2",
        "train.num_epochs=2",
        "train.minibatch_size=16",
        "eval.evaluation_episodes=2",
        "eval.evaluation_interval=1",
    )
    run(program, tmp_path, *sizes, "logger.backend=csv", f"hydra.run.dir={tmp_path / 'run'}")
    for name in ("train_reward_episode_reward_mean", "train_learner_loss_objective", "eval_episode_reward_mean"):
        (file,) = tmp_path.rglob(f"{name}.csv")
        logged = [float(row[1]) for row in csv.reader(file.read_text().splitlines())]
        assert len(logged) == 2 and all(math.isfinite(value) for value in logged), name
    assert len(list(tmp_path.rglob("eval_video_*.mp4"))) == 2
