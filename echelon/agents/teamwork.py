"""What packmates tell each other, whom they fight together, and whose sensors a scout looks after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from echelon.agents.gunnery import Loadout
from echelon.agents.tiers import Tier
from echelon.agents.view import Contacts, Target, View, hull_table, sign
from echelon.rules.catalog import Hull, Trigger
from echelon.rules.config import EnvConfig
from echelon.rules.specs import WeaponSpec
from echelon.runtime import exact
from echelon.runtime.geometry import TINY, length, to_world

SAME_VOX = 3.0
"""What stands this near to where a target was seen is that target."""
IN_SIGHT, IN_REACH, HURT, PAINTED, AHEAD, CALLED, KEPT = 3.0, 1.5, 2.0, 0.5, 0.5, 0.7, 0.7
"""What each merit of a contact is worth; `CALLED` for every packmate that fights it."""
WORTH_VOX = 8.0
"""Vox of distance that cost it one."""
NOBODY = -1e3
JAMMED = 0.3
"""Jamming above which a scout clears its team's sensors."""
CLEARS_S = 5.0
"""How long it goes on before it tries whether it may jam again."""
JAM_VOX = 40.0
"""How near a hostile must be to be jammed."""
ECM, ECCM, SILENT = 0.25, 1.0, -1.0
"""Values of the secondary trigger of a mech with ECM."""
OUT_OF_REACH_VOX = 1.0
"""How far beyond one's own reach the target of a smoke shot stands."""
HURT_HP = 0.6
"""Share below which the frail hide from a target at any range that keeps them out of the cloud."""


@dataclass(frozen=True)
class Calls:
    """What the pack said in the last decision, a row for each of the five."""

    engaged: Tensor
    """[B, A, 5] bool: fights somebody."""
    target: Tensor
    """[B, A, 5, 2] vox on the map, where."""


