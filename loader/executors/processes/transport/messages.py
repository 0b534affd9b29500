"""The messages between the user's process, the zygote and the workers. All that crosses a boundary is one of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....timing.times import Packed
from ....work.notices import Told
from ....work.tasks import PackedTags, Stand
from ...pool.groups import EncodedGroup

SlabName = tuple[int, int]
"""A slab: the worker that made it, and its number there."""


ArrayPlace = tuple[SlabName, int, tuple[int, ...], str, tuple[int, ...] | None, bool]
"""Of an array: slab, offset in bytes, shape, name of the dtype, strides unless it is contiguous, whether it is writeable."""

Encoded = tuple[list[ArrayPlace], bytes]
"""The places of the arrays, and a pickle of the elements with their numbers, and dtypes that a name does not tell."""


class Start(NamedTuple):
    """To the zygote, first of all, with the payload's descriptor: what the user's process has, to be the same there."""

    search_path: list[str]
    environment: dict[str, str]


class Spawn(NamedTuple):
    """To the zygote: make worker `worker`; its end of the channel goes along as a descriptor."""

    worker: int


class Kill(NamedTuple):
    """To the zygote: end worker `worker` at once."""

    worker: int


class Exited(NamedTuple):
    """From the zygote: worker `worker` is gone, with this status as `os.waitpid` gave it."""

    worker: int
    status: int


class Broken(NamedTuple):
    """From the zygote: the pipeline could not be unpacked; `error` is a pickled exception."""

    error: bytes


EncodedRows = tuple[int, Encoded, int, int, PackedTags]
"""Rows `[start, stop)` of an encoded block: its number, all its rows, which of them, and their tags."""


class Ready(NamedTuple):
    """From a worker: it has begun."""


class RunSpan(NamedTuple):
    """To a worker: do a task on a span. `released`: slabs of its own that it may use again."""

    number: int
    task: tuple[Any, ...]
    released: list[int]


class RunGroups(NamedTuple):
    """To a worker: do groups, one after the other."""

    groups: list[EncodedGroup]
    blocks: list[EncodedRows]  # that they name; rows count from the first one that goes along
    slabs: dict[SlabName, int]  # that the rows stand on, with their sizes
    introduced: list[SlabName]  # those of them whose descriptors go along, in this order
    forgotten: list[SlabName]  # slabs of others that are no more
    released: list[int]  # slabs of its own that it may use again


class Returned(NamedTuple):
    """To a worker, while it may be at work: slabs of its own that it may use again."""

    slabs: list[int]


class Answer(NamedTuple):
    """Task `number` is finished, or failed after its rows. What has the name of something of a `Block` is just that."""

    number: int
    rows: Encoded
    row_count: int
    tags: PackedTags | None
    error: bytes | None  # an encoded exception
    lent: list[tuple[int, int]]  # slabs that the rows stand on, with their sizes; the user's process releases them
    skipped: Sequence[str]
    notices: Told
    seconds: float  # that it took …
    waited: float  # … of which it waited for records that were read ahead
    stand: Stand | None = None
    times: Packed | None = None


class Done(NamedTuple):
    """From a worker: what came of a message's tasks."""

    answers: list[tuple[Any, ...]]  # fields of an `Answer` each: pickle takes ten times as long for the object
    introduced: list[int]  # slabs that are lent for the first time, whose descriptors go along, in this order
    dropped: list[int]  # slabs that will not be used again


KINDS: tuple[Any, ...] = (Start, Spawn, Kill, Exited, Broken, Ready, RunSpan, RunGroups, Returned, Done)
"""Every message, by the number that stands for its kind on the way."""
