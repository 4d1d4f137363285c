"""Environments that begin in a scenario, scenarios that ship, and a builder of scenarios for a few lines of Python."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from echelon.env.arguments import FURTHER, check_further
from echelon.env.edited_states import check_begun
from echelon.env.env import EchelonEnv
from echelon.rules.config import EnvConfig
from echelon.rules.position import Box, Objective, Unit
from echelon.rules.roster import build_roster
from echelon.rules.scenario import Scenario, boxes_from_json, join, read_scenario
from echelon.runtime.errors import require
from echelon.runtime.limits import check_text
from echelon.sim.model import build_model
from echelon.world.authored_maps import write_maps

FOLDER = Path(__file__).with_name("files")
SUFFIX = ".json"


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios that ship with Echelon, which stand wherever the file of a scenario does."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}")))


def find_scenario(name: str | os.PathLike[str]) -> Scenario:
    """The scenario of a name, or of a file.

    Args:
        name: one of `scenario_names`; or the path of a file, as `read_scenario` takes it.

    Raises:
        FileError: there is neither, or the file cannot be read.
        ConfigError: as `read_scenario`.
    """
    require(isinstance(name, str | os.PathLike), "a scenario", "a name, a file or a Scenario", name)
    text = os.fspath(name)
    check_text("a scenario", text)
    if isinstance(name, str) and name in scenario_names():
        return read_scenario(FOLDER / f"{name}{SUFFIX}")
    is_name = os.sep not in text and not text.endswith(SUFFIX) and not Path(text).exists()
    expected = f"one of {', '.join(scenario_names())}, or the path of a JSON file"
    require(not is_name, "a scenario", expected, text)
    return read_scenario(text)


def check_playable(scenario: Scenario) -> None:
    """Refuse a scenario in which no battle can begin.

    Raises:
        ConfigError: naming a mech that cannot stand where it is put.
    """
    config = scenario.config
    check_begun(build_model(config, build_roster(config, torch.device("cpu")), write_maps(config)))


FACTS = ("bottom", "hp", "leg_hp", "heat", "area", "cooldown_s")
"""What `Scene.place` takes beside place and heading."""

FURTHER_OF_SCENES = ("seed", "memory", *(name for name in FURTHER if name != "maps"))
"""Arguments of `EchelonEnv` that `scene` passes on to it."""


class Scene:
    """A scenario under construction: methods add to it and return it.

        scene = echelon.Scene().wall((19, 10), (21, 30), height=4)
        scene.place("blue", "medium", at=(12, 20)).place("red", "heavy", at=(30, 20), facing_deg=180, heat=0.5)
        env = scene.env(num_envs=64, seed=0)

    Args:
        settings: world, rules, rewards and what else a battle has; its rosters give way to the mechs placed.
        zone: column x, y of the zone's centre and its radius, vox; by default 7.5 in the middle of the map.
        objective: what decides the battle; by default the zone.
    """

    def __init__(
        self, settings: EnvConfig | None = None, zone: tuple[float, ...] = (), objective: Objective | None = None
    ) -> None:
        self.settings, self.zone = EnvConfig.small() if settings is None else settings, zone
        self.objective = Objective() if objective is None else objective
        self.units: list[Unit] = []
        self.boxes: list[Box] = []

    def place(
        self,
        team: Literal["blue", "red"],
        hull: str,
        at: tuple[float, float] | tuple[()] = (),
        facing_deg: float = 0.0,
        **facts: Any,
    ) -> Scene:
        """Add a mech.

        Args:
            at: x, y of its centre, vox.
            facing_deg: its heading: 0 is +x, 90 is +y.
            facts: `bottom` (vox, by default on the ground), `hp`, `leg_hp`, `heat` (shares of the hull's),
                `cooldown_s`, and in place of `at` an `area`, as in `Unit`.

        Raises:
            ConfigError: a value is unknown or outside its limits.
        """
        for name in facts:
            require(name in FACTS, "Scene.place", f"given {', '.join(FACTS)}", name)
        require(len(at) in (0, 2), "Scene.place", "given x, y as at", at)
        facts |= zip("xy", at, strict=False)
        self.units.append(Unit(team, hull, facing_deg=facing_deg, **facts))
        return self

    def wall(
        self, low: tuple[int, int], high: tuple[int, int], height: int, material: str = "solid", bottom: int = 0
    ) -> Scene:
        """Add a box of voxels.

        Args:
            low, high: its first column x, y, and the column behind its last.
            height: of its top above the floor, vox.
            material: as in `Box`.
            bottom: of its underside, vox.
        """
        self.boxes.append(Box((*low, bottom), (*high, height), material))
        return self

    def draw(
        self,
        rows: Sequence[str],
        legend: Mapping[str, Mapping[str, str | int]] | None = None,
        low: tuple[int, int] = (0, 0),
        bottom: int = 0,
    ) -> Scene:
        """Add the boxes that a drawing of the map from above stands for.

        Args:
            rows: of equal length, the upper one first: `#` is a wall, `=` a reinforced one, `*` foliage, `~` water.
            legend: material and height by character, such as `{"x": {"material": "glass", "height": 3}}`.
            low: column x, y of the lower left character.
            bottom: height of the underside of all of it, vox.

        Raises:
            ConfigError: naming the row, or what is wrong with the legend.
        """
        layer = {"rows": list(rows), "low": list(low), "bottom": bottom}
        self.boxes += boxes_from_json([layer], legend or {}, "Scene.draw")
        return self

    @property
    def scenario(self) -> Scenario:
        """The scenario so far.

        Raises:
            ConfigError: as `Scenario`.
        """
        return Scenario(tuple(self.units), tuple(self.boxes), tuple(self.zone), self.settings, self.objective)

    def env(self, num_envs: int = 1, device: torch.device | str | None = None, **settings: Any) -> EchelonEnv:
        """Battles that begin so, see `echelon.scene`."""
        check_further(scene, settings, (*FURTHER_OF_SCENES, "maps"), "Scene.env")  # `scene` refuses maps, and says why.
        return scene(self.scenario, num_envs, device, **settings)


def scene(
    scenario: Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]],
    num_envs: int = 1,
    device: torch.device | str | None = None,
    weights: Sequence[int] | None = None,
    **settings: Any,
) -> EchelonEnv:
    """Battles that begin in a scenario, every time anew, each with chances of its own seed.

    Views play them by `echelon.versus(echelon.scene_config(scenario), ...)`.

    Args:
        scenario: or its name or file; of several of one shape, each battle draws one by its seed.
        num_envs, device: as in `EchelonEnv`.
        weights: as in `scene_config`.
        settings: further arguments of `EchelonEnv`: `seed`, `memory`, `backend`, `observer`, `info`, `extra_rewards`.

    Raises:
        ConfigError: as `scene_config`; or naming a mech that cannot stand where it is put: beyond the map, in solid
            terrain or another mech.
        FileError: the file cannot be read.
    """
    require("maps" not in settings, "maps", "absent: the scenario makes them", settings.get("maps"))
    check_further(scene, settings, FURTHER_OF_SCENES)
    return EchelonEnv(scene_config(scenario, weights), num_envs, device, **settings)


def scene_config(
    scenario: Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]],
    weights: Sequence[int] | None = None,
) -> EnvConfig:
    """The config of battles that begin in a scenario, or each in one of several, drawn by its own seed.

    Args:
        scenario: or its name or file, see `find_scenario`. Several have the same rosters and settings, and
            differ in ground, zone, and how mechs begin.
        weights: how often each of several is drawn, whole numbers of 1..100; by default all alike.

    Raises:
        ConfigError: naming the first setting in which two differ.
        FileError: a file cannot be read.
    """
    scenarios = scenario if isinstance(scenario, Sequence) and not isinstance(scenario, str) else [scenario]
    return join([item if isinstance(item, Scenario) else find_scenario(item) for item in scenarios], weights)


def config_of_words(words: Sequence[str]) -> EnvConfig:
    """`scene_config` of the words of a command line: names or files, each with `:WEIGHT` behind it if it has one."""
    matches = [re.fullmatch(r"(.*?)(?::(\d{1,9}))?", text, re.DOTALL) for text in words]
    names, weights = zip(*(match.groups() for match in matches if match), strict=True)
    return scene_config(names, [int(weight or 1) for weight in weights])
