"""`torchrl_ppo.py`: PPO on Echelon with only TorchRL's public parts."""

import ast
import dataclasses
import math
import sys

import pytest
import torch
from builders import short_battles
from runs import ROOT

from echelon.pipelines import torchrl_ppo
from echelon.pipelines.torchrl_ppo import Args
from echelon.views.view import View

PROGRAM = ROOT / "pipelines" / "torchrl_ppo.py"
TINY = Args(battles=2, steps=8, iterations=2, epochs=2, minibatches=2, device="cpu", backend="eager")


def victory(outcome):
    """Mark every battle as won."""
    return outcome.set("won", torch.ones_like(outcome["won"]))


def trained(args):
    """Networks before and after training, and the metrics of each iteration."""
    torch.manual_seed(0)
    env = torchrl_ppo.make_env(args)
    networks = torchrl_ppo.make_networks(env)
    before = [parameter.clone() for network in networks for parameter in network.parameters()]
    history = list(torchrl_ppo.train(env, *networks, args))
    return networks, before, history


def test_every_parameter_learns(monkeypatch):
    monkeypatch.setattr(torchrl_ppo, "BATTLE", short_battles(4))
    networks, before, history = trained(TINY)
    after = [parameter for network in networks for parameter in network.parameters()]
    assert len(before) == 13 and not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert len(history) == 2
    for measured in history:
        assert measured.keys() == {"won", "return", "entropy", "kl", "agent_steps_per_s"}
        assert all(math.isfinite(value) for value in measured.values()), measured
        assert 0 <= measured["won"] <= 1


def test_dead_mechs_do_not_affect_policy_loss(monkeypatch):
    """Advantages are normalised over living mechs, and 0 for dead ones."""
    learnt = []

    class Deadly(torchrl_ppo.GAE):
        def forward(self, batch, *args, **kwargs):
            batch["mask"][:, 0] = False
            return super().forward(batch, *args, **kwargs)

    class Recorded(torchrl_ppo.ClipPPOLoss):
        def forward(self, data):
            learnt.append(data["advantage"].clone())
            return super().forward(data)

    monkeypatch.setattr(torchrl_ppo, "BATTLE", short_battles(4))
    monkeypatch.setattr(torchrl_ppo, "GAE", Deadly)
    monkeypatch.setattr(torchrl_ppo, "ClipPPOLoss", Recorded)
    trained(dataclasses.replace(TINY, iterations=1, epochs=1, minibatches=1))
    (advantage,) = learnt
    living = advantage[advantage != 0]
    assert len(advantage) == 2 * 2 * 8 and len(living) == 2 * 8
    assert abs(living.mean()) < 1e-5 and abs(living.std() - 1) < 1e-5


def test_each_battle_of_an_evaluation_counts_once(monkeypatch):
    """Count only each environment's first battle: here a battle takes one decision, and an evaluation up to four."""
    monkeypatch.setattr(torchrl_ppo, "BATTLE", short_battles(1))
    monkeypatch.setattr(View, "max_steps", 4)
    actor, _ = torchrl_ppo.make_networks(torchrl_ppo.make_env(TINY))
    outcome = View._outcome
    monkeypatch.setattr(View, "_outcome", lambda view, told: victory(outcome(view, told)))
    assert torchrl_ppo.evaluate(actor, TINY) == TINY.battles


def test_main_prints_and_saves(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torchrl_ppo, "BATTLE", short_battles(4))
    path = tmp_path / "actor.pt"
    torchrl_ppo.main(dataclasses.replace(TINY, save=str(path)))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "heuristic:easy:"]
    assert "of 2 battles" in lines[-1] and path.stat().st_size > 100_000


def test_training_in_split_test_raises(monkeypatch):
    monkeypatch.setattr(torchrl_ppo, "BATTLE", dataclasses.replace(short_battles(4), split="test"))
    with pytest.raises(AssertionError, match=r"^BATTLE.split must be train or validation"):
        torchrl_ppo.main(TINY)


def test_example_uses_only_public_names():
    source = PROGRAM.read_text()
    assert len(source.splitlines()) <= 120
    tree = ast.parse(source)
    roots = {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    roots |= {name.split(".")[0] for name in plain if name != "echelon"}
    assert roots <= {*sys.stdlib_module_names, "torch", "tensordict", "torchrl", "tyro"}
    used = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "echelon"
    }
    assert used <= {"EnvConfig", "versus", "mechs"}
