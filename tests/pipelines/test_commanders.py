"""Runs against custom commanders that are named only on the command line."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from leagues import BRIEF, checkpoint_of, fresh
from runs import TINY, without_clock
from tiny_runs import everything, tiny_run

from echelon.arena.config import ArenaConfig
from echelon.arena.match import play
from echelon.arena.resolve import policy_of, resolve
from echelon.learn.checkpoint.files import inspect_checkpoint, newest_checkpoint
from echelon.learn.checkpoint.format import open_checkpoint
from echelon.learn.config import CurriculumConfig
from echelon.learn.curriculum import CurriculumState
from echelon.learn.metrics import read_table
from echelon.learn.trainer import Trainer
from echelon.pipelines import train
from echelon.replay.file import read
from echelon.runtime.errors import ConfigError
from echelon.runtime.terminal import run as run_program

CPU = torch.device("cpu")
EXAMPLES = Path(__file__).parents[1] / "examples"
OWN = """
import torch
from torchrl.data import Composite, Unbounded

class Pacer:
    # Walks on and back again: it remembers for how many decisions.
    def __init__(self, config):
        pass
    def memory_spec(self):
        return Composite(paces=Unbounded((1,)))
    def __call__(self, team):
        paces = team["memory", "paces"] + 1
        action = torch.zeros(*team.shape, 26)
        action[..., :1] = torch.where(paces % 4 < 2, 1.0, -1.0)
        return team.set("action", action).set(("next", "memory", "paces"), paces)

class Narrow(Pacer):
    def __call__(self, team):
        return team.set("action", torch.zeros(*team.shape, 3))

class Mute(Pacer):
    def __call__(self, team):
        pass
"""


@pytest.fixture
def own(monkeypatch, tmp_path):
    """Put `charger.py` and `of_my_own.py` on Python's path; return the folder of the latter."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "of_my_own.py").write_text(OWN)
    for place in (folder, EXAMPLES):
        monkeypatch.syspath_prepend(place)
    yield folder
    for name in ("charger", "of_my_own"):
        sys.modules.pop(name, None)


def start(monkeypatch, *arguments: object) -> None:
    """Run `train.py` in this process to its end, without drawing pictures."""
    monkeypatch.setattr("echelon.reports.callback.Curves.draw", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["train.py", *TINY, "--checkpoint-every", "1", *map(str, arguments)])
    train.main()


def files_of(folder: Path) -> dict[str, str]:
    """Return the hashes of a run's newest checkpoint, by file."""
    return open_checkpoint(newest_checkpoint(folder / "checkpoints")).metadata["files"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["charger:Charger", "of_my_own:Pacer"])
def test_run_against_custom_commander_resumes_bit_for_bit(tmp_path, own, monkeypatch, name):
    flags = ("--opponent", name, "--evaluation.tiers", name, "--total-agent-steps", "640")
    whole, second = tmp_path / "whole", tmp_path / "second"
    start(monkeypatch, *flags, "--run-dir", whole)
    halfway = whole / "checkpoints" / "iteration_000002"
    start(monkeypatch, *flags, "--run-dir", second, "--resume", halfway)
    assert files_of(second) == files_of(whole)
    assert without_clock(second / "metrics.csv") == without_clock(whole / "metrics.csv")[2:]
    panel = read_table(whole / "evaluations.csv")
    assert [(row["iteration"], row["rival"]) for row in panel] == [
        ("0", name),
        *(("4", name), ("4", "best")),
    ]
    assert without_clock(second / "evaluations.csv") == without_clock(whole / "evaluations.csv")[1:]


def drive(trainer: Trainer, iterations: int) -> Trainer:
    """Train for this number of iterations; each except the first ends a stage."""
    while trainer.counters.iterations < iterations:
        if trainer.counters.iterations > 0:
            trainer.curriculum.state = CurriculumState(trainer.curriculum.state.stage, battles=1000.0, won=1000.0)
        trainer.train(1)
    trainer.save()
    return trainer


@pytest.mark.long
def test_curriculum_mixes_tiers_and_custom_commanders(tmp_path, own):
    """The curriculum also contains a frozen policy; the run is interrupted in different stages."""
    names = ("trivial", "charger:Charger", str(checkpoint_of(tmp_path, 1)), "of_my_own:Pacer")
    config = tiny_run(opponent="curriculum", curriculum=CurriculumConfig(opponents=names), total_agent_steps=160 * 8)
    unbroken = drive(Trainer(config, tmp_path / "unbroken", opponent_of=policy_of), 6)
    assert unbroken.curriculum.state.stage == 3
    newest = unbroken.opponents.named.slots[unbroken.opponents.named.newest]
    assert newest in names[1:] and "commander_3" in unbroken.env.memory["heuristic"].keys()
    theirs = everything(unbroken)
    for iterations in (2, 4):
        first = drive(Trainer(config, tmp_path / f"first {iterations}", opponent_of=policy_of), iterations)
        checkpoint = open_checkpoint(newest_checkpoint(first.folder / "checkpoints"))
        second = Trainer(config, tmp_path / f"second {iterations}", checkpoint, opponent_of=policy_of)
        assert second.resume_note == ""
        ours = everything(drive(second, 6))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], value) for key, value in theirs.items())
        assert second.opponents.named.state_dict().facts == unbroken.opponents.named.state_dict().facts


