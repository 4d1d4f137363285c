"""Registry of models by name; `lstm`, `gru` and `mlp` are built in, and custom models are named
`package.module:Config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from echelon.learn.models.actor_critic import ModelConfig as ModelConfig
from echelon.learn.models.specs import PolicySpecs as PolicySpecs
from echelon.rules.config_json import as_json, from_json
from echelon.runtime.errors import ConfigError, require
from echelon.runtime.imports import OBJECT_NAME, allowed_modules, import_object, is_redefined

C = TypeVar("C", bound="ModelConfig")
KIND = "kind"
"""Key of a model's name among its settings in a file."""


BUILT_IN = {
    "lstm": "echelon.learn.models.lstm:LSTMConfig",
    "gru": "echelon.learn.models.gru:GRUConfig",
    "mlp": "echelon.learn.models.mlp:MLPConfig",
}
"""Built-in models and the classes that define them."""
_registered: dict[str, type[ModelConfig]] = {}


def register_model(name: str, config: type[ModelConfig]) -> None:
    """Register a custom model, so `--model NAME` and files can name it. A class that is defined again, as when a
    notebook cell is run again, replaces the earlier class of that name.

    Raises:
        ConfigError: if the name belongs to another model, or `config` is not a subclass of `ModelConfig`.
    """
    require(name.isidentifier() and name not in BUILT_IN, "name", f"an identifier not in {sorted(BUILT_IN)}", name)
    check_class(name, config)
    is_free = is_redefined(_registered.get(name, config), config)
    require(is_free, "name", "not registered for another model", name)
    _registered[name] = config


def check_class(name: str, config: object) -> None:
    """Raise `ConfigError` unless `config` is a subclass of `ModelConfig`."""
    is_model = isinstance(config, type) and issubclass(config, ModelConfig)
    require(is_model, f"model {name}", "a subclass of echelon.learn.models.registry.ModelConfig", config)


def model_class(kind: str) -> type[ModelConfig]:
    """Return the config class of a model. The call may import a module, so `kind` must come from the user, never from a
    file.

    Args:
        kind: one of `lstm`, `gru`, `mlp`, a registered name, and `package.module:Config`.

    Raises:
        ConfigError: if there is no such model.
        FileError: if the module does not exist.
    """
    if kind in _registered:
        return _registered[kind]
    names = ", ".join([*BUILT_IN, *_registered])
    is_name = kind in BUILT_IN or OBJECT_NAME.fullmatch(kind) is not None
    require(is_name, "a model", f"one of {names}, or package.module:Config", kind)
    config: Any = import_object(BUILT_IN.get(kind, kind))
    check_class(kind, config)
    return config


def kind_of(config: ModelConfig) -> str:
    """Return the name with which `model_class` finds the class of `config`."""
    kinds = [name for name in [*BUILT_IN, *_registered] if model_class(name) is type(config)]
    return kinds[0] if kinds else f"{type(config).__module__}:{type(config).__qualname__}"


def model_with(kind: str, sizes: ModelConfig) -> ModelConfig:
    """Return a model of another kind with the settings that it shares with `sizes`."""
    config = model_class(kind)
    shared = {field.name for field in fields(config)} & {field.name for field in fields(sizes)}
    return config(**{name: getattr(sizes, name) for name in shared})


def model_to_json(config: ModelConfig) -> dict[str, Any]:
    """Return a model and its kind as JSON values."""
    return {KIND: kind_of(config), **as_json(config)}


def is_available(values: Mapping[str, Any]) -> bool:
    """Return whether `model_from_json` may build a model of this kind."""
    kind = values.get(KIND)
    module = kind.partition(":")[0] if isinstance(kind, str) else ""
    return OBJECT_NAME.fullmatch(str(kind)) is None or module in allowed_modules() or kind in _registered


def model_from_json(values: Mapping[str, Any]) -> ModelConfig:
    """Build the config that `model_to_json` wrote.

    Raises:
        ConfigError: if the values are invalid, or the model's module was not allowed with `allow_module`; a file never
            imports code.
    """
    rest = dict(values)
    kind = rest.pop(KIND, None)
    require(isinstance(kind, str), "model.kind", "a str", kind)
    is_known = kind in BUILT_IN or kind in _registered
    if not is_known:
        module, colon, _ = kind.partition(":")
        if not colon or OBJECT_NAME.fullmatch(kind) is None:
            raise ConfigError(f"model.kind must be one of {', '.join([*BUILT_IN, *_registered])}, got {kind!r:.80}")
        hint = f"--allow-module {module} (imports it and runs its code: only for files you trust)"
        require(module in allowed_modules(), "model.kind", f"a model of Echelon's, or read with {hint}", kind)
    config = model_class(kind)
    if kind not in BUILT_IN:  # A user's class may have new fields since the file was written.
        rest = {**as_json(config()), **rest}
    return from_json(config, rest, "model")
