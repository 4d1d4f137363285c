"""Settings of every test."""

import contextlib
import gc
import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

QUICK = "quick"
HERE = Path(__file__).parent
FIRST = (
    *("env/test_loops.py", "sim", "reference", "sim/test_random_battles.py", "sim/test_step.py"),
    *("learn", "arena", "pipelines", "scenarios", "viewer", "env", "league"),
)
"""Files and folders in the order in which their tests run; others come behind. Of `sim` two files need the loops."""
# A shell ignores interrupts for what it starts in the background, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Tests on fake CUDA run alone, with `-m fakecuda`: inference mode hides copies between host and device, so that
    it is taken away before anything of the package is imported. A quick file may hold long tests."""
    config.option.loadscopereorder = False
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # Workers run the tests; who hands them out needs no torch, which takes seconds.
    # Tests compare the loops with the dense form: no battle may run in the dense form while loops are compiled.
    os.environ["ECHELON_COMPILE"] = "wait"
    import torch

    # A test makes many small operations: on shared cores, threads that wait for each other cost more than they save.
    torch.set_num_threads(1)
    if config.option.markexpr == "fakecuda":
        torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()
    else:
        from echelon.runtime.device import has_driver

        # torch's build for CUDA would have every program say that it takes the CPU.
        if not has_driver():
            os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if config.option.markexpr == QUICK:
        config.option.markexpr = f"{QUICK} and not long and not usual"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test with many variants the first is quick; all of them are where the test itself is marked, not its file.

    One worker compiles the loops, for about a minute where no earlier run has, while the other is busy without them;
    then come the folders whose files take longest, so that workers end together."""
    order = {path: place for place, path in enumerate(FIRST)}

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(HERE) if item.path.is_relative_to(HERE) else item.path
        return order.get(path.as_posix(), order.get(path.parts[0], len(order)))

    if config.option.markexpr.startswith(QUICK):
        items[:] = first_variants(items)
    items.sort(key=place)


def first_variants(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first of each test's variants that is not long; all of them where the test itself is marked as quick."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        is_marked = any(mark.name == QUICK for mark in item.own_markers)
        if item.get_closest_marker("long") is None:
            first.setdefault(item.nodeid if is_marked else item.nodeid.split("[")[0], item)
    return list(first.values())


def pytest_collection_finish() -> None:
    """What was imported lives to the end: garbage is not looked for in it, nor after every few tensors."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shard 2/4` runs the second quarter of the files, for as many machines."""
    parser.addoption("--shard", metavar="K/N", default="1/1", help="run only part K of N of the test files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that another shard runs, and for `-m quick` those without such tests, are not even imported."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    part, parts = (int(number) for number in config.getoption("shard").split("/"))
    is_of_another = zlib.crc32(collection_path.name.encode()) % parts != part - 1
    is_left_out = config.option.markexpr.startswith(QUICK) and "mark.quick" not in collection_path.read_text()
    return True if is_of_another or is_left_out else None


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Pools of threads that a test starts set the number that they found, which it may have patched."""
    yield
    import torch

    torch.set_num_threads(1)
