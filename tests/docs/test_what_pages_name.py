"""What pages name: advice to install names this project, and versions that work."""

import re

import pytest
from pages import PAGES, ROOT

INSTALLS = re.compile(
    r"""(?:pip install|uv add|requirements)\b[^\n`]*?['" ]echelon(?:\[|[=<>~!]=|['"\s`]|$)|["'{ ]echelon[=<>~!]=\{"""
)
"""`echelon` on the index is another project's; ours is `echelon-marl`."""


def test_advice_to_install_names_this_project():
    files = [*PAGES, ROOT / "Dockerfile", ROOT / "pyproject.toml"]
    files += [path for part in ("echelon", "pipelines", "examples", "benchmarks") for path in (ROOT / part).rglob("*")]
    read = [path for path in files if path.suffix in ("", ".py", ".md", ".ipynb", ".toml", ".js") and path.is_file()]
    assert len(read) > 300
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in read
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if INSTALLS.search(line)
    ]
    assert wrong == []
    assert all(map(INSTALLS.search, ("pip install 'echelon[ray]'", '"requirements": [f"echelon=={VERSION}"]')))


def test_extra_gpu_admits_versions_that_import_beside_numba_0_68():
    """`from numba import cuda` fails with numba-cuda 0.30.0 to 0.30.3 beside numba 0.68.1."""
    requirement = re.search(r'^gpu = \["numba-cuda\[cu13\]([^"]*)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)
    specifiers = pytest.importorskip("packaging.specifiers").SpecifierSet(requirement[1])
    admitted = [
        f"0.{minor}.{patch}" for minor in (29, 30, 31) for patch in range(6) if f"0.{minor}.{patch}" in specifiers
    ]
    assert admitted == ["0.30.4", "0.30.5"]
