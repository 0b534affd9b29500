"""Find the time of each operation inside a source that is a dataset with operations.

Such a source is a part of a mix, or a zip. Its operations run while it is read, so their time
counts as reading. Some records are read a second time, to find each operation's share of this time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ...chains.map_dataset import MapDataset
from ...chains.nodes.items import Applied
from ...chains.nodes.node import Evaluated, Node
from ...common.fields import fields_of
from ...loader.plan.leaf import Leaf
from ...samplers.chain.index_maps import Indices
from ...sources.mixed.source import MixedSource
from .facts import PROBE_SECONDS, PROBED, keys_in_order
from .measured import Measured, WorkPart

READING = "reading"


class Clock:
    """A clock that counts time for the operation that runs, by its name, or for reading."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.records: dict[str, int] = {}
        self._at_work = [READING]
        self._since = perf_counter()

    def begin(self, name: str, records: int) -> None:
        self._charge()
        self.records[name] = self.records.get(name, 0) + records
        self._at_work.append(name)

    def end(self) -> None:
        self._charge()
        self._at_work.pop()

    def _charge(self) -> None:
        now, name = perf_counter(), self._at_work[-1]
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True, eq=False)
class Clocked(Node):
    """A node of a dataset's tree, whose reads are timed.

    Attributes:
        node: the node itself.
        clock: the clock.
    """

    node: Node
    clock: Clock

    @property
    def length(self) -> int:
        return self.node.length

    def place(self, index: int) -> tuple[int, int]:
        return self.node.place(index)

    def records(self, indices: Indices) -> Sequence[Any]:
        self.clock.begin(
            self.node.operation.name_in_stats if isinstance(self.node, Applied) else READING,
            len(indices),
        )
        try:
            return self.node.records(indices)
        finally:
            self.clock.end()


def read_apart(measured: Measured, leaf: Leaf) -> Measured:
    """Return the measurement with the operations inside the source as separate parts.

    To find their shares of the time of reading, some records are read a second time. The
    measurement is returned unchanged if there are no such operations, if the source has no random
    access, or if the second read fails.

    Args:
        measured: measurement of a loop.
        leaf: its source with its sampler.
    """
    if leaf.in_order or not any(isinstance(node, Applied) for node in _nodes(leaf.source)):
        return measured
    try:
        return _read_again(measured, leaf, 2 if measured.source.random > PROBE_SECONDS else PROBED)
    # of the user's operations, which the loop that was measured has told of, or none was called
    # here
    except Exception:
        return measured


def _read_again(measured: Measured, leaf: Leaf, count: int) -> Measured:
    """Read records again with a clock.

    Split the measured time of reading between the source and its operations.

    The split has the shares of the second reading.

    Exceptions of the source and its operations are raised.

    Args:
        measured: measurement of a loop.
        leaf: its source with its sampler.
        count: number of records to read.
    """
    clock, reading = Clock(), measured.seconds_of("reading")
    _clocked(leaf.source, clock).__getitems__(keys_in_order(leaf, leaf.total // 2, count))
    seconds = {name: each for name, each in clock.seconds.items() if name in clock.records}
    scale, records = reading / sum(seconds.values()), measured.records / count
    parts = [
        WorkPart(
            name,
            "reading" if name == READING else "record",
            each * scale,
            clock.records[name] * records,
        )
        for name, each in seconds.items()
    ]
    moved = sum(part.seconds for part in parts if part.kind == "record")
    others = measured.work - reading - measured.seconds_of("packing")
    at_work = (others * measured.at_work + moved * measured.source.at_work) / (others + moved)
    parts += [part for part in measured.parts if part.kind != "reading"]
    source = dataclasses.replace(measured.source, evaluates=False)
    return dataclasses.replace(measured, parts=tuple(parts), at_work=at_work, source=source)


def _nodes(source: Any) -> Iterator[Node]:
    if isinstance(source, MixedSource):
        below: Sequence[Any] = list(source.parts.values())
    elif isinstance(source, Node):
        yield source
        below = source.inputs
    else:
        below = [source.root_node] if isinstance(source, (Evaluated, MapDataset)) else []
    for each in below:
        yield from _nodes(each)


def _clocked(source: Any, clock: Clock) -> Any:
    """Return a copy of a mix or dataset in which a clock times every node.

    Any other source is returned unchanged.
    """
    if isinstance(source, MixedSource):
        return MixedSource({name: _clocked(part, clock) for name, part in source.parts.items()})
    if isinstance(source, (Evaluated, MapDataset)):
        return Evaluated(_timed(source.root_node, clock), len(source))
    return source


def _timed(value: Any, clock: Clock) -> Any:
    """Return a copy of a node, or of a tuple of nodes, in which a clock times every node.

    Any other value is returned unchanged.
    """
    if isinstance(value, Node):
        fields = {name: _timed(field, clock) for name, field in (fields_of(value) or {}).items()}
        return Clocked(dataclasses.replace(value, **fields), clock)
    return tuple(_timed(each, clock) for each in value) if type(value) is tuple else value
