"""Read files that were rewritten without some records, under the keys that the records had before.

`headrace.convert(…, omit=…)` writes such files. Their folder has a `manifest.json`, which describes
each source that the records come from, and a file of omitted keys, ascending, for each of them:

    "omitted": [{"records": number of records of the earlier source, "file": file of omitted keys,
                 "digest": digest of these keys, "source": fingerprint of the earlier source}, …]

The first entry is the source that was converted. If its files were rewritten before, too, the next
entry is the source from which they were written, and so on.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.identity.values import digest_of
from ...common.messages import remedy_for, shorten
from ...errors import RecordKeyError, SourceError, SourceNotFoundError
from ...files.streams import open_stream
from ..derived.on_source import ByOtherKeys
from ..facts import SourceFacts, facts_of
from ..keys import Keys, check_keys
from ..provenance import FilePlace

Int64s = npt.NDArray[np.int64]

MANIFEST = "manifest.json"
_FOLDERS_UP = 4
"""Number of folders, from that of the first file upwards, in which the manifest is searched."""


@dataclass(frozen=True, eq=False)
class FormerSource:
    """Source from whose records files were rewritten.

    Attributes:
        records: number of its records.
        omitted: `int64[n]`, keys of the records that were omitted, ascending.
        fingerprint: its fingerprint in checkpoints.
    """

    records: int
    omitted: Int64s
    fingerprint: Mapping[str, Any]

    def key_before(self, keys: Int64s) -> Int64s:
        """Return the keys `int64[n]` that records had before files were rewritten.

        They are found from the keys in the new files.
        """
        return keys + np.searchsorted(
            self.omitted - np.arange(len(self.omitted)), keys, side="right"
        )

    def key_after(self, keys: Int64s) -> Int64s:
        """Return the keys `int64[n]` of records in the new files, from the keys they had before.

        The records must be in the new files.
        """
        return keys - np.searchsorted(self.omitted, keys)

    def has(self, keys: Int64s) -> npt.NDArray[np.bool_]:
        """Return `bool[n]`: for each key in the earlier source, True if it is in the new files."""
        left, right = (
            np.searchsorted(self.omitted, keys),
            np.searchsorted(self.omitted, keys, "right"),
        )
        return np.equal(left, right)

    def combined_with(self, earlier: FormerSource) -> FormerSource:
        """Combine two rewritings: return the earlier source and the records that either omitted.

        Args:
            earlier: the source from which this one was rewritten.
        """
        omitted = np.union1d(earlier.omitted, earlier.key_before(self.omitted))
        return FormerSource(earlier.records, omitted, earlier.fingerprint)

    def to_files(self, number: int) -> tuple[dict[str, Any], str, bytes]:
        """Return an entry for the manifest, and name and content of the file of omitted keys.

        Args:
            number: position of the entry in the manifest.
        """
        data = io.BytesIO()
        np.save(data, self.omitted)
        name = f"omitted-{number}.keys"
        entry = {
            "records": self.records,
            "keys": len(self.omitted),
            "digest": digest_of(self.omitted),
            "file": name,
        }
        return {**entry, "source": dict(self.fingerprint)}, name, data.getvalue()


def former_sources(source: Any) -> list[FormerSource]:
    """Return the sources from which `headrace.convert(…, omit=…)` wrote the files of a source.

    The latest comes first.

    The list is empty if there is no manifest, if no records were omitted, or if the source does not
    read all files of the folder in the order of the manifest.

    Raises:
        SourceError: the manifest, or a file of keys, cannot be read.
    """
    files = _files_of(source)
    for folder in _folders(files[0][0]) if files else ():
        values = _manifest_in(folder)
        if values is None:
            continue
        shards = [
            (f"{folder}/{shard['name']}", shard["records"])
            for shard in values.get("shards", ())
            if shard["records"]
        ]
        return (
            [_read(folder, entry) for entry in values.get("omitted", ())] if shards == files else []
        )
    return []


def _files_of(source: Any) -> list[tuple[str, int]]:
    """Return `(file, number of records)` for each file of a source; empty if it has no list.

    A source has no list if it does not know its files.

    Files without records are left out.
    """
    find_runs = facts_of(source).file_runs
    runs = groupby(() if find_runs is None else find_runs(), key=lambda run: run.file)
    return [(str(file), sum(run.records for run in some)) for file, some in runs]


def _folders(file: str) -> Iterator[str]:
    for _ in range(_FOLDERS_UP):
        file, slash, _ = file.rpartition("/")
        if not slash or file.endswith(":/"):
            return
        yield file


def _manifest_in(folder: str) -> Any:
    """Return the content of the manifest of a conversion in a folder.

    Return None if there is none, or it is something else.
    """
    with suppress(SourceNotFoundError, FileNotFoundError, NotADirectoryError):
        with open_stream(f"{folder}/{MANIFEST}") as stream:
            try:
                values = json.loads(stream.read())
            except ValueError:  # something else of this name
                return None
        return values if isinstance(values, dict) and "shards" in values else None
    return None


def _read(folder: str, entry: Mapping[str, Any]) -> FormerSource:
    try:
        with open_stream(f"{folder}/{entry['file']}") as stream:
            keys = np.load(io.BytesIO(stream.read()), allow_pickle=False)
        if keys.dtype != np.int64 or keys.ndim != 1 or digest_of(keys) != entry["digest"]:
            raise ValueError(
                "the file must contain an int64 array with one axis and the digest "
                f"{entry['digest']}"
            )
        return FormerSource(int(entry["records"]), keys, dict(entry["source"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        otherwise = "Restore this file of the folder, or convert again with the same omit="
        raise SourceError(
            f"{shorten(folder)}: the list of keys that the conversion omitted cannot be read "
            f"({shorten(error)}). "
            f"{remedy_for(error, otherwise) if isinstance(error, OSError) else otherwise}."
        ) from error


class FormerKeys(ByOtherKeys):
    """Source on files that were rewritten without some records.

    Each record has the key that it had before.

    `len` and `fingerprint` equal the earlier source's, so a checkpoint of a run on it can be
    restored. Reading an omitted record raises RecordKeyError. A `DataLoader` does not request
    omitted records. In a chain, call `omit()`.

    Args:
        source: a source on all files that `headrace.convert(…, omit=…)` wrote, such as
            `ArrayRecordDataSource(folder)`.
        former: the source from whose records the files were rewritten. None (default): it is read
            from the files' manifest.

    Attributes:
        source: the source on the current files.
        omitted_keys: `int64[n]`, earlier keys of the omitted records.

    Raises:
        SourceError: the files were not written in this way, or their manifest cannot be read.

    >>> import tempfile, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = headrace.convert([b"a", b"b", b"c"], folder, omit=[1], workers=0, progress=False)
    ...     records = headrace.FormerKeys(headrace.ArrayRecordDataSource(folder))
    ...     len(records), records[2], records.omitted_keys.tolist()
    (3, b'c', [1])
    """

    def __init__(self, source: Any, former: FormerSource | None = None) -> None:
        if former is None:
            found = former_sources(source)
            if not found:
                raise SourceError(
                    f"{type(source).__name__} does not read all files of a folder that "
                    "headrace.convert(…, omit=…) wrote, in the order of its manifest.json. Make it "
                    "from the folder, or from the manifest's shards in their order; or use it "
                    "without FormerKeys if no records were omitted."
                )
            former = found[0]
        self.source, self._former = source, former
        self.omitted_keys = former.omitted

    def __len__(self) -> int:
        return self._former.records

    def _below(self, keys: Keys) -> Int64s:
        checked = check_keys(keys, len(self), type(self).__name__)
        there = self._former.has(checked)
        if not there.all():
            raise RecordKeyError(
                f"record key {int(checked[~there][0])} was omitted when the files were written. "
                "Read only keys that are not in omitted_keys, or pass this source to a DataLoader, "
                "which leaves them out."
            )
        return self._former.key_after(checked)

    def _records_of(self, keys: Int64s) -> Int64s:
        return self._former.key_after(keys[self._former.has(keys)])

    @property
    def facts(self) -> SourceFacts:
        """Facts about the records of the earlier source.

        Lengths and sizes of omitted records are 0.
        """
        return super().facts._replace(omitted_keys=self.omitted_keys, file_place=self.file_place)

    def _chosen(self, numbers: Int64s) -> Int64s:
        known = np.zeros(len(self), np.int64)
        known[self._former.key_before(np.arange(len(numbers)))] = numbers
        return known

    def file_place(self, key: int) -> FilePlace | None:
        """Return the place of the record `key` in the current files; None if it is not known.

        Raises:
            RecordKeyError: the record was omitted, or does not exist.
        """
        return facts_of(self.source).file_place(int(self._below([key])[0]))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Fingerprint of the earlier source: a run resumes as if its files were unchanged."""
        return dict(self._former.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "_former": self._former, "omitted_keys": self.omitted_keys}

    def __repr__(self) -> str:
        return (
            f"FormerKeys({self.source!r}, without {len(self.omitted_keys)} of {len(self)} records)"
        )
