"""Run the notebooks of `examples/` completely in an empty folder; git contains no outputs."""

import json
import os
import sys
from pathlib import Path

import pytest
from patience import STUCK_S

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_no_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert cells[0]["cell_type"] == "markdown" and "".join(cells[0]["source"]).startswith("# ")
    assert any("## Exercise" in "".join(cell["source"]) for cell in cells)


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    """Cells use the commands of this environment; a failing cell, bash included, fails the test."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=STUCK_S, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [output for output in told if output.output_type == "error"] == []
    assert any(output.output_type in ("stream", "execute_result") for output in told)
