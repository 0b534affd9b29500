"""Holds a folder against its manifest. In: a folder. Out: what is wrong with it, a line for each thing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from ..common.messages import shorten
from ..errors import ConversionError, SourceError
from ..files.paths import PathLike, text_of
from ..files.storage_options import StorageOptionsLike, storage_options_of
from ..sources.parts import of_each
from .job import WrittenFile
from .manifest import manifest_in
from .target import MANIFEST, Target


def verify(target: PathLike, storage_options: StorageOptionsLike = None) -> list[str]:
    """Hold a folder that `headrace.convert` wrote against its `manifest.json`: names, sizes and SHA-256 of all files.

    Args:
        target: the folder.
        storage_options: how a folder in a store (`s3://…`) is reached.

    Returns:
        What is wrong, a line for each thing; nothing if all is right. A file that the manifest does not know is wrong, too,
        if its name ends as those of the shards do: who reads the folder would read it.

    Raises:
        ConversionError: there is no manifest, or it cannot be read.

    >>> import tempfile, headrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = headrace.convert([b"one", b"two"], folder, workers=0, progress=False)
    ...     headrace.verify(folder)
    []
    """
    folder = Target(text_of(target), storage_options_of(storage_options))
    manifest = manifest_in(folder)
    if manifest is None:
        raise ConversionError(_no_manifest(folder))
    files = [file for shard in manifest.shards for file in shard.files]
    found = of_each(partial(_difference, folder), files)
    return [text for text in found if text] + list(_unknown(folder, files))


def _no_manifest(folder: Target) -> str:
    plan: Any = folder.plan()
    if plan is None:
        return f"{shorten(folder.path)} has no {MANIFEST}; pass a folder that headrace convert wrote to."
    return (
        f"the conversion to {shorten(folder.path)} is not done: {len(folder.receipts())} of {len(plan['shards'])} shards are "
        "whole; run it again to go on."
    )


def _difference(folder: Target, file: WrittenFile) -> str | None:
    try:
        size = folder.folder.size(file.name)
        if size != file.bytes:
            return f"{file.name} has {size:,} bytes, not {file.bytes:,}" if size >= 0 else f"{file.name} is missing"
        return None if folder.folder.digest(file.name) == file.sha256 else f"{file.name} has another content (SHA-256)"
    except (OSError, SourceError) as error:
        return f"{file.name} cannot be read: {shorten(error)}"


def _unknown(folder: Target, files: list[WrittenFile]) -> Iterator[str]:
    known = {file.name for file in files}
    suffixes = tuple({os.path.splitext(name)[1] for name in known})
    for name in sorted({os.path.dirname(name) for name in known}):
        for entry in folder.folder.names_in(name):
            place = f"{name}/{entry}" if name else entry
            if entry.endswith(suffixes) and place not in known:
                yield f"{place} is not in the manifest"
