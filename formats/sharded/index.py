"""The `index.json` of a folder of shards.

In: a folder, here or in a store. Out: the shards that its index describes, after a check of the
sizes of their files.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any, Protocol, Self, TypeVar

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.opened import open_file, stamp_of
from ...files.remote.parallel import in_parallel
from ...files.stamps import Stamp
from ...files.storage_options import StorageOptionsLike
from ...files.urls import in_folder, is_remote, stays_inside
from ..damage import damaged

INDEX = "index.json"


class IndexedShard(Protocol):
    """One shard of an index: a file of samples."""

    @property
    def path(self) -> str:
        """Path of its file."""

    @property
    def samples(self) -> int:
        """Number of samples."""

    @property
    def compression(self) -> str:
        """Name of the compression of the file; "" if it is not compressed."""

    @property
    def bytes(self) -> int:
        """Size of the shard when it is not compressed."""

    @property
    def file_bytes(self) -> int | None:
        """Size of its file; None if the index does not say it."""

    @property
    def stamp(self) -> Stamp | None:
        """Stamp of its file; None before the file is looked up."""

    def found(self, stamp: Stamp) -> Self:
        """Return the shard with the stamp of its file."""


ShardT = TypeVar("ShardT", bound=IndexedShard)


def read_index(
    folder: str,
    format_name: str,
    writer: str,
    parse: Callable[[Any], list[list[ShardT]]],
    storage: StorageOptionsLike = None,
) -> list[ShardT]:
    """Read the index of a folder of shards, and return the shards that have samples.

    Args:
        folder: path or URL of the folder.
        format_name: the format that the index must have, for messages.
        writer: what writes such folders, for messages.
        parse: takes the content of the index. For each shard, it returns descriptions with each
            file that the shard may be in, the file that the index names first. It raises a
            ValueError for an index of another format.
        storage: how a folder in a store is reached.

    Raises:
        SourceNotFoundError: the folder has no `index.json`, or a shard is missing.
        SourceError: the index is not JSON or cannot be read; `parse` raised a ValueError; or a
            shard has another size than the index says.
    """
    index = in_folder(folder, INDEX)
    try:
        named = parse(json.loads(_content(index, storage)))
        look = partial(_found, storage=storage)
        shards = in_parallel(look, named) if is_remote(folder) else list(map(look, named))
    except FileNotFoundError as error:
        raise SourceNotFoundError(
            f"{shorten(error.filename or index)} does not exist. Pass a folder with an {INDEX} and "
            "all shards that it names."
        ) from None
    except OSError as error:
        remedy = remedy_for(
            error, "Pass a folder that has an index.json, and check its permissions"
        )
        raise SourceError(
            f"{shorten(error.filename or index)} cannot be read: {shorten(error.strerror)}. "
            f"{remedy}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{shorten(index)} is not the index of {format_name}: {shorten(error)}. Pass a folder "
            f"that {writer} has written."
        ) from error
    for shard in shards:
        if shard.stamp is not None and shard.file_bytes not in (None, shard.stamp.size):
            raise SourceError(
                f"{shorten(shard.path)} has {shard.stamp.size:,} bytes, but {INDEX} says "
                f"{shard.file_bytes:,}. It was cut or changed: copy it again, or write it again."
            )
    return [shard for shard in shards if shard.samples]


def _content(index: str, storage: StorageOptionsLike) -> str:
    with closing(open_file(index, storage)) as file:
        return file.read(0, file.size).decode()


def _found(files: list[ShardT], storage: StorageOptionsLike) -> ShardT:
    """Return the description of a shard with the file that exists.

    If several exist, it is the one that is not compressed, on this machine, and the one that the
    index names, in a store, where to look for a file takes time.

    Raises:
        FileNotFoundError: none exists. Its file name is that of the file that the index names.
    """
    named = files[0].path
    for shard in files if is_remote(named) else reversed(files):
        with suppress(FileNotFoundError):
            return shard.found(stamp_of(shard.path, storage))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), named)


def file_in(folder: str, name: str) -> str:
    """Return the path or URL of a file that an index names.

    Args:
        folder: path or URL of the folder of the index.
        name: name of the file in the index.

    Raises:
        ValueError: the name leads out of a folder in a store.
    """
    if is_remote(folder) and not stays_inside(name):
        damaged(f"it names the file {short_repr(name)}, which is not in its folder")
    return in_folder(folder, name)


def value_of(values: Any, name: str, kind: type, where: str = "it") -> Any:
    """Return an item of a dict in the index.

    Args:
        values: the dict.
        name: name of the item.
        kind: the class that the item must have.
        where: part of the index to which the dict belongs, for the message.

    Raises:
        ValueError: `values` is not a dict, has no such item, or one of another class.
    """
    if not isinstance(values, dict) or name not in values:
        damaged(f"{where} has no {short_repr(name)}")
    if type(values[name]) is not kind:
        damaged(
            f"{where} has {name}={short_repr(values[name])}, which is not of type {kind.__name__}"
        )
    return values[name]


def number_of(values: Any, name: str, where: str) -> int:
    """Return an integer of at least 0 from a dict in the index; ValueError if there is none.

    Arguments as for `value_of`.
    """
    number: int = value_of(values, name, int, where)
    if number < 0:
        damaged(f"{where} has {name}={number}, which is negative")
    return number
