"""Worker processes: the same stream, whatever happens to them, and nothing left of them."""

from __future__ import annotations

import dataclasses
import itertools
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from support.damage import sealed
from support.own_processes import workers, zygotes
from support.pipelines import loader, stream
from support.without import linux_only

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, ReadOptions, load
from headrace.errors import PicklingError, TooManyErrorsError, WorkerCrashedError
from headrace.loader.executors.processes import slabs
from headrace.loader.executors.processes.channel import Channel, Returned, RunTasks
from headrace.loader.executors.processes.zygote import WorkerProcess
from headrace.loader.executors.task_runner import WorkerSetup
from headrace.loader.executors.transport import Ready
from headrace.loader.interrupts import wait_until
from headrace.loader.options import ExecutionOptions
from headrace.loader.work.slabs import attach_shared, create_shared
from headrace.loader.work.tasks import SpanTask


@pytest.mark.long
@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "name", ["random", "filter, batch", "trees", "filter, batch, flat map, batch"]
)
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_resume_goes_from_any_worker_count_to_any_other(name, kind):
    """A state taken with workers is restored without, and the other way round, with exactly the
    rest of the stream.
    """
    expected = stream(loader(name))
    for before, after in ((0, 2), (3, 0)):
        with iter(loader(name, worker_count=before, worker_kind=kind)) as iterator:
            first = stream(itertools.islice(iterator, 3))
            state = iterator.get_state()
        with iter(loader(name, worker_count=after, worker_kind=kind)) as iterator:
            iterator.set_state(state)
            assert first + stream(iterator) == expected


def large(records: int = 64, num_epochs: int = 4, row: int = 25_000, **more):
    """Batches of 400 KB that arrive on slabs."""
    sampler = IndexSampler(records, shuffle=True, seed=1, num_epochs=num_epochs)
    return DataLoader(
        data_source=list(range(records)),
        sampler=sampler,
        operations=[lambda x: np.full(row, x, np.float32), Batch(4)],
        **more,
    )


@pytest.mark.slow
def test_batches_that_are_kept_stay_and_dropped_ones_are_reused():
    """Shared memory is reused only when no array looks at it, and then it is."""
    kept, addresses = [], set()
    with iter(large(num_epochs=60, worker_count=2)) as iterator:
        for step, batch in enumerate(iterator):
            addresses.add(batch.ctypes.data)
            if step % 10 == 0:
                kept.append(batch[1:3, ::1000])
    expected = [batch[1:3, ::1000] for batch in itertools.islice(large(num_epochs=60), 0, None, 10)]
    assert all((one == two).all() for one, two in zip(kept, expected, strict=True))
    assert len(addresses) < 480  # of 960 batches, 96 of them kept


def test_a_worker_uses_memory_again_that_was_dropped_while_it_was_at_a_task():
    """It looks for what has come back when it begins a batch, not only between tasks."""
    ours, theirs = Channel.pair()
    at_work, go_on = threading.Event(), threading.Event()

    def wait(x: int) -> np.ndarray:
        if x == 4:
            at_work.set()
            assert go_on.wait(30)
        return np.full(1000, x)

    pipeline = iter(load(range(8), transformations=[wait], batch_size=4))._pipeline
    end = Channel(theirs)
    options = ExecutionOptions(read_options=ReadOptions(num_threads=0))
    worker = WorkerProcess(0, end, WorkerSetup(options, None), pipeline)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert isinstance(ours.receive()[0], Ready)
    ours.send(RunTasks([SpanTask(0, 0, 4)], []))
    done, descriptors = ours.receive()
    _, _, lent = done.answers[0]
    ours.send(RunTasks([SpanTask(0, 4, 8)], []))
    assert at_work.wait(30)
    ours.send(Returned([number for number, _ in lent]))
    go_on.set()
    done, _ = ours.receive()
    assert done.answers[0][2] == lent
    ours.close()
    thread.join(30)
    assert not thread.is_alive()
    end.close()
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.slow
def test_arrays_from_workers_are_aligned_writable_and_outlive_the_iterator():
    """A batch is an ordinary array: 64-byte aligned, writable, picklable, valid after close."""
    import pickle

    with iter(large(worker_count=1)) as iterator:
        batch = next(iterator)
    assert batch.ctypes.data % 64 == 0
    expected = batch.copy()
    batch += 1
    assert (batch == expected + 1).all()
    assert (pickle.loads(pickle.dumps(batch)) == batch).all()


