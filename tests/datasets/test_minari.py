"""Minari datasets: Minari and TorchRL read observations, actions and rewards of both teams."""

import dataclasses
import runpy
import warnings

import numpy as np
import pytest
import torch
from programs import ROOT
from test_dataset import BATTLES, EASY, HARD, UNEQUAL, write

from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.dataset import WriteDataset
from echelon.rules.config import EnvConfig
from echelon.runtime.errors import ConfigError
from echelon.runtime.version import VERSION
from echelon.views.transforms import FlatObservation

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

from echelon.datasets.minari import environment_of, write_minari  # noqa: E402

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.filterwarnings("ignore:datetime.datetime.utc"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
EXAMPLE = runpy.run_path(str(ROOT / "tests" / "examples" / "minari_dataset.py"))
MECHS = len(UNEQUAL.blue) + len(UNEQUAL.red)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Write a dataset of unequal teams; return it and its Minari folder."""
    place = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(place))
        dataset = write(place.parent / "battles.safetensors", UNEQUAL)
        assert write_minari(dataset, place / "echelon" / "few-v0") == len(BATTLES) * MECHS
    return dataset, place


def test_minari_reads_every_mech_of_every_battle(found, monkeypatch):
    dataset, place = found
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    loaded = minari.load_dataset("echelon/few-v0")
    assert loaded.total_episodes == len(BATTLES) * MECHS and loaded.total_steps == len(dataset) * MECHS
    first = torch.cat([torch.tensor([0]), dataset.battles["decisions"].cumsum(0)])
    who = [("blue", mech) for mech in range(len(UNEQUAL.blue))] + [("red", mech) for mech in range(len(UNEQUAL.red))]
    facts = loaded.storage.get_episode_metadata(range(loaded.total_episodes))
    for number, (episode, fact) in enumerate(zip(loaded, facts, strict=True)):
        battle, (group, mech) = number // MECHS, who[number % MECHS]
        rows, last = dataset.rows[first[battle] : first[battle + 1]], dataset.battles[battle]["last", group]
        flat = torch.cat(
            [FlatObservation.of(rows[group, "observation"]), FlatObservation.of(last["observation"])[None]]
        )
        alive = torch.cat([rows[group, "mask"], last["mask"][None]])
        assert np.array_equal(episode.observations, flat[:, mech].numpy())
        assert np.array_equal(episode.actions, rows[group, "action"][:, mech].numpy())
        assert np.array_equal(episode.rewards, rows["next", group, "reward"][:, mech, 0].numpy())
        assert np.array_equal(episode.infos["alive"], alive[:, mech].numpy())
        ended = episode.terminations | episode.truncations
        assert ended[-1] and not ended[:-1].any()
        played = BATTLES[battle]
        sides = (played.blue, played.red) if group == "blue" else (played.red, played.blue)
        told = fact["options"]
        assert fact["seed"] == played.seed and (told["commander"], told["opponent"]) == sides
        assert told["agent"] == f"{group}_{mech}" and told["winner"] == dataset.battles["winner"][battle]


def test_minari_recovers_environment(found, monkeypatch):
    """d3rlpy's `get_minari` requires an environment with `max_episode_steps`."""
    dataset, place = found
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    loaded = minari.load_dataset("echelon/few-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Minari warns about missing requirements.
        env = loaded.recover_environment()
    assert loaded.storage.metadata["requirements"] == [f"echelon-marl>={VERSION}"]
    assert env.spec.max_episode_steps == dataset.config.rules.max_decisions
    view = env.unwrapped.view
    assert view.config.signature() == dataset.config.signature() and view.n_agents == 1
    assert env.observation_space.shape == loaded.observation_space.shape
    assert env.action_space == loaded.action_space
    observation, info = env.reset(seed=3)
    assert observation.shape == loaded[0].observations[0].shape and info["alive"].shape == (1,)
    observation, *_ = env.step(loaded[0].actions[0])
    assert observation in env.observation_space


def test_dataset_environment_names_only_scripted_commanders(found):
    """A file must not name a policy that needs an import."""
    dataset, _ = found
    names = {
        (HARD, EASY): (HARD, EASY),
        ("my_module:Mine", f"stdio over {HARD}", "runs/mine"): (HARD, HARD),
        ("my_module:Mine",): (None, None),
    }
    for commanders, (partner, opponent) in names.items():
        settings = environment_of(dataclasses.replace(dataset, commanders=commanders)).kwargs
        assert (settings.get("partner"), settings.get("opponent")) == (partner, opponent) and settings["mine"] == [0]
    duel = EnvConfig(blue=("medium",), red=("medium",))
    assert "mine" not in environment_of(dataclasses.replace(dataset, config=duel)).kwargs


def test_torchrl_reads_minari_dataset(found, monkeypatch, tmp_path):
    """With the workaround of the example: TorchRL 0.14 fills a TensorDict and returns zeros like it."""
    dataset, place = found
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    replay = EXAMPLE["replay_buffer"]("echelon/few-v0", tmp_path)
    rows = replay[:]
    assert len(replay) == len(dataset) * MECHS and int(rows["next", "done"].sum()) == len(BATTLES) * MECHS
    mine = rows[rows["episode"] == 0]
    blue = dataset.rows[: len(mine)]
    assert torch.equal(mine["action"], blue["blue", "action"][:, 0])
    assert torch.equal(mine["observation"], FlatObservation.of(blue["blue", "observation"])[:, 0])
    assert torch.equal(mine["observation"][1:], mine["next", "observation"][:-1])


def test_example_joins_episodes_without_their_last_observations(found, monkeypatch):
    """As d3rlpy needs them; its own `get_minari` joins T + 1 observations with T actions."""
    dataset, place = found
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    joined = EXAMPLE["columns"]("echelon/few-v0")
    assert {len(column) for column in joined.values()} == {len(dataset) * MECHS}
    first = dataset.rows[: int(dataset.battles["decisions"][0])]
    seen, done = FlatObservation.of(first["blue", "observation"])[:, 0], first["blue", "action"][:, 0]
    assert np.array_equal(joined["observations"][: len(seen)], seen.numpy())
    assert np.array_equal(joined["actions"][: len(done)], done.numpy())


def test_d3rlpy_reads_the_example(found, monkeypatch):
    pytest.importorskip("d3rlpy")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(found[1]))
    assert len(EXAMPLE["d3rlpy_dataset"]("echelon/few-v0").episodes) == len(BATTLES) * MECHS


def test_command_writes_only_the_minari_dataset(tmp_path):
    how = {"battles": 2, "quiet": True, "arena": ArenaArgs("cpu", batch=4), "format": "minari"}
    WriteDataset((HARD, EASY), tmp_path / "tiny-v1", **how).run()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-v1"]
    loaded = minari.MinariDataset(tmp_path / "tiny-v1" / "data")
    assert loaded.spec.dataset_id == "tiny-v1" and loaded.total_episodes == 2 * 10
    for name, told in {"tiny": "NAME-vNUMBER", "tiny-v1": "new folder"}.items():
        with pytest.raises(ConfigError, match=told):
            WriteDataset((HARD, EASY), tmp_path / name, **how).run()
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-v1"]


def test_failed_minari_write_leaves_no_files(found, tmp_path, monkeypatch):
    dataset, _ = found
    monkeypatch.setattr("echelon.datasets.minari.MinariStorage.update_metadata", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_minari(dataset, tmp_path / "few-v0")
    assert list(tmp_path.iterdir()) == []
