"""Figures on a canvas."""

import dataclasses
import math

import numpy as np
import pytest
from PIL import Image, ImageDraw

from echelon.viewer.topdown import (
    GOLD,
    TEAM,
    WHITE,
    Canvas,
    MechFigure,
    draw_bar,
    draw_clouds,
    draw_mech,
    draw_shot,
    draw_zone,
)

GREY = (90, 90, 90)
CANVAS = Canvas(20, 4)
SIDE = 20 * CANVAS.scale
MECH = MechFigure(x=10.0, y=10.0, yaw=0.0, side=0, width_vox=2.5, hp=1.0, heat=0.0, is_out=False, is_painted=False)


@pytest.fixture
def paper():
    return Image.new("RGB", (SIDE, SIDE), GREY)


def at(picture: Image.Image, x: float, y: float) -> tuple[int, ...]:
    """The colour at a point of the ground."""
    return picture.getpixel(tuple(int(p) for p in CANVAS.spot(x, y)))


def touched(picture: Image.Image) -> np.ndarray:
    """`[rows, columns]` bool: where something was drawn."""
    return (np.asarray(picture) != GREY).any(-1)


@pytest.mark.parametrize("yaw", [0.0, math.pi / 2, math.pi, -math.pi / 2])
def test_hull_points_along_heading(paper, yaw):
    draw_mech(CANVAS, ImageDraw.Draw(paper, "RGBA"), dataclasses.replace(MECH, yaw=yaw))
    rows, columns = np.nonzero((np.asarray(paper) == TEAM[0]).all(-1))
    x, y = columns / CANVAS.scale - 10, 10 - rows / CANVAS.scale
    ahead, aside = math.cos(yaw) * x + math.sin(yaw) * y, math.cos(yaw) * y - math.sin(yaw) * x
    assert ahead.max() > -ahead.min() + 0.3, "the nose reaches further than the back"
    assert np.ptp(aside[ahead > 1.2]) < np.ptp(aside[ahead < -1.2]), "and is narrower"


def test_inactive_mech_is_paler(paper):
    draw_mech(CANVAS, ImageDraw.Draw(paper, "RGBA"), dataclasses.replace(MECH, is_out=True))
    assert at(paper, 10, 10) == tuple(round(c * 0.5 + 60) for c in TEAM[0])


@pytest.mark.parametrize(
    ("held", "colour"), [((0, 0), WHITE), ((1, 0), TEAM[0]), ((0, 1), TEAM[1]), ((1, 1), GOLD)], ids=str
)
def test_zone_has_colour_of_holder(paper, held, colour):
    draw_zone(CANVAS, ImageDraw.Draw(paper, "RGBA"), (10, 10), 6, *map(bool, held))
    edge = np.array(at(paper, 10 + 5.9, 10))
    assert np.abs(edge - colour).max() < 20
    inside = np.array(at(paper, 10, 10))
    assert np.abs(inside - GREY).max() < np.abs(edge - GREY).max() / 3


def test_bar_length_matches_hit_points(paper):
    for share in (0.0, 0.25, 0.5, 1.0):
        picture = paper.copy()
        draw_bar(CANVAS, ImageDraw.Draw(picture, "RGBA"), dataclasses.replace(MECH, hp=share))
        blue = (np.asarray(picture) == TEAM[0]).all(-1)
        assert blue.any(0).sum() == pytest.approx(2.6 * CANVAS.scale * share, abs=2)


def test_shot_and_path_are_drawn(paper):
    draw_shot(CANVAS, ImageDraw.Draw(paper, "RGBA"), "slug", "", (4, 10), (9, 10))
    rows, columns = np.nonzero(touched(paper))
    assert columns.min() == pytest.approx(4 * CANVAS.scale, abs=2)
    assert columns.max() == pytest.approx(9.2 * CANVAS.scale, abs=2)
    assert abs(rows.mean() - SIDE / 2) < 1.5


def test_clouds_are_drawn_only_at_their_position(paper):
    draw_clouds(CANVAS, paper, [])
    assert not touched(paper).any()
    draw_clouds(CANVAS, paper, [((5.0, 15.0), 3.0), ((0.0, 19.0), 2.0)])
    hidden = touched(paper)
    assert hidden[: SIDE // 4, : SIDE // 4].any() and not hidden[SIDE * 3 // 5 :].any()
    assert not hidden[:, SIDE * 3 // 5 :].any()
    assert min(at(paper, 5, 15)) > 180


def test_cloud_beyond_edge_is_clipped(paper):
    draw_clouds(CANVAS, paper, [((-40.0, 60.0), 1.0), ((80.0, -50.0), 0.0)])
    assert touched(paper).sum() == 0
