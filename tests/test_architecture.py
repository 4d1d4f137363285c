"""Allowed imports between rooms, and calls that are not allowed."""

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from mutation import all_mutants, problems

from echelon.rules.catalog import Catalog

ROOT = Path(__file__).parents[1]
FILES = sorted(path for house in ("echelon", "pipelines") for path in (ROOT / house).rglob("*.py"))

FLOORS = (
    *("runtime", "rules", "state", "world", "sim", "viewer.topdown", "env", "scenarios", "replay", "agents", "views"),
    *("command", "learn", "arena", "integrations", "datasets", "reports", "league", "serve", "public", "pipelines"),
    "__main__",
)
"""Rooms, lowest first. A room imports from lower rooms and from itself; `public` is `import echelon`.

`viewer` is outside this order: it imports the rooms of `VIEWER_READS`, and the rooms of `VIEWER_READERS` import it. Its
file `topdown` draws arrays and reads no replay; it counts as its own room, because the environment uses it.
"""
VIEWER_READS = {"viewer", "viewer.topdown", "replay", "runtime"}
VIEWER_READERS = ("reports", "league", "serve", "pipelines")
NAMED_ABOVE = {"echelon.env.views": {"views"}}
"""Rooms above that a module imports by name. The old path of the views works until 2.0."""
LEVEL = {room: level for level, room in enumerate(FLOORS)}
NO_HOST_READS = ("sim", "env", "agents", "views", "state.py")
OUTSIDE_PLAY = (
    *("sim/model.py", "env/map_pool.py", "env/render.py", "env/battle_states.py", "env/rehearsal.py"),
    "env/measure.py",
    *("env/edited_states.py", "env/factor_spec.py"),
    *("sim/loops", "env/loops"),
)
"""Code that runs before battles, between rollouts, for a picture, a saved state or random actions, or only on a CPU,
where the host is the device."""
HOST_READS = {"item", "cpu", "numpy", "tolist", "nonzero"}


EXACT = (
    *("rules", "state.py", "world", "sim", "env", "agents", "views"),
    *("runtime/noise.py", "runtime/geometry.py"),
)
"""Rooms whose numbers are equal on each processor: they use only `runtime.exact` for these functions."""
VARY = frozenset(
    re.findall(
        r"\w+",
        """
    sqrt rsqrt sin cos tan asin acos atan atan2 arcsin arccos arctan arctan2 sinh cosh tanh exp exp2 expm1 log log2
    log10 log1p sigmoid softmax log_softmax softplus logsumexp pow float_power hypot norm vector_norm normalize cdist
    dist addcmul addcdiv addmm baddbmm bmm matmul mm mv einsum tensordot inner vdot lerp sum nansum mean nanmean std var
    prod cumprod trapezoid erf erfinv randn randn_like rand normal normal_ avg_pool2d adaptive_avg_pool2d interpolate
    conv2d fma deg2rad linspace logspace median quantile polar
    """,
    )
)
"""Functions and methods whose results differ by processor, or by the order of additions."""
SAFE = {"exact", "noise", "math.sqrt", "MultiCategorical"}
"""Allowed sources of these functions. `math.sqrt` is correctly rounded (IEEE 754); a spec draws random actions only."""
FLAGS_MULTIPLIED = {"env/observation/sensing.py": 1}
"""Number of matrix products of zeros and ones (exact), keyed by file."""


