"""The programs of `docs/INTEGRATIONS.md` run, each where the frameworks that its fence names are installed."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "INTEGRATIONS.md").read_text()
PROGRAMS = re.findall(r"^## (.+?)$|^```python ([\w ]+)\n(.*?)^```$", PAGE, re.M | re.S)


def programs():
    """A program under each heading, and what it needs."""
    heading, found = "", []
    for title, needs, source in PROGRAMS:
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
    exec(compile(source, "docs/INTEGRATIONS.md", "exec"), {"__name__": "__main__"})
