"""The words of a conversion: frozen dataclasses of plain values, and what the sides of one promise each other.

a RecordInput gives records of its parts  →  prepared (decoded, transformed, encoded)  →  the Output writes them to a Shard
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

from ..common.messages import short_repr
from ..files.storage_options import StorageOptions
from ..files.urls import stays_inside

OnDamage: TypeAlias = Callable[[Exception], None] | None
"""Is told why a record is left out; None: the error is raised."""

Report: TypeAlias = Callable[[int, float], None]
"""Is told of progress: records written, and how much weight of the input that was, since it was last told."""


def check_names(names: Sequence[str]) -> None:
    """Hold names of files of the target, as a file there gives them, against where they may lead.

    Raises:
        ValueError: one leads out of the target.
    """
    outside = [name for name in names if not stays_inside(name)]
    if outside:
        raise ValueError(f"{short_repr(outside[0])} leads out of the folder")


@dataclass(frozen=True)
class InputPart:
    """The records `[start, stop)` of one input file, or of a source; `stop` None: all that are left."""

    name: str
    start: int = 0
    stop: int | None = None
    share: float = 1.0  # how much of the whole that is

    @property
    def is_whole(self) -> bool:
        """True if no other part takes records of the file."""
        return self.start == 0 and self.stop is None


@dataclass(frozen=True)
class Shard:
    """One file of the target, and what comes into it."""

    name: str  # its path in the target, with `/` between the folders
    parts: tuple[InputPart, ...]


@dataclass(frozen=True)
class WrittenFile:
    """A whole file of the target."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Receipt:
    """The result of one shard."""

    name: str
    records: int
    left_out: int
    """How many damaged records are not in it."""
    damage: tuple[str, ...]
    """Why, for the first few of them."""
    files: tuple[WrittenFile, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Receipt:
        """The receipt that `to_json` gave; raises as Python does if it is none."""
        files = tuple(WrittenFile(**file) for file in values["files"])
        check_names([str(file.name) for file in files])
        counts = int(values["records"]), int(values["left_out"])
        return cls(str(values["name"]), *counts, tuple(map(str, values["damage"])), files)


@dataclass(frozen=True)
class Chunk:
    """Some records of a part, in their order."""

    records: list[tuple[int, Any]]  # each with its place: its offset in the file, or its number
    done: float  # how much of the part's weight has been read by now


class RecordInput(Protocol):
    """The records to convert. Picklable: each worker reads other parts."""

    unit: str  # of the weights: "B" or "records"
    format: str  # of files; "" for a source
    encode: str  # how records that are no bytes become bytes: "example" or "json"

    def names(self) -> Sequence[str]:
        """The files, or the one name of a source, in their order."""

    def identity(self) -> dict[str, Any]:
        """Plain JSON values that tell this data from other data."""

    def data_source(self) -> Any:
        """A source of all records, as a loader reads them; None where there is none."""

    def schema(self) -> Any:
        """The Arrow schema of the records, where one is known without reading them; else None."""

    def count(self, name: str, on_damage: OnDamage) -> int:
        """The number of records of a file, without the damaged ones. May read all of it."""

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        """The records of a part."""

    def weight(self, part: InputPart) -> float:
        """The amount to read in a part, in units."""

    def place(self, part: InputPart, place: int) -> str:
        """The place of a record, in words."""


class ShardWriter(Protocol):
    """Writes one shard. One thread calls it; memory stays bounded."""

    def extend(self, encoded: Any) -> None:
        """Write what `Output.encode` gave."""

    def close(self) -> None:
        """All is in the file."""

    def discard(self) -> None:
        """Let go of the file, which somebody else removes. Raises nothing."""


class Output(Protocol):
    """A format to write. Picklable."""

    suffix: str  # what the names of shards end in

    def identity(self) -> dict[str, Any]:
        """All that the bytes depend on, in plain JSON values."""

    def encode(self, records: list[Any]) -> Any:
        """Some records as they are written.

        Raises:
            Exception: one of them cannot be. It is then called for each alone.
        """

    def open(self, path: str) -> ShardWriter:
        """Begin a shard."""

    def files_of(self, name: str) -> tuple[str, ...]:
        """The files of a shard, in the order in which they are to appear; the last one is the shard's own."""
        return (name,)


@dataclass(frozen=True)
class ConversionJob:
    """The settings that all shards share. Picklable."""

    input: RecordInput
    output: Output
    steps: tuple[Callable[[Any], Any], ...]  # what happens to each record before it is encoded
    skips: bool  # whether damaged records are left out
    target: str
    storage: StorageOptions


Work: TypeAlias = Callable[[ConversionJob, Any, Report], Any]
"""A part of a job, done anywhere: what to do, and what it came to. Can be done again."""
