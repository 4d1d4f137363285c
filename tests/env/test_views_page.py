"""The page about views: its snippets run, in order, as one program."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "VIEWS.md"


def test_the_snippets_run():
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    program = "\n".join(snippets)
    assert program.count("assert") >= len(snippets) >= 4
    exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
