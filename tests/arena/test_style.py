"""Fighting styles as numbers."""

import dataclasses
import json
import math

import pytest
import torch
from builders import short_battles

import echelon
from echelon.agents.heuristic import Heuristic
from echelon.agents.view import look
from echelon.arena.style import CONTACT_VOX, MEASURES, WATCHED, Style, Watcher, watched
from echelon.env.env import EchelonEnv
from echelon.env.tasks.task import Protocol, Task
from echelon.rules.config import EnvConfig
from echelon.rules.versions import current_versions
from echelon.runtime.errors import ConfigError

BRIEF = short_battles(12)
SMALL = dataclasses.replace(EnvConfig.small(), map_pool=2)
PROTOCOL = Protocol(opponents=("heuristic:easy", "heuristic:hard"), battles=4, seed=9)
TASK = Task("tests/brief-v1", "a few decisions", BRIEF, *current_versions(), protocol=PROTOCOL)
CPU = torch.device("cpu")


def made(response=(("easy", 0.5),), **numbers: float) -> Style:
    zeros = {"share_laser": 0.0, "share_gauss": 0.0, **{name: 0.0 for name in MEASURES if name != "share"}}
    return Style("mine", "small", "f", {**zeros, **numbers}, dict(response), (1, 2), {})


def test_a_distance_is_a_root_mean_square_of_scaled_differences():
    none, scale = made(), {name: one.scale for name, one in MEASURES.items()}
    assert none.distance(none) == 0 and none.names == made(heat=1.0).names
    far = made(range=2 * scale["range"], heat=-scale["heat"])
    assert far.distance(none) == none.distance(far) == pytest.approx(math.sqrt(5 / len(MEASURES)))
    everything = {name: value for name, value in scale.items() if name != "share"}
    assert made(**everything, share_laser=scale["share"]).distance(none) == pytest.approx(1.0)
    assert dict(zip(far.names, far.vector, strict=True))["range"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "change", [{"fingerprint": "g"}, {"seeds": (1,)}, {"response": {"hard": 0.5}}, {"numbers": {}}]
)
def test_styles_of_other_battles_are_not_compared(change):
    with pytest.raises(ConfigError, match="the other style must be measured in the same battles of small"):
        made().distance(dataclasses.replace(made(), **change))


def views_of(env: EchelonEnv, near: float):
    """Return both teams' views at their spawns, with red moved by a share of the distance to blue."""
    now, world = env.reset(), env.config.world
    size = torch.tensor([world.size_x, world.size_y]).float()
    blue, red = (look(now[group], size, float(world.longest_side)) for group in ("blue", "red"))
    red.position.add_(near * (blue.position.mean(1, keepdim=True) - red.position.mean(1, keepdim=True)))
    return blue, red


def test_watched_quantities_match_the_mechs():
    """The reference is computed mech by mech, with one mech dead and some too far for contact."""
    views = views_of(EchelonEnv(SMALL, 2, CPU, seed=3), 0.42)
    views[0].hp[0, 0] = 0.0
    told = dict(zip(WATCHED, watched(*views, torch.ones(views[0].hp.shape))[0].tolist(), strict=True))
    count = len(SMALL.blue)
    own, foe = views[0].position[0, 1:], views[1].position[0]
    assert [told[name] for name in ("mechs", "emit", "under_fire", "advance")] == [count - 1, count - 1, 0, 0]
    nearest = torch.cdist(own, foe).amin(1)
    near = nearest < CONTACT_VOX
    assert 0 < near.sum() < count - 1
    assert told["contacts"] == near.sum() and told["range"] == pytest.approx(nearest[near].sum().item(), rel=1e-4)
    assert told["spread"] == pytest.approx((own - own.mean(0)).norm(dim=-1).sum().item(), rel=1e-4)
    assert told["heat"] == pytest.approx(views[0].heat[0, 1:].sum().item())


def test_walking_towards_the_enemy_is_an_advance():
    blue, red = views_of(EchelonEnv(SMALL, 1, CPU, seed=3), 0.9)
    foe = red.position[:, None] - blue.position[:, :, None]
    towards = foe.gather(2, foe.norm(dim=-1).argmin(-1)[..., None, None].expand(-1, -1, 1, 2)).squeeze(2)
    towards = towards / towards.norm(dim=-1, keepdim=True)
    east, north = blue.heading.unbind(-1)
    ahead = towards[..., 0] * east + towards[..., 1] * north
    left = towards[..., 1] * east - towards[..., 0] * north
    blue.velocity.copy_(3.0 * torch.stack((ahead, left), -1))
    assert watched(blue, red, blue.heat)[0, WATCHED.index("advance")].item() == pytest.approx(
        3.0 * len(SMALL.blue), rel=1e-4
    )


def test_the_same_seeds_give_the_same_style_in_batches_of_any_size():
    found = echelon.style("hard", TASK, battles=4, device="cpu")
    again = echelon.style(Heuristic(BRIEF, "hard"), TASK, battles=4, device="cpu", batch=3)
    assert isinstance(found, echelon.Style) and found.numbers == again.numbers and found.distance(again) == 0
    assert again.policy == "policy" and found.response == again.response and found.response["heuristic:hard"] == 0.5
    other = echelon.style("easy", TASK, battles=4, device="cpu")
    assert found.distance(other) > 0
    told = json.loads(json.dumps(found.as_json()))
    assert (
        told["numbers"] == found.numbers
        and found.names == tuple(sorted(found.numbers))
        and told["seeds"] == list(found.seeds)
    )
    assert [line.split()[0] for line in str(found).splitlines()] == list(found.numbers)


def test_style_numbers_match_the_evaluation():
    found = echelon.style("hard", TASK, battles=4, device="cpu").numbers
    watcher = Watcher(TASK.evaluation_config)
    judged = echelon.evaluate("hard", TASK, battles=4, device="cpu", sink=watcher)
    own, foe = ([result.mean_stats(x) for result in judged.results.values()] for x in (True, False))
    damage, taken = (sum(stats["damage"] for stats in side) for side in (own, foe))
    assert found["dealt"] == pytest.approx(damage / (damage + taken) if damage else 0.0)
    lived_s = watcher.totals()["mechs"] * BRIEF.rules.decision_s / 4
    assert found["zone"] == pytest.approx(sum(stats["zone_s"] for stats in own) / lived_s)
    shares = [found[f"share_{weapon}"] for weapon in BRIEF.catalog.weapons]
    assert sum(shares) == pytest.approx(1.0 if damage else 0.0)
