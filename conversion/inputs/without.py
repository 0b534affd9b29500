"""Omit records from the input of a conversion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.identity.values import digest_of
from ...errors import ConversionError
from ...sources.facts import SourceFacts
from ...sources.omission.keys import keys_to_omit
from ...sources.omission.rewritten import FormerSource, former_sources
from ...sources.parts import of_each
from ...sources.protocol import fingerprint_of
from ...sources.provenance import FileRun
from ..job import Chunk, InputPart, OnDamage, RecordInput

Int64s = npt.NDArray[np.int64]


class WithoutRecords(RecordInput):
    """Input without some of its records.

    The `start` and `stop` of its parts still count all records.

    Args:
        given: the whole input.
        omit: records to omit, as the user passes them.
        storage: how a file of keys in a store is reached.

    Raises:
        ConversionError: all records would be omitted.

    Attributes:
        former: the whole input, as checkpoints know it; if it was itself rewritten, also the
            earlier sources.
    """

    def __init__(self, given: RecordInput, omit: Any, storage: Any) -> None:
        self._given = given
        self.unit, self.format, self.encode = given.unit, given.format, given.encode
        names = list(given.names())
        counts = of_each(partial(given.count, on_damage=None), names)
        source = given.data_source()
        keys = keys_to_omit(_Numbered(names, counts) if source is None else source, omit, storage)
        if len(keys) == sum(counts):
            raise ConversionError(
                f"omit= contains all {len(keys)} records, so no record is left to convert. Omit "
                "fewer records."
            )
        bounds = np.searchsorted(keys, np.cumsum([0, *counts]))
        starts = np.cumsum([0, *counts])
        self._rows = {
            name: keys[first:last] - start
            for name, first, last, start in zip(names, bounds, bounds[1:], starts)
        }
        former = FormerSource(sum(counts), keys, {} if source is None else fingerprint_of(source))
        earlier = [] if source is None else former_sources(source)
        self.former = [former, *map(former.combined_with, earlier)]

    def names(self) -> Sequence[str]:
        return self._given.names()

    def identity(self) -> dict[str, Any]:
        omitted = self.former[0].omitted
        return {**self._given.identity(), "omitted": f"{len(omitted)} {digest_of(omitted)}"}

    def data_source(self) -> None:
        """Return None: no source has these records before the conversion."""

    def schema(self) -> Any:
        return self._given.schema()

    def count(self, name: str, on_damage: OnDamage) -> int:
        return self._given.count(name, on_damage)

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        rows, first = self._rows[part.name], part.start
        for chunk in self._given.read(part, on_damage):
            last = first + len(chunk.records)
            omitted = rows[slice(*np.searchsorted(rows, [first, last]))] - first
            gone = set(omitted.tolist())
            kept = (
                [record for place, record in enumerate(chunk.records) if place not in gone]
                if gone
                else chunk.records
            )
            yield Chunk(kept, chunk.done)
            first = last

    def weight(self, part: InputPart) -> float:
        return self._given.weight(part)

    def place(self, part: InputPart, place: int) -> str:
        return self._given.place(part, place)


class _Numbered:
    """Stand-in for a source on several files: record keys count from the first file to the last."""

    def __init__(self, names: Sequence[str], counts: Sequence[int]) -> None:
        self._names, self._counts = names, counts

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(file_runs=self._runs)

    def __len__(self) -> int:
        return sum(self._counts)

    def _runs(self) -> Iterator[FileRun]:
        key = 0
        for name, count in zip(self._names, self._counts):
            yield FileRun(name, 0, key, count)
            key += count
