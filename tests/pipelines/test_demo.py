"""`echelon demo`."""

import pytest

from echelon.pipelines.arena_args import ArenaArgs
from echelon.pipelines.demo import Demo
from echelon.replay.file import read
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def demo(out, **settings):
    return Demo("heuristic:easy", "heuristic:trivial", out=out, arena=ArenaArgs(device="cpu"), **settings)


def test_a_demo_plays_one_battle_from_each_side_and_names_its_page(tmp_path, capsys):
    page = tmp_path / "first.html"
    demo(page, seed=3).run()
    replay = read(tmp_path / "first.echelon")
    assert len(replay.battles) == 2 and page.read_text().startswith("<!doctype html>")
    printed = capsys.readouterr().out
    assert "heuristic:easy" in printed and printed.splitlines()[-1] == f"open {page} in a browser"


def test_page_equal_to_replay_raises_before_playing(tmp_path):
    with pytest.raises(ConfigError, match="--out must be a page"):
        demo(tmp_path / "demo.echelon").run()
    assert not list(tmp_path.iterdir())


def test_unwritable_page_raises_before_playing(tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file"):
        demo(tmp_path / "file" / "demo.html").run()
    assert "battles" not in capsys.readouterr().out
