"""The base of operations, each of which connects itself in front of what follows.

In: one element at a time, pushed by a call. Out: none, one or more elements, pushed on by calls of `then`.

A pipeline is a chain of such steps, made once for each thread that runs it and used until a span fails. Pushing goes depth
first: a record runs through all operations while it is still warm in the caches, and nothing is collected in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SeedError

Element = Any
Step = Callable[[Element], None]


class ArraySpec(NamedTuple):
    """Shape and dtype of an array to be allocated."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Fault(NamedTuple):
    """A failure.

    Attributes:
        number: of the operation.
        row: of the batch that the operation was making, the row at fault; 0 for other operations.
    """

    number: int
    row: int = 0


SeedFor = Callable[[str, int | None], int]
"""Gives the seed of a chain's method: the one that was passed, or one made of `seed()` before."""

Allocate = Callable[[Sequence[ArraySpec]], list[NDArray[Any]]]
"""Gives the arrays of one batch, uninitialised, on one piece of memory."""


Tell = Callable[[str, str], None]
"""Called with the name of a leaf and what the user should be told of it."""


def tell_nobody(leaf: str, text: str) -> None:
    """Drop it."""


_current: ContextVar[Tell] = ContextVar("headrace_tell", default=tell_nobody)


def current_tell() -> Tell:
    """The `Tell` of the operation that runs in this thread; outside of one, a function that drops texts."""
    return _current.get()


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Have `current_tell()` be this one inside of the block."""
    token = _current.set(tell)
    try:
        yield
    finally:
        _current.reset(token)


class KeptTexts:
    """Texts from threads that read ahead, one for each leaf, until a worker of this process takes them.

    >>> kept = KeptTexts()
    >>> kept.tell("x", "text"), kept.take(), kept.take()
    (None, [('x', 'text')], [])
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def tell(self, leaf: str, text: str) -> None:
        self.texts.setdefault(leaf, text)

    def take(self) -> list[tuple[str, str]]:
        """All texts, which are then forgotten."""
        return [self.texts.popitem() for _ in range(len(self.texts))]


FROM_READERS = KeptTexts()
"""Texts of sources that make batches while they are read."""


def allocate_plainly(specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
    """Fresh NumPy arrays."""
    return [np.empty(spec.shape, spec.dtype) for spec in specs]


@dataclass(slots=True)
class Context:
    """The place in the stream of the element that is being pushed. Steps read it; the runner and some steps set it.

    Attributes:
        seed: seed of the random operations.
        position: global position of the record (of a batch: of its first record).
        row: which of the position's rows; 0 until a flat map makes several.
        input: number of the task's input that the element was made of; of a batch, of one of these.
        packed: the documents of a window that is being packed, and the number of the row there; or the places in its window of
            what is in a batch by budget, and None. None outside.
        only: the place in a window of the only element that is to be pushed on; None: all are.
        allocate: where batches are built.
        tell: takes what the user should be told of a leaf.
        most: how many inputs come to the stage, in what it does now: no batch has more rows.
        take_all: by the number of a batch, how to push many rows into it at a time, from an iterator.
        at_end: called in this order when a span has been pushed through, so that batches in the making are finished.
        at_failure: called in this order when one could not be, so that what is wrong with an element that waits comes first.
        fault: of the exception that is on its way through the steps, if one is.
    """

    seed: int = 0
    position: int = 0
    row: int = 0
    input: int = 0
    packed: tuple[Sequence[Any], int | None] | None = None
    only: int | None = None
    allocate: Allocate = allocate_plainly
    tell: Tell = tell_nobody
    most: int = sys.maxsize
    take_all: dict[int, Callable[[Iterator[Element]], None]] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)
    at_failure: list[Callable[[], None]] = field(default_factory=list)
    fault: Fault | None = None

    def blame(self, number: int, row: int = 0) -> None:
        """Note that an operation failed. Each step says so of what passes through it: the first is the one at fault."""
        if self.fault is None:
            self.fault = Fault(number, row)


