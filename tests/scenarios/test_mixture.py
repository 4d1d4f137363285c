"""One batch of scenarios with other teams, time limits and winning scores, and of the plain battle."""

import dataclasses

import pytest
import torch

import echelon
from echelon import EnvConfig, Scene
from echelon.agents.line import LineCommander
from echelon.agents.names import policy_of
from echelon.arena.batch_arena import BatchArena, Battle
from echelon.arena.config import ArenaConfig
from echelon.arena.match import battle_seeds
from echelon.arena.skills import SEED
from echelon.env.outcome import Winner
from echelon.rules.position import Objective, Position
from echelon.rules.scenario import read_scenario
from echelon.runtime.errors import ConfigError
from echelon.scenarios.piece import find_piece
from echelon.scenarios.scene import config_of_words
from echelon.world.authored_maps import maps_of

CPU = torch.device("cpu")
SMALL = dataclasses.replace(EnvConfig.small(), map_pool=3)
OF_MECHS = ("spawn_pos", "spawn_yaw", "spawn_hp", "spawn_leg_hp")


def still(td):
    """Set actions that do nothing."""
    for group in ("blue", "red"):
        td.set((group, "action"), torch.zeros(*td[group, "mask"].shape, 26))
    return td


def mixture(*names: str) -> EnvConfig:
    return config_of_words(names, SMALL)


def test_teams_contain_the_mechs_of_every_scenario_and_the_others_are_absent():
    config = mixture("plain", "missile_guard", "outrange")
    assert config.blue == ("heavy", "medium", "medium", "light", "scout", "heavy") and config.red == SMALL.red
    guard, outrange = config.positions[-2:]
    assert guard.present == ["blue_0", "blue_3", "blue_5", "red_0", "red_4"]
    assert outrange.present == ["blue_1", "red_1", "red_2"]
    assert guard.objective.mech == "blue_3" and guard.named[3][1].x == 10, "the escorted light keeps its role and place"
    env = echelon.EchelonEnv(config, 64, "cpu", seed=0, backend="eager")
    seen = env.reset()
    for number, position in ((3, guard), (4, outrange)):
        rows = env.state.map_id == number
        assert rows.any() and not rows.all()
        shown = torch.cat([seen["blue", "mask"], seen["red", "mask"]], 1)[rows]
        assert shown.eq(torch.tensor([name in position.present for name, _ in position.named])).all()


def test_plain_positions_have_maps_of_the_preset():
    config, preset = mixture("plain:3", "missile_guard"), SMALL
    mixed, plain = maps_of(config, CPU), maps_of(preset, CPU)
    present = [0, 1, 2, 3, 4, *range(6, 11)]
    for name in plain.__dataclass_fields__:
        leaf = mixed.get(name)[:3]
        if name in OF_MECHS or name in ("spawn_places", "spawn_heat", "spawn_cooldown", "runner"):
            leaf = leaf[:, present]
        assert torch.equal(leaf, plain.get(name)), name
    assert mixed.spawn_hp[:3, 5].eq(0).all() and [p.weight for p in config.positions] == [3, 3, 3, 3]
    assert [p.map_index for p in config.positions] == [0, 1, 2, -1]


def test_each_position_keeps_its_time_limit_and_winning_score():
    long = Scene(zone=(12, 20, 5)).place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20)).scenario
    rules = dataclasses.replace(long.settings.rules, max_episode_s=2.0, zone_score_to_win_s=1.0)
    short = dataclasses.replace(long, settings=dataclasses.replace(long.settings, rules=rules))
    hold = dataclasses.replace(short, objective=Objective("hold", attackers="red", control_s=5.0))
    config = echelon.scene_config([long, short, hold])
    assert [position.longest_s for position in config.positions] == [0, 2, 2]
    assert [position.objective.control_s for position in config.positions] == [0, 1, 5]
    env = echelon.EchelonEnv(config, 24, "cpu", seed=0, backend="eager")
    start = env.reset()
    which, seeds = env.state.map_id.clone(), env.state.seed.clone()
    td = env.rollout(8, auto_reset=False, tensordict=start, break_when_any_done=False, policy=still)
    ended = td["next", "done"][..., 0]
    for number, scenario in enumerate((long, short, hold)):
        one = echelon.EchelonEnv(scenario.config, 1, "cpu", seed=seeds[which == number][:1], backend="eager")
        alone = one.rollout(8, break_when_any_done=False, policy=still)
        first = int(ended[which == number][0].float().argmax()) + 1  # battles after it may begin elsewhere
        assert torch.equal(ended[which == number][0, :first], alone["next", "done"][0, :first, 0])
        shown, expected = (each["next", "blue", "observation", "ego"] for each in (td[which == number], alone))
        assert torch.allclose(shown[0, :3], expected[0, :3], atol=1e-4), "as in its own batch"
    assert not ended[which == 0].any() and ended[which == 1][:, 3].all() and ended[which == 2][:, 7].all()