def test_changed_commanders_start_new_battles(tmp_path, own):
    drive(Trainer(tiny_run(opponent="charger:Charger"), tmp_path, opponent_of=policy_of), 1)
    kept = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    second = Trainer(tiny_run(opponent="of_my_own:Pacer"), tmp_path / "two", kept, opponent_of=policy_of)
    assert second.resume_note.startswith(
        "battles start anew: battles.commanders is ['of_my_own:Pacer'] here and ['charger:Charger'] there"
    )
    second.train(1)


def test_changed_tier_applies_to_next_battles(tmp_path):
    drive(Trainer(tiny_run(opponent="heuristic:easy"), tmp_path), 1)
    kept = open_checkpoint(newest_checkpoint(tmp_path / "checkpoints"))
    second = Trainer(tiny_run(opponent="heuristic:hard"), tmp_path / "two", kept)
    assert second.resume_note == "" and second.opponents.named.requested == ("heuristic:hard", 1.0)


@pytest.mark.long
def test_run_plays_against_checkpoint_and_league_entry(tmp_path, monkeypatch):
    store = fresh(tmp_path)
    entry = store.add(checkpoint_of(tmp_path, 1))
    named = f"league:{store.folder}/{entry.name}"
    flags = ("--total-agent-steps", "160", "--evaluation.tiers", named, "trivial")
    start(monkeypatch, *flags, "--opponent", checkpoint_of(tmp_path, 2), "--run-dir", tmp_path / "run")
    rows = read_table(tmp_path / "run" / "evaluations.csv")
    assert {row["rival"] for row in rows} == {named, "heuristic:trivial", "best"}
    start(monkeypatch, *flags, "--curriculum.opponents", named, "--run-dir", tmp_path / "against the entry")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("of_my_own:Narrow", r"must be torch.float32 of shape \(2, 5, 26\), got torch.float32 of shape \(2, 5, 3\)"),
        ("of_my_own:Mute", r'must return the team it was given: return team.set\("action", action\), got None'),
    ],
)
@pytest.mark.parametrize("program", ["train", "arena"])
def test_invalid_commander_decision_prints_one_line(tmp_path, own, monkeypatch, program, name, said):
    arguments = {
        "train": [*TINY, "--opponent", name, "--run-dir", str(tmp_path / "run")],
        "arena": ["play", "--blue", name, "--red", "heuristic", "--env", "small"],
    }
    monkeypatch.setattr(sys, "argv", [f"{program}.py", *arguments[program]])
    with pytest.raises(SystemExit, match=said) as stop:
        run_program(importlib.import_module(f"echelon.pipelines.{program}").main)
    assert "\n" not in str(stop.value.code) and not (tmp_path / "run").exists()


def test_files_do_not_import_commanders_they_name(tmp_path, own, monkeypatch):
    folder, name = tmp_path / "run", "of_my_own:Pacer"
    flags = ("--run-dir", folder, "--opponent", name, "--evaluation.tiers", name, "--replay-battles", "2")
    start(monkeypatch, *flags, "--total-agent-steps", "160")
    sys.modules.pop("of_my_own")
    (own / "of_my_own.py").write_text("raise SystemExit('imported')")
    path = newest_checkpoint(folder / "checkpoints")
    kept = open_checkpoint(path)
    assert kept.metadata["settings"]["opponent"] == name and kept.metadata["battles"]["commanders"] == [name]
    assert kept.parts(0)["heuristic"].facts["next_tier"] == name
    assert inspect_checkpoint(path).is_valid
    policy = resolve(str(path)).policy(BRIEF, CPU)
    assert play(policy, policy_of("heuristic:trivial", BRIEF, CPU), BRIEF, 2, 0, ArenaConfig(CPU)).battles == 2
    assert read(folder / "evaluation.echelon").battles[0].about["red"] == name
    plain = tmp_path / "goes on"
    start(monkeypatch, "--total-agent-steps", "320", "--resume", path, "--run-dir", plain)
    assert len(read_table(plain / "metrics.csv")) == 1
    with pytest.raises(ConfigError, match="must not exit the program when it is imported"):
        start(monkeypatch, *flags, "--resume", "latest")
