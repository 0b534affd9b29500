"""Find the first step at which two streams differ, and the reasons.

Each stream is a loader or a checkpoint. Nothing is run: descriptions are compared, and orders are
computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...common.messages import first_few, short_repr
from ...loader.plan.identity import differences
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import within
from ...samplers.protocol import ENDLESS
from .changed_chains import changed_chains
from .orders import OrderDifference, first_difference
from .records import records_differences
from .sides import Side, first_other

# If records are balanced differently, the first positions mostly differ already.
MOST_DEALT = 1 << 16
"""Largest number of a shard's positions compared if records are balanced among shards by cost."""


@dataclass(frozen=True)
class Reason:
    """A reason why two streams differ.

    Attributes:
        what: "source", "operation", "batch size", "order", "seed", "weights", "epochs", "shards",
            "balance", "records" or "left out".
        told: description of the difference, "first stream → second stream".
        step: first step that differs for this reason; None if it is unknown, for example if an
            operation decides it.
    """

    what: str
    told: str
    step: int | None


@dataclass(frozen=True)
class Difference:
    """Result of `headrace.diff`. It is False in a condition if the streams are the same.

    `print` it for a description.

    Attributes:
        reasons: the reasons why the streams differ, in the order of their steps; those of unknown
            steps last.
    """

    reasons: tuple[Reason, ...]

    @property
    def step(self) -> int | None:
        """Smallest known step of the reasons; None if none is known.

        A reason of unknown step may begin earlier.
        """
        return min(
            (reason.step for reason in self.reasons if reason.step is not None), default=None
        )

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {"step": self.step, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        if not self.reasons:
            return "The streams are the same."
        first = "" if self.step is None else f" from step {self.step:,} on"
        kinds = first_few(list(dict.fromkeys(reason.what for reason in self.reasons)), 8)
        steps = (
            "some step" if reason.step is None else f"step {reason.step:,}"
            for reason in self.reasons
        )
        lines = (f"  {reason.told} (from {step} on)" for reason, step in zip(self.reasons, steps))
        return "\n".join([f"The streams differ{first}: {kinds}.", *lines])


def diff(one: Any, two: Any) -> Difference:
    """Find the first step at which two streams differ, and the reasons.

    Sources, orders, weights, operations, batch sizes, shards and skipped steps are compared as
    checkpoints identify them: a function by its name and the plain values in its closure, not by
    its code. Records are not read.

    Args:
        one: a `DataLoader`, `MapDataset` or `IterDataset`; or a checkpoint: a path, or results of
            `get_state()`.
        two: the other stream.

    Raises:
        CheckpointError: a state cannot be read.
        TypeError: an argument is neither a loader nor a checkpoint.

    >>> import headrace
    >>> parts = {"web": range(10_000), "books": range(1000)}
    >>> def loader(schedule):
    ...     sampler = headrace.MixSampler(parts, schedule, when_exhausted="repeat")
    ...     batch = headrace.Batch(8)
    ...     return headrace.DataLoader(data_source=parts, sampler=sampler, operations=[batch])
    >>> before = {"web": 0.9, "books": 0.1}
    >>> after = [(0, before), (4000, {"web": 0.5, "books": 0.5})]
    >>> found = headrace.diff(loader(before), loader(after))
    >>> found.step, [reason.what for reason in found.reasons]
    (500, ['weights'])
    """
    one, two = Side.of(one), Side.of(two)
    records = records_differences(
        [(side.identity, side.orders) for side in (one, two)], [one.pipeline, two.pipeline]
    )
    # what follows from records that were appended or left out is told of no source and order
    orders = (_of_source, _of_order) if records is None else () if records else (_of_source,)
    compared = (
        *orders,
        _of_operations,
        _of_batches,
        _of_deal,
        _of_loops,
        _of_left_out,
        _of_history,
    )
    found = [reason for compare in compared for reason in compare(one, two)]
    found += [Reason("records", each.told, _first_step(one, two, each)) for each in records or ()]
    found.sort(key=lambda reason: (reason.step is None, reason.step or 0))
    return Difference(tuple(found))


def _differences(what: str, one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Describe the differences of two fingerprints, a text for each.

    If their kinds differ, only that is described.

    Args:
        what: name of the subject, with which each text begins.
        one: fingerprint in one stream.
        two: fingerprint in the other stream.
    """
    kinds = [{"kind": each.get("kind")} for each in (one, two)]
    return list(
        differences({what: kinds[0]}, {what: kinds[1]}) or differences({what: one}, {what: two})
    )


def _first_step(one: Side, two: Side, found: OrderDifference) -> int | None:
    shards = max(one.shards or 1, two.shards or 1)
    return min(
        (step for side in (one, two) if (step := side.step_of(found, shards)) is not None),
        default=None,
    )


def _of_source(one: Side, two: Side) -> Iterator[Reason]:
    told = _differences("source", one.labelled("source"), two.labelled("source"))
    chains = []
    # descriptions know datasets below the order by a digest
    if told and one.pipeline and two.pipeline:
        for leaf, other in zip(one.pipeline.leaves, two.pipeline.leaves):
            chains += [
                Reason(what, words, 0) for what, words in changed_chains(leaf.source, other.source)
            ]
    yield from chains
    if left := [each for each in told if not (chains and ": chain " in each)]:
        yield Reason("source", first_few(left), 0)


def _of_operations(one: Side, two: Side) -> Iterator[Reason]:
    known = [side.identity.operations for side in (one, two)]
    if known[0] != known[1]:
        number = first_other(*known)
        names = [
            "none"
            if number >= len(all_)
            else short_repr(side.pipeline.operations[number])
            if side.pipeline
            else "another"
            for side, all_ in zip((one, two), known)
        ]
        yield Reason("operation", f"operation {number}: {' → '.join(names)}", 0)


def _of_batches(one: Side, two: Side) -> Iterator[Reason]:
    """Yield reasons if batch sizes or numbers of shards differ, which decide the global batches."""
    shards = [one.shards or two.shards or 1, two.shards or one.shards or 1]
    if len(one.sizes) == len(two.sizes) and one.sizes != two.sizes:
        yield Reason("batch size", f"batch sizes: {one.sizes} → {two.sizes}", 0)
    if shards[0] != shards[1]:
        alike = prod(one.sizes) * shards[0] == prod(two.sizes) * shards[1]
        same = "; the batches of all together are the same" * alike
        yield Reason(
            "shards", f"shards: {shards[0]} → {shards[1]}, of which each has other records{same}", 0
        )


def _of_order(one: Side, two: Side) -> Iterator[Reason]:
    told = [side.order(beside=("epoch", "balance")) for side in (one, two)]
    if told[0][:2] == told[1][:2]:
        return
    changes = [
        {"kind": each.described.get("kind"), "changes": [*map(list, each.changes)]} for each in told
    ]
    words = _differences("order", *(dict(each.described) for each in told)) or _differences(
        "order", *changes
    )
    pipelines = [side.pipeline for side in (one, two)]
    draws = any(
        operation.needs_seed
        for pipeline in pipelines
        if pipeline
        for operation in pipeline.operations
    )
    if draws and told[0].described.get("seed") != told[1].described.get("seed"):
        yield Reason("seed", first_few(words), 0)
        return
    found = first_difference(told[0], told[1], pipelines)
    if found is None:
        return
    at = (
        f"{'row' if found.of_rows else 'position'} {found.position:,}: "
        if found.position is not None
        else ""
    )
    there = f"; {at}{found.told}" if found.told else ""
    yield Reason(
        "weights" if found.why else _kind(words),
        f"{found.why or first_few(words)}{there}",
        _first_step(one, two, found),
    )


def _of_deal(one: Side, two: Side) -> Iterator[Reason]:
    """Yield a reason if records are balanced differently among shards by cost.

    Other comparisons ignore the balance.
    """
    known = [side.deal for side in (one, two)]
    if known[0] == known[1] or (known[0][0] == known[1][0] and known[0][1] != known[1][1]):
        return
    told = " → ".join(
        "none" if deal is None else f"costs {deal.get('costs')} in blocks of {size}"
        for deal, _, size in known
    )
    if max(one.shards or 1, two.shards or 1) == 1:
        yield Reason(
            "balance",
            f"balance: {told}; the same on one shard, and on several each has other records",
            None,
        )
        return
    step = _first_dealt_otherwise(one.pipeline, two.pipeline)
    first = (
        "the first records of each shard are the same"
        if step == ENDLESS
        else "each shard has other records of it"
    )
    yield Reason(
        "balance",
        f"balance: {told}; the order is compared before, and {first}",
        None if step == ENDLESS else step,
    )


def _first_dealt_otherwise(one: Pipeline | None, two: Pipeline | None) -> int | None:
    """Return the first step at which a shard has other positions in one pipeline than the other.

    `ENDLESS` means that no compared position differs; None, that it is unknown.
    """
    if one is None or two is None or not (one.aligned and two.aligned) or one.shard != two.shard:
        return None
    leaves = one.leaf, two.leaf
    count = min(MOST_DEALT, *(leaf.total for leaf in leaves))
    positions = [leaf.positions(0, count) for leaf in leaves]
    differ = np.flatnonzero(positions[0] != positions[1])
    return int(differ[0]) // one.stages[0].unit if len(differ) else ENDLESS


def _kind(words: Sequence[str]) -> str:
    """Return the kind of a reason ("order", "weights", "epochs" or "seed").

    It is found from the texts that describe the difference.
    """
    kinds = dict.fromkeys(("weights", "ramp", "changes", "joins"), "weights") | {"seed": "seed"}
    kinds |= dict.fromkeys(("epochs", "when_exhausted"), "epochs")
    return next(
        (kind for word, kind in kinds.items() if any(f"order: {word}" in text for text in words)),
        "order",
    )


def _of_loops(one: Side, two: Side) -> Iterator[Reason]:
    """Yield a reason if only one of two runs loops over `loader.epochs()`.

    There a batch ends with each epoch.

    Only states show this.
    """
    if one.states and two.states and one.in_epochs != two.in_epochs:
        records = one.identity.order.get("records")
        step = (
            records // (prod(one.sizes) * one.states[0].shard[1])
            if isinstance(records, int)
            else None
        )
        yield Reason("epochs", f"a loop per epoch: {one.in_epochs} → {two.in_epochs}", step)


def _of_left_out(one: Side, two: Side) -> Iterator[Reason]:
    steps = [side.skipped.steps for side in (one, two)]
    edges = sorted({edge for each in steps for pair in each for edge in pair})
    first = next(
        (edge for edge in edges if len({within(each, edge) is None for each in steps}) > 1), None
    )
    if first is not None:
        yield Reason(
            "left out",
            "steps left out: {} → {}".format(*([*map(list, each)] for each in steps)),
            first,
        )


def _of_history(one: Side, two: Side) -> Iterator[Reason]:
    """Yield reasons if shards or batch sizes changed differently before the two checkpoints."""
    layers = [side.states[0].history.shards[0].layers for side in (one, two) if side.states]
    if len(layers) == 2 and layers[0] != layers[1]:
        same = first_other(*layers)
        told = " → ".join(_describe_layers(each[same:]) for each in layers)
        longer, before = (layers[0], two) if len(layers[0]) > same else (layers[1], one)
        yield Reason(
            "shards", f"what former runs had read: {told}", _step_after(longer[: same + 1], before)
        )
    for side, other, name in ((one, two, "first"), (two, one, "second")):
        if side.states and (changed := _size_changed(side, other)) is not None:
            yield Reason(
                "batch size", f"batch size: that of the {name} changed on the way", changed
            )


def _describe_layers(layers: Sequence[Any]) -> str:
    """Describe where the first run of a history stopped.

    It gives number of shards and smallest position; "nothing" if there is no run.
    """
    first = next((layer for layer in layers if isinstance(layer[0], int)), None)
    if first is None:
        return "nothing"
    return (
        f"{f'{len(first)} shards up to local' if len(first) > 1 else 'up to'} position "
        f"{min(first):,}"
    )


def _step_after(layers: Sequence[Any], before: Side) -> int | None:
    """Return how many steps the runs of a history made with the shards of `before`.

    Return None if they did not have the batches and shards of `before`.

    Args:
        layers: for each run, the local position that each shard reached.
        before: the stream.
    """
    unit, shards, steps = prod(before.sizes), before.states[0].shard[1], 0
    for number, layer in enumerate(layers):
        of_all = len(layer) == 1  # a position of all shards, as they were at equal steps
        if not isinstance(layer[0], int) or (of_all and number < len(layers) - 1):
            return None
        whole, rest = divmod(min(layer), unit * (shards if of_all else 1))
        if rest:
            return None
        steps += whole
    return steps


def _size_changed(side: Side, other: Side) -> int | None:
    """Return the step at which the run of `side` changed from the batch size of `other` to its own.

    Return None if it did not.
    """
    state, unit, before = side.states[0], prod(side.sizes), prod(other.sizes)
    if (
        unit == before
        or len(side.sizes) != len(other.sizes)
        or state.history.shards[0].orders
        or side.in_epochs
    ):
        return None
    steps, rest = divmod(state.cursor.positions[0] - unit * state.step, before - unit)
    return steps if not rest and 0 < steps <= state.step else None
