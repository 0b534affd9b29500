"""Run a stream with simulated workers, and check its elements.

Workers die, stop, come late and come back as a seed decides.

In: a loader or a chain, and a seed. Out: the events of the run, or the error that says what went
wrong in it.

While a seed is played, iterators get their executor from a `World`, which uses a `FakeTransport` in
place of processes. The user of the stream is simulated, too: sometimes the iterator is closed, or
goes back to an earlier state, or is interrupted.
"""

from __future__ import annotations

import itertools
import logging
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

from ..errors import WorkerCrashedError
from ..loader import iterator as iterator_module
from ..loader.executors import local
from ..loader.executors.make import make_executor
from ..loader.executors.pooled import PooledExecutor
from ..loader.executors.protocol import Executor, Tuning
from ..loader.iterator import DataLoaderIterator
from ..loader.loader_description import LoaderDescription
from ..loader.options import ExecutionOptions, ReadOptions
from ..loader.plan.pipeline import Pipeline
from ..loader.timing.observer import Observer
from ..tools.resume_check import description_of
from .comparing import comparable
from .fake_transport import FakeTransport
from .faults import Faults, SimulationError

MOST_ELEMENTS = 16
"""Maximum number of elements of a stream that are compared."""

NO_THREADS = ReadOptions(num_threads=0)


@dataclass(frozen=True)
class Expected:
    """What a stream must deliver, whatever happens to its workers.

    Attributes:
        elements: its first elements, as `same_form` returns them.
        failure: text of the error that comes after these elements; None if no error comes.
        ends: True if the stream ends, with or without an error, after these elements.
        skipped: least number of records that `on_error="skip"` skips; 0 if the failures are not
            skipped.
        skips: True if failures are skipped.
        crashes: True if the error ends the worker, so that `WorkerCrashedError` comes in its place.
        same_form: function that returns an element in a form that `==` compares completely.
    """

    elements: Sequence[Any]
    failure: str | None = None
    ends: bool = True
    skipped: int = 0
    skips: bool = False
    crashes: bool = False
    same_form: Callable[[Any], Any] = comparable

    @classmethod
    def of(cls, loader: LoaderDescription) -> Expected:
        """Return a loader's output without workers: at most 16 elements, or an error after them."""
        elements: list[Any] = []
        skips = bool(loader.pipeline.skips_errors)
        with _opened(loader, worker_count=0) as iterator:
            try:
                for element in itertools.islice(iterator, MOST_ELEMENTS + 1):
                    elements.append(comparable(element))
            except Exception as error:
                return cls(elements, str(error), skips=skips)
        return cls(elements[:MOST_ELEMENTS], ends=len(elements) <= MOST_ELEMENTS, skips=skips)


