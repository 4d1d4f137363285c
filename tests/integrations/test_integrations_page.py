"""The programs of `docs/INTEGRATIONS.md` run, each where the framework that its fence names is installed.

`tests/docs` runs those of the other pages; what it imports does not fit the TorchRL of every framework.
"""

import pytest
from docs.pages import ROOT, blocks

PROGRAMS = blocks(ROOT / "docs" / "INTEGRATIONS.md", "python")


@pytest.mark.integrations
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: f"{block.line} {' '.join(block.needs)}")
def test_a_program_runs(block, tmp_path, monkeypatch):
    assert block.needs
    for framework in block.needs:
        pytest.importorskip({"ray": "ray.rllib"}.get(framework, framework), exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    exec(block.compiled(), {"__name__": "__main__"})
