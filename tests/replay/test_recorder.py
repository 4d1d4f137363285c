"""A replay matches the environment's numbers, and recording changes nothing."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from builders import arena, brawl, told
from first_catalog import BEAMS, SHELLS, SMALL, Weapon
from host_reads import HostReads

from echelon.env.env import EchelonEnv
from echelon.env.observation import layout
from echelon.env.observation.layout import STREAMS
from echelon.env.observation.sensing import perceive
from echelon.env.outcome import STATS
from echelon.replay.battle import BEAMS as BEAM_COLUMNS
from echelon.replay.battle import (
    CLOUDS,
    CONDITIONS,
    DEATHS,
    FLIGHTS,
    HARMS,
    NO_INDEX,
    NO_VALUE,
    POINTS,
    POS_PER_VOX,
    REWARD_UNITS,
    Condition,
    Fact,
    FlightEnd,
    Shown,
    Switch,
)
from echelon.replay.ground import rebuild
from echelon.replay.moments import in_reward_units
from echelon.replay.recorder import Recorder
from echelon.rules.actions import Act
from echelon.rules.catalog import Hull, Material
from echelon.rules.config import EnvConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.runtime import jit
from echelon.runtime.errors import ConfigError
from echelon.sim.terrain import material_at

BUSY = dataclasses.replace(SMALL, map_pool=4, map_seed=5)
CLOSE = dataclasses.replace(
    BUSY,
    world=WorldConfig(32, 32, 10),
    blue=("heavy", "medium", "heavy", "medium", "light"),
    red=("scout", "light", "medium", "scout", "heavy"),
)
"""Battles in which the teams meet after two seconds."""
DECISIONS = 120
WAYS = (Shown.SIGHT, Shown.RADAR, Shown.PAINT, Shown.BLOOM)


def column(table, columns, name):
    """Return one named column of an event table."""
    return table[:, columns.index(name)]


def whole_ground(env):
    """Return the current material of every voxel, `[B, Z, Y, X]`."""
    world = env.config.world
    grid = torch.meshgrid(*(torch.arange(n) for n in (world.size_z, world.size_y, world.size_x)), indexing="ij")
    z, y, x = (axis.expand(env.num_envs, *axis.shape) for axis in grid)
    return material_at(env.state, env.sim_model, x, y, z).numpy()


@pytest.fixture(scope="module")
def fought():
    """Return three battles, the last two of them recorded, with the environment's output at every moment."""
    recorder = Recorder([1, 2], observations=True)
    brief = dataclasses.replace(BUSY, rules=RulesConfig(max_episode_s=25.0))
    env = EchelonEnv(brief, 3, "cpu", seed=4, observer=recorder)
    generator = torch.Generator().manual_seed(1)
    td = env.reset()
    moments, grounds, ends = [env.state], [whole_ground(env)], []
    for decision in range(DECISIONS):
        played, td = env.step_and_maybe_reset(brawl(td, generator))
        done = played["next", "done"][:, 0]
        ends.append((done.clone(), played["next", "outcome"].clone()))
        moments.append(env.state)
        grounds.append(whole_ground(env))
        if decision == 0:
            first = played
    return env, recorder.finish(["a", "b"], ["c", "d"]), moments, grounds, ends, first


def outcome_of(ends, b):
    """Return the time and outcome of battle b's first end."""
    return next((d, outcome[b]) for d, (done, outcome) in enumerate(ends) if done[b])


def test_moments_match_the_state(fought):
    _, replay, moments, _, ends, _ = fought
    for r, b in enumerate((1, 2)):
        battle = replay.battles[r]
        last, _ = outcome_of(ends, b)
        assert battle.decisions == last + 1
        for m in range(0, last + 1, 7):  # at the end itself, the environment already has the next battle
            mechs = moments[m].mechs
            assert np.abs(battle.pos[m] / POS_PER_VOX - mechs.pos[b].numpy()).max() <= 0.5 / POS_PER_VOX
            for name in ("hp", "leg_hp", "heat", "stability"):
                assert np.abs(getattr(battle, name)[m] / POINTS - getattr(mechs, name)[b].numpy()).max() <= 0.5 / POINTS
            turned = np.cos(battle.yaw[m] / 8192) - mechs.yaw[b].cos().numpy()
            assert np.abs(turned).max() < 2e-4
            assert ((battle.facts[m] & Fact.ALIVE) > 0).tolist() == mechs.alive[b].tolist()
            assert battle.score[m] / 1024 == pytest.approx(moments[m].score[b].numpy(), abs=1e-3)


