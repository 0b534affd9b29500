"""Find the shard of each process, from the sharding of the batches.

Processes whose devices hold the same rows of a batch get the same shard, which model parallelism
over several processes needs. If each process holds rows that no other process holds, there is one
shard for each process, as with `ShardByJaxProcess`; but shards are numbered in the order of their
rows.

In: a sharding. Out: the shard of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....common.messages import first_few
from ....errors import ShardingError
from ....samplers import ShardOptions
from ..options import jax_for


def shard_options_for(
    sharding: Any, *, drop_remainder: bool = False, process_index: int | None = None
) -> ShardOptions:
    """Return the shard that this process has to load so that its batches can be put on a sharding.

    Processes whose devices hold the same rows of the leading axis get the same shard. Shards are
    numbered in the order of their rows.

    Args:
        sharding: sharding of the batches: a `Sharding`, or `(mesh, axis names)`.
        drop_remainder: True: all shards have the same number of records. False (default): the first
            shards may have one more.
        process_index: process for which to return the shard. None (default): this process.

    Raises:
        MissingExtraError: jax is not installed.
        ShardingError: the sharding has no mesh; this process holds none of the rows; processes hold
            different numbers of rows; or two processes have some of their rows in common, but not
            all.
        TypeError, ValueError: `sharding` is not a sharding, or names an axis that the mesh does not
            have.

    >>> import jax, headrace
    >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    >>> headrace.shard_options_for((mesh, "data"))
    ShardOptions(shard_index=0, shard_count=1, drop_remainder=False)
    """
    jax = jax_for("shard_options_for")
    from ..shardings import as_shardings, leading_parts

    me = jax.process_index() if process_index is None else process_index
    index, count = shard_of(me, leading_parts(as_shardings(sharding)))
    return ShardOptions(index, count, drop_remainder)


def shard_of(process: int, parts: Mapping[int, frozenset[int]]) -> tuple[int, int]:
    """Return the shard index of a process, and the number of shards.

    Args:
        process: index of the process.
        parts: for each process, the indices of the parts of the leading axis that its devices hold.

    Raises:
        ShardingError: the process has no part; processes have different numbers of parts; or two
            processes have some of their parts in common, but not all.

    >>> first, second = frozenset([0, 1]), frozenset([2, 3])
    >>> shard_of(2, {0: first, 1: first, 2: second, 3: second})
    (1, 2)
    """
    if process not in parts:
        raise ShardingError(
            f"process {process} has no device in the sharding, but the processes "
            f"{first_few(sorted(parts), 8)} have. Pass a sharding with devices of every process."
        )
    groups = sorted(set(parts.values()), key=min)
    together = [part for group in groups for part in group]
    if len(together) != len(set(together)) or len({len(group) for group in groups}) > 1:
        each = first_few(
            [f"process {number}: parts {sorted(held)}" for number, held in sorted(parts.items())]
        )
        raise ShardingError(
            "the processes hold parts of the leading axis that overlap or have different sizes "
            f"({each}), so equal shards cannot fit them. Order the devices of the mesh so that "
            "each process holds equally many parts."
        )
    return groups.index(parts[process]), len(groups)
