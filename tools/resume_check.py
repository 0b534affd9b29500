"""Run and resume a loader several times.

If the stream differs, look for the first operation with other results.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, TypeAlias

import cloudpickle

from ..chains.iter_dataset import IterMethods
from ..chains.map_dataset import MapDataset
from ..common.messages import a_kind_of, first_few, short_repr
from ..common.validation import whole_number
from ..errors import NotDeterministicError
from ..loader.data_loader import LoaderMethods
from ..loader.iterator import DataLoaderIterator
from ..loader.loader_description import LoaderDescription
from ..loader.plan.compile import compiled
from ..loader.plan.joins import Apply, Read
from ..loader.plan.pipeline import Pipeline
from ..loader.state.schema import LoaderState
from .resume_checksums import checksum

Loader: TypeAlias = "LoaderMethods | MapDataset[Any] | IterMethods[Any]"

RESUMED_WITH_WORKERS = (
    4  # number of resumes with worker processes: starting them takes a third of a second
)
# Chosen: a few records may agree by chance.
RECORDS_MORE = 100
"""Number of records after the first difference with which operations are tested."""
AFTER = 2  # number of elements compared after each resume


@dataclass(frozen=True)
class ResumeReport:
    """What `check_resume` compared and found equal.

    Attributes:
        steps: number of elements that were compared; fewer than were asked for if the stream ended.
        resumed: number of times that the stream was resumed.
        worker_counts: numbers of workers with which the stream was run and resumed.
    """

    steps: int
    resumed: int
    worker_counts: tuple[int, ...]


def check_resume(
    loader: Loader, *, steps: int = 20, worker_counts: Sequence[int] = (0, 2)
) -> ResumeReport:
    """Check that a pipeline gives the same stream, bit for bit.

    It must do so wherever it is resumed, and with any number of workers.

    The first `steps` elements are made once, a second time with the same operations, and then with
    each of `worker_counts`. The stream is then resumed many times, and two elements are compared
    each time: without workers at every step; with workers at four steps, because workers take time
    to start. All runs but the first two use fresh copies of the operations, made by cloudpickle (if
    it can copy them), as a restarted program does. So the check finds state that operations keep
    between calls. The same records are read several times. Of arrays, only checksums are stored.

    Args:
        loader: a `DataLoader`, a `MapDataset` or an `IterDataset`. Its own `worker_count` is not
            used.
        steps: number of elements to check.
        worker_counts: numbers of workers with which to run and resume; 0 is without worker
            processes.

    Returns:
        What was compared and found equal.

    Raises:
        TypeError: `loader` is none of these, for example an iterator; or another argument has a
            wrong type.
        ValueError: `steps` is below 1, or a number of workers is negative.
        NotDeterministicError: something differs. If this can be found out, the message names the
            source, or the first operation that gives other results for the same records.

    >>> import headrace
    >>> loader = headrace.load(range(100), shuffle=True, seed=1, batch_size=8)
    >>> headrace.check_resume(loader, steps=5, worker_counts=[0])
    ResumeReport(steps=5, resumed=5, worker_counts=(0,))
    """
    steps = whole_number("steps", steps, 1, None, "the number of elements to test with")
    if not isinstance(worker_counts, Iterable):
        raise TypeError(
            f"worker_counts={short_repr(worker_counts)} is not a list. Pass a list of numbers of "
            "workers, [0, 2]."
        )
    counts = tuple(
        whole_number("worker_counts", count, 0, None, "numbers of workers, [0, 2]")
        for count in worker_counts
    )
    checked = description_of(loader, "check_resume")
    used = _fresh(checked.pipeline)
    expected, states = _first_run(checked, used, steps)
    with _opened(checked, 0, used) as iterator:
        _compare(checked, expected, iterator, 0, len(expected), 0)
    elements = len(states)
    resumed = 0
    for count in counts:
        with _opened(checked, count, _fresh(checked.pipeline)) as iterator:
            _compare(checked, expected, iterator, 0, len(expected), count)
        for step in _some(range(elements), elements if count == 0 else RESUMED_WITH_WORKERS):
            with _opened(checked, count, _fresh(checked.pipeline)) as iterator:
                iterator.set_state(states[step])
                _compare(checked, expected, iterator, step, AFTER, count)
                resumed += 1
    return ResumeReport(elements, resumed, counts)


def description_of(loader: Any, function: str) -> LoaderDescription:
    """Return the description of a loader or dataset that a user gave to `function`.

    Raises:
        TypeError: `loader` is neither a loader nor a dataset.
    """
    dataset = loader.to_iter_dataset() if isinstance(loader, MapDataset) else loader
    if not isinstance(dataset, (LoaderMethods, IterMethods)):
        loader_or_dataset = (
            "the loader of this iterator"
            if hasattr(loader, "get_state")
            else "a loader, or a dataset"
        )
        raise TypeError(
            f"{function}({short_repr(loader)}): {a_kind_of(loader)} is not a loader. Pass "
            f"{loader_or_dataset}: {function} makes its own iterators."
        )
    return dataset.loader_description


def _opened(loader: LoaderDescription, workers: int, pipeline: Pipeline) -> DataLoaderIterator:
    """Return an iterator over `pipeline`, with `workers` worker processes.

    All other options are those of `loader`.
    """
    execution = dataclasses.replace(loader.execution, worker_count=workers)
    return DataLoaderIterator(pipeline, execution, loader.max_errors, loader.skipped_steps)


def _fresh(pipeline: Pipeline) -> Pipeline:
    """Return a copy of a pipeline with the same sources, made by pickling as for worker processes.

    If it cannot be pickled, the pipeline itself is returned.
    """
    sources = [leaf.source for leaf in pipeline.leaves]
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, sources).dump(pipeline)
        buffer.seek(0)
        return _Unpickler(buffer, sources).load()  # type: ignore[no-any-return]
    except Exception:
        return pipeline


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that writes a number in place of each of some objects, which are not pickled.

    Args:
        file: file to write to.
        shared: these objects.
    """

    def __init__(self, file: io.BytesIO, shared: Sequence[Any]) -> None:
        super().__init__(file)
        self._numbers = {id(value): number for number, value in enumerate(shared)}

    def persistent_id(self, value: Any) -> int | None:
        return self._numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    """Unpickler for the output of `_Pickler`: it puts the objects in place of their numbers.

    Args:
        file: file to read.
        shared: the objects.
    """

    def __init__(self, file: io.BytesIO, shared: Sequence[Any]) -> None:
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, number: int) -> Any:
        return self._shared[number]


