"""A scripted commander: walks to the zone, holds it, and shoots what comes near. Sees observations only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor
from torchrl.data import Composite, Unbounded

from echelon.actions import Act
from echelon.catalog import HULLS, SIGHT_LOCK_VOX, WEAPONS, Hull, Trigger, Weapon
from echelon.config import EnvConfig, require
from echelon.env import layout
from echelon.env.contacts import SPEED_SCALE
from echelon.geometry import length, unit

TIERS = ("normal",)

PREFERRED_RANGE_VOX = {Hull.SCOUT: 10.0, Hull.LIGHT: 5.0, Hull.MEDIUM: 7.0, Hull.HEAVY: 6.0}
HOLD_FIRE_HEAT = 0.8
"""Share of the heat capacity above which triggers rest."""
VENT_HEAT = 0.6
"""Share above which it vents while nobody is in range."""
TURN_GAIN = 4.0
LINED_UP = 0.95
"""Cosine of the bearing within which a gun is worth its heat."""
ZONE_DEPTH = 0.5
"""Share of the zone's radius it wants to be inside of."""
STUCK_AFTER_S = 0.75
"""Seconds without headway before it sidesteps, jets on."""
SIDESTEP_S = 1.0
HEADWAY = 0.2
"""Share of the top speed that counts as headway."""


@dataclass(frozen=True)
class View:
    """What one mech makes of its observation. Vectors in its body frame, voxels."""

    top_speed: Tensor
    """[B, A] vox/s."""
    preferred_vox: Tensor
    """[B, A] range it likes to fight at."""
    speed: Tensor
    """[B, A] vox/s over the ground."""
    heat: Tensor
    """[B, A] share of the capacity."""
    path: Tensor
    """[B, A, 2] unit vector of the way to the zone, 0 inside."""
    to_zone: Tensor
    """[B, A, 2]."""
    zone_radius: Tensor
    """[B, A]."""
    in_zone: Tensor
    """[B, A] bool."""
    has_target: Tensor
    """[B, A] bool: a hostile stands in the first contact slot."""
    to_target: Tensor
    """[B, A, 2]."""
    target_vox: Tensor
    """[B, A] distance to the target."""
    clear: Tensor
    """[B, A] bool: in detail, which takes a clear line."""
    painted: Tensor
    """[B, A] bool: its pack has painted the target."""
    reach_vox: Tensor
    """[B, A, 3] range of what hangs on the first three triggers, 0 for nothing."""