@pytest.mark.slow
def test_a_jax_array_of_a_workers_batch_keeps_its_values():
    """Jax may take the shared memory as it is; it is not reused before the jax.Array is gone."""
    import jax

    with iter(large(worker_count=2)) as iterator:
        arrays = [jax.device_put(batch) for batch in iterator]
    for array, batch in zip(arrays, large(), strict=True):
        assert (np.asarray(array) == batch).all()


def mappings() -> str:
    """All of this process, a line each."""
    with open("/proc/self/maps") as file:
        return file.read()


def mapping(address: int) -> dict[str, str]:
    """What the kernel tells of the mapping that begins at an address."""
    with open("/proc/self/smaps") as file:
        behind = file.read().partition(f"\n{address:x}-")[2]
    told, _, flags = behind.partition("VmFlags:")
    return dict(line.split(":", 1) for line in told.splitlines()[1:]) | {
        "VmFlags": flags.partition("\n")[0]
    }


def collapses() -> bool:
    """Whether this kernel puts memory on large pages when it is told to."""
    with mmap.mmap(-1, 6 << 20, mmap.MAP_PRIVATE) as private:
        private[::4096] = bytes(len(private) // 4096)
        try:
            private.madvise(25)
        except OSError:
            return False
    return True


@pytest.mark.skipif(
    sys.platform != "linux" or not collapses(), reason="the kernel has no large pages"
)
@linux_only
def test_memory_of_large_batches_stands_on_large_pages():
    """From the beginning in the worker that made it, and from the first look on where it was handed
    over.
    """
    size = (16 << 20) + 4096
    descriptor = create_shared(size)
    made = attach_shared(descriptor, size, fresh=True)
    assert "16384 kB" in mapping(made.ctypes.data)["ShmemPmdMapped"]
    made[:] = 7
    received = attach_shared(descriptor, size)
    os.close(descriptor)
    assert (received == 7).all()
    assert "16384 kB" in mapping(received.ctypes.data)["ShmemPmdMapped"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are not told where to map")
@linux_only
def test_memory_of_large_batches_asks_for_large_pages_and_goes_as_a_whole():
    """What is mapped to have room for the alignment goes with it."""
    for size, asks in {1 << 20: False, 16 << 20: True}.items():
        before, slabs = mappings().count("\n"), mappings().count("headrace-slab")
        descriptor = create_shared(size)
        array = attach_shared(descriptor, size)
        os.close(descriptor)
        assert ("hg" in mapping(array.ctypes.data)["VmFlags"].split()) == asks
        assert mappings().count("headrace-slab") > slabs
        del array
        assert mappings().count("headrace-slab") == slabs
        assert mappings().count("\n") <= before + 2  # Python's own come and go


class StartsThread:
    """A source whose unpickling starts a thread, so that the zygote must not fork."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        return key

    def __setstate__(self, state):
        self.__dict__.update(state)
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


@pytest.mark.long
def test_a_source_that_starts_threads_gets_fresh_interpreters():
    """When unpickling the pipeline starts threads, workers are not forked, and everything works."""
    options = {"batch_size": 4, "num_epochs": 2, "shuffle": True, "seed": 0}
    expected = stream(load(StartsThread(20), **options))
    assert stream(load(StartsThread(20), **options, worker_count=2)) == expected


@pytest.mark.one_in(10)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize("name", ["map, batch, map", "filter, batch", "pack, random, batch"])
def test_a_killed_worker_changes_nothing(name, number, caplog):
    """Workers killed between steps are replaced, and the stream goes on unchanged, with a warning
    that names the signal.
    """
    expected = stream(loader(name, records=200))
    got = []
    with iter(loader(name, records=200, worker_count=2)) as iterator:
        for step, element in enumerate(iterator):
            got += stream([element])
            if step in (2, 9):
                workers()[0].send_signal(number)
                time.sleep(0.05)
    assert got == expected
    assert number.name in caplog.text


@pytest.mark.slow
def test_workers_killed_at_the_start_change_nothing():
    """A worker killed before it did anything is replaced."""
    expected = stream(loader("batch"))
    with iter(loader("batch", worker_count=3)) as iterator:
        iterator.start_prefetch()
        assert wait_until(workers, 10)
        for child in workers():
            child.kill()
        assert stream(iterator) == expected


@pytest.mark.slow
def test_a_killed_zygote_changes_nothing():
    """The process that makes the workers may die too."""
    expected = stream(loader("filter, batch", records=200))
    got = []
    with iter(loader("filter, batch", records=200, worker_count=2)) as iterator:
        for step, element in enumerate(iterator):
            got += stream([element])
            if step in (2, 9):
                for one in zygotes():  # none, if nobody has missed the one that was killed first
                    one.kill()
    assert got == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: os._exit(123), "was terminated unexpectedly with exit code 123"),
        (lambda: os._exit(0), "was terminated unexpectedly with exit code 0"),
        (lambda: sys.exit(7), "was terminated unexpectedly with exit code 7"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "memory"),
    ],
)
@pytest.mark.one_in(3)
def test_a_record_that_kills_its_worker_is_named_after_three_tries(end, message):
    """What precedes the record comes; then WorkerCrashedError with signal or exit code and record
    keys.
    """

    def deadly(x):
        if x == 9:
            end()
        return x

    sampler = IndexSampler(20, num_epochs=1)
    got = []
    with pytest.raises(WorkerCrashedError, match=message) as caught:
        for batch in DataLoader(
            data_source=range(20), sampler=sampler, operations=[deadly, Batch(4)], worker_count=2
        ):
            got += batch.tolist()
    assert got == list(range(8))
    assert "record key 9 at position 9: " in str(caught.value)


@pytest.mark.slow
def test_a_stuck_worker_is_killed_after_the_timeout(tmp_path):
    """A task that hangs once is done again; one that always hangs is an error that names timeout
    and records.
    """
    flag = tmp_path / "hung"

    def hangs_once(x):
        if x == 9 and not flag.exists():
            flag.touch()
            time.sleep(1000)
        return x

    def hangs(x):
        if x == 9:
            time.sleep(1000)
        return x

    def run(operation):
        return DataLoader(
            data_source=range(20),
            sampler=IndexSampler(20, num_epochs=1),
            operations=[operation, Batch(4)],
            worker_count=2,
            timeout=0.3,
        )

    assert np.concatenate(list(run(hangs_once))).tolist() == list(range(20))
    with pytest.raises(
        WorkerCrashedError,
        match=(
            r"^record key 9 at position 9: a worker was stopped after timeout=0.3 s, 3 times, .*\. "
            r"Pass a larger timeout="
        ),
    ):
        list(run(hangs))


@pytest.mark.slow
def test_a_stopped_worker_counts_as_stuck():
    """SIGSTOP to a worker ends in its replacement."""
    expected = stream(loader("batch", records=200))
    got = []
    with iter(loader("batch", records=200, worker_count=2, timeout=0.5)) as iterator:
        for step, element in enumerate(iterator):
            got += stream([element])
            if step == 3:
                workers()[0].suspend()
    assert got == expected


class OwnError(Exception):
    """An exception of the user's, with arguments that pickle gets wrong."""

    def __init__(self, code, *, detail):
        super().__init__(f"code {code}: {detail}")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (lambda: ValueError("no 9"), ValueError, "no 9"),
        (lambda: KeyError("nine"), KeyError, "nine"),
        (lambda: OwnError(3, detail="odd"), OwnError, "^code 3: odd"),
    ],
)
@pytest.mark.one_in(3)
def test_an_exception_in_a_worker_arrives_as_itself(error, kind, message):
    """Type, message, note and the worker's traceback arrive, at the right place in the stream;
    going on works.
    """

    def failing(x):
        if x == 9:
            raise error()
        return x

    sampler = IndexSampler(20, num_epochs=1)
    one = DataLoader(
        data_source=range(20), sampler=sampler, operations=[failing, Batch(4)], worker_count=2
    )
    got = []
    with iter(one) as iterator:
        with pytest.raises(kind, match=message) as caught:
            for batch in iterator:
                got += batch.tolist()
        assert got == list(range(8))
        assert "operation 0" in caught.value.__notes__[0]
        assert "record key 9 at position 9" in caught.value.__notes__[0]
        assert "failing" in str(caught.value.__cause__)
        state = iterator.state_dict()
        iterator.set_state(sealed({**state, "cursor": [[12], [0]]}))
        assert np.concatenate(list(iterator)).tolist() == list(range(12, 20))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("operations", [[Batch(4)], [Filter(lambda x: x % 2 == 0), Batch(4)], []])
