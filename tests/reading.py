"""Shared by tests of observations: teams on open ground, and readers of the streams of a mech."""

import dataclasses

import torch
from builders import Scene, scene
from first_catalog import SMALL

from echelon.env.observation import layout
from echelon.env.observation.build import observe
from echelon.env.observation.layout import CONTACT, EGO, SQUAD
from echelon.rules.actions import Act
from echelon.rules.catalog import Material
from echelon.rules.config import FeaturesConfig

WALL = (20, 21, 10, 30, 0, 8, Material.SOLID)
"""A wall between a mech at (10.5, 20.5) and mechs beyond x = 21."""
ECM, ECCM = 0.3, 0.9
"""Values of a scout's secondary trigger for ECM and ECCM."""


def team(blue, red, *boxes, features=None, **settings) -> Scene:
    """Return teams on a 40x40 map, with changed settings and `features`."""
    config = dataclasses.replace(SMALL, blue=tuple(blue), red=tuple(red), **settings)
    return scene(dataclasses.replace(config, features=FeaturesConfig(**(features or {}))), *boxes)


def look(s: Scene, *orders, focus=None):
    """Build the observation without a substep; the state keeps the contact slots."""
    s.state, streams = observe(s.state, s.orders(*orders, focus=focus), s.sim_model)
    return streams


def rows(s: Scene, viewer: int, *orders):
    """Return the filled rows of a mech's contact table."""
    streams = look(s, *orders)
    return streams["contacts"][0, viewer][streams["contacts_mask"][0, viewer]]


def shown(s: Scene, viewer: int, *orders):
    """Return the mechs in the contact table of `viewer`, in order, identified by position."""
    world = s.sim_model.config.world
    table = rows(s, viewer, *orders)[:, layout.columns(CONTACT, "rel_pos")] * max(world.size_x, world.size_y)
    ahead, left, up = table.unbind(-1)
    pos, yaw = s.state.mechs.pos[0], s.state.mechs.yaw[0, viewer]
    offset = torch.stack((ahead * yaw.cos() - left * yaw.sin(), ahead * yaw.sin() + left * yaw.cos(), up), -1)
    away = (pos - pos[viewer] - offset[:, None]).norm(dim=-1)
    assert (away.amin(1) < 1e-3).all(), "a row shows a position without a mech"
    return away.argmin(1).tolist()


def column(s: Scene, name: str, viewer: int, *orders):
    """Return one column of the filled rows of a mech's contact table."""
    return rows(s, viewer, *orders)[:, layout.columns(CONTACT, name)][:, 0].tolist()


def sensed(s: Scene, viewer: int, *orders):
    """Return the mechs of `shown` that the viewer senses itself."""
    reported = column(s, "intel", viewer, *orders)
    return [n for n, intel in zip(shown(s, viewer, *orders), reported, strict=True) if not intel]


def contact(s: Scene, name: str, slot: int = 0, viewer: int = 0, *orders):
    """Return a feature of one contact."""
    return look(s, *orders)["contacts"][0, viewer, slot, layout.columns(CONTACT, name)].tolist()


def ego(s: Scene, name: str, mech: int = 0, *orders):
    """Return a feature of a mech's own row."""
    return look(s, *orders)["ego"][0, mech, layout.columns(EGO, name)].tolist()


def comrade(s: Scene, name: str, row: int, viewer: int = 0, *orders, focus=None):
    """Return a feature of one comrade."""
    return look(s, *orders, focus=focus)["squad"][0, viewer, row, layout.columns(SQUAD, name)].tolist()


def emits(mech: int, value: float):
    """Return the order that switches a scout's ECM or ECCM on."""
    return (mech, Act.SECONDARY, value)
