"""Import of classes and functions by name, and one-line errors."""

import sys

import pytest

from echelon.learn.callbacks.base import load_callbacks
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError
from echelon.runtime.imports import import_object, in_one_line


@pytest.fixture
def module(monkeypatch, tmp_path):
    """Create `of_my_own.py` in the current folder."""
    (tmp_path / "of_my_own.py").write_text("LIMIT = 3\ndef double(x):\n    return 2 * x\n")
    (tmp_path / "needs_more.py").write_text("import not_installed_anywhere\n")
    (tmp_path / "ends_here.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("of_my_own", "needs_more", "ends_here"):
        sys.modules.pop(name, None)


def test_a_function_of_the_current_folder_is_imported(module):
    assert import_object("of_my_own:double")(4) == 8
    assert import_object("collections:OrderedDict")() == {}


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("of_my_own.double", ConfigError, "an imported name must be of the form package.module:name, got 'of_my_own"),
        ("../of_my_own:double", ConfigError, "must be of the form package.module:name"),
        ("missing.module:double", FileError, "missing.module:double: no module missing.module in .* or on Python's"),
        ("of_my_own:halve", ConfigError, "of_my_own must have a class or function halve, got None"),
        (
            "ends_here:f",
            ConfigError,
            r"module ends_here must not exit the program when it is imported, got SystemExit\(3\)",
        ),
        ("of_my_own:LIMIT", ConfigError, "of_my_own must have a class or function LIMIT, got 3"),
    ],
)
def test_invalid_object_name_is_one_line(module, name, error, message):
    with pytest.raises(error, match=message) as caught:
        import_object(name)
    assert "\n" not in str(caught.value)


def test_missing_dependency_of_a_module_is_reported(module):
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        import_object("needs_more:anything")


def test_call_that_exits_is_one_line():
    line = in_one_line("mine: expected a number")
    with pytest.raises(ConfigError, match="mine: expected a number, got SystemExit: 3"), line:
        sys.exit(3)


def test_callback_that_exits_is_one_line(module):
    with pytest.raises(ConfigError, match="--callbacks sys:exit must be callable without arguments, got SystemExit"):
        load_callbacks(["sys:exit"])