@pytest.mark.one_in(3)
def test_records_that_fail_can_be_skipped(workers, operations, caplog):
    """on_error="skip" leaves out what fails, counts and logs it, and resumes exactly, for any
    worker count.
    """

    def failing(x):
        if x % 10 == 4:
            raise ValueError(f"bad {x}")
        return x

    def make(count, operations=operations, **more):
        return DataLoader(
            data_source=range(50),
            sampler=IndexSampler(50, shuffle=True, seed=0, num_epochs=1),
            operations=[failing, *operations],
            worker_count=count,
            on_error="skip",
            **more,
        )

    expected = stream(make(0))
    with iter(make(workers)) as iterator:
        first = stream(itertools.islice(iterator, 2))
        state = iterator.get_state()
        assert first + stream(iterator) == expected
        assert iterator.skipped_count == 5
    assert "bad 14" in caplog.text
    with iter(make(0)) as iterator:
        iterator.set_state(state)
        assert stream(iterator) == expected[2:]
    with pytest.raises(TooManyErrorsError, match="max_errors=3"):
        list(make(workers, max_errors=3))
    with pytest.raises(TypeError, match="on_error"):
        len(make(workers))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"worker_kind": "fibre"}, "worker_kind='fibre'"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"max_errors": 3}, "on_error"),
        ({"on_error": "skip", "max_errors": -1}, "max_errors=-1"),
    ],
)
def test_impossible_options_of_workers_are_refused(arguments, message):
    """Wrong values are named when the loader is made."""
    with pytest.raises(ValueError, match=message):
        DataLoader(data_source=[1], sampler=IndexSampler(1), **arguments)


