"""Export of a battle, seen from above, as an MP4 video (H.264)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import av
import numpy as np

from echelon.runtime.errors import require
from echelon.runtime.files import FileError, atomic_write
from echelon.runtime.terminal import tracked
from echelon.viewer.battle_picture import BattlePlan, framed, vox_px
from echelon.viewer.exporters.course import BattleTimeline

FRAMES_PER_S = 20
SIDE_PX = 640
"""About the longer side of the map."""
CODEC, PIXELS = "libx264", "yuv420p"
"""What browsers, slides and phones play. The pixels need an even width and height."""


def write(course: BattleTimeline, path: Path, quiet: bool = False) -> None:
    """Write a battle as a video in real time.

    Frame k shows the time k / `FRAMES_PER_S` seconds; the last frame shows the end.

    Args:
        course: the battle.
        path: the file to write; an existing file is replaced.
        quiet: whether to hide the progress bar.

    Raises:
        FileError: if the file cannot be written.
    """
    plan = BattlePlan(course.replay, course.index, course.ground, vox_px(course.replay, SIDE_PX))
    count = -(-course.seconds(int(course.moments[-1])) * FRAMES_PER_S // 1)
    times = [min(number / FRAMES_PER_S, plan.length_s) for number in range(int(count) + 1)]
    shown = times if quiet else tracked(times, "frames", len(times))
    write_video((np.asarray(framed(plan, course.battle, time)) for time in shown), path, FRAMES_PER_S)


def write_video(frames: Iterable[np.ndarray], path: Path | str, frames_per_s: int = FRAMES_PER_S) -> None:
    """Write frames, such as those of `env.render(mode="rgb_array")`, as an MP4 video.

    A frame of odd width or height is padded by repeating its last column or row. It is never stretched.

    Args:
        frames: at least one frame `[H, W, 3]` uint8 RGB; all have the same shape.
        frames_per_s: frame rate, 1..240.

    Raises:
        ConfigError: if there is no frame, or a frame has another shape or type.
        FileError: if the file cannot be written.
    """
    require(1 <= frames_per_s <= 240, "frames_per_s", "1..240", frames_per_s)
    shape = None
    with atomic_write(Path(path)) as draft:
        try:
            with av.open(str(draft), "w", format="mp4") as container:
                stream = container.add_stream(CODEC, rate=frames_per_s)
                stream.pix_fmt = PIXELS
                stream.options = {"threads": "1"}  # With more threads, the bytes depend on their number.
                for pixels in frames:
                    is_rgb = pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8
                    require(is_rgb, "frames", "[H, W, 3] uint8", f"{pixels.shape} {pixels.dtype}")
                    require(shape in (None, pixels.shape), "frames", f"all of shape {shape}", pixels.shape)
                    image = even(pixels)
                    if shape is None:
                        shape, (stream.height, stream.width) = pixels.shape, image.shape[:2]
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                require(shape is not None, "frames", "at least one frame", 0)
                container.mux(stream.encode())
        except av.error.FFmpegError as error:
            if isinstance(error, OSError):
                raise
            raise FileError(f"{path}: cannot be written: {error}") from None


def even(pixels: np.ndarray) -> np.ndarray:
    """Pad a frame `[H, W, 3]` at the bottom and the right, so that both sides are even."""
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
