"""Modules that register something when they are imported, by what they register.

The package `echelon` fills the table. A room imports a provider when it meets a name that nobody has registered, and so
depends on no room above it.
"""

from importlib import import_module

PROVIDERS: dict[str, str] = {}
"""Module by what it registers, such as `trained` for the commanders `trained:NAME`."""


def load_provider(what: str) -> None:
    """Import the module that registers `what`, if there is one."""
    if what in PROVIDERS:
        import_module(PROVIDERS[what])
