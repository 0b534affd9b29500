"""Generations of a growing source: fixed, numbered lists of files, and their JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...files.stamps import Stamp

KIND, VERSION = "headrace generation", 1


class FileFacts(NamedTuple):
    """Facts about a file."""

    records: int
    stamp: Stamp
    digest: str
    """Digest of its index, which tells it from another file of the same size."""


class GrownFile(NamedTuple):
    """File of a generation."""

    name: str
    """Path relative to the folder of the data, with `/` between the parts."""
    size: int
    """Size in bytes."""
    records: int
    digest: str


@dataclass(frozen=True)
class Generation:
    """Files that were new in one generation, and the numbers of records and files up to its end."""

    number: int
    records: int
    file_count: int
    files: tuple[GrownFile, ...]
    complete: bool = True
    """False if a conversion was still writing files when this generation was written down."""

    def to_json(self) -> dict[str, Any]:
        sums = {"generation": self.number, "records": self.records, "file_count": self.file_count}
        files = [list(file) for file in self.files]
        return {"kind": KIND, "version": VERSION, **sums, "complete": self.complete, "files": files}

    @classmethod
    def from_json(cls, values: Any) -> Generation:
        """Read a generation that `to_json` returned. Raises ValueError, TypeError or LookupError if it is not a generation."""
        if values["kind"] != KIND or values["version"] != VERSION:
            raise ValueError(f"kind {values['kind']}, version {values['version']}")
        files = tuple(
            GrownFile(str(name), int(size), int(records), str(digest))
            for name, size, records, digest in values["files"]
        )
        number, records, count = (int(values[name]) for name in ("generation", "records", "file_count"))
        return cls(number, records, count, files, bool(values.get("complete", True)))


def following(before: Generation | None, files: tuple[GrownFile, ...], complete: bool = True) -> Generation:
    """Make the next generation of these files.

    >>> following(following(None, (GrownFile("a", 9, 2, ""),)), (GrownFile("b", 9, 3, ""),)).records
    5
    """
    number, records, count = (before.number + 1, before.records, before.file_count) if before else (0, 0, 0)
    return Generation(number, records + sum(file.records for file in files), count + len(files), files, complete)
