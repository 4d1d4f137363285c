"""Pictures of one battle from above."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch
from builders import Scene, arena, brawl, flat_maps
from first_catalog import SMALL, Weapon
from torchrl.envs import Compose, TransformedEnv
from torchrl.record import CSVLogger, PixelRenderTransform, VideoRecorder

import echelon
from echelon.env.env import EchelonEnv
from echelon.rules.catalog import Material
from echelon.rules.config import ENV_PRESETS, WorldConfig
from echelon.runtime.errors import ConfigError
from echelon.viewer.topdown import CAPTION, GOLD, TEAM, TEAM_INK, WHITE

DUEL = dataclasses.replace(SMALL, map_pool=1, blue=("heavy",), red=("medium",))
VOX_PX, SIZE = 10, 40
"""Properties of pictures of small maps at the default size."""
WALL = (29, 32, 8, 11)
"""x0, x1, y0, y1."""


def scene_of(env: EchelonEnv) -> Scene:
    """Return its battles: blue at (10, 20) faces +x, red at (30, 20) faces blue."""
    return Scene(env.sim_model, env.state).place(0, 10, 20).place(1, 30, 20, yaw=math.pi)


@pytest.fixture
def env():
    env = arena(DUEL, num_envs=2)
    scene_of(env)
    return env


def around(picture: np.ndarray, x: float, y: float, reach_vox: float = 1.0) -> np.ndarray:
    """Return the pixels around a point of the map, `[rows, columns, 3]` int."""
    column, row, reach = round(x * VOX_PX), CAPTION + round((SIZE - y) * VOX_PX), round(reach_vox * VOX_PX)
    return picture[max(row - reach, CAPTION) : row + reach, max(column - reach, 0) : column + reach].astype(int)


def count(part: np.ndarray, colour: tuple[int, ...]) -> int:
    """Return the number of pixels with approximately this colour."""
    return int((np.abs(part - colour).sum(-1) < 60).sum())


def test_mechs_are_drawn_at_their_positions(env):
    picture = env.render()
    assert count(around(picture, 10, 20), TEAM[0]) > 300 and count(around(picture, 30, 20), TEAM[1]) > 200
    scene_of(env).place(0, 20.5, 33.5)
    later = env.render()
    assert count(around(later, 10, 20), TEAM[0]) == 0 and count(around(later, 20.5, 33.5), TEAM[0]) > 300


def test_dead_mechs_are_not_drawn(env):
    scene_of(env).set(1, hp=0)
    picture = env.render()
    assert count(picture[CAPTION:].astype(int), TEAM[1]) == 0
    assert count(around(picture, 10, 20), TEAM[0]) > 300


@pytest.mark.parametrize("values", [{"heat": 200.0}, {"fallen": 3}], ids=["shut_down", "fallen"])
def test_mech_that_cannot_act_is_paler(env, values):
    scene_of(env).set(0, **values)
    paler = tuple(round(c * 0.5 + 60) for c in TEAM[0])
    part = around(env.render(), 10, 20)
    assert count(part, paler) > 50 and count(part, TEAM[0]) == 0


def test_hot_mech_glows_and_painted_mech_has_a_ring(env):
    cool = env.render()
    scene = scene_of(env).set(0, heat=0.85 * env.sim_model.roster.heat_cap[0].item()).paint(1, painter=0)
    picture = env.render()
    assert count(around(picture, 10, 20), (255, 208, 92)) > 100 > count(around(cool, 10, 20), (255, 208, 92))
    ring = around(picture, 30, 20, 3) - around(cool, 30, 20, 3)
    assert ring.any() and not ring[20:40, 20:40].any()
    scene.set(0, heat=0.0).set(1, paint=0)
    assert (env.render() == cool).all()


@pytest.mark.parametrize("material", [Material.SOLID, Material.GLASS, Material.WATER, Material.LAVA])
def test_topmost_material_is_drawn(env, material):
    box = (*WALL, *((1, 5) if material in (Material.SOLID, Material.GLASS) else (0, 1)), material)
    other = arena(DUEL, box, num_envs=2)
    scene_of(other)
    changed = (env.render() != other.render()).any(-1)
    assert np.abs(around(env.render(), 30.5, 9.5) - around(other.render(), 30.5, 9.5)).sum(-1).min() > 20
    assert not changed[:, : 20 * VOX_PX].any()


def test_destroyed_voxel_is_not_drawn(env):
    walled = arena(DUEL, (*WALL, 1, 5, Material.SOLID), num_envs=2)
    scene_of(walled)
    whole = walled.render()
    for columns in (walled.state.terrain.solid, walled.state.terrain.opaque):
        columns[0, 9, 30] &= 1
    broken = walled.render()
    hole = np.abs(around(whole, 30.5, 9.5, 0.3) - around(broken, 30.5, 9.5, 0.3))
    assert hole.sum(-1).min() > 20 and (whole == walled.render(battle=1)).all()
    x0, x1, y0, y1 = WALL
    for columns in (walled.state.terrain.solid, walled.state.terrain.opaque):
        columns[0, y0:y1, x0:x1] &= 1
    assert (walled.render() == env.render()).all()


def test_rubble_is_drawn(env):
    open_ground = env.render()
    env.state.terrain.rubble[0, 9, 30] |= 0b10
    env.state.terrain.solid[0, 9, 30] |= 0b10
    assert np.abs(around(env.render(), 30.5, 9.5, 0.3) - around(open_ground, 30.5, 9.5, 0.3)).sum(-1).min() > 100


@pytest.mark.parametrize("held", [(0.0, 0.0), (1.0, 0.0), (0.0, 0.25), (0.25, 0.25)], ids=str)
def test_zone_has_the_colour_of_the_controlling_team(env, held):
    env.state.control[:] = torch.tensor(held)
    colour = {(False, False): WHITE, (True, False): TEAM[0], (False, True): TEAM[1], (True, True): GOLD}
    assert count(around(env.render(), 20, 20 + 7.4, 0.5), colour[tuple(share > 0 for share in held)]) > 10


def test_shots_and_smoke_are_drawn(env):
    empty = env.render()
    scene = scene_of(env).throw(Weapon.GAUSS, 0, (20, 5, 3), (40, 0, 0), ttl=3)
    slug = env.render()
    assert count(around(slug, 19.5, 5, 0.4), (225, 244, 255)) > 5
    assert (around(slug, 22, 5) == around(empty, 22, 5)).all(), "no trail ahead of it"
    scene.throw(Weapon.MISSILE, 0, (20, 36, 3), (0, 12, 0), ttl=3)
    assert (around(env.render(), 20, 34, 0.5) != around(empty, 20, 34, 0.5)).any()
    scene.smoke(0, 35, 35, 2)
    assert around(env.render(), 35, 35).min() > 190
    scene.smoke(0, 35, 35, 2, ttl=0)
    assert (around(env.render(), 35, 35) == around(empty, 35, 35)).all()


def test_scores_and_clock_are_above_the_map(env):
    def bar(picture: np.ndarray, team: str) -> int:
        return count(picture[27:33].astype(int), TEAM_INK[team])

    before = env.render()
    env.state.score[:] = torch.tensor([15.0, 3.0])
    after = env.render()
    assert bar(after, "blue") > 4 * bar(after, "red") > 4 * bar(before, "red")
    assert (before[CAPTION:] == after[CAPTION:]).all()
    env.state.tick[:] = 1000
    assert (env.render()[:CAPTION] != after[:CAPTION]).any()


@pytest.mark.parametrize("name", ENV_PRESETS)
def test_every_preset_is_drawn_before_reset(name):
    config = dataclasses.replace(ENV_PRESETS[name](), map_pool=1)
    env = EchelonEnv(config, device="cpu", seed=0, maps=flat_maps(config))
    picture = env.render()
    assert picture.shape == (CAPTION + 400, 400, 3) and picture.dtype == np.uint8 and picture.flags.writeable
    assert all(count(picture.astype(int), colour) > 100 for colour in TEAM)


@pytest.mark.parametrize("side_px", [32, 97, 300, 345])
def test_picture_sides_are_even_and_the_longer_is_as_requested(side_px):
    config = dataclasses.replace(DUEL, world=WorldConfig(41, 33, 16))
    height, width, _ = arena(config).render(side_px=side_px).shape
    assert height % 2 == width % 2 == 0 and abs(width - side_px) <= 1
    field = height - (CAPTION if width >= 340 else 0)
    assert abs(field - side_px * 33 / 41) <= 1


def test_generated_map_and_running_battle_are_drawn():
    env = EchelonEnv(dataclasses.replace(SMALL, map_pool=2), 3, "cpu", seed=4)
    other = EchelonEnv(env.config, 3, "cpu", seed=4, maps=env.sim_model.maps)
    begun = other.reset()
    td, generator, again = env.reset(), torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
    for _ in range(6):
        before = env.state.clone()
        pictures = [env.render(battle=battle) for battle in range(3)]
        assert (before == env.state).all()
        assert all((picture == env.render(battle=b)).all() for b, picture in enumerate(pictures))
        td, begun = env.step(brawl(td, generator))["next"], other.step(brawl(begun, again))["next"]
    assert (td == begun).all(), "rendering changes nothing"
    assert (pictures[0] != pictures[1]).any()


def test_render_after_restart_shows_the_new_battle(env):
    td = env.reset()
    first = env.render(battle=1)
    scene_of(env).set(1, hp=0)
    done = td.select().set("done", torch.ones(2, 1, dtype=torch.bool))
    assert (env.render(battle=1) != first).any()
    env.maybe_reset(td.update(done))
    assert (env.render(battle=1) == first).all()


def test_copies_render_the_same(env):
    scene_of(env).place(0, 22.2, 13.7, yaw=0.4)
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):  # noqa: S301 - own data
        assert (copied.render() == env.render()).all()


def test_battle_index_has_two_names_and_vmas_arguments_are_ignored(env):
    env.state.mechs.pos[1, 0, :2] = torch.tensor([5.0, 5.0])
    second = env.render(battle=1)
    assert (second != env.render()).any()
    assert (second == env.render("rgb_array", env_index=1, agent_index_focus=None, visualize_when_rgb=True)).all()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"mode": "human"}, "mode must be 'rgb_array', got 'human'"),
        ({"battle": 2}, "battle must be 0..1, got 2"),
        ({"env_index": -1}, "battle must be 0..1, got -1"),
        ({"battle": "first"}, "battle must be 0..1, got 'first'"),
        ({"side_px": 8}, "side_px must be 32..4096 px, got 8"),
        ({"side_px": 99.5}, "side_px must be 32..4096 px, got 99.5"),
    ],
    ids=str,
)
def test_invalid_render_arguments_raise_one_line(env, asked, words):
    with pytest.raises(ConfigError) as refused:
        env.render(**asked)
    assert str(refused.value) == words


def test_unknown_render_argument_raises(env):
    with pytest.raises(TypeError, match="unexpected keyword argument 'battel'"):
        env.render(battel=1)


@pytest.mark.parametrize("view", ["env", "versus"])
def test_torchrl_records_a_video(tmp_path, view):
    if view == "env":
        base = EchelonEnv(DUEL, 2, "cpu", seed=0, maps=flat_maps(DUEL))
    else:
        base = echelon.versus(DUEL, "heuristic:easy", 2, "cpu", 0, maps=flat_maps(DUEL))
    logger = CSVLogger("battles", str(tmp_path), video_format="pt")
    pixels = PixelRenderTransform(mode="rgb_array", battle=1, side_px=64, agent_index_focus=None)
    env = TransformedEnv(base, Compose(pixels, VideoRecorder(logger, "battle", skip=1)))
    played = env.rollout(3)
    assert played.batch_size == (2, 3)
    env.transform.dump()
    (path,) = tmp_path.rglob("*.pt")
    video = torch.load(path, weights_only=True)
    assert video.shape == (1, 4, 3, 64, 64) and video.dtype == torch.uint8
    assert (video[0, -1].permute(1, 2, 0).numpy() == base.render(battle=1, side_px=64)).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_renders_like_a_cpu(env):
    there = arena(DUEL, num_envs=2).to("cuda")
    there.state = env.state.to("cuda")
    assert (there.render() == env.render()).all()
