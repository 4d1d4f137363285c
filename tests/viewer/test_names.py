"""Names of commanders on a page."""

import pytest
from scenes import small_replay

from echelon.viewer.page import pack, short_name, unpack


@pytest.mark.parametrize(
    ("commander", "told"),
    [
        ("heuristic:expert", "heuristic:expert"),
        ("user <b>bold</b>", "user <b>bold</b>"),
        ("league:best/of 3", "league:best/of 3"),
        ("package.module:Commander", "package.module:Commander"),
        ("/home/me/runs/first/checkpoints/00000512", "first 00000512"),
        ("runs/first/checkpoints/00000512", "first 00000512"),
        ("runs/first", "first"),
        ("../first", "first"),
        (r"C:\work\first\checkpoints\00000512", "first 00000512"),
        ("/home/me/best.safetensors", "best"),
    ],
)
def test_commander_names_omit_folders(commander, told):
    assert short_name(commander) == told


def test_page_contains_no_folder():
    replay, grounds = small_replay(1)
    replay.battles[0].about["blue"] = "/home/user/runs/first/checkpoints/00000512"
    packed = unpack(pack(replay, grounds))
    assert packed.battles[0]["about"]["blue"] == "first 00000512"
    assert "user" not in packed.battles[0]["about"]["blue"]
