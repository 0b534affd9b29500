"""Source of the samples of tar files in the layout of webdataset. Nothing is unpacked to disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...common.messages import first_few, short_repr, shorten
from ...errors import LengthsError, SourceError
from ...files.opened import OpenFile
from ...files.paths import Paths, path_list, text_of
from ...files.streams import stream_of
from ...formats.index import Arrays, FoundRecords, Index, IndexKind, ascends, lie_in
from ...formats.tar import read_members, read_samples
from ...formats.tar_indices import members_from_index, shards_of
from ...formats.tar_links import Member
from .source import IndexedSource, Ranges


def _find(file: OpenFile) -> FoundRecords:
    members: Iterable[Member | None] | None = members_from_index(file)
    with stream_of(file) as stream:
        members = read_members(stream, file.path, contents=False) if members is None else members
        samples = list(read_samples(members, file.path))
    parts = list(chain.from_iterable(samples))
    words = {
        extension: number
        for number, extension in enumerate(dict.fromkeys(part.extension for part in parts))
    }
    keys = [sample[0].key.encode("utf-8", "surrogateescape") for sample in samples]
    arrays: Arrays = {
        "firsts": np.cumsum([0, *map(len, samples)], dtype=np.int64),
        "offsets": np.array([part.member.offset for part in parts], np.int64),
        "sizes": np.array([part.member.size for part in parts], np.int64),
        "extensions": np.array([words[part.extension] for part in parts], np.int32),
        "keys": np.frombuffer(b"".join(keys), np.uint8),
        "key_starts": np.cumsum([0, *map(len, keys)], dtype=np.int64),
    }
    return FoundRecords(len(samples), arrays, tuple(words))


_LAYOUT = {
    "firsts": ("<i8", ()),
    "offsets": ("<i8", ()),
    "sizes": ("<i8", ()),
    "extensions": ("<i4", ()),
    "keys": ("|u1", ()),
    "key_starts": ("<i8", ()),
}


_BETWEEN_MEMBERS = 1 << 15
"""Maximum bytes between two consecutive members of a sample, for headers and padding.

