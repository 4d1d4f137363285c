"""Datasets of commanded battles: orders, manual control, and observations and actions of all mechs."""

import pytest
import torch
from serving import small_port
from torchrl.data import LazyMemmapStorage, ReplayBuffer

from echelon.command.session import Session
from echelon.datasets.dataset import CommandedGame, DatasetWriter, open_dataset
from echelon.rules.actions import Act
from echelon.rules.orders import KINDS, OrderKind
from echelon.serve.conversation import CommandedBattles

NAMES = ("human over heuristic:hard", "heuristic:hard")


@pytest.fixture(scope="module")
def sim_model(tmp_path_factory):
    """Play two battles of 12 decisions, commanded for a while, mech 1 of the second one driven; return them and the
    file."""
    path = tmp_path_factory.mktemp("game") / "game.safetensors"
    port, kept = small_port(3.0, period=2, battles=2), []
    with DatasetWriter(path, port.view.config, NAMES) as writer:
        played = CommandedGame(port, writer, NAMES)
        tell = port.view.on_decision
        port.view.on_decision = lambda stepped: (tell(stepped), kept.append(stepped.clone()))
        port.order([{"kind": "move", "place": [20, 30]}, {"kind": "hold", "battle": 1, "fire": "hold"}])
        port.drive({"battle": 1, "mech": "blue_1", "ahead": 1, "turn": 0.25})
        port.step()
        port.drive(None)
        while not all(port.ended):
            port.step()
        played.end()
    return kept, path


def test_commanded_battles_round_trip(sim_model):
    kept, path = sim_model
    dataset = open_dataset(path)
    assert dataset.commanders == NAMES and dataset.battles["commander"].tolist() == [[0, 1], [0, 1]]
    assert dataset.battles["decisions"].tolist() == [12, 12] and len(dataset) == 24
    for battle in range(2):
        rows = dataset.rows[dataset.rows["battle"] == battle]
        for key in rows.keys(True, True):
            if key not in ("battle", ("blue_command", "action"), ("red_command", "action")):
                told = torch.stack([stepped[key][battle] for stepped in kept])
                assert torch.equal(rows[key], told), key


def test_dataset_contains_orders_and_driven_actions(sim_model):
    dataset = open_dataset(sim_model[1])
    first, second = (dataset.rows[dataset.rows["battle"] == battle] for battle in range(2))
    spoken = first["blue_command", "action"][:, 0, KINDS]
    assert int(spoken[0].argmax()) == OrderKind.MOVE and not spoken[1:].any()
    assert torch.equal(first["blue_command", "action"][0], sim_model[0][0]["blue_command", "action"][0])
    assert not dataset.rows["red", "driven"].any() and not dataset.rows["red_command", "action"].any()
    heard = first["blue", "observation", "order"]
    assert not heard[0].any() and heard[1].any()
    driven = second["blue", "driven"]
    assert driven.nonzero().tolist() == [[0, 1], [1, 1]] and not first["blue", "driven"].any()
    assert (second["blue", "action"][driven][:, Act.YAW_RATE] == 0.25).all()


def test_dataset_serves_commander_and_mechs(sim_model):
    dataset = open_dataset(sim_model[1])
    buffer = ReplayBuffer(storage=LazyMemmapStorage(len(dataset)), batch_size=8)
    for part in dataset.transitions(size=7):
        buffer.extend(part)
    drawn = buffer.sample()
    for key in ("packs", "tracks", "situation"):
        ours, theirs = drawn["blue_command", "observation", key], drawn["next", "blue_command", "observation", key]
        assert ours.shape == theirs.shape and ours.shape[:2] == (8, 1)
    assert drawn["blue_command", "action"].shape == (8, 1, 18)
    assert drawn["next", "blue_command", "reward"].shape == (8, 1, 1)
    (rows,) = dataset.transitions("structured")
    ends = rows["next", "done"][:, 0]
    last = dataset.battles["last", "blue_command", "observation", "packs"]
    assert torch.equal(rows["next", "blue_command", "observation", "packs"][ends], last)
    mechs = torch.cat([*dataset.mechs_of(NAMES[0], "structured")])
    assert mechs["observation", "order"].shape[1:] == (19,)


def test_unfinished_battle_is_not_stored(tmp_path):
    port = small_port(3.0)
    battles = CommandedBattles(Session(port), "real", NAMES, dataset=tmp_path / "game.safetensors")
    with pytest.raises(KeyboardInterrupt), battles.kept_as_data():
        port.step()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_battle_is_not_stored_without_consent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    port = small_port(0.5)
    with CommandedBattles(Session(port), "real", NAMES).kept_as_data():
        assert port.view.on_decision is None
        port.step()
    assert not list(tmp_path.iterdir())
