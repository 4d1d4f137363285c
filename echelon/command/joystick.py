"""Manual control of one mech in place of its policy: parse and check `drive` messages, and compute the action."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from echelon.command.reply import index_of, number_of, place_of
from echelon.rules.actions import TRIGGER_COLUMNS, Act
from echelon.rules.catalog import ECCM_TRIGGER
from echelon.runtime.errors import require
from echelon.runtime.geometry import wrap_angle
from echelon.runtime.renamed import warn_renamed
from echelon.sim.model import SimModel
from echelon.state import State

FIELDS = ("battle", "mech", "ahead", "left", "jets", "turn", "face", "fire", "vent", "target")
AXES = {"ahead": (Act.FORWARD, -1.0), "left": (Act.STRAFE, -1.0), "jets": (Act.VERTICAL, 0.0)}
"""Action column of each axis, and its minimum; the maximum is 1."""
TRIGGER_NAMES = tuple(trigger.name.lower() for trigger in TRIGGER_COLUMNS)
NUM_DRIVEN = Act.SORT_CLOSEST
"""Number of action columns under manual control. The policy keeps the later ones: contact sorting and messages."""


@dataclass(frozen=True)
class Joystick:
    """Control inputs of a mech, valid until the next `drive` message."""

    battle: int
    mech: str
    ahead: float = 0.0
    """Forward speed as a fraction of the maximum, -1..1."""
    left: float = 0.0
    """Speed to the left as a fraction of the maximum, -1..1."""
    jets: float = 0.0
    """Jet thrust, 0..1; ignored for a hull without jets."""
    turn: float = 0.0
    """Turn rate to the left as a fraction of the maximum yaw rate, -1..1; ignored if `face` is set."""
    face: tuple[float, float] | None = None
    """Position to turn to, x and y in vox."""
    fire: tuple[str, ...] = ()
    """Pressed triggers, names from `TRIGGER_NAMES`; the secondary trigger of electronic warfare activates jamming."""
    vent: bool = False
    target: str | None = None
    """Name of the enemy to aim at while it is visible."""

    def action(self, state: State, sim_model: SimModel, names: Sequence[str]) -> Tensor:
        """Return the mech's action columns `[NUM_DRIVEN]` for the state before the decision.

        `names` lists all mechs of the battle.
        """
        mech = list(names).index(self.mech)
        row = torch.full((NUM_DRIVEN,), -1.0, dtype=torch.float32, device=state.seed.device)
        for name, (column, _) in AXES.items():
            row[column] = getattr(self, name)
        row[Act.YAW_RATE] = self.turn if self.face is None else self._turn_to(self.face, mech, state, sim_model)
        row[Act.VENT] = 1.0 if self.vent else -1.0
        for name, column in zip(TRIGGER_NAMES, TRIGGER_COLUMNS.values(), strict=True):
            # A value above `ECCM_TRIGGER` would select ECCM (clear own sensors) instead of ECM (jam enemy sensors).
            row[column] = ECCM_TRIGGER if name in self.fire else -1.0
        if self.target is not None:
            sought = state.focus_slots[self.battle, mech] == list(names).index(self.target)
            row[Act.PREFER_0 : NUM_DRIVEN] = 2.0 * sought - 1.0
        return row

    def _turn_to(self, place: tuple[float, float], mech: int, state: State, sim_model: SimModel) -> Tensor:
        """Return the yaw command `[]` (fraction of the maximum) that turns the mech to a position without overshoot."""
        x, y = (
            axis - coordinate for axis, coordinate in zip(place, state.mechs.pos[self.battle, mech, :2], strict=True)
        )
        yaw_error = torch.atan2(y, x) - state.mechs.yaw[self.battle, mech]
        return (wrap_angle(yaw_error) / (sim_model.roster.yaw_rate[mech] * sim_model.rules.decision_s)).clamp(-1.0, 1.0)


def read_joystick(
    drive: Any, batch: int, own: Sequence[str], enemies: Sequence[str], size: Sequence[float]
) -> Joystick:
    """Parse a `drive` message, which controls a mech manually, into a `Joystick`.

    Args:
        drive: a mapping with `mech`, the name of a mech of the own team, and those `FIELDS` that differ from their
            defaults.
        batch: number of battles.
        own, enemies: names of the mechs of the own team and of the enemy team.
        size: map size along x and y, in vox.

    Raises:
        ConfigError: if a field is unknown or invalid.
    """
    example = 'an object such as {"mech": "blue_0", "ahead": 1}, or null to let go'
    require(isinstance(drive, Mapping), "drive", example, drive)
    unknown = [key for key in drive if key not in FIELDS]
    require(not unknown, "drive", f"of {', '.join(FIELDS)} only", unknown)
    battle, mech = index_of(drive.get("battle", 0), "drive.battle", batch), drive.get("mech")
    require(isinstance(mech, str) and mech in own, "drive.mech", f"one of {', '.join(own)}", mech)
    axes = {name: number_of(drive.get(name, 0.0), f"drive.{name}", low, 1.0) for name, (_, low) in AXES.items()}
    turn, face = number_of(drive.get("turn", 0.0), "drive.turn", -1.0, 1.0), drive.get("face")
    face = None if face is None else place_of(face, "drive.face", size)
    fire, vent, target = drive.get("fire", ()), drive.get("vent", False), drive.get("target")
    are_triggers = isinstance(fire, list | tuple) and all(
        isinstance(name, str) and name in TRIGGER_NAMES for name in fire
    )
    require(are_triggers, "drive.fire", f"a list of {', '.join(TRIGGER_NAMES)}", fire)
    require(isinstance(vent, bool), "drive.vent", "true or false", vent)
    is_enemy = target is None or (isinstance(target, str) and target in enemies)
    require(is_enemy, "drive.target", f"one of {', '.join(enemies)}", target)
    return Joystick(battle, mech, **axes, turn=turn, face=face, fire=tuple(fire), vent=vent, target=target)


def __getattr__(name: str) -> type[Joystick]:
    """Return the class `Joystick` for its old name `Stick`, which works until 2.0."""
    if name != "Stick":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed("echelon.command.joystick.Stick", "Joystick")
    return Joystick
