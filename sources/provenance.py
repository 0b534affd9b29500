"""The records of sources that an element was made of, one by one.

In: a source and a record key. Out: the records, or pieces of them, that stand behind the key; where each lies in its file.

Only asked when somebody wants to know (`headrace.trace`), never while elements are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class FilePlace(NamedTuple):
    """The place of a record in a file, as `source.file_place(key)` gives it.

    Attributes:
        file: path or URL.
        record: its number in the file, from 0.
        note: what else tells it, such as its row group.
        tokens: `(start, stop)` in the file, where the record is a piece of a file of tokens.
    """

    file: str
    record: int
    note: str = ""
    tokens: tuple[int, int] | None = None


class FileRun(NamedTuple):
    """Records whose keys follow one another, as do their numbers in their file.

    Attributes:
        file: path or URL.
        record: the number of the first one in the file.
        key: of the first one.
        records: how many they are.
    """

    file: str
    record: int
    key: int
    records: int


class TokenSpan(NamedTuple):
    """Tokens `[start, stop)` of a document that has `length` of them, as it was packed."""

    start: int
    stop: int
    length: int


class UsedRecord(NamedTuple):
    """A record, or a piece of one, that an element was made of.

    Attributes:
        source: that has it.
        key: of the record, in that source.
        datasets: names of the datasets that it is of, the outermost first.
        row: of the batch that it is in; None: the element is no batch.
        segment: of the packed row that it is in, from 1; None: it is in none.
        tokens: of the document, for each leaf that is packed; none: all of it.
    """

    source: Any
    key: int
    datasets: tuple[str, ...] = ()
    row: int | None = None
    segment: int | None = None
    tokens: tuple[TokenSpan, ...] = ()

    def named(self, name: str) -> UsedRecord:
        """The same, of a dataset of that name; "" for one without a name."""
        return self._replace(datasets=(name, *self.datasets)) if name else self

    def placed(self, **place: Any) -> UsedRecord:
        """The same, in another place: a row, or a segment with its tokens."""
        return self._replace(**place)


def used_records(source: Any, key: int) -> Sequence[UsedRecord]:
    """The records behind a key: of a source that is made of others, what its `made_of(key)` says.

    >>> used_records(range(10), 3)[0].key
    3
    """
    made_of = getattr(source, "made_of", None)
    found: Sequence[UsedRecord] = [UsedRecord(source, key)] if made_of is None else made_of(key)
    return found
