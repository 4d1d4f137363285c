"""The table of a run: rows are appended, and new names begin columns behind the old ones."""

import pytest
import torch

from echelon.learn.metrics import COLUMNS, CsvTable, MetricsLog, read_columns, read_metrics, read_table
from echelon.runtime.errors import ConfigError
from echelon.runtime.files import FileError


def lines(path):
    return path.read_text().splitlines()


def test_a_new_name_begins_a_column_that_older_rows_leave_empty(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "x"))
    table.write({"iteration": 1, "x": 0.1})
    table.write({"iteration": 2, "x": 0.2, "mine": 5})
    table.write({"iteration": 3, "x": None, "mine": 6, "other": 7})
    table.write({"iteration": 4})
    assert lines(table.path) == ["iteration,x,mine,other", "1,0.1,,", "2,0.2,5,", "3,,6,7", "4,,,"]


def test_a_resumed_run_leaves_the_columns_of_its_file_in_place(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("iteration,old,x\n1,a,b\n2,c,d\n3,e,f\n")
    table = CsvTable(path, ("iteration", "x", "new"), after_iteration=2)
    assert lines(path) == ["iteration,old,x,new", "1,a,b,", "2,c,d,"]
    table.write({"iteration": 3, "x": "g", "new": "h"})
    assert lines(path)[-1] == "3,,g,h"
    CsvTable(path, ("iteration", "x"))
    assert lines(path) == ["iteration,x"], "a run that begins anew has its own columns"


def test_a_cell_that_needs_quotes_is_read_back(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "rival"))
    table.write({"iteration": 1, "rival": 'a, "b"'})
    table.write({"iteration": 2, "rival": "c", "more": 1})
    assert read_table(table.path)[0] == {"iteration": "1", "rival": 'a, "b"'}


def test_the_metrics_keep_their_columns_and_take_further_ones(tmp_path):
    log = MetricsLog(tmp_path)
    log.write({"iteration": 1.0, "agent_steps": 10.0, "return": None})
    log.write({"iteration": 2.0, "agent_steps": 20.0, "return": 0.5, "return_mine": 0.25})
    log.close()
    assert read_columns(log.path) == [*COLUMNS, "return_mine"]
    assert read_metrics(log.path)[1] == {"iteration": 2, "agent_steps": 20, "return": 0.5, "return_mine": 0.25}
    resumed = MetricsLog(tmp_path, after_iteration=1)
    resumed.write({"iteration": 2.0, "agent_steps": 20.0})
    assert read_columns(resumed.path) == [*COLUMNS, "return_mine"], "a column stays when its metric goes"


def test_a_logger_is_told_further_values_too(tmp_path):
    told = []

    class Board:
        def log_scalar(self, name, value, step):
            told.append((name, value, step))

    log = MetricsLog(tmp_path)
    log.board = Board()
    log.write({"iteration": 1.0, "agent_steps": 10.0, "return": None, "kl": 0.1, "mine": 3.0})
    assert told == [("kl", 0.1, 10), ("mine", 3.0, 10)]


def test_what_is_no_number_is_refused_before_it_reaches_the_file(tmp_path):
    log = MetricsLog(tmp_path)
    for wrong in ("much", True, torch.tensor(1.0)):
        with pytest.raises(ConfigError, match=r"metrics\['mine'\] must be a number or None"):
            log.write({"iteration": 1.0, "agent_steps": 10.0, "mine": wrong})
    assert read_table(log.path) == []


def test_tensorboard_shows_no_points_of_a_process_that_was_killed(tmp_path):
    """A curve that a resumed run draws again is that of the resumed run."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    empty = dict.fromkeys(COLUMNS)
    for value, (done, last) in ((1.0, (0, 3)), (2.0, (1, 4))):
        log = MetricsLog(tmp_path, done, 160 * done, "tensorboard")
        for iteration in range(done + 1, last + 1):
            log.write({**empty, "iteration": iteration, "agent_steps": 160 * iteration, "kl": value})
        log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    points = [(event.step, event.value) for event in events.Scalars("kl")]
    assert points == [(160, 1.0), (320, 2.0), (480, 2.0), (640, 2.0)]
    assert [float(row["agent_steps"]) for row in read_table(tmp_path / "metrics.csv")] == [160, 320, 480, 640]


def test_a_table_that_a_spreadsheet_program_saved(tmp_path):
    """Its mark of UTF-8 is read over; other separators are told of as such."""
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"\xef\xbb\xbfiteration,kl\r\n1,0.5\r\n")
    assert read_metrics(path) == [{"iteration": 1.0, "kl": 0.5}] and read_columns(path) == ["iteration", "kl"]
    path.write_bytes(b"\xef\xbb\xbfiteration;kl\r\n1;0,5\r\n")
    with pytest.raises(FileError, match="expected commas between the columns, got ';', as spreadsheet programs"):
        read_metrics(path)
