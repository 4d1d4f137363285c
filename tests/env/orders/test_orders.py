"""Orders: decoding, sending, delay and delivery, and the observations of mechs and commanders."""

import dataclasses
import math

import pytest
import torch
from builders import arena, brawl, scene
from host_reads import HostReads
from torchrl.envs.utils import check_env_specs

from echelon import EchelonEnv, EnvConfig
from echelon.env.observation import layout
from echelon.env.observation.streams.order import add_orders
from echelon.env.orders import commander_view, destination, issue
from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import env_from_json
from echelon.rules.orders import (
    DISCIPLINES,
    TARGETS,
    CommandConfig,
    Discipline,
    OrderAction,
    OrderField,
    OrderKind,
    action_width,
)
from echelon.runtime.errors import ConfigError
from echelon.state import leaves_of

ON = CommandConfig(enabled=True, reach_vox=4.0)
BASE = dataclasses.replace(EnvConfig.small(), map_pool=2, blue=("medium", "light"), red=("medium", "scout"))
CONFIG = dataclasses.replace(BASE, command=ON)
MEDIUM, LIGHT, ENEMY, SCOUT = range(4)


def command(kind: OrderKind, x: float = 0.0, y: float = 0.0, config: EnvConfig = CONFIG, **columns: float):
    """Return `[1, 2, D]`: an order to the only blue pack, and none for red; x and y in -1..1."""
    orders = torch.zeros(1, 2, action_width(2))
    orders[:, 0, [int(kind), OrderAction.X, OrderAction.Y]] = torch.tensor([1.0, x, y])
    for name, value in columns.items():
        if name == "target":
            orders[:, 0, TARGETS + int(value)] = 1.0
        else:
            fire = name.removeprefix("fire_").upper()
            column = (
                DISCIPLINES.start + Discipline[fire] if fire in Discipline.__members__ else OrderAction[name.upper()]
            )
            orders[:, 0, column] = value
    return orders


def spoken(one, orders, substeps: int = 0):
    """Return the state of a scene after commands were applied at a substep."""
    state = one.state.replace(tick=one.state.tick + substeps)
    idle = torch.zeros(1, 4, 26)
    one.state, action = issue.apply_commands(state, idle, orders, one.sim_model)
    return one.state.orders_heard[0], action[0]


def test_without_command_no_order_tensors_exist():
    env = EchelonEnv(BASE, 2, "cpu", seed=1)
    td = env.reset()
    assert env.command_map == {} and "order" not in td["blue", "observation"].keys()
    assert env.state.orders_sent.numel() == env.state.orders_heard.numel() == 0
    assert set(env.action_keys) == {("blue", "action"), ("red", "action")}
    assert "command" not in BASE.signature() and env_from_json(CONFIG.signature()) == CONFIG


def test_command_without_orders_changes_no_battle():
    quiet, plain = (EchelonEnv(config, 3, "cpu", seed=2) for config in (CONFIG, BASE))
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    one, other = quiet.reset(), plain.reset()
    for _ in range(25):
        (_, one), (_, other) = (
            env.step_and_maybe_reset(brawl(td, g))
            for env, td, g in zip((quiet, plain), (one, other), generators, strict=True)
        )
    for key in other.keys(True, True):
        assert torch.equal(one[key], other[key]), key


def test_order_without_delay_arrives_at_once():
    one = scene(CONFIG)
    heard, _ = spoken(one, command(OrderKind.MOVE, x=0.5, y=-0.5, urgency=1.0, fire_return=1.0))
    row = [float(OrderKind.MOVE), 30.0, 10.0, -1.0, 1.0, float(Discipline.RETURN), 0.0]
    assert heard[MEDIUM].tolist() == heard[LIGHT].tolist() == row
    assert heard[ENEMY, OrderField.ISSUED] == -1 and one.state.orders_sent.shape == (1, 1, 2, len(OrderField))


def test_commands_are_sent_once_per_period():
    one = scene(CONFIG)
    assert spoken(one, command(OrderKind.MOVE), substeps=5)[0][MEDIUM, OrderField.ISSUED] == -1
    assert spoken(one, command(OrderKind.MOVE), substeps=35)[0][MEDIUM, OrderField.ISSUED] == 40


