"""Base class of operations, and the context that their steps share.

Each operation creates a step: a function that takes an element and pushes results to the next step.
Each thread that runs a pipeline makes the chain of steps once, and makes it again after a failure.
A record passes through all steps before the next one enters the first step, unless a step combines
elements.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..common.identity.values import described, digest
from ..errors import SeedError

Element = Any
Step = Callable[[Element], None]


class ArraySpec(NamedTuple):
    """Shape and dtype of an array to allocate.

    Attributes:
        shape: its shape.
        dtype: its dtype.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Fault(NamedTuple):
    """Operation in which a pipeline failed.

    Attributes:
        number: index of the operation in the pipeline.
        row: if the operation was making a batch: row of the batch with the failure; otherwise 0.
    """

    number: int
    row: int = 0


SeedFor = Callable[[str, int | None], int]
"""Type of a function that returns the seed for a dataset method.

It takes the name of the method, and the seed that the user passed or None. Without a seed, it
derives one from an earlier call of the dataset's `seed()`.
"""

Allocate = Callable[[Sequence[ArraySpec]], list[NDArray[Any]]]
"""Type of a function that returns the arrays of one batch, uninitialised.

They may lie in one piece of memory.
"""


Notify = Callable[[str, str], None]
"""Type of a function that reports a message to the user.

It takes the name of a leaf, and the message.
"""


def notify_nobody(leaf: str, text: str) -> None:
    """Ignore the message `text` about the leaf `leaf`."""


_current: ContextVar[Notify] = ContextVar("headrace_notify", default=notify_nobody)


def current_notify() -> Notify:
    """Return the running operation's function to report messages, or one that ignores them."""
    return _current.get()


@contextmanager
def notifying(notify: Notify) -> Iterator[None]:
    """Make `current_notify()` return `notify` within the block."""
    token = _current.set(notify)
    try:
        yield
    finally:
        _current.reset(token)


class KeptNotices:
    """Messages of threads that read ahead, at most one for each leaf.

    A worker of this process takes them later.

    >>> kept = KeptNotices()
    >>> kept.notify("x", "text"), kept.take(), kept.take()
    (None, [('x', 'text')], [])
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def notify(self, leaf: str, text: str) -> None:
        self.texts.setdefault(leaf, text)

    def take(self) -> list[tuple[str, str]]:
        """Return `(leaf, message)` for all messages, and remove them."""
        return [self.texts.popitem() for _ in range(len(self.texts))]


FROM_READERS = KeptNotices()
"""Messages of sources that make batches while they are read."""


def allocate_plainly(specs: Sequence[ArraySpec]) -> list[NDArray[Any]]:
    """Return new NumPy arrays, uninitialised, one for each shape and dtype in `specs`."""
    return [np.empty(spec.shape, spec.dtype) for spec in specs]


Generators: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.uint64] | None], Iterator[Any]]
"""Function of positions and their seeds that yields their generators.

If the seeds are None, all positions have the seed of the context.

