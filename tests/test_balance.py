"""Counts of `benchmarks/balance.py`."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "balance.py"
SPEC = importlib.util.spec_from_file_location("balance", PROGRAM)
balance = sys.modules["balance"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(balance)

CONFIG = dataclasses.replace(
    EnvConfig.small(), map_pool=2, red=("light", "heavy"), rules=RulesConfig(max_episode_s=40.0)
)


@pytest.fixture(scope="module")
def found():
    args = balance.Args(preset="small", battles=2, seed=3)
    return balance.count("heuristic:expert", "heuristic:normal", args, CONFIG, torch.device("cpu"))


def test_shares_sum_to_the_whole(found):
    assert found["damage"] > 100
    for rows in (found["weapons"], found["hulls"]):
        assert sum(row["damage"] for row in rows.values()) == pytest.approx(found["damage"], rel=1e-4)
        assert sum(row["kills"] for row in rows.values()) == found["kills"]
    support = sum(row[kind] for row in found["hulls"].values() for kind in balance.SUPPORT)
    contributed = sum(balance.contribution(row) for row in found["hulls"].values())
    assert contributed == pytest.approx(found["damage"] + support, rel=1e-4)
    assert sum(row["assist_hp"] > 0 for row in found["hulls"].values()) <= found["assists"]


def test_each_battle_has_one_ending(found):
    assert found["blue_wins"] + found["red_wins"] + found["draws"] == found["battles"] == 2
    assert found["elimination"] + found["zone"] + found["time_up"] == 2 and found["standstill"] <= found["time_up"]


def test_output_names_each_weapon_and_class(found):
    console = Console(record=True, width=200)
    balance.show(found, CONFIG, console)
    text = console.export_text()
    for name in (*CONFIG.catalog.weapons, "scout", "light", "medium", "heavy"):
        assert f"│ {name} " in text
    assert "heuristic:expert against heuristic:normal, 2 battles of small" in text and "stood still" in text
