"""A plain model of a stream: the tree that a chain describes, interpreted element by element.

In: a tree of nodes, as of an `IterDataset`. Out: its elements in order, up to the first failure or
without what fails, and how much failed. It knows no task, stage, worker or cursor; what one
operation does to its inputs, and whose row comes next in a join, it asks of these. Of the common
operations it also knows itself what they mean, and holds them to it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace import Batch, Filter, FlatMap, IterDataset, MapTransform, Pack
from headrace.loader.plan.joins import Apply, Joined, Read
from headrace.operations.protocol import Context, Operation
from support.pipelines import plain

MOST_READS = 3000
"""Records of one stream that are read; more are those of an endless stream of which nothing is
left.
"""


class NothingComesError(Exception):
    """So many records were read that the stream is taken for one without an end and without
    elements.
    """


class Row(NamedTuple):
    """An element, and the place by which it draws random numbers."""

    position: int
    row: int
    element: Any


Rows = Callable[[], Iterator[Row]]
"""Begins a stream."""


class PlainModel:
    """The elements of a stream; with `skips`, without what fails.

    Attributes:
        skipped: how many records, or batches, were left out so far.
    """

    def __init__(self, tree: Any, skips: bool = False, seed: int = 0) -> None:
        self._skips = skips
        self._seed = seed  # of a loader's random operations; those of chains have their own
        self._numbers = itertools.count()
        self._reads = 0
        self.skipped = 0
        self._rows = self._of(tree)

    @classmethod
    def of(cls, dataset: IterDataset) -> PlainModel:
        """That of a dataset."""
        return cls(dataset.chain_stream.tree, dataset.chain_stream.skips_errors)

    def __iter__(self) -> Iterator[Any]:
        return (row.element for row in self._rows())

    def _of(self, tree: Any) -> Rows:
        operations: list[Operation] = []
        while isinstance(tree, Apply):
            operations[:0] = tree.operations
            tree = tree.input
        rows = self._read(tree) if isinstance(tree, Read) else self._joined(tree)
        numbered = [(operation, next(self._numbers)) for operation in operations]
        return lambda: self._through(rows(), numbered)

    def _read(self, tree: Read) -> Rows:
        leaf = tree.leaf
        if leaf.in_order:
            return lambda: self._run_through(leaf)

        def rows() -> Iterator[Row]:
            for local in range(leaf.total):
                self._reads += 1
                if self._reads > MOST_READS:
                    raise NothingComesError
                position = leaf.position(local)
                (key,) = leaf.record_keys(np.array([position])).tolist()
                yield Row(position, 0, leaf.source[key])

        return rows

    def _run_through(self, leaf: Any) -> Iterator[Row]:
        """Of so many elements as there are shards, that of this one."""
        shard, iterator = leaf.shard, leaf.source.open("")  # which may have no `__iter__`
        for local in itertools.count():
            taken = []
            with contextlib.suppress(StopIteration):
                for _ in range(shard.shard_count):
                    taken.append(next(iterator))
            self._reads += len(taken)
            if self._reads > MOST_READS:
                raise NothingComesError
            if len(taken) <= (shard.shard_count - 1 if shard.drop_remainder else shard.shard_index):
                return
            yield Row(leaf.position(local), 0, taken[shard.shard_index])

    def _joined(self, tree: Joined) -> Rows:
        opens, rule, shard = [self._of(one) for one in tree.inputs], tree.rule, _shard_of(tree)
        kept: list[Row] = []

        def rows() -> Iterator[Row]:
            note, inputs, came = rule.start, [one() for one in opens], [0] * len(opens)
            while len(choice := rule.choices(note, 1)):
                number = int(choice[0])
                row = next(inputs[number], None)
                if row is None:
                    note = rule.ended(note, number)
                    if note is None or (rule.restarts and not came[number]):
                        return
                    if rule.restarts:
                        inputs[number], came[number] = opens[number](), 0
                    continue
                came[number] += 1
                yield row._replace(position=note[0] * shard.shard_count + shard.shard_index)
                note = rule.after(note, 1)

        def rows_once() -> Iterator[Row]:
            if kept:
                yield from copy.deepcopy(kept)
                return
            found = []
            for row in rows():
                found.append(copy.deepcopy(row))
                yield row
            kept[:] = found

        return rows_once if rule.keeps else rows

    def _through(
        self, rows: Iterator[Row], operations: Sequence[tuple[Operation, int]]
    ) -> Iterator[Row]:
        """What operations make: of each row, or of so many at a time, and from there on of each
        that comes out.
        """
        single = list(itertools.takewhile(lambda one: one[0].takes is None, operations))
        rows = (made for row in rows for made in self._kept(self._all_through([row], single)))
        rest = operations[len(single) :]
        return self._through(self._taken(rows, *rest[0]), rest[1:]) if rest else rows

    def _taken(self, rows: Iterator[Row], operation: Operation, number: int) -> Iterator[Row]:
        while group := list(itertools.islice(rows, operation.takes)):
            yield from self._kept(_made(group, operation, number, self._seed))

    def _all_through(
        self, rows: Iterator[Row] | list[Row], operations: Sequence[tuple[Operation, int]]
    ) -> Iterator[Row]:
        if not operations:
            yield from rows
            return
        (operation, number), *rest = operations
        for row in rows:
            yield from self._all_through(_made([row], operation, number, self._seed), rest)

    def _kept(self, made: Iterator[Row]) -> Iterator[Row]:
        """All that is made of one thing; where failures are left out, all of it or nothing."""
        if not self._skips:
            yield from made
            return
        try:
            whole = list(made)
        except Exception:
            self.skipped += 1
        else:
            yield from whole


def _made(rows: list[Row], operation: Operation, number: int, seed: int) -> Iterator[Row]:
    """What an operation makes of rows; after that, what it fails with."""
    context, made = Context(seed), list[Row]()
    step = operation.connect(
        lambda element: made.append(Row(context.position, context.row, element)), context, number
    )
    at_end, failure = context.take_hooks().at_end, None
    try:
        for context.position, context.row, element in rows:
            step(element)
        for finish in at_end:
            finish()
    except Exception as error:
        failure = error
    else:
        _check(operation, [row.element for row in rows], [row.element for row in made])
    yield from made
    if failure is not None:
        raise failure


def _check(operation: Operation, elements: list[Any], found: list[Any]) -> None:
    """An operation made of elements what its name says."""
    meaning = _meaning(operation, elements)
    if type(operation) is Pack:
        found = [row["tokens"] for row in found if isinstance(row, dict) and "tokens" in row]
    assert meaning is None or plain(meaning) == plain(found), (operation, elements, found)


def _meaning(operation: Operation, elements: list[Any]) -> list[Any] | None:
    """What an operation makes of one group of elements, without its own code; None: not known."""
    if type(operation) is MapTransform:
        return [operation.map(element) for element in elements]
    if type(operation) is Filter:
        return [element for element in elements if operation.filter(element)]
    if type(operation) is FlatMap:
        return [made for element in elements for made in operation.flat_map(element)]
    if type(operation) is Batch and (operation.batch_fn or isinstance(elements[0], (int, float))):
        is_kept = len(elements) == operation.batch_size or not operation.drop_remainder
        return [(operation.batch_fn or np.stack)(elements)] if is_kept else []
    if type(operation) is Pack and isinstance(elements[0], np.ndarray):
        strategy = operation.settings.strategy
        if strategy in ("first_fit", "next_fit"):
            return fitted(elements, operation.settings.length, 0 if strategy == "first_fit" else -1)
    return None


def fitted(documents: list[np.ndarray], length: int, tried_from: int) -> list[np.ndarray]:
    """Rows of documents, each piece put into the first row from a place of the list on that has
    room for it.
    """
    rows: list[list[Any]] = []
    for document in documents:
        for start in range(0, len(document), length):
            piece = document[start : start + length].tolist()
            row = next((row for row in rows[tried_from:] if len(row) + len(piece) <= length), None)
            if row is None:
                rows.append(piece)
            else:
                row += piece
    return [np.array(row + [0] * (length - len(row))) for row in rows]


def _shard_of(tree: Any) -> Any:
    while not isinstance(tree, Read):
        tree = tree.input if isinstance(tree, Apply) else tree.inputs[0]
    return tree.leaf.shard
