"""Divide the records of input files among shards."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

import numpy as np

from ..common.messages import first_few, shorten
from ..errors import ConversionError
from ..files.urls import is_remote, name_of, stays_inside
from ..sources.growing.conversion_folder import WORKPLACE
from .inputs.formats import split_name
from .job import InputPart, Shard


def shard_for_shard(names: Sequence[str], suffix: str) -> list[Shard]:
    """Return one shard for each input file, named like it.

    Folders that all files have in common are left out.

    Args:
        names: paths or URLs of the input files.
        suffix: suffix of the shards.

    Raises:
        ConversionError: two files would have the same name; a file would lie in the folder that a
            conversion works in, or outside of the target; or some input files are in a store, and
            others on this machine.

    >>> files = ["in/a/x.tfrecord.gz", "in/b/x.tfrecord-0-of-2"]
    >>> [shard.name for shard in shard_for_shard(files, ".array_record")]
    ['a/x.array_record', 'b/x-0-of-2.array_record']
    """
    folders = {
        name: os.path.dirname(name if is_remote(name) else os.path.abspath(name)) for name in names
    }
    common = _common(folders)
    shards: dict[str, Shard] = {}
    for name, folder in folders.items():
        place = os.path.relpath(folder, common)
        stem, _, number = split_name(name_of(name))
        shard = posixpath.normpath(posixpath.join(*place.split(os.sep), f"{stem}{number}{suffix}"))
        if shard.partition("/")[0] == WORKPLACE:
            raise ConversionError(
                f"{shorten(name)} would be converted to {shorten(shard)}, a name that the "
                "conversion itself uses. Pass a number of files to write, such as shards=8, so "
                "that headrace names them. Or convert this file separately, to another target."
            )
        if not stays_inside(shard):
            raise ConversionError(
                f"{shorten(name)} would be converted to {shorten(shard)}, outside of the target. "
                "Rename the file."
            )
        if shard in shards:
            raise ConversionError(
                f"{shorten(name)} and {shorten(shards[shard].parts[0].name)} would both be "
                f"converted to {shorten(shard)}. Pass a number of files to write, such as "
                "shards=8, so that headrace names them. Or convert the two files separately, to "
                "two targets."
            )
        shards[shard] = Shard(shard, (InputPart(name),))
    return list(shards.values())


def _common(folders: Mapping[str, str]) -> str:
    try:
        return os.path.commonpath(folders.values())
    except ValueError:
        raise ConversionError(
            f"{first_few(list(folders))}: some files are in an object store and some on this "
            "machine, so they have no common folder. Pass a number of files to write, such as "
            "shards=8. Or convert the two groups separately, to two targets."
        ) from None


def divided(counts: Mapping[str, int], shards: int, stem: str, suffix: str) -> list[Shard]:
    """Divide records into shards of about equal size, in the order of the files.

    Args:
        counts: number of records of each input file, by name.
        shards: number of shards.
        stem: beginning of the shards' names.
        suffix: end of the shards' names.

    Raises:
        ConversionError: there are fewer records than shards.

    >>> for shard in divided({"a": 3, "b": 2}, 2, "data", ".parquet"):
    ...     print(shard.name, [(part.name, part.start, part.stop) for part in shard.parts])
    data-00000-of-00002.parquet [('a', 0, 2)]
    data-00001-of-00002.parquet [('a', 2, None), ('b', 0, None)]
    """
    total = sum(counts.values())
    if total < shards:
        raise ConversionError(
            f"{first_few(list(counts))}: shards={shards} is more than the {total} records. Pass a "
            "smaller number of shards, or a source with more records."
        )
    bounds = [total * number // shards for number in range(shards + 1)]
    names = [f"{stem}-{number:05}-of-{shards:05}{suffix}" for number in range(shards)]
    return [Shard(name, _between(counts, *ends)) for name, *ends in zip(names, bounds, bounds[1:])]


def _between(counts: Mapping[str, int], start: int, stop: int) -> tuple[InputPart, ...]:
    """Return the parts of files that contain the records `[start, stop)`, numbered over all files.

    Args:
        counts: number of records of each file, by name.
        start: first record.
        stop: record after the last one.
    """
    ends = np.cumsum(list(counts.values())).tolist()
    parts = []
    for (name, count), end in zip(counts.items(), ends):
        first, last = max(start - (end - count), 0), min(stop - (end - count), count)
        if first < last:
            parts.append(
                InputPart(name, first, None if last == count else last, (last - first) / count)
            )
    return tuple(parts)
