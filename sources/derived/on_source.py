"""Base of sources that are made of another one: it passes on how records are announced and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..protocol import DataSource, reader_of, reads_singly

Int64s = npt.NDArray[np.int64]


class OnSource:
    """Base of sources whose records are made of those of another source."""

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    source: DataSource[Any]

    @cached_property
    def _read(self) -> Callable[[Int64s], Sequence[Any]]:
        return reader_of(self.source)

    def _records_of(self, keys: Int64s) -> Int64s:
        """The records of the source that some of this one's are made of."""
        raise NotImplementedError

    @property
    def announce(self) -> Callable[[Int64s], None] | None:
        """Takes keys that will be asked for soon, where the source wants to know them."""
        announce = getattr(self.source, "announce", None)
        return None if announce is None else lambda keys: announce(self._records_of(keys))

    @property
    def reads_ahead(self) -> Any:
        """As many reads at a time as of the source."""
        return getattr(self.source, "reads_ahead", True)

    @property
    def reads_singly(self) -> bool:
        """True if the source is read record by record."""
        return reads_singly(self.source)
