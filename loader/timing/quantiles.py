"""Quantiles of the last times: of the last waits, and of the last tasks of each stage.

In: arrays of seconds. Out: `Quantiles`. The quantiles are exact, because the last 1,000 waits and
the last 2,000 tasks are kept for other purposes anyway. Older times do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Chosen: minutes of slow steps, in 8 kB.
WINDOW = 1000
"""Number of waits that are kept."""


class Quantiles(NamedTuple):
    """Quantiles of some times, in seconds.

    Attributes:
        p50: median.
        p95: 95 % of the times are not longer.
        p99: 99 % of the times are not longer.
        longest: the longest time.
        number: number of times.
    """

    p50: float
    p95: float
    p99: float
    longest: float
    number: int


def quantiles_of(seconds: ArrayLike) -> Quantiles:
    """Return the quantiles of times; all are 0 if there are no times.

    Each quantile is one of the times, not a mean of two times.

    >>> quantiles_of([0.1] * 98 + [0.5, 2.0])
    Quantiles(p50=0.1, p95=0.1, p99=0.5, longest=2.0, number=100)
    """
    times = np.sort(np.asarray(seconds, np.float64))
    if not times.size:
        return Quantiles(0.0, 0.0, 0.0, 0.0, 0)
    places = np.ceil(np.array([0.5, 0.95, 0.99, 1.0]) * times.size).astype(np.int64) - 1
    p50, p95, p99, longest = times[places].tolist()
    return Quantiles(p50, p95, p99, longest, times.size)


def as_plain(quantiles: Iterable[tuple[str, Quantiles]]) -> dict[str, dict[str, float]]:
    """Convert pairs (name, quantiles) to a dict of dicts for JSON, by name and by field."""
    return {name: found._asdict() for name, found in quantiles}
