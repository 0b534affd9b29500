"""Damage done to states, which are trees of JSON values."""

from __future__ import annotations

import json

from headrace.loader.state import schema

_COUNTS = (0, 1, 2, 3, 7, 40, 41, 1000, 2**32, 2**62, 2**63 - 1, 2**63)
ODD_VALUES = (
    *_COUNTS,
    -1,
    10**30,
    1.5,
    True,
    None,
    "",
    "x",
    [],
    {},
    [0, 0],
    [[0, 1]],
    [3, 1, [0, 0]],
)


def sealed(state):
    """A changed state, with the checksum of what it is now: so it gets to the checks that come
    after that of the checksum.
    """
    if isinstance(state, dict) and state:
        state = {name: value for name, value in state.items() if name != schema.CHECKSUM}
        return schema.sealed(json.dumps(state, sort_keys=True, separators=(",", ":")).encode())
    return json.dumps(state).encode()


def paths_in(value, path=()):
    """Where something stands in a tree of JSON values, the tree itself included."""
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from paths_in(item, (*path, key))


def with_value(value, path, new):
    """The tree with something else at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy
