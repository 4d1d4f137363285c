"""Pictures of battles from above."""

import numpy as np
import pytest
from PIL import Image
from scenes import DECISIONS, HEAVY, LIGHT, MATERIALS, SIZE, SOLID, ZONE, small_replay

from echelon.viewer.battle_picture import GIF_FRAME_MS, BattlePlan, draw_gif
from echelon.viewer.topdown import TEAM, shade

VOX_PX = 8


@pytest.fixture
def plan():
    replay, grounds = small_replay(1)
    return BattlePlan(replay, 0, grounds[0], VOX_PX)


def near(picture: np.ndarray, x: float, y: float, colour: tuple[int, int, int], reach_vox: float = 1.5) -> int:
    """Pixels of about a colour around a point of the ground."""
    column, row, reach = round(x * VOX_PX), round((SIZE[1] - y) * VOX_PX), round(reach_vox * VOX_PX)
    part = picture[max(row - reach, 0) : row + reach, max(column - reach, 0) : column + reach].astype(int)
    return int((np.abs(part - colour).sum(-1) < 60).sum())


def test_gif_has_changing_frames(tmp_path):
    replay, grounds = small_replay(1)
    draw_gif(replay, 0, grounds[0], tmp_path / "battle.gif", seconds=2)
    with Image.open(tmp_path / "battle.gif") as picture:
        assert picture.format == "GIF" and picture.n_frames == 26
        first = np.asarray(picture.convert("RGB")).astype(int)
        picture.seek(12)
        assert np.abs(np.asarray(picture.convert("RGB")) - first).max() > 60
    assert (tmp_path / "battle.gif").stat().st_size < 3_000_000


def test_gif_has_requested_range_and_size(tmp_path):
    replay, grounds = small_replay(1)
    asked = []

    def drawn(times, count):
        asked.extend(times)
        assert count == len(times)
        return times

    draw_gif(replay, 0, grounds[0], tmp_path / "part.gif", 1.0, 240, (2.0, 4.0), drawn)
    assert asked[0] == 2.0 and asked[-1] == 4.0 and len(asked) == 14
    with Image.open(tmp_path / "part.gif") as picture:
        assert picture.n_frames == 14 and picture.width == SIZE[0] * 10 + 24


def shown_ms(path) -> list[int]:
    """How long each frame of a GIF stays, as a reader finds it."""
    with Image.open(path) as picture:
        return [picture.seek(number) or picture.info["duration"] for number in range(picture.n_frames)]


@pytest.mark.parametrize("speed", [1.0, 2.0, 0.75])
def test_a_gif_keeps_the_speed_that_was_asked_for(tmp_path, speed):
    """A frame stays for as long as the battle took until the next frame, divided by the speed."""
    replay, grounds = small_replay(1)
    asked = []

    def drawn(times, count):
        asked.extend(times)
        return times

    draw_gif(replay, 0, grounds[0], tmp_path / "battle.gif", 6.0 / speed, 100, (0.0, 6.0), drawn)
    frames_ms = shown_ms(tmp_path / "battle.gif")
    assert sum(frames_ms[:-1]) == pytest.approx(6000 / speed, abs=GIF_FRAME_MS)
    starts_ms = np.cumsum([0, *frames_ms[:-1]])
    assert starts_ms[:-1] == pytest.approx(np.array(asked[:-1]) * 1000 / speed)
    assert asked[-1] == 6.0


def test_mechs_are_drawn_at_recorded_positions(plan):
    opening = np.asarray(plan.draw(0.0))
    for n, side in ((HEAVY, 0), (LIGHT, 1)):
        assert near(opening, *plan.pose(n, 0.0)[:2], TEAM[side]) > 50
    later = np.asarray(plan.draw(5.9))
    assert near(later, *plan.pose(LIGHT, 5.9)[:2], TEAM[1]) < 5


def test_pose_is_interpolated(plan):
    half_way = plan.pose(HEAVY, 0.125)
    assert half_way[0] == pytest.approx(4.075, abs=0.01) and half_way[1] == pytest.approx(8.0)


def test_yaw_interpolation_takes_short_way(plan):
    yaw = plan.battle.yaw.copy()
    yaw[0, HEAVY], yaw[1, HEAVY] = 25000, -25000  # 3.05 rad and -3.05 rad: 0.18 rad apart
    object.__setattr__(plan.battle, "yaw", yaw)
    assert plan.pose(HEAVY, 0.125)[2] == pytest.approx(np.pi, abs=0.01)


def test_the_zone_is_marked(plan):
    assert near(np.asarray(plan.draw(0.0)), ZONE[0], ZONE[1] + ZONE[2], (255, 255, 255), 0.5) > 10


def test_score_and_living_mechs_are_drawn(plan):
    assert plan.score(0, 0.0) == 0 and plan.score(0, DECISIONS * 0.25) == pytest.approx(4.0)
    assert [plan.living(side, 0.0) for side in (0, 1)] == [2, 2]
    assert [plan.living(side, 6.0) for side in (0, 1)] == [1, 1]


def test_broken_voxels_disappear_and_return_on_rewind(plan):
    before, after = np.asarray(plan.floor(0.0)), np.asarray(plan.floor(5.0))
    assert (before != after).any() and (np.asarray(plan.floor(0.0)) == before).all()


def test_higher_ground_is_lighter_and_casts_a_shadow():
    ground = np.zeros((8, 9, 9), np.uint8)
    ground[0] = 1
    ground[0:6, 4, 4] = SOLID
    lit = shade(ground, list(MATERIALS)).astype(int).sum(-1)
    assert lit[3, 5] < lit[8, 0] * 0.9  # away from the sun
    ground[2:6, 4, 4] = 0
    assert shade(ground, list(MATERIALS)).astype(int).sum(-1)[4, 4] < lit[4, 4]