def _first_run(
    loader: LoaderDescription, pipeline: Pipeline, steps: int
) -> tuple[list[Any], list[bytes]]:
    """Run the first `steps` steps of a pipeline without workers, with the loader's other options.

    Returns:
        Checksums of the elements, and the state before each element. If the stream ends before
        `steps` elements, there is one more checksum, for its end.
    """
    checksums, states = [], []
    with _opened(loader, 0, pipeline) as iterator:
        state = iterator.get_state()
        for element, _ in zip(iterator, range(steps)):
            checksums.append(checksum(element))
            states.append(state)
            state = iterator.get_state()
    if len(states) < steps:
        checksums.append(checksum(_MISSING))
    return checksums, states


def _compare(
    loader: LoaderDescription,
    expected: list[Any],
    iterator: DataLoaderIterator,
    start: int,
    count: int,
    workers: int,
) -> None:
    for step in range(start, min(start + count, len(expected))):
        element = next(iterator, _MISSING)
        if checksum(element) != expected[step]:
            with_workers = f", with worker_count={workers}" if workers else ""
            what_differs = _culprit(loader, step, workers)
            raise NotDeterministicError(
                f"element {step} differs when it is read a second time{with_workers}: "
                f"{what_differs}"
            )


_MISSING = "the stream has ended"


