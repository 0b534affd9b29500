"""The rows of a `.npy` file, as a source. In: row numbers. Out: arrays, without the first axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import SourceError
from ...wording import brief


class NpyRows:
    """The rows of an array that lies in a file, which is mapped.

    Raises:
        SourceError: the file is no `.npy` file, is cut off, or has a bare number or Python objects.
    """

    array_keys = True

    def __init__(self, path: str) -> None:
        try:
            self._array: npt.NDArray[Any] = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise SourceError(f"{brief(path)} cannot be read as .npy: {brief(error)}") from error
        if not self._array.ndim:
            raise SourceError(f"{brief(path)} holds one number and no rows.")

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, key: int) -> Any:
        return np.array(self._array[key])

    def __getitems__(self, keys: npt.NDArray[np.int64]) -> list[Any]:
        """The rows of some keys, copied."""
        return list(np.asarray(self._array[keys]))
