"""Source of the rows of Zarr arrays, of format 2 or 3.

Format: https://zarr-specs.readthedocs.io/.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...common.lazy_exports import optional_library
from ...common.messages import a_kind_of, remedy_for, shorten
from ...errors import SourceError, SourceNotFoundError
from ...files.paths import PathLike, text_of
from .chunked import ChunkedSource


class ZarrSource(ChunkedSource):
    """Rows of one or several Zarr arrays, of format 2 or 3. Thread-safe, picklable.

    Row k of an array of shape `(n, …)` is a NumPy array, a scalar, or `str` for text. One call of
    `__getitems__`, mostly for a batch, reads each chunk at most once. With `BlockShuffle(block=…)`,
    blocks of whole chunks, and windows of blocks that fit into `cache_bytes`, a process reads each
    chunk at most once in an epoch.

    Args:
        path: a folder, a file whose name ends with .zip, or a URL that Zarr accepts, such as
            `s3://…`. It has an array or a group of arrays.
        arrays: for a group, name of an array, such as "train/images": its rows are the records. Or
            a list of names of arrays of equal length: a record is a dict with the row of each. None
            (default): a dict of all arrays in the group; for a single array, its rows.
        storage_options: options that are passed to Zarr's store, for URLs.
        cache_bytes: maximum size of the chunks that a process keeps in memory, in bytes (default 64
            MiB).

    Raises:
        SourceNotFoundError: there is neither an array nor a group.
        SourceError: it cannot be read.
        NoRecordsError: there are no rows.
        ValueError: a name is not an array of the group, the list of names is empty, an array is a
            single value, the arrays have unequal lengths, or `cache_bytes` is less than 1.
        TypeError: `path` is not a path.
        MissingExtraError: Zarr is not installed.

    Example (needs `zarr`):
        `ZarrSource("train.zarr", ["image", "label"])[0]` is a dict with these two keys.
    """

    def __init__(
        self,
        path: PathLike,
        arrays: str | Sequence[str] | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        cache_bytes: int = 64 << 20,
    ) -> None:
        self._storage = None if storage_options is None else dict(storage_options)
        super().__init__(text_of(path), arrays, cache_bytes)
        if arrays is None and self._names == ("",):
            self._one = ""

    @classmethod
    def of(cls, opened: Any) -> ZarrSource:
        """Return the source of an open Zarr array or group in a folder. It opens the folder again.

        Raises:
            TypeError: the array or group is not in a folder, but in memory for example.
        """
        from zarr.storage import LocalStore

        if not isinstance(opened.store, LocalStore):
            raise TypeError(
                f"{a_kind_of(opened)} of Zarr in {a_kind_of(opened.store)} cannot be passed, "
                "because workers must open it by a path. Pass headrace.ZarrSource with its folder, "
                ".zip file or URL; or arrays in memory, such as array[:]."
            )
        return cls(os.path.join(str(opened.store.root), opened.path))

    def _opened(self) -> Mapping[str, Any]:
        zarr = optional_library("zarr", "ZarrSource needs Zarr", "zarr")
        try:
            packed = self._path.endswith(".zip") and os.path.isfile(self._path)
            store = zarr.storage.ZipStore(self._path, mode="r") if packed else self._path
            node = zarr.open(store, mode="r", storage_options=self._storage)
        except FileNotFoundError as error:
            raise SourceNotFoundError(
                f"{shorten(self._path)} has neither a Zarr array nor a group. Check the path."
            ) from error
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            otherwise = "Check the path and storage_options=, or write it again"
            raise SourceError(
                f"{shorten(self._path)} cannot be opened as Zarr: {shorten(error)}. "
                f"{remedy_for(error, otherwise) if isinstance(error, OSError) else otherwise}."
            ) from error
        if isinstance(node, zarr.Array):
            return {"": node}
        if not isinstance(node, zarr.Group):
            raise SourceError(
                f"{shorten(self._path)} is {a_kind_of(node)}. Pass a Zarr array or group."
            )
        found = (
            (name, item)
            for name, item in node.members(max_depth=None)
            if isinstance(item, zarr.Array)
        )
        return dict(sorted(found))

    def _content(self) -> Any:
        return [
            (
                name,
                str(self._open()[name].metadata.to_dict().get("attributes")),
                self._open()[name].nchunks,
            )
            for name in self._names
        ]
