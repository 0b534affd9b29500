"""Splits reading into operations, where a source is a dataset whose own are called when it is read: a part of a mix, a zip.

In: a leaf, with such a source. Out: the share of each operation in a read, which is done once more, here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from ...chains.map_dataset import MapDataset
from ...chains.nodes.items import Applied
from ...chains.nodes.node import Evaluated, Node
from ...loader.plan.leaf import Leaf
from ...samplers.index_maps import Indices
from ...sources.mixed.source import MixedSource
from .facts import PROBE_SECONDS, PROBED, keys_in_order
from .measured import Measured, WorkPart

READING = "reading"


@dataclass
class Clock:
    """Charges time to the node that is at work: its operation's name, or reading."""

    seconds: dict[str, float] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    _at_work: list[str] = field(default_factory=lambda: [READING])
    _since: float = field(default_factory=perf_counter)

    def begin(self, name: str, records: int) -> None:
        """A node below begins, for these records; the one above it waits."""
        self._charge()
        self.records[name] = self.records.get(name, 0) + records
        self._at_work.append(name)

    def end(self) -> None:
        """It has ended; the one above continues."""
        self._charge()
        self._at_work.pop()

    def _charge(self) -> None:
        now, name = perf_counter(), self._at_work[-1]
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


@dataclass(frozen=True, eq=False)
class Clocked(Node):
    """A node whose reads are timed."""

    node: Node
    clock: Clock

    @property
    def length(self) -> int:
        return self.node.length

    def place(self, index: int) -> tuple[int, int]:
        return self.node.place(index)

    def records(self, indices: Indices) -> Sequence[Any]:
        self.clock.begin(self.node.operation.name_in_stats if isinstance(self.node, Applied) else READING, len(indices))
        try:
            return self.node.records(indices)
        finally:
            self.clock.end()


def read_apart(measured: Measured, leaf: Leaf) -> Measured:
    """With operations that are called in reading as parts of their own; as it is, if there are none or they fail here."""
    if leaf.in_order or not _has_operations(leaf.source):
        return measured
    try:
        return _taken_apart(measured, _parts(leaf, 2 if measured.source.random > PROBE_SECONDS else PROBED))
    except Exception:  # of the user's operations, which the loop that was measured has told of, or went without
        return measured


def _has_operations(source: Any) -> bool:
    return any(isinstance(node, Applied) for root in _roots(source) for node in _below(root))


def _parts(leaf: Leaf, count: int) -> list[WorkPart]:
    """The parts of a read of `count` records, for one of them."""
    clock = Clock()
    _clocked(leaf.source, clock).__getitems__(keys_in_order(leaf, leaf.total // 2, count))
    return [
        WorkPart(name, "reading" if name == READING else "record", seconds / count, clock.records[name] / count)
        for name, seconds in clock.seconds.items()
        if name in clock.records
    ]


def _clocked(source: Any, clock: Clock) -> Any:
    """The same source, whose reads are charged to their operations."""
    if isinstance(source, MixedSource):
        return MixedSource({name: _clocked(part, clock) for name, part in source.parts.items()})
    roots = _roots(source)
    return Evaluated(_timed(roots[0], clock), len(source)) if roots else source


def _taken_apart(measured: Measured, found: Sequence[WorkPart]) -> Measured:
    """Reading takes as long as it did, but what was found has its share of it."""
    reading = measured.seconds_of("reading")
    scale = reading / sum(part.seconds for part in found)
    apart = [WorkPart(part.name, part.kind, part.seconds * scale, part.calls * measured.records) for part in found]
    moved = sum(part.seconds for part in apart if part.kind == "record")
    others = measured.work - reading - measured.seconds_of("packing")
    at_work = (others * measured.at_work + moved * measured.source.at_work) / (others + moved)
    rest = [part for part in measured.parts if part.kind != "reading"]
    source = dataclasses.replace(measured.source, evaluates=False)
    return dataclasses.replace(measured, parts=(*apart, *rest), at_work=at_work, source=source)


def _roots(source: Any) -> list[Node]:
    if isinstance(source, MixedSource):
        return [node for part in source.parts.values() for node in _roots(part)]
    return [source.chain_node] if isinstance(source, (Evaluated, MapDataset)) else []


def _below(node: Node) -> Iterator[Node]:
    yield node
    for each in node.inputs:
        yield from _below(each)


def _timed(node: Node, clock: Clock) -> Clocked:
    """A node over nodes that are timed, too."""
    fields = {each.name: _field(getattr(node, each.name), clock) for each in dataclasses.fields(node)}
    return Clocked(dataclasses.replace(node, **fields), clock)


def _field(value: Any, clock: Clock) -> Any:
    if isinstance(value, Node):
        return _timed(value, clock)
    if isinstance(value, tuple) and value and all(isinstance(each, Node) for each in value):
        return tuple(_timed(each, clock) for each in value)
    return value
