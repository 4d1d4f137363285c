"""Tables of a profile, from hand-written events and from a real run."""

import json

import pytest
import torch

from echelon.runtime.profiling import ON_HOST, own_times, part, profiled, profiled_between, totals


def event(name, begins_us, lasts_us, thread=1, category="cpu_op"):
    return {"cat": category, "name": name, "ts": begins_us, "dur": lasts_us, "pid": 1, "tid": thread}


def test_own_time_excludes_nested_calls():
    events = [
        event("inner", 2000, 3000),
        event("outer", 1000, 10_000),
        event("innermost", 2500, 500),
        event("inner", 6000, 1000),
        event("outer", 12_000, 2000),
    ]
    assert own_times(events, ON_HOST) == {"outer": [6.0, 2.0], "inner": [2.5, 1.0], "innermost": [0.5]}


def test_own_times_are_separate_per_thread():
    events = [event("one", 0, 4000), event("two", 1000, 2000, thread=2)]
    assert own_times(events, ON_HOST) == {"one": [4.0], "two": [2.0]}


def test_other_categories_are_left_out():
    events = [event("called", 0, 1000), event("launched", 0, 1000, category="cuda_runtime"), {"ph": "M", "name": "pid"}]
    assert own_times(events, ON_HOST) == {"called": [1.0]}


def test_parts_are_summed_by_name():
    marks = [event("echelon.restart", at, 1500, category="user_annotation") for at in (0, 5000)]
    others = [event("ProfilerStep#1", 0, 9000, category="user_annotation"), event("echelon.odd", 0, 1)]
    assert totals([*marks, *others]) == {"restart": [1.5, 1.5]}


def test_profile_contains_the_parts_that_ran(tmp_path, capsys):
    out = tmp_path / "trace.json"
    with profiled(out), part("sums"):
        torch.ones(64).cumsum(0)
    shown = capsys.readouterr().out
    assert "sums" in shown and "aten::cumsum" in shown and str(out) in shown.replace("\n", "")
    assert any(row.get("name") == "aten::cumsum" for row in json.loads(out.read_text())["traceEvents"])


@pytest.mark.parametrize("marks", [1, 2, 3, 5])
def test_only_a_part_of_a_match_is_profiled(tmp_path, marks):
    out = tmp_path / "trace.json"
    with profiled_between(out) as mark:
        for number in range(marks + 1):
            with part(f"before mark {number}"):
                torch.ones(64).cumsum(0)
            if number < marks:
                mark()
    names = {row.get("name") for row in json.loads(out.read_text())["traceEvents"]}
    told = {name for name in names if name is not None and name.startswith("echelon.")}
    assert told == {f"echelon.before mark {number}" for number in range(1, min(marks, 2) + 1)}


def test_a_match_that_fails_leaves_no_trace(tmp_path):
    with pytest.raises(ZeroDivisionError), profiled_between(tmp_path / "trace.json") as mark:
        mark()
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
    with profiled(tmp_path / "next.json"):
        torch.ones(1)


def test_without_a_file_nothing_is_profiled(capsys):
    with profiled_between(None) as mark:
        mark()
    with profiled(None):
        torch.ones(1).add(1)
    assert capsys.readouterr().out == ""
