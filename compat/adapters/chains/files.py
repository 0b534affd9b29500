"""Streams of files' records, file by file, as Grain reads them.

In: paths. Out: records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....common.messages import shorten
from ....errors import MissingExtraError, SourceError
from .iter_dataset import IterDataset
from .iterators import DatasetIterator
from .streams import InterleaveIterDataset

_CYCLE = 16
_HEAD, _CHECKSUM = struct.Struct("<QI"), 4


class ParquetIterDataset(IterDataset[dict[str, Any]]):
    """The rows of Parquet files, as dicts; several files are interleaved, 16 at a time.

    Args:
        path: of a file, or several in a list.
        **read_kwargs: arguments of `pyarrow.parquet.ParquetFile`.
    """

    def __init__(self, path: str | Sequence[str], **read_kwargs: Any) -> None:
        super().__init__()
        self.paths = [path] if isinstance(path, str) else list(path)
        self.read_kwargs = read_kwargs

    def __iter__(self) -> Any:
        if len(self.paths) == 1:
            return _ParquetIterator(self.paths[0], self.read_kwargs)
        files = [ParquetIterDataset(path, **self.read_kwargs) for path in self.paths]
        return iter(InterleaveIterDataset(files, cycle_length=_CYCLE))


class _ParquetIterator(DatasetIterator[dict[str, Any]]):
    """Reads row group by row group."""

    def __init__(self, path: str, read_kwargs: dict[str, Any]) -> None:
        super().__init__()
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtraError('ParquetIterDataset needs pyarrow; pip install "headrace[parquet]".') from error
        self._file = parquet.ParquetFile(path, **read_kwargs)
        self._group, self._row, self._rows = 0, 0, 0
        self._columns: dict[str, Any] | None = None

    def __next__(self) -> dict[str, Any]:
        while self._columns is None or self._row >= self._rows:
            if self._columns is not None:
                self._group, self._row = self._group + 1, 0
            if self._group >= self._file.num_row_groups:
                raise StopIteration
            table = self._file.read_row_group(self._group)
            self._rows = len(table)
            self._columns = {name: table.column(name).to_numpy() for name in table.column_names}
        self._row += 1
        return {name: column[self._row - 1] for name, column in self._columns.items()}

    def get_state(self) -> dict[str, Any]:
        return {"row_group": self._group, "index_within_row_group": self._row}

    def set_state(self, state: dict[str, Any]) -> None:
        self._group, self._row, self._columns = state["row_group"], state["index_within_row_group"], None


class TFRecordIterDataset(IterDataset[bytes]):
    """The records of a TFRecord file, as bytes. Checksums are not looked at.

    Args:
        path: of the file.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def __iter__(self) -> Any:
        return _TFRecordIterator(Path(self.path))


class _TFRecordIterator(DatasetIterator[bytes]):
    """Its state is the offset of the next record."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._offset = path, 0
        self._file: Any = None

    def __next__(self) -> bytes:
        if self._file is None:
            self._file = self._path.open("rb")
            self._file.seek(self._offset)
        head = self._file.read(_HEAD.size)
        if not head:
            raise StopIteration
        length = _HEAD.unpack(head)[0] if len(head) == _HEAD.size else 0
        record: bytes = self._file.read(length + _CHECKSUM)
        if len(head) < _HEAD.size or len(record) < length + _CHECKSUM:
            raise SourceError(
                f"{shorten(self._path)} is no whole TFRecord file: the record at byte {self._offset} is cut off."
            )
        self._offset += len(head) + len(record)
        return record[:length]

    def get_state(self) -> dict[str, Any]:
        return {"reader_offset": self._offset}

    def set_state(self, state: dict[str, Any]) -> None:
        self.close()
        self._offset = state["reader_offset"]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()
