"""A window for environments whose `render_mode` is `human`."""

from __future__ import annotations

import numpy as np
from gymnasium import logger

from echelon.rules.config import EnvConfig
from echelon.runtime.fallback import fall_back
from echelon.views.view import View

RENDER_MODES = ("human", "rgb_array")


def render_fps(config: EnvConfig) -> int:
    """Return the frame rate at which a battle with one frame per decision plays in real time."""
    return round(1 / (config.rules.dt_s * config.rules.decision_repeat))


WITHOUT_WINDOWS = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Matplotlib backends without windows; without a display matplotlib uses `agg`."""


class Window:
    """A matplotlib window."""

    def __init__(self) -> None:
        import matplotlib.pyplot as plt

        with plt.ion():
            self.figure = plt.figure("Echelon")
        self.image = self.figure.add_axes((0.0, 0.0, 1.0, 1.0)).imshow(np.zeros((2, 2, 3), np.uint8))
        self.image.axes.set_axis_off()

    def show(self, frame: np.ndarray) -> None:
        """Show `frame [H, W, 3]` uint8 in the window, in place of the last picture."""
        height, width = frame.shape[:2]
        self.image.set_data(frame)
        self.image.set_extent((0, width, height, 0))
        self.figure.canvas.draw()
        self.figure.canvas.flush_events()

    def close(self) -> None:
        import matplotlib.pyplot as plt

        plt.close(self.figure)


def can_show() -> bool:
    """Return whether matplotlib can open a window on this machine; if not, log this once per process."""
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
    """Mixin that renders environments of one battle (`view`) in the environment's `render_mode`."""

    view: View
    render_mode: str | None
    _window: Window | None = None

    def render(self) -> np.ndarray | None:
        """Render the battle from above: return `[H, W, 3]` uint8, or show it in a window.

        Without a `render_mode`, None is returned. With `render_mode="human"` and no display, nothing is drawn, and one
        line is logged.
        """
        if self.render_mode is None:
            logger.warn("render is called without a render_mode: pass one when creating the environment")
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
