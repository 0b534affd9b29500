"""Base of operations. Each operation creates a step, which pushes its results to the next step.

A pipeline is a chain of steps, made once for each thread that runs it, and used until a span fails. Pushing is depth first: a
record passes through all operations while it is still in the caches, and nothing is collected in between.
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
    """Shape and dtype of an array to allocate."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Fault(NamedTuple):
    """Failure of an operation.

    Attributes:
        number: number of the operation.
        row: row at fault of the batch that the operation was making; 0 for other operations.
    """

    number: int
    row: int = 0


SeedFor = Callable[[str, int | None], int]
"""Function that returns the seed of a chain's method: the seed that was passed, or one derived from `seed()` before."""

Allocate = Callable[[Sequence[ArraySpec]], list[NDArray[Any]]]
"""Function that returns the arrays of one batch, uninitialised, in one piece of memory."""


Tell = Callable[[str, str], None]
"""Function that is called with the name of a leaf and a message for the user."""


def tell_nobody(leaf: str, text: str) -> None:
    """Drop the message."""


_current: ContextVar[Tell] = ContextVar("headrace_tell", default=tell_nobody)


def current_tell() -> Tell:
    """Return the `Tell` of the operation that runs in this thread, or a function that drops messages."""
    return _current.get()


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Make `tell` the result of `current_tell()` inside the block."""
    token = _current.set(tell)
    try:
        yield
    finally:
        _current.reset(token)


class KeptTexts:
    """Messages from threads that read ahead, one for each leaf, until a worker of this process takes them.

    >>> kept = KeptTexts()
    >>> kept.tell("x", "text"), kept.take(), kept.take()
    (None, [('x', 'text')], [])
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def tell(self, leaf: str, text: str) -> None:
        self.texts.setdefault(leaf, text)

    def take(self) -> list[tuple[str, str]]:
        """Return all messages, and forget them."""
        return [self.texts.popitem() for _ in range(len(self.texts))]


FROM_READERS = KeptTexts()
"""Messages of sources that make batches while they are read."""


def allocate_plainly(specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
    """Allocate plain NumPy arrays."""
    return [np.empty(spec.shape, spec.dtype) for spec in specs]


@dataclass(slots=True)
class Context:
    """Place in the stream of the element that is being pushed. Steps read it; the runner and some steps set it.

    Attributes:
        seed: seed of the random operations.
        position: global position of the record; for a batch, that of its first record.
        row: number of the row among those of the position; 0 unless a flat map makes several.
        input: number of the task's input that the element was made of; for a batch, that of one of its inputs.
        packed: while a window is packed, its documents and the number of the row; while a window is batched by budget, the
            places of the batch in it, and None; else None.
        only: place in a window of the only element to push on; None: push all.
        allocate: function that allocates batches.
        tell: function that reports to the user about a leaf.
        most: maximum number of inputs of the stage at present. No batch has more rows.
        take_all: functions that push many rows into a batch, from an iterator, by number of the batch.
        at_end: functions that are called, in order, at the end of a span, so that open batches are finished.
        at_failure: functions that are called, in order, after a failure, so that an error of a waiting element is raised first.
        fault: operation at fault of the exception that is passing through the steps, or None.
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
        """Note that an operation failed. Every step that an exception passes through calls this; the first call counts."""
        if self.fault is None:
            self.fault = Fault(number, row)


class Operation:
    """Base of all operations: answers all that the loader asks about an operation. Users mostly subclass the transforms.

    A subclass defines `connect`, and overrides the attributes that differ. docs/how-to/operation-members.md explains each.

    Attributes:
        takes: number of elements that become one; None if the operation works on each element alone.
        drops_remainder: True if a rest of fewer elements than it takes is dropped.
        needs_one: True if it is an error that all elements are dropped in this way.
        only_stacks: True if it only combines elements into one tree of arrays.
        keeps_elements: True if it pushes elements on one by one, in an order that does not depend on their contents.
        only_filters: True if it passes each element on unchanged, or drops it.
        one_to_one: True if it pushes exactly one element for each element (or each `takes` elements).
        max_fan_out: maximum number of elements that one becomes, if it is neither one-to-one nor a filter; None: no limit.
        reads_position: True if its result depends on `Context.position`, `row` or `seed`.
        reads_index: True if `Context.position` is the requested index in a `MapDataset`.
        needs_seed: True if it is random.
        puts_together: True if the elements it takes become items of one element, and not rows of a batch.
        plans_rows: True if it has the methods `plan` and `planned` of `Pack`, so that lengths alone decide its rows.
        plans_batches: True for `BudgetBatch`, whose batches are planned if lengths are known.
        single_shard: why it works on one shard only, and the remedy; "" (default): it works on any number.
        method: name of the dataset method that takes it, which `apply` calls.
        node_name: name in the fingerprint of a `MapDataset`; "" (default): the name of the class.
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
        """Create the step that comes before `then`.

        Args:
            then: the step to push results to.
            context: context that all steps of the chain share.
            number: number of this operation in the pipeline, which is part of the key of its random numbers.
        """
        raise NotImplementedError

    def taking(self, count: int) -> Operation:
        """Return the same operation with another number of elements to take."""
        raise NotImplementedError

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> Operation:
        """Return the operation for use in a chain, whose order has no seed. A random operation gets a seed of its own.

        Args:
            seed_for: returns the seed, from the method's name and the seed that was passed, if any.
            number: number of operations before it.

        Raises:
            SeedError: it is random and takes no seed of its own.
        """
        if self.needs_seed:
            raise SeedError(f"{self!r} draws by the sampler's seed, and a chain has none; use it in a DataLoader.")
        return self

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """Return the user's function, if a single function does the work, else None."""
        return None

    @property
    def plain_function(self) -> Callable[[Element], Any] | None:
        """Return the function of an element alone that does all the work (the result, or True to keep the element), or None."""
        return None

    @property
    def name_in_stats(self) -> str:
        """Name in stats and verdicts: that of the user's function, or of the class.

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
        """Return the attributes that tell this operation from others of its kind in a checkpoint."""
        return vars(self)
