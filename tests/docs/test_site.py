"""The documentation site builds without a warning, and its links resolve."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from pages import PAGES, ROOT

import echelon

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")
pytest.importorskip("sphinxcontrib.mermaid")

pytestmark = pytest.mark.long
EXTENDING = (ROOT / "docs" / "EXTENDING.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(folder / "doctrees"), "-c", "docs", "."]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words, str(folder / "html")], cwd=ROOT, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return folder / "html"


class Page(HTMLParser):
    """The link targets of a page, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.targets += [named[key] for key in ("href", "src") if named.get(key)]
        self.ids |= {named["id"]} if "id" in named else set()


def test_each_page_is_built(site):
    wanted = [page.relative_to(ROOT).with_suffix(".html") for page in PAGES]
    wanted += [page.relative_to(ROOT).with_suffix(".html") for page in ROOT.glob("examples/*.ipynb")]
    assert [str(page) for page in wanted if not (site / page).exists()] == []
    assert "url=docs/index.html" in (site / "index.html").read_text()


def test_each_link_resolves(site):
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    lost = []
    for path, page in pages.items():
        for target in page.targets:
            if re.match(r"[a-z]+:", target):
                continue
            place, _, anchor = unquote(target.partition("?")[0]).partition("#")
            there = (path.parent / place).resolve() if place else path
            found = there.exists() and (not anchor or there not in pages or anchor in pages[there].ids)
            lost += [] if found else [f"{path.name}: {target}"]
    assert len(pages) > len(PAGES) and lost == []


def test_reference_documents_each_public_name(site):
    text = (site / "docs" / "API.html").read_text()
    ids = Page(text).ids
    assert [name for name in echelon.__all__ if name != "__version__" and f"echelon.{name}" not in ids] == []
    assert "echelon.EchelonEnv.render" in ids, "what it has from Echelon's own base classes"
    assert "echelon.EnvConfig.comm_dim" in ids
    assert "echelon.rules.actions.Act.PRIMARY" in ids and "echelon.state.Mechs.alive" in ids
    assert "echelon.state.Mechs.memmap" not in ids, "what tensordict tells itself"
    assert "hull centre" in text and 'href="COMMAND.html"' in text, "fields that comments tell, and pages as links"


def test_search_index_has_words_of_docstrings_and_pages(site):
    index = (site / "searchindex.js").read_text()
    assert "exploit" in index and "renew_maps" in index


def test_notebook_is_shown_cell_by_cell(site):
    (page,) = site.glob("examples/1_*.html")
    text = page.read_text()
    assert "cell_type" not in text and text.count('class="highlight-ipython') > 4
    assert re.search(r'href="../_downloads/\w+/1_first_battle.ipynb"', text)


def test_programs_named_by_pages_can_be_downloaded(site):
    text = (site / "docs" / "EXTENDING.html").read_text()
    files = [path.name for path in (ROOT / "tests" / "examples").iterdir() if f"`{path.name}`" in EXTENDING]
    assert len(files) > 5 and all(re.search(rf'href="../_downloads/\w+/{name}"', text) for name in files)
