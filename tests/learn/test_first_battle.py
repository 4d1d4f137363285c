"""What a user brings is called once before a run has a folder, and what fails is told in one line."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from tiny_runs import TINY, tiny_run

from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.run_folder import lock_run_folder
from echelon.learn.config import CurriculumConfig
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.mlp import Feedforward
from echelon.learn.trainer import Trainer
from echelon.runtime.errors import ConfigError


class Faulty(Feedforward):
    """A memory that fails in one of its parts."""

    def __init__(self, width, hidden, fault):
        super().__init__(width, hidden)
        self.fault = fault

    def step(self, features, state):
        if self.fault == "step":
            raise ValueError("the step\nis broken")
        out, state = super().step(features, state)
        return (out[..., :3] if self.fault == "width" else out), state

    def unroll(self, features, state, keep):
        if self.fault == "unroll" or (self.fault == "one mech" and features.shape[1] % 5 != 0):
            raise ValueError("the unroll is broken")
        return super().unroll(features, state, keep)


@dataclass(frozen=True)
class FaultyConfig(LSTMConfig):
    fault: Literal["no", "build", "none", "step", "width", "unroll", "one mech"] = "no"

    def build(self, specs):
        if self.fault == "build":
            raise ValueError("the build is broken")
        memory = Faulty(self.hidden, self.hidden, self.fault)
        policy = ActorCritic(self, specs, Encoder(self, specs.comm_dim), memory)
        return None if self.fault == "none" else policy


def model(fault):
    return FaultyConfig(
        **{field.name: getattr(TINY, field.name) for field in dataclasses.fields(LSTMConfig)}, fault=fault
    )


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("build", r"got ValueError: the build is broken \(test_first_battle.py:\d+\)"),
        ("none", "must be an ActorCritic, got None"),
        ("step", r"got ValueError: the step is broken \(test_first_battle.py:\d+\)"),
        ("width", "got RuntimeError: .*mat1 and mat2 shapes cannot be multiplied"),
        ("unroll", r"got ValueError: the unroll is broken \(test_first_battle.py:\d+\)"),
    ],
)
def test_a_model_that_fails(tmp_path, fault, message):
    expected = f"model test_first_battle:FaultyConfig: expected a policy that plays and learns, .*{message}"
    with pytest.raises(ConfigError, match=expected) as error:
        Trainer(tiny_run(model=model(fault)), tmp_path / "run")
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def test_a_model_that_fails_in_a_later_stage(tmp_path):
    """Its teams have another size; the rows of the first are a multiple of five mechs."""
    stages = CurriculumConfig(team_size=(5, 1), opponents=("easy",))
    with pytest.raises(ConfigError, match="plays and learns, got ValueError: the unroll is broken"):
        Trainer(tiny_run(opponent="curriculum", curriculum=stages, model=model("one mech")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", ["both", "blue"])
def test_a_model_that_works_trains_and_no_generator_moves(tmp_path, side):
    before = torch.get_rng_state()
    trainer = Trainer(tiny_run(model=model("no"), side=side), tmp_path)
    trainer.train(1)
    assert trainer.counters.iterations == 1 and torch.equal(torch.get_rng_state(), before)


def raising(team):
    raise ValueError("no idea")


def narrow(team):
    return team.set("action", torch.zeros(*team.batch_size, 3))


@pytest.mark.parametrize(("commander", "message"), [(raising, "ValueError: no idea"), (narrow, "Error: ")])
def test_a_commander_that_fails(tmp_path, commander, message):
    """Whoever builds it; it may be that of a later stage."""
    stages = CurriculumConfig(opponents=("easy", "mine:Commander"))
    config = tiny_run(opponent="curriculum", curriculum=stages)
    with pytest.raises(
        ConfigError, match=f"mine:Commander: expected a decision for each team, got .*{message}"
    ) as error:
        Trainer(config, tmp_path / "run", opponent_of=lambda name, env, device: commander)
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"folder": None}, "folder must be the path of a run folder, got None"),
        ({"folder": "a\0b"}, "folder must be without NUL bytes"),
        ({"start": "run"}, "start must be what open_checkpoint returns, or None, got 'run'"),
        ({"callbacks": Callback()}, "callbacks must be a list of Callback instances, got <"),
        ({"opponent_of": "easy"}, r"opponent_of must be a function of \(name, env, device\), got 'easy'"),
        (
            {"opponent_of": lambda *_: 3},
            "what opponent_of builds of 'heuristic:normal' must be a policy of a team, got 3",
        ),
        ({"opponent_pool": "past"}, "opponent_pool must be an OpponentPool or None, got 'past'"),
        ({"ranks": 2}, "ranks must be the Ranks of init_ranks, got 2"),
    ],
)
def test_arguments_of_another_type(tmp_path, argument, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(**{"config": tiny_run(), "folder": tmp_path / "run"} | argument)
    assert not (tmp_path / "run").exists()


def test_a_folder_may_be_named_by_a_text(tmp_path):
    Trainer(tiny_run(total_agent_steps=160), str(tmp_path / "run")).train()
    assert (tmp_path / "run" / "checkpoints" / "iteration_000001").is_dir()


class Failing(Callback):
    def setup(self, trainer):
        raise ValueError("no\nsuch server")


def test_a_callback_that_fails(tmp_path):
    message = r"callback Failing: expected setup\(trainer\) to succeed, got ValueError: no such server \(test_first"
    with pytest.raises(ConfigError, match=message):
        Trainer(tiny_run(), tmp_path / "run", callbacks=[Failing()])
    with pytest.raises(ConfigError, match="callbacks must be instances of subclasses of Callback, got <"):
        Trainer(tiny_run(), tmp_path / "run", callbacks=[object()])
    assert not (tmp_path / "run").exists()


def test_the_folder_of_a_program_that_begins_no_run_is_removed(tmp_path):
    with pytest.raises(ConfigError), lock_run_folder(tmp_path / "run", resumes=False):
        raise ConfigError("a catalog that cannot stand")
    assert not (tmp_path / "run").exists()
    (tmp_path / "own").mkdir()
    with lock_run_folder(tmp_path / "own", resumes=False):
        pass
    assert (tmp_path / "own").exists(), "made by somebody else"
