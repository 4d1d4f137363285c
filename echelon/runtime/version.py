"""The version of Echelon, which every file that it writes contains, and versions of installed packages."""

import importlib.metadata

VERSION = "1.0.0"


def version_of(package: str) -> str:
    """Return the version of an installed package, an empty string if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
