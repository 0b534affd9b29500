"""Find the iterator, the statistics, and the counts and times of a user's loop.

A loop is the object over which the user iterates: an iterator of headrace or a device feeder, each
perhaps wrapped by `progress`, or an object that does not come from headrace.
"""

from __future__ import annotations

from typing import Any

from ..common.messages import short_repr
from ..errors import ClosedError, HostsError
from ..loader.device.stats import FeederStats
from ..loader.iterator import DataLoaderIterator
from ..loader.state.resumable import Resumable
from ..loader.stats import IteratorStats
from ..loader.timing.snapshot import Snapshot


class WithLine(Resumable):
    """Base of iterators with a progress line around another iterator."""

    @property
    def without_line(self) -> Any:
        """The iterator inside."""
        raise NotImplementedError


def without_line(loop: Any) -> Any:
    """Return the iterator inside the result of `headrace.progress`.

    Any other loop is returned unchanged.
    """
    return loop.without_line if isinstance(loop, WithLine) else loop


def host_iterator(loop: Any) -> DataLoaderIterator | None:
    """Return the `DataLoader`'s iterator that makes a loop's elements.

    Return None if another iterator makes them.
    """
    found = getattr(loop, "host_iterator", None)
    return found if isinstance(found, DataLoaderIterator) else None


def snapshot(loop: Any) -> Snapshot | None:
    """Return the counts and times of a loop, or None if the loop does not come from headrace."""
    found = loop.snapshot() if hasattr(loop, "snapshot") else None
    return found if isinstance(found, Snapshot) else None


def asked(loop: Any, name: str) -> Any:
    """Return an attribute of a loop.

    Return None if the loop does not have it, does not know it, was closed, or has failed hosts.
    """
    try:
        return getattr(loop, name)
    except (AttributeError, TypeError, ClosedError, HostsError):
        return None


def check_loop(loop: Any) -> None:
    """Check that a loop comes from headrace.

    Raises:
        TypeError: it is neither an iterator nor a device feeder of headrace.
    """
    if snapshot(loop) is None:
        raise TypeError(
            f"{short_repr(loop)} is not an iterator of headrace. Pass iter(loader), or "
            "iter(loader.to_device(…))."
        )


def both_stats(loop: Any) -> tuple[IteratorStats | None, FeederStats | None]:
    """Return two statistics of a loop: of the loader, and of the device feeder.

    Return None for each that is missing.

    Raises:
        TypeError: the loop does not come from headrace.
    """
    check_loop(loop)
    stats = without_line(loop).stats()
    return (stats.loader, stats) if isinstance(stats, FeederStats) else (stats, None)
