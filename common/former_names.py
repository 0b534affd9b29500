"""The name that this package had before: what was written under it is still read.

In: names and JSON values with the present name. Out: the same as versions before the change of the name wrote them, and back.
Whatever is written has the present name; but digests are of values with the former one, so that none of them changed.
"""

from __future__ import annotations

import os
from typing import Any

FORMER = "millrace"
PRESENT = __name__.partition(".")[0]


def formerly(text: str) -> str:
    """A text with the former name wherever the present one is, in small letters, capitals, or one capital.

    >>> formerly(f".{PRESENT}-index") == f".{FORMER}-index", formerly(f"{PRESENT.upper()}_X") == f"{FORMER.upper()}_X"
    (True, True)
    """
    for alike in (str.lower, str.upper, str.capitalize):
        text = text.replace(alike(PRESENT), alike(FORMER))
    return text


def now_called(values: Any) -> Any:
    """JSON values in which each text that is the former name is the present one.

    >>> now_called([{"algorithm": FORMER, "seed": 3}]) == [{"algorithm": PRESENT, "seed": 3}]
    True
    """
    if isinstance(values, dict):
        return {name: now_called(value) for name, value in values.items()}
    if isinstance(values, list):
        return list(map(now_called, values))
    return PRESENT if isinstance(values, str) and values == FORMER else values


def variable(name: str) -> str:
    """The environment variable that is set: that of a name of now, or else that of the former name."""
    return name if name in os.environ else formerly(name)


def folder_of(base: str) -> str:
    """The package's folder in the user's cache folder; that of the former name, if only that is there.

    So what is kept there serves versions of both names, and has one budget.
    """
    now, before = (os.path.join(base, name) for name in (PRESENT, FORMER))
    only_before = os.path.isdir(os.path.expanduser(before)) and not os.path.isdir(os.path.expanduser(now))
    return before if only_before else now
