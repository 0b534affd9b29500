"""A pipeline whose elements carry labels, which tell the records that they were made of.

In: a pipeline. Out: the same one, with labels. What does not decide which records are in an element is not run: the maps and
batches after the last filter, flat map or `Pack`, and if there is none of these, nothing is even read. All else gives what it
gives, so that an element is made of what it was when it was delivered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...loader.plan.leaf import Leaf
from ...loader.plan.parts import Part
from ...loader.plan.pipeline import Former, Pipeline
from ...loader.plan.stages import Stage
from ...operations import Operation, Pack, Together, WindowShuffle
from ...operations.protocol import Context, Element, Step
from ...sources import reader_of
from .labels import Label, Labelled, OfBatch, OfPackedRow, OfRecord, OfSeveral, PackedWindow


def labelled(pipeline: Pipeline) -> Pipeline:
    """The pipeline with labels."""
    stages, read = _Stages(pipeline).labelled()
    every = [leaf if leaf.in_order else _labelled_leaf(leaf, number, read) for number, leaf in _numbered(pipeline)]
    count = len(pipeline.leaves)
    formers = tuple(
        Former(former.whose, tuple(every[count * number : count * (number + 1)]), former.joins)
        for number, former in enumerate(pipeline.formers, start=1)
    )
    return dataclasses.replace(pipeline, leaves=tuple(every[:count]), stages=stages, formers=formers)


def _numbered(pipeline: Pipeline) -> Iterator[tuple[int, Leaf]]:
    return enumerate(pipeline.every_leaf)


def _labelled_leaf(leaf: Leaf, number: int, read: Sequence[bool]) -> Leaf:
    shared = {each.name: getattr(leaf, each.name) for each in dataclasses.fields(Leaf)}
    return LabelledLeaf(**{**shared, "source": LabelledSource(leaf, number, read[number % len(read)])}, real=leaf)


@dataclass(frozen=True)
class LabelledLeaf(Leaf):
    """A leaf whose source is asked by positions, so that labels have both."""

    real: Leaf = field(kw_only=True)

    def record_keys(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions."""
        return positions

    @property
    def has_parts(self) -> bool:
        """As the base says."""
        return self.real.has_parts

    def by_part(self, keys: NDArray[np.int64]) -> Any:
        """As the base says."""
        return self.real.by_part(keys)

    def told(self, key: int) -> str:
        """As the base says."""
        return self.real.told(key)


class LabelledSource:
    """The records at positions of a leaf, which has a number among every leaf, with labels; `reads`: with values, too."""

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True
    reads_ahead: ClassVar[bool] = False

    def __init__(self, leaf: Leaf, number: int, reads: bool) -> None:
        self._leaf, self._number = leaf, number
        self._read = reader_of(leaf.source) if reads else None

    def __len__(self) -> int:
        return len(self._leaf.source)

    def __getitem__(self, position: int) -> Labelled:
        return self.__getitems__(np.array([position], dtype=np.int64))[0]

    def __getitems__(self, positions: NDArray[np.int64]) -> list[Labelled]:
        """The records at positions, in their order."""
        keys = self._leaf.record_keys(positions)
        values = repeat(None) if self._read is None else self._read(keys)
        each = zip(positions.tolist(), keys.tolist(), values)
        return [Labelled(OfRecord(self._number, position, key), value) for position, key, value in each]


