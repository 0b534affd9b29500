"""Convert trees of NumPy arrays to trees of `jax.Array` on devices.

In: trees of NumPy arrays and numbers. Out: trees of `jax.Array`, completely transferred to their
devices. Only the feeder's transfer thread uses this module.

This module copies nothing on the host, with two exceptions: batches that are filled up, and
`pinned_host`. On CPU, jax uses a 64-byte aligned array without a copy, and keeps the array, and so
its memory, until the `jax.Array` is deleted. For other devices, the host's arrays must stay
unchanged until the transfer is done; this module waits for the end of the transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ...common.messages import short_repr
from ...operations.trees import Structure, leaf_names
from .hosts.verdict import FILLING
from .options import FeederOptions
from .prepared import Arrangement, Prepared, check_rows, describe_leaf, leading_rows
from .shardings import (
    STAYS,
    check,
    divides_rows,
    for_leaves,
    global_shape,
    is_everywhere,
    processes_of,
    rows_divisor,
    with_rank,
)
from .trees import flatten


class Transfer:
    """Transfers batches to devices.

    Args:
        description: options of the feeder.

    Raises:
        ValueError: `pinned_host` is used with devices of several processes.
    """

    def __init__(self, description: FeederOptions) -> None:
        if description.pinned_host and len(processes_of(description.sharding)) > 1:
            raise ValueError(
                "pinned_host=True works only with devices of a single process. Leave pinned_host= "
                "out."
            )
        self._description = description
        self._with_mask = description.on_uneven in FILLING
        self._arrangement: Arrangement | None = None
        self._looks = True  # for integers that are cut
        self.warning: str | None = None  # about the first that was; for the user's thread

    def prepare(self, batch: Any) -> Prepared:
        """Split a batch into leaves (arrays and numbers), and find the sharding of each.

        Raises:
            TypeError: a leaf cannot be put on a device.
            OverflowError: a Python int is too large for a device.
            ShardingError: the shardings do not fit the batch; or, with `on_uneven="pad"` or
                "repeat", the leaves have different numbers of rows.
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
            self.warning = describe_cut(leaves, known)
            self._looks = self.warning is None
        return Prepared(leaves, known)

    def _arranged(
        self, structure: Structure, kinds: list[tuple[tuple[int, ...], Any]]
    ) -> Arrangement:
        names = leaf_names(structure)
        every = for_leaves(
            self._description.sharding, structure, [len(shape) for shape, _ in kinds], self._keeps
        )
        going = [
            number
            for number, (_, dtype) in enumerate(kinds)
            if every[number] is not STAYS and self._goes(names[number], dtype)
        ]
        shardings = [every[number] for number in going]
        shapes = [kinds[number][0] for number in going]
        divided = [
            index
            for index, shape in enumerate(shapes)
            if divides_rows(shardings[index], len(shape))
        ]
        leading, rows, with_rows = leading_rows(
            shapes, divided, [is_everywhere(sharding) for sharding in shardings]
        )
        if self._with_mask:
            check_rows([names[number] for number in going], shapes, divided)
        divisor = int(
            np.lcm.reduce(
                [
                    1,
                    *(
                        rows_divisor(sharding, len(shape))
                        for sharding, shape in zip(shardings, shapes)
                    ),
                ]
            )
        )
        filled = frozenset(going[index] for index in with_rows)
        cut = [
            (number, narrow)
            for number in going
            if (narrow := narrower(kinds[number][1])) is not None
        ]
        return Arrangement(
            structure, kinds, names, going, shardings, leading, filled, rows, divisor, cut
        )

    @property
    def _keeps(self) -> bool:
        return self._description.on_unsupported == "keep"

    def _goes(self, name: str, dtype: Any) -> bool:
        if is_supported(dtype):
            return True
        if self._keeps:
            return False
        raise TypeError(
            f"{describe_leaf(name)} has {_kind(dtype)}, which a device cannot store. Remove it in "
            'a map, or pass on_unsupported="keep" to get it on the host, unchanged.'
        )

    def put(self, prepared: Prepared, rows: int | None, real: int | None = None) -> tuple[Any, Any]:
        """Transfer a batch, filled up to a number of rows; return it on devices, with its mask.

        The mask is None unless `on_uneven` is "pad" or "repeat" and an array of the batch has an
        axis.

        Args:
            prepared: the batch.
            rows: number of rows to which it is filled up; None to leave it as it is.
            real: number of rows, from the first, for which the mask is True. None: all rows that
                the batch had before it was filled up.

        Raises:
            ShardingError: a leaf (array) cannot be divided over its devices.
        """
        arrangement = prepared.arrangement
        going = prepared.filled(rows, self._description.on_uneven == "repeat")
        for number, leaf, sharding in zip(arrangement.going, going, arrangement.shardings):
            check(arrangement.names[number], np.shape(leaf), sharding)
        shardings, masked = (
            arrangement.shardings,
            self._with_mask and arrangement.leading is not None,
        )
        if arrangement.leading is not None and masked:
            real = arrangement.rows if real is None else real
            going.append(np.arange(arrangement.rows if rows is None else rows) < real)
            shardings = [*shardings, with_rank(shardings[arrangement.leading], 1)]
        arrays = to_devices(going, shardings, self._description.pinned_host)
        mask = arrays.pop() if masked else None
        return prepared.with_leaves(arrays), mask


