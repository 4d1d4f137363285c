"""The report of a run as a file: self-contained, with all names escaped."""

import json
import re

import pytest
from reports import HOSTILE, empty_report
from scenes import small_replay

from echelon.viewer.pages import REPORT, as_script, hit_distances, hits_of, replay_page, write_report


def test_report_values_are_escaped(tmp_path):
    path = tmp_path / "report.html"
    write_report(empty_report(name=HOSTILE, battle=HOSTILE), path, HOSTILE)
    page = path.read_text()
    assert HOSTILE not in page and "<img" not in page
    assert page.count("<script") == page.count("</script>") == 3
    data, inside = re.findall(r'type="application/json"[^>]*>(.*?)</script>', page)
    assert json.loads(data)["name"] == HOSTILE and json.loads(inside) == HOSTILE


def test_nonfinite_report_number_is_refused():
    with pytest.raises(ValueError, match="Out of range float"):
        as_script({"x": float("nan")})


def test_report_uses_no_network(tmp_path):
    path = tmp_path / "report.html"
    write_report(empty_report(), path)
    page = path.read_text()
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|<link[^>]+stylesheet|src=", page)
    assert "default-src 'none'" in page and ".innerHTML" not in page


def test_report_embeds_all_assets(tmp_path):
    path = tmp_path / "report.html"
    write_report(empty_report(), path)
    for name in ("report.css", "report.js"):
        assert (REPORT / name).read_text() in path.read_text()


def test_hits_include_beams_and_projectiles():
    """By hand: a laser from (5, 8, 2) to (19, 9, 1.5), a gauss slug from (6, 8, 3) to (16, 13, 1.5)."""
    replay, _ = small_replay(1)
    battle = replay.battles[0]
    names = replay.about["weapons"]
    found = {(shooter, names[weapon]): distance for shooter, weapon, distance in hits_of(battle)}
    assert found[0, "laser"] == pytest.approx((14**2 + 1 + 0.25) ** 0.5, abs=0.02)
    assert found[0, "gauss"] == pytest.approx((100 + 25 + 2.25) ** 0.5, abs=0.02)
    assert set(found) == {(0, "laser"), (0, "gauss"), (0, "missile"), (1, "painter"), (3, "flamer")}


def test_distances_cover_one_team_and_weapons_with_several_hits():
    replay, _ = small_replay(1)
    battle = replay.battles[0]
    assert hit_distances(replay, battle, "blue") == []
    battle.beams[:, 1:4] = 0, 2, 0  # three hits of the heavy's laser
    (row,) = hit_distances(replay, battle, "blue")
    distances = sorted(distance for _, weapon, distance in hits_of(battle) if weapon == 0)
    assert row["weapon"] == "laser" and row["hits"] == 3 and row["median"] == pytest.approx(distances[1], abs=0.01)
    assert distances[0] <= row["low"] <= row["median"] <= row["high"] <= distances[2]
    assert hit_distances(replay, battle, "red") == []


def test_embedded_page_shows_first_battle():
    replay, grounds = small_replay(2)
    assert replay_page(replay, grounds[0]) == replay_page(type(replay)(replay.about, replay.battles[:1]), grounds[0])
