"""Prints tables of results: matches, evaluations, exploitability certificates and fighting styles."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from echelon.arena.config import setup_words
from echelon.arena.evaluate import Evaluation, met_line
from echelon.arena.exploit import certificate_line
from echelon.arena.match import Result, match_events
from echelon.arena.skills import SkillProfile
from echelon.arena.strangers.evaluation import StrangersEvaluation, met_in_training
from echelon.arena.style import Style, measure_of
from echelon.runtime.errors import rounded
from echelon.runtime.files import write_lines
from echelon.runtime.terminal import show_table, terminal

MEANS = {"kills": "kills", "deaths": "deaths", "damage": "damage", "zone, mech-s": "zone_s"}
"""Displayed statistics of a commander, as means over battles. Two mechs in the zone for a second make two mech-s."""


def show_match(result: Result, x: str, y: str, setup: dict[str, Any], by_side: bool = False) -> None:
    """Print the result of a match between `x` and `y`, with the share of battles that `x` won and its 95 % interval.

    Args:
        setup: settings of the arena, see `BatchArena.setup`.
        by_side: whether to print also the win rates as blue and as red, for teams with different mechs.
    """
    rows = []
    for name, wins, is_x in ((x, result.x_wins, True), (y, result.y_wins, False)):
        stats = result.mean_stats(is_x)
        means = {title: f"{stats[key]:.1f}" for title, key in MEANS.items()}
        sides = result.win_rates_by_side(is_x) if by_side else {}
        shares = {"share": f"{wins / result.battles:.0%}"} | {
            f"as {side}": f"{win_rate:.0%}" for side, win_rate in sides.items()
        }
        rows.append({"name": name, "wins": wins, **shares, **means})
    show_table(rows, False, f"{result.battles} battles, each seed from both sides")
    low, high = result.x_win_rate_95
    draws, share = result.battles - result.x_wins - result.y_wins, result.x_wins / result.battles
    terminal().print(f"{x} wins {share:.1%}, 95 % interval {low:.1%} to {high:.1%}")
    terminal().print(f"{draws} draws, {speed_of(result.battles, result.seconds)}")
    terminal().print(setup_words(setup), highlight=False)


def speed_of(battles: int, seconds: float) -> str:
    """Format the speed in battles per second, or in seconds per battle if the speed is below 1 battle per second."""
    rate = battles / max(seconds, 1e-9)
    return f"{rate:.1f} battles/s" if rate >= 1 else f"{1 / rate:.1f} s a battle"


COLUMNS = ("battles", "wins", "draws", "win_rate", "low", "high", "kills", "deaths", "damage", "zone_s")
"""Columns of an evaluation, in addition to those of each side if the teams differ."""


def write_log(path: Path, setup: dict[str, Any], matches: Iterable[list[dict[str, Any]]]) -> None:
    """Write a JSON object with the result and the arena's settings for each battle of the matches, one per line."""
    write_lines(path, [row | setup for rows in matches for row in rows])


def log_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Write the battles of an evaluation to a log file, see `write_log`."""
    setup = {name: evaluation.versions[name] for name in ("device", "precision", "compiled", "captured")}
    results = evaluation.results.items()
    write_log(path, setup, [match_events(one, evaluation.policy, name, evaluation.seeds) for name, one in results])


def show_evaluation(
    evaluation: Evaluation, policy: str, task: str, scenarios: Sequence[str], league: Path | None
) -> None:
    """Print an evaluation on a task, on scenarios or in a league, and the arena's settings."""
    label = f"task {task}" if task else f"scenario {', '.join(scenarios)}"
    source = f"{label} ({evaluation.fingerprint})" if league is None else f"league {league}"
    sides = tuple(f"win_rate_{side}" for side in ("blue", "red")) if evaluation.by_side else ()
    rows = [
        {"against": row["opponent"], **{name: rounded(row[name], 3) for name in (*COLUMNS, *sides)}}
        for row in evaluation.rows()
    ]
    show_table(rows, False, f"{policy}, {source}: share won with its 95 % interval over pairs of battles")
    if evaluation.rating:
        rating, deviation, low, high = (f"{evaluation.rating[name]:.0f}" for name in ("rating", "RD", "low", "high"))
        line = f"rating {rating} ({low} to {high}), RD {deviation}, with the entries' ratings fixed; not stored"
        terminal().print(line, highlight=False)
    terminal().print(setup_words(dict(evaluation.versions)), highlight=False)
    terminal().print(met_line(evaluation.met), highlight=False)
    if task and not evaluation.by_protocol:
        terminal().print("opponents, seeds or split differ from the task's: the result does not count for the task")


def show_profile(profile: SkillProfile, title: str) -> None:
    """Print a policy's win rates on the set pieces."""
    for line in (title, *str(profile).splitlines()):
        terminal().print(line)
    terminal().print(f"mean over {len(profile.results)} pieces: {profile.win_rate:.0%}")


def show_certificate(certificate: Mapping[str, Any], last: str, as_json: bool) -> None:
    """Print a certificate of exploitability: its curve, its summary and the line `last`; or all as one JSON object."""
    if as_json:
        print(json.dumps({**certificate, "verdict": certificate_line(certificate)}))
        return
    rows = [dict(row) for row in certificate["curve"]]
    for row in rows:
        row |= {name: rounded(row[name], 3) for name in ("win_rate", "low", "high")}
    show_table(rows, False, "by agent-steps, on the battles that select the best response")
    for line in (certificate_line(certificate), last):
        terminal().print(line)


def show_style(style: Style) -> None:
    """Print a policy's fighting style, and its points per battle against each opponent."""
    rows = [
        {"number": name, "value": round(value, 3), "unit": measure_of(name).unit, "meaning": measure_of(name).meaning}
        for name, value in style.numbers.items()
    ]
    show_table(rows, False, f"{style.policy}, task {style.task} ({style.fingerprint}): fighting style")
    points = [{"against": name, "points": round(value, 3)} for name, value in style.response.items()]
    show_table(points, False, f"points per battle, {2 * len(style.seeds)} battles each")
    terminal().print(setup_words(dict(style.versions)), highlight=False)


def show_strangers(evaluation: StrangersEvaluation, written: Sequence[Path | None]) -> None:
    """Print a result of protocol 2, the reason if it does not count for the task, and the written files' paths."""
    record, unit = evaluation.record, evaluation.scores["unit"]
    rows = [
        {name: rounded(cell, 3) if isinstance(cell, float) else cell for name, cell in row.items()}
        for row in evaluation.rows()
    ]
    policy = record["runs"][0]["policy"]
    title = f"{policy}, {record['task']} ({record['fingerprint']}): 95 % intervals, a {unit} is the unit"
    show_table(rows, False, title)
    contacts = met_in_training(record)
    note = f"training contained {', '.join(contacts)}: the result does not count for the task" if contacts else ""
    if not record["by_protocol"]:
        note = "numbers or split differ from the task's: the result does not count for the task"
    for line in filter(None, (note, *(f"written: {path}" for path in written if path))):
        terminal().print(line, highlight=False)
