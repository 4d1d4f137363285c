"""The CSV table of a run: rows are appended, and new names add columns at the end."""

import pytest
import torch

from echelon.learn.metrics import COLUMNS, CsvTable, MetricsLog, read_columns, read_metrics, read_table
from echelon.runtime.errors import ConfigError
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
    CsvTable(path, ("iteration", "x"))
    assert lines(path) == ["iteration,x"], "a new run has its own columns"


def test_quoted_cell_round_trips(tmp_path):
    table = CsvTable(tmp_path / "t.csv", ("iteration", "rival"))
    table.write({"iteration": 1, "rival": 'a, "b"'})
    table.write({"iteration": 2, "rival": "c", "more": 1})
    assert read_table(table.path)[0] == {"iteration": "1", "rival": 'a, "b"'}


def test_metrics_log_keeps_and_extends_columns(tmp_path):
    log = MetricsLog(tmp_path)
    log.write({"iteration": 1.0, "agent_steps": 10.0, "return": None})
    log.write({"iteration": 2.0, "agent_steps": 20.0, "return": 0.5, "return_mine": 0.25})
    log.close()
    assert read_columns(log.path) == [*COLUMNS, "return_mine"]
    assert read_metrics(log.path)[1] == {"iteration": 2, "agent_steps": 20, "return": 0.5, "return_mine": 0.25}
    resumed = MetricsLog(tmp_path, after_iteration=1)
    resumed.write({"iteration": 2.0, "agent_steps": 20.0})
    assert read_columns(resumed.path) == [*COLUMNS, "return_mine"], "a column stays without its metric"


def test_logger_receives_additional_values(tmp_path):
    told = []

    class Board:
        def log_scalar(self, name, value, step):
            told.append((name, value, step))

    log = MetricsLog(tmp_path)
    log.board = Board()
    log.write({"iteration": 1.0, "agent_steps": 10.0, "return": None, "kl": 0.1, "mine": 3.0})
    assert told == [("kl", 0.1, 10), ("mine", 3.0, 10)]


def test_non_number_metric_raises_before_writing(tmp_path):
    log = MetricsLog(tmp_path)
    for wrong in ("much", True, torch.tensor(1.0)):
        with pytest.raises(ConfigError, match=r"metrics\['mine'\] must be a number or None"):
            log.write({"iteration": 1.0, "agent_steps": 10.0, "mine": wrong})
    assert read_table(log.path) == []


def test_tensorboard_hides_points_of_killed_process(tmp_path):
    """TensorBoard shows the resumed run's points instead of the killed process's."""
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


def test_spreadsheet_csv_is_read_or_refused(tmp_path):
    """Its byte order mark is skipped; other separators raise an error that names them."""
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"\xef\xbb\xbfiteration,kl\r\n1,0.5\r\n")
    assert read_metrics(path) == [{"iteration": 1.0, "kl": 0.5}] and read_columns(path) == ["iteration", "kl"]
    path.write_bytes(b"\xef\xbb\xbfiteration;kl\r\n1;0,5\r\n")
    with pytest.raises(FileError, match="expected commas between the columns, got ';', as spreadsheet programs"):
        read_metrics(path)