A generator may be used until the next one is yielded.
"""

DrawingFunction: TypeAlias = tuple[Callable[[Element, Any], Any], Generators]
"""Function of an element and a generator, and the generators."""


@dataclass(slots=True)
class Context:
    """Values that a chain's steps share: the current element's place in the stream, and functions.

    The place is seed, position and row. Steps read it; steps that combine elements, and the caller
    of the chain, set it.

    Attributes:
        seed: seed of the random operations.
        position: position of the record in the global order; for a batch, the position of its first
            record.
        row: index of the element among all elements that come from one position; 0 unless an
            operation that is not one-to-one, such as a flat map, makes several.
        input: index of the task's input from which the element was made; for a batch, the index of
            one such input.
        packed: while rows of a window are packed, its documents and the index of the row; while a
            window is batched by budget, the indices of the batch's records in the window, and None;
            otherwise None.
        only: index of the only element of a window to push to the next step; None: push all.
        allocate: function that allocates batches.
        notify: function that reports messages about leaves to the user.
        most: maximum number of rows of a batch, because the stage currently has at most this many
            inputs.
        take_all: for each batch operation, by its index: function that adds all elements of an
            iterator.
        at_end: functions that are called, in order, at the end of a span (consecutive batches
            handed to one worker), to finish open batches.
        at_failure: functions that are called, in order, after a failure. If an element that a step
            still holds is at fault, they raise its error first.
        fault: operation in which the current exception was raised; None without an exception.
    """

    seed: int = 0
    position: int = 0
    row: int = 0
    input: int = 0
    packed: tuple[Sequence[Any], int | None] | None = None
    only: int | None = None
    allocate: Allocate = allocate_plainly
    notify: Notify = notify_nobody
    most: int = sys.maxsize
    take_all: dict[int, Callable[[Iterator[Element]], None]] = field(default_factory=dict)
    at_end: list[Callable[[], None]] = field(default_factory=list)
    at_failure: list[Callable[[], None]] = field(default_factory=list)
    fault: Fault | None = None

    def take_hooks(self) -> Hooks:
        """Return the registered functions and forget them.

        Otherwise, context and steps would be in a reference cycle.
        """
        hooks = Hooks(self.take_all, self.at_end, self.at_failure)
        self.take_all, self.at_end, self.at_failure = {}, [], []
        return hooks

    def blame(self, number: int, row: int = 0) -> None:
        """Record in which operation an exception was raised.

        Each step that the exception passes through calls this. Only the first call has an effect.

        Args:
            number: index of the operation in the pipeline.
            row: row of the batch with the failure.
        """
        if self.fault is None:
            self.fault = Fault(number, row)


class Hooks(NamedTuple):
    """Functions that steps of a chain have registered in their `Context`, which explains them."""

    take_all: Mapping[int, Callable[[Iterator[Element]], None]]
    at_end: Sequence[Callable[[], None]]
    at_failure: Sequence[Callable[[], None]]


class Operation:
    """Base class of all operations. Attributes describe how an operation treats elements.

    Users mostly subclass transforms. A subclass defines `connect`, and overrides attributes whose
    defaults do not fit. docs/how-to/operation-members.md explains each. "Pushed" means passed to
    the next operation.

    Attributes:
        takes: number of elements that are collected and treated together, as a batch or window;
            None if each is treated alone.
        drops_remainder: True if fewer than `takes` elements at the end are dropped.
        needs_one: True if it is an error that all elements are dropped in this way.
        only_stacks: True if elements are only combined into one tree of arrays.
        keeps_elements: True if elements are pushed unchanged, in an order that does not depend on
            their contents.
        only_filters: True if each element is pushed unchanged, or dropped.
        one_to_one: True if exactly one element is pushed for each element (or for each `takes`
            elements).
        max_fan_out: maximum number of elements that are pushed for one, if the operation is neither
            one-to-one nor a filter; None: no limit.
        reads_position: True if the result depends on `Context.position`, `row` or `seed`.
        reads_index: True if `Context.position` is the requested index in a `MapDataset`.
        needs_seed: True if the operation is random.
        puts_together: True if the combined elements become items of one element, not rows of a
            batch.
        plans_rows: True if the operation has the methods `plan` and `planned` of `Pack`: lengths
            determine its rows.
        plans_batches: True for `BudgetBatch`, whose batches are planned if lengths are known.
        thread_safe: True (default) if several threads may run the operation at the same time. With
            False, a loader that chooses its kind of workers itself uses processes.
        single_shard: why the operation works on one shard only, and the remedy; "" (default): it
            works on any number of shards.
        method: name of the dataset method that takes the operation, which `apply` calls.
        node_name: name in the fingerprint of a `MapDataset`; "" (default): the name of the class.
        fingerprint: plain value that alone identifies the operation in checkpoints; None (default):
            its class, name and plain parameters do.
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
    thread_safe: bool = True
    single_shard: ClassVar[str] = ""
    method: ClassVar[str] = ""
    node_name: ClassVar[str] = ""
    fingerprint: Any = None

    def connect(self, then: Step, context: Context, number: int) -> Step:
        """Return the step of this operation, which takes an element and pushes results to `then`.

        Args:
            then: the next step.
            context: context that all steps of the chain share.
            number: index of this operation in the pipeline; it is part of the key of its random
                numbers.
        """
        raise NotImplementedError

    def taking(self, count: int) -> Operation:
        """Return a copy that combines `count` elements into one.

        Raises:
            NotImplementedError: the operation does not combine elements, or cannot be changed in
                this way.
        """
        raise NotImplementedError

    def with_chain_seed(self, seed_for: SeedFor, number: int) -> Operation:
        """Return the operation for use in a chain of datasets, which has no sampler and so no seed.

        A random operation returns a copy that has its own seed.

        Args:
            seed_for: function that returns the seed, from the method's name and the seed that was
                passed or None.
            number: number of operations before it.

        Raises:
            SeedError: the operation is random, and cannot have its own seed.
        """
        if self.needs_seed:
            raise SeedError(
                f"{self!r} draws from the seed of a sampler, but a MapDataset or IterDataset has "
                f"no sampler. Use {self!r} in a DataLoader."
            )
        return self

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """The user's function, if a single function does the work; else None."""
        return None

    @property
    def plain_function(self) -> Callable[[Element], Any] | None:
        """The function that does all the work, if it takes only an element; otherwise None.

        It returns the new element; for a filter, True to keep the element.
        """
        return None

    def drawing_function(self, context: Context, number: int) -> DrawingFunction | None:
        """Return the function of a random map, and the generators that it is called with.

        Return None for other operations.

        Args:
            context: context of the chain, from which the seed is taken.
            number: index of the operation in the pipeline.
        """
        return None

    @property
    def name_in_stats(self) -> str:
        """Name in statistics and diagnoses: the name of the user's function, or of the class.

        It is "lambda" for a lambda.

        >>> from headrace import Batch, MapTransform
        >>> def decode(record):
        ...     return record
        >>> operations = (MapTransform(decode), Batch(2), Batch(2, batch_fn=decode))
        >>> [operation.name_in_stats for operation in operations]
        ['decode', 'Batch', 'decode']
        >>> MapTransform(lambda x: x).name_in_stats
        'lambda'
        """
        function = self.user_function
        if function is None or (isinstance(function, MethodType) and function.__self__ is self):
            named: Any = self
        else:
            named = function.func if isinstance(function, functools.partial) else function
        name = getattr(named, "__name__", None) or type(named).__name__
        return "lambda" if name == "<lambda>" else str(name)

    def identity_parameters(self) -> dict[str, Any]:
        """Return, by name, the attributes that tell this operation from others of its class.

        A checkpoint distinguishes operations by them.
        """
        return vars(self)


def fingerprint(operation: Operation) -> str:
    """Return 8 hexadecimal digits that change with the operation's class, name or plain parameters.

    If the operation has an attribute `fingerprint`, they depend on its value alone.
    The size of a batch does not change them. A checkpoint stores it separately, because a run may
    resume with another one.

    >>> from headrace.operations import Batch
    >>> fingerprint(Batch(4)) == fingerprint(Batch(4, drop_remainder=True))
    False
    """
    explicit = getattr(operation, "fingerprint", None)
    return digest(explicit if explicit is not None else described(operation), 8)
