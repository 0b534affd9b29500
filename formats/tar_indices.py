"""Indices of tar files that other programs wrote.

They give the places of members without reading the whole file.

DALI's `wds2idx` writes `<name>.idx` beside `<name>.tar`: a line `v1.2 <samples>`, and a line for
each sample with `extension offset size name` of its members. Others write `<name>.json`: `{"files":
{name: {"offset": …, "size": …}}}`. A shard list of webdataset (`wids`), i.e. a list of tar files,
is JSON, too: `{"shardlist": [{"url": …, "nsamples": …}, …]}`.

An index is used if there are member headers at its places, and the end mark after the last one.
Formats: https://docs.nvidia.com/deeplearning/dali (wds2idx),
https://github.com/webdataset/webdataset (wids).
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..common.messages import short_repr, shorten
from ..errors import SourceError
from ..files.opened import OpenFile, open_file
from ..files.storage_options import StorageOptionsLike
from ..files.urls import is_remote
from .tar import sample_name
from .tar_blocks import BLOCK
from .tar_links import Member

MOST_CHECKED = 64
"""Number of headers that are checked, if a file has as many members.

At most twice as many, and the last one.
"""

_MOST_BYTES = 1 << 30
"""Maximum size of an index in bytes. A larger file of this name is something else."""


class TarShard(NamedTuple):
    """Tar file in a shard list: its path or URL, and its number of samples.

    The number is None if the list does not state it.
    """

    path: str
    samples: int | None


def members_from_index(file: OpenFile) -> list[Member] | None:
    """Return the members of a tar file from an index beside it.

    Return None if there is no index, or it does not match the file.
    """
    for suffix, parsed in ((".idx", _of_dali), (".json", _of_json)):
        content = _content_of(file.path.removesuffix(".tar") + suffix, file.storage_options)
        if content is not None:
            try:
                members = sorted(parsed(content), key=lambda member: member.offset)
            except (
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                RecursionError,
            ):  # something else of this name
                continue
            if members and _fit(file, members):
                return members
    return None


def shards_of(path: str, storage_options: StorageOptionsLike = None) -> list[TarShard]:
    """Return the tar files in a shard list.

    Relative names are resolved against the folder of the list.

    Raises:
        SourceError: the list cannot be read, or is not a shard list.
    """
    file = open_file(path, storage_options)
    try:
        content = file.read(0, file.size)
    finally:
        file.close()
    try:
        return [_shard(path, shard) for shard in json.loads(content)["shardlist"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise SourceError(
            f'{shorten(path)} is not a list of tar files as webdataset writes them, {{"shardlist": '
            '[{"url": …, "nsamples": …}, …]}. Correct the list, or pass the tar files. To read '
            "JSON lines, use "
            "headrace.JsonLinesDataSource."
        ) from None


def _shard(path: str, told: dict[str, Any]) -> TarShard:
    url, samples = told["url"], told.get("nsamples")
    if not isinstance(url, str) or not isinstance(samples, int | None):
        raise TypeError(
            'each shard in the list must be a dict with a string as "url" and an integer as '
            f'"nsamples", not {short_repr(told)}'
        )
    folder = path.replace("\\", "/").rpartition("/")
    whole = is_remote(url) or url.startswith("/")
    return TarShard(url if whole else folder[0] + folder[1] + url, samples)


def _content_of(path: str, storage_options: StorageOptionsLike) -> bytes | None:
    try:
        file = open_file(path, storage_options)
    except SourceError:
        return None
    try:
        return file.read(0, file.size) if file.size <= _MOST_BYTES else None
    finally:
        file.close()


def _of_dali(content: bytes) -> Iterator[Member]:
    version, *lines = content.decode().split("\n")
    if version.split() != ["v1.2", str(sum(map(bool, lines)))]:
        raise ValueError(
            "the first line of the .idx file must have v1.2 and the number of the other lines"
        )
    for line in filter(None, lines):
        words = line.split(" ")
        if len(words) % 4:  # a name has spaces
            raise ValueError(
                "a line of the .idx file must have 4 words for each member, but one has "
                f"{len(words)}: the name of a member contains a space"
            )
        for offset, size, name in zip(words[1::4], words[2::4], words[3::4]):
            yield Member(name, int(offset), int(size), b"")


def _of_json(content: bytes) -> Iterator[Member]:
    for name, told in json.loads(content)["files"].items():
        size = told["size"] if "size" in told else told["length"]
        if sample_name(name) is not None:
            yield Member(name, int(told["offset"]), int(size), b"")


def _fit(file: OpenFile, members: list[Member]) -> bool:
    """Return True if some headers, and the end mark, are where the list of members says."""
    last = members[-1]
    end = last.offset + last.size + -last.size % BLOCK
    if members[0].offset < BLOCK or end > file.size or any(member.size < 0 for member in members):
        return False
    step = max(len(members) // MOST_CHECKED, 1)
    checked = [*members[::step], last]
    after = min(BLOCK, file.size - end)
    *headers, mark = file.read_many(
        [*(member.offset - BLOCK for member in checked), end], [*(BLOCK for _ in checked), after]
    )
    return not any(mark) and all(map(_is_header_of, headers, checked))


def _is_header_of(block: bytes, member: Member) -> bool:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return header.isreg() and header.size == member.size  # of a long name there is but a part
