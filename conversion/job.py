"""Data types of a conversion, and the protocols between its parts.

a RecordInput reads the records of parts  →  steps decode and transform them  →  the Output encodes them and writes a Shard
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

from ..common.messages import short_repr
from ..files.storage_options import StorageOptions
from ..files.urls import stays_inside

OnDamage: TypeAlias = Callable[[Exception], None] | None
"""Function that is called with the reason why a record is skipped. None: the error is raised."""

Report: TypeAlias = Callable[[int, float], None]
"""Function that receives progress: records written, and weight of the input read, since the last call."""


def check_names(names: Sequence[str]) -> None:
    """Check file names in the target that another file lists.

    Raises:
        ValueError: a name leads out of the target.
    """
    outside = [name for name in names if not stays_inside(name)]
    if outside:
        raise ValueError(f"{short_repr(outside[0])} leads out of the folder")


@dataclass(frozen=True)
class InputPart:
    """Records `[start, stop)` of one input file or of a source. `stop` None: up to the end."""

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
    """One file of the target, and the parts that it is made of."""

    name: str  # its path in the target, with `/` between the folders
    parts: tuple[InputPart, ...]


@dataclass(frozen=True)
class WrittenFile:
    """Complete file of the target."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Receipt:
    """Result of one shard."""

    name: str
    records: int
    left_out: int
    """Number of damaged records that were skipped."""
    damage: tuple[str, ...]
    """Reasons for the first of them."""
    files: tuple[WrittenFile, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Receipt:
        """Read a receipt that `to_json` returned. Raises ValueError, TypeError or LookupError if it is not a receipt."""
        files = tuple(WrittenFile(**file) for file in values["files"])
        check_names([str(file.name) for file in files])
        counts = int(values["records"]), int(values["left_out"])
        return cls(str(values["name"]), *counts, tuple(map(str, values["damage"])), files)


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of a part."""

    records: list[tuple[int, Any]]  # each with its place: its offset in the file, or its number
    done: float  # how much of the part's weight has been read by now


class RecordInput(Protocol):
    """Protocol of the records to convert. Picklable: each worker reads other parts."""

    unit: str  # of the weights: "B" or "records"
    format: str  # of files; "" for a source
    encode: str  # how records that are no bytes become bytes: "example" or "json"

    def names(self) -> Sequence[str]:
        """Return the files in order, or the one name of a source."""

    def identity(self) -> dict[str, Any]:
        """Return plain JSON values that identify the data."""

    def data_source(self) -> Any:
        """Return a source of all records, as a loader reads them, or None."""

    def schema(self) -> Any:
        """Return the Arrow schema of the records if it is known without reading them, or None."""

    def count(self, name: str, on_damage: OnDamage) -> int:
        """Count the records of a file without the damaged ones. May read the whole file."""

    def read(self, part: InputPart, on_damage: OnDamage) -> Iterator[Chunk]:
        """Yield the records of a part."""

    def weight(self, part: InputPart) -> float:
        """Return the amount of input in a part, in units of progress."""

    def place(self, part: InputPart, place: int) -> str:
        """Describe the place of a record for a message."""


class ShardWriter(Protocol):
    """Protocol of the writer of one shard. One thread calls it. Its memory is bounded."""

    def extend(self, encoded: Any) -> None:
        """Write what `Output.encode` returned."""

    def close(self) -> None:
        """Finish the file."""

    def discard(self) -> None:
        """Close the file without finishing it; the caller removes it. Raises nothing."""


class Output(Protocol):
    """Protocol of an output format. Picklable."""

    suffix: str  # what the names of shards end in

    def identity(self) -> dict[str, Any]:
        """Return plain JSON values for all that the bytes depend on."""

    def encode(self, records: list[Any]) -> Any:
        """Encode records as they are written.

        Raises:
            Exception: a record cannot be encoded. The caller then encodes one record at a time to find it.
        """

    def open(self, path: str) -> ShardWriter:
        """Begin a shard."""

    def files_of(self, name: str) -> tuple[str, ...]:
        """Return the files of a shard in the order in which they appear. The last one is the shard's own."""
        return (name,)


@dataclass(frozen=True)
class ConversionJob:
    """Settings that all shards share. Picklable."""

    input: RecordInput
    output: Output
    steps: tuple[Callable[[Any], Any], ...]  # what happens to each record before it is encoded
    skips: bool  # whether damaged records are left out
    target: str
    storage: StorageOptions


Work: TypeAlias = Callable[[ConversionJob, Any, Report], Any]
"""Function that does one part of a job in any process: job, argument and report in, result out. It may run twice."""
