"""The observation of one mech during a fight, as a readable golden text."""

import dataclasses
import difflib
import math
from pathlib import Path

from builders import Scene, scene
from first_catalog import SMALL, Timer, Weapon
from reading import ECM, emits, look

from echelon.env.observation import layout
from echelon.rules.actions import Act
from echelon.rules.catalog import Material

GOLDEN = Path(__file__).parents[1] / "golden" / "cockpit.txt"
AGAIN = "PYTHONPATH=tests python tests/env/test_cockpit.py > tests/golden/cockpit.txt"
COMMANDER = 3
"""Blue's light, which has the suite of a pack commander."""
PARTS = {
    "rel_pos": ("ahead", "left", "up"),
    "rel_vel": ("ahead", "left", "up"),
    "velocity": ("ahead", "left", "up"),
    "target_rel_pos": ("ahead", "left", "up"),
    "position": ("x", "y", "z"),
    "rel_yaw_sin_cos": ("sin", "cos"),
    "yaw_sin_cos": ("sin", "cos"),
    "hull": ("scout", "light", "medium", "heavy"),
    "cooldown": ("primary", "secondary", "tertiary", "special", "ams"),
    "hit_from": ("ahead", "left"),
    "acoustics": ("ahead", "left", "behind", "right"),
    "zone_vector": ("ahead", "left"),
    "path_direction": ("ahead", "left"),
    "sort_mode": ("closest", "biggest", "damaged"),
}


def fight() -> Scene:
    """Five against five, with a wall east of the commander, who is at (10.5, 20.5) and faces north (+y)."""
    wall = (14, 15, 10, 24, 0, 8, Material.SOLID)
    north, south, west = math.pi / 2, -math.pi / 2, math.pi
    s = scene(dataclasses.replace(SMALL, command_suites=True), wall)

    s.place(3, 10.5, 20.5, north).set(3, hp=60, leg_hp=20, heat=70, stability=60, under_fire=5, suppressed=12)
    s.place(0, 10.5, 12.5, north).set(0, hp=150, heat=65, stability=90)  # heavy, behind
    s.place(1, 6.5, 26.5, north).set(1, hp=0)  # medium, dead
    s.place(2, 16.5, 16.5, 0.0).set(2, heat=110)  # medium, shut down beyond the wall
    s.place(4, 24.5, 12.5, north)  # scout, far beyond it

    s.place(6, 10.5, 27.5, south).set(6, hp=75, heat=30, stability=80)  # medium, ahead, comes closer
    s.place(8, 4.5, 20.5, 0.0)  # light, to the left, moves behind smoke
    s.place(5, 24.5, 20.5, west).paint(5, painter=4)  # heavy beyond the wall, painted by the scout
    s.place(7, 34.5, 10.5, west).set(7, fallen=20)  # medium, sensed only by the scout
    s.place(9, 30.5, 36.5, west)  # scout, jams

    mechs, state = s.state.mechs, s.state
    for mech, velocity in {3: (2, 1, 0), 0: (0, 1.5, 0), 6: (0, -2, 0), 8: (0, 3, 0), 5: (-1, 0, 0)}.items():
        mechs.vel[0, mech] = mechs.vel.new_tensor(velocity)
    for timer, left in {Timer.LASER: 6, Timer.MISSILE: 100, Timer.KINETIC: 1, Timer.PAINTER: 5}.items():
        mechs.cooldown[0, 3, timer] = left
    mechs.cooldown[0, 0, Timer.MISSILE] = 30
    mechs.hit_from[0, 3] = mechs.hit_from.new_tensor([1, 0])
    s.paint(3, painter=9).smoke(8, 3.5, 20.5, 1.0)
    s.throw(Weapon.MISSILE, 5, (18, 20.5, 6), (-12, 0, 0), target=3)
    for mech, number, value in ((0, 0, 0.5), (2, 1, -0.25), (3, 2, 0.9), (4, 7, 0.75)):
        state.messages[0, mech, number] = value
    s.state = state.replace(
        score=state.score.new_tensor([[12, 6]]), control=state.control.new_tensor([[0.25, 0.75]]), tick=state.tick + 480
    )
    return s


def cockpit(s: Scene, mech: int, *orders, focus) -> str:
    """Return the observation of one mech as text, field by field."""
    streams = {name: values[0, mech] for name, values in look(s, *orders, focus=focus).items()}
    lines = ["ego"]
    for feature in layout.EGO:
        values = streams["ego"][layout.columns(layout.EGO, feature.name)].tolist()
        lines.append(f"  {feature.name:<18}" + " ".join(named(feature.name, values)))
    for name, features in (("contacts", layout.CONTACT), ("squad", layout.SQUAD)):
        lines += ["", *table(name, features, streams[name][streams[f"{name}_mask"]])]
        assert not streams[name][~streams[f"{name}_mask"]].any()
    said, ground = streams["comms"].tolist(), streams["local_map"].flip(0, 1).tolist()
    lines += ["", "comms"]
    lines += [f"  packmate {k}  " + " ".join(map(short, words)) for k, words in enumerate(said) if any(words)]
    lines += ["", "local_map, ahead is up"]
    lines += ["  " + "".join("#" if blocked else "." for blocked in row) for row in ground]
    return "\n".join(lines) + "\n"


def table(name, features, rows) -> list[str]:
    """Return a text line per column of a stream, with its value in each filled row."""
    lines = [f"{name:<24}" + "".join(f"{k:>9}" for k in range(len(rows)))]
    for feature in features:
        values = rows[:, layout.columns(features, feature.name)].T.tolist()
        parts = PARTS.get(feature.name, ("",))
        for part, of_rows in zip(parts, values, strict=True):
            lines.append(f"  {feature.name + ' ' + part:<22}" + "".join(f"{short(value):>9}" for value in of_rows))
    return lines


def named(name, values) -> list[str]:
    """Return the values of a feature, each with the name of its part."""
    parts = PARTS.get(name, ("",) * len(values))
    return [f"{part} {short(value)}".strip() for part, value in zip(parts, values, strict=True)]


def short(value: float) -> str:
    return f"{round(value, 4) + 0.0:g}"


def printed() -> str:
    orders = emits(9, ECM), (COMMANDER, Act.SORT_MOST_DAMAGED, 1.0)
    return cockpit(fight(), COMMANDER, *orders, focus={0: 6, 2: 8, 4: 5})


def test_commander_observation_matches_the_golden_text():
    kept, now = GOLDEN.read_text(), printed()
    differences = difflib.unified_diff(kept.splitlines(), now.splitlines(), "golden", "now", lineterm="", n=0)
    assert kept == now, "\n".join(["", *differences, f"If the change is intended, review it all and run: {AGAIN}"])


if __name__ == "__main__":
    print(printed(), end="")
