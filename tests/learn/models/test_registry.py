"""Models by name, and which names files may contain."""

import sys
from dataclasses import dataclass

import pytest

from echelon.learn.models import registry
from echelon.learn.models.gru import GRUConfig
from echelon.learn.models.lstm import LSTMConfig
from echelon.learn.models.mlp import MLPConfig
from echelon.learn.models.registry import (
    ModelConfig,
    PolicySpecs,
    model_class,
    model_from_json,
    model_to_json,
    model_with,
    register_model,
)
from echelon.runtime import imports
from echelon.runtime.errors import ConfigError

pytestmark = pytest.mark.quick


@dataclass(frozen=True)
class Deep(ModelConfig):
    """A custom model."""

    layers: int = 3


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(imports, "_allowed_modules", set())


@pytest.mark.parametrize("config", [LSTMConfig(hidden=8), GRUConfig(std="fixed"), MLPConfig(critic="central")])
def test_built_in_models_round_trip_through_json(config):
    values = model_to_json(config)
    assert model_from_json(values) == config and type(model_from_json(values)) is type(config)


def test_registered_name_is_stored_in_files():
    register_model("deep", Deep)
    values = model_to_json(Deep(layers=5))
    assert values["kind"] == "deep" and model_from_json(values) == Deep(layers=5) and model_class("deep") is Deep


@pytest.mark.parametrize(("name", "config"), [("lstm", Deep), ("a name", Deep), ("deep", int), ("deep", Deep())])
def test_invalid_model_registration_raises(name, config):
    with pytest.raises(ConfigError):
        register_model(name, config)


def test_file_imports_only_allowed_modules(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom echelon.learn.models.registry import ModelConfig\n"
        "@dataclass(frozen=True)\nclass Config(ModelConfig):\n    layers: int = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="--allow-module mine"):
        model_from_json({"kind": "mine:Config", "layers": 2})
    assert "mine" not in sys.modules
    imports.allow_module("mine")
    try:
        assert model_from_json({"kind": "mine:Config", "layers": 2}).layers == 2
    finally:
        sys.modules.pop("mine", None)


@pytest.mark.parametrize("kind", ["", "deep", "os:system:x", "../x:y", "mine", 3, None, "a" * 10_000])
def test_invalid_model_kind_in_file_raises_one_line(kind):
    with pytest.raises(ConfigError) as error:
        model_from_json({"kind": kind})
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_model_with_copies_shared_settings():
    assert model_with("mlp", LSTMConfig(hidden=16, std="fixed")) == MLPConfig(hidden=16, std="fixed")


def test_model_without_build_raises():
    with pytest.raises(NotImplementedError, match=r"Deep.build must return an ActorCritic"):
        Deep().build(PolicySpecs(8))
