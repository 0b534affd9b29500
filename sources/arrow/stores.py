"""Files in stores, as far as a Parquet source asks. In: URLs. Out: what pyarrow reads as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...files.opened import OpenFile, open_file
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptions
from ...files.streams import RawFile


class StoreFiles:
    """All stores, with one set of options; stands in for a file system of pyarrow's."""

    def __init__(self, options: StorageOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreFiles) and self.options == other.options

    __hash__ = None  # type: ignore[assignment]

    def open(self, path: str, stamp: Stamp | None) -> StoreFile:
        return StoreFile(open_file(path, self.options, stamp))


class StoreFile(RawFile):
    """A remote file, read at any place."""

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file, owned=True)
        self._loaded: list[tuple[int, bytes]] = []

    @property
    def stamp(self) -> Stamp:
        return self._file.stamp

    def load(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Bring what will be read from these ranges, all at once; it is kept until the file is closed."""
        offsets, lengths = [offset for offset, _ in ranges], [length for _, length in ranges]
        self._loaded = list(zip(offsets, self._file.read_many(offsets, lengths)))

    def prefetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Begin to bring what will be read from these ranges by another one that opens this file."""
        self._file.prefetch([offset for offset, _ in ranges], [length for _, length in ranges])

    def size(self) -> int:
        return self._file.size

    def read_at(self, length: int, offset: int) -> bytes:
        for start, data in self._loaded:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return super().read_at(length, offset)

    def close(self) -> None:
        self._loaded = []
        super().close()


def chunks_of(group: Any, columns: Sequence[str]) -> list[tuple[int, int]]:
    """The places of some columns' chunks in the file, by a row group's metadata."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    return [
        (
            min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset),
            chunk.total_compressed_size,
        )
        for chunk in chunks
        if chunk.path_in_schema.partition(".")[0] in columns
    ]
