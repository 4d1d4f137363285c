"""Manual control of one mech: it follows the message, other mechs follow their policy, and control ends in time."""

import dataclasses
import math

import pytest
import torch
from serving import small_port

from echelon.command.joystick import NUM_DRIVEN
from echelon.command.session import Session
from echelon.rules.actions import Act
from echelon.runtime.errors import ConfigError


def played(port, decisions: int) -> list:
    """Return the results of `EchelonEnv.step` over some decisions."""
    kept = []
    port.view.on_decision = kept.append
    for _ in range(decisions):
        port.step()
    return kept


def test_driven_mech_follows_message_and_others_keep_policy_actions():
    plain, driven = small_port(60.0), small_port(60.0)
    driven.drive({"mech": "blue_2", "ahead": 1, "turn": -0.5, "fire": ["primary", "special"], "vent": True})
    usual, (first, *rest) = played(plain, 3), played(driven, 3)
    for team in ("blue", "red"):
        others = [n for n in range(5) if (team, n) != ("blue", 2)]
        assert torch.equal(first[team, "action"][:, others], usual[0][team, "action"][:, others])
    for decision in (first, *rest):
        action = decision["blue", "action"][0, 2]
        told = {Act.FORWARD: 1, Act.STRAFE: 0, Act.VERTICAL: 0, Act.YAW_RATE: -0.5, Act.VENT: 1}
        assert {column: float(action[column]) for column in told} == told
        triggers = [action[column] > 0 for column in (Act.PRIMARY, Act.SECONDARY, Act.TERTIARY, Act.SPECIAL)]
        assert triggers == [True, False, False, True]
    assert torch.equal(first["blue", "action"][0, 2, NUM_DRIVEN:], usual[0]["blue", "action"][0, 2, NUM_DRIVEN:])
    driven.drive(None)
    (after,) = played(driven, 1)
    assert float(after["blue", "action"][0, 2, Act.YAW_RATE]) != -0.5 and driven.driven() is None


@pytest.mark.parametrize("angle", [0.0, 2.0, -2.9])
def test_driven_mech_turns_to_face_position(angle):
    port = small_port(60.0)
    for _ in range(12):
        x, y = port.view.env.state.mechs.pos[0, 1, :2].tolist()
        # From its current position, even toward the wall.
        ahead = min(max(x + 5 * math.cos(angle), 0), 40), min(max(y + 5 * math.sin(angle), 0), 40)
        port.drive({"mech": "blue_1", "face": ahead})
        port.step()
    wanted = math.degrees(math.atan2(ahead[1] - y, ahead[0] - x))
    turned = port.driven()
    assert turned["mech"] == "blue_1" and turned["battle"] == 0
    assert abs((turned["facing_deg"] - wanted + 180) % 360 - 180) < 3


def test_driven_mech_walks_in_facing_direction():
    port = small_port(60.0)
    yaw, before = float(port.view.env.state.mechs.yaw[0, 3]), port.view.env.state.mechs.pos[0, 3, :2].clone()
    port.drive({"mech": "blue_3", "ahead": 1})
    for _ in range(3):
        port.step()
    gone = port.view.env.state.mechs.pos[0, 3, :2] - before
    ahead = gone @ torch.tensor([math.cos(yaw), math.sin(yaw)])
    assert ahead > 1 and ahead > 0.9 * gone.norm()


def test_driven_mech_aims_at_named_target():
    port = small_port(60.0)
    for _ in range(200):
        slots = port.view.env.state.focus_slots[0, 0].tolist()
        if (seen := [slot for slot in slots if slot >= 0]) and seen[-1] != slots[0]:
            break
        port.step()
    target = seen[-1]
    port.drive({"mech": "blue_0", "target": port.view.env.agent_names[target]})
    (decision,) = played(port, 1)
    wishes = decision["blue", "action"][0, 0, Act.PREFER_0 : Act.SORT_CLOSEST]
    assert int(wishes.argmax()) == slots.index(target) and (wishes > 0).sum() == 1


REFUSED = {
    "no object": ([1], "drive must be an object such as"),
    "nothing named": ({}, "drive.mech must be one of blue_0, blue_1"),
    "an enemy": ({"mech": "red_0"}, "drive.mech must be one of blue_0"),
    "a list": ({"mech": ["blue_0"]}, "drive.mech must be one of blue_0"),
    "too fast": ({"mech": "blue_0", "ahead": 2}, r"drive.ahead must be a number in -1..1, got 2"),
    "down": ({"mech": "blue_0", "jets": -1}, "drive.jets must be a number in 0..1"),
    "no number": ({"mech": "blue_0", "turn": float("nan")}, "drive.turn must be a number"),
    "outside": ({"mech": "blue_0", "face": [41, 1]}, "drive.face.x must be a number in 0..40, got 41"),
    "half a place": ({"mech": "blue_0", "face": [4]}, r"drive.face must be \[x, y\] in vox"),
    "a trigger": ({"mech": "blue_0", "fire": ["all"]}, "drive.fire must be a list of primary, secondary"),
    "fire": ({"mech": "blue_0", "fire": True}, "drive.fire must be a list of primary, secondary"),
    "vent": ({"mech": "blue_0", "vent": 1}, "drive.vent must be true or false"),
    "a friend": ({"mech": "blue_0", "target": "blue_1"}, "drive.target must be one of red_0"),
    "another battle": ({"mech": "blue_0", "battle": 1}, "drive.battle must be 0..0, got 1"),
    "more": ({"mech": "blue_0", "speed": 1}, "drive must be of battle, mech, ahead"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_drive_message_is_refused_in_one_line(name):
    said, error = REFUSED[name]
    port = small_port(60.0)
    port.drive({"mech": "blue_4"})
    with pytest.raises(ConfigError, match=error) as refused:
        port.drive(said)
    assert "\n" not in str(refused.value) and port.stick.mech == "blue_4"


def test_death_of_driven_mech_ends_manual_control():
    port = small_port(60.0)
    port.drive({"mech": "blue_2"})
    env = port.view.env
    hp = env.state.mechs.hp.clone()
    hp[0, 2] = 0.0
    env.state = env.state.replace(mechs=env.state.mechs.replace(hp=hp))
    assert port.driven() is None and port.stick is None
    with pytest.raises(ConfigError, match=r"drive.mech must be a mech that is alive, got 'blue_2'"):
        port.drive({"mech": "blue_2"})


def test_end_of_battle_ends_manual_control():
    port = small_port(0.5)
    port.drive({"mech": "blue_2"})
    port.step()
    assert port.driven() is not None
    port.step()
    assert port.ended == [True] and port.driven() is None


def test_session_report_names_driven_mech():
    session = Session(small_port(60.0))
    assert "driven" not in session.report()
    assert session.receive('{"drive": {"mech": "blue_1", "ahead": 1}, "orders": [{"kind": "hold"}]}') is None
    told = session.report()["driven"]
    assert told["mech"] == "blue_1" and told.keys() == {"battle", "mech", "facing_deg"}
    refused = session.receive('{"drive": {"mech": "red_1"}, "orders": [{"kind": "hold"}]}')
    assert refused["errors"][0].startswith("drive.mech must be one of") and session.port.stick.mech == "blue_1"
    session.left()
    assert "driven" not in session.report()


def test_red_mech_can_be_driven():
    config = dataclasses.replace(small_port(60.0).view.config)
    port = small_port(60.0, config=config, side="red")
    port.drive({"mech": "red_4", "left": 1})
    (decision,) = played(port, 1)
    assert decision["red", "action"][0, 4, Act.STRAFE] == 1 and port.driven()["mech"] == "red_4"
