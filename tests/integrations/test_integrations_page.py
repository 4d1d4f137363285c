"""Run the programs of `docs/INTEGRATIONS.md`, each if the framework named by its fence is installed.

`tests/docs` runs the programs of other pages; its imports need another TorchRL than some frameworks.
"""

import runpy

import pytest
from docs.pages import ROOT, blocks

PROGRAMS = blocks(ROOT / "docs" / "INTEGRATIONS.md", "python")


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: f"{block.line} {' '.join(block.needs)}")
def test_documented_program_runs(block, tmp_path, monkeypatch):
    assert block.needs
    for framework in block.needs:
        pytest.importorskip({"ray": "ray.rllib"}.get(framework, framework), exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    exec(block.compiled(), {"__name__": "__main__"})


def test_client_table_matches_test_rows():
    clients, page = runpy.run_path(str(ROOT / "docs" / "clients.py")), ROOT / "docs" / "INTEGRATIONS.md"
    rows, text = clients["read"](clients["ROWS"]), page.read_text()
    assert len(rows) >= 8 and clients["with_table"](text, rows) == text
    assert len(text.encode()) <= 12_000
