"""Host trees become trees of `jax.Array`.

In: trees of NumPy arrays and numbers. Out: trees of jax.Array, on their devices, transferred. Used by the feeder's transfer
thread alone.

No copy on the host is made here. On CPU, jax uses an array that is 64-byte aligned as it is, and keeps it, and so its slab's
lease, until the jax.Array dies. On other devices the host's arrays must stay until the transfer is done; this waits for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...common.messages import first_few, short_repr
from ...errors import ShardingError
from ...operations.trees import Structure, leaf_names
from .options import FeederOptions
from .shardings import (
    STAYS,
    check,
    divides_rows,
    for_leaves,
    global_shape,
    is_everywhere,
    processes_of,
    rows_divisor,
    told,
    with_rank,
)
from .trees import flatten


@dataclass(frozen=True)
class Arrangement:
    """The facts that all batches of the same structure, shapes and dtypes share."""

    structure: Structure
    kinds: list[tuple[tuple[int, ...], Any]]  # shape and dtype of each leaf
    names: list[str]  # of the leaves
    going: list[int]  # numbers of the leaves that go to devices
    shardings: list[Any]  # of those
    leading: int | None  # which of those the rows are taken from: see `_rows`
    with_rows: frozenset[int]  # numbers of the leaves whose leading axis is the rows
    rows: int  # length of that axis; -1 if there is none
    divisor: int  # what `rows` must be a multiple of
    cut: list[tuple[int, Any]]  # numbers of leaves of integers that devices hold fewer bits of, and the dtype there

    @cached_property
    def described(self) -> str:
        """The leaves that go, without the number of rows: what must be the same on all hosts."""
        return "; ".join(self._described(number, *self.kinds[number]) for number in self.going)

    def _described(self, number: int, shape: tuple[int, ...], dtype: Any) -> str:
        sizes = ["rows", *shape[1:]] if number in self.with_rows else shape
        return f"{self.names[number] or 'itself'} {dtype}[{', '.join(map(str, sizes))}]"


@dataclass(slots=True)
class Prepared:
    """A batch taken apart."""

    leaves: list[Any]
    arrangement: Arrangement

    def template(self) -> Any:
        """The same tree without rows: what a process that has no batch fills up with zeros. Leaves without rows stay."""
        going, with_rows = set(self.arrangement.going), self.arrangement.with_rows
        leaves = [
            _kept(leaf[:0] if number in with_rows else leaf) if number in going else None
            for number, leaf in enumerate(self.leaves)
        ]
        return self.arrangement.structure.unflatten(leaves)

    def constants(self) -> dict[str, bytes]:
        """The leaves without rows that go to devices, by name: all batches must have the same, if they are filled up.

        A process that has no batch any more would put another value on its devices.
        """
        arrangement = self.arrangement
        constant = [number for number in arrangement.going if number not in arrangement.with_rows]
        return {arrangement.names[number]: _content(self.leaves[number]) for number in constant}


class Transfer:
    """Brings batches to devices.

    Raises:
        ValueError: page-locked memory is not for these shardings.
    """

    def __init__(self, description: FeederOptions) -> None:
        if description.pinned_host and len(processes_of(description.sharding)) > 1:
            raise ValueError(
                "pinned_host=True is for devices of one process: with those of several, the way from page-locked memory "
                "would be a program of all of them, beside the training step; leave it out."
            )
        self._description = description
        self._with_mask = description.on_uneven == "pad"
        self._arrangement: Arrangement | None = None
        self._looks = True  # for integers that are cut
        self.warning: str | None = None  # about the first that was; for the user's thread

    def prepare(self, batch: Any) -> Prepared:
        """Take a batch apart, and see where its leaves go.

        Raises:
            TypeError: a leaf cannot go to a device.
            OverflowError: a Python int does not fit in one.
            ShardingError: the shardings are not for such a batch.
        """
        leaves, structure = flatten(batch)
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, (bool, int, float, complex)):
                leaves[number] = _number(leaf, structure, number)
        kinds = [(np.shape(leaf), _dtype(leaf)) for leaf in leaves]
        known = self._arrangement
        if known is None or known.kinds != kinds or known.structure != structure:
            known = self._arrangement = self._arranged(structure, kinds)
        if known.cut and self._looks:
            self.warning = _told_cut(leaves, known)
            self._looks = self.warning is None
        return Prepared(leaves, known)

    def _arranged(self, structure: Structure, kinds: list[tuple[tuple[int, ...], Any]]) -> Arrangement:
        names = leaf_names(structure)
        every = for_leaves(self._description.sharding, structure, [len(shape) for shape, _ in kinds], self._keeps)
        going = [
            number
            for number, (_, dtype) in enumerate(kinds)
            if every[number] is not STAYS and self._goes(names[number], dtype)
        ]
        shardings = [every[number] for number in going]
        shapes = [kinds[number][0] for number in going]
        divided = [index for index, shape in enumerate(shapes) if divides_rows(shardings[index], len(shape))]
        leading, rows, with_rows = _rows(shapes, shardings, divided)
        if self._with_mask:
            _check_rows([names[number] for number in going], shapes, divided)
        divisor = int(
            np.lcm.reduce([1, *(rows_divisor(sharding, len(shape)) for sharding, shape in zip(shardings, shapes))])
        )
        filled = frozenset(going[index] for index in with_rows)
        cut = [(number, narrow) for number in going if (narrow := _narrower(kinds[number][1])) is not None]
        return Arrangement(structure, kinds, names, going, shardings, leading, filled, rows, divisor, cut)

    @property
    def _keeps(self) -> bool:
        return self._description.on_unsupported == "keep"

    def _goes(self, name: str, dtype: Any) -> bool:
        if _is_supported(dtype):
            return True
        if self._keeps:
            return False
        raise TypeError(
            f"{told(name)} is of {_kind(dtype)}, which no device can hold; leave it out, or pass "
            'on_unsupported="keep" to receive it as it is, on the host.'
        )

    def put(self, prepared: Prepared, rows: int | None) -> tuple[Any, Any]:
        """The batch on its devices, filled up with zeros to `rows` unless that is None; and the mask.

        Raises:
            ShardingError: a leaf cannot be divided.
        """
        arrangement = prepared.arrangement
        going = [prepared.leaves[number] for number in arrangement.going]
        if rows is not None and rows != arrangement.rows:
            going = [
                _filled(leaf, rows) if number in arrangement.with_rows else leaf
                for number, leaf in zip(arrangement.going, going)
            ]
        for number, leaf, sharding in zip(arrangement.going, going, arrangement.shardings):
            check(arrangement.names[number], np.shape(leaf), sharding)
        shardings, masked = arrangement.shardings, self._with_mask and arrangement.leading is not None
        if arrangement.leading is not None and masked:
            going.append(np.arange(arrangement.rows if rows is None else rows) < arrangement.rows)
            shardings = [*shardings, with_rank(shardings[arrangement.leading], 1)]
        arrays = to_devices(going, shardings, self._description.pinned_host)
        mask = arrays.pop() if masked else None
        leaves = prepared.leaves
        for number, array in zip(arrangement.going, arrays):
            leaves[number] = array
        return arrangement.structure.unflatten(leaves), mask


def _rows(shapes: list[tuple[int, ...]], shardings: list[Any], divided: list[int]) -> tuple[int | None, int, list[int]]:
    """The leaf that gives the number of rows, that number, and the leaves that have these rows.

    That is the first leaf which is divided along its leading axis, or else the first that has one. Where some leaf is divided,
    one that is whole on every device is no part of the batch's axis, though it may be as long.
    """
    leading = next(iter(divided or [index for index, shape in enumerate(shapes) if shape]), None)
    if leading is None:
        return None, -1, []
    rows = shapes[leading][0]
    alike = [index for index, shape in enumerate(shapes) if shape and shape[0] == rows]
    return leading, rows, [index for index in alike if not (divided and is_everywhere(shardings[index]))]


def _check_rows(names: list[str], shapes: list[tuple[int, ...]], divided: list[int]) -> None:
    """See that there is one number of rows to fill up."""
    sizes = {shapes[index][0]: names[index] for index in divided or range(len(shapes)) if shapes[index]}
    if len(sizes) > 1:
        each = first_few([f"{name or 'the batch'}: {size}" for size, name in sizes.items()])
        raise ShardingError(
            f'with on_uneven="pad" it must be clear which leaves have the rows, and their leading axes differ ({each}); pass '
            'a tree of shardings, (mesh, "data") for leaves with rows and (mesh, PartitionSpec()) for others.'
        )


def _kept(leaf: Any) -> Any:
    return leaf if isinstance(leaf, jax.Array) else np.array(leaf)


def _content(leaf: Any) -> bytes:
    is_of_keys = isinstance(leaf, jax.Array) and not isinstance(leaf.dtype, np.dtype)
    return np.asarray(jax.random.key_data(leaf) if is_of_keys else leaf).tobytes()


def _number(value: Any, structure: Structure, number: int) -> Any:
    """A Python number as an array; jax would wrap an int that does not fit."""
    if isinstance(value, int):
        limits = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
        if not limits.min <= value <= limits.max:
            raise OverflowError(
                f"{told(leaf_names(structure)[number])} is {short_repr(value)}, outside of [{limits.min}, {limits.max}], what "
                f"jax's {limits.dtype} holds; pass a smaller number, or an array of another dtype (jax_enable_x64 has int64)."
            )
    return np.asarray(value)


def _narrower(dtype: Any) -> Any:
    """The dtype that devices hold integers in, if it has fewer bits than theirs; else None."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return None
    held = jax.dtypes.canonicalize_dtype(dtype)
    return held if held.itemsize < dtype.itemsize else None


