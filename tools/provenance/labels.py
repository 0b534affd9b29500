"""Labels: what an element was made of, kept beside it while a pipeline is run to find that out.

In: labels. Out: the records that they stand for. A label holds those below it, so that one that nobody asks about costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

from ...loader.plan.leaf import Leaf
from ...operations import Pack
from ...operations.packing.pieces import Pieces
from ...sources.used_records import TokenSpan, UsedRecord, used_records


class OfRecord(NamedTuple):
    """Of a record, at a global position of a leaf; the key is None where the source can only be run through."""

    leaf: int
    position: int
    key: int | None


class OfBatch(NamedTuple):
    """Of a batch: the labels of its rows."""

    rows: tuple[Label, ...]


class OfSeveral(NamedTuple):
    """Of an element that was made of several, none of which is a row of it."""

    elements: tuple[Label, ...]


class PackedWindow:
    """Documents that are packed together, with their labels."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._documents: list[Any] = []
        self._labels: list[Label] = []

    def add(self, document: Any, label: Label) -> None:
        """Take one document more."""
        self._documents.append(document)
        self._labels.append(label)

    @cached_property
    def _pieces(self) -> Pieces:
        return self._pack.pieces(self._documents)

    def segments(self, row: int) -> Iterator[tuple[Label, tuple[TokenSpan, ...]]]:
        """The documents in a row, by their labels, and which tokens of them."""
        pieces = self._pieces.row(row)
        for document, spans in zip(pieces.documents.tolist(), pieces.spans):
            yield self._labels[document], tuple(starmap(TokenSpan, spans))


class OfPackedRow(NamedTuple):
    """Of a row of a `Pack`."""

    window: PackedWindow
    row: int


Label: TypeAlias = OfRecord | OfBatch | OfSeveral | OfPackedRow


class Labelled(NamedTuple):
    """An element with its label; None in place of one that nobody looks at."""

    label: Label
    value: Any


class Found(NamedTuple):
    """A record that a label stands for, and where the order of a leaf has what it is a part of."""

    used: UsedRecord
    leaf: int
    position: int


def found_in(label: Label, leaves: Sequence[Leaf]) -> list[Found]:
    """The records that a label stands for, in the order in which they stand in the element."""
    if isinstance(label, OfRecord):
        return _of_record(label, leaves[label.leaf])
    if isinstance(label, OfPackedRow):
        segments = enumerate(label.window.segments(label.row), start=1)
        return [
            each._replace(used=each.used._replace(segment=segment, tokens=spans))
            for segment, (document, spans) in segments
            for each in found_in(document, leaves)
        ]
    if isinstance(label, OfBatch):
        return [
            each._replace(used=each.used._replace(row=number))
            for number, row in enumerate(label.rows)
            for each in found_in(row, leaves)
        ]
    return [each for element in label.elements for each in found_in(element, leaves)]


def _of_record(label: OfRecord, leaf: Leaf) -> list[Found]:
    if label.key is None:
        used: Sequence[UsedRecord] = [UsedRecord(leaf.source.dataset, label.position)]
    else:
        used = used_records(leaf.source, label.key)
    return [Found(each.named(leaf.name), label.leaf, label.position) for each in used]
