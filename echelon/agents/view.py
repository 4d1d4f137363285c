"""One mech's observation as named fields; vectors are in its body frame, in voxels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from echelon.env.observation import layout
from echelon.env.observation.features import SPEED_SCALE
from echelon.rules.actions import PREFERENCES
from echelon.rules.catalog import Hull
from echelon.runtime import exact
from echelon.runtime.geometry import either, length


@dataclass(frozen=True)
class Contacts:
    """The first K contacts (observed mechs); an action can select one of these slots as the preferred target."""

    offset: Tensor
    """[B, A, K, 3] vox."""
    distance: Tensor
    """[B, A, K] vox."""
    velocity: Tensor
    """[B, A, K, 2] vox/s over the ground."""
    facing: Tensor
    """[B, A, K, 2] unit vector of its heading."""
    hostile: Tensor
    """[B, A, K] bool."""
    clear: Tensor
    """[B, A, K] bool: seen in detail, which requires a clear line."""
    painted: Tensor
    """[B, A, K] bool: painted by the viewer's pack."""
    hp: Tensor
    """[B, A, K] share; 0 if not clear."""
    hull: Tensor
    """[B, A, K, len(Hull)] one-hot."""


@dataclass(frozen=True)
class View:
    """A mech's observation of itself, the ground around it, the zone, its comrades and its contacts."""

    hull: Tensor
    """[B, A, len(Hull)] one-hot; zeros for dead mechs."""
    hp: Tensor
    """[B, A] share."""
    heat: Tensor
    """[B, A] share of the capacity."""
    cooldown: Tensor
    """[B, A, 5] share of the longest cooldown, by trigger, then of the AMS."""
    position: Tensor
    """[B, A, 2] vox on the map."""
    heading: Tensor
    """[B, A, 2] unit vector on the map."""
    velocity: Tensor
    """[B, A, 2] vox/s over the ground."""
    under_fire: Tensor
    """[B, A] bool."""
    jam: Tensor
    """[B, A] 0..1."""
    path: Tensor
    """[B, A, 2] unit vector of the path to the zone, 0 inside."""
    to_zone: Tensor
    """[B, A, 2]."""
    zone_radius: Tensor
    """[B, A]."""
    in_zone: Tensor
    """[B, A] bool."""
    local_map: Tensor
    """[B, A, 11, 11] 1 for solid cells; rows ahead, columns to the left."""
    comrades: Tensor
    """[B, A, S, 2]."""
    comrade_hull: Tensor
    """[B, A, S, len(Hull)] one-hot; zeros for dead mechs."""
    contacts: Contacts

    @property
    def speed(self) -> Tensor:
        """Speed over the ground, `[B, A]` vox/s."""
        return length(self.velocity)

    def is_a(self, hull: Hull) -> Tensor:
        """Return whether each mech is of this class, `[B, A]` bool."""
        return self.hull[..., int(hull)] > 0

    def of_hull(self, table: Tensor) -> Tensor:
        """Return each mech's row of `table [len(Hull), ...]`, selected by its class, `[B, A, ...]`."""
        return by_hull(self.hull, table)


@dataclass(frozen=True)
class Target(Contacts):
    """The mech's target: one contact, without the slot axis. A target `exists` if the contact is hostile."""

    slot: Tensor
    """[B, A] int64, contact slot of the target."""

    @property
    def exists(self) -> Tensor:
        """[B, A] bool."""
        return self.hostile


def look(team: TensorDictBase, size: Tensor, longest_vox: float) -> View:
    """Build the view of a team from its observation streams.

    Args:
        team: input of a team policy, batch `[B, A]`.
        size: the map's extent, `[2]` vox.
    """
    ego, squad = team.get(("observation", "ego")), team.get(("observation", "squad"))

    def ego_column(name: str) -> Tensor:
        return column(ego, layout.EGO, name)

    velocity = ego_column("velocity")[..., :2] * SPEED_SCALE
    return View(
        hull=ego_column("hull"),
        hp=ego_column("hp"),
        heat=ego_column("heat"),
        cooldown=ego_column("cooldown"),
        position=ego_column("position")[..., :2] * size,
        heading=ego_column("yaw_sin_cos").flip(-1),
        velocity=velocity,
        under_fire=ego_column("under_fire") > 0,
        jam=ego_column("jam"),
        path=ego_column("path_direction"),
        to_zone=ego_column("zone_vector") * longest_vox,
        zone_radius=ego_column("zone_radius") * longest_vox,
        in_zone=ego_column("in_zone") > 0,
        local_map=team.get(("observation", "local_map")),
        comrades=column(squad, layout.SQUAD, "rel_pos")[..., :2] * longest_vox,
        comrade_hull=column(squad, layout.SQUAD, "hull") * column(squad, layout.SQUAD, "alive")[..., None],
        contacts=look_at_contacts(team.get(("observation", "contacts")), velocity, longest_vox),
    )


def look_at_contacts(contacts: Tensor, velocity: Tensor, longest_vox: float) -> Contacts:
    """Read the first slots of the contact table `[B, A, C, F]` for mechs with velocity `[B, A, 2]`."""
    rows = contacts[..., :PREFERENCES, :]

    def feature_of(name: str) -> Tensor:
        return column(rows, layout.CONTACT, name)

    offset = feature_of("rel_pos") * longest_vox
    return Contacts(
        offset=offset,
        distance=length(offset),
        velocity=feature_of("rel_vel")[..., :2] * SPEED_SCALE + velocity[..., None, :],
        facing=feature_of("rel_yaw_sin_cos").flip(-1),
        hostile=feature_of("hostile") > 0,
        clear=feature_of("detail") > 0,
        painted=feature_of("painted") > 0,
        hp=feature_of("hp"),
        hull=feature_of("hull"),
    )


def aim_at(contacts: Contacts, slot: Tensor) -> Target:
    """Return the contact in `slot [B, A]` int64 as the target; the target `exists` if this contact is hostile."""

    def of_slot(values: Tensor) -> Tensor:
        dim, rest = slot.dim(), values.shape[slot.dim() + 1 :]
        index = slot.view(*slot.shape, 1, *[1] * len(rest)).expand(*slot.shape, 1, *rest)
        return values.gather(dim, index).squeeze(dim)

    return Target(**{name: of_slot(getattr(contacts, name)) for name in Contacts.__dataclass_fields__}, slot=slot)


def column(stream: Tensor, features: tuple[layout.Feature, ...], name: str) -> Tensor:
    """Return the feature `name` of a stream `[..., F]`, as `[..., width]`, or as `[...]` if its width is 1."""
    value = stream[..., layout.columns(features, name)]
    return value.squeeze(-1) if value.shape[-1] == 1 else value


def by_hull(hull: Tensor, table: Tensor) -> Tensor:
    """Return the row of `table [len(Hull), ...]` selected by one-hot `hull [..., len(Hull)]`; zeros for no class."""
    return exact.sum(hull.view(*hull.shape, *[1] * (table.dim() - 1)) * table, hull.dim() - 1)


def hull_table(values: Mapping[Hull, Any]) -> Tensor:
    """Return a table `[len(Hull), ...]` with the value or values of each class."""
    return float_table([values[hull] for hull in Hull])


def float_table(values: Any) -> Tensor:
    """Return numbers as a float32 tensor on the CPU, independent of torch's default dtype and device."""
    return torch.tensor(values, dtype=torch.float32, device="cpu")


def sign(fact: Tensor) -> Tensor:
    """Return 1 where true and -1 where false."""
    return either(fact, 1.0, -1.0)