class Heuristic(TensorDictModuleBase):
    """The scripted commander of a team, tier `normal`. Deterministic and batched; its clock counts seconds.

    Args:
        config: the battle it is played in; gives the map's size and the length of a decision.
    """

    def __init__(self, config: EnvConfig) -> None:
        super().__init__()
        self.longest_vox = float(config.world.longest_side)
        self.decision_s = config.rules.decision_s
        self.comm_dim = config.comm_dim
        self.in_keys = [("observation", "ego"), ("observation", "contacts"), ("memory", "stuck_s")]
        self.out_keys = ["action", ("next", "memory", "stuck_s")]
        by_hull = [(HULLS[h].max_speed_vox_per_s, PREFERRED_RANGE_VOX[h], *(reach(h, t) for t in GUNS)) for h in Hull]
        self.register_buffer("by_hull", torch.tensor(by_hull), persistent=False)

    def memory_spec(self) -> Composite:
        """Seconds that each mech has made no headway."""
        return Composite(stuck_s=Unbounded((1,)))

    def forward(self, team: TensorDictBase) -> TensorDictBase:
        """Decide for `[B, A]` mechs."""
        view = self.look(team.get(("observation", "ego")), team.get(("observation", "contacts")))
        direction = where_to_go(view)
        stuck_s = self.count_stuck(view, direction, team.get(("memory", "stuck_s")).squeeze(-1))
        sidesteps = stuck_s > STUCK_AFTER_S
        to_the_left = torch.stack((-direction[..., 1], direction[..., 0]), -1)
        direction = torch.where(sidesteps[..., None], to_the_left, direction)
        team.set("action", self.act(view, direction, sidesteps))
        team.set(("next", "memory", "stuck_s"), stuck_s[..., None])
        return team

    def look(self, ego: Tensor, contacts: Tensor) -> View:
        """Read the streams `ego [B, A, F]` and `contacts [B, A, C, F]` by the layout's names."""

        def own(name: str) -> Tensor:
            value = ego[..., layout.columns(layout.EGO, name)]
            return value.squeeze(-1) if value.shape[-1] == 1 else value

        # A product and a sum, not a matmul: its last bit would depend on the size of the batch.
        top_speed, preferred_vox, *reach_vox = (own("hull")[..., None] * self.by_hull).sum(-2).unbind(-1)
        # The contacts come as the last action asked for them: the nearest hostile first.
        first = contacts[..., 0, :]
        to_target = first[..., layout.columns(layout.CONTACT, "rel_pos")] * self.longest_vox

        def told(name: str) -> Tensor:
            return first[..., layout.columns(layout.CONTACT, name)].squeeze(-1) > 0

        return View(
            top_speed=top_speed,
            preferred_vox=preferred_vox,
            speed=length(own("velocity")[..., :2]) * SPEED_SCALE,
            heat=own("heat"),
            path=own("path_direction"),
            to_zone=own("zone_vector") * self.longest_vox,
            zone_radius=own("zone_radius") * self.longest_vox,
            in_zone=own("in_zone") > 0,
            has_target=told("hostile"),
            to_target=to_target[..., :2],
            target_vox=length(to_target),
            clear=told("detail"),
            painted=told("painted"),
            reach_vox=torch.stack(reach_vox, -1),
        )

    def count_stuck(self, view: View, direction: Tensor, stuck_s: Tensor) -> Tensor:
        """`[B, A]` seconds without headway; starts over after a sidestep."""
        no_headway = (length(direction) > 0) & (view.speed < HEADWAY * view.top_speed)
        sidestepping = stuck_s > STUCK_AFTER_S
        counted = torch.where(no_headway | sidestepping, stuck_s + self.decision_s, 0.0)
        return torch.where(counted > STUCK_AFTER_S + SIDESTEP_S, 0.0, counted)

    def act(self, view: View, direction: Tensor, sidesteps: Tensor) -> Tensor:
        """`[B, A, D]` the action that walks `direction [B, A, 2]`, faces the target and fights it."""
        face = unit(torch.where(view.has_target[..., None], view.to_target, view.path))
        ahead, left = face.unbind(-1)
        # Behind, the sine alone would let a mech dither; it turns at full rate.
        turn = torch.where(ahead < 0, torch.where(left < 0, -1.0, 1.0), (TURN_GAIN * left).clamp(-1, 1))

        cool = view.heat < HOLD_FIRE_HEAT
        in_range = view.has_target[..., None] & (view.target_vox[..., None] <= view.reach_vox)  # [B, A, 3]
        primary, secondary, tertiary = in_range.unbind(-1)
        can_lock = view.has_target & view.painted & (view.reach_vox[..., 1] == SIGHT_LOCK_VOX)
        secondary = secondary | can_lock
        # Guns on the third trigger shoot straight ahead, also into walls.
        tertiary = tertiary & view.clear & (ahead > LINED_UP)
        vents = (view.heat > VENT_HEAT) & ~primary & ~secondary & ~tertiary

        action = torch.zeros((*ahead.shape, layout.action_width(self.comm_dim)), device=ahead.device)
        action[..., Act.FORWARD] = direction[..., 0]
        action[..., Act.STRAFE] = direction[..., 1]
        action[..., Act.VERTICAL] = sidesteps.float()
        action[..., Act.YAW_RATE] = turn
        action[..., Act.PRIMARY] = sign(primary & cool)
        action[..., Act.SECONDARY] = sign(secondary & cool)
        action[..., Act.TERTIARY] = sign(tertiary & cool)
        action[..., Act.SPECIAL] = -1.0
        action[..., Act.VENT] = sign(vents)
        action[..., Act.PREFER_0] = 1.0
        action[..., Act.SORT_CLOSEST] = 1.0
        return action


GUNS = (Trigger.PRIMARY, Trigger.SECONDARY, Trigger.TERTIARY)


def reach(hull: Hull, trigger: Trigger) -> float:
    """Range at which a trigger is worth pulling, of the farthest weapon on it; missiles count by their sight lock."""
    ranges = {w: WEAPONS[w].range_vox for w in Weapon if WEAPONS[w].mounts.get(hull) == trigger}
    if Weapon.MISSILE in ranges:
        ranges[Weapon.MISSILE] = SIGHT_LOCK_VOX
    return max(ranges.values(), default=0.0)


def is_scripted(name: str) -> bool:
    """Whether a commander's name means a heuristic."""
    return name.partition(":")[0] == "heuristic"


def scripted(name: str, config: EnvConfig, device: torch.device) -> Heuristic:
    """The scripted commander called `heuristic` or `heuristic:TIER`."""
    tier = name.partition(":")[2] or "normal"
    known = " or ".join(f"heuristic:{tier}" for tier in TIERS)
    require(is_scripted(name) and tier in TIERS, "a scripted commander", known, name)
    return Heuristic(config).to(device)


def where_to_go(view: View) -> Tensor:
    """`[B, A, 2]` body-frame direction: to the zone; inside it, to one's range of the target, else inwards."""
    away = view.target_vox - view.preferred_vox
    close_in = unit(view.to_target) * (away / 2).clamp(-1, 1)[..., None]
    shallow = length(view.to_zone) > ZONE_DEPTH * view.zone_radius
    inwards = torch.where(shallow[..., None], unit(view.to_zone), 0.0)
    fights = view.has_target & ~shallow
    inside = torch.where(fights[..., None], close_in, inwards)
    return torch.where(view.in_zone[..., None], inside, view.path)


def sign(fact: Tensor) -> Tensor:
    """1 where true, -1 where false: a trigger held or released."""
    return torch.where(fact, 1.0, -1.0)
