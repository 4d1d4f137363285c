"""Pictures of a battle in a window, for environments whose `render_mode` is `human`."""

from __future__ import annotations

import numpy as np

from echelon.rules.config import EnvConfig

RENDER_MODES = ("human", "rgb_array")


def render_fps(config: EnvConfig) -> int:
    """Pictures in a second of a battle that is drawn once a decision."""
    return round(1 / (config.rules.dt_s * config.rules.decision_repeat))


class Window:
    """A window of matplotlib; on a machine without a display pictures are drawn and not shown."""

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
        """Close the window."""
        import matplotlib.pyplot as plt

        plt.close(self.figure)