def _culprit(loader: LoaderDescription, step: int, workers: int) -> str:
    whole = loader.pipeline
    if whole.joins:
        return (
            "check the datasets that come together here one by one, check_resume(dataset), to "
            "learn which operation it is."
        )
    with _opened(loader, 0, _fresh(whole)) as iterator:
        for _ in range(step + 1):
            next(iterator, None)
        stop = _position(iterator) + RECORDS_MORE

    def part_of(count: int) -> Pipeline:
        """Return the pipeline with the first `count` operations, as fresh copies."""
        tree = Apply(Read(whole.leaf), whole.operations[:count])
        return _fresh(compiled(tree, whole.skips_errors))

    def run(
        part: Pipeline, workers: int = 0, state: bytes | None = None
    ) -> tuple[list[tuple[Any, str]], list[bytes]]:
        """Run a part of the pipeline, from a state or from the beginning.

        Stop 100 records after the first difference.

        Args:
            part: the part.
            workers: number of workers.
            state: the state; None for the beginning.

        Returns:
            The elements, each as a checksum and a text with the keys of its records; and the states
            before them (and the last state, if the stream ended).
        """
        made: list[tuple[Any, str]] = []
        with _opened(loader, workers, part) as iterator:
            if state is not None:
                iterator.set_state(state, strict=False)
            states = [iterator.get_state()]
            for element in iterator:
                made.append((checksum(element), _format_keys(iterator.last_records())))
                if _position(iterator) >= stop:
                    break
                states.append(iterator.get_state())
        return made, states

    given: list[tuple[Any, str]] = []  # what the operation that is looked at gets
    for count in range(len(whole.operations) + 1):
        used = part_of(count)
        first, states = run(used)
        again = (
            run(part, places)[0]
            for part, places in [(used, 0), *((part_of(count), n) for n in {0, workers})]
        )
        resumed = (
            (first[at:], run(part_of(count), 0, states[at])[0]) for at in [len(first) // 2] if first
        )
        for expected, found in chain(((first, made) for made in again), resumed):
            keys = _difference(expected, found)
            if keys is not None:
                in_place = count > 0 and _difference(given, run(part_of(count - 1))[0]) is not None
                return _accusation(whole.operations, count, keys, in_place)
        given = first
    return (
        "each operation on its own gives the same a second time, so that one of them must depend "
        "on what ran before it. Look for values that calls share: global variables, attributes, or "
        "arrays that are changed in place."
    )


def _accusation(operations: Sequence[Any], count: int, keys: str, in_place: bool) -> str:
    if count == 0:
        return (
            f"the source gave another record for {keys}. Records must stay what they are; "
            "operations must not change them."
        )
    told = f"operation {count - 1}, {short_repr(operations[count - 1])},"
    if in_place:
        return (
            f"{told} changes {keys} in place. The source keeps its records, and gives the changed "
            "ones the next time: return new ones, {**record, …}, array * 2, or change a copy."
        )
    return (
        f"{told} gave another result for {keys}. Draw random numbers from the generator of a "
        "RandomMapTransform, keep nothing from one call to the next, and depend neither on time, "
        "process nor hash()."
    )


def _format_keys(records: Any) -> str:
    if isinstance(records, dict):
        return first_few(
            [
                f"{_format_keys(keys)} of {short_repr(part)}"
                for part, keys in records.items()
                if len(keys)
            ]
        )
    keys = ", ".join(map(str, records[:8].tolist())) + (", …" if len(records) > 8 else "")
    return f"record {keys}" if len(records) == 1 else f"records {keys}"


def _position(iterator: DataLoaderIterator) -> int:
    return LoaderState.from_json(iterator.get_state()).cursor.positions[0]


def _difference(one: list[tuple[Any, str]], two: list[tuple[Any, str]]) -> str | None:
    """Compare the elements of two runs.

    Return the keys, as text, of the records in the first element that differs.

    The result is None if all elements are equal.
    """
    for left, right in zip_longest(one, two):
        if left is None or right is None or left[0] != right[0]:
            return str((left or right)[1])
    return None


def _some(numbers: range, count: int) -> list[int]:
    """Return `count` of the numbers, evenly spread, or all if there are fewer."""
    return (
        [numbers[index * len(numbers) // count] for index in range(count)]
        if len(numbers) > count
        else list(numbers)
    )
