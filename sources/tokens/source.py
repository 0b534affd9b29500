"""In: record keys. Out: documents, as slices of one file of tokens that is mapped into memory.

Nothing is read before somebody looks at it, and nothing is copied: a document is a read-only view, and the system's page cache,
which all worker processes share, holds what was read. Sources hold paths and open the files when they are first asked; no
descriptor stays open, so that there may be thousands of sources.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...checks import whole_number
from ...errors import SourceError
from ...files.paths import PathLike, text_of
from ...files.stamps import Stamp, check_open_file, stamp_of
from ...files.storage_options import StorageOptions, StorageOptionsLike, storage_options_of
from ...files.urls import is_remote
from ...wording import brief, shown
from ..closing import ClosesFiles
from ..keys import Keys, check_key, check_keys
from .files import Array, check_offsets, integer_dtype, map_integers, offsets_path
from .remote import RemoteTokens, map_remote

_OFFSETS_LOOKED_AT = 4096
_PIECES_LOOKED_AT = 8
_PIECE = 2048
"""So many offsets, and pieces of so many tokens, tell two sources apart."""


class TokenSource(ClosesFiles):
    """Documents of tokens, as slices of one file that is mapped into memory. Thread-safe, picklable, safe to fork.

    A record is a dict with one read-only array of the file's dtype, `{"tokens": tokens[start:stop]}`; it may be empty.
    Nothing is copied, and the memory that is taken does not grow with the file. `TokenWriter` writes such files; those of
    others can be read, too. A file must not be changed while a source uses it: write new versions under new names.

    Args:
        path: a `.npy` file with an integer array of one axis, or a raw file of integers.
        offsets: where documents begin: n + 1 ascending integers for n documents, of which document k is
            `tokens[offsets[k]:offsets[k + 1]]`. An array, or the path of a `.npy` file; default the file `<path>.offsets`.
        dtype: of a raw file's tokens, such as `np.uint16`. A `.npy` file tells its own.
        document_length: in place of offsets: all documents have so many tokens. What remains at the end is left out.
        name: of the array in the record, default "tokens". None: the record is the array itself.
        storage_options: how a file in a store is reached and kept (docs/how-to/remote-files.md). Its documents are read when
            they are asked for; its offsets are copied into the cache.

    Raises:
        SourceNotFoundError: a file is missing.
        SourceError: a file is empty, cut off or something else; the offsets do not ascend, or go beyond the last token.
        ValueError: `offsets` and `document_length` are both given, or `document_length` is less than 1.
        TypeError: a path is no path, `dtype` no integer type, `name` no string, or `offsets` no integers.

    >>> import pathlib, tempfile
    >>> from millrace import TokenWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.npy")
    ...     with TokenWriter(path, dtype=np.uint16) as writer:
    ...         writer.extend([[1, 2, 3], [4, 5]])
    ...     with TokenSource(path) as source:
    ...         print(source[1], source.lengths)
    {'tokens': array([4, 5], dtype=uint16)} {'tokens': array([3, 2])}
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    _path: str
    _documents: str | int | Array
    """The path of the offsets, the length of a document, or the offsets."""
    _dtype: np.dtype[Any] | None
    _name: str | None
    _stamps: dict[str, Stamp]
    _length: int
    _storage: StorageOptions
    _mapped: tuple[Array | RemoteTokens, Array] | None
    """Tokens and offsets, once they are mapped. One value, so that threads see both or none."""

    def __init__(
        self,
        path: PathLike,
        offsets: PathLike | npt.ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        document_length: int | None = None,
        name: str | None = "tokens",
        storage_options: StorageOptionsLike = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name={shown(name)} must be a string, or None for records that are bare arrays.")
        self._path, self._name = text_of(path), name
        self._dtype = None if dtype is None else integer_dtype(dtype)
        self._documents = _documents(self._path, offsets, document_length)
        self._storage, self._stamps = storage_options_of(storage_options), {}
        self._mapped = tokens, found = self._map()
        files = [file for file in (self._path, self._documents) if isinstance(file, str)]
        self._stamps = {file: stamp_of(file, self._storage) for file in files}
        _check(self._path, self._documents, len(tokens), found)
        self._length = len(found) - 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: SupportsIndex) -> Any:
        checked = check_key(key, self._length, "TokenSource")
        return self.__getitems__(np.array([checked], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[Any]:
        """The documents of `keys`, in their order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file was changed; the message names it.
        """
        checked = check_keys(keys, self._length, "TokenSource")
        tokens, offsets = self._open()
        # A page that is no longer in the file would end the process (SIGBUS): this is the last moment for an error.
        self._check_unchanged()
        starts, stops, name = offsets[checked].tolist(), offsets[checked + 1].tolist(), self._name
        if isinstance(tokens, RemoteTokens):
            read = tokens.many(starts, stops)
            return list(read) if name is None else [{name: document} for document in read]
        if name is None:
            return [tokens[start:stop] for start, stop in zip(starts, stops)]
        return [{name: tokens[start:stop]} for start, stop in zip(starts, stops)]

    @property
    def announce(self) -> Callable[[npt.NDArray[np.int64]], None] | None:
        """Takes the keys of documents that will be asked for soon, of a file in a store."""
        return self._announce if is_remote(self._path) else None

    def _announce(self, keys: npt.NDArray[np.int64]) -> None:
        tokens, offsets = self._open()
        if isinstance(tokens, RemoteTokens):
            tokens.prefetch(offsets[keys], offsets[keys + 1])

    @property
    def reads_ahead(self) -> bool:
        """Whether reading takes time: of a mapped file a record is a view, and the disk is read by what looks at it."""
        return is_remote(self._path)

    def _open(self) -> tuple[Array | RemoteTokens, Array]:
        mapped = self._mapped
        if mapped is None:
            self._check_unchanged()
            self._mapped = mapped = self._map()
        return mapped

    def _map(self) -> tuple[Array | RemoteTokens, Array]:
        """Tokens and offsets."""
        tokens: Array | RemoteTokens
        if is_remote(self._path):
            tokens = RemoteTokens(self._path, self._dtype, self._storage, self._stamps.get(self._path))
        else:
            tokens = map_integers(self._path, self._dtype)
        if isinstance(self._documents, int):
            return tokens, np.arange(0, len(tokens) + 1, self._documents)
        return tokens, self._map_offsets(self._documents) if isinstance(self._documents, str) else self._documents

    def _map_offsets(self, path: str) -> Array:
        if is_remote(path):
            return map_remote(path, self._storage, self._stamps.get(path))
        if not os.path.exists(path) and path == offsets_path(self._path):
            raise SourceError(
                f"{brief(self._path)}: where do documents begin? There is no file {brief(path)}, which TokenWriter writes; "
                "pass offsets=, or document_length= for documents of one length."
            )
        return map_integers(path)

    def _check_unchanged(self) -> None:
        for path, stamp in self._stamps.items():
            check_open_file(path, stamp)

    @cached_property
    def lengths(self) -> Any:
        """How many tokens each document has, in the tree of a record: `{"tokens": int64[documents]}`, read-only."""
        lengths = np.diff(self._open()[1]).astype(np.int64, copy=False)
        lengths.flags.writeable = False
        return lengths if self._name is None else {self._name: lengths}

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Documents, tokens, and a digest of dtype, name, some offsets and some tokens: the same wherever the files lie."""
        tokens, offsets = self._open()
        digest = hashlib.sha256(f"{tokens.dtype.str} {self._name!r}".encode())
        digest.update(offsets[_spread(len(offsets), _OFFSETS_LOOKED_AT)].astype("<i8").tobytes())
        for place in _spread(len(tokens), _PIECES_LOOKED_AT).tolist():
            digest.update(_piece(tokens, place).tobytes())
        told = {"records": self._length, "tokens": len(tokens), "content": digest.hexdigest()[:16]}
        return {"kind": "TokenSource", **told}

    def close(self) -> None:
        """Let go of the files; documents that you hold stay readable. The source stays usable: reading opens them again."""
        self._mapped = None

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_path", "_documents", "_dtype", "_name", "_length", "_storage")
        stamps = {path: tuple(stamp) for path, stamp in self._stamps.items()}
        return {**{name: getattr(self, name) for name in kept}, "_stamps": stamps}

    def __setstate__(self, state: dict[str, Any]) -> None:
        stamps = {path: Stamp(*stamp) for path, stamp in state["_stamps"].items()}
        self.__dict__.update(state, _stamps=stamps, _mapped=None)

    def __repr__(self) -> str:
        return f"TokenSource({self._length} documents in {brief(self._path)})"


def _documents(path: str, offsets: Any, document_length: int | None) -> str | int | Array:
    if document_length is None:
        return _offsets(path, offsets)
    if offsets is not None:
        raise ValueError("offsets= and document_length= both say where documents begin; pass one of them.")
    return whole_number("document_length", document_length, 1, None, "a number of tokens, such as 1024")


def _offsets(path: str, offsets: Any) -> str | Array:
    if offsets is None or isinstance(offsets, (str, bytes, os.PathLike)):
        return offsets_path(path) if offsets is None else text_of(offsets)
    array = np.asarray(offsets).view()
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"offsets={shown(offsets)} must be integers with one axis: n + 1 of them for n documents.")
    array.flags.writeable = False
    return array


def _piece(tokens: Array | RemoteTokens, start: int) -> Array:
    stop = min(start + _PIECE, len(tokens))
    return tokens.many([start], [stop])[0] if isinstance(tokens, RemoteTokens) else tokens[start:stop]


def _check(path: str, documents: str | int | Array, tokens: int, offsets: Array) -> None:
    if isinstance(documents, int):
        if tokens < documents:
            raise SourceError(
                f"{brief(path)} has {tokens} tokens, less than one document of document_length={documents}."
            )
        return
    name = brief(documents) if isinstance(documents, str) else f"{brief(path)} with offsets="
    check_offsets(offsets, tokens, name)
    # A writer's own offsets tell of all tokens.
    if isinstance(documents, str) and documents == offsets_path(path) and offsets[-1] != tokens:
        raise SourceError(
            f"{name}: the documents end at token {offsets[-1]}, but there are {tokens} tokens; the two files belong to "
            "different runs. Write both anew."
        )


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of the first `count` places, the first and the last among them."""
    return np.unique(np.arange(most, dtype=np.int64) * (count - 1) // (most - 1)) if count else np.empty(0, np.int64)
