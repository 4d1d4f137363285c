"""A module without its framework names the extra to install in one line; the programs need no framework."""

import re
import subprocess
import sys

import pytest

WITHOUT = """
import importlib, sys
for name in ("benchmarl", "gymnasium", "h5py", "minari", "openenv", "pettingzoo", "stable_baselines3", "verifiers"):
    sys.modules[name] = None
import echelon.pipelines.arena, echelon.pipelines.train
for name in sys.argv[1:]:
    try:
        importlib.import_module("echelon." + name)
    except ModuleNotFoundError as error:
        print(error)
"""
NEEDS = {
    "integrations.benchmarl": "benchmarl",
    "integrations.gymnasium": "gymnasium",
    "integrations.openenv": "openenv",
    "integrations.pettingzoo": "gymnasium",
    "integrations.sb3": "stable_baselines3",
    "integrations.verifiers": "verifiers",
    "datasets.minari": "h5py",
}


@pytest.mark.long
def test_missing_package_error_names_extra():
    ran = subprocess.run([sys.executable, "-c", WITHOUT, *NEEDS], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [
        f"echelon.{module} needs {needed}, which is not installed: pip install 'echelon-marl[{module.split('.')[1]}]'"
        for module, needed in NEEDS.items()
    ], ran.stderr


@pytest.mark.long
def test_missing_ray_error_names_packages():
    program = "import sys; sys.modules['ray'] = None; import echelon.integrations.rllib"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = ran.stderr.splitlines()[-1].removeprefix("ModuleNotFoundError: ")
    assert re.fullmatch(r"echelon.integrations.rllib needs (ray|gymnasium)\S*, which is not installed: pip .*", last)
