"""Explain a failure to the user: which operation failed, on which record, at which position.

In: an exception, and the position and operation at which it was raised. Out: the same exception
with a note, and with a traceback that begins with the user's first frame. For a task during which
workers ended: a block (the rows of one task) with the failure. All texts are made only after a
failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...common.messages import first_few, short_repr, shorten
from ...common.redaction import notes_of
from ...errors import StopIterationError, WorkerCrashedError
from ...sources.facts import facts_of, used_records
from ..failures import ends_stream
from ..interrupts import raise_if_of_signal_handler
from .row_origins import RowOrigins
from .tasks import Block, Blocks, Failure, SpanTask, Task

if TYPE_CHECKING:
    from ..plan.leaf import Leaf
    from ..plan.pipeline import Pipeline

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_FOLDERS = tuple(
    f"{_PACKAGE}/{folder}"
    for folder in (
        "loader/",
        "operations/",
        "samplers/",
        "chains/",
        "common/",
        "sources/asynchronous/",
    )
)

# A plain tuple, because it is made for every batch, in a fifth of the time of a named one.
Busy: TypeAlias = tuple[float, Task, int]
"""A running task: when it began (`perf_counter` seconds), the task, its thread's identifier."""

READING, SAMPLER = "reading", "the sampler"
"""Names used in error notes for failures outside operations: of the source, and of the sampler."""


def name_of(pipeline: Pipeline, number: int | None) -> str:
    """Return the name of an operation for error notes: its index and representation.

    Args:
        pipeline: the pipeline.
        number: index of the operation; None if it is unknown: the result is then "an operation".
    """
    return (
        "an operation"
        if number is None
        else f"operation {number}, {short_repr(pipeline.operations[number])},"
    )


