"""Repeatedly kill a process that saves checkpoints; started by `test_killed`.

Each saver is a fork, so imports run once. Prints one JSON line.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

import torch
from tiny_runs import TINY

from echelon.learn.checkpoint.files import (
    checkpoint_path,
    inspect_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from echelon.learn.checkpoint.format import Counters, RunState, open_checkpoint
from echelon.learn.models.actor_critic import ActorCritic
from echelon.learn.models.registry import PolicySpecs
from echelon.learn.models.value_normalizer import ValueNorm
from echelon.rules.config import EnvConfig
from echelon.runtime.tensor_files import StateDict

MOST_STEPS = 40
"""Maximum number of files and folders synced before a saver is killed, those of five checkpoints."""


def save_for_ever(policy: ActorCritic, folder: Path, after: int, told: int, steps: int) -> None:
    """Save one iteration after another; report each saved one to `told`, and write a byte to `steps` per synced
    file."""
    fsync = os.fsync

    def noted(handle: int) -> None:
        fsync(handle)
        os.write(steps, b".")

    os.fsync = noted
    norm, env, number = ValueNorm(), EnvConfig.small(), after
    while True:
        number += 1
        run = RunState({}, {}, {"battles": StateDict({"at": torch.full((10_000,), float(number))}, {"at": number})})
        save_checkpoint(
            checkpoint_path(folder, number),
            policy,
            norm,
            env,
            Counters(number),
            {"at": torch.tensor(number)},
            None,
            run,
        )
        os.write(told, number.to_bytes(8, "little"))
        prune_checkpoints(folder, last=2, best=3)


def kill_a_saver(policy: ActorCritic, folder: Path, after: int, steps: int) -> int:
    """Start a saver and kill it after this number of synced files and folders. Return the last iteration that it
    reported as saved."""
    (hear, told), (watch, step) = os.pipe(), os.pipe()
    saver = os.fork()
    if saver == 0:
        save_for_ever(policy, folder, after, told, step)
    os.close(told)
    os.close(step)
    for _ in range(steps):
        os.read(watch, 1)
    os.kill(saver, signal.SIGKILL)
    os.waitpid(saver, 0)
    os.close(watch)
    said = b""
    while more := os.read(hear, 1 << 16):
        said += more
    os.close(hear)
    return int.from_bytes(said[len(said) // 8 * 8 - 8 : len(said) // 8 * 8], "little") if said else after


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    chance, policy = random.Random(0), TINY.build(PolicySpecs(8))
    at, in_a_draft, seen = 0, 0, 0
    for _ in range(kills):
        said = kill_a_saver(policy, folder, at, chance.randint(1, MOST_STEPS))
        shelf = folder / "checkpoints"
        in_a_draft += any(shelf.glob(".iteration_*")) if shelf.exists() else 0
        if said == 0 and not any(shelf.glob("[!.]*")):
            continue
        found = open_checkpoint(newest_checkpoint(shelf))
        at, seen = found.counters.iterations, seen + 1
        assert at >= said, f"{said} was reported as saved, but the newest is {at}"
        assert found.parts(0)["battles"].tensors["at"].eq(at).all() and found.policy() is not None
        for path in shelf.glob("[!.]*"):
            assert inspect_checkpoint(path).is_valid, path
    prune_checkpoints(folder, last=2, best=3)
    kept = sorted(path.name for path in (folder / "checkpoints").glob("[!.]*"))
    print(json.dumps({"kills": kills, "loaded": seen, "interrupted": in_a_draft, "iterations": at, "kept": kept}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
