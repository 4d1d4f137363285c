"""The file formats of datasets."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from echelon.datasets.dataset import open_dataset


@contextmanager
def written_as(format: Literal["echelon", "minari"], out: Path) -> Iterator[Path]:
    """Context manager that yields the file to write battles to.

    For Minari this is a hidden file, which is converted to a Minari dataset at the end.
    """
    if format == "echelon":
        yield out
        return
    from echelon.datasets import minari  # an extra

    minari.name_of(out)
    path = out.expanduser().parent / f".{out.name}.{os.getpid()}.safetensors"
    try:
        yield path
        minari.write_minari(open_dataset(path), out)
    finally:
        path.unlink(missing_ok=True)
