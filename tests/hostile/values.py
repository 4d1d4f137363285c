"""Invalid values for any metadata field, and the paths of fields in a document."""

import copy
import functools
import json

DROPPED = object()
VALUES = {
    "gone": DROPPED,
    "null": None,
    "true": True,
    "nothing": "",
    "a word": "x",
    "escape codes": "\x1b[2J\x07",
    "a long word": "a" * 100_000,
    "zero": 0,
    "below zero": -1,
    "a fraction": 0.5,
    "2^31": 2**31,
    "2^63": 2**63,
    "400 digits": 10**400,
    "tiny": 5e-324,
    "huge": 1e300,
    "hugely negative": -1e300,
    "an empty list": [],
    "an empty object": {},
    "a list in lists": json.loads("[" * 50 + "]" * 50),
    "a long list": [0] * 20_000,
    "an object of strangers": {"__proto__": 1, "<script>": []},
}
"""Values for any field."""


def places(value, alike=(), here=()):
    """Return the path of every field; only the last entry of lists and of objects named in `alike`."""
    yield here
    if isinstance(value, dict):
        for key in list(value)[-1:] if here[-1:] and here[-1] in alike else value:
            yield from places(value[key], alike, (*here, key))
    if isinstance(value, list):
        for i in range(len(value))[-1:]:
            yield from places(value[i], alike, (*here, i))


def at(document, path):
    """Return the value at a path."""
    return functools.reduce(lambda found, key: found[key], path, document)


def put(document, path, value):
    """Return the document with another value at a path, or without the path."""
    changed = copy.deepcopy(document)
    if value is DROPPED:
        del at(changed, path[:-1])[path[-1]]
    else:
        at(changed, path[:-1])[path[-1]] = value
    return changed
