"""Modules that register names when they are imported.

The package `echelon` fills the table. A subpackage imports a provider when it finds an unregistered name. Therefore the
subpackage does not import the subpackages above it.
"""

from importlib import import_module

PROVIDERS: dict[str, str] = {}
"""Modules keyed by what they register, such as `trained` for the commanders `trained:NAME`."""


def load_provider(what: str) -> None:
    """Import the module that registers names of the kind `what`, if there is one."""
    if what in PROVIDERS:
        import_module(PROVIDERS[what])