def test_wheel_contains_each_package():
    """`pyproject.toml` lists every folder with an `__init__.py`; `pipelines/` is installed as `echelon.pipelines`."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^packages = \[(.*?)\]", text, re.M | re.S)
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    assert set(re.findall(r'"(.*?)"', listed[1])) == packages
    assert '[tool.setuptools.package-dir]\n"echelon.pipelines" = "pipelines"\n' in text


def test_no_package_changes_its_path():
    """Modules are where their names say. Only the old name `echelon.env.views` sets a path, an empty one."""
    changed = [path for path in FILES if "__path__" in identifiers(path.read_text())]
    assert [module_of(path) for path in changed] == ["echelon.env.views"]


def is_within(path: Path, places: Sequence[str]) -> bool:
    """Return whether a file is one of these places below `echelon`, or in one of them."""
    return any(ROOT / "echelon" / place in (path, *path.parents) for place in places)


def module_of(path: Path) -> str:
    """Return the module name of a file; a package has the name of its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "echelon" else ("echelon", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def room_of(module: str) -> str:
    """Return the room of a module: the first name below `echelon`; `public` for `echelon` itself."""
    if module == "echelon.viewer.topdown":
        return "viewer.topdown"
    return module.split(".")[1] if "." in module else "public"


def imported(source: str) -> set[str]:
    """Return the modules of Echelon that a file imports: at the top, inside functions, and for types only."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import: {ast.unparse(node)}"
            names |= {name if name in MODULES else node.module for name in modules_named(node)}
    assert not {name for name in names if name.split(".")[0] == "pipelines"}, "programs are `echelon.pipelines`"
    return {name for name in names if name.split(".")[0] == "echelon"}


def modules_named(node: ast.ImportFrom) -> list[str]:
    """Return the full names in `from MODULE import NAME`."""
    return [f"{node.module}.{alias.name}" for alias in node.names]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_import_downwards(path):
    room = room_of(module_of(path))
    below = {room, *FLOORS[: LEVEL.get(room, 0)]} | ({"viewer"} if room in VIEWER_READERS else set())
    allowed = VIEWER_READS if room == "viewer" else below
    assert {name for name in imported(path.read_text()) if room_of(name) not in allowed} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_rooms_name_no_module_above_in_text(path):
    """A module name in a string, for `import_module` or a registry, counts as an import."""
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    named = {text.partition(":")[0] for text in texts if isinstance(text, str)} & MODULES.keys()
    level = LEVEL.get(room_of(module_of(path)), 0)
    above = {room_of(name) for name in named if LEVEL.get(room_of(name), 0) > level} - {"public"}
    assert above == NAMED_ABOVE.get(module_of(path), set())


def room_imports() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    found: dict[str, set[str]] = {room: set() for room in (*FLOORS, "viewer")}
    for path in FILES:
        room = room_of(module_of(path))
        found[room] |= {room_of(name) for name in imported(path.read_text())} - {room}
    return found


def drawn_arrows(page: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The names in the Mermaid diagram of a page, and its arrows."""
    (diagram,) = re.findall(r"^```mermaid\nflowchart TD\n(.*?)^```$", page, re.M | re.S)
    arrows = {
        (start, end) for start, ends in re.findall(r"^ +(\w+) --> (.+)$", diagram, re.M) for end in ends.split(" & ")
    }
    return {name for arrow in arrows for name in arrow}, arrows


def reachable(arrows: set[tuple[str, str]], start: str) -> set[str]:
    """All rooms that a path of arrows leads to."""
    found, waiting = set(), [start]
    while waiting:
        room = waiting.pop()
        ends = {end for begin, end in arrows if begin == room} - found
        found |= ends
        waiting += ends
    return found


DRAWN = {"viewer.topdown": "topdown"}
"""Rooms by their names in the diagram, where these differ. Mermaid's names have no dots."""


def test_arrows_of_the_diagram_are_the_imports_of_the_code():
    """An arrow is an import. An import is an arrow, or follows from a longer path of arrows."""
    rooms, arrows = drawn_arrows((ROOT / "docs" / "ARCHITECTURE.md").read_text())
    imports = {(DRAWN.get(a, a), DRAWN.get(b, b)) for a, ends in room_imports().items() for b in ends}
    imports = {(start, end) for start, end in imports if start != "__main__"}
    needed = {(a, b) for a, b in imports if b not in reachable(imports - {(a, b)}, a)}
    assert rooms == {DRAWN.get(room, room) for room in (*FLOORS, "viewer")} - {"__main__"}
    assert sorted(arrows - needed) == [], "arrows that the code does not need"
    assert sorted(needed - arrows) == [], "imports without an arrow"


def test_lazy_and_typing_imports_are_seen():
    lazy = "def f():\n    from echelon.sim import step\n"
    typing = "if TYPE_CHECKING:\n    import echelon\n    from echelon.env.env import EchelonEnv\n"
    assert imported(lazy + typing) == {"echelon.sim.step", "echelon", "echelon.env.env"}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return groups of files that import each other in a circle of any length."""

    def reached(start: str) -> set[str]:
        found, waiting = set(), [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    below = {name: reached(name) for name in graph}
    groups = {tuple(sorted(other for other in below[name] if name in below.get(other, ()))) for name in graph}
    return [list(group) for group in sorted(groups) if group]


def test_no_files_import_each_other():
    assert circles({module: imported(path.read_text()) for module, path in MODULES.items()}) == []


def test_circle_of_three_files_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set(), "f": {"f"}}
    assert circles(graph) == [["a", "b", "c"], ["f"]]


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_loads_code(path):
    """No pickle and no `torch.load` under any imported name. Docstrings are not checked."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.alias | ast.Name | ast.Attribute):
            name = ast.unparse(node)
            found += [name] if "pickle" in name or name in ("torch.load", "load_module", "dill", "joblib") else []
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found += [node.module] if "pickle" in node.module or (node.module == "torch" and "load" in names) else []
        elif isinstance(node, ast.keyword) and node.arg == "weights_only":
            found.append("weights_only")
    assert not found


@pytest.mark.requirement("R14")
@pytest.mark.parametrize(
    "path",
    [path for path in FILES if is_within(path, NO_HOST_READS) and not is_within(path, OUTSIDE_PLAY)],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_nothing_is_read_on_the_host(path):
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HOST_READS
    ]
    found = [ast.unparse(call) for call in calls]
    assert not found


def varying(source: str) -> list[str]:
    """Return the uses of `VARY`, of fractional powers and of matrix products in a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in VARY:
            name = ast.unparse(node)
            found += [] if name in SAFE or ast.unparse(node.value) in SAFE else [name]
        elif isinstance(node, ast.ImportFrom):
            found += [alias.name for alias in node.names if alias.name in VARY]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.append("@")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            found += [ast.unparse(node)] if isinstance(getattr(node.right, "value", None), float) else []
    return found


@pytest.mark.requirement("R16")
@pytest.mark.parametrize(
    "path", [path for path in FILES if is_within(path, EXACT)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_numbers_are_equal_on_each_processor(path):
    """Files of these rooms use only `echelon.runtime.exact` for roots, angles and sums of floats."""
    allowed = ["@"] * FLAGS_MULTIPLIED.get(str(path.relative_to(ROOT / "echelon")), 0)
    assert varying(path.read_text()) == allowed


@pytest.mark.parametrize(
    "line",
    ["x.sqrt()", "torch.sqrt(x)", "math.sin(x)", "np.exp(x)", "x.sum(1)", "x**0.5", "x @ y", "F.normalize(x)",
     "torch.linalg.vector_norm(x)", "from torch import atan2", "from math import cos as c"],
)  # fmt: skip
def test_varying_function_is_found(line):
    assert len(varying(line)) == 1


RENAMED = """
    Kept Lasting go_on MechPolicy Network think Thought think_together Seats Place Rival Challenger PastSelves
    ScriptedRivals FrozenRivals Ended Battles Hall Stack Seen Script Seat drawers Sparring Campaign Panel Vault Library
    Game Arms Guns settle Atlas Witness Fought Gathering Unroll stagger hourglass Rollout load_commander
    wither marked_factor held_fire ordinary_tensors tell_compilation Recycled first_look first_shown replacing
"""
"""Old names that have plainer names now."""


@functools.cache
def identifiers(source: str) -> set[str]:
    """Return the names that a file defines, imports, reads or takes as arguments. Strings are not checked."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found |= {node.name.rpartition(".")[2], node.asname or ""}
        elif isinstance(node, ast.arg | ast.keyword):
            found.add(node.arg or "")
    return found


def test_old_names_are_gone():
    """No old name is left in package, programs, tests or benchmarks."""
    everywhere = [
        path for house in ("echelon", "pipelines", "tests", "benchmarks") for path in (ROOT / house).rglob("*.py")
    ]
    old = {str(path.relative_to(ROOT)): identifiers(path.read_text()) & set(RENAMED.split()) for path in everywhere}
    assert {path: names for path, names in old.items() if names} == {}


WORDS = {"painter", "smoke"}
"""Weapons with the name of a switch, a state field or a picture: only strings are searched for these."""
CATALOG = ROOT / "echelon" / "rules" / "catalog.py"
SCRIPTS = sorted((ROOT / "echelon" / "viewer").glob("*/*.js"))


def weapons_named(path: Path) -> set[str]:
    """Return the weapons of the default catalog that a file names in strings or identifiers, not comments."""
    weapons = set(Catalog().weapons)
    if path.suffix == ".js":
        code = re.sub(r"/\*.*?\*/|(?<!:)//[^\n]*", "", path.read_text(), flags=re.S)
        quoted = set(re.findall(r"""["'`](\w+)["'`]""", code))
        return weapons & quoted | (weapons - WORDS) & set(re.findall(r"\w+", code))
    tree = ast.parse(path.read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return weapons & texts | (weapons - WORDS) & {name.lower() for name in identifiers(path.read_text())}


SHARED_BY_LOOPS = {"__init__", "arithmetic", "fetching", "lanes", "log", "packing", "records", "tables"}
"""Files of `sim/loops/` without a system."""


def test_each_system_has_one_file_name_in_both_forms():
    """The loops of a system of `sim/` are in the file of the same name."""
    dense, loops = ({path.stem for path in (ROOT / "echelon" / room).glob("*.py")} for room in ("sim", "sim/loops"))
    assert loops - SHARED_BY_LOOPS <= dense
    streams, filled = (
        {path.stem for path in (ROOT / "echelon" / "env" / room / "streams").glob("*.py")}
        for room in ("observation", "loops")
    )
    assert filled <= streams


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=lambda p: str(p.relative_to(ROOT)))
def test_weapons_are_named_in_the_catalog_only(path):
    """A weapon is one row of the catalog; no other file names it."""
    assert weapons_named(path) == (set(Catalog().weapons) if path == CATALOG else set())


LONGEST, LONGEST_FILE = 60, 600
"""Most lines of a function, unless its docstring says `long because`, and most lines of a file."""


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_functions_and_files_are_short(path):
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node for node in functions if node.end_lineno - node.lineno + 1 > LONGEST]
    assert [node.name for node in long if "long because" not in (ast.get_docstring(node) or "").lower()] == []
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_comprehension_variable_has_the_name_of_a_called_function(path):
    """Python 3.12.1 inlines both into one scope and raises an error: the function is an unbound local variable."""
    tree = ast.parse(path.read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        loops = [node for node in ast.walk(function) if isinstance(node, COMPREHENSIONS)]
        targets = [name for loop in loops for each in loop.generators for name in ast.walk(each.target)]
        bound = {name.id for name in targets if isinstance(name, ast.Name)}
        called = {
            node.func.id for node in ast.walk(function) if isinstance(node, ast.Call) and hasattr(node.func, "id")
        }
        assert bound & called & functions == set(), function.name


SLOW_TO_IMPORT = {"matplotlib", "scipy"}
"""Imported where they are used. Most programs do not need them, and each import takes half a second."""


ENUMERATIONS = {
    node.name
    for path in FILES
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in ("IntEnum", "IntFlag") for base in node.bases)
}
COMPARED_ON_THE_HOST = {
    "trigger == Trigger.PRIMARY",
    "trigger == Trigger.SECONDARY",
    "trigger == Trigger.TERTIARY",
    "Trigger.SECONDARY in triggers",
    "suite == Suite.SQUAD_COMMAND",
}
"""Allowed comparisons of Python values, while tables are made."""


