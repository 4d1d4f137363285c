"""The smoke test of custom components before a run folder exists, with errors of one line; and runs that start from the
weights of a trained policy."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from tiny_runs import TINY, tiny_run

from echelon.learn.callbacks.base import Callback
from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import MOST_ANCESTORS, POLICY, Counters, descent, open_checkpoint
from echelon.learn.checkpoint.provenance import weight_hash
from echelon.learn.checkpoint.run_folder import lock_run_folder, opened_run
from echelon.learn.config import CurriculumConfig
from echelon.learn.curriculum import CurriculumState
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.encoder import Encoder
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.mlp import Feedforward
from echelon.learn.trainer import Trainer
from echelon.runtime.distributed import ALONE
from echelon.runtime.errors import ConfigError


class Faulty(Feedforward):
    """A memory module that fails in one of its parts."""

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
        ("build", r"got ValueError: the build is broken \(test_startup.py:\d+\)"),
        ("none", "must be an ActorCritic, got None"),
        ("step", r"got ValueError: the step is broken \(test_startup.py:\d+\)"),
        ("width", "got RuntimeError: .*mat1 and mat2 shapes cannot be multiplied"),
        ("unroll", r"got ValueError: the unroll is broken \(test_startup.py:\d+\)"),
    ],
)
def test_failing_model_raises_one_line(tmp_path, fault, message):
    expected = f"model test_startup:FaultyConfig: expected a policy that plays and learns, .*{message}"
    with pytest.raises(ConfigError, match=expected) as error:
        Trainer(tiny_run(model=model(fault)), tmp_path / "run")
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def test_model_failing_in_later_stage_raises(tmp_path):
    """The later stage has another team size; the first stage's rows are a multiple of five mechs."""
    stages = CurriculumConfig(team_size=(5, 1), opponents=("easy",))
    with pytest.raises(ConfigError, match="plays and learns, got ValueError: the unroll is broken"):
        Trainer(tiny_run(opponent="curriculum", curriculum=stages, model=model("one mech")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", ["both", "blue"])
def test_smoke_test_keeps_random_generators(tmp_path, side):
    before = torch.get_rng_state()
    trainer = Trainer(tiny_run(model=model("no"), side=side), tmp_path)
    trainer.train(1)
    assert trainer.counters.iterations == 1 and torch.equal(torch.get_rng_state(), before)


def raising(team):
    raise ValueError("no idea")


def narrow(team):
    return team.set("action", torch.zeros(*team.batch_size, 3))


@pytest.mark.parametrize(("commander", "message"), [(raising, "ValueError: no idea"), (narrow, "Error: ")])
def test_failing_commander_raises_one_line(tmp_path, commander, message):
    """Any source of the commander; it may belong to a later stage."""
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
        ({"start": "run"}, "start must be a Checkpoint returned by open_checkpoint, or None, got 'run'"),
        ({"callbacks": Callback()}, "callbacks must be a list of Callback instances, got <"),
        ({"opponent_of": "easy"}, r"opponent_of must be a function of \(name, env, device\), got 'easy'"),
        (
            {"opponent_of": lambda *_: 3},
            "opponent_of result for 'heuristic:normal' must be a policy of a team, got 3",
        ),
        ({"opponent_pool": "past"}, "opponent_pool must be an OpponentPool or None, got 'past'"),
        ({"ranks": 2}, "ranks must be the result of init_ranks, got 2"),
    ],
)
def test_wrong_argument_types_raise(tmp_path, argument, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(**{"config": tiny_run(), "folder": tmp_path / "run"} | argument)
    assert not (tmp_path / "run").exists()


def test_folder_can_be_a_string(tmp_path):
    Trainer(tiny_run(total_agent_steps=160), str(tmp_path / "run")).train()
    assert (tmp_path / "run" / "checkpoints" / "iteration_000001").is_dir()


class Failing(Callback):
    def setup(self, trainer):
        raise ValueError("no\nsuch server")


def test_failing_callback_setup_raises(tmp_path):
    message = r"callback Failing: expected setup\(trainer\) to succeed, got ValueError: no such server \(test_startup"
    with pytest.raises(ConfigError, match=message):
        Trainer(tiny_run(), tmp_path / "run", callbacks=[Failing()])
    with pytest.raises(ConfigError, match="callbacks must be instances of subclasses of Callback, got <"):
        Trainer(tiny_run(), tmp_path / "run", callbacks=[object()])
    assert not (tmp_path / "run").exists()


def test_folder_is_removed_if_no_run_starts(tmp_path):
    with pytest.raises(ConfigError), lock_run_folder(tmp_path / "run", resumes=False):
        raise ConfigError("a catalog that cannot stand")
    assert not (tmp_path / "run").exists()
    (tmp_path / "own").mkdir()
    with lock_run_folder(tmp_path / "own", resumes=False):
        pass
    assert (tmp_path / "own").exists(), "created by another program"


CHILD = tiny_run(init_from="parent", total_agent_steps=10**6, seed=5)


def newest(folder):
    return open_checkpoint(newest_checkpoint(folder / "checkpoints"))


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """The checkpoint of a run of two iterations."""
    folder = tmp_path_factory.mktemp("parent")
    Trainer(tiny_run(total_agent_steps=10**6), folder).train(2)
    return newest(folder)


def test_init_copies_only_weights_and_normaliser(tmp_path, parent):
    child = Trainer(CHILD, tmp_path, init=parent)
    assert weight_hash(child.policy.state_dict()) == weight_hash(parent.policy().state_dict())
    assert child.policy.training and not child.ppo.optimizer.state
    assert child.norm.moments() == parent.value_norm().moments() and child.norm.weight > 0
    assert (child.counters, child.curriculum.state) == (Counters(), CurriculumState())
    assert child.resumed_from is None and child.resume_note == ""


def test_provenance_is_inherited(tmp_path, parent):
    child = Trainer(CHILD, tmp_path, init=parent)
    assert child.provenance == parent.provenance and child.provenance.opponents == ("heuristic:normal",)
    child.train(1)
    assert newest(tmp_path).provenance == parent.provenance


def test_checkpoints_list_their_ancestors(tmp_path, parent):
    digests = {path.name: open_checkpoint(path).metadata["files"][POLICY] for path in parent.path.parent.iterdir()}
    assert [*parent.lineage] == [digests[name] for name in sorted(digests)], "iterations 0 and 2, oldest first"
    child = Trainer(CHILD, tmp_path, init=parent)
    child.train(1)
    assert newest(tmp_path).ancestors == parent.lineage, "the first checkpoint has the parent's weights"
    resumed = Trainer(CHILD, tmp_path, newest(tmp_path), init=parent)
    assert resumed.ancestors == newest(tmp_path).lineage == child.ancestors


def test_newest_ancestors_are_kept():
    many = tuple(f"{number:064x}" for number in range(MOST_ANCESTORS))
    assert descent(many, many[3]) == (*many[:3], *many[4:], many[3])
    assert descent(many, "f" * 64) == (*many[1:], "f" * 64)


def test_run_without_init_draws_same_random_numbers(tmp_path, parent):
    """Both draw the same number of random numbers, so battles and actions of the first iteration depend only on the
    seed."""
    one, two = Trainer(tiny_run(seed=5), tmp_path / "one"), Trainer(CHILD, tmp_path / "two", init=parent)
    assert weight_hash(one.policy.state_dict()) != weight_hash(two.policy.state_dict())
    assert torch.equal(one.env.state.seed, two.env.state.seed)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": dataclasses.replace(TINY, hidden=32)}, r"--init-from: model.hidden is 32 here and 16 there, in the"),
        ({"env": dataclasses.replace(CHILD.env, comm_dim=3)}, r"--init-from: comm_dim is 3 here and 8 there, in the"),
    ],
    ids=["model", "messages"],
)
def test_init_with_other_network_raises(tmp_path, parent, changes, said):
    with pytest.raises(ConfigError, match=f"^{said} checkpoint: use the flags of its training$"):
        Trainer(dataclasses.replace(CHILD, **changes), tmp_path, init=parent)
    assert not list(tmp_path.iterdir())


