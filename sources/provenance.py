"""Values that name records of sources, and their places in files.

`headrace.trace` and similar functions use them. They are not used while elements are made.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class FilePlace(NamedTuple):
    """Place of a record in a file, as the function `file_place` of a source's facts returns it.

    Attributes:
        file: path or URL of the file.
        record: index of the record in the file, from 0.
        note: further text about the place, such as its row group.
        tokens: `(start, stop)` in tokens from the beginning of the file, if the record is a piece
            of a file of tokens; otherwise None.
    """

    file: str
    record: int
    note: str = ""
    tokens: tuple[int, int] | None = None


class FileRun(NamedTuple):
    """Consecutive records of one file, which also have consecutive keys in the source.

    Attributes:
        file: path or URL of the file.
        record: index of the first record in the file.
        key: key of the first record in the source.
        records: number of records.
    """

    file: str
    record: int
    key: int
    records: int


class TokenSpan(NamedTuple):
    """Tokens `[start, stop)` of a document in a packed row, or frames of an episode in `Windows`.

    Attributes:
        start: index of the first token (or frame) in the document (or episode).
        stop: index of the one after the last one.
        length: number of tokens of the document, or of frames of the episode.
    """

    start: int
    stop: int
    length: int


class UsedRecord(NamedTuple):
    """Record of a source, or piece of one, that is contained in an element.

    Attributes:
        source: source that has the record.
        key: key of the record in that source.
        datasets: names of the mixed datasets that contain the record, the outermost first.
        row: row of the batch that contains the record; None if the element is not a batch.
        segment: number of the record within its packed row, from 1; None if it is not packed.
        tokens: for each packed leaf, the piece of the document that is used; for a window of an
            episode, its frames; empty if the record is used as a whole.
    """

    source: Any
    key: int
    datasets: tuple[str, ...] = ()
    row: int | None = None
    segment: int | None = None
    tokens: tuple[TokenSpan, ...] = ()

    def named(self, name: str) -> UsedRecord:
        """Return a copy with `name` put in front of `datasets`; for "", the record itself."""
        return self._replace(datasets=(name, *self.datasets)) if name else self
