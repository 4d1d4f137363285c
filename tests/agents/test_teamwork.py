"""Team play: shared targets, jamming, and smoke on enemies out of reach."""

import math

import torch
from builders import battle, duel
from deciding import decide, preferred, view_of

from echelon.agents.teamwork import CLEARS_S, Radio
from echelon.agents.view import aim_at
from echelon.rules.actions import CONTROLS, Act


def two_targets():
    """Return a medium with two heavies ahead, the first a little nearer, and a packmate behind it."""
    scene = battle(("medium", "medium"), ("heavy", "heavy"))
    scene.place(0, 10.5, 20.5).place(1, 6.0, 20.5)
    return scene.place(2, 18.5, 22.5, yaw=math.pi).place(3, 19.0, 18.5, yaw=math.pi)


def test_damaged_target_is_preferred():
    assert preferred(decide(two_targets(), tier="hard")[0]) == 0
    assert preferred(decide(two_targets().set(3, hp=60.0), tier="hard")[0]) == 1
    assert preferred(decide(two_targets().set(3, hp=60.0), tier="normal")[0]) == 0


def test_target_called_by_a_packmate_is_preferred():
    scene = two_targets()
    act, after = decide(scene, mech=1, tier="expert")
    assert act[CONTROLS] == 1 and after["target_at"].tolist() == [18.5, 22.5]
    scene.state.messages[:, 1, :3] = torch.tensor([1.0, 19.0 / 20 - 1, 18.5 / 20 - 1])  # calls the other
    assert preferred(decide(scene, tier="expert")[0]) == 1
    assert preferred(decide(scene, tier="hard")[0]) == 0


def test_last_target_is_kept():
    scene = two_targets()
    assert preferred(decide(scene, tier="expert")[0]) == 0
    # Both numbers of `target_at` are set alike: mech 3 stands where it was seen.
    scene.place(3, 18.5, 18.5, yaw=math.pi).place(2, 18.5, 22.0, yaw=math.pi)
    assert preferred(decide(scene, tier="expert", target_at=18.5)[0]) == 1


def test_message_decodes_to_what_was_encoded():
    view = view_of(two_targets())
    target = aim_at(view.contacts, torch.zeros(1, 4, dtype=torch.int64))
    radio = Radio(torch.tensor([40.0, 40.0]), 8)
    place = torch.tensor([[[18.5, 22.5]]]).expand(1, 4, 2)
    calls = radio.decode_messages(radio.say(target, place)[:, :, None])
    assert calls.engaged.all() and torch.allclose(calls.target[..., 0, :], place)
    assert not radio.decode_messages(torch.zeros(1, 4, 5, 8)).engaged.any()
    mute = Radio(torch.tensor([40.0, 40.0]), 2)
    assert (mute.say(target, place) == 0).all() and not mute.decode_messages(torch.ones(1, 4, 5, 2) * 0).engaged.any()


def test_scout_jams_near_enemies():
    near, far = duel(20.0, "scout", "heavy"), duel(8.0, "scout", "heavy").place(0, 1.0, 1.0).place(1, 38.0, 38.0)
    trigger = decide(near, tier="expert")[0][Act.SECONDARY]
    assert 0 < trigger <= 0.5
    assert decide(far, tier="expert")[0][Act.SECONDARY] < 0
    assert decide(near, tier="hard")[0][Act.SECONDARY] < 0


def test_jammed_scout_clears_its_teams_sensors_for_a_while():
    scene = duel(10.0, "scout", "scout")
    orders = scene.orders((1, Act.SECONDARY, 0.25))
    act, after = decide(scene, tier="expert", orders=orders)
    assert act[Act.SECONDARY] > 0.5 and after["jammed_s"] == CLEARS_S
    act, after = decide(scene, tier="expert", jammed_s=1.0)
    assert act[Act.SECONDARY] > 0.5 and after["jammed_s"] == 0.75
    act, _ = decide(scene, tier="expert", jammed_s=0.25)
    assert 0 < act[Act.SECONDARY] <= 0.5


def test_smoke_is_fired_at_targets_out_of_reach():
    beyond = duel(15.0, "medium", "heavy")
    assert decide(beyond, tier="expert")[0][Act.SPECIAL] < 0  # not shot at
    beyond.set(0, under_fire=10)
    assert decide(beyond, tier="expert")[0][Act.SPECIAL] > 0
    assert decide(beyond, tier="hard")[0][Act.SPECIAL] < 0
    assert decide(duel(9.0, "medium", "heavy").set(0, under_fire=10), tier="expert")[0][Act.SPECIAL] < 0  # can answer
    assert decide(duel(15.0).set(0, under_fire=10), tier="expert")[0][Act.SPECIAL] < 0  # keeps its missiles


def test_damaged_light_mech_hides_behind_smoke():
    scout = duel(8.0, "scout", "heavy").set(0, under_fire=10)
    assert decide(scout, tier="expert")[0][Act.SPECIAL] < 0
    assert decide(scout.set(0, hp=30.0), tier="expert")[0][Act.SPECIAL] > 0
    assert decide(duel(4.0, "scout", "heavy").set(0, under_fire=10, hp=30.0), tier="expert")[0][Act.SPECIAL] < 0
