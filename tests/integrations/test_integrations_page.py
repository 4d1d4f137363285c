"""The programs of `docs/INTEGRATIONS.md` and `docs/DATASETS.md` run, each where the frameworks that its fence names are
installed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("INTEGRATIONS.md", "DATASETS.md")
PART = re.compile(r"^##? (.+?)$|^```python ?([\w ]*)\n(.*?)^```$", re.M | re.S)


def programs():
    """A program under each heading, and what it needs."""
    heading, found = "", []
    for page in PAGES:
        for title, needs, source in PART.findall((DOCS / page).read_text()):
            heading = title or heading
            found += [pytest.param(needs.split(), source, id=heading)] if source else []
    return found


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("needs", "source"), programs())
def test_a_program_runs(needs, source, tmp_path, monkeypatch):
    for framework in needs:
        pytest.importorskip(framework)
    monkeypatch.chdir(tmp_path)
    exec(compile(source, "a program of docs/", "exec"), {"__name__": "__main__"})