def test_what_cannot_be_pickled_is_named_by_attribute():
    """The message says which attribute of which operation cannot travel."""

    class Locked(headrace.MapTransform):
        def __init__(self):
            self.guard = threading.Lock()

        def map(self, element):
            return element

    lock = threading.Lock()
    for operation, name in ((Locked(), "guard"), (lambda x: (lock, x), "lock")):
        loader = DataLoader(
            data_source=[1], sampler=IndexSampler(1), operations=[operation], worker_count=1
        )
        with pytest.raises(PicklingError, match=name):
            next(iter(loader))


@pytest.mark.parametrize("part", ["source", "operation"])
def test_what_cannot_be_pickled_is_named_by_what_the_user_passed(part):
    """The message begins with the source or the operation, and not with a place in the pipeline."""

    class Records:
        def __init__(self):
            self.guard = threading.Lock()

        def __len__(self):
            return 2

        def __getitem__(self, key):
            return key

    lock = threading.Lock()

    def locked(element):
        return lock, element

    source, operations, begins = {
        "source": (Records(), [abs], "the source Records.guard is a lock, which"),
        "operation": ([1, 2], [abs, locked], "operation 1, MapTransform("),
    }[part]
    loader = DataLoader(
        data_source=source, sampler=IndexSampler(2), operations=operations, worker_count=1
    )
    with pytest.raises(PicklingError) as caught:
        next(iter(loader))
    assert str(caught.value).startswith(begins)
    assert "stages[" not in str(caught.value)


@pytest.mark.slow
def test_breaking_dropping_and_reopening_leaves_nothing():
    """Iterators that are used and dropped in every way leave no process, descriptor or thread (see
    the fixture).
    """
    one = large(worker_count=2)
    for number in range(4):
        iterator = iter(one)
        if number % 4 == 0:
            iterator.start_prefetch()
        else:
            for _ in zip(range(number % 3 + 1), iterator):
                pass
        if number % 2:
            iterator.close()
        del iterator