If the gap is larger, one of the members is a link to another place.
"""


def _fits(found: FoundRecords, size: int) -> bool:
    arrays = found.arrays
    numbers, parts = arrays["extensions"], len(arrays["offsets"])
    return (
        len(numbers) == parts
        and lie_in(arrays["offsets"], arrays["sizes"], size)
        and ascends(arrays["firsts"], found.count + 1, parts, 1)
        and ascends(arrays["key_starts"], found.count + 1, len(arrays["keys"]))
        and numbers.min(initial=0) >= 0
        and numbers.max(initial=-1) < len(found.words)
    )


class TarDataSource(IndexedSource[dict[str, Any]]):
    """Samples of tar files in the layout of webdataset, with random access.

    Thread-safe, picklable, safe to fork.

    Consecutive members with the same key are one sample: `a/1.jpg` and `a/1.cls` become
    `{"__key__": "a/1", "jpg": bytes, "cls": bytes}`. A member that is a hard or symbolic link has
    the content of the file in the archive to which it leads. Nothing is unpacked to disk.

    Each file is read once to find its samples. Their places are stored beside the file, as
    `<file>.headrace-index`; or in the user's cache folder, if the file is in a store or its folder
    is read-only. An index of another program makes this pass unnecessary: `<name>.idx` (DALI's
    `wds2idx`), or `<name>.json` with the offset and size of each member. It is used if there are
    member headers at its offsets.

    Args:
        paths: a path, a glob, a directory (its `*.tar` files, at any depth), or a list of these.
            Files of a glob or directory are sorted by path; a list keeps its order. Names in a
            directory that begin with `.` or `_` are left out. A path that ends in `.json` is a list
            of tar files (webdataset's `wids` format).
        index_dir: folder for the indices. Default: beside the files.
        max_open_files: maximum number of open files of this source. Default: all sources of a
            process together keep a quarter of the process's limit open (16 to 256).
        storage_options: how files in a store (`s3://…`) are reached and cached; see
            `docs/how-to/remote-files.md`.
        growing: False (default), True, or a folder. If not False, more files may be added later.
            Each list of files is a numbered generation, which is recorded in
            `.headrace-generations` beside the data, or in this folder if one is passed; see
            `docs/how-to/data-that-changes.md`.
        generation: number of the generation to read, from 0. The source then does not look for
            newer files.

    Raises:
        SourceNotFoundError: a path matches no file.
        SourceError: a file is empty, cut off, compressed, damaged or not tar; it has sparse
            members; it has links that lead out of the archive, to a missing member, or in a circle;
            a sample has two members of one name; there are no samples; or a file has another number
            of samples than its list of files states.
        ValueError: `paths` is an empty list, or `max_open_files` is less than 1.
        TypeError: a path is neither a string nor a `pathlib.Path`, or `max_open_files` is not an
            integer.

    >>> import io, pathlib, tarfile, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.tar")
    ...     with tarfile.open(path, "w") as tar:
    ...         for name, content in {"1.txt": b"one", "1.cls": b"7"}.items():
    ...             info = tarfile.TarInfo(name)
    ...             info.size = len(content)
    ...             tar.addfile(info, io.BytesIO(content))
    ...     with TarDataSource(path) as source:
    ...         print(source[0])
    {'__key__': '1', 'txt': b'one', 'cls': b'7'}
    """

    index_kind: ClassVar[IndexKind] = IndexKind("tar of members and links", _find, _LAYOUT, _fits)
    patterns: ClassVar[tuple[str, ...]] = ("*.tar",)
    _stated_counts: Mapping[str, int | None] = MappingProxyType({})
    """Number of samples of each file in a list of files, by path; None where it states none."""

    def _named(self, paths: Paths) -> Paths:
        named = path_list(paths)
        lists = [text_of(path) for path in named if text_of(path).endswith(".json")]
        if not lists:
            return paths
        shards = {path: shards_of(path, self._storage) for path in lists}
        self._stated_counts = {
            shard.path: shard.samples for some in shards.values() for shard in some
        }
        return [
            file
            for path in named
            for file in (
                [shard.path for shard in shards[text_of(path)]]
                if text_of(path) in shards
                else [path]
            )
        ]

    def _check_count(self, path: str, count: int) -> None:
        stated = self._stated_counts.get(path)
        if stated is not None and stated != count:
            raise SourceError(
                f"{shorten(path)} has {count} samples, but the list of files says {stated}. Write "
                "the list again, or pass the tar files instead of the list."
            )

    def _ranges(self, index: Index, places: npt.NDArray[np.int64]) -> Ranges:
        """Return two arrays `int64[n]`: offset and length, in the file, of each sample's bytes.

        If a member is a link, the length is the sum of the sizes of the members, but ends with the
        file's last member.

        Args:
            index: index of the file.
            places: indices of the samples in the file.
        """
        arrays = index.arrays
        first, last = arrays["firsts"][places], arrays["firsts"][places + 1] - 1
        starts, ends = arrays["offsets"], arrays["offsets"] + arrays["sizes"]
        spans = ends[last] - starts[first]
        before = np.concatenate([[0], np.cumsum(arrays["sizes"])])
        wanted = before[last + 1] - before[first]
        linked = (spans < wanted) | (spans > wanted + _BETWEEN_MEMBERS * (last - first))
        sizes = np.where(linked, np.minimum(wanted, ends.max(initial=0) - starts[first]), spans)
        return starts[first], sizes

    def _lengths_in(self, number: int, name: str) -> npt.NDArray[np.int64]:
        """Return the size of member `name` in each sample of a file, `int64[samples]`.

        `name` is an extension. The sizes come from the index.

        Args:
            number: index of the file.
            name: the extension, such as "jpg".

        Raises:
            LengthsError: a sample has no such member.
        """
        index, first = self._index(number), int(self._ends[number - 1]) if number else 0
        arrays = index.arrays
        own = arrays["extensions"] == (index.words.index(name) if name in index.words else -1)
        there = np.add.reduceat(own, arrays["firsts"][:-1], dtype=np.int64)
        if not there.all():
            record, members = first + int(np.argmin(there)), first_few(index.words, 8)
            raise LengthsError(
                f"record {record} has no member with the extension {short_repr(name)}. Name an "
                f"extension that all samples have. Samples of this file have {members}."
            )
        return np.add.reduceat(
            np.where(own, arrays["sizes"], 0), arrays["firsts"][:-1], dtype=np.int64
        )

    def _note(self, number: int, place: int) -> str:
        return f"key {_key(self._index(number).arrays, place)}"

    def _read(
        self, file: OpenFile, index: Index, places: npt.NDArray[np.int64]
    ) -> list[dict[str, Any]]:
        arrays, words = index.arrays, index.words
        ends = arrays["firsts"][places + 1]
        members = [
            np.arange(first, end)
            for first, end in zip(arrays["firsts"][places].tolist(), ends.tolist())
        ]
        every = np.concatenate(members)
        contents = file.read_many(arrays["offsets"][every], arrays["sizes"][every])
        named = zip((words[number] for number in arrays["extensions"][every].tolist()), contents)
        return [
            {"__key__": _key(arrays, place), **dict(islice(named, len(some)))}
            for place, some in zip(places.tolist(), members)
        ]


def _key(arrays: Arrays, place: int) -> str:
    start, end = arrays["key_starts"][place : place + 2].tolist()
    return arrays["keys"][start:end].tobytes().decode("utf-8", "surrogateescape")
