"""Source of the integers of an arithmetic progression. They are computed, not stored."""

from __future__ import annotations

from typing import Any, ClassVar, SupportsIndex

import numpy as np

from .facts import SourceFacts
from .keys import Keys, check_key, check_keys

_LIMIT = 2**63


class RangeDataSource:
    """Integers of `range(start, stop, step)` as records. `RangeDataSource(stop)` starts at 0.

    Args:
        start: first integer. If `stop` is not passed, this is `stop`, and the first integer is 0.
        stop: end of the range; `stop` itself is not a record.
        step: difference between two consecutive records, not 0. Default 1.

    Raises:
        ValueError: the range is empty, `step` is 0, or an integer does not fit 64 bits.
        TypeError: an argument is not an integer.

    >>> source = RangeDataSource(10, 20, 3)
    >>> len(source), source[1], source.__getitems__([3, 0])
    (4, 13, [19, 10])
    """

    facts: ClassVar[SourceFacts] = SourceFacts(array_keys=True, checks_keys=True, reads_ahead=False)

    def __init__(self, start: int, stop: int | None = None, step: int = 1) -> None:
        self._range = range(0, start, step) if stop is None else range(start, stop, step)
        if not self._range:
            self._take_empty()
        elif not all(-_LIMIT <= end < _LIMIT for end in (self._range[0], self._range[-1], step)):
            raise ValueError(
                f"RangeDataSource: {self._range} does not fit 64-bit integers. Pass numbers nearer "
                "to 0."
            )

    def _take_empty(self) -> None:
        raise ValueError(
            f"RangeDataSource: {self._range} is empty. Pass a range of at least one number."
        )

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, key: SupportsIndex) -> int:
        return self._range[check_key(key, len(self._range), "RangeDataSource")]

    def __getitems__(self, keys: Keys) -> list[int]:
        """Return the integers of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
        """
        checked = check_keys(keys, len(self._range), "RangeDataSource")
        values: list[int] = (
            np.int64(self._range.start) + np.int64(self._range.step) * checked
        ).tolist()
        return values

    @property
    def fingerprint(self) -> dict[str, Any]:
        whole = self._range
        return {
            "kind": "RangeDataSource",
            "start": whole.start,
            "stop": whole.stop,
            "step": whole.step,
        }

    def __repr__(self) -> str:
        return f"RangeDataSource({self._range.start}, {self._range.stop}, {self._range.step})"
