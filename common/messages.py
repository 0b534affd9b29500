"""Format values for error messages: on one line, and short enough for messages of 500 characters.

The time does not grow with the size of the value where Python allows it. Credentials in URLs are
hidden (`redaction.py`).
"""

from __future__ import annotations

import errno
import reprlib
from collections.abc import Collection
from itertools import islice
from typing import Any

from .redaction import HIDDEN, is_secret_name, redacted

_REMEDIES = {
    errno.EMFILE: "Close other files, or raise the limit on open files (ulimit -n)",
    errno.ENFILE: "Close other files, or raise the system's limit on open files",
    errno.ENOSPC: "Free some space on this disk",
    errno.EDQUOT: "Free some space, or raise the quota of this disk",
    errno.EIO: "Check the disk or the network file system",
    errno.ESTALE: "Check the network file system",
    errno.ENOMEM: (
        "Free some memory of this machine, or raise its limits (ulimit -v, vm.max_map_count)"
    ),
}
"""Remedies for errors of the operating system that are not errors of a path, by number."""

# Characters of a value, and of a text from elsewhere: a path, or what another error says
VALUE, TEXT = (80, 200)


def short_repr(value: Any, limit: int = VALUE) -> str:
    """Return `repr(value)` on one line, cut to `limit` characters, without credentials.

    Containers are cut before they are formatted. If `repr` fails, the text is the name of the
    class.

    >>> short_repr(list(range(10**6))), short_repr("x" * 10**6, 9)
    ('[0, 1, 2, 3, 4, 5, ...]', "'xxx…xxx'")
    """
    brief_repr = _Repr()
    brief_repr.maxstring = brief_repr.maxother = brief_repr.maxlong = 4 * limit
    brief_repr.maxdict = brief_repr.maxset = brief_repr.maxlist
    try:
        text = brief_repr.repr(value)
    except Exception:  # a repr of the user's, or an int with more digits than Python writes
        text = f"<{type(value).__qualname__}>"
    return shorten(text, limit)


class _Repr(reprlib.Repr):
    """A `repr` that hides credentials, and then cuts the text."""

    # A URL that is cut in half no longer shows that it has credentials.

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(redacted(text), level)

    def repr_dict(self, given: dict[Any, Any], level: int) -> str:
        return super().repr_dict(
            {name: _hidden(name, value) for name, value in given.items()}, level
        )

    def repr_instance(self, value: Any, level: int) -> str:
        try:
            text = redacted(repr(value))
        except Exception:  # a repr of the user's
            return f"<{type(value).__qualname__}>"
        half = self.maxother // 2
        return (
            text if len(text) <= self.maxother else f"{text[:half]}{self.fillvalue}{text[-half:]}"
        )


def _hidden(name: Any, value: Any) -> Any:
    return (
        HIDDEN
        if isinstance(name, str) and isinstance(value, str) and is_secret_name(name)
        else value
    )


def shorten(text: Any, limit: int = TEXT) -> str:
    """Return a text on one line of at most `limit` characters, without credentials.

    The middle of a longer text is left out. If `text` is an exception, the period at its end is
    left out, so that the result can be a part of a sentence.

    >>> shorten("a path or an error", 11)
    'a pat…error'
    """
    line = " ".join(redacted(str(text)).split())
    if isinstance(text, BaseException):
        line = line.removesuffix(".")
    if len(line) <= limit:
        return line
    tail = (limit - 1) // 2
    return f"{line[: limit - 1 - tail]}…{line[len(line) - tail :]}"


def shorten_lines(text: Any, limit: int = TEXT) -> str:
    r"""Shorten each line of a text to `limit` characters as `shorten` does, and keep line breaks.

    >>> shorten_lines("first line\nweight of 'a': 1 → 2")
    "first line\nweight of 'a': 1 → 2"
    """
    return "\n".join(shorten(line, limit) for line in str(text).splitlines())


def a_kind_of(value: Any) -> str:
    """Return the name of a value's class with an article: "a list", "an int".

    >>> a_kind_of(3), a_kind_of([]), a_kind_of(range(3))
    ('an int', 'a list', 'a range')
    """
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeioAEIO' else 'a'} {kind}"


def remedy_for(error: OSError, otherwise: str) -> str:
    """Return what a user can do about an operating system's error, as a clause without a period.

    Args:
        error: the error.
        otherwise: the remedy for errors that are not in `_REMEDIES`.

    >>> remedy_for(OSError(errno.EMFILE, "Too many open files"), "Check the path")
    'Close other files, or raise the limit on open files (ulimit -n)'
    >>> remedy_for(PermissionError(errno.EACCES, "Permission denied"), "Check the path")
    'Check the path'
    """
    return _REMEDIES.get(error.errno or 0, otherwise)


def first_few(values: Collection[Any], count: int = 3) -> str:
    """Return the first `count` values as text, each shortened, then the number of the others.

    >>> first_few(range(7))
    '0, 1, 2 and 4 more'
    """
    few = ", ".join(shorten(value, VALUE) for value in islice(values, count))
    return few if len(values) <= count else f"{few} and {len(values) - count} more"
