"""Find the sharding of each leaf (array) of a batch.

In: a device, a sharding, `(mesh, axis names)` or a tree of these, from the user; and the leaves of
a batch. Out: one checked sharding for each leaf. Imports jax. Facts that depend only on the layout
of a batch (its structure, shapes and dtypes) are computed once for all batches of that layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import jax
import optree
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from ...common.fields import is_named_tuple
from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ...errors import ShardingError
from ...operations.trees import Structure
from .prepared import describe_leaf
from .trees import NAMESPACE, flatten

_WANTED = "a device, a Sharding, (mesh, axis names), or a tree of these"


def as_shardings(target: Any) -> Any:
    """Convert the user's argument to a sharding, or to a tree of shardings.

    Raises:
        TypeError: a part of it is neither a device nor a sharding.
        ValueError: `(mesh, axis names)` names an axis that the mesh does not have.
    """
    if target is None or (
        isinstance(target, list) and target and all(isinstance(each, jax.Device) for each in target)
    ):
        what = "None" if target is None else "a list of devices"
        raise TypeError(
            f"{what} is not a sharding. To divide batches over devices, pass (Mesh(devices, "
            '("data",)), "data").'
        )
    if not _is_one(target):
        flatten(target)  # registers the classes in it
    return optree.tree_map(_as_sharding, target, is_leaf=_is_one, namespace=NAMESPACE)


def _is_one(target: Any) -> bool:
    return isinstance(target, (Sharding, jax.Device, Mesh, PartitionSpec)) or _is_shorthand(target)


def _is_shorthand(target: Any) -> bool:
    return isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], Mesh)


def _as_sharding(target: Any) -> Sharding:
    if isinstance(target, Sharding):
        return target
    if isinstance(target, jax.Device):
        return SingleDeviceSharding(target)
    if _is_shorthand(target):
        return _named(*target)
    remedy = (
        '. Name the axes over which batches are divided, (mesh, "data")'
        if isinstance(target, Mesh)
        else ""
    )
    if isinstance(target, PartitionSpec):
        raise TypeError(
            f"{short_repr(target)} is a PartitionSpec without a mesh. Pass both, (mesh, "
            f"{short_repr(target)}), or NamedSharding(mesh, {short_repr(target)})."
        )
    raise TypeError(
        f"{short_repr(target)} is {a_kind_of(target)}, to which batches cannot be sent. Pass "
        f"{_WANTED}{remedy}."
    )


def _named(mesh: Mesh, axes: Any) -> NamedSharding:
    """Convert a mesh, and the axes over which batches are divided, to a sharding.

    Args:
        mesh: the mesh.
        axes: names of the mesh axes over which the leading axis is divided, or a whole
            PartitionSpec.

    Raises:
        ValueError: the mesh has no axis of this name.
    """
    spec = axes if isinstance(axes, PartitionSpec) else PartitionSpec(axes)
    names = [name for entry in spec for name in _names(entry)]
    unknown = [name for name in names if name not in mesh.shape]
    if unknown:
        raise ValueError(
            f"the mesh has no axis {short_repr(unknown[0])}. Name one of its axes: "
            f"{_described(mesh)}."
        )
    return NamedSharding(mesh, spec)


def _names(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, tuple) else () if entry is None else (entry,)


def _described(mesh: Mesh) -> str:
    return first_few([f"{name!r}: {size}" for name, size in mesh.shape.items()], 8)


class Stays:
    """Marker that is used in place of a sharding for an array that stays on the host."""


STAYS = Stays()


def for_leaves(shardings: Any, structure: Structure, ranks: Sequence[int], keep: bool) -> list[Any]:
    """Return the sharding of each leaf (array) of a batch.

    A sharding in the tree of shardings applies to all leaves below it. If a leaf has fewer axes
    than a `PartitionSpec` has entries, only the first entries are used. A number is put on every
    device.

    Args:
        shardings: a sharding or a tree of them.
        structure: structure of the batch.
        ranks: number of axes of each leaf.
        keep: True if a leaf for which the tree of shardings has None or no key stays on the host.
            It gets the marker `STAYS` in place of a sharding.

    Raises:
        ShardingError: the tree of shardings does not fit the batch.
    """
    batch = structure.unflatten(range(structure.num_leaves))
    if keep:
        shardings = _completed(shardings, batch)
    try:
        tree = optree.tree_broadcast_prefix(shardings, batch, is_leaf=_is_one, namespace=NAMESPACE)
    except ValueError as error:
        remedy = "" if keep else ' With on_unsupported="keep", leaves without one stay on the host.'
        raise ShardingError(
            f"the tree of shardings does not fit this batch: {shorten(error)}. Pass one sharding "
            "for all leaves, or a tree with the same keys as the batch, and a sharding for each "
            f"leaf.{remedy}"
        ) from None
    flat = optree.tree_leaves(tree, is_leaf=_is_one, namespace=NAMESPACE)
    return [with_rank(sharding, rank) for sharding, rank in zip(flat, ranks)]


def _completed(shardings: Any, batch: Any) -> Any:
    """Return a tree of shardings in which arrays without a sharding get the marker `STAYS`.

    Such arrays stay on the host.

    Args:
        shardings: a sharding or a tree of them, which may have None, or lack keys of the batch.
        batch: a tree with the structure of the batch.
    """
    if (
        isinstance(shardings, (list, tuple))
        and type(shardings) is type(batch)
        and len(shardings) == len(batch)
    ):
        parts = [_completed(*pair) for pair in zip(shardings, batch)]
        return type(batch)(*parts) if is_named_tuple(type(batch)) else type(batch)(parts)
    if isinstance(shardings, dict) and isinstance(batch, dict):
        return {key: _completed(shardings.get(key), part) for key, part in batch.items()} | {
            key: sharding for key, sharding in shardings.items() if key not in batch
        }
    return optree.tree_map(
        lambda each: STAYS if each is None else each,
        shardings,
        is_leaf=_is_one,
        none_is_leaf=True,
        namespace=NAMESPACE,
    )


@lru_cache(maxsize=256)
def with_rank(sharding: Sharding, rank: int) -> Sharding:
    """Return a sharding for an array that has only `rank` axes.

    If the PartitionSpec of the sharding has more than `rank` entries, only the first ones are kept.
    """
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) <= rank:
        return sharding
    first = PartitionSpec(*tuple(sharding.spec)[:rank])
    return NamedSharding(sharding.mesh, first, memory_kind=sharding.memory_kind)


@lru_cache(maxsize=256)
def parts_of(sharding: NamedSharding, rank: int) -> tuple[int, tuple[int, ...]]:
    """Return into how many pieces a sharding divides an array with `rank` axes.

    Returns:
        A pair. First, the number of pieces of the leading axis that this process holds. Second, for
        each axis, the number of pieces into which the whole mesh divides it.
    """
    entries = [*sharding.spec, *[None] * rank][:rank]
    whole = tuple(_size(sharding.mesh, entry) for entry in entries)
    held = sharding.addressable_devices_indices_map(whole).values()
    return len({index[0].indices(whole[0])[0] for index in held}) if rank else 1, whole


def _size(mesh: Mesh, entry: Any) -> int:
    return prod(mesh.shape[name] for name in _names(entry))


def global_shape(sharding: Sharding, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of the global array that the arrays of all processes form together.

    Each process has some of the rows; all other axes are complete in each process. Return None if
    the array has no axis or the sharding no mesh; jax then finds the shape itself.

    Args:
        sharding: sharding of the array.
        shape: shape of this process's array.
    """
    if not isinstance(sharding, NamedSharding) or not shape:
        return None
    own_rows, whole = parts_of(sharding, len(shape))
    return (shape[0] // own_rows * whole[0], *shape[1:])


def rows_divisor(sharding: Sharding, rank: int) -> int:
    """Return the number of which this process's number of rows must be a multiple.

    Only then can the process's devices divide the rows equally.

    Args:
        sharding: sharding of the array. If it has no mesh, the result is 1.
        rank: number of axes of the array.
    """
    return parts_of(sharding, rank)[0] if isinstance(sharding, NamedSharding) else 1


def divides_rows(sharding: Sharding, rank: int) -> bool:
    """Return True if a sharding divides the leading axis of an array with `rank` axes over devices.

    A sharding with a mesh divides the leading axis if its spec names a mesh axis for it, even one
    with a single device. A sharding without a mesh divides it unless each device gets the whole
    array. A single number has no axis: the result is False.
    """
    if isinstance(sharding, NamedSharding):
        return bool(rank and len(sharding.spec) and _names(sharding.spec[0]))
    return bool(rank) and not sharding.is_fully_replicated


def is_everywhere(sharding: Sharding) -> bool:
    """Return True if a sharding has a mesh, and puts the whole array on each device.

    This is so if its spec names no axis, as in `P()` or `P(None)`. Return False for `P("data")`,
    even if the mesh axis "data" has only one device.
    """
    return isinstance(sharding, NamedSharding) and not any(_names(entry) for entry in sharding.spec)


def check(name: str, shape: tuple[int, ...], sharding: Sharding) -> None:
    """Check that a sharding can divide the axes of an array equally.

    The rows of this process must be divisible by the number of pieces that this process holds. Each
    other axis must be divisible by the number of its pieces on the whole mesh.

    Args:
        name: name of the array in the batch, for the message.
        shape: shape of the array.
        sharding: its sharding. A sharding without a mesh is not checked.

    Raises:
        ShardingError: the array cannot be divided. The message names the nearest possible sizes.
    """
    if not isinstance(sharding, NamedSharding):
        return  # others are rare; jax explains those
    own_rows, whole = parts_of(sharding, len(shape))
    for axis, (size, count) in enumerate(zip(shape, (own_rows, *whole[1:]))):
        if size % count:
            raise ShardingError(_indivisible(name, shape, sharding, axis, count))


def _indivisible(
    name: str, shape: tuple[int, ...], sharding: NamedSharding, axis: int, parts: int
) -> str:
    below = shape[axis] // parts * parts
    sizes = f"{below} and {below + parts}" if below else str(parts)
    axes = " × ".join(str(each) for each in _names(sharding.spec[axis]))
    here = "" if axis or sharding.is_fully_addressable else " of this process"
    remedy = (
        "Change the batch size, or leave out a short last batch (Batch(…, drop_remainder=True), or "
        'on_uneven="drop" or "pad").'
        if axis == 0
        else "Change the shape of the records, or the sharding of this leaf."
    )
    return (
        f"{describe_leaf(name)} has shape {shape}, whose axis {axis} of size {shape[axis]} cannot "
        f"be divided over the {parts} parts{here} of axis {axes} of the mesh "
        f"({_described(sharding.mesh)}); the nearest sizes that can are {sizes}. {remedy}"
    )


def processes_of(shardings: Any) -> list[int]:
    """Return the sorted indices of the processes that hold a piece of any array.

    Args:
        shardings: a sharding of the arrays or a tree of shardings.
    """
    flat = optree.tree_leaves(shardings, is_leaf=_is_one, namespace=NAMESPACE)
    return sorted({device.process_index for sharding in flat for device in sharding.device_set})


def _process_of(device: Any) -> int:
    return int(device.process_index)


def leading_parts(
    sharding: Sharding, host_of: Callable[[Any], Any] = _process_of
) -> dict[Any, frozenset[int]]:
    """Return which pieces of the leading axis the devices of each process hold.

    Args:
        sharding: the sharding.
        host_of: function that returns the process of a device, or another key of its host.

    Returns:
        For each process (or key of a host), the indices of the pieces.

    Raises:
        ShardingError: the sharding has no mesh.
    """
    if not isinstance(sharding, NamedSharding):
        raise ShardingError(
            f"{short_repr(sharding)} has no mesh. Pass a NamedSharding or (mesh, axis names)."
        )
    count = _size(sharding.mesh, [*sharding.spec, None][0])
    held: dict[Any, set[int]] = {}
    for device, index in with_rank(sharding, 1).devices_indices_map((count,)).items():
        held.setdefault(host_of(device), set()).add(index[0].indices(count)[0])
    return {process: frozenset(parts) for process, parts in held.items()}
