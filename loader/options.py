"""Options of a loader that change speed and memory, but not the stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

from ..common.messages import a_kind_of, short_repr
from ..common.system import has_gil, usable_processors
from ..common.validation import one_of, true_or_false, warn, whole_number
from ..operations import Operation

T = TypeVar("T")


class WorkersLike(Protocol):
    """Interface of an object with a number of workers, like Grain's `MultiprocessingOptions`."""

    @property
    def num_workers(self) -> int: ...


@dataclass(frozen=True)
class ReadOptions:
    """Limits of reading ahead: numbers of threads, records and bytes.

    They matter for sources that wait for disks or networks. The limits apply to each process that
    reads: each worker process or actor; or, with `worker_count=0` or worker threads, the user's
    process as a whole. Records that are read very quickly are read by the thread that needs them,
    whatever the options are. The loader measures this while it runs.

    Attributes:
        num_threads: number of concurrent reads, for any batch size (default 16). 0: read records
            when they are needed. A source may limit this further (`reads_ahead`). Asynchronous
            sources need no threads.
        prefetch_buffer_size: maximum number of records that are read ahead or are being read
            (default 500); 0 for none. For asynchronous sources it also limits concurrent reads.
            Records of a `BudgetBatch` are read a whole batch at a time, at least one batch by each
            thread. A number smaller than `num_threads`, except 0, leaves some threads idle, and
            causes a warning when the options are made.
        prefetch_buffer_bytes: maximum bytes of these records (default 256 MiB); None for no limit.
            Reading stops at whichever limit is reached first. One read may exceed it. It is also
            the limit for all batches together that worker processes make ahead of your loop, but
            each worker may always have one. Until the first batches have shown their size, each
            worker makes `worker_buffer_size` of them.

    Raises:
        TypeError: if a value is not an integer.
        ValueError: if a number of threads or records is negative, or the number of bytes is below
            1.

    >>> ReadOptions(num_threads=4)
    ReadOptions(num_threads=4, prefetch_buffer_size=500)
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500
    prefetch_buffer_bytes: int | None = 256 << 20

    in_place: ClassVar[bool] = True
    """False: read on threads only, if there are any, however fast the source is."""

    def __repr__(self) -> str:  # the default is left out, as programs of Grain print these options
        nbytes, default = self.prefetch_buffer_bytes, type(self).prefetch_buffer_bytes
        more = "" if nbytes == default else f", prefetch_buffer_bytes={nbytes}"
        threads, size = self.num_threads, self.prefetch_buffer_size
        return f"ReadOptions(num_threads={threads}, prefetch_buffer_size={size}{more})"

    def __post_init__(self) -> None:
        threads, size = self.num_threads, self.prefetch_buffer_size
        for name, number in (("num_threads", threads), ("prefetch_buffer_size", size)):
            checked = whole_number(name, number, 0, None, "an int, 0 for none")
            object.__setattr__(self, name, checked)
        if self.prefetch_buffer_bytes is not None:
            limit = self.prefetch_buffer_bytes
            whole_number("prefetch_buffer_bytes", limit, 1, None, "a positive int, or None")
        if 0 < self.prefetch_buffer_size < self.num_threads:
            self._warn_of_a_small_buffer()

    def _warn_of_a_small_buffer(self) -> None:
        warn(
            f"prefetch_buffer_size={short_repr(self.prefetch_buffer_size)} is below "
            f"num_threads={short_repr(self.num_threads)}, so that not all threads have a record to "
            "read. Pass a larger prefetch_buffer_size=, or a smaller num_threads=."
        )


def as_read_options(options: Any) -> ReadOptions:
    """Return `options` as `ReadOptions`. None becomes the default `ReadOptions()`.

    Raises:
        TypeError: if `options` has no attributes `num_threads` and `prefetch_buffer_size`.
    """
    if options is None or isinstance(options, ReadOptions):
        return options or ReadOptions()
    try:
        threads, size = options.num_threads, options.prefetch_buffer_size
    except AttributeError:
        raise TypeError(
            f"read_options={short_repr(options)} is {a_kind_of(options)}. Pass "
            "headrace.ReadOptions(num_threads=…)."
        ) from None
    return ReadOptions(threads, size)


INSIDE_A_TASK: ContextVar[bool] = ContextVar("headrace_inside_a_task", default=False)
"""True inside a task.

