"""The abilities of the scripted commanders, one field per ability; each tier adds abilities to the next lower tier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from echelon.rules.catalog import Hull, Trigger


@dataclass(frozen=True)
class Tier:
    """The abilities of a commander. Without any ability, a commander walks to the zone and shoots targets in range."""

    triggers: tuple[Trigger, ...] = (Trigger.PRIMARY,)
    """The guns it uses."""
    core_vox: float = 2.5
    """Distance to the middle of a large zone that it approaches if it does not seek battle, so that two teams that hold
    one zone come into contact."""
    faces_target: bool = False
    """Turns to its target; otherwise it faces its walk direction."""
    minds_heat: bool = False
    """Releases its triggers when hot."""
    works_free: bool = False
    """Sidesteps with its jets on when it is stuck."""
    lines_up: bool = False
    """Fires guns that shoot straight ahead only at visible targets ahead."""
    vents: bool = False
    """Vents when it is hot and no target is in range."""
    keeps_range: bool = False
    """Fights at the range of its class once it is in the zone."""
    shares_paint: bool = False
    """Fires weapons that need a lock at targets painted by its pack."""
    takes_aim: bool = False
    """Fires only shots that will hit: in range and arc, with a clear line or a lock, before the target can dodge."""
    cycles: bool = False
    """Spends heat on the guns with the most damage per heat, and vents whenever none fires, even between two shots."""
    picks_target: bool = False
    """Prefers targets that it can damage, damaged ones first; otherwise it takes the nearest."""
    seeks_battle: bool = False
    """Moves to where it can fight its target, in and around the zone."""
    finds_ways: bool = False
    """Walks around walls, wrecks and other mechs."""
    talks: bool = False
    """Sends its target to its pack, and prefers the pack's targets."""
    circles: bool = False
    """Keeps moving in a fight, so shells miss."""
    flanks: bool = False
    """Some mechs move behind their target, within range of a stream of fire."""
    burns: bool = False
    """Warm mechs save their heat for a stream of fire within its range."""
    jams: bool = False
    """Mechs with ECM jam enemies, or clear their own team's sensors while these are jammed."""
    uses_smoke: bool = False
    """Lays smoke on enemies that it cannot shoot back at: beyond its own range, or when a light mech is damaged."""
    takes_cover: bool = False
    """Moves behind a wall when it is under fire and too hot to shoot."""
    pace: float = 1.0
    """Walking speed, as a share of the top speed."""
    range_vox: tuple[float, ...] = ()
    """Fighting range of each class, in the order of `Hull`; empty for the defaults in `echelon.agents.steering`."""
    leash_vox: float = 10.0
    """Largest distance from the zone's edge at which it fights, if it seeks battle."""
    notice_vox: float = 25.0
    """Largest distance at which it approaches a target."""
    pull: float = 0.5
    """Weight of the zone relative to the target."""
    flankers: tuple[Hull, ...] = (Hull.LIGHT,)
    """Classes that move behind their targets, if it flanks."""
    screens: bool = False
    """Emits all the time, if it jams, and lays smoke on every visible target."""


TRIVIAL = Tier()
EASY = replace(
    TRIVIAL,
    triggers=(Trigger.PRIMARY, Trigger.SECONDARY),
    core_vox=4.0,
    faces_target=True,
    minds_heat=True,
    works_free=True,
)
NORMAL = replace(
    EASY,
    triggers=(Trigger.PRIMARY, Trigger.SECONDARY, Trigger.TERTIARY),
    lines_up=True,
    vents=True,
    keeps_range=True,
    shares_paint=True,
)
HARD = replace(NORMAL, takes_aim=True, cycles=True, picks_target=True, seeks_battle=True, finds_ways=True)
EXPERT = replace(
    HARD,
    talks=True,
    circles=True,
    flanks=True,
    burns=True,
    jams=True,
    uses_smoke=True,
    takes_cover=True,
)

TIERS = {"trivial": TRIVIAL, "easy": EASY, "normal": NORMAL, "hard": HARD, "expert": EXPERT}
"""Weakest first."""

STYLE = "style"
"""Prefix of the names of styles."""
FAR = replace(HARD, leash_vox=math.inf, notice_vox=math.inf, pull=0.0)
"""Fights enemies anywhere on the map, also outside the zone."""
SNIPER = replace(FAR, range_vox=(16.0, 9.5, 11.5, 19.0), takes_cover=True)
STYLES = {
    "rusher": replace(FAR, triggers=(Trigger.PRIMARY,), range_vox=(2.0, 2.0, 2.0, 2.0)),
    "sniper": SNIPER,
    "turtle": replace(HARD, triggers=(Trigger.SECONDARY, Trigger.TERTIARY), seeks_battle=False, core_vox=1.0, pace=0.3),
    "flanker": replace(SNIPER, flanks=True, flankers=(Hull.MEDIUM,)),
    "jammer": replace(EXPERT, screens=True, circles=False, flanks=False, range_vox=(16.0, 13.0, 13.0, 16.0)),
}
"""Commanders with a fighting style of their own, for evaluation and not for training: `style:rusher` and so on."""
