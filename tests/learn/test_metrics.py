"""The CSV table of a run: rows are appended, and new names add columns at the end."""

import pytest

from echelon.learn.metrics import (
    CLOCKS,
    COLUMNS,
    COMMON_NAMES,
    CsvTable,
    for_loggers,
    read_columns,
    read_metrics,
    read_table,
)
from echelon.runtime.files import FileError


def lines(path):
    return path.read_text().splitlines()


def test_new_metric_adds_column_empty_in_older_rows(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "x"))
    table.write({"iteration": 1, "x": 0.1})
    table.write({"iteration": 2, "x": 0.2, "mine": 5})
    table.write({"iteration": 3, "x": None, "mine": 6, "other": 7})
    table.write({"iteration": 4})
    assert lines(table.path) == ["iteration,x,mine,other", "1,0.1,,", "2,0.2,5,", "3,,6,7", "4,,,"]


def test_resumed_run_keeps_column_order(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("iteration,old,x\n1,a,b\n2,c,d\n3,e,f\n")
    table = CsvTable(path, ("iteration", "x", "new"), after_iteration=2)
    assert lines(path) == ["iteration,old,x,new", "1,a,b,", "2,c,d,"]
    table.write({"iteration": 3, "x": "g", "new": "h"})
    assert lines(path)[-1] == "3,,g,h"
    table.write({"iteration": 4, "mine": 0.25})
    CsvTable(path, ("iteration", "x"), after_iteration=3).write({"iteration": 4})
    assert lines(path) == ["iteration,old,x,new,mine", "1,a,b,,", "2,c,d,,", "3,,g,h,", "4,,,,"], "a column stays"
    CsvTable(path, ("iteration", "x"))
    assert lines(path) == ["iteration,x"], "a new run has its own columns"


def test_quoted_cell_round_trips(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "rival"))
    table.write({"iteration": 1, "rival": 'a, "b"'})
    table.write({"iteration": 2, "rival": "c", "more": 1})
    assert read_table(table.path)[0] == {"iteration": "1", "rival": 'a, "b"'}


def test_loggers_receive_filled_cells_and_common_names():
    values = {"iteration": 1.0, "agent_steps": 10.0, "return": None, "kl": 0.1, "agent_steps_per_s": 40.0, "mine": 3.0}
    told = for_loggers(values)
    assert told == {
        "kl": 0.1,
        "agent_steps_per_s": 40.0,
        "mine": 3.0,
        "losses/approx_kl": 0.1,
        "charts/SPS": 40.0,
    }
    assert set(COMMON_NAMES.values()) <= set(COLUMNS) - set(CLOCKS)


def test_spreadsheet_csv_is_read_or_refused(tmp_path):
    """Its byte order mark is skipped; other separators raise an error that names them."""
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"\xef\xbb\xbfiteration,kl\r\n1,0.5\r\n")
    assert read_metrics(path) == [{"iteration": 1.0, "kl": 0.5}] and read_columns(path) == ["iteration", "kl"]
    path.write_bytes(b"\xef\xbb\xbfiteration;kl\r\n1;0,5\r\n")
    with pytest.raises(FileError, match="expected commas between the columns, got ';', as spreadsheet programs"):
        read_metrics(path)