@pytest.mark.long
def test_a_large_buffer_does_not_have_both_sides_wait_for_each_other(tmp_path):
    """More messages may be on their way than there is room for on either side."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import headrace
        sampler = headrace.IndexSampler(12_000, num_epochs=1)
        for operations in ([str], [str, headrace.Filter(len), headrace.Batch(2)]):
            loader = headrace.DataLoader(data_source=range(12_000), sampler=sampler, operations=operations,
                worker_count=1, worker_buffer_size=3_000)
            number = 0
            for texts in loader:
                for text in [texts] if isinstance(texts, str) else texts:
                    assert text == str(number)
                    number += 1
            assert number == 12_000
        """)
    )
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_slow_consumer_does_not_pile_up_batches():
    """At most (1 + worker_buffer_size) batches per worker exist at a time, however slow the
    consumer is.
    """
    with iter(large(records=400, row=600_000, worker_count=2)) as iterator:
        for _ in range(3):
            batch = next(iterator)
            time.sleep(0.3)
        memory = [
            m
            for child in workers()
            for m in child.memory_maps(grouped=False)
            if "headrace-slab" in m.path
        ]
    assert batch.shape == (4, 600_000)
    assert len(memory) <= 2 * (1 + 1 + 2)


def test_slabs_that_a_worker_gives_up_are_told_once(monkeypatch):
    """The oldest ones, when more are free than it keeps; the user's process can then unmap them."""
    monkeypatch.setattr("headrace.loader.work.slabs.FREE_BYTES", 0)
    made = slabs.ExportedSlabs()
    encoder = slabs.Encoder(0, made.pool)
    leases = [encoder.encode([np.zeros(1000)])[1][0] for _ in range(4)]
    made.lend(leases)
    del leases
    made.release(made.take_introduced())
    (lease,) = encoder.encode([np.zeros(1000)])[1]
    assert (made.take_dropped(), made.take_dropped()) == ([0, 1], [])
    made.close([2, 3])
    assert lease.slab.number == 3


def test_objects_of_a_workers_batch_are_pickled_once():
    """Whatever stands beside them: an object may be another one after it was asked what it is made
    of.
    """

    class Once:
        def __init__(self, x):
            self.numbers = iter([x, x + 1])

        def __reduce__(self):
            return list, (list(self.numbers),)

    pair = np.dtype([("a", "i4"), ("b", "f4")])

    def element(x):
        inside = SimpleNamespace(array=np.full(1000, x))
        return {"object": Once(x), "array": np.full(1000, x, pair), "inside": inside}

    for numbers in ([3], [3, 4]):
        made = slabs.ExportedSlabs()
        encoded, (lease,) = slabs.Encoder(0, made.pool).encode([element(x) for x in numbers])
        found = slabs.decode(encoded, lambda _, lease=lease: lease.slab.memory)
        assert [each["object"] for each in found] == [[x, x + 1] for x in numbers]
        for each, x in zip(found, numbers, strict=True):
            assert each["array"].dtype == pair
            assert each["array"]["b"].tolist() == each["inside"].array.tolist() == [x] * 1000
        made.close([lease.slab.number])


@pytest.mark.slow
def test_workers_import_what_they_need_and_no_more():
    """Every import delays the first batch; an array that is not masked needs none of NumPy's masked
    arrays.
    """

    def imported(row):
        return " ".join(
            sorted(
                {"numpy.ma", "jax", "pyarrow", "orbax", "array_record", "asyncio"}
                & set(sys.modules)
            )
        )

    source = {"x": np.ones((8, 1000)), "y": np.ones(8)}
    loader = headrace.load(
        source, transformations=[imported], batch_size=4, num_epochs=1, worker_count=1
    )
    # NumPy 1 imports them with itself
    numpys = "numpy.ma" if np.__version__.startswith("1.") else ""
    assert [batch.tolist() for batch in loader] == [[numpys] * 4] * 2


