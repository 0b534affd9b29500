"""Show the progress of a conversion: as a bar on a terminal, otherwise as a line every ten seconds.

Both show shards, records and their rate, the share of the input that was read, and the remaining
time.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Self, TextIO

from tqdm import tqdm

LINE_SECONDS = 10.0


class ConversionProgress:
    """Context manager that shows the progress of a conversion.

    Args:
        shards: number of shards to make, and number of all shards.
        total: size of the input of the shards to make, in `unit`s.
        unit: "B" (bytes) or "records".
        shown: False: show nothing.
        to: where to write. None (default): standard error.
    """

    def __init__(
        self,
        shards: tuple[int, int],
        total: float,
        unit: str,
        shown: bool,
        to: TextIO | None = None,
    ) -> None:
        self._left, self._shards = shards
        self._total, self._unit, self._shown, self._to = total, unit, shown, to or sys.stderr
        self._records, self._weight = 0, 0.0
        self._began = self._last_line = time.monotonic()
        self._bar: Any = None
        if shown and self._to.isatty():
            scaled = {"unit": unit if unit == "B" else " records", "unit_scale": True}
            self._bar = tqdm(
                total=total, file=self._to, desc=self._shards_done(), smoothing=0.05, **scaled
            )

    def advance(self, records: int, weight: float) -> None:
        """Show more progress: `records` were written, from input of size `weight` in `unit`s."""
        self._records += records
        self._weight += weight
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(weight)
            self._bar.set_postfix_str(self._rate(now), refresh=False)
        elif self._shown and now >= self._last_line + LINE_SECONDS:
            self._last_line = now
            self._print(now)

    def shard_done(self) -> None:
        self._left -= 1
        if self._bar is not None:
            self._bar.set_description(self._shards_done())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown and kind is None:
            self._print(time.monotonic())

    def _shards_done(self) -> str:
        return f"{self._shards - self._left}/{self._shards} shards"

    def _rate(self, now: float) -> str:
        return f"{self._records:,} records, {self._records / max(now - self._began, 1e-9):,.0f}/s"

    def _print(self, now: float) -> None:
        read, total = (_amount(value, self._unit) for value in (self._weight, self._total))
        left = ""
        if self._left and self._weight:
            seconds = (now - self._began) * (self._total - self._weight) / self._weight
            left = f", {tqdm.format_interval(max(seconds, 0))} left"
        line = f"{self._shards_done()}, {self._rate(now)}, {read} of {total} read{left}"
        print(line, file=self._to, flush=True)


def _amount(value: float, unit: str) -> str:
    """Format a number of bytes or records.

    >>> _amount(1_500_000, "B"), _amount(1_500_000, "records")
    ('1.50MB', '1,500,000 records')
    """
    return f"{tqdm.format_sizeof(value)}B" if unit == "B" else f"{value:,.0f} {unit}"
