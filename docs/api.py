"""Writes `docs/API.md`, the reference of the public classes and functions, from their signatures and docstrings.

python docs/api.py
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef
PUBLIC = "echelon"
FURTHER = (
    "echelon.env.views.view.View",
    "echelon.env.views.group_policy.TeamPolicy",
    "echelon.env.views.group_policy.GroupPolicy",
    "echelon.env.views.group_policy.memory_spec",
    "echelon.env.map_pool.MapPool",
    "echelon.learn.trainer.Trainer",
    "echelon.learn.config.TrainConfig",
    "echelon.learn.config.PPOConfig",
    "echelon.learn.config.CurriculumConfig",
    "echelon.learn.config.EvalConfig",
    "echelon.learn.callbacks.base.Callback",
    "echelon.learn.models.registry.ModelConfig",
    "echelon.learn.models.registry.register_model",
    "echelon.arena.resolve.resolve",
    "echelon.arena.resolve.policy_of",
    "echelon.arena.resolve.register_resolver",
)
"""What one extends or calls beside `echelon.__all__`, each under its full name."""
HEADINGS = ("Args", "Returns", "Raises", "Yields")
WIDTH = 140
"""Longest signature on one line."""


def render() -> str:
    """The page."""
    package = importlib.import_module(PUBLIC)
    objects = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
    lines = [
        "# API reference",
        "",
        "Made from signatures and docstrings by `python docs/api.py`; edit those. `B` battles, `N` mechs of both",
        "teams, `A` of one.",
        "",
        f"## `{PUBLIC}`",
        "",
        f"`{PUBLIC}.__version__` is the version as a string.",
        "",
    ]
    for name, found in objects.items():
        lines += section(f"{PUBLIC}.{name}", found.__module__, found.__name__)
    lines += ["## To extend and to call", ""]
    for name in FURTHER:
        module, _, last = name.rpartition(".")
        lines += section(name, module, last)
    return "\n".join(lines).rstrip() + "\n"


def section(title: str, module: str, name: str) -> list[str]:
    """Signature, docstring and members of a class or function."""
    node = definition(module, name)
    if isinstance(node, ast.FunctionDef):
        return [f"### `{title}`", "", *code(signature(node, name)), *prose(ast.get_docstring(node)), ""]
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    lines = [f"### `{title}`", "", *(line for init in made for line in code(signature(init, name)))]
    lines += [*prose(ast.get_docstring(node)), ""]
    lines += fields(node)
    for method in methods(module, name):
        lines += code(signature(method, method.name))
        lines += [*prose(ast.get_docstring(method)), ""]
    return lines


def definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The syntax tree of a class or function of a module."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
    return found


def methods(module: str, name: str) -> Iterator[Function]:
    """Public methods with a docstring, those of Echelon's base classes included."""
    seen: set[str] = set()
    for base in getattr(importlib.import_module(module), name).__mro__:
        if base.__module__.startswith(f"{PUBLIC}."):
            node = definition(base.__module__, base.__name__)
            for item in node.body:
                public = isinstance(item, ast.FunctionDef) and item.name[0] != "_" and item.name not in seen
                if public and ast.get_docstring(item):
                    seen.add(item.name)
                    yield item


def signature(node: Function, name: str) -> str:
    """How a function is called, with its types and defaults."""
    args = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]
    if args.args and args.args[0].arg in ("self", "cls"):
        args.args = args.args[1:]
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if "property" in marks:
        return f"{name}: {ast.unparse(node.returns) if node.returns else 'Any'}"
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    line = f"{name}({ast.unparse(args)}){result}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts(args)) + f"){result}"


def parts(args: ast.arguments) -> list[str]:
    """The arguments one by one."""
    call = ast.unparse(args)
    found, depth, start = [], 0, 0
    for place, letter in enumerate(call):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append(call[start:place].strip())
            start = place + 1
    return [*found, call[start:].strip()]


def fields(node: ast.ClassDef) -> list[str]:
    """A table of the annotated attributes of a class, with the text below each."""
    rows = []
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id[0] != "_":
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            default = f"`{shortened(ast.unparse(item.value))}`" if item.value else ""
            text = " ".join(str(told).split()).replace("|", "\\|")
            kind = ast.unparse(item.annotation)
            if kind.startswith("Annotated["):
                kind = ast.unparse(item.annotation.slice.elts[0])
            kind = kind.replace("|", "\\|")
            rows.append(f"| `{item.target.id}` | `{kind}` | {default} | {text} |")
    return ["| field | type | default | |", "|---|---|---|---|", *rows, ""] if rows else []


def shortened(default: str) -> str:
    """The source of a default; of a field's factory, what it makes."""
    made = re.fullmatch(r"field\(default_factory=(.+)\)", default)
    text = f"{made[1]}()" if made else default
    return (text if len(text) <= 60 else text[:57] + "...").replace("|", "\\|")


def code(text: str) -> list[str]:
    """A signature as a block that no test takes for a snippet."""
    return ["```text", text, "```", ""]


def prose(docstring: str | None) -> list[str]:
    """A docstring as Markdown: sections become lists."""
    lines: list[str] = []
    inside = ""
    for line in (docstring or "").splitlines():
        heading = line.removesuffix(":")
        item = re.fullmatch(r"    ([\w*][\w, .*]*): (.*)", line) if inside in ("Args", "Raises") else None
        if heading in HEADINGS and line.endswith(":"):
            inside = heading
            lines += [f"{heading}:", ""]
        elif item:
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif inside and line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside if not line else ""
            lines.append(line)
    return lines


if __name__ == "__main__":
    page = Path(__file__).with_name("API.md")
    page.write_text(render())
    print(f"{page}  {len(page.read_text().splitlines())} lines")
