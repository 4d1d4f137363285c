"""Commands that draw, and progress bars."""

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest
from PIL import Image
from rich.console import Console
from runs import ROOT
from viewer.scenes import small_replay

from echelon.pipelines.maps import DrawMaps
from echelon.pipelines.runs import Plot
from echelon.pipelines.watch import Watch
from echelon.replay.file import save
from echelon.reports import pictures
from echelon.reports.pictures import draw_moving, named_parts, shown_span
from echelon.reports.tables import speed_of
from echelon.rules.config import EnvConfig
from echelon.runtime import terminal as progress_bar
from echelon.runtime.errors import ConfigError
from echelon.runtime.terminal import Bar, bar, reading, tracked
from echelon.viewer import paper as view_paper
from echelon.viewer.battle_picture import strip_figure
from echelon.world.pool import pool_seeds


@pytest.mark.parametrize(("battles", "seconds", "said"), [(64, 8.0, "8.0 battles/s"), (2, 90.0, "45.0 s a battle")])
def test_slow_progress_is_printed_in_seconds_per_battle(battles, seconds, said):
    assert speed_of(battles, seconds) == said


def test_progress_bar_counts_whole_units_up_to_total():
    progress = SimpleNamespace(
        add_task=lambda *_, **__: 0,
        update=lambda *_, **__: None,
        console=SimpleNamespace(is_terminal=True, quiet=False),
    )
    shown = Bar(progress, 5, "battles")
    shown.advance(2.6)
    assert shown.count() == "2/5 battles"
    shown.advance(0.4)
    assert shown.count() == "3/5 battles"
    shown.advance(9)
    assert shown.count() == "5/5 battles"


@pytest.fixture
def output(monkeypatch):
    """Return the printed progress without a terminal, with a clock controlled by the test."""
    text, clock = io.StringIO(), SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress_bar, "terminal", lambda quiet, stderr: Console(file=text, quiet=quiet))
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: clock.now)
    return text, clock


def test_without_terminal_progress_is_printed_as_lines(output):
    text, clock = output
    with bar(10, "battles") as shown:
        for done in range(1, 11):
            clock.now = 20.0 * done
            shown.reach(done)
    lines = text.getvalue().splitlines()
    assert lines[0] == "1/10 battles, about 0:03:00 left" and lines[1].startswith("3/10 battles, about 0:02:20")
    assert len(lines) == 5


def test_a_quiet_bar_prints_nothing(output):
    text, clock = output
    with bar(10, "battles", quiet=True) as shown:
        clock.now = 100.0
        shown.reach(3)
    assert text.getvalue() == ""


def test_tracked_items_pass_through_unchanged(output):
    assert list(tracked("abc", "maps", 3)) == ["a", "b", "c"]


def test_reading_a_file_advances_the_bar(output, tmp_path):
    text, clock = output
    path = tmp_path / "league.json"
    path.write_bytes(b"x" * 2_000_000)
    with reading(path) as watched, open(path, "rb") as file:
        counted, clock.now = watched(file), 10.0
        assert len(counted.read(500_000)) == 500_000
        assert len(counted.read()) == 1_500_000
    assert text.getvalue() == "0/2 MB, about 0:00:30 left\n"


@pytest.fixture
def replay(tmp_path):
    path = tmp_path / "battles.echelon"
    made, grounds = small_replay(2)
    save(made, path)
    return path, made, grounds


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"begin": 7.0}, "--from must be at least 0 and before --to, 6 s, got 7.0"),
        ({"end": 9.0}, "--to must be at most 6 s, the length of battle 1, got 9.0"),
        ({"times": (1.0, 6.5)}, "--times must be 0..6 s, the length of battle 1, got 6.5"),
    ],
)
def test_time_outside_battle_prints_one_line(replay, settings, message):
    _, made, _ = replay
    with pytest.raises(ConfigError) as error:
        shown_span(made, 1, settings.get("begin", 0.0), settings.get("end", 0.0), settings.get("times", ()))
    assert str(error.value) == message