def _told_cut(leaves: Sequence[Any], arrangement: Arrangement) -> str | None:
    """The warning of the first integer that does not fit on devices; None if all do."""
    for number, narrow in arrangement.cut:
        leaf, limits = leaves[number], np.iinfo(narrow)
        ends = (leaf.min(), leaf.max()) if np.size(leaf) else ()
        for end in ends:
            if not limits.min <= end <= limits.max:
                return (
                    f"{told(arrangement.names[number])} has {end}, outside of [{limits.min}, {limits.max}]: without x64, jax "
                    f"makes {narrow} of {leaf.dtype}, and {end} becomes {end.astype(narrow)}. Call "
                    "jax.config.update('jax_enable_x64', True), map the numbers to smaller ones, or keep the leaf on the host: "
                    "a tree of shardings with None for it, and on_unsupported='keep'. This is told once."
                )
    return None


def _dtype(leaf: Any) -> Any:
    if type(leaf) is np.ndarray:
        return leaf.dtype
    dtype = getattr(leaf, "dtype", None)
    known = isinstance(dtype, np.dtype) or isinstance(leaf, jax.Array)
    return dtype if known and not isinstance(leaf, np.ma.MaskedArray) else type(leaf)


def _kind(dtype: Any) -> str:
    return f"dtype {dtype}" if isinstance(dtype, np.dtype) else f"type {dtype.__name__}"


