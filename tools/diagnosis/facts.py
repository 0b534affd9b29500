"""Collect facts about a pipeline for a verdict.

Time its source in the sampler's order and in the order of keys.

Only `timed` reads records.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...chains.nodes.node import Evaluated
from ...loader.executors.pace import reads_under_way
from ...loader.options import ExecutionOptions
from ...loader.plan.leaf import Leaf
from ...loader.plan.pipeline import Pipeline
from ...loader.work.stopwatch import kept_seconds
from ...sources.asynchronous.source import AsyncSource
from ...sources.memory import MemorySource
from ...sources.mixed.source import MixedSource
from ...sources.protocol import reader_of
from .measured import SourceInUse

PROBED = 16  # number of records that are read to time the source. Chosen: less than a batch
TRIES = 3
PROBE_SECONDS = 0.2  # if one record takes longer, only two are read


def source_of(pipeline: Pipeline, execution: ExecutionOptions) -> SourceInUse:
    """Return the facts about the first source of a pipeline that are known without reading from it.

    Args:
        pipeline: the pipeline.
        execution: options of the loop, which say how records are read in advance.
    """
    leaf, reading = pipeline.leaves[0], execution.reading
    source, facts = leaf.source, leaf.source_facts
    whole_batches = not facts.reads_singly and facts.reads_ahead is True
    reads = 0 if leaf.in_order else reads_under_way(leaf, reading)
    if whole_batches and reads:
        reads = min(reads, 1 + reading.prefetch_buffer_size // max(pipeline.spans[0], 1))
    parts = source.parts.values() if isinstance(source, MixedSource) else (source,)
    return SourceInUse(
        kind=type(source.source if isinstance(source, AsyncSource) else source).__name__,
        records=0 if leaf.in_order else len(source),
        files=facts.file_count(),
        evaluates=any(isinstance(part, Evaluated) for part in parts),
        together=facts.records_together(),
        in_memory=isinstance(source, MemorySource),
        columns=facts.columns() is not None,
        reads=reads,
        threads=reading.num_threads,
        buffer=reading.prefetch_buffer_size,
        most_reads=None if facts.reads_ahead is True else int(facts.reads_ahead),
        in_event_loop=facts.read_in_loop is not None,
        singly=bool(facts.reads_singly),
        whole_batches=whole_batches,
    )


def with_sampler(source: SourceInUse, pipeline: Pipeline) -> SourceInUse:
    """Return the facts about a source with the time that the sampler takes for one key.

    They are unchanged if the sampler fails, if the source has no random access, or if there are
    fewer than 32 positions.
    """
    leaf = pipeline.leaves[0]
    if leaf.in_order or leaf.total < 2 * PROBED:
        return source

    def seconds(number: int, count: int) -> float:
        start = number * PROBED % (leaf.total - PROBED)
        positions, began = leaf.positions(start, start + count), time.perf_counter()
        leaf.record_keys(positions)
        return time.perf_counter() - began

    try:
        one, many = (
            min(seconds(number, count) for number in range(TRIES)) for count in (1, PROBED)
        )
    except Exception:  # of the user's sampler: the loop that was measured has told of it
        return source
    # a call for any number of keys costs something
    return replace(source, sampler=max(many - one, 0.0) / (PROBED - 1))


def timed(source: SourceInUse, pipeline: Pipeline) -> SourceInUse:
    """Return the facts about a source and the times of a read.

    These are for a record in the sampler's order and in the order of keys.

    Also with the share of that time in which the processor was at work. Reads are made at several
    positions, and the best time is used. The facts are unchanged if the source has no random access
    or fails, or if there are fewer than 32 positions.
    """
    leaf = pipeline.leaves[0]
    if leaf.in_order or leaf.total < 2 * PROBED:
        return source
    middle, random, consecutive = leaf.total // 2, [], []
    try:
        count = PROBED if _took(leaf, keys_in_order(leaf, middle, 1)).seconds < PROBE_SECONDS else 2
        for number in range(1, TRIES + 1):
            keys = keys_in_order(leaf, middle + number * count, count)
            first = max(min(int(keys[0]), len(leaf.source) - count), 0)
            consecutive.append(_took(leaf, np.arange(first, first + count, dtype=np.int64)).seconds)
            random.append(_took(leaf, keys))
    # of the user's source: the loop that was measured has told of it, or went without these records
    except Exception:
        return source
    return replace(
        source,
        random=min(random).seconds,
        consecutive=min(consecutive),
        at_work=min(
            min(took.needed / took.seconds, 1.0) if took.seconds else 1.0 for took in random
        ),
        processor=min(took.processor for took in random),
    )


class _Took(NamedTuple):
    """Cost of reading one record.

    Attributes:
        seconds: seconds of the read.
        needed: part of these in which this process used a processor, or was ready to but other
            programs used it.
        processor: part of these in which this process used a processor.
    """

    seconds: float
    needed: float
    processor: float


def keys_in_order(leaf: Leaf, start: int, count: int) -> NDArray[np.int64]:
    """Return the record keys at `count` consecutive positions of this shard, from `start` on.

    If there are fewer positions from `start` on, the last `count` positions of the shard are used.
    """
    stop = min(start + count, leaf.total)
    return leaf.record_keys(leaf.positions(stop - count, stop))


def _took(leaf: Leaf, keys: NDArray[np.int64]) -> _Took:
    """Read the records with these keys from a source, and return the cost of one record.

    If the source reads records one by one, `seconds` is the median, because some may take far
    longer.
    """
    read = reader_of(leaf.source)
    began, kept, worked = time.perf_counter(), kept_seconds(), time.process_time()
    read(keys)
    worked = time.process_time() - worked
    whole = time.perf_counter() - began, worked + kept_seconds() - kept, worked
    each = _Took(*(seconds / len(keys) for seconds in whole))
    if not leaf.source_facts.reads_singly:
        return each
    single = []
    for at in range(len(keys)):
        began = time.perf_counter()
        read(keys[at : at + 1])
        single.append(time.perf_counter() - began)
    return _Took(statistics.median(single), each.needed, each.processor)