def test_init_allows_other_battles_and_rewards(tmp_path, parent):
    other = dataclasses.replace(CHILD.env, blue=("light",) * 3, reward=dataclasses.replace(CHILD.env.reward, kill=5.0))
    assert Trainer(dataclasses.replace(CHILD, env=other), tmp_path, init=parent).provenance == parent.provenance


def test_resume_with_other_init_raises(tmp_path, parent):
    run = dataclasses.replace(CHILD, run_dir=str(tmp_path / "run"))
    Trainer(run, tmp_path / "run", init=parent).train(1)
    with opened_run(dataclasses.replace(run, resume="latest"), ALONE) as (folder, start):
        again = Trainer(run, folder, start)
    assert again.counters.iterations == 1 and again.ppo.optimizer.state
    for init, begun in (("", "parent"), ("other", "parent")):
        limit = f"--init-from must be '{begun}', the initial policy of the resumed run, got '{init}'"
        with (
            pytest.raises(ConfigError, match=limit),
            opened_run(dataclasses.replace(run, init_from=init, resume="latest"), ALONE),
        ):
            pass


def test_init_requires_the_checkpoint_object(tmp_path):
    with pytest.raises(ConfigError, match=r"^init must be the checkpoint of parent, the value of TrainConfig.init"):
        Trainer(CHILD, tmp_path)
    with pytest.raises(ConfigError, match=r"^init must be a Checkpoint .*, or None, got 'parent'"):
        Trainer(CHILD, tmp_path, init="parent")