class _Stages:
    """Labels for the stages of a pipeline, from the top to the bottom: what is above decides whether values are looked at."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._looked_at = [False] * len(pipeline.stages)  # whether something above looks at what a stage gives
        self._read = [False] * len(pipeline.leaves)
        self._found: list[Stage] = []
        self._look(pipeline.top, pipeline.skips_errors)

    def labelled(self) -> tuple[tuple[Stage, ...], list[bool]]:
        """The stages; and for each leaf, whether its records are to be read."""
        stages = [self._of(stage) for stage in reversed(self._pipeline.stages)]
        return tuple(reversed(stages)), self._read

    def _look(self, part: Part, looks: bool) -> None:
        """Note whether the rows of a part are looked at; of a join, those of its inputs."""
        if part.stage is not None:
            self._looked_at[part.stage] |= looks
            return
        for below in self._pipeline.joins[part.join or 0].inputs:
            self._look(below, looks)

    def _of(self, stage: Stage) -> Stage:
        looks, operations = self._looked_at[stage.number], list[Operation]()
        for operation in reversed(stage.operations):
            looks = looks or _decides(operation)
            operations.insert(0, _with_labels(operation, looks))
        if stage.input is not None:
            self._look(stage.input, looks)
        elif stage.leaf is not None:
            self._read[stage.leaf] |= looks
            if self._pipeline.leaves[stage.leaf].in_order:
                operations.insert(0, Enter(stage.leaf))  # one number less, so that all others keep theirs
                return dataclasses.replace(stage, first=stage.first - 1, operations=tuple(operations))
        return dataclasses.replace(stage, operations=tuple(operations))


def _decides(operation: Operation) -> bool:
    """Whether it looks at elements to decide how many there are."""
    return not operation.one_to_one and not isinstance(operation, WindowShuffle)


def _with_labels(operation: Operation, looks: bool) -> Operation:
    if isinstance(operation, WindowShuffle):
        return operation  # it moves elements, whatever they are
    if isinstance(operation, Pack):
        return LabelledPack(operation)
    return LabelledOperation(operation) if looks else LabelsAlone(operation)


def _label_of(operation: Operation, labels: Sequence[Label]) -> Label:
    """The label of what an operation makes of elements with these."""
    if operation.takes is None:
        return labels[0]
    several = isinstance(operation, Together) or not operation.one_to_one
    return OfSeveral(tuple(labels)) if several else OfBatch(tuple(labels))


class LabelledOperation(Operation):
    """An operation on elements that have labels."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.takes = operation.takes
        self.drops_remainder = operation.drops_remainder

    @property
    def one_to_one(self) -> bool:  # type: ignore[override]
        """As the base says."""
        return self._operation.one_to_one

    @property
    def needs_one(self) -> bool:  # type: ignore[override]
        """As the base says."""
        return self._operation.needs_one

    @property
    def reads_position(self) -> bool:  # type: ignore[override]
        """As the base says."""
        return self._operation.reads_position

    def __repr__(self) -> str:
        return repr(self._operation)

    def connect(self, then: Step, context: Context, number: int) -> Step:
        labels, single, clears = list[Label](), self.takes is None, self.one_to_one

        def given(value: Element) -> None:
            label = _label_of(self._operation, labels)
            if clears:
                labels.clear()
            then(Labelled(label, value))

        def push(element: Labelled) -> None:
            if single:
                labels.clear()
            labels.append(element.label)
            step(element.value)

        context.at_end.append(labels.clear)  # which is done in the opposite order: after the operation has ended
        step = self._operation.connect(given, context, number)
        context.take_all.pop(number, None)
        return push


class LabelsAlone(LabelledOperation):
    """An operation that is not run: it makes one element of as many as it takes, whatever they are."""

    def connect(self, then: Step, context: Context, number: int) -> Step:
        if self.takes is None:
            return then
        labels, places = list[Label](), list[tuple[int, int, int]]()

        def emit() -> None:
            label, last = _label_of(self._operation, labels), (context.seed, context.position, context.row)
            context.seed, context.position, context.row = places[0]
            forget()
            then(Labelled(label, None))
            context.seed, context.position, context.row = last

        def forget() -> None:
            labels.clear()
            places.clear()

        def push(element: Labelled) -> None:
            if not labels:
                places.append((context.seed, context.position, context.row))
            labels.append(element.label)
            if len(labels) == self.takes:
                emit()

        def finish() -> None:
            if labels and not self.drops_remainder:
                emit()
            forget()

        context.at_end.append(finish)
        return push


class LabelledPack(LabelledOperation):
    """A `Pack` of documents that have labels."""

    def __init__(self, pack: Pack) -> None:
        super().__init__(pack)
        self._pack = pack

    def connect(self, then: Step, context: Context, number: int) -> Step:
        windows: list[PackedWindow] = []
        rows = 0

        def given(value: Element) -> None:
            nonlocal rows
            rows += 1
            then(Labelled(OfPackedRow(windows[0], rows - 1), value))

        def push(element: Labelled) -> None:
            if not windows:
                windows.append(PackedWindow(self._pack))
            windows[0].add(element.value, element.label)
            step(element.value)

        def forget() -> None:
            nonlocal rows
            rows = 0
            windows.clear()

        context.at_end.append(forget)
        step = self._pack.connect(given, context, number)
        context.take_all.pop(number, None)
        return push


class Enter(Operation):
    """Gives labels to the elements of a source that can only be run through."""

    reads_position = True

    def __init__(self, leaf: int) -> None:
        self._leaf = leaf

    def connect(self, then: Step, context: Context, number: int) -> Step:
        def enter(value: Element) -> None:
            then(Labelled(OfRecord(self._leaf, context.position, None), value))

        return enter