def test_harms_add_up_to_lost_hit_points(fought):
    """`harms` contains all damage between two moments, except from lava and burning debris."""
    _, replay, *_ = fought
    for battle in replay.battles:
        lost = -np.diff(battle.hp.astype(int), axis=0)
        taken = np.zeros_like(lost)
        np.add.at(
            taken,
            (column(battle.harms, HARMS, "tick") // 5, column(battle.harms, HARMS, "target")),
            column(battle.harms, HARMS, "damage"),
        )
        assert len(battle.harms) > 20
        assert (taken <= lost + 3).all()
        assert (lost - taken).sum() < 0.2 * lost.sum()
        burnt = (lost - taken) > 3
        assert (lost - taken)[burnt].max(initial=0) <= 5 * 0.25 * POINTS + 3


def test_events_add_up_to_the_statistics(fought):
    env, replay, _, _, ends, _ = fought
    team = env.sim_model.roster.is_red.numpy().astype(int)
    for r, b in enumerate((1, 2)):
        battle = replay.battles[r]
        _, outcome = outcome_of(ends, b)
        stats = {name: outcome["stats"][:, i].numpy() for i, name in enumerate(STATS)}

        def by_team(values, weights=None):
            return np.bincount(team[values], weights, minlength=2)

        shooter, target, damage = (column(battle.harms, HARMS, n) for n in ("shooter", "target", "damage"))
        enemy = team[shooter] != team[target]
        assert by_team(shooter[enemy], damage[enemy]) / POINTS == pytest.approx(stats["damage"], abs=0.5)
        killer, victim = (column(battle.deaths, DEATHS, name) for name in ("killer", "victim"))
        assert by_team(victim).tolist() == stats["deaths"].tolist()
        credited = (killer != NO_INDEX) & (team[killer] != team[victim])
        assert by_team(killer[credited]).tolist() == stats["kills"].tolist()
        with_what = column(battle.deaths, DEATHS, "weapon")[credited]
        for weapon in Weapon:
            assert (
                by_team(killer[credited][with_what == weapon]).tolist()
                == stats[f"kills_{weapon.name.lower()}"].tolist()
            )
        with_what = column(battle.harms, HARMS, "weapon")
        for weapon in Weapon:
            of_weapon = enemy & (with_what == weapon)
            did = by_team(shooter[of_weapon], damage[of_weapon]) / POINTS
            assert did == pytest.approx(stats[f"damage_{weapon.name.lower()}"], abs=0.5)
        assert (with_what != NO_INDEX).all()
        mech, condition = (column(battle.conditions, CONDITIONS, name) for name in ("mech", "condition"))
        assert by_team(mech[condition == Condition.SHUT_DOWN]).tolist() == stats["shutdowns"].tolist()
        assert by_team(mech[condition == Condition.FELL])[::-1].tolist() == stats["knockdowns"].tolist()
        assert by_team(mech[condition == Condition.LEGGED])[::-1].tolist() == stats["leggings"].tolist()
        met, by = (column(battle.flights, FLIGHTS, name) for name in ("met", "by"))
        assert ((by != NO_INDEX) == (met == FlightEnd.AMS)).all()
        assert by_team(by[met == FlightEnd.AMS]).tolist() == stats["intercepts"].tolist()
        for weapon in BEAMS:
            rows = battle.beams[column(battle.beams, BEAM_COLUMNS, "weapon") == weapon]
            assert by_team(rows[:, 1]).tolist() == stats[f"shots_{weapon.name.lower()}"].tolist()
        for weapon in SHELLS:
            rows = battle.flights[column(battle.flights, FLIGHTS, "weapon") == weapon]
            who, met = (column(rows, FLIGHTS, name) for name in ("shooter", "met"))
            assert by_team(who).tolist() == stats[f"shots_{weapon.name.lower()}"].tolist()
            assert by_team(who[met == FlightEnd.MECH]).tolist() == stats[f"hits_{weapon.name.lower()}"].tolist()
        assert battle.about["outcome"]["stats"]["kills"] == stats["kills"].tolist()
        assert battle.about["outcome"]["score"] == pytest.approx(outcome["score"].tolist(), abs=1e-3)
        assert battle.about["outcome"]["winner"] == ("draw", "blue", "red")[int(outcome["winner"])]


def test_flights_are_continuous_and_end_at_the_hit(fought):
    """No step is longer than a substep of flight, and straight shots end where they hit."""
    _, replay, *_ = fought
    for battle in replay.battles:
        first, points = (column(battle.flights, FLIGHTS, name) for name in ("first", "points"))
        assert points.sum() == len(battle.waypoints) and (first == np.cumsum(points) - points).sum() >= 0
        for row in battle.flights:
            flight = dict(zip(FLIGHTS, row.tolist(), strict=True))
            way = battle.waypoints[flight["first"] :][: flight["points"]] / POS_PER_VOX
            ticks = flight["end_tick"] - flight["launch_tick"]
            assert ticks >= 0
            top = {Weapon.MISSILE: 12, Weapon.GAUSS: 45, Weapon.AUTOCANNON: 25, Weapon.SMOKE: 15}[flight["weapon"]]
            steps = np.linalg.norm(np.diff(way, axis=0), axis=1)
            per_tick = steps if flight["points"] > 2 else steps / max(ticks, 1)
            assert per_tick.max() <= top * 0.05 + 2 / POS_PER_VOX
            if flight["met"] == FlightEnd.MECH:
                moment = (flight["end_tick"]) // 5
                hull = battle.pos[moment : moment + 2, flight["victim"]] / POS_PER_VOX
                assert np.linalg.norm(hull - way[-1], axis=1).min() < 4.5


def test_voxel_changes_match_the_terrain(fought):
    _, replay, _, grounds, ends, _ = fought
    changed = 0
    for r, b in enumerate((1, 2)):
        battle = replay.battles[r]
        last, _ = outcome_of(ends, b)
        ground = rebuild(replay, battle).copy()
        assert (ground == grounds[0][b]).all()
        for m in range(1, last + 1):
            rows = battle.voxels[battle.voxels[:, 0] == m - 1]
            ground[rows[:, 3], rows[:, 2], rows[:, 1]] = rows[:, 4]
            changed += len(rows)
            if m % 20 == 0 or m == last:
                assert (ground == grounds[m][b]).all()
    assert changed > 20


def test_recorded_observations_match_the_environment(fought):
    _, replay, _, _, _, first = fought
    shown = {name: torch.cat([first["next", g, "observation", name] for g in ("blue", "red")], 1) for name in STREAMS}
    for r, b in enumerate((1, 2)):
        battle = replay.battles[r]
        filled = shown["contacts_mask"][b].numpy()
        assert ((battle.contacts[1] != NO_INDEX) == filled).all()
        for name in STREAMS:
            wanted = shown[name][b] if name.endswith("mask") else shown[name][b].half()
            assert (torch.tensor(battle.observations[name][1]) == wanted).all(), name
        hostile = shown["contacts"][b, ..., layout.columns(layout.CONTACT, "hostile").start].numpy() > 0
        assert (((battle.contact_facts[1] & Shown.HOSTILE) > 0) == hostile).all()
        red = np.arange(10) >= 5
        who = battle.contacts[1]
        assert ((red[who] != red[:, None]) == hostile)[filled].all()


@pytest.mark.long
def test_contact_sources_match_perception():
    """Compare sight, radar, paint and heat with `perceive`, with smoke on the map."""
    recorder, orders = Recorder([0, 1]), []
    env = EchelonEnv(BUSY, 2, "cpu", seed=4, observer=recorder)
    keep, states = recorder.moment, []

    def kept(state, given, *rest):
        states.append(state.clone())
        orders.append(given)
        keep(state, given, *rest)

    recorder.moment = kept
    generator, td = torch.Generator().manual_seed(3), env.reset()
    for _ in range(80):
        _, td = env.step_and_maybe_reset(brawl(td, generator))
    replay, told_of = recorder.finish(["a", "b"], ["c", "d"]), Counter()
    for m in range(1, 81, 3):
        senses = perceive(states[m - 1], orders[m - 1], env.sim_model)
        for r, battle in enumerate(replay.battles):
            if m > battle.decisions:
                continue
            facts, slots = battle.contact_facts[m], battle.contacts[m]
            for n, slot in np.argwhere(slots != NO_INDEX).tolist():
                other, fact = slots[n, slot], Shown(int(facts[n, slot]))
                sees, line = bool(senses.sees[r, n, other]), bool(senses.line[r, n, other])
                known = fact & (Shown.SIGHT | Shown.RADAR | Shown.PAINT | Shown.BLOOM)
                assert bool(known) == sees and (Shown.SIGHT in fact) == (line and sees)
                far = float(senses.distance[r, n, other])
                reach = BUSY.radar_range_vox * float(senses.sensors.quality[r, n])
                assert (Shown.RADAR in fact) == (
                    sees and far <= reach * float(env.sim_model.roster.cockpits.sensor_factor[n])
                )
                told_of.update(way for way in WAYS if way in fact)
    assert min(told_of[way] for way in (Shown.SIGHT, Shown.RADAR, Shown.BLOOM)) > 10, told_of


def test_orders_are_recorded_as_issued():
    config = dataclasses.replace(SMALL, blue=("heavy",), red=("scout",))
    recorder = Recorder([0])
    env = arena(config)
    env.observer = recorder
    td = env.reset()
    asked = [(0, Act.FORWARD, 1.0), (0, Act.YAW_RATE, -0.5), (0, Act.PRIMARY, 1.0), (0, Act.VENT, 1.0)]
    _, td = env.step_and_maybe_reset(told(env, td, *asked, (1, Act.SECONDARY, 0.3), (1, Act.SORT_BIGGEST, 1.0)))
    battle = recorder.finish(["blue"], ["red"]).battles[0]
    assert battle.moves[1].tolist() == [[127, 0, 0, round(-0.5 * 127)], [0, 0, 0, 0]]
    assert battle.triggers[1].tolist() == [1 << Weapon.LASER, 0]
    assert battle.switches[1].tolist() == [Switch.VENT, Switch.ECM | Switch.SORT_BIGGEST]
    assert not battle.moves[0].any() and not battle.triggers[0].any() and not battle.switches[0].any()


def test_recorded_rewards_match_the_environment():
    recorder = Recorder([1])
    env = EchelonEnv(BUSY, 2, "cpu", seed=4, observer=recorder)
    generator, td, paid = torch.Generator().manual_seed(1), env.reset(), []
    for _ in range(30):
        played, td = env.step_and_maybe_reset(brawl(td, generator))
        paid.append([float(played["next", team, "reward"][1].mean()) for team in ("blue", "red")])
    battle = recorder.finish(["a"], ["b"]).battles[0]
    assert battle.decisions == 30 and battle.values is None
    assert battle.rewards.shape == (31, 2) and not battle.rewards[0].any()
    assert np.abs(battle.rewards[1:] / REWARD_UNITS - np.array(paid)).max() <= 1 / REWARD_UNITS
    assert (np.abs(paid) > 2 / REWARD_UNITS).any(0).all()


def test_out_of_range_values_are_clamped():
    kept = in_reward_units(np.array([1e9, -np.inf, np.nan, 0.25]))
    assert kept.tolist() == [2**31 - REWARD_UNITS, REWARD_UNITS - 2**31, NO_VALUE, REWARD_UNITS // 4]


def test_recording_changes_nothing():
    plain, watched = (EchelonEnv(BUSY, 2, "cpu", seed=8, observer=w) for w in (None, Recorder([0])))
    states = []
    for env in (plain, watched):
        generator, td = torch.Generator().manual_seed(2), env.reset()
        for _ in range(30):
            _, td = env.step_and_maybe_reset(brawl(td, generator))
        states.append(env.state.to_tensordict())
    same = states[0].apply(lambda a, b: (a == b).all(), states[1], batch_size=[])
    assert all(bool(value) for value in same.values(include_nested=True, leaves_only=True))


@pytest.mark.skipif(not jit.HAS_LOOPS, reason="numba is not here")
@pytest.mark.parametrize(
    ("preset", "decisions", "count"),
    [
        pytest.param(CLOSE, 15, 6, id="close"),
        pytest.param(BUSY, 110, 3, marks=pytest.mark.long, id="small"),
        pytest.param(EnvConfig.standard(), 110, 3, marks=pytest.mark.long, id="standard"),
    ],
)
def test_replays_of_loops_and_dense_form_are_equal(preset, decisions, count):
    """Every table of a replay has the same bytes in both forms."""
    rules = dataclasses.replace(preset.rules, max_episode_s=0.25 * (decisions - 2))
    config = dataclasses.replace(preset, map_pool=min(4, count), rules=rules)
    recorded = []
    for backend in ("loops", "eager"):
        recorder = Recorder([count - 2, count - 1], observations=True)
        env = EchelonEnv(config, count, "cpu", seed=9, observer=recorder, backend=backend)
        generator, td = torch.Generator().manual_seed(2), env.reset()
        for _ in range(decisions):
            _, td = env.step_and_maybe_reset(brawl(td, generator))
        assert env.form == backend
        recorded.append([vars(battle) for battle in recorder.finish(["a", "b"], ["c", "d"]).battles])
    for name in recorded[0][0]:
        for mine, dense in zip(*([battle[name] for battle in battles] for battles in recorded), strict=True):
            np.testing.assert_equal(mine, dense, err_msg=name)
    for name in ("beams", "flights", "waypoints", "harms", "deaths", "conditions", "voxels"):
        assert sum(len(battle[name]) for battle in recorded[0]) > 0, name


def test_recording_reads_nothing_on_the_host():
    env = EchelonEnv(BUSY, 2, "cpu", seed=8, observer=Recorder([0, 1]), backend="eager")
    env.restarts_by_row = False
    generator, td = torch.Generator().manual_seed(2), env.reset()
    _, td = env.step_and_maybe_reset(brawl(td, generator))
    with HostReads() as host:
        env.step_and_maybe_reset(brawl(td, generator))
    assert host.reads == Counter()


def test_replay_does_not_depend_on_the_batch_row():
    """A battle recorded alone equals the same battle recorded in row 2 of three."""
    seeds = torch.tensor([11, 12, 13])
    kept = []
    for own, place in ((seeds, 2), (seeds[2:], 0)):
        recorder = Recorder([place])
        env = EchelonEnv(BUSY, len(own), "cpu", seed=own, observer=recorder)
        td = env.reset()
        for _ in range(20):
            td = told(env, td, *((n, Act.FORWARD, 1.0) for n in range(10)), *((n, Act.PRIMARY, 1.0) for n in range(10)))
            _, td = env.step_and_maybe_reset(td)
        kept.append(recorder.finish(["x"], ["y"]).battles[0])
    one, other = kept
    assert one.about == other.about
    for field in dataclasses.fields(one):
        if field.name not in ("about", "observations"):
            assert np.array_equal(getattr(one, field.name), getattr(other, field.name)), field.name


# A scene with known events


@pytest.fixture(scope="module")
def scene():
    """Blue's heavy fires gauss at red's scout, blue's scout fires smoke; a wall is out of the way."""
    rules = RulesConfig(max_episode_s=2.0)
    config = dataclasses.replace(SMALL, blue=("heavy", "scout"), red=("scout",), rules=rules)
    recorder = Recorder([0])
    env = arena(config, (2, 3, 2, 3, 1, 3, Material.SOLID))
    env.observer = recorder
    td = env.reset()
    mechs = env.state.mechs
    mechs.pos[0, 0, :2], mechs.pos[0, 1, :2], mechs.pos[0, 2, :2] = (
        torch.tensor(p) for p in ([10.5, 20.5], [10.5, 30.5], [20.5, 20.5])
    )
    mechs.yaw[0] = 0.0
    recorder.opening(env.sim_model, env.state, env.map_pool.initial_observations[env.state.map_id])
    for d in range(8):
        orders = [(0, Act.TERTIARY, 1.0), (1, Act.SPECIAL, 1.0)] if d == 0 else []
        _, td = env.step_and_maybe_reset(told(env, td, *orders))
    return recorder.finish(["blue"], ["red"])


def test_slug_is_launched_and_hits(scene):
    (flight,) = [row for row in scene.battles[0].flights.tolist() if row[3] == Weapon.GAUSS]
    launch, end, shooter, _, lock, met, victim, _, points, by = flight
    assert by == NO_INDEX
    assert (launch, shooter, lock, met, victim) == (0, 0, NO_INDEX, FlightEnd.MECH, 2)
    assert end == 5 and points == 6  # 10 vox minus the scout's sphere, at 2 vox per tick
    (harm,) = scene.battles[0].harms.tolist()
    assert harm[:3] == [end, 0, 2] and harm[3:] == [
        60 * POINTS,
        Weapon.GAUSS,
    ]  # a slug in the back, 75, kills a scout with 60
    (death,) = scene.battles[0].deaths.tolist()
    assert death == [end, 2, 0, Weapon.GAUSS]


def test_smoke_appears_where_its_flight_ended(scene):
    battle = scene.battles[0]
    assert battle.about["outcome"]["winner"] == "blue" and battle.about["outcome"]["reason"] == "elimination"
    assert len(battle.clouds) == 0  # the battle ended while the shot was in the air
    (flight,) = [row for row in battle.flights.tolist() if row[3] == Weapon.SMOKE]
    assert flight[FLIGHTS.index("met")] == FlightEnd.BATTLE_END


def test_clouds_start_at_the_end_of_their_flight():
    config = dataclasses.replace(SMALL, blue=("scout",), red=("scout",))
    recorder = Recorder([0])
    env = arena(config)
    env.observer = recorder
    td = env.reset()
    for d in range(12):
        _, td = env.step_and_maybe_reset(told(env, td, *([(0, Act.SPECIAL, 1.0)] if d == 0 else [])))
    battle = recorder.finish(["blue"], ["red"]).battles[0]
    (cloud,) = battle.clouds.tolist()
    (flight,) = battle.flights.tolist()
    assert cloud[CLOUDS.index("tick")] == flight[FLIGHTS.index("end_tick")] == 27  # 20 vox at 15 vox/s
    assert cloud[CLOUDS.index("end_tick")] == 27 + 200
    assert cloud[3:] == battle.waypoints[-1].tolist()


def test_common_data_of_the_battles(scene):
    about = scene.about
    assert [mech["hull"] for mech in about["mechs"]] == ["heavy", "scout", "scout"]
    assert about["teams"] == {"blue": [0, 2], "red": [2, 3]} and about["size"] == [40, 40, 16]
    assert about["mechs"][0]["weapons"] == ["laser", "missile", "gauss", "smoke"]
    assert about["hulls"][Hull.HEAVY] == "heavy" and about["mechs"][0]["squad"] == [1]


def test_recording_a_row_out_of_range_raises():
    env = EchelonEnv(BUSY, 2, "cpu", seed=8, observer=Recorder([2]))
    with pytest.raises(ConfigError, match=r"Recorder.battles must be below 2 battles, got \[2\]"):
        env.reset()
