"""Which Echelon this is, named by every file that it writes, and which versions of packages it runs with."""

import importlib.metadata

VERSION = "1.0.0"


def version_of(package: str) -> str:
    """The version of an installed package, empty without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
