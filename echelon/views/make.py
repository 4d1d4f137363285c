"""Create the environment of a named task in a chosen view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from echelon.env.tasks.task import Task, find_task
from echelon.rules.scenario import Scenario
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.files import FileError
from echelon.runtime.imports import OBJECT_NAME, import_object
from echelon.views.build import mechs, partners, teams, versus

Split = Literal["train", "evaluation"]
ViewMaker = Callable[..., Any]
"""Called as `maker(config, num_envs=..., **settings)`, with `seed` and `device` if they are given."""
_VIEWS: dict[str, ViewMaker | str] = {
    "versus": versus,
    "partners": partners,
    "teams": teams,
    "mechs": mechs,
}
_COUNTED_AS: dict[str, str | None] = {}
"""By view: the maker's name for the number of battles; None if it makes a single battle."""


def register_view(name: str, maker: ViewMaker | str, num_envs: str | None = "num_envs") -> None:
    """Register a function, the maker, that creates environments for `make(..., view=name)`; a later registration
    replaces an earlier one.

    Args:
        name: an identifier.
        maker: called with the battle's `EnvConfig`, the number of battles, `seed` and `device` if they are given, and
            the user's settings; or `package.module:function`, imported at the view's first use.
        num_envs: name of the maker's argument for the number of battles; None for a maker of single battles.

    Raises:
        ConfigError: if the name is no identifier, or the maker is neither a function nor `package.module:function`.
    """
    require(isinstance(name, str) and name.isidentifier(), "a view's name", "an identifier", name)
    is_maker = callable(maker) or (isinstance(maker, str) and OBJECT_NAME.fullmatch(maker) is not None)
    require(is_maker, f"maker of view {name}", "a function or package.module:function", maker)
    _VIEWS[name], _COUNTED_AS[name] = maker, num_envs


def make(
    task: str | Task | Scenario,
    view: str = "versus",
    num_envs: int = 1,
    seed: int | Tensor | None = None,
    device: torch.device | str | None = None,
    *,
    split: Split = "train",
    **settings: Any,
) -> Any:
    """Create an environment with the battles of a task.

    Args:
        task: a name in `echelon.tasks()`, a `Task`, or a `Scenario`, which sets how its battles start.
        view: name of the view, one of `versus`, `partners`, `teams`, `mechs` (`echelon.views.build`), `pettingzoo`,
            `gymnasium`, or a name registered with `register_view`.
        num_envs: number of battles B; 1 for `pettingzoo`.
        seed, device: see `EchelonEnv`.
        split: which battles to use, `train`, or `evaluation` for the battles of `echelon.evaluate`, on other maps.
            Results of policies trained on evaluation battles do not count.
        settings: arguments of the view, such as `opponent`, `side`, `observation` and `action`. Settings cannot change
            the battles.

    Returns:
        The environment that the view's maker creates.

    Raises:
        ConfigError: if the task, view or split does not exist, the task was made for another rules version, or a
            setting is out of range.
        FileError: if a package that the view needs is not installed.
    """
    spec = find_task(task)
    require(split in ("train", "evaluation"), "split", "train or evaluation", split)
    for name in ("config", "maps"):
        require(name not in settings, name, f"absent: task {spec.name} fixes the battles", settings.get(name))
    config = spec.config if split == "train" else spec.evaluation_config
    count = _COUNTED_AS.get(view, "num_envs")
    if count is None:
        require(num_envs == 1, "num_envs", f"1 for view {view}", num_envs)
    else:
        settings[count] = num_envs
    # Omitted arguments keep the view's defaults.
    arguments = {name: value for name, value in (("seed", seed), ("device", device)) if value is not None}
    return maker_of(view)(config, **arguments, **settings)


def maker_of(view: str) -> ViewMaker:
    require(view in _VIEWS, "view", f"one of {', '.join(_VIEWS)}", view)
    maker = _VIEWS[view]
    if callable(maker):
        return maker
    try:
        return import_object(maker)
    except (ModuleNotFoundError, FileError) as error:
        raise ConfigError(f"view {view} needs {maker.partition(':')[0]} and what it imports: {error}") from None
