"""Sphinx configuration: the documentation site of all Markdown pages of the repository.

sphinx-build -W --keep-going -c docs . build/site

Pages keep their place in the repository, so that their links also work on its host; `docs/index.md` sorts them.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring

from echelon.runtime.version import VERSION
from echelon.state import Fields

ROOT = Path(__file__).parents[1]
SHOWN = ("tests/examples/", "pipelines/torchrl_ppo.py")
"""Files that pages offer as downloads."""
project = "Echelon"
author = "The Echelon authors"
copyright = author
release = version = VERSION
root_doc = "docs/index"
language = "en"
include_patterns = ["*.md", "docs/*.md", "benchmarks/README.md", "examples/*.ipynb"]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "runs",
    "leagues",
    "venv",
    "tests",
    "echelon",
    "pipelines",
    "**/node_modules",
]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4
default_role = "code"
"""Docstrings use Markdown for code: names are in single backquotes."""
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": "EnvBase,Module,TensorDictModuleBase,Protocol,IntEnum,int,tuple,object",
}
"""Members inherited from torch, TorchRL and Python are documented by these projects."""
autodoc_preserve_defaults = True
nitpicky = True
INNER = (
    *(
        "arena.batch_arena.BatchArena",
        "arena.batch_arena.BatchResult",
        "arena.batch_arena.StepSink",
        "env.battle_states",
    ),
    *(
        "env.decision.DecisionResult",
        "env.engine",
        "env.leaves",
        "env.loops",
        "env.observation.features.Feature",
        "learn.checkpoint",
        "learn.levels",
        "learn.models",
        "learn.opponents",
    ),
    *("learn.ppo", "rules.catalog.Material", "rules.damage_sources", "rules.roster.Pairs", "rules.specs.Hull"),
    *("rules.versions", "runtime", "state.Fields"),
)
"""Internal types in public signatures. All other types of Echelon are in the reference."""
nitpick_ignore_regex = [(".*", rf"(?!echelon\.)(.*)|echelon\.({'|'.join(INNER)})(\..*)?")]
napoleon_numpy_docstring = napoleon_google_docstring = False
"""`read_docstring` calls napoleon; alone, napoleon would read the words before a colon as the type of an attribute."""
html_theme = "furo"
html_title = f"Echelon {VERSION}"
html_extra_path = ["site"]
html_static_path: list[str] = []


def read_notebook(app: Sphinx, docname: str, source: list[str]) -> None:
    """Convert a notebook to Markdown. Its cells are shown, not run; `tests/examples/test_notebooks.py` runs them."""
    if docname.startswith("examples/"):
        cells = ((cell["cell_type"], "".join(cell["source"])) for cell in json.loads(source[0])["cells"])
        fence = {"code": ("```ipython\n", "\n```"), "markdown": ("", "")}
        first, *others = (text.join(fence[kind]) for kind, text in cells)
        file = f"{{download}}`This page is a notebook </{docname}.ipynb>`"
        source[0] = "\n\n".join(
            [first, f"{file}: `pip install echelon-marl jupyterlab` and `jupyter lab` run it.", *others]
        )


def link_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make programs and settings that a page names downloadable."""

    def link(match: re.Match[str]) -> str:
        places = (f"tests/examples/{match[1]}", match[1])
        found = next((place for place in places if (ROOT / place).is_file() and place.startswith(SHOWN)), None)
        return f"{{download}}`{match[1]} </{found}>`" if found else match[0]

    source[0] = re.sub(r"(?<![\w`\[])`([\w/]+\.(?:py|json))`(?!`)", link, source[0])


def list_reference(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace blocks of the language `api`, whose lines are `module: name, name`, by directives of autodoc."""

    def directive(module: str, name: str) -> str:
        named = getattr(importlib.import_module(module), name)
        if not inspect.isclass(named):
            return f".. autofunction:: {module}.{name}"
        options = "\n   :undoc-members:" if issubclass(named, Enum) else ""
        return f".. autoclass:: {module}.{name}{options}"

    def block(match: re.Match[str]) -> str:
        lines = (line.split(": ") for line in match[1].splitlines())
        directives = [directive(module, name) for module, names in lines for name in names.split(", ")]
        return "```{eval-rst}\n" + "\n".join(directives) + "\n```"

    source[0] = re.sub(r"^```api\n(.*?)\n```$", block, source[0], flags=re.DOTALL | re.MULTILINE)


def read_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Convert sections such as `Args:` to fields, list the fields of a state from its comments, and link pages."""
    kind = "method" if what in ("attribute", "property", "data") else what
    if what == "class" and issubclass(obj, Fields):
        told = re.findall(r"^    (\w+): (?:Tensor  # )?(.+)$", inspect.getsource(obj), re.M)
        lines += [f"- `{name}`: {text if text[0] == '[' else f'`{text}`'}" for name, text in told] + [""]
    text = GoogleDocstring(lines, app.config, app, kind, name, obj, options).lines()
    lines[:] = [re.sub(r"`?\bdocs/([A-Z_]+)\.md`?", r":doc:`/docs/\1`", line) for line in text]


def skip_foreign(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Return True for members that tensordict adds to the class of a state."""
    made = inspect.unwrap(getattr(obj, "fget", None) or obj)
    return True if str(getattr(made, "__module__", "")).startswith(("tensordict", "dataclasses", "torch")) else None


def show_fields(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, result: str
) -> tuple[str, str] | None:
    """Show a dataclass by field names and short defaults, with types reduced to what a reader needs."""
    if what != "class" or not dataclasses.is_dataclass(obj):
        return None
    hints = get_type_hints(obj)
    obj.__annotations__ = {name: hints[name] for name in inspect.get_annotations(obj)}
    told = []
    for field in dataclasses.fields(obj):
        given = field.default is not dataclasses.MISSING
        if not given and field.default_factory is dataclasses.MISSING:
            told.append(field.name)
        else:
            told.append(f"{field.name}={repr(field.default) if given and len(repr(field.default)) <= 24 else '...'}")
    return f"({', '.join(told)})", result


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_notebook)
    app.connect("source-read", link_examples)
    app.connect("source-read", list_reference)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", show_fields)
    app.connect("autodoc-skip-member", skip_foreign)
