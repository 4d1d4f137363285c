"""Corrupt tables of a run: one error line, quickly, or the valid rows."""

import os

import pytest

from echelon.learn.metrics import CsvTable, read_metrics, read_table
from echelon.runtime.distributed import ALONE
from echelon.runtime.files import FileError

from .refusals import refusal, refused_or_taken

pytestmark = pytest.mark.long

NAME = "metrics.csv"
SPOILED = {
    "bytes of chance": bytes(range(256)) * 20,
    "Latin": b"iteration,k\xe9\n1,2\n",
    "no column of iterations": b"a,b\n1,2\n",
    "an iteration of text": b"iteration,kl\nx,1\n",
    "an iteration of escape codes": b"iteration,kl\n\x1b[2J,1\n",
    "an iteration that is missing": b"iteration,kl\n,1\n",
    "a mark before the names, and semicolons": b"\xef\xbb\xbfiteration;kl\n1;2\n",
    "more cells than columns": b"iteration,kl\n1,2,3,4\n",
    "a cell of 200,000 letters": b"iteration,kl\n1," + b"9" * 200_000 + b"\n",
    "NULs": b"\0" * 5000 + b"\n1\n",
    "quotes without an end": b'iteration,kl\n1,"' + b"a\n" * 200_000,
}
SOUND = {
    "nothing": b"",
    "names alone": b"iteration,kl\n",
    "half a row": b"iteration,kl\n1,2",
    "fewer cells than columns": b"iteration,kl,loss\n1\n",
    "a number of 400 digits": b"iteration,kl\n" + b"9" * 400 + b",1\n",
    "not a number": b"iteration,kl\nnan,1\ninf,2\n",
    "a column twice": b"iteration,iteration\n1,2\n",
    "100,000 columns": b"iteration," + b",".join(b"c%d" % i for i in range(100_000)) + b"\n1\n",
    "text as another value": b"iteration,kl\n1,x\n",
}


@pytest.mark.parametrize("data", SPOILED.values(), ids=SPOILED)
def test_corrupt_table_is_refused_in_one_line(data, tmp_path):
    (tmp_path / NAME).write_bytes(data)
    refusal(lambda: CsvTable(tmp_path / NAME, ("iteration",), 1), NAME)
    refused_or_taken(lambda: read_metrics(tmp_path / NAME), NAME)
    assert (tmp_path / NAME).read_bytes() == data, "and stays as it was"


@pytest.mark.parametrize("data", SOUND.values(), ids=SOUND)
def test_unusual_table_is_continued(data, tmp_path):
    (tmp_path / NAME).write_bytes(data)
    table = CsvTable(tmp_path / NAME, ("iteration", "kl"), 1)
    table.write({"iteration": 2, "kl": 0.5})
    assert {"iteration": "2", "kl": "0.5"}.items() <= read_table(tmp_path / NAME)[-1].items()


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "device", "vast"])
def test_only_a_regular_file_is_read(kind, tmp_path):
    path = tmp_path / NAME
    (tmp_path / "victim").write_text("iteration\n1\n")
    make = {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(tmp_path / "victim"),
        "device": lambda: path.symlink_to("/dev/zero"),
        "vast": lambda: (path.touch(), os.truncate(path, 8 << 30)),
    }
    make[kind]()
    refusal(lambda: CsvTable(path, ("iteration",), 1), NAME)
    assert (tmp_path / "victim").read_text() == "iteration\n1\n"


def test_text_in_number_column_is_reported_when_plotted(tmp_path):
    (tmp_path / NAME).write_bytes(SOUND["text as another value"])
    with pytest.raises(FileError, match=f"{NAME}: kl must be a number in every row, got 'x'"):
        read_metrics(tmp_path / NAME)


def test_non_utf8_name_is_preserved(tmp_path):
    """Paths of Linux are bytes, and Python tells those that are no UTF-8 as surrogates."""
    name = os.fsdecode(b"policy_\xff")
    CsvTable(tmp_path / NAME, ("iteration", "rival")).write({"iteration": 1, "rival": name})
    assert read_table(tmp_path / NAME) == [{"iteration": "1", "rival": r"policy_\udcff"}]
    assert ALONE.broadcast_text(name) == name
