"""A battle as an MP4 video, read back by PyAV."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exported import small_course

from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.viewer.battle_picture import BattlePlan, framed, vox_px

pytestmark = pytest.mark.integrations
av = pytest.importorskip("av", exc_type=ImportError)


def pictures(path) -> tuple[list[Fraction], np.ndarray]:
    """Times and pixels of all frames."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        return [frame.pts * stream.time_base for frame in frames], np.stack(
            [f.to_ndarray(format="rgb24") for f in frames]
        )


def noise(height: int, width: int, count: int = 30) -> list[np.ndarray]:
    """Frames of smooth noise, so that a lossy codec keeps them."""
    rows, columns = np.mgrid[:height, :width]
    shades = [128 + 100 * np.sin(rows / 9 + k / 5) * np.cos(columns / 7) for k in range(count)]
    return [np.repeat(shade[..., None], 3, 2).astype(np.uint8) for shade in shades]


@pytest.mark.parametrize(("height", "width"), [(45, 61), (45, 60), (46, 61), (46, 62)])
def test_video_of_odd_size_is_padded_not_stretched(tmp_path, height, width):
    from echelon.viewer.exporters.video import write_video

    frames = noise(height, width)
    write_video(frames, tmp_path / "odd.mp4", 30)
    times, found = pictures(tmp_path / "odd.mp4")
    assert times == [Fraction(k, 30) for k in range(30)]
    assert found.shape == (30, height + height % 2, width + width % 2, 3)
    assert np.abs(found[:, :height, :width].astype(int) - np.stack(frames)).mean() < 3
    assert np.abs(found[:, -1].astype(int) - found[:, height - 1]).mean() < 6


def test_video_shows_a_battle_in_real_time(tmp_path):
    from echelon.viewer.exporters.video import FRAMES_PER_S, SIDE_PX, write

    course = small_course()
    write(course, tmp_path / "battle.mp4")
    times, found = pictures(tmp_path / "battle.mp4")
    assert times == [Fraction(k, FRAMES_PER_S) for k in range(6 * FRAMES_PER_S + 1)]
    plan = BattlePlan(course.replay, 0, course.ground, vox_px(course.replay, SIDE_PX))
    for number in (0, 47, 120):
        expected = np.asarray(framed(plan, course.battle, number / FRAMES_PER_S)).astype(int)
        shown = found[number][: expected.shape[0], : expected.shape[1]]
        other = found[(number + 60) % 121][: expected.shape[0], : expected.shape[1]]
        assert np.abs(shown - expected).mean() < 3 < np.abs(shown.astype(int) - other).max()


def test_two_videos_have_the_same_bytes(tmp_path):
    from echelon.viewer.exporters.video import write_video

    for name in ("one.mp4", "two.mp4"):
        write_video(noise(45, 61), tmp_path / name)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()


BLACK = np.zeros((8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "frames must be at least one frame, got 0"),
        ([BLACK, BLACK[:6]], r"frames must be all of shape \(8, 8, 3\), got \(6, 8, 3\)"),
        ([BLACK[..., 0]], r"frames must be \[H, W, 3\] uint8, got '\(8, 8\) uint8'"),
        ([BLACK / 2], r"frames must be \[H, W, 3\] uint8, got '\(8, 8, 3\) float64'"),
    ],
)
def test_bad_frames_print_one_line_and_leave_nothing(tmp_path, frames, message):
    from echelon.viewer.exporters.video import write_video

    with pytest.raises(ConfigError, match=message):
        write_video(frames, tmp_path / "bad.mp4")
    assert list(tmp_path.iterdir()) == []


def test_video_where_nothing_can_be_written_prints_one_line():
    from echelon.viewer.exporters.video import write_video

    with pytest.raises(FileError, match=r"^/proc/no/battle.mp4: cannot be written: "):
        write_video([BLACK], Path("/proc/no/battle.mp4"))
