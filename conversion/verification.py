"""Holds a folder against its manifest. In: a folder. Out: what is wrong with it, a line for each thing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import ConversionError
from ..files.paths import PathLike, text_of
from ..wording import brief
from .job import WrittenFile
from .manifest import manifest_in
from .target import MANIFEST, Target, digest_of


def verify(target: PathLike) -> list[str]:
    """Hold a folder that `millrace.convert` wrote against its `manifest.json`: names, sizes and SHA-256 of all files.

    Args:
        target: the folder.

    Returns:
        What is wrong, a line for each thing; nothing if all is right. A file that the manifest does not know is wrong, too,
        if its name ends as those of the shards do: who reads the folder would read it.

    Raises:
        ConversionError: there is no manifest, or it cannot be read.

    >>> import tempfile, millrace
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = millrace.convert([b"one", b"two"], folder, workers=0, progress=False)
    ...     millrace.verify(folder)
    []
    """
    folder = Target(text_of(target))
    manifest = manifest_in(folder)
    if manifest is None:
        raise ConversionError(_no_manifest(folder))
    files = [file for shard in manifest.shards for file in shard.files]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(lambda file: _difference(folder, file), files)
        return [text for text in found if text] + list(_unknown(folder, files))


def _no_manifest(folder: Target) -> str:
    plan: Any = folder.plan()
    if plan is None:
        return f"{brief(folder.path)} has no {MANIFEST}; pass a folder that millrace convert wrote to."
    return (
        f"the conversion to {brief(folder.path)} is not done: {len(folder.receipts())} of {len(plan['shards'])} shards are "
        "whole; run it again to go on."
    )


def _difference(folder: Target, file: WrittenFile) -> str | None:
    path = folder.file(file.name)
    try:
        size = os.path.getsize(path)
        if size != file.bytes:
            return f"{file.name} has {size:,} bytes, not {file.bytes:,}"
        return None if digest_of(path) == file.sha256 else f"{file.name} has another content (SHA-256)"
    except FileNotFoundError:
        return f"{file.name} is missing"
    except OSError as error:
        return f"{file.name} cannot be read: {brief(error)}"


def _unknown(folder: Target, files: list[WrittenFile]) -> Iterator[str]:
    known = {file.name for file in files}
    suffixes = tuple({os.path.splitext(name)[1] for name in known})
    for name in sorted({os.path.dirname(name) for name in known}):
        for entry in sorted(os.listdir(folder.file(name)) if os.path.isdir(folder.file(name)) else ()):
            place = f"{name}/{entry}" if name else entry
            if entry.endswith(suffixes) and place not in known:
                yield f"{place} is not in the manifest"
