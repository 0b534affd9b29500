"""Shards: the positions of the global order that a process reads.

Shard s of S reads the positions s, s + S, s + 2S, …

In: local positions and lengths. Out: global positions and lengths. Pure arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.controllers import warn_of_one_controller
from ..common.messages import a_kind_of, short_repr
from ..common.validation import true_or_false, whole_number


@dataclass(frozen=True)
class ShardOptions:
    """One shard of several: it has the positions `shard_index + n * shard_count` of an order.

    Attributes:
        shard_index: index of this process's shard, `0 <= shard_index < shard_count`.
        shard_count: number of shards.
        drop_remainder: True gives every shard the same number of records; False (default) may give
            the first shards one more. With `algorithm="grain"` it only decides which records belong
            to which shard: loaders then read equally many records of each shard.

    Raises:
        TypeError: if a number is not an int, or `drop_remainder` is not a bool.
        ValueError: if `shard_index` is outside `[0, shard_count)`, or `shard_count` is not
            positive.

    >>> shard = ShardOptions(shard_index=1, shard_count=4)
    >>> shard.length(10), shard.global_position(2)
    (3, 9)
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        vars(self).update(
            shard_count=whole_number(
                "shard_count", self.shard_count, 1, None, "the number of shards"
            ),
            shard_index=whole_number(
                "shard_index",
                self.shard_index,
                -1 << 63,
                None,
                "the number of this process's shard, from 0",
            ),
            drop_remainder=true_or_false("drop_remainder", self.drop_remainder),
        )
        if not 0 <= self.shard_index < self.shard_count:
            raise ValueError(
                f"shard_index={short_repr(self.shard_index)} is outside of [0, shard_count) = [0, "
                f"{self.shard_count}). Pass the index of a shard, counted from 0."
            )

    def length(self, total: int) -> int:
        """Return this shard's number of positions, if all shards together have `total`."""
        whole, rest = divmod(total, self.shard_count)
        return whole + (not self.drop_remainder and self.shard_index < rest)

    def global_position(self, local: int) -> int:
        """Convert this shard's local position (0, 1, 2, …) to the global position."""
        return local * self.shard_count + self.shard_index

    def global_positions(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert this shard's local positions `int64[n]` to global positions `int64[n]`."""
        return local if self.shard_count == 1 else local * self.shard_count + self.shard_index


def as_shard_options(options: Any) -> ShardOptions:
    """Return `options` as `ShardOptions`; convert shard options of another library.

    Options of another library must have the attributes `shard_index` and `shard_count`, and may
    have `drop_remainder`.

    Raises:
        TypeError: if `options` is a class, or has no `shard_index` and `shard_count`.
        ValueError: if the numbers are outside their ranges.
    """
    if isinstance(options, ShardOptions):
        return options
    if isinstance(options, type) and issubclass(options, ShardOptions):
        instance = (
            "headrace.ShardOptions(index, count)"
            if options is ShardOptions
            else f"{options.__name__}(…)"
        )
        if options in (NoSharding, ShardByJaxProcess):
            instance = f"headrace.{options.__name__}()"
        raise TypeError(
            f"shard_options={options.__name__} is a class. Pass an instance, {instance}."
        )
    try:
        index, count = options.shard_index, options.shard_count
    except AttributeError:
        index = count = None
    if count is None or isinstance(options, type):
        raise TypeError(
            f"shard_options={short_repr(options)} is {a_kind_of(options)}. Pass "
            "headrace.ShardOptions(index, count)."
        )
    return ShardOptions(index, count, getattr(options, "drop_remainder", False))


@dataclass(frozen=True)
class NoSharding(ShardOptions):
    """A single shard: this process reads the whole stream."""

    shard_index: int = 0
    shard_count: int = 1
    drop_remainder: bool = False


class ShardByJaxProcess(ShardOptions):
    """One shard for each JAX process: `jax.process_index()` of `jax.process_count()`.

    Call `jax.distributed.initialize()` first. On Pathways, where one process controls all devices,
    a warning says to use `RemoteLoader`.

    Args:
        drop_remainder: True gives every shard the same number of records; False (default) may give
            the first shards one more.

    Raises:
        MissingExtraError: if jax is not installed.
    """

    def __init__(self, drop_remainder: bool = False) -> None:
        try:
            import jax
        except ImportError as error:
            from ..errors import MissingExtraError

            raise MissingExtraError(
                'ShardByJaxProcess needs jax: pip install "headrace[jax]"'
            ) from error
        warn_of_one_controller("ShardByJaxProcess")
        super().__init__(jax.process_index(), jax.process_count(), drop_remainder)
