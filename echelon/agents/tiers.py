"""What each scripted commander knows how to do: one field an ability, and each tier adds to the one below."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from echelon.rules.catalog import Hull, Trigger


@dataclass(frozen=True)
class Tier:
    """The abilities of a commander. Without any it walks to the zone and shoots what comes near."""

    triggers: tuple[Trigger, ...] = (Trigger.PRIMARY,)
    """The guns it uses."""
    core_vox: float = 2.5
    """How near to the middle of a large zone it goes if it does not seek battle: two teams that hold one shall meet."""
    faces_target: bool = False
    """Turns to its target; otherwise it looks where it goes."""
    minds_heat: bool = False
    """Rests its triggers when hot."""
    works_free: bool = False
    """Sidesteps, jets on, where it makes no headway."""
    lines_up: bool = False
    """Fires guns that shoot straight ahead only at what stands ahead, in plain view."""
    vents: bool = False
    """Vents when hot and nobody is in range."""
    keeps_range: bool = False
    """Fights at the range of its class once it stands in the zone."""
    shares_paint: bool = False
    """Fires what needs a lock at what its pack has painted."""
    takes_aim: bool = False
    """Fires only what will hit: in range and arc, on a clear line or a lock, before the target has walked away."""
    cycles: bool = False
    """Spends heat on the guns that make most of it, and vents whenever none fires, also between two shots."""
    picks_target: bool = False
    """Fights whom it can hurt, and the hurt first; otherwise the nearest."""
    seeks_battle: bool = False
    """Goes where it can fight its target, in the zone and about it."""
    finds_ways: bool = False
    """Walks around walls, wrecks and other mechs."""
    talks: bool = False
    """Tells its pack whom it fights, and prefers whom they fight."""
    circles: bool = False
    """Never stands still in a fight: shells fly to where it was."""
    flanks: bool = False
    """Some close in to the range of a stream of fire, behind their target."""
    burns: bool = False
    """Warm mechs keep their heat for a stream of fire where it reaches."""
    jams: bool = False
    """Mechs with ECM jam enemies, or clear their own team's sensors while those are jammed."""
    uses_smoke: bool = False
    """Blinds those it cannot answer: beyond its own range, and at any range when it is frail and hurt."""
    takes_cover: bool = False
    """Steps behind a wall when it is too hot to fire and under fire."""
    pace: float = 1.0
    """Share of its top speed that it walks at."""
    range_vox: tuple[float, ...] = ()
    """The range at which each class fights, in the order of `Hull`; by default that of `echelon.agents.steering`."""
    leash_vox: float = 10.0
    """How far from the zone's edge it will fight, if it seeks battle."""
    notice_vox: float = 25.0
    """How near a target must be to be sought."""
    pull: float = 0.5
    """How much the zone counts beside the target."""
    flankers: tuple[Hull, ...] = (Hull.LIGHT,)
    """Who closes in behind its target, if it flanks."""
    screens: bool = False
    """Emits all the time, if it jams, and lays smoke before whomever it sees."""


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
"""Prefix of their names."""
FAR = replace(HARD, leash_vox=math.inf, notice_vox=math.inf, pull=0.0)
"""Fights wherever the enemy is, zone or not."""
SNIPER = replace(FAR, range_vox=(16.0, 9.5, 11.5, 19.0), takes_cover=True)
STYLES = {
    "rusher": replace(FAR, triggers=(Trigger.PRIMARY,), range_vox=(2.0, 2.0, 2.0, 2.0)),
    "sniper": SNIPER,
    "turtle": replace(HARD, triggers=(Trigger.SECONDARY, Trigger.TERTIARY), seeks_battle=False, core_vox=1.0, pace=0.3),
    "flanker": replace(SNIPER, flanks=True, flankers=(Hull.MEDIUM,)),
    "jammer": replace(EXPERT, screens=True, circles=False, flanks=False, range_vox=(16.0, 13.0, 13.0, 16.0)),
}
"""Commanders that fight in ways of their own, to judge by and not to learn from: `style:rusher` and so on."""
