"""What can be asked of a loop of a user's, whichever it is: an iterator, a feeder, or neither.

In: what a user iterates. Out: how far it is, and what it took.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..common.messages import short_repr
from ..loader.device.stats import FeederStats
from ..loader.iterator import DataLoaderIterator
from ..loader.stats import IteratorStats


class Seen(NamedTuple):
    """How far a loop is, since its start or the last `set_state`.

    Attributes:
        steps: elements that the user received.
        elapsed: seconds, the user's own work included.
        waited: seconds of these in `next`.
        records: that were read; of a feeder, some more than are in the steps.
        nbytes: of the elements, as for `records`; estimated where their sizes differ.
    """

    steps: int
    elapsed: float
    waited: float
    records: int
    nbytes: int

    def since(self, before: Seen) -> Seen:
        """What was added; all of it, if the loop began anew after `before`."""
        if any(now < then for now, then in zip(self[:-1], before)):  # bytes are estimated
            return self
        return Seen._make(now - then for now, then in zip(self, before))


NOTHING = Seen(0, 0.0, 0.0, 0, 0)


def without_line(loop: Any) -> Any:
    """What `progress` goes around; other loops as they are."""
    return getattr(loop, "_iterator", loop)


def host_iterator(loop: Any) -> DataLoaderIterator | None:
    """The iterator that makes the elements: the loop itself, or what a feeder reads from; None if it is not of headrace."""
    loop = without_line(loop)
    upstream = getattr(loop, "_upstream", None)
    found = loop if upstream is None else upstream.iterator
    return found if isinstance(found, DataLoaderIterator) else None


def passed(loop: Any) -> int:
    """How many of the elements that `len` counts come before the next one; 0 if it does not tell."""
    try:
        return int(loop._here().passed)
    except (AttributeError, TypeError):  # it is not of a loader
        return 0


def check_loop(loop: Any) -> None:
    """Whether it is an iterator or a feeder of headrace.

    Raises:
        TypeError: it is neither.
    """
    if host_iterator(loop) is None and not hasattr(without_line(loop), "_watch"):
        raise TypeError(f"{short_repr(loop)} is no loop of headrace; pass iter(loader), or iter(loader.to_device(…)).")


def seen(loop: Any) -> Seen | None:
    """How far it is, for less than what its `stats()` cost; None if it does not tell."""
    loop = without_line(loop)
    host = host_iterator(loop)
    if loop is host:
        waits = host._observer.waits
        return Seen(host.step - host._first_step, waits.elapsed, waits.seconds, *_amounts(host))
    if not hasattr(loop, "_watch"):
        return None
    stats = loop._watch.stats(None)
    return Seen(stats.steps, stats.elapsed, stats.total.waited, *((0, 0) if host is None else _amounts(host)))


def _amounts(host: DataLoaderIterator) -> tuple[int, int]:
    """Records and bytes; see `IteratorStats`."""
    pipeline, stages = host._pipeline, host._observer.stages()
    records = sum(sums.inputs for number, sums in stages.items() if pipeline.stages[number].leaf is not None)
    return records, sum(sums.nbytes for number, sums in stages.items() if number not in pipeline.regrouped)


def both_stats(loop: Any) -> tuple[IteratorStats | None, FeederStats | None]:
    """Those of the iterator that makes the elements, if it is of headrace, and those of a feeder.

    Raises:
        TypeError: it is neither an iterator nor a feeder of headrace.
    """
    check_loop(loop)
    loop, host = without_line(loop), host_iterator(loop)
    return None if host is None else host.stats(), None if loop is host else loop.stats()