def test_unsupported_picture_format_raises(replay, tmp_path):
    path, *_ = replay
    message = r"--strip must be the name of a picture that ends with \.pdf or \.svg or \.png, got '.*strip.jpeg'"
    with pytest.raises(ConfigError, match=message):
        Watch(path, strip=tmp_path / "strip.jpeg").run()
    with pytest.raises(ConfigError, match=r"Watch\.size must be"):
        Watch(path, size=0.1)


def test_pictures_show_the_requested_time_span(replay, tmp_path):
    _, made, grounds = replay
    strip, gif = tmp_path / "strip.svg", tmp_path / "part.gif"
    view_paper.save(strip_figure(made, 0, grounds[0], (), 3.0, (1.0, 3.0)), strip)
    draw_moving(made, 0, grounds[0], gif, 2.0, 3.0, (1.0, 3.0))
    with Image.open(gif) as picture:
        assert picture.n_frames in (13, 14), "two seconds at double speed, 80 ms a frame, and the last moment"
        assert abs(picture.width - 3.0 * 72) < 20
    assert 'width="216pt"' in strip.read_text()


def test_drawn_maps_show_biome_names(tmp_path, capsys):
    DrawMaps(out=tmp_path / "maps.pdf", env="small", maps=1).run()
    assert (tmp_path / "maps.pdf").read_bytes().startswith(b"%PDF")
    env = EnvConfig.small()
    parts = named_parts(pool_seeds(env, "cpu")[:1], env.world)
    assert 1 <= len(parts) <= 4
    for x, y, name in parts:
        assert 0 < x < env.world.size_x and 0 < y < env.world.size_y and name.replace(" ", "_") in env.world.biomes


def write_run(folder, values):
    folder.mkdir()
    rows = "".join(f"{n},{n * 1000},{value},0.5\n" for n, value in enumerate(values, 1))
    (folder / "metrics.csv").write_text("iteration,agent_steps,return,entropy\n" + rows)
    rows = "".join(f"{n},{n * 1000},easy,0.5,0.2,0.8\n" for n in range(3))
    (folder / "evaluations.csv").write_text("iteration,agent_steps,rival,win_rate,low,high\n" + rows)
    return folder


def test_runs_are_plotted_in_one_picture(tmp_path, capsys, monkeypatch):
    runs = tuple(write_run(tmp_path / name, values) for name, values in (("a", [1, 2, 3]), ("b", [2, 3, 4])))
    out = tmp_path / "runs.svg"
    Plot(runs, out).run()
    said = capsys.readouterr().out
    assert "2 runs: a, b" in said and "3 curves of 2 runs" in said and out.read_text().startswith("<?xml")
    Plot(runs, out, curves=("return",), statistic="iqm", each=True).run()
    assert "1 curves of 2 runs" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"--curves must be a column of metrics\.csv .* or one of easy, got 'reward'"):
        Plot(runs, out, curves=("reward",)).run()
    table = runs[0] / "evaluations.csv"
    table.write_text(table.read_text().replace("easy", "heuristic:easy"))
    panels = {}
    monkeypatch.setattr(pictures, "curves_figure", lambda drawn, note: panels.update(drawn))
    monkeypatch.setattr(pictures, "save", lambda figure, out: None)
    Plot(runs[:1], out, curves=("easy", "return")).run()
    assert list(panels) == ["win rate against heuristic:easy", "return"], "a tier by its short name"
    shown = panels["win rate against heuristic:easy"]
    assert shown.is_evaluation and shown.is_share and not panels["return"].is_evaluation
    (curve,) = shown.curves.values()
    assert (curve.y.tolist(), curve.low.tolist(), curve.high.tolist()) == ([0.5] * 3, [0.2] * 3, [0.8] * 3)
    with pytest.raises(ConfigError, match="plot must be given at least one run folder"):
        Plot(()).run()
    with pytest.raises(ConfigError, match="plot must be given each run folder once"):
        Plot((runs[0], runs[0].parent / "b" / ".." / "a"), out).run()


@pytest.mark.long
@pytest.mark.parametrize("command", [["pipelines/train.py", "--help"], ["-m", "echelon", "describe"]])
def test_closed_reader_is_not_an_error(command):
    """`… | head -1`: the reader closes before the first byte is written."""
    with subprocess.Popen([sys.executable, *command], stdout=-1, stderr=-1, text=True, cwd=ROOT) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