class World:
    """Everything that is random in one simulated run.

    Attributes:
        chance: random generator of the run, from its seed.
        log: the events so far, as texts.
        most_faults: largest number of faults of each transport.
        last: transport that was made last; None if there was none.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"history {seed}")
        self.log: list[str] = []
        self.note: Callable[[str], None] = self.log.append
        self.most_faults = 2
        self.last: FakeTransport | None = None

    def executor(
        self,
        pipeline: Pipeline,
        options: ExecutionOptions,
        observer: Observer,
        tuning: Tuning | None = None,
    ) -> Executor:
        """Return an executor with simulated workers, in place of the one of `make_executor`."""
        chance = self.chance
        depth = chance.choice([None, None, 1, 2, 3])
        faults = Faults(
            die=chance.choice([0, 0.02, 0.1]),
            hang=chance.choice([0, 0.05]),
            come_back=chance.choice([0.02, 0.5]),
            all_end=chance.choice([0, 0.02]) if depth is None else 0,
            lose=chance.choice([0, 0.05]) if depth is not None else 0,
            resize=chance.choice([0, 0.02]) if depth is not None else 0,
            interrupt=chance.choice([0, 0.02]),
            most=self.most_faults,
        )
        self.note(
            f"a run begins: {options.workers} workers, depth {depth}, timeout {options.timeout}, "
            f"{faults}"
        )
        self.last = FakeTransport(
            pipeline,
            chance,
            options.workers,
            faults,
            depth,
            depth is not None,
            options.timeout,
            self.note,
        )
        return PooledExecutor(pipeline, options, observer, self.last, self.last.clock)

    def options(self) -> dict[str, Any]:
        """Return random options of workers, for `with_options`."""
        chance = self.chance
        return {
            "worker_count": chance.randint(1, 3),
            "worker_buffer_size": chance.randint(1, 3),
            "timeout": chance.choice([None, 1000.0]),
        }


@contextmanager
def executors_from(make: Callable[..., Executor]) -> Iterator[None]:
    """Let iterators of loaders with workers get their executors from `make`.

    It has the arguments of `make_executor`.
    """

    def made(pipeline: Pipeline, options: ExecutionOptions, *rest: Any) -> Executor:
        return (make if options.workers else make_executor)(pipeline, options, *rest)

    with mock.patch.object(iterator_module, "make_executor", made):
        yield


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Give iterators the simulated workers of `world`; log no warnings of headrace.

    Times do not depend on the machine.
    """
    clock = itertools.count(0.0, 1e-6)
    with (
        quietly(),
        mock.patch.object(local, "perf_counter", partial(next, clock)),
        executors_from(world.executor),
    ):
        yield


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings, and what headrace logs, such as the ends of workers."""
    logger = logging.getLogger("headrace")
    was, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = was


def simulate(stream: Any, seeds: Iterable[int] = range(100)) -> None:
    """Run a stream with simulated workers for each seed, and compare it with a run without workers.

    A seed decides which workers die, stop or come late, and when the loop is interrupted by Ctrl-C,
    resumed from an earlier state, or closed. No process is made: operations run in this process, so
    a run of quick operations takes some milliseconds. At most 16 elements are compared.

    Args:
        stream: a `DataLoader`, `MapDataset` or `IterDataset`. Its options of workers are replaced
            by random ones.
        seeds: the seeds.

    Raises:
        TypeError: if `stream` is something else.
        SimulationError: if an element differs, is missing or comes twice; if an error comes at
            another place; if a state is not restored; or if the run does not end. The error names
            the seed, and `__notes__` has the events of the run.

    >>> import headrace
    >>> simulate(headrace.load(range(20), batch_size=4, num_epochs=1), range(10))
    """
    loader = description_of(stream, "simulate")
    expected = Expected.of(loader)
    for seed in seeds:
        play(
            seed,
            lambda world: play_stream(lambda: _opened(loader, **world.options()), expected, world),
        )


def _opened(loader: LoaderDescription, **options: Any) -> DataLoaderIterator:
    execution = replace(
        loader.execution,
        worker_kind="process",
        read_options=NO_THREADS,
        worker_init_fn=None,
        observe=False,
        **options,
    )
    return DataLoaderIterator(loader.pipeline, execution, loader.max_errors, loader.skipped_steps)


def play(seed: int, run: Callable[[World], None]) -> list[str]:
    """Call `run` with the world of a seed, while iterators get simulated workers.

    Return the events of the run.

    Raises:
        SimulationError: `run` raised an exception, which is its cause. `__notes__` has the events.
    """
    world = World(seed)
    try:
        with simulated(world):
            run(world)
    except BaseException as error:
        wrong = SimulationError(f"seed {seed}: {type(error).__name__}: {error}")
        wrong.add_note("\n".join(world.log))
        raise wrong from error
    return world.log


def play_stream(open_iterator: Callable[[], Any], expected: Expected, world: World) -> None:
    """Loop over a stream with random closings, interrupts and resumes; check elements and states.

    Args:
        open_iterator: function that returns a new iterator of the stream.
        expected: what the stream must deliver.
        world: the world, which decides what happens.

    Raises:
        SimulationError: if the stream delivers something else.
    """
    chance = world.chance
    # A record is left out when workers ended three times at it. Where records end workers, one of
    # them can end the worker that also has its neighbour.
    skipping = 1 if expected.crashes else 2
    world.most_faults = skipping if expected.skips else chance.choice([1, 2, 6])
    iterator, step, whole = open_iterator(), 0, True
    states = [(0, iterator.get_state())]
    for _ in range(20 * MOST_ELEMENTS):
        if chance.random() < 0.05:
            if closes := chance.random() < 0.3:
                iterator.close()
            step, state = (
                chance.choice(states) if chance.random() < 0.5 else (step, iterator.get_state())
            )
            world.note(f"resumes from step {step}")
            if closes or chance.random() < 0.5:
                iterator = open_iterator()
            _restore(iterator, state)
            whole = False
            require(iterator.get_state() == state, "the state differs after it was restored")
        if step == len(expected.elements) and not expected.ends:
            break
        state = iterator.get_state()
        try:
            element = next(iterator)
        except StopIteration:
            require(
                step == len(expected.elements) and expected.failure is None,
                f"the stream ends at step {step}, too early",
            )
            break
        except SimulationError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            require(iterator.get_state() == state, f"{type(error).__name__} changed the state")
            if _is_due(error, step, expected, world):
                break
            whole = False
            continue
        require(step < len(expected.elements), "more elements come than without workers")
        require(
            expected.same_form(element) == expected.elements[step], f"element {step} is {element!r}"
        )
        world.note(f"element {step}")
        step += 1
        if chance.random() < 0.2:
            states.append((step, iterator.get_state()))
    else:
        raise SimulationError("the stream does not end")
    if whole and expected.skips and expected.ends:
        require(iterator.skipped_count >= expected.skipped, "skipped records are not counted")
    iterator.close()


def _is_due(error: BaseException, step: int, expected: Expected, world: World) -> bool:
    """Return True if an error is the end of the stream.

    Return False if the loop can be continued after it.

    Raises:
        SimulationError: neither is so.
    """
    if isinstance(error, KeyboardInterrupt):
        return False
    at_end = step == len(expected.elements) and expected.failure is not None
    if isinstance(error, WorkerCrashedError):
        if expected.crashes and at_end:
            return True
        enough = world.last is not None and world.last.fault_count > 2
        require(enough, f"{error}, although fewer than three workers ended")
        return False
    require(
        at_end and str(error) == expected.failure,
        f"step {step} fails with {type(error).__name__}: {error}",
    )
    return True


def _restore(iterator: Any, state: bytes) -> None:
    """Restore a state in an iterator.

    If a KeyboardInterrupt comes meanwhile, try again until none comes.
    """
    while True:
        try:
            iterator.set_state(state)
        except KeyboardInterrupt:
            continue
        return


def require(holds: Any, text: str) -> None:
    """Raise SimulationError with a text unless a condition holds."""
    if not holds:
        raise SimulationError(text)
