"""Data embedded in a page."""

import dataclasses

import numpy as np
import pytest
import torch
from scenes import noisy_replay, small_replay

from echelon.arena.config import ArenaConfig
from echelon.arena.match import named_match, replay_of
from echelon.replay.ground import rebuild
from echelon.replay.recorder import Recorder
from echelon.rules.config import EnvConfig
from echelon.rules.physics import RulesConfig
from echelon.viewer.page import SCRIPTS, arrays_of, decode, encode, pack, read, unpack, write_page

BRIEF_S = 5.0


def test_payload_round_trip():
    replay, grounds = small_replay()
    payload = unpack(pack(replay, grounds))
    assert payload.about == replay.about
    for battle, ground, about, arrays in zip(replay.battles, grounds, payload.battles, payload.arrays, strict=True):
        kept = arrays_of(replay, battle, ground)
        told = {"zones": [battle.about["zone"]], "objective": "30 s of zone control win"}
        assert about["about"] == battle.about | told and about["decisions"] == battle.decisions
        assert arrays.keys() == kept.keys()
        for name, array in kept.items():
            assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
            assert np.array_equal(arrays[name], array), name


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32"])
def test_difference_coding_wraps_around(kind):
    info = np.iinfo(kind)
    array = np.array([[info.min, info.max], [info.max, info.min], [0, 1]], kind)
    assert np.array_equal(decode(encode(array), kind, [3, 2]), array)


def test_empty_table_round_trip():
    assert decode(encode(np.zeros((0, 4), np.int32)), "int32", [0, 4]).shape == (0, 4)


def test_missing_ground_is_refused():
    replay, grounds = small_replay()
    with pytest.raises(ValueError, match="a ground for each of 2 battles, got 1"):
        pack(replay, grounds[:1])


def test_page_of_full_battle_is_small(tmp_path):
    replay, grounds = noisy_replay()
    write_page(replay, grounds, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 5_000_000


def test_page_of_four_standard_battles_is_below_a_megabyte():
    """Extrapolated from the first seconds, maps included, to battles of about 30 s."""
    env = dataclasses.replace(EnvConfig.standard(), rules=RulesConfig(max_episode_s=BRIEF_S), map_pool=4)
    recorder = Recorder([0, 1, 2, 3])
    named_match("heuristic:expert", "heuristic:hard", env, 4, ArenaConfig(torch.device("cpu"))).play(3, recorder)
    replay = replay_of(recorder, "heuristic:expert", "heuristic:hard")
    assert [battle.decisions for battle in replay.battles] == [20] * 4
    packed = len(pack(replay, [rebuild(replay, battle) for battle in replay.battles]))
    bytes_a_second = 4 / 3 * packed / (4 * BRIEF_S)
    empty = sum(len(read(name).encode()) for name in (*SCRIPTS, "viewer.css", "viewer.html"))
    assert 500 < bytes_a_second < 5_000
    assert empty + 4 * 30 * bytes_a_second < 1_000_000


def test_page_is_self_contained(tmp_path):
    replay, grounds = small_replay()
    write_page(replay, grounds, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "src=" not in text and "@import" not in text and "url(" not in text
    assert text.count("<script") == 2 and "/* scripts */" not in text and "<!-- data -->" not in text
    assert all(read(name).splitlines()[0] in text for name in SCRIPTS)
