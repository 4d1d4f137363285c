"""What the tests of this folder share: teams on open ground, and what a mech of theirs reads off its streams."""

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
"""Between a mech at (10.5, 20.5) and whoever is beyond x = 21."""
ECM, ECCM = 0.3, 0.9
"""What a scout's secondary says to jam and to clear."""


def team(blue, red, *boxes, features=None, **settings) -> Scene:
    """Teams on a 40x40 map, with other settings and `features` than usual."""
    config = dataclasses.replace(SMALL, blue=tuple(blue), red=tuple(red), **settings)
    return scene(dataclasses.replace(config, features=FeaturesConfig(**(features or {}))), *boxes)


def look(s: Scene, *orders, focus=None):
    """The streams after nothing but looking; the state keeps the contact slots."""
    s.state, streams = observe(s.state, s.orders(*orders, focus=focus), s.sim_model)
    return streams


def rows(s: Scene, viewer: int, *orders):
    """The filled rows of a mech's contact table."""
    streams = look(s, *orders)
    return streams["contacts"][0, viewer][streams["contacts_mask"][0, viewer]]


def shown(s: Scene, viewer: int, *orders):
    """The mechs in the contact table of `viewer` in order, told by where the rows say they are."""
    world = s.sim_model.config.world
    table = rows(s, viewer, *orders)[:, layout.columns(CONTACT, "rel_pos")] * max(world.size_x, world.size_y)
    ahead, left, up = table.unbind(-1)
    pos, yaw = s.state.mechs.pos[0], s.state.mechs.yaw[0, viewer]
    offset = torch.stack((ahead * yaw.cos() - left * yaw.sin(), ahead * yaw.sin() + left * yaw.cos(), up), -1)
    away = (pos - pos[viewer] - offset[:, None]).norm(dim=-1)
    assert (away.amin(1) < 1e-3).all(), "a row shows a place where nobody is"
    return away.argmin(1).tolist()


def column(s: Scene, name: str, viewer: int, *orders):
    """One number of every filled row of a mech's contact table."""
    return rows(s, viewer, *orders)[:, layout.columns(CONTACT, name)][:, 0].tolist()


def sensed(s: Scene, viewer: int, *orders):
    """Those of `shown` that the mech senses itself."""
    reported = column(s, "intel", viewer, *orders)
    return [n for n, intel in zip(shown(s, viewer, *orders), reported, strict=True) if not intel]


def contact(s: Scene, name: str, slot: int = 0, viewer: int = 0, *orders):
    """A feature of one contact."""
    return look(s, *orders)["contacts"][0, viewer, slot, layout.columns(CONTACT, name)].tolist()


def ego(s: Scene, name: str, mech: int = 0, *orders):
    """A feature of a mech's own row."""
    return look(s, *orders)["ego"][0, mech, layout.columns(EGO, name)].tolist()


def comrade(s: Scene, name: str, row: int, viewer: int = 0, *orders, focus=None):
    """A feature of one comrade."""
    return look(s, *orders, focus=focus)["squad"][0, viewer, row, layout.columns(SQUAD, name)].tolist()


def emits(mech: int, value: float):
    """The order that switches a scout's ECM or ECCM on."""
    return (mech, Act.SECONDARY, value)