def _is_supported(dtype: Any) -> bool:
    """True if jax has arrays of a dtype; its own, such as bfloat16 and those of random keys, too."""
    if not isinstance(dtype, np.dtype):
        return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended)) if not isinstance(dtype, type) else False
    if not dtype.isnative:
        return False
    if dtype.kind in "biu":
        return True
    return bool(jax.dtypes.issubdtype(dtype, np.number)) and dtype.name not in (
        "longdouble",
        "clongdouble",
        "float128",
        "complex256",
    )


def _filled(leaf: Any, wanted: int) -> Any:
    if isinstance(leaf, jax.Array):  # of random keys, too, which NumPy has no zeros of
        return jnp.concatenate([leaf, jnp.zeros((wanted - len(leaf), *leaf.shape[1:]), leaf.dtype)])
    filled = np.zeros((wanted, *leaf.shape[1:]), leaf.dtype)
    filled[: len(leaf)] = leaf
    return filled


def to_devices(leaves: Sequence[Any], shardings: Sequence[Any], pinned_host: bool) -> list[Any]:
    """Arrays on their devices, the transfer done.

    With `pinned_host` they go through page-locked memory of the host, from which a GPU may be able to read faster than from
    ordinary memory. That costs a copy on the host, and was never measured on a GPU: so it is off unless asked for.
    """
    if pinned_host:
        staged = [sharding.with_memory_kind("pinned_host") for sharding in shardings]
        return _wait(jax.device_put(_wait(_placed(leaves, staged)), list(shardings)))
    return _wait(_placed(leaves, shardings))


def _wait(arrays: list[Any]) -> list[Any]:
    return list(jax.block_until_ready(arrays))


def _placed(leaves: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Arrays on their way to their devices: of the local part of each, where other processes hold the rest."""
    if all(sharding.is_fully_addressable for sharding in shardings):
        one_for_all = shardings and all(sharding is shardings[0] for sharding in shardings)  # faster than one for each
        return list(jax.device_put(list(leaves), shardings[0] if one_for_all else list(shardings)))
    return [_part_placed(leaf, sharding) for leaf, sharding in zip(leaves, shardings)]


def _part_placed(leaf: Any, sharding: Any) -> Any:
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    own = np.asarray(leaf)
    return jax.make_array_from_process_local_data(sharding, own, global_shape(sharding, own.shape))
