"""Convert the tensors of the simulation to plain data of the reference, and compare the two."""

import math

import numpy as np
import torch
from first_catalog import Timer, Weapon

from echelon.rules.catalog import Hull
from echelon.sim.model import SimModel
from echelon.sim.terrain import material_at
from echelon.state import State

from .battle import Battle, Cloud, Draws, Ground, Mech, Shot

TOLERANCE = 2e-4
AMOUNTS = ("damage", "assist_hp", "paint_damage", "intercepted_damage", "vent_s")
COUNTS = ("kills", "team_kills", "assists", "intercepts", "falls", "legs_lost", "shutdowns")


def as_lists(state: State) -> dict[str, dict[str, list]]:
    """Return all fields of a state, except the terrain, as nested lists with B entries."""
    parts = ("mechs", "shots", "clouds", "tally")
    return {part: {name: value.tolist() for name, value in getattr(state, part).items()} for part in parts}


def shot_keys(sim_model: SimModel) -> list[tuple[Weapon, int, int]]:
    """Return weapon, owner and slot number of every shot slot."""
    keys = []
    shooters = sim_model.roster.shots.shooter.tolist()
    for weapon in Weapon:
        span = sim_model.roster.shots.span[int(weapon)]
        for s in range(span.start, span.stop):
            owner = shooters[s]
            keys.append((weapon, owner, sum(key[:2] == (weapon, owner) for key in keys)))
    return keys


def battles_of(state: State, sim_model: SimModel, now: np.ndarray) -> list[Battle]:
    """Convert each battle of a state, with voxels `now [B, Z, Y, X]`, to a `Battle`."""
    values, keys, roster = as_lists(state), shot_keys(sim_model), sim_model.roster
    half = roster.half_size.tolist()
    places = len(values["clouds"]["ttl"][0]) // roster.num_mechs
    battles = []
    for b, voxels in enumerate(now):
        mech = {name: value[b] for name, value in values["mechs"].items()}
        mechs = [
            Mech(
                index=n,
                hull=Hull(int(roster.hull[n])),
                is_red=n >= roster.num_blue,
                pack=int(roster.pack[n]),
                half=half[n],
                cooldown=dict(zip(Timer, mech["cooldown"][n], strict=True)),
                **{name: value[n] for name, value in mech.items() if name != "cooldown"},
            )
            for n in range(roster.num_mechs)
        ]
        shot = {name: value[b] for name, value in values["shots"].items()}
        shots = [
            Shot(
                *key,
                shot["pos"][s],
                shot["vel"][s],
                shot["ttl"][s],
                shot["target"][s] if shot["target"][s] >= 0 else None,
            )
            for s, key in enumerate(keys)
            if shot["ttl"][s] > 0
        ]
        cloud = {name: value[b] for name, value in values["clouds"].items()}
        clouds = [Cloud(c // places, c % places, cloud["pos"][c], ttl) for c, ttl in enumerate(cloud["ttl"]) if ttl > 0]
        lost = state.terrain.damage[b].flatten()
        ground = Ground(
            size=voxels.shape[::-1],
            material=bytearray(voxels.tobytes()),
            lost={i: float(lost[i]) for i in lost.nonzero()[:, 0].tolist()},
        )
        battles.append(Battle(sim_model.rules, sim_model.config.features, mechs, shots, clouds, ground))
    return battles


def draws_of(draws, b: int) -> Draws:
    """Return the random draws of one battle."""
    return Draws(*(getattr(draws, name)[b].tolist() for name in Draws.__dataclass_fields__))


def is_near(a: float | list[float], b: float | list[float]) -> bool:
    if isinstance(a, list):
        return all(map(is_near, a, b))
    return abs(a - b) <= TOLERANCE


def voxels_of(state: State, sim_model: SimModel) -> np.ndarray:
    """Return the current materials of the simulation's terrain, `[B, Z, Y, X]` uint8."""
    size_z, size_y, size_x = sim_model.maps.material.shape[1:]
    z, y, x = torch.meshgrid(torch.arange(size_z), torch.arange(size_y), torch.arange(size_x), indexing="ij")
    which = (state.seed.shape[0], z.numel())
    cells = (c.flatten().expand(which) for c in (x, y, z))
    return material_at(state, sim_model, *cells).view(-1, size_z, size_y, size_x).numpy()


def differences(battle: Battle, values: dict[str, dict[str, list]], b: int, keys: list, voxels, lost) -> list[str]:
    """Return the differences between the reference and battle `b` of the simulation."""
    found = []

    def expect(what: str, reference, sim_model) -> None:
        if not is_near(reference, sim_model):
            found.append(f"{what}: reference {reference}, sim_model {sim_model}")

    for n, mech in enumerate(battle.mechs):
        for name, value in values["mechs"].items():
            ours, theirs = getattr(mech, name), value[b][n]
            if name == "cooldown":
                ours = [ours[timer] for timer in Timer]
            if name == "yaw":
                ours = theirs + math.remainder(ours - theirs, math.tau)
            expect(f"mech {n} {mech.hull.name.lower()} {name}", ours, theirs)
        tally = {name: value[b][n] for name, value in values["tally"].items()}
        for name in (*AMOUNTS, *COUNTS):
            expect(f"mech {n} tally {name}", getattr(mech.tally, name), tally[name])
        for name in ("shots", "hits", "taken", "killed_by"):
            expect(f"mech {n} tally {name}", [getattr(mech.tally, name)[w] for w in Weapon], tally[name])

    flying = {(shot.weapon, shot.owner, shot.slot): shot for shot in battle.shots}
    for s, key in enumerate(keys):
        shot = flying.pop(key, None)
        expect(f"shot {key} ttl", shot.ttl if shot else 0, values["shots"]["ttl"][b][s])
        if shot:
            expect(f"shot {key} pos", shot.pos, values["shots"]["pos"][b][s])
            expect(f"shot {key} vel", shot.vel, values["shots"]["vel"][b][s])
            expect(f"shot {key} target", -1 if shot.target is None else shot.target, values["shots"]["target"][b][s])
    found += [f"shot {key}: no slot" for key in flying]

    clouds = {(cloud.owner, cloud.place): cloud for cloud in battle.clouds}
    places = len(values["clouds"]["ttl"][b]) // len(battle.mechs)
    for c, ttl in enumerate(values["clouds"]["ttl"][b]):
        cloud = clouds.pop((c // places, c % places), None)
        expect(f"cloud {c} ttl", cloud.ttl if cloud else 0, ttl)
        if cloud:
            expect(f"cloud {c} pos", cloud.pos, values["clouds"]["pos"][b][c])
    found += [f"cloud {key}: no place" for key in clouds]

    ours = np.frombuffer(battle.ground.material, dtype=np.uint8).reshape(voxels.shape)
    for z, y, x in np.argwhere(ours != voxels)[:5].tolist():
        found.append(f"voxel {x, y, z}: reference {ours[z, y, x]}, game {voxels[z, y, x]}")
    worn = np.zeros(voxels.size)
    for index, hp in battle.ground.lost.items():
        worn[index] = hp
    for index in np.flatnonzero(worn != lost.reshape(-1))[:5].tolist():
        found.append(f"hp lost by voxel {index}: reference {worn[index]}, game {lost.reshape(-1)[index]}")
    return found
