"""Memory that a process has freed, kept for the tensors of the next operations."""

from __future__ import annotations

import ctypes
import functools
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`, as `malloc.h` numbers them."""
KEPT_BYTES, LARGEST_BYTES = 256 << 20, 32 << 20
"""Freed memory that is kept, and the largest tensor that is made of it: glibc allows no larger one."""


@functools.cache
def keep_freed_memory() -> bool:
    """Let the C library keep freed memory in this process, and return whether it does so.

    By default glibc returns large tensors to the system as soon as they are freed. The next operation gets fresh
    memory, which costs a page fault every 4 KiB: a third of the time of a match of networks, whose activations are
    of 11 MB each. Other C libraries, and settings in the environment (`MALLOC_...`), are left alone.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all([mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES), mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)])
