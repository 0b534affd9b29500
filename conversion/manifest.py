"""Manifest of a conversion, `manifest.json`, and the check of a folder against it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from ..common.messages import shorten
from ..errors import ConversionError, SourceError
from ..files.paths import PathLike, text_of
from ..files.storage_options import StorageOptionsLike, storage_options_of
from ..sources.growing.conversion_folder import KIND, MANIFEST, VERSION
from ..sources.parts import of_each
from .job import Receipt, WrittenFile
from .target import Target, target_at


@dataclass(frozen=True)
class Manifest:
    """Result of `headrace.convert`.

    Attributes:
        source: description of the converted data: files with sizes and modification times, or the
            fingerprint of a source.
        options: everything else that determines the bytes of the files.
        shards: receipt of each shard: name, records, left_out, damage, and files with bytes and
            sha256.
        omitted: if records were omitted, the sources from which this folder was rewritten. For
            each: its number of records, its fingerprint, and the name of the file of omitted keys.
    """

    source: Mapping[str, Any]
    options: Mapping[str, Any]
    shards: tuple[Receipt, ...]
    omitted: tuple[Mapping[str, Any], ...] = ()

    @property
    def records(self) -> int:
        """Number of records written."""
        return sum(shard.records for shard in self.shards)

    @property
    def left_out(self) -> int:
        """Number of damaged records that were skipped."""
        return sum(shard.left_out for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.bytes for shard in self.shards for file in shard.files)

    @property
    def damage(self) -> tuple[str, ...]:
        """Errors of skipped records, for the first few of each shard."""
        return tuple(text for shard in self.shards for text in shard.damage)

    def to_json(self) -> dict[str, Any]:
        sums = {"records": self.records, "bytes": self.bytes, "left_out": self.left_out}
        told = {
            "source": self.source,
            "options": self.options,
            "shards": [shard.to_json() for shard in self.shards],
        }
        if self.omitted:
            told["omitted"] = list(self.omitted)
        return {"kind": KIND, "version": VERSION, "headrace": version("headrace"), **sums, **told}

    @classmethod
    def from_json(cls, values: Any) -> Manifest:
        """Return the manifest from values that `to_json` returned.

        Raises:
            ValueError, TypeError, LookupError: the values are not a manifest.
        """
        if values["kind"] != KIND or values["version"] != VERSION:
            raise ValueError(
                f"the file must have the kind {KIND!r} and the version {VERSION!r}, which this "
                f"release of headrace reads, but it has the kind {values['kind']!r} and the "
                f"version {values['version']!r}"
            )
        shards = tuple(map(Receipt.from_json, values["shards"]))
        return cls(values["source"], values["options"], shards, tuple(values.get("omitted", ())))

    def __repr__(self) -> str:
        left_out = f", {self.left_out:,} left out" if self.left_out else ""
        return (
            f"Manifest({self.records:,} records in {len(self.shards)} shards, {self.bytes:,} "
            f"bytes{left_out})"
        )


def manifest_in(target: Target) -> Manifest | None:
    """Return the manifest of a folder, or None if there is none.

    Raises:
        ConversionError: the manifest cannot be read.
    """
    values = target.manifest()
    try:
        return None if values is None else Manifest.from_json(values)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ConversionError(
            f"{shorten(target.place(MANIFEST))} is not a manifest that this version of headrace "
            f"can read ({shorten(error)}). Convert the data again, into another target."
        ) from error


def verify(target: PathLike, storage_options: StorageOptionsLike = None) -> list[str]:
    """Check a folder that `headrace.convert` wrote against its `manifest.json`.

    Names, sizes and SHA-256 of all files are compared.

    Args:
        target: the folder.
        storage_options: how a folder in a store (`s3://…`) is reached.

    Returns:
        One line for each difference; an empty list if there is none. An additional file is a
        difference if it lies in a folder that has files of the manifest, and has a suffix of
        theirs, because sources may read it.

    Raises:
        ConversionError: there is no manifest, or it cannot be read.

    >>> import tempfile, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = headrace.convert([b"one", b"two"], folder, workers=0, progress=False)
    ...     headrace.verify(folder)
    []
    """
    folder = target_at(text_of(target), storage_options_of(storage_options))
    manifest = manifest_in(folder)
    if manifest is None:
        plan = folder.plan()
        if plan is None:
            raise ConversionError(
                f"{shorten(folder.path)} has no {MANIFEST}. Pass a folder that `headrace convert` "
                "wrote."
            )
        complete = f"{len(folder.receipts())} of {len(plan['shards'])} shards are complete"
        raise ConversionError(
            f"the conversion to {shorten(folder.path)} is not done: {complete}. Run the same "
            "conversion again to write the others."
        )
    files = [file for shard in manifest.shards for file in shard.files]
    wrong = [text for text in of_each(partial(_difference, folder), files) if text]
    known = {file.name for file in files}
    suffixes = tuple({os.path.splitext(name)[1] for name in known})
    for name in sorted({os.path.dirname(name) for name in known}):
        there = [
            f"{name}/{entry}" if name else entry
            for entry in folder.names_in(name)
            if entry.endswith(suffixes)
        ]
        wrong += [f"{place} is not in the manifest" for place in there if place not in known]
    return wrong


def _difference(folder: Target, file: WrittenFile) -> str | None:
    try:
        size = folder.size(file.name)
        if size != file.bytes:
            return (
                f"{file.name} has {size:,} bytes, not {file.bytes:,}"
                if size >= 0
                else f"{file.name} is missing"
            )
        return (
            None
            if folder.digest(file.name) == file.sha256
            else f"{file.name} has another content (SHA-256)"
        )
    except (OSError, SourceError) as error:
        return f"{file.name} cannot be read: {shorten(error)}"
