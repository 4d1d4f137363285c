"""`make`: a named task as an environment, in the view that the user's program expects."""

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
"""Called as `maker(config, num_envs=..., **settings)`, with `seed` and `device` where they are given."""
_VIEWS: dict[str, ViewMaker | str] = {
    "versus": versus,
    "partners": partners,
    "teams": teams,
    "mechs": mechs,
}
_COUNTED_AS: dict[str, str | None] = {}
"""By view: the maker's name for the number of battles, None where it makes one battle."""


def register_view(name: str, maker: ViewMaker | str, num_envs: str | None = "num_envs") -> None:
    """Let `make(..., view=name)` build environments by `maker`; a later registration replaces an earlier one.

    Args:
        name: an identifier.
        maker: called with the battle's `EnvConfig`, the number of battles, `seed` and `device` where they are given,
            and the user's settings; or `package.module:function`, imported when the view is first asked for.
        num_envs: what the maker calls the number of battles; None for a maker of single battles.

    Raises:
        ConfigError: the name is no identifier, or the maker is neither.
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
    """The battles of a task.

    Args:
        task: a name of `echelon.tasks()`, a `Task`, or a `Scenario`, whose battles begin as it says.
        view: `versus`, `partners`, `teams`, `mechs` (`echelon.views.build`), `pettingzoo`, `gymnasium`, or a name
            of `register_view`.
        num_envs: battles, B; 1 for `pettingzoo`.
        seed, device: as in `EchelonEnv`.
        split: `train`, or `evaluation` for the battles that `echelon.evaluate` judges in, on other maps. Training on
            these is no result of the task.
        settings: those of the view, such as `opponent`, `side`, `observation` and `action`. None of them changes the
            battles.

    Raises:
        ConfigError: there is no such task, view or split, the task is of other rules, or a setting is out of range.
        FileError: what the view's module needs is not installed.
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
    # What is not given is as the view has it by default.
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
