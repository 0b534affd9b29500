"""Data types of a conversion, and the protocols between its parts.

a RecordInput reads the records of parts  →  steps decode and transform them  →  the Output encodes
them and writes a Shard
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

from ..common.messages import short_repr
from ..files.storage_options import StorageOptions
from ..files.urls import stays_inside

OnDamage: TypeAlias = Callable[[Exception], None] | None
"""Type of a function that is called with the error for each record that is skipped.

None: the error is raised.
"""

Report: TypeAlias = Callable[[int, float], None]
"""Function that receives progress since the last call.

Its arguments are the records written, and the input read, in `RecordInput.unit`s.
"""


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError if a file name from a manifest or plan leads out of the target folder."""
    outside = [name for name in names if not stays_inside(name)]
    if outside:
        raise ValueError(f"the file name {short_repr(outside[0])} leads out of the target folder")


@dataclass(frozen=True)
class InputPart:
    """Records `[start, stop)` of one input file or of a source.

    If `stop` is None, the part ends with the file.

    Attributes:
        name: name of the file or source.
        start: first record.
        stop: record after the last one, or None.
        share: size of the part as a share of the whole, 0 to 1.
    """

    name: str
    start: int = 0
    stop: int | None = None
    share: float = 1.0

    @property
    def is_whole(self) -> bool:
        """True if the part contains all records of the file."""
        return self.start == 0 and self.stop is None


@dataclass(frozen=True)
class Shard:
    """One file of the target, and the parts of the input that it contains.

    Attributes:
        name: path of the file in the target, with `/` between folders.
        parts: parts of the input, in order.
    """

    name: str
    parts: tuple[InputPart, ...]


@dataclass(frozen=True)
class WrittenFile:
    """Complete file of the target: name, size in bytes, and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Receipt:
    """Result of the conversion of one shard, which is stored when its files are complete."""

    name: str
    records: int
    left_out: int
    """Number of damaged records that were skipped."""
    damage: tuple[str, ...]
    """Errors of the first few skipped records."""
    files: tuple[WrittenFile, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Receipt:
        """Return the receipt from values that `to_json` returned.

        Raises:
            ValueError, TypeError, LookupError: the values are not a receipt.
        """
        files = tuple(WrittenFile(**file) for file in values["files"])
        check_names([str(file.name) for file in files])
        counts = int(values["records"]), int(values["left_out"])
        return cls(str(values["name"]), *counts, tuple(map(str, values["damage"])), files)


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of a part.

    Attributes:
        records: `(place, record)` for each. The place is the offset or line in the file, or the
            index of the record.
        done: size of what has been read of the part so far, in units of progress.
    """

    records: list[tuple[int, Any]]
    done: float


class RecordInput(Protocol):
    """Protocol of the input of a conversion. Picklable, because each worker reads other parts.

    Attributes:
        unit: unit of progress: "B" (bytes) or "records".
        format: format of the files; "" for a source.
        encode: how records that are not bytes are encoded: "example" or "json".
    """

    unit: str
    format: str
    encode: str

    def names(self) -> Sequence[str]:
        """Return the names of all files in order; for a source, one name."""

    def identity(self) -> dict[str, Any]:
        """Return JSON values that identify the data that is converted."""

    def data_source(self) -> Any:
        """Return a source of all records, as a loader would read them; None if there is none."""

    def schema(self) -> Any:
        """Return the Arrow schema of the records; None if it is unknown without reading them."""

    def count(self, name: str, on_damage: OnDamage) -> int:
        """Return the number of records in a file, also of omitted ones. May read the whole file.

        Damaged records do not count if the file can only be read as a stream, and `on_damage` is
        not None.
        """

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        """Yield the records of a part in chunks."""

    def weight(self, part: InputPart) -> float:
        """Return the size of a part, in the units of progress."""

    def place(self, part: InputPart, place: int) -> str:
        """Return a text that names the place of a record, for messages.

        `place` is the record's place, as its `Chunk` states it.
        """


class ShardWriter(Protocol):
    """Protocol of a writer of one shard. It is used by one thread, and its memory is bounded."""

    def extend(self, encoded: Any) -> None:
        """Write records that `Output.encode` returned."""

    def close(self) -> None:
        """Finish the file."""

    def discard(self) -> None:
        """Close the file without finishing it. The caller removes it. Raises nothing."""


class Output(Protocol):
    """Protocol of an output format. Picklable.

    Attributes:
        suffix: suffix of the shards' names.
    """

    suffix: str

    def identity(self) -> dict[str, Any]:
        """Return JSON values that determine the bytes of the files, apart from the records."""

    def encode(self, records: list[Any]) -> Any:
        """Return records in the form that the writer's `extend` takes.

        Raises:
            Exception: a record cannot be encoded. The caller then encodes one record at a time to
                find it.
        """

    def open(self, path: str) -> ShardWriter:
        """Return a writer for a new shard, at a path."""

    def files_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the files of a shard, in the order in which they appear.

        The last one is the shard's own name.
        """
        return (name,)


@dataclass(frozen=True)
class ConversionJob:
    """Settings that all shards of a conversion share. Picklable.

    Attributes:
        input: the records to convert.
        output: format of the shards.
        steps: functions that are applied to each record, in order, before it is encoded.
        skips: True if damaged records are skipped; False if they are an error.
        target: path or URL of the target folder.
        storage: how files in a store are reached.
    """

    input: RecordInput
    output: Output
    steps: tuple[Callable[[Any], Any], ...]
    skips: bool
    target: str
    storage: StorageOptions


Work: TypeAlias = Callable[[ConversionJob, Any, Report], Any]
"""Type of a function that does one part of a job, in any process. It may run twice.

It takes the job, an argument for the part, and a function that receives progress. It returns the
result.
"""
