"""Read the records of files: from the beginning, or from any record with random access."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

from ...common.messages import remedy_for, shorten
from ...errors import CutOffError, ExpansionError, NoRecordsError, SourceError
from ...files.opened import stamp_of
from ...files.stamps import Stamp, check_unchanged
from ...files.storage_options import StorageOptions
from ...files.streams import compression_of, open_stream
from ...files.urls import is_remote
from ...sources.parts import of_each
from ..job import Chunk, InputPart, OnDamage, RecordInput
from ..labels import label_of
from .formats import Format, Opening, Records
from .from_source import CHUNK_BYTES, CHUNK_RECORDS, read_source


class FileInput(RecordInput):
    """Input from files of one format.

    Args:
        paths: paths or URLs of the files.
        form: their format.
        opening: arguments for opening files.

    Raises:
        SourceError: a file cannot be read.
    """

    unit = "B"

    def __init__(self, paths: Sequence[str], form: Format, opening: Opening) -> None:
        self.form, self.format, self.encode, self._given = form, form.name, form.encode, opening
        self._stamps = dict(zip(paths, of_each(partial(_stamp, storage=opening.storage), paths)))

    def names(self) -> Sequence[str]:
        return tuple(self._stamps)

    def identity(self) -> dict[str, Any]:
        files = [
            {
                "path": label_of(path if is_remote(path) else os.path.abspath(path)),
                "size": stamp.size,
                "modified": stamp.modified,
            }
            for path, stamp in self._stamps.items()
        ]
        return {"format": self.format, "files": files, "types": self._opening.types}

    @cached_property
    def _opening(self) -> Opening:
        """Arguments for opening files.

        The types of CSV columns come from the first file that has rows.
        """
        if self.format != "csv":
            return self._given
        from .comma_separated import guessed_types

        types: dict[str, str] = {}
        for name in self.names():
            with open_stream(
                name, "auto", self._given.storage, self._given.max_expansion
            ) as stream:
                types, rows = guessed_types(stream, name)
            if rows:
                break
        return replace(self._given, types=types)

    def data_source(self) -> Any:
        if self.form.all_files is None or any(
            compression_of(name) is not None for name in self.names()
        ):
            return None
        return self.form.all_files(list(self.names()), self._opening)

    def schema(self) -> Any:
        return (
            None if self.form.schema is None else self.form.schema(self.names()[0], self._opening)
        )

    def count(self, name: str, on_damage: OnDamage) -> int:
        source = self._at_random(name, on_damage)
        if source is not None:
            return len(source)
        return sum(len(chunk.records) for chunk in self._from_stream(InputPart(name), on_damage))

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        """Yield the records of a part in chunks.

        Raises:
            SourceError: the file was modified, or a record cannot be read and `on_damage` is None.
        """
        before = self._stamps[part.name]
        self._check_unchanged(part.name)
        as_stream = self.form.stream is not None and part.is_whole
        source = None if as_stream else self._at_random(part.name, on_damage)
        if source is not None:
            each = before.size / max(len(source), 1)
            some = min(CHUNK_RECORDS, max(1, int(CHUNK_BYTES / max(each, 1))))
            yield from read_source(source, part, some, each, on_damage)
        else:
            yield from self._from_stream(part, on_damage)
        self._check_unchanged(part.name)

    def _check_unchanged(self, name: str) -> None:
        now = _stamp(name, self._given.storage)
        remedy = "Restore the file; or remove the output folder, and convert again"
        check_unchanged(name, self._stamps[name], now, "the conversion began", remedy)

    def weight(self, part: InputPart) -> float:
        return self._stamps[part.name].size * part.share

    def place(self, part: InputPart, place: int) -> str:
        return f"{shorten(part.name)}, {self.form.place if part.is_whole else 'record'} {place}"

    def _at_random(self, name: str, on_damage: OnDamage) -> Any:
        """Return a source of one file.

        Return None if it must be read from its start, because of its format, compression or damage.

        For a file without records, return an empty tuple.
        """
        if self.form.source is None or compression_of(name) is not None:
            return None
        try:
            return self.form.source(name, self._opening)
        except NoRecordsError:
            return ()
        except SourceError:
            if on_damage is None or self.form.stream is None:
                raise
            return None

    def _from_stream(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        """Yield the records of a part in chunks, from a file that is read as a stream.

        A chunk is limited in records, and in bytes if the places of records are offsets in the
        file.
        """
        tells = self.form.place == "byte" and compression_of(part.name) is None
        records = self._records_of(part, on_damage)
        first: int | None = None
        while found := self._next_some(records, first is None, on_damage):
            first, last = found[0][0] if first is None else first, found[-1][0]
            yield Chunk(found, float(last - first) if tells else 0.0)
        yield Chunk([], self.weight(part))

    def _next_some(
        self, records: Records, are_first: bool, on_damage: OnDamage
    ) -> list[tuple[int, Any]]:
        found: list[tuple[int, Any]] = []
        try:
            for record in islice(records, CHUNK_RECORDS):
                found.append(record)
                if record[0] - found[0][0] > CHUNK_BYTES:
                    break
        except (
            SourceError
        ) as error:  # what follows is lost, as in a file that is cut off; not what came before
            is_another = are_first and not found and not isinstance(error, CutOffError)
            if on_damage is None or is_another or isinstance(error, ExpansionError):
                raise
            on_damage(error)
        return found

    def _records_of(self, part: InputPart, on_damage: OnDamage) -> Records:
        """Yield the records of a part, from a file that is read as a stream from its beginning.

        Damage before the part is not reported, because it belongs to another part.
        """
        passed = False

        def tell(error: Exception) -> None:
            if passed and on_damage is not None:
                on_damage(error)

        records = self.form.records(part.name, self._opening, None if on_damage is None else tell)
        for _ in islice(records, part.start):
            pass
        passed = True
        yield from records if part.stop is None else islice(records, part.stop - part.start)


def _stamp(path: str, storage: StorageOptions) -> Stamp:
    try:
        return stamp_of(path, storage)
    except OSError as error:
        raise SourceError(
            f"{shorten(path)} cannot be read: {shorten(error)}. "
            f"{remedy_for(error, 'Check the path and its permissions')}."
        ) from error
