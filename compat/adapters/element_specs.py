"""Infer the shapes and dtypes of a dataset's elements without reading records, as Grain does.

Of the user's functions, only `output_spec` is called; for an interleave, also those that make its
first dataset.

In: a dataset. Out: a tree of shapes and dtypes. The number of rows is None for batches that may be
short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from types import MethodType
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import optree

from ...chains.map_dataset import MapDataset
from ...chains.nodes.items import Applied
from ...chains.nodes.joins import OnSeveral, Zipped
from ...chains.nodes.node import Evaluated, Node
from ...chains.nodes.reordered import Reordered, Seeded
from ...chains.nodes.source_node import Source
from ...loader.plan.joins import Apply, Read
from ...loader.plan.joins import Node as Tree
from ...loader.plan.rules import InTurn
from ...operations import Batch, Operation
from ...operations.function import FunctionOperation
from ...sources import RangeDataSource
from ...sources.mixed.source import MixedSource
from ...sources.run_through import run_through_dataset
from .chains.at_index import AtIndex, TakenApart
from .chains.files import InterleaveIterDataset


@runtime_checkable
class ShapeDtypeStructProtocol(Protocol):
    """Protocol of objects with a `shape` and a `dtype`."""

    @property
    def shape(self) -> tuple[int | None, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclass(slots=True, frozen=True)
class ShapeDtypeStruct:
    """A shape and a dtype.

    Attributes:
        shape: length of each axis; None for an axis of unknown length.
        dtype: the dtype.
    """

    shape: tuple[int | None, ...]
    dtype: Any


def get_element_spec(ds: Any) -> Any:
    """Return the shapes and dtypes of a dataset's elements, without reading a record.

    A transform describes its results by a method `output_spec(spec)`.

    Args:
        ds: a dataset with random access, or a stream.

    Returns:
        a tree like an element, with a `ShapeDtypeStruct` for each leaf.

    Raises:
        ValueError: if a transform has no `output_spec`.
        NotImplementedError: if the dataset contains a source of unknown type, a packing, a flat
            map, or a batch function without `output_spec`.

    >>> from headrace.compat.grain import MapDataset
    >>> get_element_spec(MapDataset.range(4).batch(2, drop_remainder=True))
    ShapeDtypeStruct(shape=(2,), dtype=<class 'numpy.int64'>)
    """
    if isinstance(ds, MapDataset):
        return _of_node(ds.root_node)
    if isinstance(ds, InterleaveIterDataset):
        return get_element_spec(ds.datasets[0])
    # a class of the user's may say it in Grain's way
    if (own := getattr(ds, "_element_spec", None)) is not None:
        return own
    tree = ds.chain_stream.tree
    if isinstance(tree, Read) and run_through_dataset(tree.leaf.source) is ds:
        _unknown(type(ds).__name__)
    return _of_tree(tree)


def _of_node(node: Node) -> Any:
    """Return the spec (tree of shapes and dtypes) of the elements of a `MapDataset` node.

    Raises:
        NotImplementedError, ValueError: as `get_element_spec`.
    """
    if isinstance(node, Source):
        return _of_source(node.source)
    if isinstance(node, Zipped):
        return tuple(map(_of_node, node.nodes))
    if isinstance(node, OnSeveral):
        return _of_node(node.nodes[0])
    if isinstance(node, (Seeded, Reordered)):
        return _of_node(node.input)
    if isinstance(node, Applied):
        return _after(lambda: _of_node(node.input), node.operation)
    return _unknown(node.kind)


def _of_tree(tree: Tree) -> Any:
    """Return the spec (tree of shapes and dtypes) of the elements of a stream's tree.

    Raises:
        NotImplementedError, ValueError: as `get_element_spec`.
    """
    if isinstance(tree, Read):
        return _of_source(tree.leaf.source)
    if isinstance(tree, Apply):
        return reduce(_later, tree.operations, lambda: _of_tree(tree.input))()
    inputs = tree.inputs if isinstance(tree.rule, InTurn) else tree.inputs[:1]
    specs = tuple(map(_of_tree, inputs))
    return specs if isinstance(tree.rule, InTurn) else specs[0]


def _of_source(source: Any) -> Any:
    if isinstance(source, RangeDataSource):
        return ShapeDtypeStruct((), np.int64)
    if isinstance(source, Evaluated):
        return _of_node(source.root_node)
    if isinstance(source, MixedSource):
        return _of_source(next(iter(source.parts.values())))
    dataset = run_through_dataset(source)
    return _unknown(type(source).__name__) if dataset is None else get_element_spec(dataset)


def _later(below: Callable[[], Any], operation: Operation) -> Callable[[], Any]:
    return lambda: _after(below, operation)


def _after(below: Callable[[], Any], operation: Operation) -> Any:
    """Return the spec (tree of shapes and dtypes) of an operation's results.

    As in Grain, a missing `output_spec` of the operation itself is reported before errors of
    `below`.

    Args:
        below: function that returns the spec of the inputs.
        operation: the operation.

    Raises:
        NotImplementedError, ValueError: as `get_element_spec`.
    """
    transform = operation.transform if isinstance(operation, AtIndex) else operation
    method = transform.method if isinstance(transform, FunctionOperation) else ""
    if isinstance(operation, TakenApart) and operation.told_as == "batch_idx":
        return _Rows(below())
    if isinstance(operation, Batch):
        return _of_batch(below(), operation)
    if method in ("", "filter"):
        return below()
    return (
        _unknown("FlatMap")
        if method == "flat_map"
        else _owner_of_output_spec(transform).output_spec(below())
    )


@dataclass(frozen=True)
class _Rows:
    """Spec of the rows that batches are split into before they are batched again.

    Attributes:
        batches: spec of the batches.
    """

    batches: Any


def _of_batch(spec: Any, batch: Any) -> Any:
    if isinstance(spec, _Rows):
        return _mapped(
            lambda leaf: type(leaf)(shape=(batch.takes, *leaf.shape[1:]), dtype=leaf.dtype),
            spec.batches,
        )
    function = batch.batch_fn.func if isinstance(batch.batch_fn, partial) else batch.batch_fn
    if hasattr(function, "output_spec"):
        return function.output_spec(spec, batch.takes, batch.drops_remainder)
    if function is not None:
        raise NotImplementedError(
            "Element spec inference is not supported with custom batching functions. Make batch_fn "
            "an object with __call__ and a method output_spec(spec, batch_size, drop_remainder), "
            "which returns the spec of a batch."
        )
    rows = batch.takes if batch.drops_remainder else None
    return _mapped(lambda leaf: ShapeDtypeStruct((rows, *leaf.shape), leaf.dtype), spec)


def _owner_of_output_spec(transform: Any) -> Any:
    """Return the object that has `output_spec`: the transform or its function.

    Raises:
        ValueError: if neither has `output_spec`.
    """
    function = transform.function
    for each in (transform, function):
        if hasattr(each, "output_spec"):
            return each
    owner = function.__self__ if isinstance(function, MethodType) else function
    name = getattr(owner, "__name__", type(owner).__name__)
    raise ValueError(
        f"Cannot infer element spec for transform {name} because it does not implement "
        "`output_spec` method. Define output_spec(self, input_spec) in its class. In place of "
        "a plain function, pass an object with __call__ and output_spec."
    )


def _mapped(function: Callable[[Any], Any], spec: Any) -> Any:
    return optree.tree_map(
        function, spec, is_leaf=lambda leaf: isinstance(leaf, ShapeDtypeStructProtocol)
    )


def _unknown(name: str) -> NoReturn:
    raise NotImplementedError(
        f"`element_spec` inference is not implemented for {name}. Read next(iter(dataset)) to see "
        "shapes and dtypes."
    )
