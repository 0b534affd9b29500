"""Read the records of a source with random access, by ranges of record keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import StopIterationError
from ...sources import HuggingFaceDataSource, as_source, fingerprint_of, reader_of
from ...sources.facts import facts_of
from ..job import Chunk, InputPart, OnDamage, RecordInput
from ..outputs.arrow_values import pyarrow
from ..outputs.parquet import LOOKED_AT, VALUE, schema_of

CHUNK_RECORDS = 256
CHUNK_BYTES = 1 << 22
"""Maximum number of records, and of bytes, in a chunk. A worker holds one chunk in memory."""


class SourceInput(RecordInput):
    """Input from any source."""

    unit, format, encode = "records", "", "example"

    def __init__(self, source: Any) -> None:
        self._source = as_source(source)

    def names(self) -> Sequence[str]:
        return (type(self._source).__name__,)

    def identity(self) -> dict[str, Any]:
        """Return the fingerprint of the source, and the names of its classes if it has any."""
        classes = facts_of(self._source).classes
        return {
            "source": fingerprint_of(self._source),
            **({} if classes is None else {"classes": list(classes)}),
        }

    def data_source(self) -> Any:
        return self._source

    def schema(self) -> Any:
        """Return the Arrow schema of the source; None if it is unknown without reading records.

        For a Hugging Face dataset, types that files cannot hold are inferred from the first values.
        """
        source = self._source
        if not isinstance(source, HuggingFaceDataSource):
            return schema_of_columns(facts_of(source).columns())
        known, names = source.arrow_schema, source.dataset.format["columns"]
        if known is None or len(known) == len(names):
            return known
        unknown = source.dataset.select_columns([name for name in names if name not in known.names])
        rest = HuggingFaceDataSource(unknown)
        found = schema_of(rest.__getitems__(np.arange(min(len(rest), LOOKED_AT))))
        return pyarrow().schema(
            [(known if name in known.names else found).field(name) for name in names]
        )

    def count(self, name: str, on_damage: OnDamage) -> int:
        return len(self._source)

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        return read_source(self._source, part, CHUNK_RECORDS, 1.0, on_damage)

    def weight(self, part: InputPart) -> float:
        return (len(self._source) if part.stop is None else part.stop) - part.start

    def place(self, part: InputPart, place: int) -> str:
        return f"{part.name}: record {place}"


def read_source(
    source: Any, part: InputPart, chunk: int, weight: float, on_damage: OnDamage
) -> Iterator[Chunk]:
    """Yield the records `[part.start, part.stop)` of a source in chunks.

    Args:
        source: a source with random access.
        part: range of keys.
        chunk: number of records in a chunk.
        weight: size of one record, in units of progress.
        on_damage: function that is called with the error for each record that is skipped. None: the
            error is raised.
    """
    read = reader_of(source)
    stop = len(source) if part.stop is None else part.stop
    for first in range(part.start, stop, chunk):
        keys = np.arange(first, min(first + chunk, stop), dtype=np.int64)
        done = float(keys[-1] + 1 - part.start) * weight
        records: list[tuple[int, Any]] = []
        try:
            records = list(zip(keys.tolist(), read(keys)))
        except Exception:  # one by one, without those that cannot be read
            for key in keys.tolist():
                try:
                    records.append((key, read(np.array([key], np.int64))[0]))
                except Exception as error:
                    if on_damage is not None:
                        on_damage(error)
                    elif isinstance(error, StopIteration):  # it would end whoever reads the records
                        raise StopIterationError(
                            f"{part.name}: record {key}: the source raised StopIteration. In its "
                            "__getitem__ or __getitems__, pass a default value to next(), or use a "
                            "loop."
                        ) from error
                    else:
                        raise
        yield Chunk(records, done)


def schema_of_columns(columns: Any) -> Any:
    """Return the Arrow schema of columns whose first axis counts records.

    Further axes become lists of fixed size.

    Args:
        columns: an array, which becomes the column `value`, or a dict of arrays.

    Returns:
        An Arrow schema; None for anything else, and if Arrow does not know a dtype.

    >>> print(schema_of_columns(np.zeros((5, 2, 3), np.float32)))
    value: fixed_size_list<item: fixed_size_list<item: float>[3]>[2]
      child 0, item: fixed_size_list<item: float>[3]
          child 0, item: float
    """
    named = columns if isinstance(columns, Mapping) else {VALUE: columns}
    if not all(
        isinstance(name, str) and isinstance(array, np.ndarray) for name, array in named.items()
    ):
        return None
    try:
        fields = []
        for name, array in named.items():
            kind = pyarrow().from_numpy_dtype(array.dtype)
            for size in reversed(array.shape[1:]):
                # of no fixed size: Arrow does not read back lists of size 0
                kind = pyarrow().list_(kind, size or -1)
            fields.append((name, kind))
        return pyarrow().schema(fields)
    except pyarrow().ArrowException:
        return None
