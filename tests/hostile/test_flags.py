"""Flags with invalid values: every program exits with one line that names the flag, and writes nothing.

The programs run in this process, by `main` with the arguments of a command.
"""

import dataclasses
import os
import sys
from typing import get_type_hints

import pytest

from echelon.__main__ import HELP
from echelon.league.config import LeagueConfig
from echelon.league.store import Store
from echelon.learn.config import TrainConfig
from echelon.learn.models.lstm import LSTMConfig
from echelon.pipelines import arena, commands, train
from echelon.rules.config import EnvConfig
from echelon.runtime.terminal import run

pytestmark = pytest.mark.long

LONG = "x" * 5000
DIGITS = "9" * 200


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return a league of the scripted tiers, and a foreign file."""
    folder = tmp_path_factory.mktemp("flags")
    Store.create(folder / "league", EnvConfig.small()).close()
    (folder / "file").write_text("nothing")
    return {"league": str(folder / "league"), "file": str(folder / "file"), "tmp": str(folder)}


PROGRAMS = {"train": train.main, "arena": arena.main, "echelon": lambda: commands.main(HELP)}


def refused(program, words, monkeypatch, capsys):
    """Return the error line of a program."""
    monkeypatch.setattr(sys, "argv", [f"{program}.py", *words])
    with pytest.raises(SystemExit) as ended:
        run(PROGRAMS[program])
    message = ended.value.code  # a text is printed, and the status is 1
    assert isinstance(message, str), capsys.readouterr()
    assert message.startswith("error: ") and "\n" not in message and len(message) < 900, message[:1500]
    assert "\0" not in message and "│" not in message and "Traceback" not in capsys.readouterr().err
    return message


def files_under(folder):
    found = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(path for path in found if not path.endswith(("-wal", "-shm")))  # SQLite's, while one is open


LEAGUE = ("--league", "{league}")
SIDES = ("--blue", "heuristic:easy", "--red", "heuristic:easy")
BAD = {
    "no command": ("arena", (), "Expected one of {play, watch"),
    "another command": ("arena", ("plya",), "play, watch"),
    "a flag misspelt": ("arena", ("standings", *LEAGUE, "--jsn"), "did you mean --json?"),
    "a flag of other commands": (
        "arena",
        ("evaluate", "heuristic:easy", "--battles", "4"),
        "evaluate does not take --battles; that belongs to command and dataset and exploit and play; --seeds sets its "
        "number of battles",
    ),
    "seeds of a command of battles": ("arena", ("play", *SIDES, "--seeds=4"), "--battles sets the number of battles"),
    "a switch with a value": (
        "arena",
        ("evaluate", "heuristic:easy", "--task", "small-5v5-v1", "--json=true"),
        "evaluate does not take true; --json takes no value: use --json or --no-json",
    ),
    "a flag like one of other commands": (
        "arena",
        ("evaluate", "heuristic:easy", "--seed", "4"),
        "evaluate does not take --seed; did you mean --seeds?",
    ),
    "a flag of training misspelt": (
        "arena",
        ("evolve", *LEAGUE, "--env.map-pool", "2"),
        "evolve does not take --env.map-pool; did you mean --train.env.map-pool?",
    ),
    "no value": ("arena", ("standings", "--league"), "--league"),
    "a folder that is none": ("arena", ("standings", "--league", "{file}"), "league"),
    "no league": ("arena", ("standings", "--league", "{tmp}/none"), "arena.py init"),
    "an empty league": ("arena", ("standings", "--league", ""), "--league must be a value"),
    "an empty league, with =": ("arena", ("standings", "--league="), "--league must be a value"),
    "a league with NUL": ("arena", ("standings", "--league", "a\0b"), "--league must be without NUL"),
    "a league of 5,000 letters": ("arena", ("standings", "--league", LONG), "--league must be at most 4096 letters"),
    "a league of 300 letters": ("arena", ("list", "--league", "y" * 300), "--league must be at most 4096 letters"),
    "an entry of no name": ("arena", ("history", "", *LEAGUE), "an argument must be a value"),
    "an entry that is not there": ("arena", ("history", "unknown", *LEAGUE), "unknown"),
    "watch nothing": ("arena", ("watch", ""), "an argument must be a value"),
    "watch NUL": ("arena", ("watch", "a\0b"), "without NUL"),
    "watch 5,000 letters": ("arena", ("watch", LONG), "at most 4096 letters"),
    "watch a folder": ("arena", ("watch", "{tmp}", "--out", "{tmp}/p.html"), "expected a regular file"),
    "watch a text": ("arena", ("watch", "{file}", "--out", "{tmp}/p.html"), "file: "),
    "watch over the replay": ("arena", ("watch", "{file}", "--out", "{file}"), "--out must be another file"),
    "watch battle 0": ("arena", ("watch", "{file}", "--battle", "1.5"), "--battle"),
    "a strip of another kind": ("arena", ("watch", "{file}", "--strip", "{tmp}/s.xyz"), "--strip must be the name"),
    "a gif of another kind": ("arena", ("watch", "{file}", "--gif", "{tmp}/s.png"), "--gif must be the name"),
    "a page that cannot be": ("arena", ("watch", "{file}", "--out", "/proc/no/p.html"), "cannot be written"),
    "maps of another kind": ("arena", ("maps", "--out", "{tmp}/m.xyz"), "--out must be the name of a picture"),
    "maps into a folder": ("arena", ("maps", "--out", "{tmp}"), "--out must be the name of a picture"),
    "maps to nowhere": ("arena", ("maps", "--out", "/proc/no/m.png"), "cannot be written"),
    "-1 maps": ("arena", ("maps", "--maps", "-1"), "DrawMaps.maps must be 0..256"),
    "10^400 maps": ("arena", ("maps", "--maps", DIGITS), "DrawMaps.maps must be 0..256"),
    "maps of seed -1": ("arena", ("maps", "--map-seed", "-1"), "DrawMaps.map_seed must be 0.."),
    "maps of seed 2^63": ("arena", ("maps", "--map-seed", str(2**63)), "DrawMaps.map_seed must be 0.."),
    "maps of no preset": ("arena", ("maps", "--env", "tiny"), "--env"),
    "add nothing": ("arena", ("add", *LEAGUE), "at least one checkpoint"),
    "add an empty name": ("arena", ("add", "", *LEAGUE), "an argument must be a value"),
    "add a folder without one": ("arena", ("add", "{tmp}", *LEAGUE), "checkpoint.json"),
    "add with a strange parent": ("arena", ("add", "{tmp}", *LEAGUE, "--parent", "unknown"), "unknown"),
    "retire nothing": ("arena", ("retire", *LEAGUE), "followed by the name of at least one entry"),
    "retire an unknown entry": ("arena", ("retire", "unknown", *LEAGUE), "unknown"),
    "payoff of another kind": (
        "arena",
        ("payoff", *LEAGUE, "--out", "{tmp}/p.xyz"),
        "--out must be the name of a picture",
    ),
    "export into a folder": ("arena", ("export", *LEAGUE, "--out", "{tmp}"), "expected a file name"),
    "export over a database": ("arena", ("export", *LEAGUE, "--out", "{league}/league.sqlite"), "never overwritten"),
    "export over the log": ("arena", ("export", *LEAGUE, "--out", "{league}/log.jsonl"), "the league's log"),
    "a replay over a database": ("arena", ("play", *SIDES, "--replay", "{league}/league.sqlite"), "never overwritten"),
    "a profile over a database": (
        "arena",
        ("play", *SIDES, "--profile", "{league}/league.sqlite"),
        "never overwritten",
    ),
    "a profile over the replay": (
        "arena",
        ("play", *SIDES, "--profile", "{tmp}/r", "--replay", "{tmp}/r"),
        "--profile",
    ),
    "a page over a database": ("arena", ("watch", "{file}", "--out", "{league}/league.sqlite"), "never overwritten"),
    "a strip over the page": (
        "arena",
        ("watch", "{file}", "--out", "{tmp}/a.png", "--strip", "{tmp}/a.png"),
        "outputs",
    ),
    "a gif over the replay": ("arena", ("watch", "{tmp}/a.gif", "--gif", "{tmp}/a.gif"), "outputs must be files of"),
    "export to nothing": ("arena", ("export", *LEAGUE, "--out", ""), "--out must be a value"),
    "import nothing": ("arena", ("import", "{tmp}/none.json", "--league", "{tmp}/new"), "none.json"),
    "import a text": ("arena", ("import", "{file}", "--league", "{tmp}/new"), "not valid JSON"),
    "init where one is": ("arena", ("init", *LEAGUE), "league"),
    "init nowhere": ("arena", ("init", "--league", "/proc/no"), "cannot be created"),
    "init with a strange catalog": ("arena", ("init", "--league", "{tmp}/new", "--catalog", "{file}"), "JSON"),
    "init with a strange hull": ("arena", ("init", "--league", "{tmp}/new", "--blue-roster", "tank"), "chosen from"),
    "init with 21 mechs": ("arena", ("init", "--league", "{tmp}/new", "--red-roster", *["heavy"] * 21), "1..20"),
    "evaluate in batches of 0": ("arena", ("evaluate", "{tmp}", *LEAGUE, "--batch", "0"), "ArenaArgs.batch must be 1"),
    "evaluate nowhere": ("arena", ("evaluate", "{tmp}"), "--task, --scenario, --league must be one of them"),
    "evaluate twice": (
        "arena",
        ("evaluate", "{tmp}", *LEAGUE, "--task", "small-5v5"),
        "--task, --scenario, --league must be one",
    ),
    "evaluate at nothing": ("arena", ("evaluate", "{tmp}", "--task", "small"), "task must be one of small-5v5-v"),
    "evaluate -1 seeds": ("arena", ("evaluate", "{tmp}", *LEAGUE, "--seeds", "-1"), "Evaluate.seeds must be 0"),
    "tournament of 0 seeds": ("arena", ("tournament", *LEAGUE, "--seeds", "0"), "seeds must be 1"),
    "tournament of -1 replays": (
        "arena",
        ("tournament", *LEAGUE, "--replay", "{tmp}/r.echelon", "--replay-battles", "-1"),
        "--replay-battles",
    ),
    "tournament on a GPU that is not here": ("arena", ("tournament", *LEAGUE, "--device", "cuda:99"), "device must be"),
    "evolve for 0 turns": ("arena", ("evolve", *LEAGUE, "--turns", "0"), "Evolve.turns must be 1"),
    "evolve for -1 iterations": ("arena", ("evolve", *LEAGUE, "--iterations", "-1"), "Evolve.iterations must be 1"),
    "evolve without battles": (
        "arena",
        ("evolve", *LEAGUE, "--train.num-envs", "0"),
        "--train.num-envs must be at least 2 battles",
    ),
    "play without a commander": ("arena", ("play", "--blue", "", "--red", "heuristic:easy"), "--blue must be a value"),
    "play of no tier": ("arena", ("play", "--blue", "heuristic:", "--red", "heuristic:easy"), "heuristic:trivial|easy"),
    "play of another tier": (
        "arena",
        ("play", "--blue", "heuristic:x", "--red", "heuristic:easy"),
        "heuristic:trivial",
    ),
    "play of NUL": ("arena", ("play", "--blue", "a\0", "--red", "heuristic:easy"), "--blue must be without NUL"),
    "play of 5,000 letters": ("arena", ("play", "--blue", LONG, "--red", "heuristic:easy"), "--blue must be at most"),
    "play of 0 battles": ("arena", ("play", *SIDES, "--battles", "0"), "Play.battles must be 2.."),
    "play of 3 battles": ("arena", ("play", *SIDES, "--battles", "3"), "battles must be even"),
    "play of 10^400 battles": ("arena", ("play", *SIDES, "--battles", DIGITS), "Play.battles must be 2.."),
    "play of 5,000 digits": ("arena", ("play", *SIDES, "--battles", "9" * 254), "Play.battles must be 2.."),
    "play of 2.5 battles": ("arena", ("play", *SIDES, "--battles", "2.5"), "--battles"),
    "play of seed -1": ("arena", ("play", *SIDES, "--seed", "-1"), "Play.seed must be 0.."),
    "play of seed 2^63": ("arena", ("play", *SIDES, "--seed", str(2**63)), "Play.seed must be 0.."),
    "play in batches of 0": ("arena", ("play", *SIDES, "--batch", "0"), "ArenaArgs.batch must be 1"),
    "play in batches of -1": ("arena", ("play", *SIDES, "--batch", "-1"), "ArenaArgs.batch must be 1"),
    "play on meta": ("arena", ("play", *SIDES, "--device", "meta"), "device must be auto, cpu, cuda"),
    "play on cuda:²": ("arena", ("play", *SIDES, "--device", "cuda:²"), "device must be auto, cpu, cuda"),
    "play in fp8": ("arena", ("play", *SIDES, "--precision", "fp8"), "--precision"),
    "play with 0 replays": (
        "arena",
        ("play", *SIDES, "--replay", "{tmp}/r", "--replay-battles", "0"),
        "--replay-battles must be 1..",
    ),
    "play into a folder": ("arena", ("play", *SIDES, "--replay", "{tmp}"), "expected a file name"),
    "play with a profile nowhere": ("arena", ("play", *SIDES, "--profile", "/proc/no/p"), "cannot be written"),
    "a module of no name": ("arena", ("list", *LEAGUE, "--allow-module", ""), "--allow-module must be a value"),
    "a module that is a path": ("arena", ("list", *LEAGUE, "--allow-module", "../x"), "--allow-module must be"),
    "a module that is not there": ("arena", ("list", *LEAGUE, "--allow-module", "no.where"), "no.where"),
    # train.py
    "no run folder": ("train", ("--run-dir", ""), "--run-dir must be a value"),
    "a run folder with NUL": ("train", ("--run-dir", "a\0b"), "--run-dir must be without NUL"),
    "a run folder of 5,000 letters": ("train", ("--run-dir", LONG), "--run-dir must be at most 4096 letters"),
    "a run folder of 300 letters": ("train", ("--run-dir", "{tmp}/" + "y" * 300), "--run-dir must be at most"),
    "a run folder that is a file": ("train", ("--run-dir", "{file}", "--opponent", "heuristic:easy"), "--run-dir"),
    "no opponent": ("train", ("--opponent", ""), "--opponent must be a value"),
    "an opponent of no tier": ("train", ("--opponent", "heuristic:"), "heuristic:trivial|easy"),
    "an opponent of no league": ("train", ("--opponent", "league:"), "TrainConfig.opponent must be a commander"),
    "a flag misspelt in train": ("train", ("--num-env", "4"), "did you mean --num-envs?"),
    "a nested flag misspelt": ("train", ("--ppo.clipp", "1"), "did you mean --ppo.clip?"),
    "a group of settings as one": (
        "train",
        ("--ppo.learning-rate", "1e-4"),
        "did you mean --ppo.learning-rate.first or --ppo.learning-rate.last or --ppo.learning-rate.shape?",
    ),
    "a switch of train with a value": (
        "train",
        ("--env.features.smoke=true",),
        "--env.features.smoke takes no value: use --env.features.smoke or --env.features.no-smoke",
    ),
    "a switch of train with a word": (
        "train",
        ("--no-deterministic", "False"),
        "Unrecognized options: False; --no-deterministic takes no value: use --deterministic or --no-deterministic",
    ),
    "no flag": ("train", ("num-envs",), "num-envs"),
    "no preset": ("train", ("--preset", "huge"), "--preset must be one of"),
    "a catalog that is not there": ("train", ("--catalog", "{tmp}/none.json"), "none.json"),
    "a model that is not there": ("train", ("--model", "transformer"), "a model must be one of"),
    "a model of an empty name": ("train", ("--model", ""), "--model must be a value"),
    "a resume of nothing": ("train", ("--resume", "{tmp}/none"), "expected a checkpoint folder"),
    "a resume with NUL": ("train", ("--resume", "a\0b"), "--resume must be without NUL"),
    "battles for a machine of petabytes": (
        "train",
        (
            "--num-envs",
            "16777216",
            "--opponent",
            "heuristic:easy",
            "--run-dir",
            "{tmp}/run",
            "--evaluation.tiers",
            "easy",
        ),
        "need about ",
    ),
    # python -m echelon
    "echelon: no command": ("echelon", (), "Expected one of {describe"),
    "echelon: another command": ("echelon", ("layot",), "describe, checkpoint"),
    "echelon: a word too many": ("echelon", ("fingerprint", "now"), "now"),
    "echelon: columns of no preset": ("echelon", ("describe", "--env", "huge"), "--env"),
    "echelon: columns of -1": ("echelon", ("describe", "--comm-dim", "-1"), "Describe.comm_dim must be 0..1024"),
    "echelon: columns of 10^9": (
        "echelon",
        ("describe", "--comm-dim", "1000000000"),
        "Describe.comm_dim must be 0..1024",
    ),
    "echelon: columns of 400 digits": (
        "echelon",
        ("describe", "--comm-dim", DIGITS),
        "Describe.comm_dim must be 0..1024",
    ),
    "echelon: columns of text": ("echelon", ("describe", "--comm-dim", "eight"), "--comm-dim"),
    "echelon: a checkpoint of no name": ("echelon", ("checkpoint", ""), "an argument must be a value"),
    "echelon: a checkpoint with NUL": ("echelon", ("checkpoint", "a\0b"), "without NUL"),
    "echelon: a checkpoint of 5,000 letters": ("echelon", ("checkpoint", LONG), "at most 4096 letters"),
    "echelon: no checkpoint": ("echelon", ("checkpoint",), "PATH"),
}


@pytest.mark.parametrize(("program", "words", "says"), BAD.values(), ids=BAD)
def test_error_line_names_flag(program, words, says, places, monkeypatch, capsys):
    monkeypatch.chdir(places["tmp"])
    before = files_under(places["tmp"])
    message = refused(program, [word.format(**places) if "{" in word else word for word in words], monkeypatch, capsys)
    assert says in message
    assert files_under(places["tmp"]) == before


def test_error_suggests_no_flag_of_another_command(places, monkeypatch, capsys):
    words = ["init", "--league", places["tmp"] + "/new", "--env.map-pool", "2"]
    assert refused("arena", words, monkeypatch, capsys) == "error: init does not take --env.map-pool"


WRONG = {int: ("x", "1.5", DIGITS, "-" + DIGITS), float: ("x", "nan", "inf", "1e300", DIGITS)}


def number_flags(kind, prefix=""):
    """Yield the flag and the type of each number of a config."""
    found, hints = [], get_type_hints(kind)
    for field in dataclasses.fields(kind):
        own = {"model": LSTMConfig}.get(field.name, hints[field.name])
        flag = f"{prefix}.{field.name}".strip(".").replace("_", "-")
        if own in WRONG:
            found.append((flag, own))
        elif dataclasses.is_dataclass(own) and field.name != "catalog":
            found += number_flags(own, flag)
    return found


FLAGS = number_flags(TrainConfig)


@pytest.mark.parametrize(
    ("number", "flag", "kind"),
    [(number, *found) for number, found in enumerate(FLAGS)],
    ids=[flag for flag, _ in FLAGS],
)
def test_every_training_number_is_checked(number, flag, kind, monkeypatch, capsys):
    """Each flag receives an unparsable or an out-of-range value."""
    value = WRONG[kind][number % len(WRONG[kind])]
    message = refused("train", [f"--{flag}={value}"], monkeypatch, capsys)
    assert flag.rpartition(".")[2] in message.replace("_", "-")


def test_every_league_number_is_checked(monkeypatch, capsys, tmp_path):
    for number, (flag, kind) in enumerate(number_flags(LeagueConfig)):
        value = WRONG[kind][number % len(WRONG[kind])]
        words = ["init", "--league", str(tmp_path / "new"), f"--rules.{flag}={value}"]
        assert flag in refused("arena", words, monkeypatch, capsys).replace("_", "-")
    assert not (tmp_path / "new").exists()
