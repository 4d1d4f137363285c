"""The C library keeps freed memory after `keep_freed_memory`."""

import subprocess
import sys

import pytest

FREED = """
import ctypes, resource, sys
from echelon.runtime.allocator import keep_freed_memory
kept = keep_freed_memory() if "keep" in sys.argv else False
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def use():
    places = [library.malloc(ctypes.c_size_t(12 << 20)) for _ in range(8)]
    for place in places: ctypes.memset(place, 1, 12 << 20)
    for place in places: library.free(place)
use(); use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20): use()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is glibc's")
def test_freed_memory_is_reused_without_page_faults():
    pytest.importorskip("resource")

    def played(*arguments: str, **variables: str) -> tuple[int, int]:
        command = [sys.executable, "-c", FREED, *arguments]
        done = subprocess.run(command, env={"PATH": "", **variables}, capture_output=True, text=True, check=True)
        kept, faults = map(int, done.stdout.split())
        return kept, faults

    kept, faults = played("keep")
    if not kept:
        pytest.skip("another C library")
    assert faults < 100
    assert played()[1] > 1000, "by default tensors are fresh memory"
    assert played("keep", MALLOC_ARENA_MAX="1")[0] == 0, "settings of the user stay"
