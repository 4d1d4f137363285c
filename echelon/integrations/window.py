"""Pictures of a battle in a window, for environments whose `render_mode` is `human`."""

from __future__ import annotations

import numpy as np
from gymnasium import logger

from echelon.rules.config import EnvConfig
from echelon.runtime.fallback import fall_back
from echelon.views.view import View

RENDER_MODES = ("human", "rgb_array")


def render_fps(config: EnvConfig) -> int:
    """Pictures in a second of a battle that is drawn once a decision."""
    return round(1 / (config.rules.dt_s * config.rules.decision_repeat))


WITHOUT_WINDOWS = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Backends of matplotlib that write files; without a display it takes `agg`."""


class Window:
    """A window of matplotlib."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt

        with plt.ion():
            self.figure = plt.figure("Echelon")
        self.image = self.figure.add_axes((0.0, 0.0, 1.0, 1.0)).imshow(np.zeros((2, 2, 3), np.uint8))
        self.image.axes.set_axis_off()

    def show(self, frame: np.ndarray) -> None:
        """Show `frame [H, W, 3]` uint8 in place of the one before."""
        height, width = frame.shape[:2]
        self.image.set_data(frame)
        self.image.set_extent((0, width, height, 0))
        self.figure.canvas.draw()
        self.figure.canvas.flush_events()

    def close(self) -> None:
        import matplotlib.pyplot as plt

        plt.close(self.figure)


def can_show() -> bool:
    """Whether matplotlib can open a window here; if not, the log says so once a process."""
    import matplotlib

    backend = matplotlib.get_backend().lower()
    if backend not in WITHOUT_WINDOWS:
        return True
    fall_back(
        f"render_mode='human' draws nothing: no display, or matplotlib's backend has no windows ({backend}); "
        "render_mode='rgb_array' returns pictures"
    )
    return False


class Rendered:
    """What environments of one battle have in common that are drawn by `view`, as their `render_mode` says."""

    view: View
    render_mode: str | None
    _window: Window | None = None

    def render(self) -> np.ndarray | None:
        """The battle from above, `[H, W, 3]` uint8, or in a window; None without a `render_mode`.

        Without a display `human` draws nothing, and says so in one line.
        """
        if self.render_mode is None:
            logger.warn("render is called without a render_mode: give one when the environment is made")
            return None
        if self.render_mode == "human" and not can_show():
            return None
        frame: np.ndarray = self.view.render()
        if self.render_mode == "rgb_array":
            return frame
        self._window = self._window or Window()
        self._window.show(frame)
        return None

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()
