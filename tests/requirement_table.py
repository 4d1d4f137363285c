"""Write the tests of each requirement into the table of tests/README.md.

python tests/requirement_table.py

A test names its requirements with `@pytest.mark.requirement("R12")`; a file does so with `pytestmark`. Number, text and
state of a requirement are written by hand in the table; this program replaces the last column.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS / "README.md"
MARK = "pytest.mark.requirement"
ROW = re.compile(r"^(\| (R\d+) \| .* \| (?:met|partly[^|]*|not[^|]*) \|).*$", re.MULTILINE)
"""A row of the table: all but its last cell, and the requirement's number."""


def numbers_in(nodes: list[ast.expr]) -> list[str]:
    """Return the requirements in marks, in order."""
    calls = [call for node in nodes for call in ast.walk(node) if isinstance(call, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == MARK]
    return [ast.literal_eval(argument) for mark in marks for argument in mark.args]


def marked(body: list[ast.stmt], inherited: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the tests in the body of a module or class with their requirements, including those of the body."""
    shared = [
        node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    numbers = inherited + numbers_in(shared)
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from marked(node.body, numbers + numbers_in(node.decorator_list))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, numbers + numbers_in(node.decorator_list)


def names_by_requirement() -> dict[str, dict[str, list[str]]]:
    """Return for each requirement the files with its tests, and for each file their names."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, numbers in marked(ast.parse(path.read_text()).body, []):
            for number in dict.fromkeys(numbers):
                found[number][path.relative_to(TESTS).as_posix()].append(name)
    return found


def filled(page: str) -> str:
    """Return the text of the page with the current tests in the last column of its table."""
    tests = names_by_requirement()

    def row(match: re.Match[str]) -> str:
        files = (f"`{path}`: {', '.join(f'`{name}`' for name in names)}" for path, names in tests[match[2]].items())
        return f"{match[1]} {'; '.join(files)} |"

    return ROW.sub(row, page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
