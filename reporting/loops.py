"""A loop of a user's, whichever it is: an iterator, a feeder, one of these with a line around it, or neither."""

from __future__ import annotations

from typing import Any

from ..common.messages import short_repr
from ..loader.device.stats import FeederStats
from ..loader.iterator import DataLoaderIterator
from ..loader.stats import IteratorStats
from ..loader.timing.snapshot import Snapshot


def without_line(loop: Any) -> Any:
    """Unwrap an iterator from `progress`; other loops as they are."""
    return getattr(loop, "without_line", loop)


def host_iterator(loop: Any) -> DataLoaderIterator | None:
    """The iterator that makes the elements; None if it is not of headrace."""
    found = getattr(loop, "host_iterator", None)
    return found if isinstance(found, DataLoaderIterator) else None


def snapshot(loop: Any) -> Snapshot | None:
    """Counts and times of a loop of headrace; None of others."""
    found = loop.snapshot() if hasattr(loop, "snapshot") else None
    return found if isinstance(found, Snapshot) else None


def check_loop(loop: Any) -> None:
    """Refuse what is no iterator or feeder of headrace, by a TypeError."""
    if snapshot(loop) is None:
        raise TypeError(f"{short_repr(loop)} is no loop of headrace; pass iter(loader), or iter(loader.to_device(…)).")


def both_stats(loop: Any) -> tuple[IteratorStats | None, FeederStats | None]:
    """Those of the iterator that makes the elements, if it is of headrace, and those of a feeder; else a TypeError."""
    check_loop(loop)
    loop, host = without_line(loop), host_iterator(loop)
    return None if host is None else host.stats(), None if loop is host else loop.stats()
