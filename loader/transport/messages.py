"""The messages between the user's process, the zygote and the workers. All that crosses a boundary is one of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import Span
from ..tasks import RowTags

SlabName = tuple[int, int]
"""A slab: the worker that made it, and its number there."""


@dataclass(slots=True)
class Start:
    """To the zygote, first of all, with the payload's descriptor: what the user's process has, to be the same there."""

    search_path: list[str]
    environment: dict[str, str]


@dataclass(slots=True)
class Spawn:
    """To the zygote: make worker `worker`; its end of the channel goes along as a descriptor."""

    worker: int


@dataclass(slots=True)
class Kill:
    """To the zygote: end worker `worker` at once."""

    worker: int


@dataclass(slots=True)
class Exited:
    """From the zygote: worker `worker` is gone, with this status as `os.waitpid` gave it."""

    worker: int
    status: int


@dataclass(slots=True)
class Broken:
    """From the zygote: the pipeline could not be unpacked; `error` is a pickled exception."""

    error: bytes


@dataclass(slots=True)
class EncodedRows:
    """Rows `[start, stop)` of an encoded block, which stand on these slabs."""

    rows: bytes
    start: int
    stop: int
    tags: RowTags


@dataclass(slots=True)
class Ready:
    """From a worker: it has begun."""


@dataclass(slots=True)
class RunSpan:
    """To a worker: do a span. `released`: slabs of its own that it may use again."""

    number: int
    span: Span
    released: list[int]


@dataclass(slots=True)
class RunGroup:
    """To a worker: do a group.

    Attributes:
        slabs: the slabs that the rows stand on, with their sizes.
        introduced: those of them whose descriptors go along, in this order.
        forgotten: slabs of others that are no more.
        released: slabs of its own that it may use again.
    """

    number: int
    segment: int
    parts: list[EncodedRows]
    slabs: dict[SlabName, int]
    introduced: list[SlabName]
    forgotten: list[SlabName]
    released: list[int]


@dataclass(slots=True)
class Done:
    """From a worker: task `number` is finished, or failed behind its rows.

    Attributes:
        rows: encoded elements.
        count: how many.
        tags: as in `Block`.
        error: encoded exception, or None.
        lent: slabs that the rows stand on, with their sizes; the user's process releases them.
        introduced: those of them whose descriptors go along, in this order.
        dropped: slabs that will not be used again.
        skipped: as in `Block`.
        seconds: what it took.
    """

    number: int
    rows: bytes
    count: int
    tags: RowTags | None
    error: bytes | None
    lent: list[tuple[int, int]]
    introduced: list[int]
    dropped: list[int]
    skipped: Sequence[str]
    seconds: float