def test_delayed_orders_arrive_in_sequence():
    config = dataclasses.replace(CONFIG, command=dataclasses.replace(ON, delay_s=3.0))
    one = scene(config)
    period = ON.period * config.rules.decision_repeat
    assert one.state.orders_sent.shape[1] == 3 and config.rules.decision_s * ON.period == 2.0
    first, second = command(OrderKind.MOVE, x=0.5), command(OrderKind.DEFEND, x=-0.5)
    assert spoken(one, first)[0][MEDIUM, OrderField.ISSUED] == -1
    assert spoken(one, second, substeps=period)[0][MEDIUM, OrderField.ISSUED] == -1
    assert spoken(one, None, substeps=period // 2)[0][MEDIUM, OrderField.KIND] == OrderKind.MOVE
    heard = spoken(one, None, substeps=period)[0][MEDIUM]
    assert heard[OrderField.KIND] == OrderKind.DEFEND and heard[OrderField.ISSUED] == period


def test_order_net_reaches_the_range_of_living_issuers():
    config = dataclasses.replace(CONFIG, command_suites=True, command=dataclasses.replace(ON, range_vox=10.0))
    one = scene(config).place(LIGHT, 5, 5).place(MEDIUM, 30, 5)
    # Squad command sits in the medium and hears itself; pack command, in the light, tells itself too.
    assert one.sim_model.roster.order_net[:2, :2].all() and not one.sim_model.roster.order_net[:2, 2:].any()
    one.set(LIGHT, hp=0.0).place(MEDIUM, 30, 5)
    assert spoken(one, command(OrderKind.MOVE))[0][MEDIUM, OrderField.ISSUED] == 0

    other = scene(config).place(LIGHT, 5, 5).place(MEDIUM, 30, 5)
    net = torch.zeros_like(other.sim_model.roster.order_net)
    net[MEDIUM, LIGHT] = net[LIGHT, LIGHT] = True
    other.sim_model = dataclasses.replace(
        other.sim_model, roster=dataclasses.replace(other.sim_model.roster, order_net=net)
    )
    heard = spoken(other, command(OrderKind.MOVE))[0]
    assert heard[LIGHT, OrderField.ISSUED] == 0 and heard[MEDIUM, OrderField.ISSUED] == -1
    other.place(MEDIUM, 12, 5)
    assert spoken(other, None, substeps=5)[0][MEDIUM, OrderField.ISSUED] == 0


def test_jammed_mech_receives_the_order_after_jamming_ends():
    one = scene(CONFIG).place(MEDIUM, 10, 10).place(LIGHT, 38, 38).place(SCOUT, 12, 10).place(ENEMY, 30, 30)
    jams = torch.zeros(1, 4, 26)
    jams[:, SCOUT, Act.SECONDARY] = 0.4
    one.state, _ = issue.apply_commands(one.state, jams, command(OrderKind.MOVE), one.sim_model)
    assert one.state.orders_heard[0, :2, OrderField.ISSUED].tolist() == [-1, 0]
    assert spoken(one, None, substeps=5)[0][MEDIUM, OrderField.ISSUED] == 0


def test_hold_and_regroup_use_the_mean_position_of_the_living_pack():
    one = scene(CONFIG).place(MEDIUM, 10, 10).place(LIGHT, 20, 14)
    for kind in (OrderKind.HOLD, OrderKind.REGROUP):
        heard, _ = spoken(one, command(kind, x=1.0, y=1.0), substeps=40)
        assert heard[MEDIUM, OrderField.X : OrderField.Y + 1].tolist() == [15.0, 12.0]
    one.set(LIGHT, hp=0.0)
    assert spoken(one, command(OrderKind.HOLD), substeps=40)[0][MEDIUM, OrderField.X : OrderField.Y + 1].tolist() == [
        10.0,
        10.0,
    ]


def test_attack_order_follows_a_known_enemy():
    one = scene(CONFIG).place(MEDIUM, 10, 10).place(ENEMY, 20, 10)
    attack = command(OrderKind.ATTACK, x=0.0, y=0.0, target=0)
    assert spoken(one, attack)[0][MEDIUM, OrderField.TARGET] == -1
    one.state.focus_slots[:, LIGHT, 0] = ENEMY
    heard = spoken(one, attack, substeps=40)[0][MEDIUM]
    assert heard[OrderField.X : OrderField.TARGET + 1].tolist() == [20.0, 10.0, float(ENEMY)]
    one.place(ENEMY, 25, 10)
    place, is_sent, _ = destination.destination(one.state, one.sim_model)
    assert place[0, MEDIUM].tolist() == [25.0, 10.0] and is_sent[0, MEDIUM]
    one.state.focus_slots[:] = -1
    assert destination.destination(one.state, one.sim_model)[0][0, MEDIUM].tolist() == [20.0, 10.0]
    one.set(ENEMY, hp=0.0)
    assert not destination.destination(one.state, one.sim_model)[1][0, MEDIUM]


def test_screen_destination_is_towards_the_nearest_known_enemy():
    one = scene(CONFIG).place(ENEMY, 30, 20).place(SCOUT, 20, 39)
    spoken(one, command(OrderKind.SCREEN))
    assert destination.destination(one.state, one.sim_model)[0][0, MEDIUM].tolist() == [20.0, 20.0]
    one.state.focus_slots[:, LIGHT, :2] = torch.tensor([SCOUT, ENEMY])
    assert destination.destination(one.state, one.sim_model)[0][0, MEDIUM].tolist() == [26.0, 20.0]


@pytest.mark.parametrize(
    ("discipline", "under_fire", "holds"),
    [
        ("fire_hold", 0, True),
        ("fire_hold", 5, True),
        ("fire_return", 0, True),
        ("fire_return", 5, False),
        ("fire_free", 0, False),
    ],
)
def test_triggers_are_released_if_orders_hold_fire(discipline, under_fire, holds):
    one = scene(CONFIG).set(MEDIUM, under_fire=under_fire)
    spoken(one, command(OrderKind.MOVE, **{discipline: 1.0}))
    action = torch.ones(1, 4, 26)
    _, kept = issue.apply_commands(one.state, action, None, one.sim_model)
    triggers = kept[0, MEDIUM, [Act.PRIMARY, Act.SECONDARY, Act.TERTIARY, Act.SPECIAL]]
    assert triggers.tolist() == [-1.0 if holds else 1.0] * 4 and (kept[0, ENEMY] == 1).all()
    others = [Act.FORWARD, Act.VENT, Act.PREFER_0]
    assert (kept[0, MEDIUM, others] == 1).all() and (action == 1).all()


def test_order_is_observed_in_body_frame_and_replaces_the_zone():
    one = scene(CONFIG).place(MEDIUM, 10, 10, yaw=math.pi / 2).place(LIGHT, 31, 11)
    spoken(one, command(OrderKind.MOVE, x=0.5, y=-0.5, urgency=0.0))
    one.state = one.state.replace(tick=one.state.tick + 60)
    ego = torch.zeros(1, 4, layout.width(layout.EGO))
    streams = add_orders(one.state, {"ego": ego}, one.sim_model)

    def of(name, mech, features, stream):
        return streams[stream][0, mech, layout.columns(features, name)].tolist()

    # (30, 10) is 20 vox to the right of a mech at (10, 10) that faces +y.
    assert of("vector", MEDIUM, layout.ORDER, "order") == pytest.approx([0.0, -0.5], abs=1e-6)
    assert of("kind", MEDIUM, layout.ORDER, "order") == [0, 1, 0, 0, 0, 0]
    assert of("age", MEDIUM, layout.ORDER, "order") == pytest.approx([3 / 60])
    assert [of("reached", mech, layout.ORDER, "order") for mech in (MEDIUM, LIGHT, ENEMY)] == [[0], [1], [0]]
    assert of("zone_vector", MEDIUM, layout.EGO, "ego") == pytest.approx([0.0, -0.5], abs=1e-6)
    assert of("path_direction", MEDIUM, layout.EGO, "ego") == pytest.approx([0.0, -1.0], abs=1e-6)
    # The path has 19 columns, until 1.17 vox from the middle of the block that represents its goal.
    length = (19 + 4 - 2 * math.sqrt(2) - 4) / 40
    assert of("path_length", MEDIUM, layout.EGO, "ego") == pytest.approx([length])
    assert of("way_length", MEDIUM, layout.ORDER, "order") == pytest.approx([length])
    assert of("way", MEDIUM, layout.ORDER, "order") == pytest.approx([0.0, -1.0], abs=1e-6)
    assert of("in_zone", LIGHT, layout.EGO, "ego") == [1.0] and of("path_direction", LIGHT, layout.EGO, "ego") == [0, 0]
    assert not streams["ego"][0, ENEMY].any() and not ego.any()

    unsteered = dataclasses.replace(
        one.sim_model, config=dataclasses.replace(CONFIG, command=dataclasses.replace(ON, steers=False))
    )
    assert add_orders(one.state, {"ego": ego}, unsteered)["ego"] is ego


def test_order_path_leads_around_a_wall():
    """A wall between (10, 20) and (30, 20) ends 8 vox before the upper edge of the map."""
    one = scene(CONFIG, (19, 21, 0, 32, 1, 8, Material.SOLID)).place(MEDIUM, 10, 20).place(LIGHT, 26.5, 20.5)
    spoken(one, command(OrderKind.MOVE, x=0.5, y=0.0))
    sent = destination.destination(one.state, one.sim_model)
    way = destination.way_there(one.state, sent, one.sim_model)
    assert way.left_vox[0, MEDIUM] > 28 and way.left_vox[0, LIGHT] == 0
    at, steps = one.state.mechs.pos[0, MEDIUM, :2].clone(), 0
    while way.left_vox[0, MEDIUM] > 0:
        at += way.step[0, MEDIUM]
        assert not ((16.5 < at[0] < 23.5) & (at[1] < 33)), "too near to the wall for the widest hull"
        one.place(MEDIUM, *at.tolist())
        way = destination.way_there(one.state, sent, one.sim_model)
        steps += 1
    assert steps < 50 and (at - torch.tensor([30.0, 20.0])).norm() < ON.reach_vox
    seen = add_orders(one.state, {"ego": torch.zeros(1, 4, layout.width(layout.EGO))}, one.sim_model)
    assert seen["order"][0, MEDIUM, layout.columns(layout.ORDER, "reached")] == 1
    assert not seen["order"][0, MEDIUM, layout.columns(layout.ORDER, "way")].any()


def test_commander_observes_pack_reports_and_known_enemies():
    config = dataclasses.replace(CONFIG, blue=("medium", "light") * 5, red=("medium", "scout"))
    one = scene(config)
    for mech in range(10):
        one.place(mech, 4 + 3.5 * mech, 10)
    one.set(5, hp=0.0).set(6, hp=0.5 * one.sim_model.roster.hp[6].item()).set(7, under_fire=3)
    one.place(11, 20, 30)
    one.state.focus_slots[:, 2, 0] = 11
    seen = commander_view.command_view(one.state, one.sim_model)
    assert seen["blue_command", "observation", "packs"].shape == (1, 2, 2, layout.width(layout.PACK_REPORT))
    second = seen["blue_command", "observation", "packs"][0, 1]  # of the commander of the second pack

    def of(name):
        return second[0, layout.columns(layout.PACK_REPORT, name)].tolist()

    assert of("alive") == pytest.approx([0.8]) and of("under_fire") == pytest.approx([0.25])
    assert of("position") == pytest.approx([(4 + 3.5 * 7.5) / 40, 0.25])
    assert torch.equal(second[1], seen["blue_command", "observation", "packs"][0, 0, 0])
    assert seen["blue_command", "observation", "tracks_mask"][0].tolist() == [[False, True]] * 2
    assert not seen["red_command", "observation", "tracks_mask"].any()
    track = seen["blue_command", "observation", "tracks"][0, 1, 1]
    assert track[layout.columns(layout.TRACK, "position")].tolist() == pytest.approx([0.5, 0.75])
    assert not seen["blue_command", "observation", "tracks"][0, 1, 0].any()


def commanded_battles(backend: str, decisions: int = 60):
    """Return state, last step and restarts of battles with orders, delays and drills; eager restarts by mask."""
    config = dataclasses.replace(
        CONFIG,
        rules=dataclasses.replace(CONFIG.rules, max_episode_s=4.0),
        command=CommandConfig(enabled=True, period=2, delay_s=1.0, drill_s=2.0),
    )
    env = EchelonEnv(config, 4, "cpu", seed=3, backend=backend)
    env.restarts_by_row = backend != "eager"
    td, generator, restarts = env.reset(), torch.Generator().manual_seed(7), 0
    for _ in range(decisions):
        brawl(td, generator)
        for group in env.command_map:
            shape = env.action_spec[group, "action"].shape
            td[group, "action"] = torch.rand(shape, generator=generator) * 2 - 1
        after, td = env.step_and_maybe_reset(td)
        restarts += int(after["next", "done"].sum())
    return leaves_of(env.state), after, td, restarts


def test_loops_and_dense_form_agree_with_orders():
    one, other = commanded_battles("eager"), commanded_battles("loops")
    assert one[3] == other[3] >= 8
    for mine, theirs in zip(one[:3], other[:3], strict=True):
        items = mine.items() if isinstance(mine, dict) else mine.items(True, True)
        for key, value in items:
            assert torch.equal(value, theirs[key]), key


def test_environment_with_orders_passes_check_env_specs_without_host_reads():
    env = arena(dataclasses.replace(CONFIG, command=dataclasses.replace(ON, drill_s=4.0)), num_envs=2)
    check_env_specs(env)
    td = env.rand_action(env.reset())
    env.step(td)
    with HostReads() as counted:
        issue.apply_commands(env.state, torch.zeros(2, 4, 26), torch.zeros(2, 2, action_width(2)), env.sim_model)
        add_orders(env.state, {"ego": torch.zeros(2, 4, layout.width(layout.EGO))}, env.sim_model)
        commander_view.command_view(env.state, env.sim_model)
    assert not counted.reads


@pytest.mark.long
def test_orders_are_traced_as_one_graph():
    env = arena(dataclasses.replace(CONFIG, command=dataclasses.replace(ON, drill_s=4.0, delay_s=3.0)), num_envs=2)
    arguments = env.state, torch.rand(2, 4, 26), torch.rand(2, 2, action_width(2)), env.sim_model

    def whole(state, action, commands, sim_model):
        state, action = issue.apply_commands(state, action, commands, sim_model)
        return state.orders_heard, action, commander_view.command_view(state, sim_model)

    traced = torch.compile(whole, fullgraph=True, dynamic=False, backend="eager")(*arguments)
    for mine, theirs in zip(traced[:2], whole(*arguments)[:2], strict=True):
        torch.testing.assert_close(mine, theirs)


def test_saved_battle_keeps_its_orders():
    env = EchelonEnv(dataclasses.replace(CONFIG, command=dataclasses.replace(ON, drill_s=4.0)), 2, "cpu", seed=4)
    env.rollout(10)
    saved = env.get_state()
    first = env.rollout(
        6, auto_reset=False, tensordict=env.last_observation(), policy=lambda td: td.update(env.action_spec.zero())
    )
    env.set_state(saved)
    again = env.rollout(
        6, auto_reset=False, tensordict=env.last_observation(), policy=lambda td: td.update(env.action_spec.zero())
    )
    for key in first.keys(True, True):
        assert torch.equal(first[key], again[key]), key


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"period": 0}, "CommandConfig.period must be 1..1000 decisions, got 0"),
        ({"delay_s": 60.0, "period": 1}, "CommandConfig.delay_s must be at most 63 periods of 0.25 s, got 60.0"),
    ],
)
def test_invalid_command_config_raises(changes, words):
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(BASE, command=dataclasses.replace(ON, **changes))


def test_orders_of_wrong_shape_raise():
    env = EchelonEnv(CONFIG, 2, "cpu", seed=4)
    td = env.rand_action(env.reset())
    td["blue_command", "action"] = torch.zeros(2, 1, 3)
    with pytest.raises(ConfigError, match=r"\('blue_command', 'action'\) must have shape"):
        env.step(td)