class Radio(nn.Module):
    """A pack's language: is one engaged (1 or -1), and where on the map the target stands (x, y over its sides).

    Args:
        size: `[2]` vox, the map's extent.
        width: numbers in a message; with fewer than the language needs nobody speaks.
    """

    WORDS = 3
    size: Tensor

    def __init__(self, size: Tensor, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("size", size, persistent=False)

    def decode_messages(self, comms: Tensor) -> Calls:
        """Understand `[B, A, 5, width]`."""
        missing = max(self.WORDS - self.width, 0)
        engaged, x, y = pad(comms[..., : self.WORDS], (0, missing)).unbind(-1)
        return Calls(engaged > 0, (torch.stack((x, y), -1) + 1) / 2 * self.size)

    def say(self, target: Target, target_at: Tensor) -> Tensor:
        """`[B, A, width]` the message of mechs whose targets stand at `target_at [B, A, 2]`."""
        position = target_at / self.size * 2 - 1
        message = torch.cat((sign(target.exists)[..., None], position), -1).clamp(-1, 1)
        if self.width < self.WORDS:
            return message.new_zeros((*message.shape[:-1], self.width))
        return pad(message, (0, self.width - self.WORDS))


class Spotter(nn.Module):
    """Who is worth fighting, and whom smoke should blind."""

    reach: Tensor
    smoke_vox: Tensor

    def __init__(self, tier: Tier, loadouts: Mapping[Hull, Loadout], config: EnvConfig) -> None:
        super().__init__()
        self.tier = tier
        self.cloud_vox = config.catalog.cloud_vox
        self.triggers = tuple(t for t in Trigger if any(t in loadout.launchers for loadout in loadouts.values()))
        """K triggers that clouds of smoke hang on."""
        spare = {kind: spare_launchers(loadout) for kind, loadout in loadouts.items()}
        ranges = {kind: [row[t].range_vox if t in row else -1.0 for t in self.triggers] for kind, row in spare.items()}
        tables = {
            "reach": hull_table({kind: loadout.reach_vox for kind, loadout in loadouts.items()}),
            "smoke_vox": hull_table(ranges).view(len(Hull), len(self.triggers)),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def pick(self, view: View, calls: Calls, last_target: Tensor) -> Tensor:
        """`[B, A]` int64 the contact slot of the best target: near, in sight, hurt, and whom packmates fight too.

        Args:
            last_target: `[B, A, 2]` where the last target stood on the map.
        """
        contacts = view.contacts
        if not self.tier.picks_target:
            return torch.zeros_like(view.heat, dtype=torch.int64)
        in_reach = contacts.clear & (contacts.distance < view.of_hull(self.reach)[..., None])
        cos_ahead = contacts.offset[..., 0] / length(contacts.offset[..., :2]).clamp_min(TINY)
        clear = contacts.clear.float()
        worth = IN_SIGHT * clear + IN_REACH * in_reach.float() + HURT * (1 - contacts.hp) * clear
        worth = worth + PAINTED * contacts.painted.float() + AHEAD * cos_ahead - contacts.distance / WORTH_VOX
        if self.tier.talks:
            positions = on_map(view, contacts.offset[..., :2])
            worth = worth + CALLED * count_calls(positions, calls).float()
            worth = worth + KEPT * (length(positions - last_target[..., None, :]) < SAME_VOX).float()
        worth = torch.where(contacts.hostile, worth, NOBODY)
        slots = torch.arange(worth.shape[-1], device=worth.device)
        return torch.where(worth == worth.amax(-1, keepdim=True), slots, worth.shape[-1]).amin(-1)

    def smokes(self, view: View, target: Target) -> Tensor:
        """`[B, A, K]` bool: launches smoke at a target that it is shot at by and cannot answer."""
        out_of_reach = target.distance > view.of_hull(self.reach) + OUT_OF_REACH_VOX
        frail = view.is_a(Hull.SCOUT) | view.is_a(Hull.LIGHT)
        hides = frail & (view.hp < HURT_HP) & (target.distance > self.cloud_vox + 1)
        ahead = (target.offset[..., 0] > 0)[..., None]
        in_range = (target.distance[..., None] <= view.of_hull(self.smoke_vox)) & ahead
        loaded = torch.stack([view.cooldown[..., int(trigger)] == 0 for trigger in self.triggers], -1)
        pressed = (view.under_fire & (out_of_reach | hides)) | self.tier.screens
        wants_smoke = pressed & target.exists & target.clear & self.tier.uses_smoke
        return wants_smoke[..., None] & in_range & loaded


def spare_launchers(loadout: Loadout) -> dict[Trigger, WeaponSpec]:
    """What a class can leave clouds with, by trigger, unless a gun of it waits for the same timer."""
    used_timers = {gun.timer for gun in loadout.guns.values()}
    return {trigger: weapon for trigger, weapon in loadout.launchers.items() if weapon.timer not in used_timers}


def count_calls(places: Tensor, calls: Calls) -> Tensor:
    """`[B, A, K]` how many packmates fight what stands at `places [B, A, K, 2]` on the map."""
    distance = length(places[..., None, :] - calls.target[..., None, :, :])  # [B, A, K, 5]
    return exact.sum((distance < SAME_VOX) & calls.engaged[..., None, :], -1)


def on_map(view: View, offset: Tensor) -> Tensor:
    """`[B, A, K, 2]` vox on the map, from `[B, A, K, 2]` in the mech's frame."""
    return view.position[..., None, :] + to_world(offset, view.heading[..., None, :].expand_as(offset))


def jammed_for(view: View, jammed_s: Tensor, decision_s: float) -> Tensor:
    """`[B, A]` seconds that a mech still takes itself for jammed."""
    return torch.where(view.jam > JAMMED, CLEARS_S, (jammed_s - decision_s).clamp_min(0.0))


def emit(contacts: Contacts, jammed_s: Tensor, screens: bool) -> Tensor:
    """`[B, A]` the secondary trigger of a mech with ECM: clear while jammed, jam where hostiles are near, or always if
    it `screens`."""
    is_near = (contacts.hostile & (contacts.distance < JAM_VOX)).any(-1) | screens
    return torch.where(jammed_s > 0, ECCM, torch.where(is_near, ECM, torch.full_like(jammed_s, SILENT)))
