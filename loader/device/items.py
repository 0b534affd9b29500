"""What passes through the queues of a running feeder.

In: nothing. Out: names for a batch on the host, a batch on its devices, the end, and an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .stats import Times


@dataclass(slots=True)
class Loaded:
    """A batch on the host, transformed.

    Attributes:
        batch: a tree of arrays.
        mark: where the upstream iterator stands after it.
        read_from: when it was asked for …
        read_to: … when it came …
        transformed: … and when `transform` had returned.
    """

    batch: Any
    mark: Any
    read_from: float
    read_to: float
    transformed: float


@dataclass(slots=True)
class Delivered:
    """A batch on its devices.

    Attributes:
        batch: a tree of `jax.Array`.
        mask: `bool[rows]` on the same devices, False where a row was filled in; None if nobody asked for one.
        mark: where the upstream iterator stands after it.
        times: of its way.
        empty: it is filling alone: other hosts have a batch, and this one has none.
        number: among the batches and errors of its run, from 0.
    """

    batch: Any
    mask: Any
    mark: Any
    times: Times
    empty: bool
    number: int = 0


@dataclass(slots=True)
class Ended:
    """The upstream iterator has ended, or the run has.

    Attributes:
        mark: where the upstream iterator stands.
    """

    mark: Any = None


@dataclass(slots=True)
class Failed:
    """There is an error in place of a batch.

    Attributes:
        error: to be raised.
        final: the run ends with it. Otherwise the next batch follows.
        number: among the batches and errors of its run, from 0.
    """

    error: BaseException
    final: bool = True
    number: int = 0
