"""Without its framework a module says in one line which extra installs it; the programs need none of them."""

import subprocess
import sys

import pytest

WITHOUT = """
import importlib, sys
for name in ("benchmarl", "gymnasium", "pettingzoo", "stable_baselines3"):
    sys.modules[name] = None
import echelon.pipelines.arena, echelon.pipelines.train
for name in ("benchmarl", "gymnasium", "pettingzoo", "sb3"):
    try:
        importlib.import_module("echelon.integrations." + name)
    except ModuleNotFoundError as error:
        print(error)
"""
NEEDS = {"benchmarl": "benchmarl", "gymnasium": "gymnasium", "pettingzoo": "gymnasium", "sb3": "stable_baselines3"}


@pytest.mark.long
def test_the_extra_is_named():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        f"echelon.integrations.{module} needs {needed}, which is not installed: pip install 'echelon[{module}]'"
        for module, needed in NEEDS.items()
    ], ran.stderr