A loader that is iterated there runs in the same thread, without workers of its own.
"""


def _most_by_default() -> int:
    cpus = usable_processors()
    return max(cpus, min(4 * cpus, 32))


@dataclass(frozen=True)
class Auto:
    """Number of workers that is found while the stream runs, for `worker_count`.

    "auto" means `Auto()`. The search begins with no worker, or with one. More are tried as long as
    the stream gets faster and your loop has to wait; then longer buffers are tried. The search ends
    after about 30 seconds, not counting pauses such as compilation, or later if workers start
    slowly or a task takes long. The stream is the same with any number of workers.

    Attributes:
        most: maximum number of workers. Default: four for each CPU, but at most 32; one for each
            CPU on a machine with more than 32. Work that waits for disks or networks can use more
            workers than there are CPUs.
        most_bytes: maximum bytes of memory that worker processes share with your process, for
            batches on their way to it. None (default): no limit.

    Raises:
        TypeError: if an argument is not an int.
        ValueError: if an argument is not positive.

    >>> Auto(most=4).most
    4
    """

    most: int = field(default_factory=_most_by_default)
    most_bytes: int | None = None

    def __post_init__(self) -> None:
        whole_number("most", self.most, 1, None, "a positive number of workers")
        if self.most_bytes is not None:
            whole_number(
                "most_bytes",
                self.most_bytes,
                1,
                None,
                "a positive number of bytes, or None for any",
            )


@dataclass(frozen=True)
class ExecutionOptions:
    """Options of workers and reading ahead.

    The stream does not depend on these options, unless operations draw from global generators.

    Attributes:
        worker_count: 0: work in the calling thread, and read ahead on threads. Other numbers: work
            in this number of processes, threads or actors. None: one for each CPU. "auto", or
            `Auto(most=…)`: as many as make the stream faster, which is found while it runs.
            "cluster", with Ray: as many as the cluster has resources for, at any time.
        worker_kind: "process", "thread" for operations that release the GIL, or "ray" for actors in
            a Ray cluster. None (default): "process"; in a Python without GIL "thread", if all
            operations are `thread_safe`, and `timeout`, `worker_init_fn` and `seed_globals`, which
            need processes, are not used.
        worker_buffer_size: number of finished batches that are kept ready for each worker (default
            1); more if batches are small.
        timeout: maximum seconds of a task in a worker process or actor. None (default): no limit.
        read_options: how records are read ahead. None: `ReadOptions()`.
        worker_init_fn: function of the worker's number, from 0, and the number of workers. It is
            called in each worker process before source and operations are unpickled there. Then
            each worker has copies of its own, and only large arrays share memory. The function must
            not change the elements, which are the same for any number of workers. Default: none.
        ray_options: resources and placement of each actor, as arguments of Ray's `.options()`, such
            as `num_cpus` (default 1), `num_gpus`, `memory`, `resources`, `scheduling_strategy`,
            `runtime_env`.
        address: address of the Ray cluster, "host:port"; "auto": the one on this machine. None
            (default): the cluster that this process has joined, or that the environment variable
            RAY_ADDRESS names; otherwise a cluster is started on this machine.
        seed_globals: True: seed random generators before each call of an operation, by the
            sampler's seed, the position and the operation. These are the global generators
            (NumPy's, Python's `random`, and torch's on the CPU if torch is loaded), and generators
            that an operation holds in an attribute or variable. Then operations that draw from them
            give the same results with any number of workers. After each task the generators are
            restored. Not for threads, which share the generators. False (default): each worker
            process has global generators with states of their own, which differ from run to run.
            Its copies of the generators that operations hold have the same state in all workers,
            which causes a warning.
        hang_seconds: seconds after which an unfinished task is a warning in the log, repeated after
            the same time (default 60; None: never). The warning names the operation, the record and
            the line of code that is being executed, in your process or in a worker.
        observe: True (default): time tasks and operations, for `iterator.stats()`; costs less than
            1 %. "log": also write the table of `stats()` to the log once a minute and at the end:
            logger "headrace", level INFO. "each": time every task, also very short ones, for a few
            per cent, as `headrace.diagnose` does.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an argument is out of range.

    >>> ExecutionOptions(worker_count=2).workers
    2
    """

    worker_count: int | Literal["auto", "cluster"] | Auto | None = 0
    worker_kind: Literal["process", "thread", "ray"] | None = None
    worker_buffer_size: int = 1
    timeout: float | None = None
    read_options: ReadOptions | None = None
    worker_init_fn: Callable[[int, int], Any] | None = None
    observe: bool | Literal["log", "each"] = True
    ray_options: Mapping[str, Any] | None = None
    address: str | None = None
    seed_globals: bool = False
    hang_seconds: float | None = 60.0

    def __post_init__(self) -> None:
        if self.worker_init_fn is not None and not callable(self.worker_init_fn):
            raise TypeError(
                f"worker_init_fn={short_repr(self.worker_init_fn)} is "
                f"{a_kind_of(self.worker_init_fn)}. Pass a function that takes the number of a "
                "worker and the number of workers."
            )
        checked = {
            "worker_count": _worker_count(self.worker_count, self.worker_kind),
            "worker_buffer_size": whole_number(
                "worker_buffer_size", self.worker_buffer_size, 1, None, "a positive int"
            ),
            "worker_kind": _worker_kind(self.worker_kind),
            "timeout": _time_limit("timeout", self.timeout),
            "hang_seconds": _time_limit("hang_seconds", self.hang_seconds),
            "observe": _observe(self.observe),
            "read_options": as_read_options(self.read_options),
            "ray_options": _ray_options(self.ray_options, self.worker_kind),
            "address": _address(self.address, self.worker_kind),
            "seed_globals": true_or_false("seed_globals", self.seed_globals),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.seed_globals and self.worker_kind == "thread" and self.worker_count != 0:
            raise ValueError(
                'seed_globals=True cannot be combined with worker_kind="thread", because all '
                'threads share the global generators. Pass worker_kind="process", or draw from the '
                "generator that headrace.RandomMapTransform(function) passes to your function."
            )

    def for_operations(self, operations: Iterable[Operation]) -> ExecutionOptions:
        """Return the options for a run of `operations`, with a `worker_kind` that is not None.

        >>> ExecutionOptions(worker_count=2, timeout=60.0).for_operations([]).worker_kind
        'process'
        """
        if self.worker_kind is not None:
            return self
        needs_processes = (
            self.timeout is not None or self.worker_init_fn is not None or self.seed_globals
        )
        threads = not has_gil() and not needs_processes and all(map(_is_thread_safe, operations))
        return replace(self, worker_kind="thread" if threads else "process")

    @property
    def workers(self) -> int:
        """Number of workers; with `Auto`, the largest number to try; with "cluster", 1."""
        if isinstance(self.worker_count, Auto):
            return self.worker_count.most
        return self.worker_count if isinstance(self.worker_count, int) else 1

    @property
    def reading(self) -> ReadOptions:
        """The attribute `read_options`; the default `ReadOptions()` if it is None."""
        return self.read_options or ReadOptions()


def _is_thread_safe(operation: Operation) -> bool:
    """Return True if several threads may run an operation and its function at the same time.

    Return False if one of these has an attribute `thread_safe` that is False: the operation, the
    user's function, or the object whose method the function is.
    """
    function = operation.user_function
    owner = getattr(function, "__self__", function)
    return operation.thread_safe and bool(getattr(owner, "thread_safe", True))


def _worker_kind(kind: Any) -> Literal["process", "thread", "ray"] | None:
    if kind is None:
        return None
    return cast(
        Literal["process", "thread", "ray"], one_of("worker_kind", kind, "process", "thread", "ray")
    )


def _worker_count(count: Any, kind: str | None) -> int | Literal["cluster"] | Auto:
    if isinstance(count, Auto) or (isinstance(count, str) and count == "auto"):
        if kind == "ray":
            raise ValueError(
                f"worker_count={short_repr(count)} works with processes and threads only. With "
                'worker_kind="ray", pass "cluster" or a number.'
            )
        return count if isinstance(count, Auto) else Auto()
    if isinstance(count, str) and count == "cluster":
        if kind != "ray":
            raise ValueError(
                'worker_count="cluster" works with worker_kind="ray" only. With '
                f"worker_kind={short_repr(kind)}, pass a number."
            )
        return "cluster"
    count = usable_processors() if count is None else count
    found = "cluster" if kind == "ray" else "auto"
    return whole_number(
        "worker_count", count, 0, None, f'a number of workers, "{found}", or None for one per CPU'
    )


OURS = (
    "max_concurrency",
    "max_restarts",
    "max_task_retries",
    "concurrency_groups",
    "name",
    "lifetime",
    "get_if_exists",
)
"""Arguments of Ray's `.options()` that headrace sets itself."""


def _ray_options(options: Any, kind: str | None) -> Mapping[str, Any] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(
            f"ray_options={short_repr(options)} is {a_kind_of(options)}. Pass a dict, such as "
            '{"num_cpus": 1}.'
        )
    if taken := [name for name in options if name in OURS]:
        raise ValueError(
            f"ray_options= has {short_repr(taken[0])}, which headrace sets itself. Leave it out."
        )
    return _with_ray("ray_options", dict(options), kind)


def _address(address: Any, kind: str | None) -> str | None:
    if address is None:
        return None
    if not isinstance(address, str):
        raise TypeError(
            f'address={short_repr(address)} is {a_kind_of(address)}. Pass "host:port", "auto" for '
            "the cluster of this machine, or None."
        )
    if address not in ("auto", "local") and not re.fullmatch(r"[^/]+:\d+", address):
        raise ValueError(
            f"address={short_repr(address)} is not the address of a Ray cluster that this machine "
            'can join. Pass "host:port", as `ray start --head` printed it, "auto", or None.'
        )
    return _with_ray("address", address, kind)


def _with_ray(name: str, value: T, kind: str | None) -> T:
    if kind != "ray":
        raise ValueError(
            f'{name}= works with worker_kind="ray" only. Leave it out with '
            f"worker_kind={short_repr(kind)}."
        )
    return value


def _observe(value: Any) -> Any:
    if not isinstance(value, bool) and not (isinstance(value, str) and value in ("log", "each")):
        raise TypeError(
            f'observe={short_repr(value)} is {a_kind_of(value)}. Pass True, False, "log" or "each".'
        )
    return value


def _time_limit(name: str, seconds: float | None) -> float | None:
    none = "None for no warnings" if name == "hang_seconds" else "None for no limit"
    if seconds is not None and not isinstance(seconds, Real):
        raise TypeError(
            f"{name}={short_repr(seconds)} is {a_kind_of(seconds)}. Pass a number of seconds, or "
            f"{none}."
        )
    if seconds is not None and not seconds > 0:
        raise ValueError(
            f"{name}={short_repr(seconds)} is not a positive number. Pass seconds above 0, or "
            f"{none}."
        )
    return seconds
