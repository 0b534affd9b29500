"""Records of files, each read from its beginning to its end, or, where it has random access, from any record on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from ...errors import SourceError
from ...files.stamps import Stamp, check_unchanged, stamp_of
from ...files.streams import compression_of, open_stream
from ...wording import brief
from ..job import Chunk, OnDamage, Part
from .formats import Format, Records
from .from_source import CHUNK_BYTES, CHUNK_RECORDS, read_source


class FileInput:
    """Files of one format; `Input` says what it does."""

    unit = "B"

    def __init__(self, paths: Sequence[str], form: Format) -> None:
        self.form = form
        self._stamps = {path: _stamp(path) for path in paths}

    def names(self) -> Sequence[str]:
        """The paths."""
        return tuple(self._stamps)

    def identity(self) -> dict[str, Any]:
        """Format, and names, sizes and times of change of the files."""
        files = [{"path": path, **stamp._asdict()} for path, stamp in self._stamps.items()]
        return {"format": self.form.name, "files": files, "types": self.types}

    @cached_property
    def types(self) -> dict[str, str] | None:
        """Of the columns of CSV files; those of the first file hold for all."""
        if self.form.name != "csv":
            return None
        from .comma_separated import guessed_types

        first = self.names()[0]
        with open_stream(first, "auto") as stream:
            return guessed_types(stream, first)

    def schema(self) -> Any:
        """Of the first Parquet file."""
        if self.form.name != "parquet":
            return None
        import pyarrow.parquet as pq

        return pq.read_schema(self.names()[0]).remove_metadata()

    def count(self, name: str, on_damage: OnDamage) -> int:
        """Reads a stream to its end."""
        if self.form.source is not None:
            return len(self.form.source(name))
        return sum(len(chunk.records) for chunk in self._from_stream(Part(name), on_damage))

    def read(self, part: Part, on_damage: OnDamage) -> Iterator[Chunk]:
        """The records of a part; the file is the one that the conversion began with, from the first to the last."""
        check_unchanged(part.name, self._stamps[part.name], _stamp(part.name))
        if self.form.source is not None:
            yield from self._from_source(self.form.source(part.name), part, on_damage)
        else:
            yield from self._from_stream(part, on_damage)
        check_unchanged(part.name, self._stamps[part.name], _stamp(part.name))

    def weight(self, part: Part) -> float:
        """The bytes of the file, or a share of them."""
        return self._stamps[part.name].size * part.share

    def place(self, part: Part, place: int) -> str:
        """By what the format counts."""
        return f"{brief(part.name)}, {self.form.place} {place}"

    def _from_source(self, source: Any, part: Part, on_damage: OnDamage) -> Iterator[Chunk]:
        each = self._stamps[part.name].size / max(len(source), 1)
        some = min(CHUNK_RECORDS, max(1, int(CHUNK_BYTES / max(each, 1))))
        return read_source(source, part, some, each, on_damage)

    def _from_stream(self, part: Part, on_damage: OnDamage) -> Iterator[Chunk]:
        """Some records at a time: no more than a number of them, or of bytes."""
        in_bytes = self.form.place == "byte"
        tells = in_bytes and compression_of(part.name) is None
        found: list[Any] = []
        places: list[int] = []
        first: int | None = None
        try:
            for place, record in islice(self._records(part.name, on_damage), part.start, part.stop):
                found.append(record)
                places.append(place)
                if len(found) == CHUNK_RECORDS or (in_bytes and place - places[0] > CHUNK_BYTES):
                    first = places[0] if first is None else first
                    yield Chunk(found, places, float(place - first) if tells else 0.0)
                    found, places = [], []
        except SourceError as error:  # what follows is lost: a file that is cut off, a length that is damaged
            if on_damage is None or not (found or first is not None):
                raise
            on_damage(error)
        yield Chunk(found, places, self.weight(part))

    def _records(self, name: str, on_damage: OnDamage) -> Records:
        if self.form.stream is None:
            raise TypeError(self.form.name)
        return self.form.stream(name, self.types, on_damage)


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(path)
    except OSError as error:
        raise SourceError(f"{brief(path)} cannot be read: {brief(error)}") from error