PROGRAM = """
import sys, os
import numpy as np
import headrace

factor = 3

def scale(x):
    assert "jax" not in sys.modules
    return x * factor

loader = headrace.load(list(range(20)), transformations=[scale, lambda x: x + 1], batch_size=5, num_epochs=1, worker_count=2)
total = sum(int(batch.sum()) for batch in loader)
assert total == sum(3 * x + 1 for x in range(20)), total
print("fine", total)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", ["script", "stdin", "command", "elsewhere"])
@pytest.mark.slow
def test_unguarded_programs_work(way, tmp_path):
    """Functions of __main__ reach the workers from a script without a guard, from stdin, -c, and an
    odd cwd; no jax there.
    """
    program = PROGRAM.replace("import headrace\n", "import headrace, jax\n", 1)
    (tmp_path / "numpy.py").write_text(
        "raise ImportError('the wrong numpy')"
    ) if way == "elsewhere" else None
    script = tmp_path / "inner" / "program.py"
    script.parent.mkdir()
    script.write_text(program)
    command = {
        "script": [str(script)],
        "stdin": ["-"],
        "command": ["-c", program],
        "elsewhere": [str(script)],
    }[way]
    result = subprocess.run(
        [sys.executable, *command],
        input=program if way == "stdin" else None,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert result.stdout.startswith("fine"), result.stderr
    assert result.returncode == 0


@pytest.mark.slow
def test_everything_ends_with_the_users_process(tmp_path):
    """After SIGKILL to the user's process all workers are gone within two seconds, in the middle of
    work too.
    """
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import time, psutil, headrace
        def slow(x):
            time.sleep(0.2)
            return x
        options = dict(worker_count=2, worker_kind="process")
        it = iter(headrace.load(list(range(1000)), transformations=[slow], batch_size=2, **options))
        next(it)
        print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
        time.sleep(1000)
        """)
    )
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True
    ) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3
        process.kill()
        deadline = time.monotonic() + 2
        while any(map(_runs, pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
    assert not [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_control_c_is_one_interrupt_and_everything_stops(tmp_path):
    """SIGINT to the whole process group gives one KeyboardInterrupt and no word from
    the workers.
    """
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import time, headrace
        def slow(x):
            time.sleep(0.05)
            return x
        try:
            for batch in headrace.load(list(range(10000)), transformations=[slow], batch_size=2, worker_count=2):
                print("batch", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """)
    )
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    # the interrupt may come inside a print, before the end of its line
    assert output.endswith("interrupted\n")
    assert output.count("interrupted") == 1
    assert errors == ""
    assert process.returncode == 0


@pytest.mark.slow
def test_an_interrupt_while_a_process_is_made_leaves_none(monkeypatch):
    """It comes between the moment in which the process exists and that in which its number is
    known.
    """
    make = subprocess.Popen

    def interrupted(*arguments, **named):
        process = make(*arguments, **named)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(load(range(100), batch_size=4, worker_count=1)))
    assert not zygotes()


@pytest.mark.slow
def test_processes_are_made_where_there_are_no_more_threads(monkeypatch):
    """To make them takes none."""

    def none(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    loader = load(range(8), batch_size=4, num_epochs=1, worker_count=1)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.slow
def test_few_descriptors_are_enough(tmp_path):
    """With 64 file descriptors two workers run, however many batches the user keeps: mapped memory
    needs none.
    """
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import resource, sys, numpy as np, headrace
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        loader = headrace.load(list(range(400)), transformations=[lambda x: np.full(5000, x)], batch_size=4, num_epochs=1,
                               worker_count=2)
        print(sum(int(batch[:, 0].sum()) for batch in list(loader)) == sum(range(400)))
        """)
    )
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.strip() == "True", result.stderr


@pytest.mark.slow
def test_a_batch_may_come_from_hundreds_of_slabs():
    """A filter that drops nearly all leaves each row of a batch on a slab of its own; each is
    handed over.

    With a timeout, which is one for a span, tasks never grow to several spans, whose rows would
    stand on one slab.
    """
    numbers = IndexSampler(60_000, num_epochs=1)
    operations = [Filter(lambda x: x % 300 == 0), lambda x: np.full(300, x), Batch(150)]
    batches = DataLoader(
        data_source=range(60_000),
        sampler=numbers,
        operations=operations,
        worker_count=2,
        timeout=60,
    )
    assert [batch[:, -1].tolist() for batch in batches] == [
        [*range(0, 45_000, 300)],
        [*range(45_000, 60_000, 300)],
    ]


@pytest.mark.slow
def test_too_few_descriptors_for_the_slabs_of_a_batch_are_named(tmp_path):
    """The same under a limit of 44 descriptors is an error that says which limit that is."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import resource, sys, numpy as np, headrace
        resource.setrlimit(resource.RLIMIT_NOFILE, (44, 44))
        numbers = headrace.IndexSampler(120_000, num_epochs=1)
        sparse = [headrace.Filter(lambda x: x % 300 == 0), lambda x: np.full(300, x), headrace.Batch(300)]
        loader = headrace.DataLoader(
            data_source=range(120_000), sampler=numbers, operations=sparse, worker_count=2, timeout=60
        )
        try:
            list(loader)
        except OSError as error:
            print("ulimit -n" in str(error))
        """)
    )
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60
    )
    assert result.stdout.strip() == "True", result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 99])
