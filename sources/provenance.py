"""Find the records of sources that an element was made of, and their places in files.

Used for `headrace.trace` and similar questions, never while elements are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class FilePlace(NamedTuple):
    """Place of a record in a file, as `source.file_place(key)` returns it.

    Attributes:
        file: path or URL.
        record: number of the record in the file, from 0.
        note: more about the place, such as its row group.
        tokens: `(start, stop)` in the file, if the record is a piece of a file of tokens.
    """

    file: str
    record: int
    note: str = ""
    tokens: tuple[int, int] | None = None


class FileRun(NamedTuple):
    """Consecutive records with consecutive numbers in their file.

    Attributes:
        file: path or URL.
        record: number of the first record in the file.
        key: key of the first record.
        records: number of records.
    """

    file: str
    record: int
    key: int
    records: int


class TokenSpan(NamedTuple):
    """Tokens `[start, stop)` of a document of `length` tokens, as it was packed."""

    start: int
    stop: int
    length: int


class UsedRecord(NamedTuple):
    """Record, or piece of a record, that an element was made of.

    Attributes:
        source: the source of the record.
        key: key of the record in that source.
        datasets: names of the datasets that contain it, the outermost first.
        row: row of the batch that it is in; None if the element is not a batch.
        segment: segment of the packed row that it is in, from 1; None if it is not packed.
        tokens: tokens of the document, for each packed leaf; empty for the whole document.
    """

    source: Any
    key: int
    datasets: tuple[str, ...] = ()
    row: int | None = None
    segment: int | None = None
    tokens: tuple[TokenSpan, ...] = ()

    def named(self, name: str) -> UsedRecord:
        """Return the same record as part of a dataset called `name`; "" for a dataset without a name."""
        return self._replace(datasets=(name, *self.datasets)) if name else self

    def placed(self, **place: Any) -> UsedRecord:
        """Return the same record in another place: a row, or a segment with its tokens."""
        return self._replace(**place)


def used_records(source: Any, key: int) -> Sequence[UsedRecord]:
    """Return the records behind a key. A source that is made of others has `made_of(key)`.

    >>> used_records(range(10), 3)[0].key
    3
    """
    made_of = getattr(source, "made_of", None)
    found: Sequence[UsedRecord] = [UsedRecord(source, key)] if made_of is None else made_of(key)
    return found
