"""Base class of `MapDataset` and `IterDataset`, through which operations add methods to both.

The module of an operation defines its dataset methods in a class derived from `ChainMethods`, which
is a base of both datasets. An operation of another package is found by its entry point when a
dataset method of its name is requested.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..common.lazy_exports import installed
from ..common.messages import short_repr
from .function import METHODS, is_transform_class
from .protocol import Operation

ChainT = TypeVar("ChainT")
"""Type of the dataset that a method returns."""

GROUP = "headrace.operations"
"""Entry point group for operations of other packages."""


class ChainMethods(Generic[ChainT]):
    """Base class of datasets. Its methods return a dataset with one more operation."""

    @abstractmethod
    def _then(self, operation: Operation) -> ChainT:
        """Return this dataset with `operation` added at its end.

        The operation already has its seed.
        """

    @abstractmethod
    def _seed_for(self, method: str, seed: int | None) -> int:
        """Return the seed for a dataset method.

        Args:
            method: name of the method, for the error message.
            seed: the seed that the user passed; None: it is derived from an earlier call of
                `seed()`.

        Raises:
            SeedError: there is no seed.
        """

    @property
    @abstractmethod
    def _operation_count(self) -> int:
        """Number of operations in the chain so far."""

    def then(self, operation: Operation) -> ChainT:
        """Return the dataset with an operation added.

        Raises:
            SeedError: the operation is random, and neither it nor the dataset has a seed.

        >>> from headrace import Filter, MapDataset
        >>> list(MapDataset.range(4).then(Filter(lambda x: x % 2)))
        [1, 3]
        """
        return self._then(operation.with_chain_seed(self._seed_for, self._operation_count))

    def apply(self, transformations: Any) -> ChainT:
        """Return the dataset with a transform, or a list of transforms, added.

        A `MapTransform` or a function is added by `map`, a `Filter` by `filter`, and so on.

        Args:
            transformations: a transform of headrace or Grain, a function, or a list of these.

        Raises:
            TypeError: an item is not a transform.

        >>> from headrace import Batch, MapDataset
        >>> [batch.tolist() for batch in MapDataset.range(4).apply([lambda x: x + 1, Batch(2)])]
        [[1, 2], [3, 4]]
        """
        dataset: Any = self
        for transform in (
            transformations if isinstance(transformations, (list, tuple)) else (transformations,)
        ):
            dataset = _call_for(transform)(dataset)
        return dataset  # type: ignore[no-any-return]

    def pipe(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Return `function(dataset, *arguments, **named)`.

        >>> from headrace import MapDataset
        >>> MapDataset.range(5).pipe(len)
        5
        """
        return function(self, *arguments, **named)

    if not TYPE_CHECKING:  # which is to find wrong names itself

        def __getattr__(self, name: str) -> Any:
            operation = None if name.startswith("_") else installed(GROUP, name)
            return super().__getattr__(name) if operation is None else _as_method(self, operation)


def _as_method(dataset: Any, operation: Callable[..., Operation]) -> Callable[..., Any]:
    """Return a dataset method that adds an operation of another package.

    Args:
        dataset: the dataset.
        operation: class of the operation, or a function that makes it. The method has its signature
            and docstring.
    """

    @wraps(operation, updated=())
    def method(*arguments: Any, **named: Any) -> Any:
        return dataset.apply(operation(*arguments, **named))

    return method


def _call_for(transform: Any) -> Callable[[Any], Any]:
    """Return a function that takes a dataset and returns it with a transform added.

    Raises:
        TypeError: `transform` is not a transform.
    """
    ours = isinstance(transform, Operation)
    for method in METHODS:
        if (ours and transform.method == method) or (not ours and _has(transform, method)):
            return lambda dataset: getattr(dataset, method)(transform)
    if hasattr(transform, "batch_size"):
        drop, batch_fn = (
            getattr(transform, "drop_remainder", False),
            getattr(transform, "batch_fn", None),
        )
        return lambda dataset: dataset.batch(
            transform.batch_size, drop_remainder=drop, batch_fn=batch_fn
        )
    if ours:
        return lambda dataset: dataset.then(transform)
    if is_transform_class(transform):
        raise TypeError(
            f"apply({transform.__name__}): the argument is a class of transforms. Pass an "
            f"instance, {transform.__name__}(…)."
        )
    if callable(transform):
        return lambda dataset: dataset.map(transform)
    raise TypeError(
        f"apply({short_repr(transform)}): the argument is not a transform. Pass a transform, such "
        "as MapTransform, Filter or Batch, or a function, or a list of these."
    )


def _has(transform: Any, method: str) -> bool:
    return not isinstance(transform, type) and callable(getattr(transform, method, None))
