"""The first step at which two streams differ, and why.

In: loaders, checkpoints, or one of each. Out: reasons, each with the step from which on it holds. Nothing is run: descriptions
are compared, and orders by arithmetic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...common.messages import first_few, short_repr
from ...errors import CheckpointError
from ...loader.plan.fingerprint import differences
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.steps.skipped import SkippedSteps, within
from ...loader.state.loader_state import LoaderState
from ...samplers.mix.sampler import PASSING
from .chains import changed_chains
from .orders import OrderDifference, first_difference
from .streams import Described, states_of


@dataclass(frozen=True)
class Reason:
    """Why two streams differ.

    Attributes:
        what: "source", "operation", "batch size", "order", "seed", "weights", "epochs", "shards" or "left out".
        told: it in words; the first stream comes first.
        step: from which on it makes a difference; None: an operation decides which step that is, or it is not known.
    """

    what: str
    told: str
    step: int | None


@dataclass(frozen=True)
class Difference:
    """The result of `headrace.diff`; false if the streams are the same. `print` shows it in words.

    Attributes:
        reasons: the first one first.
    """

    reasons: tuple[Reason, ...]

    @property
    def step(self) -> int | None:
        """The first step at which the streams differ; None if they do not, or nobody knows."""
        return min((reason.step for reason in self.reasons if reason.step is not None), default=None)

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values for JSON."""
        return {"step": self.step, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        if not self.reasons:
            return "The streams are the same."
        first = "" if self.step is None else f" from step {self.step:,} on"
        steps = ("some step" if reason.step is None else f"step {reason.step:,}" for reason in self.reasons)
        lines = (f"  {reason.told} (from {step} on)" for reason, step in zip(self.reasons, steps))
        return "\n".join([f"The streams differ{first}: {first_few(_kinds(self.reasons), 8)}.", *lines])


def _kinds(reasons: Sequence[Reason]) -> list[str]:
    return list(dict.fromkeys(reason.what for reason in reasons))


def diff(one: Any, two: Any) -> Difference:
    """The first step at which two streams differ, and why.

    Sources, orders, weights, operations, batch sizes, shards and steps that are left out are compared as checkpoints know them:
    a function by its name and by what is plain in its closure, not by its code. What is read is not compared.

    Args:
        one: a `DataLoader`, `MapDataset` or `IterDataset`; or a checkpoint, as `headrace.trace` takes it.
        two: likewise.

    Raises:
        CheckpointError: a state cannot be read.

    >>> import headrace
    >>> parts = {"web": range(10_000), "books": range(1000)}
    >>> def loader(schedule):
    ...     sampler = headrace.MixSampler(parts, schedule, when_exhausted="repeat")
    ...     return headrace.DataLoader(data_source=parts, sampler=sampler, operations=[headrace.Batch(8)])
    >>> before = {"web": 0.9, "books": 0.1}
    >>> found = headrace.diff(loader(before), loader([(0, before), (4000, {"web": 0.5, "books": 0.5})]))
    >>> found.step, [reason.what for reason in found.reasons]
    (500, ['weights'])
    """
    sides = _Side.of(one), _Side.of(two)
    saved, present = _alike(*sides)
    found = [
        *_of_source(sides, saved, present),
        *_of_operations(sides, saved, present),
        *_of_batches(sides),
        *_of_order(sides, saved, present),
        *_of_loops(sides),
        *_of_left_out(sides),
        *_of_history(sides),
    ]
    return Difference(tuple(sorted(found, key=lambda reason: (reason.step is None, reason.step or 0))))


@dataclass(frozen=True)
class _Side:
    """One of the two streams.

    Attributes:
        described: by a loader; None: it is that of a checkpoint.
        states: of the checkpoint.
    """

    described: Described | None
    states: Sequence[LoaderState] = ()

    @classmethod
    def of(cls, given: Any) -> _Side:
        """A loader, or a checkpoint."""
        if isinstance(given, (str, Path, bytes, bytearray, dict, list, tuple)):
            states = states_of(given)
            if not states:
                raise CheckpointError("there is no state to compare; pass what get_state() gave.")
            return cls(None, states)
        return cls(Described.of(given))

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline of the loader."""
        return self.described.pipeline if self.described else None

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The identity of the stream."""
        return self.pipeline.fingerprint if self.pipeline else self.states[0].fingerprint

    @property
    def shards(self) -> int | None:
        """The number of shards; None: a loader for one process alone, which may be one of many."""
        if self.pipeline is None:
            return self.states[0].shard[1]
        return self.pipeline.shard.shard_count if self.pipeline.shard.shard_count > 1 else None

    @property
    def skipped(self) -> SkippedSteps:
        """Steps that are left out."""
        return self.described.skipped if self.described else self.states[0].skipped

    @property
    def sizes(self) -> list[int]:
        """The sizes of batches, and of all else that takes several elements."""
        return list(self.fingerprint.get("batch_sizes") or [])

    @property
    def in_epochs(self) -> bool:
        """True for the state of a loop per epoch."""
        return "epoch" in self.fingerprint["sampler"]

    @property
    def aligned(self) -> bool:
        """True if every step has the same number of records. Of a state, its position tells."""
        if self.pipeline is not None:
            return self.pipeline.aligned
        first = self.states[0]
        whole = len(first.lineages) == 1 and not first.lineages[0].layers
        return whole and first.cursor.positions[0] == first.step * prod(self.sizes)

    def step_of(self, found: OrderDifference, shards: int) -> int | None:
        """The step that has a position; None if that is not known beforehand."""
        if not found.position:
            return found.position
        if found.of_rows:
            rows = _rows_in_step(self.pipeline)
            return found.position // rows if rows else None
        return found.position // (prod(self.sizes) * shards) if self.aligned else None


def _rows_in_step(pipeline: Pipeline | None) -> int | None:
    """The number of rows of the uppermost join that make an element; None if that is not known beforehand."""
    part, rows = pipeline.top if pipeline else None, 1
    while pipeline and part and part.stage is not None:
        stage = pipeline.stages[part.stage]
        part, rows = stage.input, rows * stage.unit if stage.one_to_one else 0
    return rows if part and rows else None


def _alike(one: _Side, two: _Side) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fingerprints, in one form, though an older version may have written that of a state."""
    saved, present = one.fingerprint, two.fingerprint
    if one.pipeline is None and two.pipeline is not None:
        present = two.pipeline.fingerprint_like(one.states[0].fingerprint)
    if two.pipeline is None and one.pipeline is not None:
        saved = one.pipeline.fingerprint_like(two.states[0].fingerprint)
    return saved, present


def _of_source(sides: tuple[_Side, _Side], saved: dict[str, Any], present: dict[str, Any]) -> Iterator[Reason]:
    if not (told := _differences("source", saved["source"], present["source"])):
        return
    chains = list(_of_chains(sides))
    yield from chains
    if left := [each for each in told if not (chains and ": chain " in each)]:
        yield Reason("source", first_few(left), 0)


def _of_chains(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    """The differences in datasets below the order, which descriptions know by a digest; of loaders alone."""
    one, two = (side.pipeline for side in sides)
    if one is not None and two is not None:
        for leaf, other in zip(one.leaves, two.leaves):
            for what, told in changed_chains(leaf.source, other.source):
                yield Reason(what, told, 0)


def _differences(what: str, one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """In words; of two kinds nothing else is compared."""
    kinds = [{"kind": each.get("kind")} for each in (one, two)]
    return list(differences({what: kinds[0]}, {what: kinds[1]}) or differences({what: one}, {what: two}))


def _of_operations(sides: tuple[_Side, _Side], saved: dict[str, Any], present: dict[str, Any]) -> Iterator[Reason]:
    """The first one that differs."""
    one, two = saved["operations"], present["operations"]
    if one == two:
        return
    number = next((at for at, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two)))
    names = (_name(side, number, len(known)) for side, known in zip(sides, (one, two)))
    yield Reason("operation", f"operation {number}: {' → '.join(names)}", 0)


def _name(side: _Side, number: int, count: int) -> str:
    if number >= count:
        return "none"
    return "another" if side.pipeline is None else short_repr(side.pipeline.operations[number])


def _of_batches(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    """Sizes of batches, and shards: together they decide what all processes have at a step."""
    one, two = sides
    shards = [one.shards or two.shards or 1, two.shards or one.shards or 1]
    if len(one.sizes) == len(two.sizes) and one.sizes != two.sizes:
        yield Reason("batch size", f"batch sizes: {one.sizes} → {two.sizes}", 0)
    if shards[0] != shards[1]:
        whole = [prod(side.sizes) * count for side, count in zip(sides, shards)]
        same = "; the batches of all together are the same" if whole[0] == whole[1] else ""
        yield Reason("shards", f"shards: {shards[0]} → {shards[1]}, of which each has other records{same}", 0)


def _of_order(sides: tuple[_Side, _Side], saved: dict[str, Any], present: dict[str, Any]) -> Iterator[Reason]:
    one, two = (
        {name: value for name, value in each["sampler"].items() if name != "epoch"} for each in (saved, present)
    )
    if one == two:
        return
    asked = [{name: value for name, value in each.items() if name not in PASSING} for each in (one, two)]
    told = _differences("order", *asked) or _differences("order", one, two)
    seeds = one.get("seed") != two.get("seed")
    if seeds and any(side.pipeline is not None and _draws(side.pipeline) for side in sides):
        yield Reason("seed", first_few(told), 0)
        return
    found = first_difference(one, two, [side.pipeline for side in sides])
    if found is None:
        return
    shards = max(side.shards or 1 for side in sides)
    steps = [step for side in sides if (step := side.step_of(found, shards)) is not None]
    at = f"{'row' if found.of_rows else 'position'} {found.position:,}: " if found.position is not None else ""
    words = f"; {at}{found.told}" if found.told else ""
    kind = "weights" if found.why else _kind(told)
    yield Reason(kind, f"{found.why or first_few(told)}{words}", min(steps, default=None))


def _of_loops(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    """One of two runs may be a loop per epoch, whose batches end with each epoch; a loader does not tell how it is run."""
    one, two = sides
    if one.states and two.states and one.in_epochs != two.in_epochs:
        records, shards = one.fingerprint["sampler"].get("records"), one.states[0].shard[1]
        step = records // (prod(one.sizes) * shards) if isinstance(records, int) else None
        yield Reason("epochs", f"a loop per epoch: {one.in_epochs} → {two.in_epochs}", step)


def _draws(pipeline: Pipeline) -> bool:
    return any(operation.needs_seed for operation in pipeline.operations)


def _kind(told: Sequence[str]) -> str:
    """The kind of difference, by the first of these words."""
    kinds = {"weights": "weights", "ramp": "weights", "history": "weights", "joins": "weights", "seed": "seed"}
    kinds |= {"epochs": "epochs", "when_exhausted": "epochs"}
    return next((kind for word, kind in kinds.items() if any(f"order: {word}" in text for text in told)), "order")


def _of_left_out(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    one, two = (side.skipped.steps for side in sides)
    edges = sorted({edge for steps in (one, two) for pair in steps for edge in pair})
    first = next((edge for edge in edges if (within(one, edge) is None) != (within(two, edge) is None)), None)
    if first is not None:
        yield Reason("left out", f"steps left out: {list(map(list, one))} → {list(map(list, two))}", first)


def _of_history(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    """Changes of shards or of the batch size on the way to the two checkpoints."""
    if all(side.states for side in sides):
        yield from _of_layers(sides)
    for side, other, name in ((*sides, "first"), (*sides[::-1], "second")):
        if side.states and (changed := _size_changed(side, other)) is not None:
            yield Reason("batch size", f"batch size: that of the {name} changed on the way", changed)


def _of_layers(sides: tuple[_Side, _Side]) -> Iterator[Reason]:
    """The first run whose shards stopped elsewhere, or only in one of them."""
    one, two = (side.states[0].lineages[0].layers for side in sides)
    if one == two:
        return
    same = next((at for at, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two)))
    told = " → ".join(_told_of_layer(layers[same:]) for layers in (one, two))
    layers, before = (one, sides[1]) if len(one) > same else (two, sides[0])
    yield Reason("shards", f"what former runs had read: {told}", _step_after(layers[: same + 1], before))


def _told_of_layer(layers: Sequence[Any]) -> str:
    numbers = [layer for layer in layers if isinstance(layer[0], int)]
    if not numbers:
        return "nothing"
    (first, *_), local = (
        numbers,
        f"{len(numbers[0])} shards up to local position " if len(numbers[0]) > 1 else "up to position ",
    )
    return f"{local}{min(first):,}"


def _step_after(layers: Sequence[Any], before: _Side) -> int | None:
    """The step at which the last of these runs ended, if each step was so many records as in a checkpoint of before that."""
    unit, shards, steps = prod(before.sizes), before.states[0].shard[1], 0
    for number, layer in enumerate(layers):
        of_all = len(layer) == 1  # a position of all shards, as they stood at equal steps
        if not isinstance(layer[0], int) or (of_all and number < len(layers) - 1):
            return None
        whole, rest = divmod(min(layer), unit * (shards if of_all else 1))
        if rest:
            return None
        steps += whole
    return steps


def _size_changed(side: _Side, other: _Side) -> int | None:
    """The step at which a run went on with batches of the size of now, where before they had that of the other stream."""
    state, unit, before = side.states[0], prod(side.sizes), prod(other.sizes)
    if unit == before or len(side.sizes) != len(other.sizes) or state.lineages[0].layers or side.in_epochs:
        return None
    steps, rest = divmod(state.cursor.positions[0] - unit * state.step, before - unit)
    return steps if not rest and 0 < steps <= state.step else None
