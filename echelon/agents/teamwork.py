"""Team play of the scripted commanders: messages, shared targets, jamming and smoke."""

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
"""A contact this near to a target's last position is taken for that target."""
IN_SIGHT, IN_REACH, HURT, PAINTED, AHEAD, CALLED, KEPT = 3.0, 1.5, 2.0, 0.5, 0.5, 0.7, 0.7
"""Score of each property of a contact; `CALLED` counts once for every packmate that fights it."""
WORTH_VOX = 8.0
"""Distance in voxels that lowers the score by one."""
NOT_HOSTILE = -1e3
"""Score of contacts that are no targets."""
JAMMED = 0.3
"""Jamming above which a scout clears its team's sensors."""
CLEARS_S = 5.0
"""Seconds a scout keeps clearing before it tries to jam again."""
JAM_VOX = 40.0
"""Largest distance at which a hostile is jammed."""
ECM, ECCM, SILENT = 0.25, 1.0, -1.0
"""Values of the secondary trigger of a mech with ECM."""
OUT_OF_REACH_VOX = 1.0
"""Distance beyond a mech's own reach at which it fires smoke at a target."""
HURT_HP = 0.6
"""Hit points below which light mechs hide behind smoke at any range, as long as they stay outside the cloud."""


@dataclass(frozen=True)
class Calls:
    """Messages of the pack in the last decision, one row for each of five packmates."""

    engaged: Tensor
    """[B, A, 5] bool: has a target."""
    target: Tensor
    """[B, A, 5, 2] position of the target on the map, vox."""


class Radio(nn.Module):
    """The pack's message format: engaged (1 or -1), and the target's position (x, y, as shares of the map's sides).

    Args:
        size: the map's extent, `[2]` vox.
        width: numbers in a message; packs stay silent if it is below `WORDS`.
    """

    WORDS = 3
    size: Tensor

    def __init__(self, size: Tensor, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("size", size, persistent=False)

    def decode_messages(self, comms: Tensor) -> Calls:
        """Decode messages `[B, A, 5, width]`."""
        missing = max(self.WORDS - self.width, 0)
        engaged, x, y = pad(comms[..., : self.WORDS], (0, missing)).unbind(-1)
        return Calls(engaged > 0, (torch.stack((x, y), -1) + 1) / 2 * self.size)

    def say(self, target: Target, target_at: Tensor) -> Tensor:
        """Encode messages `[B, A, width]` for targets at `target_at [B, A, 2]`."""
        position = target_at / self.size * 2 - 1
        message = torch.cat((sign(target.exists)[..., None], position), -1).clamp(-1, 1)
        if self.width < self.WORDS:
            return message.new_zeros((*message.shape[:-1], self.width))
        return pad(message, (0, self.width - self.WORDS))


class Spotter(nn.Module):
    """Choose the targets of guns and smoke."""

    reach: Tensor
    smoke_vox: Tensor

    def __init__(self, tier: Tier, loadouts: Mapping[Hull, Loadout], config: EnvConfig) -> None:
        super().__init__()
        self.tier = tier
        self.cloud_vox = config.catalog.cloud_vox
        self.triggers = tuple(t for t in Trigger if any(t in loadout.launchers for loadout in loadouts.values()))
        """The K triggers of smoke launchers."""
        spare = {kind: spare_launchers(loadout) for kind, loadout in loadouts.items()}
        ranges = {kind: [row[t].range_vox if t in row else -1.0 for t in self.triggers] for kind, row in spare.items()}
        tables = {
            "reach": hull_table({kind: loadout.reach_vox for kind, loadout in loadouts.items()}),
            "smoke_vox": hull_table(ranges).view(len(Hull), len(self.triggers)),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def pick(self, view: View, calls: Calls, last_target: Tensor) -> Tensor:
        """Return the contact slot of the best target, `[B, A]` int64: near, visible, damaged and shared with packmates.

        Args:
            last_target: position of the last target on the map, `[B, A, 2]` vox.
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
        worth = torch.where(contacts.hostile, worth, NOT_HOSTILE)
        slots = torch.arange(worth.shape[-1], device=worth.device)
        return torch.where(worth == worth.amax(-1, keepdim=True), slots, worth.shape[-1]).amin(-1)

    def smokes(self, view: View, target: Target) -> Tensor:
        """Return which smoke triggers to pull, `[B, A, K]` bool. A mech uses smoke if it is under fire and either
        cannot reach the target or is a damaged scout or light mech; with `screens` always."""
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
    """Return the launchers of smoke clouds of a class, keyed by trigger, except those that share a cooldown timer
    with a gun."""
    used_timers = {gun.timer for gun in loadout.guns.values()}
    return {trigger: weapon for trigger, weapon in loadout.launchers.items() if weapon.timer not in used_timers}


def count_calls(places: Tensor, calls: Calls) -> Tensor:
    """Return how many packmates fight a target at each of the map positions `places [B, A, K, 2]`, `[B, A, K]`."""
    distance = length(places[..., None, :] - calls.target[..., None, :, :])  # [B, A, K, 5]
    return exact.sum((distance < SAME_VOX) & calls.engaged[..., None, :], -1)


def on_map(view: View, offset: Tensor) -> Tensor:
    """Convert offsets `[B, A, K, 2]` from the mech's frame to map positions in voxels."""
    return view.position[..., None, :] + to_world(offset, view.heading[..., None, :].expand_as(offset))


def jammed_for(view: View, jammed_s: Tensor, decision_s: float) -> Tensor:
    """Return the seconds `[B, A]` for which a mech still counts as jammed."""
    return torch.where(view.jam > JAMMED, CLEARS_S, (jammed_s - decision_s).clamp_min(0.0))


def emit(contacts: Contacts, jammed_s: Tensor, screens: bool) -> Tensor:
    """Return the secondary trigger `[B, A]` of a mech with ECM: remove enemy jamming while jammed, or jam if hostiles
    are near.

    With `screens`, a mech that is not jammed jams all the time.
    """
    is_near = (contacts.hostile & (contacts.distance < JAM_VOX)).any(-1) | screens
    return torch.where(jammed_s > 0, ECCM, torch.where(is_near, ECM, torch.full_like(jammed_s, SILENT)))