class Operation:
    """Base of all operations: answers all that the loader asks about an operation. Users mostly subclass the transforms.

    A subclass defines `connect`, and overrides what differs of the rest; docs/how-to/write-an-operation.md explains each.

    Attributes:
        takes: how many elements it makes one of; None for an operation that works on each alone.
        drops_remainder: fewer elements than it takes, at the end, come to nothing.
        needs_one: that all elements come to nothing so is an error.
        only_stacks: what it takes becomes one tree of arrays, and nothing else is done.
        keeps_elements: what it takes is pushed on one by one, in an order that does not depend on what becomes of it.
        only_filters: it passes each element on as it is, or leaves it out.
        one_to_one: it pushes exactly one element for each (or each `takes`) that it gets.
        max_fan_out: most elements that one becomes, if it is not one-to-one and no filter; None: any number.
        reads_position: its result depends on `Context.position`, `row` or `seed`.
        reads_index: in a `MapDataset`, `Context.position` is the index that was asked for.
        needs_seed: it is random.
        puts_together: what it takes becomes items of one element, not rows of a batch.
        plans_rows: it has the methods `plan` and `planned` of `Pack`, so that lengths alone decide its rows.
        plans_batches: it is a `BudgetBatch`: where lengths are known, the plan makes its batches.
        single_shard: why it works on one shard alone, and the remedy; "" (default): it works on any.
        method: the method of a dataset that takes it: `apply` calls this one.
        node_name: its name in the fingerprint of a `MapDataset`; "" (default): its class's.
    """

    takes: int | None = None
    drops_remainder: bool = False
    needs_one: ClassVar[bool] = True
    only_stacks: bool = False
    keeps_elements: ClassVar[bool] = False
    only_filters: ClassVar[bool] = False
    one_to_one: ClassVar[bool] = True
    max_fan_out: int | None = None
    reads_position: ClassVar[bool] = False
    reads_index: ClassVar[bool] = False
    needs_seed: ClassVar[bool] = False
    puts_together: ClassVar[bool] = False
    plans_rows: ClassVar[bool] = False
    plans_batches: ClassVar[bool] = False
    single_shard: ClassVar[str] = ""
    method: ClassVar[str] = ""
    node_name: ClassVar[str] = ""

    def connect(self, then: Step, context: Context, number: int) -> Step:
        """Make the step that stands before `then`.

        Args:
            then: the step to push results to.
            context: shared by all steps of the chain.
            number: place of this operation in the pipeline; part of the key of its random numbers.
        """
        raise NotImplementedError

    def taking(self, count: int) -> Operation:
        """The same operation, which takes another number of elements."""
        raise NotImplementedError

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> Operation:
        """The operation in a chain, whose order has no seed: with one of its own, if it is random.

        Args:
            seed_for: gives the seed, from the method's name and the seed that was passed to it, if one was.
            number: how many operations come before it.

        Raises:
            SeedError: it is random and takes no seed of its own.
        """
        if self.needs_seed:
            raise SeedError(f"{self!r} draws by the sampler's seed, and a chain has none; use it in a DataLoader.")
        return self

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """The user's function that does the work, if it is one function that does."""
        return None

    @property
    def plain_function(self) -> Callable[[Element], Any] | None:
        """A function of an element alone that does all: gives the result, or says whether to keep it; None if none does."""
        return None

    @property
    def name_in_stats(self) -> str:
        """The name in stats and verdicts: that of the user's function, or of the class.

        >>> from headrace import Batch, MapTransform
        >>> def decode(record):
        ...     return record
        >>> [operation.name_in_stats for operation in (MapTransform(decode), Batch(2), Batch(2, batch_fn=decode))]
        ['decode', 'Batch', 'decode']
        >>> MapTransform(lambda x: x).name_in_stats
        'lambda'
        """
        function = self.user_function
        own = function is None or getattr(function, "__self__", None) is self
        named = self if own else getattr(function, "func", function)
        name = getattr(named, "__name__", None) or type(named).__name__
        return "lambda" if name == "<lambda>" else str(name)

    def identity_parameters(self) -> dict[str, Any]:
        """The attributes that tell this operation from others of its kind in a checkpoint."""
        return vars(self)
