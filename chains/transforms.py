"""Transforms as people pass them to methods of datasets: ours, another library's with the same methods, or plain functions.

In: what the user passed. Out: an operation of the kind that the method is about, or an error that says what to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..common.messages import short_repr
from ..operations import (
    Batch,
    Filter,
    FlatMap,
    MapTransform,
    MapWithIndexTransform,
    Operation,
    Pack,
    RandomMapTransform,
)
from ..operations.transforms import FunctionOperation, as_operation

KindT = TypeVar("KindT", bound=FunctionOperation)

KINDS: tuple[type[FunctionOperation], ...] = (MapTransform, RandomMapTransform, MapWithIndexTransform, Filter, FlatMap)


def as_kind(kind: type[KindT], transform: Any) -> KindT:
    """A transform of this kind.

    Args:
        kind: `MapTransform`, `Filter` and so on.
        transform: such a one, an object that has its method, or a function.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(transform, kind):
        as_operation(transform)  # raises when there is nothing to do
        return transform
    method = getattr(transform, kind.method, None)
    function = transform if method is None else method
    if isinstance(transform, Operation) or _is_class(transform) or not callable(function):
        raise TypeError(
            f"{kind.method}({short_repr(transform)}): pass a function, a headrace.{kind.__name__}, or an object that has "
            f"{kind.method}()."
        )
    return kind(function)


def fan_out_of(transform: Any, max_fan_out: int | None) -> FlatMap:
    """A flat map, with the limit that was passed with it, or that it has itself."""
    if isinstance(transform, FlatMap) and max_fan_out is None:
        return as_kind(FlatMap, transform)
    limit = getattr(transform, "max_fan_out", None) if max_fan_out is None else max_fan_out
    function = as_kind(FlatMap, transform).function
    return FlatMap(function, limit)


def each_of(transformations: Any) -> Iterable[Any]:
    """One transform, or several in a list."""
    return transformations if isinstance(transformations, (list, tuple)) else (transformations,)


def method_for(dataset: Any, transform: Any) -> Callable[[], Any]:
    """The call of a dataset's method that applies a transform.

    Raises:
        TypeError: it is no transform.
    """
    for kind in KINDS:
        if isinstance(transform, kind) or (not isinstance(transform, Operation) and _has(transform, kind.method)):
            return lambda: getattr(dataset, kind.method)(transform)
    if isinstance(transform, Pack):
        return lambda: dataset._packed(transform)
    if isinstance(transform, Batch) or hasattr(transform, "batch_size"):
        drop, batch_fn = getattr(transform, "drop_remainder", False), getattr(transform, "batch_fn", None)
        return lambda: dataset.batch(transform.batch_size, drop_remainder=drop, batch_fn=batch_fn)
    if callable(transform) and not isinstance(transform, Operation) and not _is_class(transform):
        return lambda: dataset.map(transform)
    raise TypeError(
        f"apply({short_repr(transform)}): pass a transform, as MapTransform, Filter or Batch, a function, or a list of these."
    )


def _has(transform: Any, method: str) -> bool:
    return not isinstance(transform, type) and callable(getattr(transform, method, None))


def _is_class(transform: Any) -> bool:
    """Whether this is the class of a transform, where an instance is meant; `str` and its like are functions."""
    return isinstance(transform, type) and any(hasattr(transform, kind.method) for kind in KINDS)
