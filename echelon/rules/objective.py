"""What decides a battle beside the death of a whole team, as data of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from echelon.rules.limits import LARGEST_MAP_VOX
from echelon.runtime.errors import require
from echelon.runtime.limits import Limits, Settings

USES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "zone": ("control_s",),
        "hold": ("attackers", "seconds", "control_s"),
        "escort": ("mech", "seconds"),
        "breakthrough": ("attackers", "mechs", "seconds"),
        "elimination": (),
        "king_of_two": ("second_zone", "control_s"),
    }
)
"""The fields of an `Objective` that each kind has."""
MOST_RUNNERS, SHORTEST_S, LASTS = 20, 0.001, Limits(0, 1e6, "s")


@dataclass(frozen=True)
class Objective(Settings):
    """What decides a battle beside the death of a whole team. The zone meant is that of the scenario.

    Raises:
        ConfigError: naming a field that is outside its limits, that its kind needs, or that its kind has not.
    """

    kind: Literal["zone", "hold", "escort", "breakthrough", "elimination", "king_of_two"] = "zone"
    """`zone`: who controls it long enough wins; `hold`: so do attackers, and their enemies win when time is up;
    `escort`: a mech reaches the zone, or its enemies win by its death or when time is up; `breakthrough`: so many
    mechs of one team reach it; `elimination`: nothing else decides; `king_of_two`: as `zone`, and of two zones each
    counts half."""
    attackers: Literal["blue", "red"] = "blue"
    """Of `hold` and `breakthrough`: who has to act. Of `escort` it is the team of the mech."""
    seconds: Annotated[float, LASTS] = 0.0
    """Of `hold`, `escort` and `breakthrough`: when the other team wins; 0: when the battle's time is up."""
    control_s: Annotated[float, LASTS] = 0.0
    """Of `zone`, `hold` and `king_of_two`: seconds of zone control that win; 0: `zone_score_to_win_s` of the rules."""
    mech: str = ""
    """Of `escort`: the mech, such as `blue_1`."""
    mechs: Annotated[int, Limits(1, MOST_RUNNERS, "mechs")] = 1
    """Of `breakthrough`: how many mechs have to reach the zone."""
    second_zone: Annotated[tuple[float, ...], Limits(0, LARGEST_MAP_VOX, "vox")] = ()
    """Of `king_of_two`: column x, y of its centre, and its radius, vox."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in {name for names in USES.values() for name in names} - set(USES[self.kind]):
            value = getattr(self, name)
            require(value == getattr(Objective, name), f"Objective.{name}", f"absent from the kind {self.kind}", value)
        counts = self.control_s == 0 or self.control_s >= SHORTEST_S
        require(counts, "Objective.control_s", f"0 or {SHORTEST_S}..1e6 s", self.control_s)
        if self.kind == "escort":
            require(self.mech != "", "Objective.mech of an escort", "a mech, such as blue_1", self.mech)
        if self.kind == "king_of_two":
            require(len(self.second_zone) == 3, "Objective.second_zone", "x, y, radius", self.second_zone)

    @property
    def attacking(self) -> str:
        """The team that has to act, in a `hold`, `escort` or `breakthrough`."""
        return self.mech.partition("_")[0] if self.kind == "escort" else self.attackers

    def check(self, size: tuple[int, int, int], longest_s: float, names: Collection[str]) -> None:
        """Refuse an objective that a battle cannot have.

        Args:
            size: of the map, vox.
            longest_s: when the battle's time is up.
            names: of its mechs.

        Raises:
            ConfigError: naming the field.
        """
        if self.kind == "escort":
            require(self.mech in names, "Objective.mech", f"one of {', '.join(names)}", self.mech)
        if self.kind == "breakthrough":
            count = sum(name.startswith(self.attackers) for name in names)
            require(self.mechs <= count, "Objective.mechs", f"1..{count} mechs of {self.attackers}", self.mechs)
        if self.kind == "king_of_two":
            check_circle("Objective.second_zone", self.second_zone, size)
        limit = f"at most {longest_s:g} s, the longest battle"
        require(self.seconds <= longest_s, "Objective.seconds", limit, self.seconds)


def whole_columns(circle: tuple[float, ...]) -> tuple[int, int, float]:
    """Column x, y of a zone's centre, and its radius, vox."""
    x, y, radius = circle
    return int(x), int(y), float(radius)


def check_circle(name: str, circle: tuple[float, ...], size: tuple[int, int, int]) -> None:
    """Raise `ConfigError` for a zone that is not within a map of `size` vox."""
    x, y, radius = whole_columns(circle)
    nearest = min(x, y, size[0] - 1 - x, size[1] - 1 - y)
    require(1 <= radius <= nearest + 1, f"radius of {name}", f"1..{nearest + 1:g} vox, within the map", radius)
