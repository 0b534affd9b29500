"""Read what was written when this package had another name.

In: names and JSON values with the present name. Out: the same values as former versions wrote them,
and back. New files have the present name. Digests are computed with the former name, so that the
change of the name changed no digest.
"""

from __future__ import annotations

import os
from typing import Any

FORMER = "millrace"
PRESENT = __name__.partition(".")[0]


def formerly(text: str) -> str:
    """Replace the present name of the package in a text by the former one, and return the text.

    Names in small letters, in capitals, and with one capital are replaced.

    >>> formerly(f".{PRESENT}-index") == f".{FORMER}-index", formerly(f"{PRESENT.upper()}_X") == f"{FORMER.upper()}_X"
    (True, True)
    """
    for alike in (str.lower, str.upper, str.capitalize):
        text = text.replace(alike(PRESENT), alike(FORMER))
    return text


def with_present_names(values: Any) -> Any:
    """Return a JSON value in which each text that equals the former name is replaced by the present name.

    Keys of dicts are not changed.

    >>> with_present_names([{"algorithm": FORMER, "seed": 3}]) == [{"algorithm": PRESENT, "seed": 3}]
    True
    """
    if isinstance(values, dict):
        return {name: with_present_names(value) for name, value in values.items()}
    if isinstance(values, list):
        return list(map(with_present_names, values))
    return PRESENT if isinstance(values, str) and values == FORMER else values


def variable(name: str) -> str:
    """Return the name of the environment variable to read: `name` if it is set, else its former name."""
    return name if name in os.environ else formerly(name)


def folder_of(base: str) -> str:
    """Return the package's folder in the cache folder `base`.

    If only a folder with the former name exists, return that one, so that versions of both names
    share its files and its size limit.
    """
    now, before = (os.path.join(base, name) for name in (PRESENT, FORMER))
    only_before = os.path.isdir(os.path.expanduser(before)) and not os.path.isdir(os.path.expanduser(now))
    return before if only_before else now
