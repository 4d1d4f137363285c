"""Docstrings of public names document each argument, field and error."""

import ast
import dataclasses
import inspect
import pydoc
import re
import textwrap
from itertools import pairwise

import pytest

import echelon
from echelon.rules.config import EnvConfig, FeaturesConfig, WorldConfig
from echelon.rules.physics import RulesConfig
from echelon.views.build import MechView
from echelon.views.view import View

PUBLIC = {name: getattr(echelon, name) for name in echelon.__all__ if name != "__version__"}
CALLED = {name: one for name, one in PUBLIC.items() if inspect.isfunction(one)}
CLASSES = {name: one for name, one in PUBLIC.items() if inspect.isclass(one)} | {"View": View, "MechView": MechView}
FIELDS = [(one, field.name) for one in CLASSES.values() if dataclasses.is_dataclass(one)
          for field in dataclasses.fields(one)]  # fmt: skip
PLAIN = {"hp", "world", "rules", "reward", "features", "weapons", "suites", "hulls"}
"""Fields that are clear by name, or documented together with the next ones."""
UNIT = re.compile(r"_(s|vox|per_s|per_s2|rad_per_s|deg)$")


def documented_fields(kind):
    """Return the fields of a dataclass with their own docstring."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    return {
        node.target.id
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_each_name_has_a_docstring(name):
    doc = inspect.getdoc(PUBLIC[name])
    assert doc and not doc.startswith(f"{name}("), "one of its own, not that of a dataclass"


def told_arguments(one):
    """Return the names in the `Args` of a docstring."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"^ {4}([\w, ]+): ", inspect.getdoc(one), re.M))))


def checks_itself(name):
    """Return whether an object takes arguments, or refuses values."""
    one = PUBLIC[name]
    if inspect.isfunction(one):
        return bool(inspect.signature(one).parameters)
    return one.__module__.startswith("echelon.rules") and "__post_init__" in vars(one)


@pytest.mark.parametrize("name", [*filter(checks_itself, sorted(set(PUBLIC) - {"WeaponSpec"})), "EchelonEnv"])
def test_raised_errors_are_documented(name):
    """A `WeaponSpec` refuses nothing; its catalog checks it."""
    assert re.search(r"^Raises:\n {4}.*(ConfigError|FileError)", inspect.getdoc(PUBLIC[name]), re.M)


@pytest.mark.parametrize("name", [*CALLED, "EchelonEnv", "View"])
def test_each_argument_is_documented(name):
    """In the `Args`; a single argument may be described in the sentence."""
    one = CALLED.get(name) or CLASSES[name]
    arguments = set(inspect.signature(CALLED.get(name) or one.__init__).parameters) - {"self"}
    words = set(re.findall(r"\w+", inspect.getdoc(one))) if len(arguments) == 1 else set()
    assert arguments <= told_arguments(one) | words


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_each_field_is_documented_or_names_its_unit(kind, name):
    assert name in documented_fields(kind) | told_arguments(kind) | PLAIN or UNIT.search(name)


@pytest.mark.parametrize("name", CLASSES)
def test_each_public_method_and_property_is_documented(name):
    kind = CLASSES[name]
    own = {key: value for base in kind.__mro__ if base.__module__.startswith("echelon")
           for key, value in vars(base).items() if not key.startswith("_")}  # fmt: skip
    methods = {
        key for key, value in own.items() if inspect.isfunction(value) or isinstance(value, property | classmethod)
    }
    assert methods == {key for key in methods if inspect.getdoc(getattr(kind, key))}


@pytest.mark.parametrize("name", CALLED)
def test_help_is_short_enough_to_read(name):
    """A default config is shown as `EnvConfig()`, without the rows of its catalog."""
    lines = pydoc.render_doc(CALLED[name], renderer=pydoc.plaintext).splitlines()
    assert max(map(len, lines)) < 800


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        (EnvConfig(), "EnvConfig()"),
        (RulesConfig(dt_s=0.1), "RulesConfig(dt_s=0.1)"),
        (
            EnvConfig(world=WorldConfig(size_x=40), features=FeaturesConfig(smoke=False), map_pool=2),
            "EnvConfig(world=WorldConfig(size_x=40), features=FeaturesConfig(smoke=False), map_pool=2)",
        ),
        (echelon.Catalog(ams_vox=4.0), "Catalog(ams_vox=4.0)"),
    ],
)
def test_config_repr_shows_changed_fields_only(config, shown):
    assert repr(config) == shown
    names = {kind.__name__: kind for kind in (EnvConfig, RulesConfig, WorldConfig, FeaturesConfig, echelon.Catalog)}
    assert eval(shown, names) == config


def test_example_of_help_runs(monkeypatch):
    """The example of the package's docstring runs, on two maps."""
    few = dataclasses.replace(EnvConfig.small(), map_pool=2)
    monkeypatch.setattr(EnvConfig, "small", lambda: few)
    example = textwrap.dedent("\n".join(re.findall(r"^    .*$", echelon.__doc__, re.M)))
    told = re.search(r"# (\[.*\])$", example)[1]
    names = {"echelon": echelon}
    exec(example.replace("print(", "shape = (").replace("num_envs=64", "num_envs=2"), names)
    assert str([64, *names["shape"][1:]]) == told
