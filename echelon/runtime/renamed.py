"""Old public names, valid until 2.0, most of them training settings. An old name in code or in a flag causes a warning;
an old name in a file does not."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

K = TypeVar("K", bound=type)
logger = logging.getLogger(__name__)

RENAMED = {
    "past_share": "snapshot_opponent_share",
    "init": "init_from",
    "live": "dashboard",
    "live_port": "dashboard_port",
    "live_host": "dashboard_host",
    "curriculum.levels": "curriculum.map_sampling",
    "curriculum.levels_uniform": "curriculum.map_sampling_uniform",
    "curriculum.levels_stale": "curriculum.map_sampling_stale",
    "curriculum.step_up": "curriculum.advance_at_win_rate",
}
"""Current names of settings of `TrainConfig`, keyed by old name. Names are dotted paths."""


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Warn that a public name has changed. `stacklevel` counts from the caller, as in `warnings.warn`."""
    warnings.warn(f"{old} is {new} now; the old name works until 2.0", FutureWarning, stacklevel=stacklevel + 1)


def renamed_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested JSON settings with old names replaced by current ones. `prefix` is the dotted path of the
    settings."""
    renamed = {}
    for name, value in settings.items():
        current = RENAMED.get(f"{prefix}{name}", name).removeprefix(prefix)
        renamed[current] = renamed_settings(value, f"{prefix}{name}.") if isinstance(value, dict) else value
    return renamed


def accept_old_names(prefix: str = "") -> Callable[[K], K]:
    """Class decorator: accept old names as keywords and attributes of a config dataclass, with a `FutureWarning`.

    Args:
        prefix: dotted path of the dataclass in `TrainConfig`, such as `curriculum.`.
    """
    names = {
        old.removeprefix(prefix): new.removeprefix(prefix)
        for old, new in RENAMED.items()
        if old.startswith(prefix) and "." not in old.removeprefix(prefix)
    }

    def decorate(kind: K) -> K:
        construct = kind.__init__  # type: ignore[misc]

        def warn(old: str) -> None:
            warn_renamed(f"{kind.__name__}.{old}", f"{kind.__name__}.{names[old]}", stacklevel=3)

        @functools.wraps(construct)
        def init(self: Any, *values: Any, **settings: Any) -> None:
            for old in names.keys() & settings.keys():
                warn(old)
                settings[names[old]] = settings.pop(old)
            construct(self, *values, **settings)

        def attribute(self: Any, name: str) -> Any:
            if name not in names:
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            warn(name)
            return getattr(self, names[name])

        kind.__init__, kind.__getattr__ = init, attribute  # type: ignore[misc,attr-defined]
        return kind

    return decorate


def current_flags(words: Sequence[str]) -> list[str]:
    """Return a command line with each old flag of a training replaced by the current one, and log a warning for each.

    The flags may begin with `--train.`, as in commands that start a training.
    """
    result = []
    for word in words:
        flag, equals, value = word.partition("=")
        *outer, last = flag.removeprefix("--").replace("-", "_").split(".")
        # A switch is turned off by its negative form, such as --no-live or --train.no-live.
        no = "no_" if last.startswith("no_") else ""
        at = ["train"] if outer[:1] == ["train"] else []
        current = RENAMED.get(".".join([*outer[len(at) :], last.removeprefix(no)]))
        if flag.startswith("--") and current is not None:
            *outer, last = current.split(".")
            name = "--" + ".".join([*at, *outer, no + last]).replace("_", "-")
            logger.warning("%s is %s now; the old flag works until 2.0", flag, name)
            word = f"{name}{equals}{value}"
        result.append(word)
    return result