def _number(value: Any, structure: Structure, number: int) -> Any:
    """Convert a Python number in a batch to an array.

    Args:
        value: the number.
        structure: structure of the batch, from which the number's name in an error comes.
        number: index of the number among the leaves of the batch.

    Raises:
        OverflowError: an int is too large for jax, which would otherwise wrap it around.
    """
    if isinstance(value, int):
        limits = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
        if not limits.min <= value <= limits.max:
            raise OverflowError(
                f"{describe_leaf(leaf_names(structure)[number])} is {short_repr(value)}, outside "
                f"of [{limits.min}, {limits.max}], the range of jax's {limits.dtype}. Pass a "
                "number in this range, or a float. With jax_enable_x64, integers of jax may have "
                "64 bits."
            )
    return np.asarray(value)


def narrower(dtype: Any) -> Any:
    """Return the dtype to which devices convert integers of a dtype, if it has fewer bits.

    Return None if devices have the dtype itself, or if it is not a dtype of integers.
    """
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return None
    held = jax.dtypes.canonicalize_dtype(dtype)
    return held if held.itemsize < dtype.itemsize else None


def describe_cut(leaves: Sequence[Any], arrangement: Arrangement) -> str | None:
    """Return a warning about the first integer in a batch that does not fit its dtype on devices.

    Return None if all integers fit.

    Args:
        leaves: the arrays of the batch on this host.
        arrangement: facts about the batch, such as the dtypes that its integers have on devices.
    """
    for number, narrow in arrangement.cut:
        leaf, limits = leaves[number], np.iinfo(narrow)
        ends = (leaf.min(), leaf.max()) if np.size(leaf) else ()
        for end in ends:
            if not limits.min <= end <= limits.max:
                return (
                    f"{describe_leaf(arrangement.names[number])} has {end}, outside of "
                    f"[{limits.min}, {limits.max}]: without x64, jax makes {narrow} of "
                    f"{leaf.dtype}, and {end} becomes {end.astype(narrow)}. Call "
                    "jax.config.update('jax_enable_x64', True), map the numbers to smaller ones, "
                    "or keep the leaf on the host: a tree of shardings with None for it, and "
                    "on_unsupported='keep'. This warning comes once on each host."
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


def is_supported(dtype: Any) -> bool:
    """Return True if jax has arrays of a dtype.

    Besides numbers and bools, jax has dtypes of its own, such as bfloat16 and random keys.
    """
    if not isinstance(dtype, np.dtype):
        return (
            bool(jax.dtypes.issubdtype(dtype, jax.dtypes.extended))
            if not isinstance(dtype, type)
            else False
        )
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


def to_devices(leaves: Sequence[Any], shardings: Sequence[Any], pinned_host: bool) -> list[Any]:
    """Transfer arrays to their devices, wait for the end, and return the arrays on devices.

    Args:
        leaves: the arrays.
        shardings: sharding of each array.
        pinned_host: True: the arrays are first copied to page-locked memory of the host, from which
            a GPU may read faster than from ordinary memory.
    """
    if pinned_host:
        staged = [sharding.with_memory_kind("pinned_host") for sharding in shardings]
        return _wait(jax.device_put(_wait(_placed(leaves, staged)), list(shardings)))
    return _wait(_placed(leaves, shardings))


def _wait(arrays: list[Any]) -> list[Any]:
    return list(jax.block_until_ready(arrays))


def _placed(leaves: Sequence[Any], shardings: Sequence[Any]) -> list[Any]:
    """Begin the transfer of arrays, and return the arrays on devices.

    The returned arrays may not be complete yet.

    Args:
        leaves: the arrays. For an array that is divided over processes, this process's piece.
        shardings: sharding of each array.
    """
    if all(sharding.is_fully_addressable for sharding in shardings):
        # faster than one for each
        one_for_all = shardings and all(sharding is shardings[0] for sharding in shardings)
        return list(jax.device_put(list(leaves), shardings[0] if one_for_all else list(shardings)))
    return [_part_placed(leaf, sharding) for leaf, sharding in zip(leaves, shardings)]


def _part_placed(leaf: Any, sharding: Any) -> Any:
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    own = np.asarray(leaf)
    return jax.make_array_from_process_local_data(sharding, own, global_shape(sharding, own.shape))
