"""A generation: a fixed, numbered list of files. In: facts about files. Out: the same as plain JSON values, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...files.stamps import Stamp

KIND, VERSION = "headrace generation", 1


class FileFacts(NamedTuple):
    """Facts about a file that was looked at."""

    records: int
    stamp: Stamp
    digest: str
    """Of its index: what tells it from another file of the same size."""


class GrownFile(NamedTuple):
    """A file of a generation."""

    name: str
    """Its path from the folder of the data, with `/` between the parts."""
    size: int
    """In bytes."""
    records: int
    digest: str


@dataclass(frozen=True)
class Generation:
    """The files that came with one generation, and how many records and files there are up to its end."""

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
        """The generation that `to_json` gave; raises as Python does if it is none."""
        if values["kind"] != KIND or values["version"] != VERSION:
            raise ValueError(f"kind {values['kind']}, version {values['version']}")
        files = tuple(
            GrownFile(str(name), int(size), int(records), str(digest))
            for name, size, records, digest in values["files"]
        )
        number, records, count = (int(values[name]) for name in ("generation", "records", "file_count"))
        return cls(number, records, count, files, bool(values["complete"]))


def following(before: Generation | None, files: tuple[GrownFile, ...], complete: bool = True) -> Generation:
    """The generation that these files make after another.

    >>> following(following(None, (GrownFile("a", 9, 2, ""),)), (GrownFile("b", 9, 3, ""),)).records
    5
    """
    number, records, count = (before.number + 1, before.records, before.file_count) if before else (0, 0, 0)
    return Generation(number, records + sum(file.records for file in files), count + len(files), files, complete)
