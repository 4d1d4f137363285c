"""A short task of protocol 2 (3v3, twelve substeps), for tests that play all of it."""

import dataclasses
from pathlib import Path

import pytest
import torch
from builders import short_battles
from leagues import TINY

from echelon.arena.match import battle_seeds
from echelon.arena.strangers import evaluation, verify
from echelon.env.tasks.strangers import Population, Strangers, hash_of_seeds
from echelon.env.tasks.task import Task, held_out
from echelon.learn.checkpoint.files import save_checkpoint
from echelon.learn.checkpoint.format import Counters
from echelon.learn.checkpoint.provenance import NOTHING, Provenance
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.versions import current_versions

ROSTER = ("medium", "light", "scout")
CONFIG = dataclasses.replace(short_battles(12), blue=ROSTER, red=ROSTER)
STRANGERS = Strangers(
    Population(("heuristic:easy",), ("heuristic:easy",), (ROSTER,)),
    Population(("heuristic:expert",), ("heuristic:expert",), (("heavy", "light", "scout"),)),
    Population(
        ("style:rusher", "style:turtle"),
        ("style:jammer", "style:rusher"),
        (("medium", "medium", "scout"), ("heavy", "medium", "light")),
    ),
    battles=8,
    beside=2,
    pieces=2,
)
TASK = Task(
    "tests/strangers-v1",
    "brief battles of three",
    dataclasses.replace(CONFIG, split="train"),
    *current_versions(),
    evaluation=dataclasses.replace(held_out(CONFIG), split="test"),
    strangers=dataclasses.replace(STRANGERS, seeds_sha256=hash_of_seeds(battle_seeds(STRANGERS.seed, 8))),
)
BATTLES = 2 * 8 + 2 * 2 * 2 * 2 + 2
"""Two opponents; one mech and two beside two partners against each; one set piece."""


def play_one_piece(patch: pytest.MonkeyPatch) -> None:
    """Play only the shortest set piece, and register the task by its name."""
    for module in (evaluation, verify):
        patch.setattr(module, "piece_names", lambda: ["jam"])
    patch.setattr("echelon.env.tasks.task._REGISTERED", {TASK.name: TASK})


def fighter(folder: Path, seed: int, provenance: Provenance = NOTHING) -> Path:
    """Return a checkpoint of a network with random weights."""
    torch.manual_seed(seed)
    policy = TINY.build(PolicySpecs(CONFIG.comm_dim))
    policy.network.head.loc.weight.data.mul_(50)
    path = folder / f"policy_{seed}"
    save_checkpoint(path, policy.eval(), ValueNorm(), CONFIG, Counters(seed, seed, 1.0), {}, provenance=provenance)
    return path
