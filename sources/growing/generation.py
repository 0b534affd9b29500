"""Generations of a growing source, numbered lists of files that do not change, and their JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...files.stamps import Stamp

KIND, VERSION = "headrace generation", 1


class FileFacts(NamedTuple):
    """Facts about a file.

    Attributes:
        records: number of records.
        stamp: size and modification time.
        digest: digest of the file's index; it differs for another file of the same size.
    """

    records: int
    stamp: Stamp
    digest: str


class GrownFile(NamedTuple):
    """File of a generation, as it was when the generation was recorded.

    Attributes:
        name: path relative to the folder of the data, with `/` between its components; a URL for a
            file of another store.
        size: size in bytes.
        records: number of records.
        digest: digest of the file's index.
    """

    name: str
    size: int
    records: int
    digest: str


@dataclass(frozen=True)
class Generation:
    """Files that were added in one generation, and totals for this and all earlier generations.

    Attributes:
        number: number of the generation, from 0.
        records: number of records of this and all earlier generations.
        file_count: number of files of this and all earlier generations.
        files: the added files.
        complete: False if a conversion was still writing files when this generation was recorded.
    """

    number: int
    records: int
    file_count: int
    files: tuple[GrownFile, ...]
    complete: bool = True

    def to_json(self) -> dict[str, Any]:
        sums = {"generation": self.number, "records": self.records, "file_count": self.file_count}
        files = [list(file) for file in self.files]
        return {"kind": KIND, "version": VERSION, **sums, "complete": self.complete, "files": files}

    @classmethod
    def from_json(cls, values: Any) -> Generation:
        """Return the generation from values that `to_json` returned.

        Raises:
            ValueError, TypeError, LookupError: the values are not a generation.
        """
        if values["kind"] != KIND or values["version"] != VERSION:
            raise ValueError(
                f"the file must have the kind {KIND!r} and the version {VERSION!r}, which this "
                f"release of headrace reads, but it has the kind {values['kind']!r} and the "
                f"version {values['version']!r}"
            )
        files = tuple(
            GrownFile(str(name), int(size), int(records), str(digest))
            for name, size, records, digest in values["files"]
        )
        number, records, count = (
            int(values[name]) for name in ("generation", "records", "file_count")
        )
        return cls(number, records, count, files, bool(values["complete"]))


def following(
    before: Generation | None, files: tuple[GrownFile, ...], complete: bool = True
) -> Generation:
    """Return the generation that follows `before` and adds `files`.

    Args:
        before: the generation before it; None if there is none.
        files: the new files.
        complete: False if a conversion is still writing files.

    >>> following(following(None, (GrownFile("a", 9, 2, ""),)), (GrownFile("b", 9, 3, ""),)).records
    5
    """
    number, records, count = (
        (before.number + 1, before.records, before.file_count) if before else (0, 0, 0)
    )
    return Generation(
        number, records + sum(file.records for file in files), count + len(files), files, complete
    )