def test_loops_show_each_position_its_own_clock():
    config = mixture("plain", "wait", "missile_guard")
    shown = {}
    for backend in ("loops", "eager"):
        env = echelon.EchelonEnv(config, 12, "cpu", seed=3, backend=backend)
        td = env.reset()
        torch.manual_seed(0)
        for _ in range(4):
            for group in env.group_map:
                td.set((group, "action"), 2 * torch.rand(*td[group, "mask"].shape, 26) - 1)
            _, td = env.step_and_maybe_reset(td)
        shown[backend] = td
        assert len(env.state.map_id.unique()) > 2
    for group in ("blue", "red"):
        for stream, leaf in shown["loops"][group, "observation"].items():
            assert torch.equal(leaf, shown["eager"][group, "observation", stream]), (group, stream)


@pytest.mark.parametrize("name", ["jump_wall", "outrange"])
def test_line_wins_its_piece_among_other_scenarios(name):
    piece, config = find_piece(name), mixture(name, "missile_guard", "outrange", "jump_wall")
    alone = dataclasses.replace(config, positions=config.positions[:1], map_pool=1)
    slots = [i for i, (_, unit) in enumerate(alone.positions[0].named) if unit.team == "blue" and unit.hp > 0]
    lines = [()] * len(config.blue)
    for slot, line in zip(slots, piece.line, strict=True):
        lines[slot] = line
    policies = {
        "line": LineCommander(lines, config.blue, piece_rules(alone, piece)),
        "other": policy_of(piece.opponent, alone, CPU),
    }
    arena = BatchArena(alone, policies.__getitem__, ArenaConfig(CPU, batch=8))
    played = arena.play_all([Battle("line", "other", seed) for seed in battle_seeds(SEED, 16)])
    won = [result.winner == Winner.BLUE for batch in played for result in batch.results]
    assert sum(won) >= 7


def piece_rules(config, piece):
    rules = piece.scenario.settings.rules
    return dataclasses.replace(config, rules=rules)


def test_opponent_of_each_scenario_is_played():
    config = mixture("plain", "jump_wall", "wait")
    assert [position.opponent for position in config.positions] == ["", "", "", "heuristic:trivial", "heuristic:hard"]
    mixed = policy_of("scenario:easy", config, CPU)
    env = echelon.EchelonEnv(config, 64, "cpu", seed=1, backend="eager", memory=mixed.memory_spec())
    td, which = env.reset(), env.state.map_id.clone()
    for group in ("red", "blue"):
        team = (
            td.get(group)
            .copy()
            .set("telemetry", td.get("telemetry")[:, None].expand(-1, td.get(group).shape[1], -1, -1))
        )
        decided = mixed(team.copy())
        assert decided["next", "memory", "position"][:, 0, 0].sub(1).tolist() == which.tolist()
        for number, tier in {which.min().item(): "easy", 3: "trivial", 4: "hard"}.items():
            rows = which == number
            assert rows.any()
            alone = policy_of(f"heuristic:{tier}", config, CPU)(team[rows].copy())
            assert torch.equal(decided["action"][rows], alone["action"])


def test_scenario_file_with_generated_maps_and_opponent(tmp_path):
    one = dataclasses.replace(find_piece("wait").scenario, maps=2, opponent="heuristic:easy")
    one.save(tmp_path / "it.json")
    assert read_scenario(tmp_path / "it.json") == one and [p.map_index for p in one.positions] == [0, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: mixture("plan"), r"^a scenario must be one of .*, plain, or the path of a JSON file, got 'plan'$"),
        (lambda: mixture("wait:0"), r"^Position.weight must be 1..100 times as often as one of weight 1, got 0$"),
        (lambda: policy_of("scenario:strong", SMALL, CPU), r"^a scripted commander must be heuristic:trivial"),
        (
            lambda: dataclasses.replace(
                mixture("wait"), positions=(dataclasses.replace(mixture("wait").positions[0], longest_s=16.0),)
            ),
            r"^Position.longest_s must be 0 or 0.25..15 s, got 16.0$",
        ),
        (lambda: Position((), map_index=-2), r"^Position.map_index must be -1..99999, got -2$"),
        (
            lambda: dataclasses.replace(find_piece("split_up").scenario, maps=1).config,
            r"^Position.objective must be one zone, because the map is generated, got 'king_of_two'$",
        ),
    ],
)
def test_invalid_mixture_raises_one_line(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
