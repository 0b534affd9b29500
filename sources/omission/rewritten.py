"""Files that were written anew without some records, read by the keys that the records had before.

In: a source on the folder that `headrace.convert(…, omit=…)` wrote. Out: the keys that are left out, and a source that takes
the former keys. `manifest.json` says which files the former ones were; beside it the keys lie in files of their own, sorted:

    "omitted": [{"records": of the former source, "file": of the keys, "digest": of the keys, "source": its fingerprint}, …]

The first is the source that was converted; those after it are the ones that it had been written anew from.
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
from ...common.messages import shorten
from ...errors import RecordKeyError, SourceError, SourceNotFoundError
from ...files.streams import open_stream
from ..derived.on_source import ByOtherKeys
from ..keys import Keys, check_keys
from ..provenance import FilePlace

Int64s = npt.NDArray[np.int64]

MANIFEST = "manifest.json"
_FOLDERS_UP = 4
"""The manifest is looked for in the folder of the first file, and in so many above it."""


@dataclass(frozen=True, eq=False)
class FormerSource:
    """A source that files were written anew from.

    Attributes:
        records: it had.
        omitted: `int64[n]`, the keys of those that are no longer there, ascending.
        fingerprint: that states know it by.
    """

    records: int
    omitted: Int64s
    fingerprint: Mapping[str, Any]

    def key_before(self, keys: Int64s) -> Int64s:
        """The former keys of records by their present ones."""
        return keys + np.searchsorted(self.omitted - np.arange(len(self.omitted)), keys, side="right")

    def key_after(self, keys: Int64s) -> Int64s:
        """The present keys of records by their former ones, which are there."""
        return keys - np.searchsorted(self.omitted, keys)

    def has(self, keys: Int64s) -> npt.NDArray[np.bool_]:
        """True for records that are still there."""
        there: npt.NDArray[np.bool_] = np.searchsorted(self.omitted, keys) == np.searchsorted(
            self.omitted, keys, "right"
        )
        return there

    def and_before(self, earlier: FormerSource) -> FormerSource:
        """The source before this one, for the files after this one: what both left out, by the earlier one's keys."""
        omitted = np.union1d(earlier.omitted, earlier.key_before(self.omitted))
        return FormerSource(earlier.records, omitted, earlier.fingerprint)

    def to_files(self, number: int) -> tuple[dict[str, Any], str, bytes]:
        """The manifest's entry, and the name and content of the file of keys."""
        data = io.BytesIO()
        np.save(data, self.omitted)
        name = f"omitted-{number}.keys"
        entry = {"records": self.records, "keys": len(self.omitted), "digest": digest_of(self.omitted), "file": name}
        return {**entry, "source": dict(self.fingerprint)}, name, data.getvalue()


def former_sources(source: Any) -> list[FormerSource]:
    """The sources that the files of one were written anew from; the one right before first.

    None, unless it reads all files of a folder that `headrace.convert` wrote, in the order of its manifest.

    Raises:
        SourceError: the manifest, or a file of keys, cannot be read.
    """
    files = _files_of(source)
    for folder in _folders(files[0][0]) if files else ():
        values = _manifest_in(folder)
        if values is None:
            continue
        shards = [
            (f"{folder}/{shard['name']}", shard["records"]) for shard in values.get("shards", ()) if shard["records"]
        ]
        return [_read(folder, entry) for entry in values.get("omitted", ())] if shards == files else []
    return []


def _files_of(source: Any) -> list[tuple[str, int]]:
    """The files of a source, and how many records each has."""
    if not hasattr(source, "file_runs"):
        return []
    runs = groupby(source.file_runs(), key=lambda run: run.file)
    return [(str(file), sum(run.records for run in some)) for file, some in runs]


def _folders(file: str) -> Iterator[str]:
    for _ in range(_FOLDERS_UP):
        file, slash, _ = file.rpartition("/")
        if not slash or file.endswith(":/"):
            return
        yield file


def _manifest_in(folder: str) -> Any:
    """The values of a manifest of a conversion; None: there is none."""
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
            raise ValueError("its digest is another one")
        return FormerSource(int(entry["records"]), keys, dict(entry["source"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{shorten(folder)}: the keys that convert left out cannot be read ({shorten(error)}); write the files anew."
        ) from error


class FormerKeys(ByOtherKeys):
    """A source on files that were written anew without some records, which takes the keys that they had before.

    `len` is that of the former source, and its fingerprint. Records that are no longer there cannot be read: a `DataLoader`
    leaves them out of its order by itself, and a chain by `omit()`.

    Args:
        source: all files that a `headrace.convert(…, omit=…)` wrote, such as `ArrayRecordDataSource(folder)`.

    Attributes:
        source: likewise.
        omitted_keys: `int64[n]`, the former keys of records that are no longer there.

    Raises:
        SourceError: its files are no such ones.

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
                    f"{type(source).__name__} does not read all files of a folder that headrace.convert(…, omit=…) wrote, in "
                    "the order of its manifest.json; make it of the folder, or of the manifest's shards in their order."
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
                f"record key {int(checked[~there][0])} was left out when the files were written anew; a DataLoader on "
                "FormerKeys leaves it out of its order."
            )
        return self._former.key_after(checked)

    def _records_of(self, keys: Int64s) -> Int64s:
        return self._former.key_after(keys[self._former.has(keys)])

    @property
    def lengths(self) -> Any:
        """Lengths of arrays, as of any source; 0 for records that are no longer there."""
        return self._by_former_key(getattr(self.source, "lengths", None))

    def lengths_by(self, name: str) -> Any:
        """The lengths of a field; 0 likewise."""
        return self._by_former_key(self.source.lengths_by(name))  # type: ignore[attr-defined]

    @property
    def record_bytes(self) -> Any:
        """Sizes of records in their files; 0 likewise."""
        return self._by_former_key(getattr(self.source, "record_bytes", None))

    def _by_former_key(self, lengths: Any) -> Any:
        if isinstance(lengths, Mapping):
            return {name: self._by_former_key(each) for name, each in lengths.items()}
        if lengths is None:
            return None
        known = np.zeros(len(self), np.int64)
        known[self._former.key_before(np.arange(len(lengths)))] = lengths
        return known

    def file_place(self, key: int) -> FilePlace | None:
        """The place of a record in the files of now."""
        tell = getattr(self.source, "file_place", None)
        return None if tell is None else tell(int(self._below([key])[0]))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The former source's: a run goes on as if its files had stayed."""
        return dict(self._former.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "_former": self._former, "omitted_keys": self.omitted_keys}

    def __repr__(self) -> str:
        return f"FormerKeys({self.source!r}, without {len(self.omitted_keys)} of {len(self)} records)"
