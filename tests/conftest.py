"""Settings of all tests."""

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
"""Order of files and folders; others run after them. Two files of `sim` need the loops."""
# A shell ignores interrupts for background jobs; programs that tests start would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Set up the process. Tests with fake CUDA run alone, with `-m fakecuda`: inference mode hides copies between
    host and device, so it is replaced before the package is imported. A quick file may contain long tests."""
    config.option.loadscopereorder = False
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # Workers run the tests. The main process needs no torch, whose import takes seconds.
    # Tests compare the loops with the dense form, so battles must not start in the dense form during compilation.
    os.environ["ECHELON_COMPILE"] = "wait"
    import torch

    # Tests run many small operations. On shared cores, more threads cost more than they save.
    torch.set_num_threads(1)
    if config.option.markexpr == "fakecuda":
        torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()
    else:
        from echelon.runtime.device import has_driver

        # With torch's CUDA build, each program would report that it uses the CPU.
        if not has_driver():
            os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if config.option.markexpr == QUICK:
        config.option.markexpr = f"{QUICK} and not long and not usual"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests, and keep the first variant of each quick test, or all variants if the test itself is marked.

    One worker compiles the loops (about a minute) while the other runs tests without them. Then the longest folders
    run, so that workers finish together."""
    order = {path: place for place, path in enumerate(FIRST)}

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(HERE) if item.path.is_relative_to(HERE) else item.path
        return order.get(path.as_posix(), order.get(path.parts[0], len(order)))

    if config.option.markexpr.startswith(QUICK):
        items[:] = first_variants(items)
    items.sort(key=place)


def first_variants(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first variant of each test that is not long, or all variants if the test itself is marked quick."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        is_marked = any(mark.name == QUICK for mark in item.own_markers)
        if item.get_closest_marker("long") is None:
            first.setdefault(item.nodeid if is_marked else item.nodeid.split("[")[0], item)
    return list(first.values())


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shard`: `--shard 2/4` runs the second quarter of the files."""
    parser.addoption("--shard", metavar="K/N", default="1/1", help="run only part K of N of the test files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of files of other shards, and with `-m quick` of files without quick tests."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    part, parts = (int(number) for number in config.getoption("shard").split("/"))
    is_of_another = zlib.crc32(collection_path.name.encode()) % parts != part - 1
    is_left_out = config.option.markexpr.startswith(QUICK) and "mark.quick" not in collection_path.read_text()
    return True if is_of_another or is_left_out else None


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Reset the number of threads. Thread pools restore the number that they found, which a test may have patched."""
    yield
    import torch

    torch.set_num_threads(1)
