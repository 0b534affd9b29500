"""What actors answer, and what goes along with what they are asked.

In: plain values. Out: tuples with names, which cross between processes by pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...timing.times import Packed
from ...work.notices import Told
from ...work.tasks import PackedTags, Stand


class Begun(NamedTuple):
    """The first answer of a worker: it can be given tasks, or why not."""

    node: str  # that it is on
    clock: float  # seconds that `time.time` shows more than `time.perf_counter`
    error: bytes | None  # why it could not unpack the pipeline
    release: tuple[str, ...] = ()  # the fields of its `Release`
    identity: str = ""  # of the pipeline, as it was unpacked


class Answer(NamedTuple):
    """A task is finished, or failed after its rows. What has the name of something of a `Block` is just that."""

    row_count: int
    tags: PackedTags | None
    error: bytes | None  # an encoded exception
    skipped: Sequence[str]
    notices: Told
    seconds: float  # that it took …
    waited: float  # … of which it waited for records that were read ahead
    size: int  # bytes of the rows
    stand: Stand | None
    times: Packed | None


NamedRows = tuple[int, int, int, PackedTags]
"""Rows `[start, stop)` of a block that goes along: its number, which of them, and their tags."""
