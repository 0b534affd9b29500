"""Rows of text, with columns that stand below one another. In: rows. Out: lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def columns(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    r"""A line of names and one for each row; without columns in which nothing stands.

    >>> print("\n".join(columns([{"row": "0", "note": "", "key": "17"}, {"row": "1", "note": "", "key": "3"}])))
    row  key
    0    17
    1    3
    """
    names = [name for name in (rows[0] if rows else {}) if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    for row in ({name: name for name in names}, *rows):
        yield "  ".join(row[name].ljust(widths[name]) for name in names).rstrip()