def compared_members(source):
    """Yield comparisons with an enum member. For a tensor they are False in a torch.compile graph."""
    for node in ast.walk(ast.parse(source)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        members = [side for side in sides if isinstance(side, ast.Attribute) and isinstance(side.value, ast.Name)]
        if any(member.value.id in ENUMERATIONS for member in members):
            yield ast.unparse(node)


COMPILED_ROOMS = ("sim", "env", "agents", "learn", "rules", "state.py")


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in FILES
        if p.is_relative_to(ROOT / "echelon") and p.relative_to(ROOT / "echelon").parts[0] in COMPILED_ROOMS
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_no_tensor_is_compared_with_a_member_of_an_enumeration(path):
    assert set(compared_members(path.read_text())) <= COMPARED_ON_THE_HOST


def test_a_comparison_with_a_member_of_an_enumeration_is_found():
    assert {"Winner", "Hull", "Reason", "Trigger", "Act", "OrderKind"} <= ENUMERATIONS
    source = "a = x == int(Winner.RED)\nb = x == Winner.RED\nc = Hull.SCOUT != y.hull\n"
    assert list(compared_members(source)) == ["x == Winner.RED", "Hull.SCOUT != y.hull"]


def test_no_traced_room_calls_a_subscripted_type():
    """torch.compile cannot trace `dict[str, Tensor]()`; an annotation of the name has the same meaning."""
    files = [path for path in FILES if is_within(path, NO_HOST_READS) and not is_within(path, OUTSIDE_PLAY)]
    calls = [
        (str(path), ast.unparse(node))
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        if isinstance(node.func.value, ast.Name) and node.func.value.id in {"dict", "list", "set", "tuple"}
    ]
    assert "state.py" in {path.name for path in files} and calls == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_slow_imports_are_inside_functions(path):
    lines = [line for line in path.read_text().splitlines() if re.match(r"(from|import) ", line)]
    assert not {re.split(r"[ .]", line)[1] for line in lines} & SLOW_TO_IMPORT


LONGEST_PROGRAM = {"torchrl_ppo.py": 120}
"""Most lines of a program; the default is 80. This one is a complete example."""


@pytest.mark.parametrize("path", sorted((ROOT / "pipelines").glob("*.py")), ids=lambda path: path.name)
def test_programs_are_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST_PROGRAM.get(path.name, 80)


def test_programs_hide_no_standard_module():
    """`python pipelines/train.py` searches its own folder first, so a `profile.py` there would break `cProfile`."""
    assert not {path.stem for path in (ROOT / "pipelines").glob("*.py")} & sys.stdlib_module_names


def test_test_helpers_have_unique_names():
    """Test folders without `__init__.py` share one namespace: of two files `pages.py`, only the first is imported."""
    modules = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "conftest.py" and not (path.parent / "__init__.py").exists()
    ]
    names = Counter(path.name for path in modules)
    assert not [str(path.relative_to(ROOT)) for path in modules if names[path.name] > 1]


def test_each_mutant_fits_the_code():
    """Text that `mutation.py` replaces occurs exactly once in its file."""
    assert not [why for _, mutant in all_mutants() for why in problems(mutant)]
