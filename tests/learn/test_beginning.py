"""A run may begin with the weights of a trained policy."""

import dataclasses

import pytest
import torch
from tiny_runs import TINY, tiny_run

from echelon.learn.checkpoint.files import newest_checkpoint
from echelon.learn.checkpoint.format import MOST_ANCESTORS, POLICY, Counters, descent, open_checkpoint
from echelon.learn.checkpoint.provenance import weight_hash
from echelon.learn.checkpoint.run_folder import opened_run
from echelon.learn.curriculum import CurriculumState
from echelon.learn.trainer import Trainer
from echelon.runtime.distributed import ALONE
from echelon.runtime.errors import ConfigError

CHILD = tiny_run(init="parent", total_agent_steps=10**6, seed=5)


def newest(folder):
    return open_checkpoint(newest_checkpoint(folder / "checkpoints"))


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """The checkpoint of a run of two iterations."""
    folder = tmp_path_factory.mktemp("parent")
    Trainer(tiny_run(total_agent_steps=10**6), folder).train(2)
    return newest(folder)


def test_weights_and_their_normaliser_are_taken_and_nothing_else(tmp_path, parent):
    child = Trainer(CHILD, tmp_path, init=parent)
    assert weight_hash(child.policy.state_dict()) == weight_hash(parent.policy().state_dict())
    assert child.policy.training and not child.ppo.optimizer.state
    assert child.norm.moments() == parent.value_norm().moments() and child.norm.weight > 0
    assert (child.counters, child.curriculum.state) == (Counters(), CurriculumState())
    assert child.resumed_from is None and child.resume_note == ""


def test_provenance_is_inherited(tmp_path, parent):
    child = Trainer(CHILD, tmp_path, init=parent)
    assert child.met == parent.provenance and child.met.opponents == ("heuristic:normal",)
    child.train(1)
    assert newest(tmp_path).provenance == parent.provenance


def test_checkpoints_name_the_weights_they_were_trained_from(tmp_path, parent):
    digests = {path.name: open_checkpoint(path).claims["files"][POLICY] for path in parent.path.parent.iterdir()}
    assert [*parent.lineage] == [digests[name] for name in sorted(digests)], "iterations 0 and 2, oldest first"
    child = Trainer(CHILD, tmp_path, init=parent)
    child.train(1)
    assert newest(tmp_path).ancestors == parent.lineage, "its own first checkpoint has the weights of its parent"
    resumed = Trainer(CHILD, tmp_path, newest(tmp_path), init=parent)
    assert resumed.ancestors == newest(tmp_path).lineage == child.ancestors


def test_newest_ancestors_are_kept():
    many = tuple(f"{number:064x}" for number in range(MOST_ANCESTORS))
    assert descent(many, many[3]) == (*many[:3], *many[4:], many[3])
    assert descent(many, "f" * 64) == (*many[1:], "f" * 64)


def test_a_run_without_it_draws_what_it_always_drew(tmp_path, parent):
    """As many random numbers too: battles and actions of the first iteration follow from the seed alone."""
    one, two = Trainer(tiny_run(seed=5), tmp_path / "one"), Trainer(CHILD, tmp_path / "two", init=parent)
    assert weight_hash(one.policy.state_dict()) != weight_hash(two.policy.state_dict())
    assert torch.equal(one.env.state.seed, two.env.state.seed)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": dataclasses.replace(TINY, hidden=32)}, r"--init: model.hidden is 32 here and 16 there, in the"),
        ({"env": dataclasses.replace(CHILD.env, comm_dim=3)}, r"--init: comm_dim is 3 here and 8 there, in the"),
    ],
    ids=["model", "messages"],
)
def test_another_network_is_one_line(tmp_path, parent, changes, said):
    with pytest.raises(ConfigError, match=f"^{said} checkpoint: choose the flags it was trained with$"):
        Trainer(dataclasses.replace(CHILD, **changes), tmp_path, init=parent)
    assert not list(tmp_path.iterdir())


def test_battles_and_rewards_may_be_others(tmp_path, parent):
    other = dataclasses.replace(CHILD.env, blue=("light",) * 3, reward=dataclasses.replace(CHILD.env.reward, kill=5.0))
    assert Trainer(dataclasses.replace(CHILD, env=other), tmp_path, init=parent).met == parent.provenance


def test_a_resume_says_with_which_weights_it_began(tmp_path, parent):
    run = dataclasses.replace(CHILD, run_dir=str(tmp_path / "run"))
    Trainer(run, tmp_path / "run", init=parent).train(1)
    with opened_run(dataclasses.replace(run, resume="latest"), ALONE) as (folder, start):
        again = Trainer(run, folder, start)
    assert again.counters.iterations == 1 and again.ppo.optimizer.state
    for init, begun in (("", "parent"), ("other", "parent")):
        limit = f"--init must be '{begun}', with which the run began that is resumed, got '{init}'"
        with (
            pytest.raises(ConfigError, match=limit),
            opened_run(dataclasses.replace(run, init=init, resume="latest"), ALONE),
        ):
            pass


def test_a_script_hands_the_checkpoint_over(tmp_path):
    with pytest.raises(ConfigError, match=r"^init must be the checkpoint of parent, which TrainConfig.init names, got"):
        Trainer(CHILD, tmp_path)
    with pytest.raises(ConfigError, match=r"^init must be what open_checkpoint returns, or None, got 'parent'"):
        Trainer(CHILD, tmp_path, init="parent")