@pytest.mark.one_in(3)
def test_a_group_that_kills_its_worker_among_others_is_found(times, tmp_path):
    """Small batches of a ragged pipeline travel together; one that kills twice changes nothing,
    else it is told apart.
    """

    def deadly(batch):
        deaths = len(os.listdir(tmp_path))
        if 2000 in batch and deaths < times:
            (tmp_path / str(deaths)).touch()
            os._exit(9)
        return batch

    def opened(**more):
        sampler = IndexSampler(4000, num_epochs=1)
        return DataLoader(data_source=range(4000), sampler=sampler, operations=operations, **more)

    operations = [Filter(lambda x: x % 2 == 0), Batch(4)]
    expected = stream(opened())
    operations = [*operations, deadly]
    if times <= 2:
        assert stream(opened(worker_count=2)) == expected
        assert len(os.listdir(tmp_path)) == times
        return
    with pytest.raises(WorkerCrashedError, match=r"record key 2000 at .*exit code 9"):
        list(opened(worker_count=2))


@pytest.mark.slow
def test_a_forked_copy_of_an_iterator_is_told_apart(tmp_path):
    """An iterator used in a forked child is an error there, and goes on working in its
    own process.
    """
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import os, headrace
        with iter(headrace.load(list(range(40)), batch_size=4, num_epochs=1, worker_count=1)) as iterator:
            next(iterator)
            pid = os.fork()
            if pid == 0:
                try:
                    next(iterator)
                except RuntimeError as error:
                    assert "another process" in str(error)
                    os._exit(0)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert next(iterator).tolist() == [4, 5, 6, 7]
        """)
    )
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_forked_copy_gives_no_memory_back(tmp_path):
    """What it drops is still held by the process that it was forked from."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import os, time, numpy as np, headrace
        def late(i):
            time.sleep(0.3 if i in (32, 64) else 0)
            return np.full(40_000, i, np.int32)
        with iter(headrace.DataLoader(data_source=range(96), sampler=headrace.IndexSampler(96, num_epochs=1),
                operations=[late, headrace.Batch(32)], worker_count=1, worker_buffer_size=4)) as iterator:
            first = next(iterator)
            pid = os.fork()
            if pid == 0:
                del first
                try:
                    next(iterator)
                except RuntimeError as error:
                    os._exit(0 if "another process" in str(error) else 2)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            rest = list(iterator)
            assert first[:, 0].tolist() == list(range(32))
            assert [batch[0, 0] for batch in rest] == [32, 64]
        """)
    )
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr


def _fails_at_2000(batch: np.ndarray) -> np.ndarray:
    if batch[0] >= 2000:
        raise LookupError("at 2000")
    return batch


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_after_the_batch_of_a_ragged_pipeline_arrives_as_itself(workers):
    """It names the first record of that batch."""
    operations = [Filter(lambda x: True), Batch(8), _fails_at_2000]
    sampler = IndexSampler(3000, num_epochs=1)
    loader = DataLoader(
        data_source=range(3000), sampler=sampler, operations=operations, worker_count=workers
    )
    with iter(loader) as iterator:
        assert len(list(itertools.islice(iterator, 250))) == 250
        with pytest.raises(LookupError, match="at 2000") as caught:
            next(iterator)
    assert "record key 2000 at position 2000" in caught.value.__notes__[0]


def _without_memory(i: int) -> np.ndarray:
    if i >= 3000:  # from now on, in this worker

        def create(size: int) -> int:
            raise OSError(24, "no shared memory for a batch; raise the limit (ulimit -n)")

        slabs.create_shared = create
    return np.zeros(4_000 if i < 3000 else 40_000, np.int8)


@pytest.mark.slow
def test_memory_that_runs_out_for_rows_is_an_error_that_says_so():
    """And no worker that dies again and again."""
    loader = load(
        range(100_000),
        num_epochs=1,
        transformations=[_without_memory, Filter(len)],
        batch_size=8,
        worker_count=1,
    )
    with iter(loader) as iterator, pytest.raises(OSError, match="ulimit -n"):
        list(iterator)


def _loses_a_message(i: int) -> dict:
    """From record 2,000 on, the next message to a worker that is in the middle of a
    group is lost.
    """
    if i == 2000:
        receive = Channel.receive

        def loses(self):
            received = receive(self)
            if received is not None and any(
                frame.name == "run_group" for frame in traceback.extract_stack()
            ):
                Channel.receive = receive
                raise OSError(24, "no descriptor is left for shared memory")
            return received

        Channel.receive = loses
    return {"s": str(i), "x": np.full(2000, i, np.int16)}


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.one_in(2)
def test_a_message_that_is_lost_in_the_middle_of_a_batch_is_no_fault_of_a_record(on_error, caplog):
    """The worker ends, and its tasks are done again."""
    loader = DataLoader(
        data_source=range(6000),
        sampler=IndexSampler(6000, num_epochs=1),
        operations=[_loses_a_message, Filter(len), Batch(8)],
        worker_count=1,
        on_error=on_error,
    )
    with iter(loader) as iterator:
        assert [batch["s"][0] for batch in iterator] == [str(i) for i in range(0, 6000, 8)]
    assert "terminated unexpectedly" in caplog.text


@pytest.mark.slow
def test_a_pipeline_that_workers_cannot_unpickle_says_so():
    """When a module is not to be found in the workers, the error there is raised here, with a word
    about where.
    """

    class Unloadable:
        def __len__(self):
            return 10

        def __getitem__(self, key):
            return key

        def __reduce__(self):
            return exec, ("raise ImportError('no such module there')",)

    with pytest.raises(ImportError, match="no such module there") as caught:
        next(iter(load(Unloadable(), batch_size=2, num_epochs=1, worker_count=2)))
    assert "could not unpickle" in caught.value.__notes__[0]


@pytest.mark.slow
def test_workers_end_without_a_word(tmp_path):
    """With all warnings on, a loader that is closed has its processes print nothing."""
    program = tmp_path / "program.py"
    program.write_text(
        "import headrace\nlist(headrace.load(range(8), batch_size=4, num_epochs=1, "
        "worker_count=1))\n"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    result = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=True,
    )
    assert result.stdout + result.stderr == ""


@pytest.mark.slow
def test_classes_with_slots_come_back_from_workers():
    """Instances of slotted classes of the program itself, which travel by value: with their values,
    and of the same class.
    """

    @dataclasses.dataclass(slots=True)
    class Point:
        x: int
        y: object = None

    class Slotted:
        __slots__ = ("_kept", "unset")

        def __init__(self, x):
            self._kept = x

    class Below(Slotted):
        __slots__ = ()

    class Open(Slotted):
        """With a `__dict__` of its own."""

    for kind, name in ((Point, "x"), (Slotted, "_kept"), (Below, "_kept"), (Open, "_kept")):
        found = list(
            load(
                range(3),
                transformations=[lambda x, kind=kind: kind(x)],
                num_epochs=1,
                worker_count=1,
            )
        )
        assert [getattr(each, name) for each in found] == [0, 1, 2]
        assert {type(each) for each in found} == {kind}
