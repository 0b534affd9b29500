"""The `index.json` of a folder of shards.

In: a folder. Out: the shards that its index describes, after a check of the sizes of their files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ...common.messages import remedy_for, short_repr, shorten
from ...errors import SourceError, SourceNotFoundError
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


ShardT = TypeVar("ShardT", bound=IndexedShard)


def read_index(folder: str, format_name: str, writer: str, parse: Callable[[Any], list[ShardT]]) -> list[ShardT]:
    """Read the index of a folder of shards, and return the shards that have samples.

    Args:
        folder: the folder.
        format_name: the format that the index must have, for messages.
        writer: what writes such folders, for messages.
        parse: takes the content of the index, and returns its shards. It raises a ValueError for an index of another format.

    Raises:
        SourceNotFoundError: the folder has no `index.json`, or a shard is missing.
        SourceError: the index is not JSON or cannot be read; `parse` raised a ValueError; or a shard has another size than the
            index says.
    """
    index = os.path.join(folder, INDEX)
    try:
        with open(index, encoding="utf-8") as file:
            shards = parse(json.load(file))
        sizes = [os.stat(shard.path).st_size for shard in shards]
    except FileNotFoundError as error:
        missing = error.filename or index
        raise SourceNotFoundError(
            f"{shorten(missing)} does not exist on this machine. Pass a folder with an {INDEX} and all shards that it names, "
            "and copy remote files first."
        ) from None
    except OSError as error:
        raise SourceError(
            f"{shorten(error.filename or index)} cannot be read: {shorten(error.strerror)}. "
            f"{remedy_for(error, 'Pass a folder that has an index.json, and check its permissions')}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{shorten(index)} is not the index of {format_name}: {shorten(error)}. Pass a folder that {writer} has written."
        ) from error
    for shard, size in zip(shards, sizes):
        if shard.file_bytes not in (None, size):
            raise SourceError(
                f"{shorten(shard.path)} has {size:,} bytes, but {INDEX} says {shard.file_bytes:,}. It was cut or changed: "
                "copy it again, or write it again."
            )
    return [shard for shard in shards if shard.samples]


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
        damaged(f"{where} has {name}={short_repr(values[name])}, which is not of type {kind.__name__}")
    return values[name]


def number_of(values: Any, name: str, where: str) -> int:
    """Return an integer of at least 0 from a dict in the index; ValueError if there is none. Arguments as for `value_of`."""
    number: int = value_of(values, name, int, where)
    if number < 0:
        damaged(f"{where} has {name}={number}, which is negative")
    return number
