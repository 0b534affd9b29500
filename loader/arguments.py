"""Check the arguments of a loader.

Arguments that belong to other libraries cause an error, which says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import lcm
from typing import Any, Literal, TypedDict

from ..common.costs import Cost, costs_of
from ..common.messages import a_kind_of, first_few, short_repr
from ..common.validation import one_of, warn, whole_number
from ..errors import SeedError
from ..operations import Operation
from ..samplers.balance import Balance
from ..samplers.block_shuffle import BlockShuffle
from ..samplers.changing.growth import GrowthOptions
from ..sources.facts import facts_of
from ..sources.lengths import lengths_of
from ..sources.mixed.source import MixedSource
from ..sources.omission.keys import OmitOfParts
from .failures import Asked, OnError, Skips
from .options import Auto, ExecutionOptions, ReadOptions

_FORMS = {
    "DataLoader": "DataLoader(data_source=…, sampler=…, operations=[…, headrace.Batch(32)]), "
    "or the short form headrace.load(source, batch_size=32, shuffle=True, seed=0, num_epochs=1)",
    "load": "load(source, batch_size=32, shuffle=True, seed=0, num_epochs=1)",
}


class LoaderOptions(TypedDict, total=False):
    """Arguments of `load` that are passed on to `DataLoader` unchanged, and described there."""

    worker_count: int | Literal["auto", "cluster"] | Auto | None
    worker_buffer_size: int
    read_options: ReadOptions | None
    enable_profiling: bool
    observe: bool | Literal["log"]
    worker_kind: Literal["process", "thread", "ray"] | None
    timeout: float | None
    on_error: Literal["raise", "skip"] | OnError
    max_errors: int | None
    ray_options: Mapping[str, Any] | None
    address: str | None
    seed_globals: bool
    hang_seconds: float | None
    growth: Literal["epoch", "now", "hand"] | GrowthOptions | None
    omit: OmitOfParts | None


def options_of_workers(options: Any) -> dict[str, Any]:
    """Convert an object that describes workers to arguments for `ExecutionOptions`.

    Args:
        options: an object with an attribute `num_workers`, such as Grain's
            `MultiprocessingOptions`; or a value for `worker_count`.

    Returns:
        a dict with the keys `worker_count`, `worker_buffer_size` and `observe`, made of the
        object's attributes; or only `worker_count`.
    """
    try:
        workers = options.num_workers
    except AttributeError:
        return {"worker_count": options}
    return {
        "worker_count": workers,
        "worker_buffer_size": getattr(options, "per_worker_buffer_size", 1),
        "observe": "log" if getattr(options, "enable_profiling", False) else True,
    }


def refuse(
    function: str, unnamed: Sequence[Any], unknown: Iterable[str], known: Sequence[str]
) -> None:
    """Raise an error for arguments that `DataLoader` or `load` does not accept.

    Args:
        function: name of the function, "DataLoader" or "load".
        unnamed: positional arguments, which are not accepted.
        unknown: names of unknown keyword arguments.
        known: names of all arguments that are accepted.

    Raises:
        TypeError: if there is a positional argument or an unknown name. The message says what to
            write instead.
    """
    if unnamed:
        which = "all arguments but the source" if function == "load" else "its arguments"
        raise TypeError(
            f"headrace.{function} takes {which} by name only. Write {_FORMS[function]}."
        )
    for name in unknown:
        from ..migration_hints.hints import unknown_argument

        raise unknown_argument(function, name, known)


def as_list(name: str, operations: Any) -> Sequence[Any]:
    """Return `operations`, after checking that they are a list or a tuple.

    Args:
        name: name of the argument, for the error message.
        operations: value of the argument.

    Raises:
        TypeError: if `operations` is neither a list nor a tuple.
    """
    if isinstance(operations, (list, tuple)):
        return operations
    raise TypeError(
        f"{name}={short_repr(operations)} is {a_kind_of(operations)}. Pass a list, {name}=[…], "
        "even of a single operation."
    )


def sampler_alone(**others: Any) -> None:
    """Check that no argument of `load` that defines an order is given together with a sampler.

    Args:
        **others: the arguments that define an order, by name; None if not given.

    Raises:
        TypeError: if one of the arguments is not None.
    """
    for name, value in others.items():
        if value is not None:
            costs = name in ("balance", "lengths")
            to_sampler = "pass balance=headrace.Balance(lengths, cost)" if costs else "set it in"
            raise TypeError(
                f"load: sampler= and {name}={short_repr(value)} cannot be combined, because the "
                f"sampler alone chooses the records and their order. Leave {name}= out, and "
                f"{to_sampler} {'to ' if costs else ''}the sampler."
            )


def balance_of(source: Any, balance: Any, lengths: Any) -> Balance | None:
    """Return the `Balance` of a loader, or None if its records are not balanced among shards.

    Args:
        source: source of the loader.
        balance: None or False for no balance. True: the cost of a record is its length. A function
            that takes lengths and returns costs. Or a `Balance`, which is returned.
        lengths: lengths of the records: an array, the name of a field, or a function of a record,
            as in `load`. None: the source must know them.

    Raises:
        TypeError: if `balance` has a wrong type. Also if `lengths` are given where they have no
            effect: `balance` is None, False or a `Balance`.
        LengthsError: if lengths are unknown or invalid.
    """
    if balance is None or balance is False or isinstance(balance, Balance):
        if lengths is not None:
            raise TypeError(
                "lengths= is used only with balance=True or a cost function, but "
                f"balance={short_repr(balance)}. Pass one of these as balance=, or leave lengths= "
                "out; a BudgetBatch has a lengths= of its own."
            )
        if isinstance(source, MixedSource) and balance and balance.sizes is not None:
            return balance.of_parts(list(source.parts))
        return balance or None
    if balance is not True and not callable(balance):
        raise TypeError(
            f"balance={short_repr(balance)} is {a_kind_of(balance)}. Pass True, a cost such as "
            "headrace.attention(a, b), or a headrace.Balance."
        )
    cost = None if balance is True else balance
    costs = _packed_costs(source, cost) if lengths is None else None
    return (
        Balance(lengths_of(source, lengths), cost)
        if costs is None
        else Balance([0]).of_costs(costs)
    )


def _packed_costs(source: Any, cost: Cost | None) -> Any:
    """Return the cost of each packed row, `float64[records]`; None if there are no packed rows.

    In a mix of sources with and without packed rows, the costs of other records are computed from
    their lengths.

    Args:
        source: source of the records, perhaps a mix.
        cost: function that takes lengths and returns costs; None if the cost is the length.

    Raises:
        LengthsError: if the lengths of a part are unknown.
    """
    if not isinstance(source, MixedSource):
        return facts_of(source).packed_costs(cost)
    parts = [(part, _packed_costs(part, cost)) for part in source.parts.values()]
    if all(costs is None for _, costs in parts):
        return None
    return source.by_key(
        [costs_of(lengths_of(part), cost) if costs is None else costs for part, costs in parts]
    )


def skips(on_error: Any, max_errors: int | None) -> Skips:
    """Convert the user's arguments `on_error` and `max_errors` to a value that says what to skip.

    Args:
        on_error: "raise", "skip", or a function.
        max_errors: largest number of skipped records; None for no limit.

    Returns:
        True to skip failing records, False to raise an error; or an `Asked` object, which calls the
        user's function for each failure.

    Raises:
        TypeError: if `max_errors` is not an integer.
        ValueError: if `on_error` is neither "raise" nor "skip" nor a function; or `max_errors` is
            negative, or given with "raise".
    """
    if not callable(on_error):
        one_of("on_error", on_error, "raise", "skip")
    if max_errors is not None:
        whole_number("max_errors", max_errors, 0, None, "a number of errors, or None for no limit")
        if not callable(on_error) and on_error == "raise":
            raise ValueError(
                f'max_errors={short_repr(max_errors)} has an effect only with on_error="skip" or a '
                "function. Pass one of these as on_error=, or leave max_errors= out."
            )
    return Asked(on_error) if callable(on_error) else bool(on_error == "skip")


def needs_seed_for_globals(execution: ExecutionOptions, sampler_seed: int | None) -> None:
    """Check that the sampler has a seed if the option `seed_globals` is set.

    Args:
        execution: the options of the loader.
        sampler_seed: seed of the sampler; None if the sampler has no seed.

    Raises:
        SeedError: if the option is set, and the sampler has no seed.
    """
    if execution.seed_globals and sampler_seed is None:
        raise SeedError(
            "seed_globals=True uses the seed of the sampler, but the sampler has none. Pass "
            "seed=0, or another int in [0, 2^32), to the sampler or to load(). A sampler class of "
            "your own must return RecordMetadata with rng=."
        )


def warn_of_no_effect(execution: ExecutionOptions) -> None:
    """Warn if `timeout` or `worker_init_fn` is given, but has no effect.

    Both have no effect without workers, and with threads as workers.
    """
    no_process = execution.worker_count == 0 or execution.worker_kind == "thread"
    if execution.timeout is not None and no_process:
        where = "worker_count=0" if execution.worker_count == 0 else 'worker_kind="thread"'
        warn(
            f"timeout={short_repr(execution.timeout)} does nothing with {where}: only a worker "
            'process can be stopped. Pass worker_count=1 or more and worker_kind="process", or '
            "leave timeout out."
        )
    if execution.worker_init_fn is not None and no_process:
        where = "worker_count=0" if execution.worker_count == 0 else 'worker_kind="thread"'
        warn(
            f"worker_init_fn is not called with {where}: it is for worker processes. Call it "
            "yourself, or leave it out."
        )


def warn_of_shared_blocks(source: Any, shuffle: Any, shard_count: int) -> None:
    """Warn if several shards fetch the same blocks of records from an object store.

    This happens only if `source` reads from an object store, `shuffle` is a `BlockShuffle`, and its
    `lanes` is not a multiple of `shard_count`.
    """
    if not isinstance(shuffle, BlockShuffle) or facts_of(source).announce is None:
        return
    readers = shuffle.readers_of_a_block(shard_count)
    if readers > 1:
        warn(
            f"shard_count={shard_count} does not divide lanes={shuffle.lanes} of the BlockShuffle: "
            f"{readers} shards fetch each block from the object store. Pass BlockShuffle(…, "
            f"lanes={lcm(shuffle.lanes, shard_count)}); it is another order."
        )


def number_of_batch(operations: Sequence[Operation], batch: int | None) -> int:
    """Return the index, among all operations, of the `Batch` that the user means.

    Args:
        operations: operations of a pipeline.
        batch: number of the `Batch`, if there are several: 0 for the first, -1 for the last. None:
            there is only one.

    Raises:
        TypeError: if `batch` is not an integer.
        ValueError: if there is no `Batch`, no `Batch` with this number, or there are several and
            `batch` is None.
    """
    found = [
        number
        for number, each in enumerate(operations)
        if each.takes is not None and each.one_to_one
    ]
    if not found:
        raise ValueError(
            "only the size of a Batch can be changed, but the operations contain no Batch (a "
            "BudgetBatch or a Pack is none). Add headrace.Batch(…) to the operations, or pass "
            "batch_size= to load()."
        )
    if batch is None:
        if len(found) > 1:
            raise ValueError(
                f"with_batch_size cannot know which of {len(found)} batches to change: "
                f"{first_few([short_repr(operations[number]) for number in found])}. Pass its "
                "number, batch=0 for the first, batch=-1 for the last."
            )
        return found[0]
    return found[
        whole_number(
            "batch", batch, -len(found), len(found) - 1, "the number of a Batch, 0 for the first"
        )
    ]
