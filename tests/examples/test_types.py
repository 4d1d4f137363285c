"""Types of the installed package for editors and type checkers."""

import inspect
import os
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typed_program

import echelon
from echelon.views.view import View

ROOT = Path(__file__).parents[2]
UNTYPED = "[mypy]\n[mypy-tensordict.*,torchrl.*]\nignore_missing_imports = True\n"
"""Settings for a strict program, because TensorDict and TorchRL have no types."""


@pytest.mark.parametrize("kind", [echelon.EchelonEnv, View])
def test_environment_signature_is_visible(kind):
    """Without a fix, TorchRL's metaclass would show `(*args, **kwargs)`."""
    shown = inspect.signature(kind)
    asked = inspect.signature(kind.__init__).parameters
    assert list(shown.parameters) == list(asked)[1:] and len(asked) > 5
    assert [shown.parameters[name] for name in shown.parameters] == list(asked.values())[1:]
    text = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    # Python 3.13 prints each argument on its own line.
    assert re.search(rf"^ \|  {kind.__name__}\((\n \| +)?{list(asked)[1]}: ", text, re.M)


def test_subclass_and_call_signatures_are_visible():
    class Mine(echelon.EchelonEnv):
        def __init__(self, battles: int) -> None:
            super().__init__(num_envs=battles)

    assert list(inspect.signature(Mine).parameters) == ["battles"]
    assert list(inspect.signature(Mine(1)).parameters) == ["args", "kwargs"]


def test_typed_program_runs():
    paid = typed_program.main(num_envs=2, decisions=4)
    assert 0 < paid["cool"] <= 0.1 and paid["battles"] == 2


@pytest.mark.long
def test_mypy_strict_accepts_valid_and_rejects_invalid_program(tmp_path):
    program = tmp_path / "program.py"
    shutil.copy(typed_program.__file__, program)
    (tmp_path / "mypy.ini").write_text(UNTYPED)

    def checked() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".cache", program.name],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout

    assert checked() == "Success: no issues found in 1 source file\n"
    text = program.read_text()
    assert text.count("CONFIG, num_envs, ") == 1
    program.write_text(text.replace("CONFIG, num_envs, ", 'CONFIG, "four", '))
    assert re.findall(r'error: (.*?) has incompatible type "str"', checked()) == ['Argument 2 to "EchelonEnv"']