def named_parts(pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    """Yield the sources and operations of a pipeline, each after its name for messages."""
    for leaf in pipeline.leaves:
        yield f"the source {type(leaf.source).__name__}", leaf.source
    for number, operation in enumerate(pipeline.operations):
        yield name_of(pipeline, number).removesuffix(","), operation


def maker_for(pipeline: Pipeline, number: int | None) -> str:
    """Return, for messages, the name of the operation that made what another operation received.

    It is the last operation before the receiving one that is not a filter. If there is none, the
    result is "reading", because the elements are records of the source.

    Args:
        pipeline: the pipeline.
        number: index of the operation that received the elements. None if it is unknown: the result
            is then the last operation of the pipeline that is not a filter.
    """
    before = range(len(pipeline.operations) if number is None else number)
    makers = [one for one in before if not pipeline.operations[one].only_filters]
    return name_of(pipeline, makers[-1]) if makers else READING


def place(leaf: Leaf, position: int) -> str:
    """Return a text for messages that locates a record: its key, position, and file if known.

    Args:
        leaf: the source with its sampler.
        position: position of the record, counted over all shards.
    """
    name = f" of {leaf.name}" if leaf.name else ""
    return (
        f"on record key {_key_at(leaf, position)} at position {position}{name}"
        f"{_file_at(leaf, position)}"
    )


def place_beside(at_fault: tuple[Leaf, int], first: tuple[Leaf, int]) -> str:
    """Return a text for messages that says with which record a batch began.

    Return "" if the batch's first record is of the same dataset as the record at fault, because the
    text would not help the user then.

    Args:
        at_fault: source (with its sampler) and position of the record that does not fit into the
            batch. Positions are counted over all shards.
        first: source and position of the first record of the batch.
    """
    return (
        ""
        if _dataset_of(*at_fault) == _dataset_of(*first)
        else f", in a batch that began {place(*first)}"
    )


def _dataset_of(leaf: Leaf, position: int) -> tuple[Any, ...]:
    """Return a tuple that identifies the dataset of a record.

    It is `(name of the source,)`, or `(name of the source, name of the part)` for a mix.

    Args:
        leaf: the source with its sampler.
        position: position of the record, counted over all shards.
    """
    keys = leaf.sampler.record_keys(np.array([position], dtype=np.int64))
    return leaf.name, *(leaf.source_facts.records_of(keys) if leaf.has_parts else ())


def explained(error: Exception, where: str, who: str) -> Exception:
    """Add a note "`who` failed `where`" to an exception, and return the exception.

    The traceback then begins with the user's first frame. A StopIteration would silently end the
    stream, so a StopIterationError is returned in its place; also if a generator raised the
    StopIteration, which Python turns into a RuntimeError.

    Args:
        error: the exception.
        where: text that says on which record the failure occurred.
        who: name of the operation, or "reading".

    Raises:
        BaseException: `error` itself, if it was raised by a handler of a signal, and not by an
            operation.
    """
    raise_if_of_signal_handler(error)
    note = f"headrace: {who} failed {where}."
    if note not in notes_of(error):
        error.add_note(note)
    error = error.with_traceback(_users_part(error.__traceback__))
    # a generator's is wrapped by Python
    stop = error.__cause__ if isinstance(error, RuntimeError) else error
    return _stopped(stop, who, where) if isinstance(stop, StopIteration) else error


def _stopped(error: StopIteration, who: str, where: str) -> StopIterationError:
    raised_by = "the source" if who == READING else who
    stopped = StopIterationError(
        f"{raised_by} raised StopIteration {where}, which would look like the end of the stream. "
        "Return a value, or raise another exception. To leave records out use a Filter, and to end "
        "the stream num_epochs= of the sampler."
    )
    stopped.__cause__ = error
    return stopped


def describe_error(error: Exception) -> str:
    """Return one line about a skipped record's failure: the exception's class, message, notes."""
    notes = " ".join(notes_of(error))
    return f"{type(error).__name__}: {shorten(error)}{notes and f' ({notes})'}"


def forget(error: BaseException | None) -> None:
    """Drop the tracebacks of an exception and of its causes, because their frames hold records."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def keys_of(task: Task, blocks: Blocks, pipeline: Pipeline) -> list[Any]:
    """Return the keys of the records that a task works on; an empty list if they are unknown.

    They are unknown if the task's rows were made by operations on joined streams (a mix or zip, for
    example).

    Args:
        task: the task.
        blocks: blocks (the rows of one task each), by number, to whose rows the task may refer.
        pipeline: the pipeline.
    """
    if isinstance(task, SpanTask):
        leaf = pipeline.every_leaf[task.leaf]
        return users_keys(leaf, leaf.positions(task.start, task.stop))
    stage = pipeline.stages[task.stage]
    if pipeline.is_below_join(stage) and not stage.on_join:
        return []
    parts = (blocks[block].tags.positions[start:stop] for block, start, stop in task.rows)
    return keys_of_tags(chain.from_iterable(parts), pipeline)


def keys_of_tags(tags: Iterable[int], pipeline: Pipeline) -> list[Any]:
    """Return the keys of the records with the given tags.

    A tag is a number that stands for a source and a position. If a tag occurs several times, its
    key is returned once. If two tags stand for the same record, read at two positions, its key is
    returned twice.
    """
    places = (pipeline.place_of(tag) for tag in dict.fromkeys(tags))
    return [
        key
        for leaf, position in places
        for key in users_keys(leaf, np.array([position], dtype=np.int64))
    ]


def users_keys(leaf: Leaf, positions: NDArray[np.int64]) -> list[Any]:
    """Return the keys of the records at some positions of a source, as the user knows them.

    For a mix, a key is a pair of part name and key. The list is empty if the sampler fails.

    Args:
        leaf: the source with its sampler.
        positions: positions of the records, counted over all shards.
    """
    try:
        found = leaf.source_facts.records_of(leaf.record_keys(positions))
    except Exception:  # the sampler itself may be what failed
        return []
    if isinstance(found, Mapping):
        return [(name, key) for name, keys in found.items() for key in keys.tolist()]
    keys: list[Any] = found.tolist()
    return keys


def given_up(task: Task, blocks: Blocks, pipeline: Pipeline, reason: str) -> Block:
    """Return the result of a task that ended workers too often and is not tried again.

    The result is a block (the rows of one task) without rows. The block's failure is a
    WorkerCrashedError. If `on_error` skips the records, the block has no failure, but a text about
    these records in its `skipped`.

    Args:
        task: the task.
        blocks: blocks, by number, to whose rows the task may refer.
        pipeline: the pipeline.
        reason: text that says how the last worker ended.
    """
    records = task_in_words(task, blocks, pipeline)
    late = reason.startswith("was stopped after timeout")
    longer, does = ("Pass a larger timeout=, correct", "hangs") if late else ("Correct", "ends it")
    error = WorkerCrashedError(
        f"{records}: a worker {reason}. {longer} the operation or the source that {does}, "
        'or leave such records out with on_error="skip".'
    )
    tags = None if pipeline.aligned else RowOrigins()
    ending = ends_stream(pipeline.skips_errors, error, lambda: keys_of(task, blocks, pipeline))
    if ending is None:
        return Block.of([], tags, skipped=[describe_error(error)])
    return Block.of([], tags, Failure(ending))


def task_in_words(task: Task, blocks: Blocks, pipeline: Pipeline) -> str:
    """Return a text for messages with the positions and record keys on which a task works.

    Args:
        task: the task.
        blocks: blocks (the rows of one task each), by number, to whose rows the task may refer.
        pipeline: the pipeline.
    """
    stage = pipeline.stages[task.stage]
    if isinstance(task, SpanTask):
        leaf = pipeline.every_leaf[task.leaf]
        return _keys_in_words(leaf, leaf.positions(task.start, task.stop))
    parts = (blocks[block].tags.positions[start:stop] for block, start, stop in task.rows)
    tags = list(dict.fromkeys(chain.from_iterable(parts)))
    if pipeline.is_below_join(stage) and not stage.on_join:
        return f"rows {min(tags)} to {max(tags)} of the joined streams"
    by_leaf: dict[int, list[int]] = {}
    for tag in tags:
        by_leaf.setdefault(tag % len(pipeline.every_leaf), []).append(
            tag // len(pipeline.every_leaf)
        )
    in_words = [
        _keys_in_words(pipeline.every_leaf[leaf], np.array(places))
        for leaf, places in by_leaf.items()
    ]
    return first_few(in_words, 2) if len(in_words) > 1 else in_words[0]


def _keys_in_words(leaf: Leaf, positions: NDArray[np.int64]) -> str:
    keys = [leaf.source_facts.describe_key(key) for key in leaf.record_keys(positions).tolist()]
    of = f" of {leaf.name}" if leaf.name else ""
    if len(keys) == 1:
        return f"record key {keys[0]}{of} at position {positions[0]}"
    return (
        f"record keys {first_few(keys, 8)}{of} at positions {positions.min()} to {positions.max()}"
    )


def _file_at(leaf: Leaf, position: int) -> str:
    """Return a text for messages with the file of a record, and the record's index in the file.

    Return "" if the source does not know the file, or if one element is made of several records.

    Args:
        leaf: the source with its sampler.
        position: position of the record, counted over all shards.
    """
    try:
        (key,) = leaf.sampler.record_keys(np.array([position], dtype=np.int64)).tolist()
        (used,) = used_records(leaf.source, key)
        found = facts_of(used.source).file_place(used.key)
    except Exception:  # most sources have no files; and what fails may be the source
        return ""
    return "" if found is None else f", record {found.record} of {shorten(found.file)}"


def _key_at(leaf: Leaf, position: int) -> Any:
    try:
        return leaf.source_facts.describe_key(
            int(leaf.sampler.record_keys(np.array([position], dtype=np.int64))[0])
        )
    except Exception:  # the sampler itself may be what failed
        return "unknown"


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the user's first frame on, without headrace's frames before it.

    Return None if no frame is the user's.
    """
    for entry in _frames(traceback):
        if not is_ours(entry.tb_frame):
            return entry
    return None


def is_ours(frame: FrameType) -> bool:
    """Return True if a frame runs code of headrace that calls the user's code.

    Return False for most sources, also for those of headrace, so that an error in a source shows
    the source's frames.
    """
    return frame.f_code.co_filename.startswith(_FOLDERS)
