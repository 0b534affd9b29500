"""Settings that are one value for all leaves, or a dict with a value for each.

In: a setting, the path of a leaf. Out: the value for that leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ...common.messages import shorten

Path: TypeAlias = tuple[Any, ...]
"""The keys that lead to a leaf."""


def value_at(setting: Any, path: Path, otherwise: Any = None) -> Any:
    """The value of a setting for a leaf; `otherwise` if it has none.

    >>> value_at({"a": {"x": 1}, "b": 2}, ("a", "x")), value_at({"a": 1}, ("b",)), value_at(3, ("b",))
    (1, None, 3)
    """
    for key in path:
        if not isinstance(setting, Mapping):
            break
        if key not in setting:
            return otherwise
        setting = setting[key]
    return setting


def mapped(setting: Any, function: Callable[[Any], Any]) -> Any:
    """A setting with another value in the place of each."""
    if isinstance(setting, Mapping):
        return {key: mapped(value, function) for key, value in setting.items()}
    return function(setting)


def paths(setting: Any, path: Path = ()) -> Iterator[Path]:
    """The leaves for which a setting has values.

    >>> list(paths({"a": {"x": 1}, "b": 2}))
    [('a', 'x'), ('b',)]
    """
    if isinstance(setting, Mapping):
        for key, value in setting.items():
            yield from paths(value, (*path, key))
    else:
        yield path


def name(path: Path) -> str:
    """A leaf in messages.

    >>> name(("a", "x"))
    "['a']['x']"
    """
    return shorten("".join(f"[{key!r}]" for key in path), 80)
