"""Read the state of a folder that `headrace.convert` writes.

It says which files are complete, and whether the conversion is done.

    FOLDER/manifest.json                    exists if the conversion is done
    FOLDER/.conversion/plan.json            exists until then: all shards, in order
    FOLDER/.conversion/receipt-….json       exists if the files of one shard are complete

Shards are completed in any order. They are read in the order of the plan, up to the first shard
without a receipt.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

from ...common.messages import shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.opened import open_file
from ...files.paths import file_system_of
from ...files.storage_options import StorageOptions

MANIFEST = "manifest.json"
KIND, VERSION = "headrace conversion", 1
WORKPLACE = ".conversion"
"""Name of the folder that exists from the beginning of a conversion until it is done."""
PLAN = f"{WORKPLACE}/plan.json"
RECEIPT = "receipt-"


class FinishedShards(NamedTuple):
    """Complete files of a conversion, up to its first incomplete shard.

    Attributes:
        names: paths of the files, relative to the conversion's folder, in order.
        is_done: True if the conversion is done.
    """

    names: tuple[str, ...]
    is_done: bool


def receipt_name(shard: str) -> str:
    """Return the file name of the receipt of a shard.

    Args:
        shard: file name of the shard.

    >>> receipt_name("train-0.npy")
    'receipt-1661352410a6946fde911bc268a5be7f.json'
    """
    return f"{RECEIPT}{hashlib.sha256(shard.encode()).hexdigest()[:32]}.json"


def finished_shards(folder: str, storage: StorageOptions) -> FinishedShards | None:
    """Return the files of a conversion before its first incomplete shard.

    Return None if the folder has no conversion.

    Args:
        folder: the folder that `headrace.convert` writes to.
        storage: how files in a store are reached.

    Raises:
        SourceError: the plan cannot be read.
    """
    done = _manifest(folder, storage)
    if done is not None:
        return done
    files = file_system_of(folder, storage)
    if not files.is_directory(f"{folder}/{WORKPLACE}"):
        return _manifest(folder, storage)  # it may have ended meanwhile
    try:
        plan = _json(f"{folder}/{PLAN}", storage)
    except ValueError as error:
        raise SourceError(
            f"{shorten(f'{folder}/{PLAN}')} cannot be read as JSON: {shorten(error)}. Remove the "
            f"folder {shorten(folder)}, and convert again."
        ) from error
    try:
        there = set(files.names_in(f"{folder}/{WORKPLACE}"))
    except FileNotFoundError:
        return _manifest(folder, storage)
    if plan is None:
        return _manifest(folder, storage) or FinishedShards((), False)
    names = [str(shard["name"]) for shard in plan["shards"]]
    missing = (number for number, name in enumerate(names) if receipt_name(name) not in there)
    return FinishedShards(tuple(names[: next(missing, len(names))]), False)


def _manifest(folder: str, storage: StorageOptions) -> FinishedShards | None:
    values = None
    with suppress(ValueError):  # one of somebody else's
        values = _json(f"{folder}/{MANIFEST}", storage)
    if not isinstance(values, dict) or values.get("kind") != KIND:
        return None
    return FinishedShards(tuple(str(shard["name"]) for shard in values["shards"]), True)


def _json(path: str, storage: StorageOptions) -> Any:
    """Return the content of a JSON file, or None if it does not exist.

    Args:
        path: path of the file.
        storage: how files in a store are reached.

    Raises:
        ValueError: the file is not JSON.
    """
    try:
        file = open_file(path, storage)
    except SourceNotFoundError:
        return None
    try:
        return json.loads(file.read(0, file.size))
    finally:
        file.close()


def folder_of(path: str) -> str:
    """Return the folder of a file; "." for a name without a folder.

    >>> folder_of("out/a.npy"), folder_of("a.npy")
    ('out', '.')
    """
    return os.path.dirname(path) or "."
