"""Shell patterns on paths of stores. In: the parts of a pattern and of a path. Out: whether they match."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence


def matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a pattern; `**` stands for any number of parts.

    >>> matches(["**", "*.rec"], ["a", "b", "c.rec"])
    True
    """
    if not pattern or not parts:
        return not parts and set(pattern) <= {"**"}
    if pattern[0] == "**":
        return matches(pattern[1:], parts) or matches(pattern, parts[1:])
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and matches(pattern[1:], parts[1:])
