"""What a pipeline is made of, as far as a verdict needs it; and how fast its source is, beside its neighbours and alone.

In: a pipeline. Out: names and kinds of operations; a `Source`. Records are read only where `timed` is called.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.nodes.node import Evaluated
from ...loader.options import ExecutionOptions
from ...loader.plan.leaf import Leaf
from ...loader.plan.parts import Part as PlanPart
from ...loader.plan.pipeline import Pipeline
from ...loader.plan.stages import Stage
from ...loader.work.processor import kept_seconds
from ...operations import Operation
from ...sources.memory import MemorySource
from ...sources.mixed.source import MixedSource
from ...sources.protocol import reader_of
from .measured import PartKind, Source

PROBED = 16
"""Records that are read to see how fast the source is. Chosen: less than a batch."""

TRIES = 3

PROBE_SECONDS = 0.2
"""If one record takes longer, few are read."""


def called(operation: Operation) -> str:
    """The name by which a user knows an operation: that of its function, or of its class.

    >>> from millrace import Batch, MapTransform
    >>> def decode(record):
    ...     return record
    >>> called(MapTransform(decode)), called(Batch(2)), called(Batch(2, batch_fn=decode)), called(MapTransform(lambda x: x))
    ('decode', 'Batch', 'decode', 'lambda')
    """
    function = _makes_batches(operation) or getattr(operation, "function", operation)
    function = operation if getattr(function, "__self__", None) is operation else getattr(function, "func", function)
    name = getattr(function, "__name__", None) or type(function).__name__
    return "lambda" if name == "<lambda>" else str(name)


def kinds_of(pipeline: Pipeline, stage: Stage) -> list[PartKind]:
    """What each operation of a stage works on."""
    kinds: list[PartKind] = []
    batched = _batched_below(pipeline, stage.input)
    for operation in stage.operations:
        takes = operation.takes is not None
        stacks = takes and _makes_batches(operation) is None
        kinds.append("stacking" if stacks else "batch" if batched or takes else "record")
        batched = batched or takes
    return kinds


def _makes_batches(operation: Operation) -> Any:
    """The function of the user's that makes its batches, if there is one."""
    return getattr(operation, "batch_fn", None)


def _batched_below(pipeline: Pipeline, below: PlanPart | None) -> bool:
    """Whether the rows of a part are made of several."""
    if below is None:
        return False
    stages = pipeline.stages[below.stages.start : below.stages.stop]
    return any(operation.takes is not None for stage in stages for operation in stage.operations)


def source_of(pipeline: Pipeline, execution: ExecutionOptions) -> Source:
    """What is known of the first source without reading it."""
    source = pipeline.leaves[0].source
    useful = getattr(source, "reads_ahead", True)
    threads = execution.reading.num_threads if execution.reading.prefetch_buffer_size else 0
    return Source(
        kind=type(source).__name__,
        records=0 if pipeline.leaves[0].in_order else len(source),
        files=int(getattr(source, "file_count", 0)),
        evaluates=any(isinstance(part, Evaluated) for part in _parts_of(source)),
        together=int(getattr(source, "records_together", 1)),
        in_memory=isinstance(source, MemorySource),
        columns=getattr(source, "columns", None) is not None,
        threads=threads if useful is True else min(threads, int(useful)),
    )


def _parts_of(source: Any) -> Iterable[Any]:
    return source.parts.values() if isinstance(source, MixedSource) else (source,)


def timed(source: Source, pipeline: Pipeline) -> Source:
    """With what a record takes in the sampler's order and beside its neighbours, and the share of it at work.

    As it is, if it can only be run through, or cannot be read here.
    """
    leaf = pipeline.leaves[0]
    if leaf.in_order or leaf.total < 2 * PROBED:
        return source
    try:
        return _timed(source, leaf)
    except Exception:  # of the user's source: the loop that was measured has told of it, or went without these records
        return source


def _timed(source: Source, leaf: Leaf) -> Source:
    """The best of some tries, each at another place, so that nothing is read twice."""
    middle = leaf.total // 2
    count = PROBED if _seconds(leaf, keys_in_order(leaf, middle, 1))[0] < PROBE_SECONDS else 2
    random, consecutive = [], []
    for number in range(1, TRIES + 1):
        keys = keys_in_order(leaf, middle + number * count, count)
        first = max(min(int(keys[0]), len(leaf.source) - count), 0)
        consecutive.append(_seconds(leaf, np.arange(first, first + count, dtype=np.int64))[0])
        random.append(_seconds(leaf, keys))
    seconds, at_work = min(random)
    return replace(source, random=seconds, consecutive=min(consecutive), at_work=at_work)


def keys_in_order(leaf: Leaf, start: int, count: int) -> NDArray[np.int64]:
    """The keys at so many positions of a leaf, or at its last ones."""
    stop = min(start + count, leaf.total)
    return leaf.record_keys(leaf.positions(stop - count, stop))


def _seconds(leaf: Leaf, keys: NDArray[np.int64]) -> tuple[float, float]:
    """Seconds for a record of these, and the share of it in which this process was at work, or kept from it."""
    read = reader_of(leaf.source)
    began, worked = time.perf_counter(), time.process_time() + kept_seconds()
    read(keys)
    took, worked = time.perf_counter() - began, time.process_time() + kept_seconds() - worked
    return took / len(keys), min(worked / took, 1.0) if took else 1.0
