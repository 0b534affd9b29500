"""The rows of a `.npy` file, as a source. In: row numbers. Out: arrays, without the first axis; or pieces of one length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import shorten
from ...errors import ConversionError, SourceError
from ...files.opened import local_copy
from ...files.storage_options import StorageOptions
from ...sources.tokens.files import map_npy


class NpyRows:
    """The rows of an array that lies in a file, which is mapped.

    Args:
        path: of the file.
        storage: how a file in a store is reached.

    Raises:
        SourceError: the file is no `.npy` file, is cut off, or has a bare number or Python objects.

    Attributes:
        columns: the array.
    """

    array_keys = True
    columns: npt.NDArray[Any]

    def __init__(self, path: str, storage: StorageOptions) -> None:
        with local_copy(path, storage) as copy:
            self.columns = map_npy(copy, path)
        if not self.columns.ndim:
            raise SourceError(f"{shorten(path)} holds one number and no rows.")

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, key: int) -> Any:
        return np.array(self.columns[key])

    def __getitems__(self, keys: npt.NDArray[np.int64]) -> list[Any]:
        return list(np.asarray(self.columns[keys]))


class NpyPieces:
    """An array of one axis in pieces of one length; the last one may be shorter.

    Args:
        path: of the file.
        array: what is in it.
        length: of a piece.

    Raises:
        ConversionError: the array has several axes.
    """

    def __init__(self, path: str, array: npt.NDArray[Any], length: int) -> None:
        if array.ndim != 1:
            raise ConversionError(
                f"{shorten(path)} has an array of shape {array.shape}, whose rows are documents; leave document_length out."
            )
        self._array, self._length = array, length

    def __len__(self) -> int:
        return -(-len(self._array) // self._length)

    def __getitem__(self, key: int) -> Any:
        return np.array(self._array[key * self._length : (key + 1) * self._length])
