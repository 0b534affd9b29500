"""Batches come on their devices, in order, without a copy, whatever ends the run."""

from __future__ import annotations

import collections
import gc
import itertools
import subprocess
import sys
import threading
import time
import warnings
import weakref

import jax
import numpy as np
import pytest
from support import device_programs
from support.pipelines import PIPELINES, chosen, loader, plain

import headrace
from headrace.errors import ClosedError, MissingExtraError
from headrace.loader.device import transfer
from headrace.loader.work.slabs import lease_of

CPU = jax.devices("cpu")[0]
IMAGES = {
    "image": np.arange(64 * 6000, dtype=np.float32).reshape(64, 6000),
    "label": np.arange(64, dtype=np.int32),
}
PATIENCE = 20


def images(**more):
    """Batches of 8 that stand on slabs."""
    return headrace.load(IMAGES, batch_size=8, num_epochs=1, **more)


def until(holds):
    """Waits until something holds, at most some seconds; whether it does."""
    end, tries = time.monotonic() + PATIENCE, 0
    while not holds() and time.monotonic() < end:
        tries += 1
        if tries % 20 == 0:  # it takes longer than all else
            gc.collect()
        time.sleep(0.005)
    return holds()


NUMERIC = [
    name
    for name in PIPELINES
    if name
    not in ("strings", "objects", "strange arrays", "trees", "custom batch_fn", "mixed dtypes")
    and "all dtypes" not in name
]


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.one_in(6)
def test_a_feeder_gives_the_stream_of_the_host_iterator(name):
    """The same elements in the same order, as jax holds them, for every kind of pipeline."""
    with iter(loader(name).to_device(CPU)) as feeder:
        for element, expected in itertools.zip_longest(feeder, loader(name)):
            for one, other in zip(*map(jax.tree.leaves, (element, expected)), strict=True):
                assert isinstance(one, jax.Array)
                assert plain(np.asarray(one)) == plain(np.asarray(jax.numpy.asarray(other)))


def test_nodes_of_a_tree_are_kept():
    """Named tuples and dataclasses come back as what they were."""
    element = next(iter(loader("trees").to_device(CPU)))
    expected = next(iter(loader("trees")))
    assert type(element) is type(expected)
    assert type(element.array["p"]) is type(expected.array["p"])
    assert isinstance(element.array["p"].y, jax.Array)


def test_batches_are_trees_as_jax_has_them():
    """A mapping goes as a dict, a class that is registered with JAX as it was registered; static
    fields stay on the host.
    """
    import flax.core
    import flax.struct

    class Pair:
        def __init__(self, x, name):
            self.x, self.name = x, name

    jax.tree_util.register_pytree_node(
        Pair, lambda one: ((one.x,), one.name), lambda name, child: Pair(*child, name)
    )
    Carry = flax.struct.dataclass(  # noqa: N806
        type(
            "Carry",
            (),
            {
                "__annotations__": {"x": object, "name": str},
                "name": flax.struct.field(default="", pytree_node=False),
            },
        )
    )
    rows = np.arange(4.0, dtype=np.float32)
    frozen = flax.core.FrozenDict({"x": rows})
    for batch in (Pair(rows, "a"), Carry(rows, "a"), frozen, {"deep": [Pair(rows, "a")]}):
        (placed,) = headrace.device_put([batch], CPU)
        assert jax.tree.structure(placed) == jax.tree.structure(batch)
        (leaf,) = jax.tree.leaves(placed)
        assert isinstance(leaf, jax.Array)
    (placed,) = headrace.device_put([collections.UserDict(x=rows)], {"x": CPU})
    assert type(placed) is dict
    assert isinstance(placed["x"], jax.Array)


def test_a_description_can_be_iterated_many_times():
    """Each `iter` is a run of its own, from the start; the description knows its length and cannot
    be changed.
    """
    batches = images().to_device(CPU)
    assert len(batches) == len(list(batches)) == len(list(batches)) == 8
    with pytest.raises(AttributeError):
        batches.host_buffer = 7


def test_device_put_feeds_from_anything():
    """Grain's name takes a loader, its iterator, a list, a generator, a Grain dataset, with Grain's
    arguments.
    """
    grain = pytest.importorskip("grain")
    rows = [np.full(3, number, np.float32) for number in range(5)]
    theirs = grain.MapDataset.source(rows).to_iter_dataset()
    ours = headrace.load(rows, num_epochs=1)
    for source in (rows, (row for row in rows), theirs, iter(theirs), ours, iter(ours)):
        feeder = iter(headrace.device_put(source, CPU, cpu_buffer_size=2, device_buffer_size=1))
        assert [int(row[0]) for row in feeder] == list(range(5)), source


# ---- Memory


@pytest.mark.slow
def test_a_batch_is_not_copied():
    """On the CPU the arrays on the device are the slab that the loader filled; the slab lives as
    long as they do.
    """
    seen = []

    def look(batch):
        seen.append((batch["image"].ctypes.data, weakref.ref(batch["image"].base)))
        return batch

    with iter(images().to_device(CPU, transform=look)) as feeder:
        batch = next(feeder)
        address, memory = seen[0]
        assert batch["image"].unsafe_buffer_pointer() == address
        gc.collect()
        assert lease_of(memory()) is not None
        del batch
        assert until(lambda: memory() is None)


def test_arrays_that_live_are_never_overwritten():
    """Slabs are filled again while old arrays live, and these keep their values."""
    addresses = []

    def look(batch):
        addresses.append(batch["image"].ctypes.data)
        return batch

    source = headrace.load(IMAGES, batch_size=8, num_epochs=12)
    kept = []
    with iter(source.to_device(CPU, transform=look)) as feeder:
        for step, batch in enumerate(feeder):
            if step % 5 == 0:
                kept.append((step, batch["image"]))
            del batch
    assert len(set(addresses)) < len(addresses), (
        "no slab was used again, so that nothing was tested"
    )
    for step, array in kept:
        rows = np.arange(8) + step % 8 * 8
        assert (np.asarray(array) == IMAGES["image"][rows]).all()


def test_donated_buffers_harm_nobody():
    """A step may donate its batch: batches that were kept, and those that come later, stay what
    they are.
    """
    step = jax.jit(lambda image: image * 0 - 1, donate_argnums=0)
    kept = []
    with iter(headrace.load(IMAGES, batch_size=8, num_epochs=6).to_device(CPU)) as feeder:
        for number, batch in enumerate(feeder):
            expected = IMAGES["image"][np.arange(8) + number % 8 * 8]
            assert (np.asarray(batch["image"]) == expected).all()
            if number % 3:
                assert (np.asarray(step(batch["image"])) == -1).all()
                assert batch["image"].is_deleted()
            else:
                kept.append((batch["image"], expected))
    for array, expected in kept:
        assert (np.asarray(array) == expected).all()


@pytest.mark.parametrize(("host", "device"), [(1, 1), (4, 2), (2, 5)])
def test_buffers_are_bounded(host, device):
    """So many batches wait on the host and on the devices as was said, and one is on its way; those
    taken are not counted.
    """
    made = []

    def watched():
        for number in range(100):
            made.append(number)
            yield np.full(5000, number, np.float32)

    with iter(
        headrace.device_put(watched(), CPU, cpu_buffer_size=host, device_buffer_size=device)
    ) as feeder:
        for taken in range(1, 8):
            next(feeder)
            assert until(lambda taken=taken: len(made) == taken + host + device)
    assert len(made) == 7 + host + device


def test_no_reference_to_a_delivered_batch_is_kept():
    """What the user drops is free, though the feeder runs on; nothing but what may wait is on the
    device.
    """
    before = len(jax.live_arrays())
    with iter(headrace.load(IMAGES, batch_size=8).to_device(CPU, device_buffer=2)) as feeder:
        for _ in range(20):
            batch = next(feeder)
            reference = weakref.ref(batch["image"])
            del batch
            assert until(lambda reference=reference: reference() is None)
        assert until(lambda: len(jax.live_arrays()) - before <= 2 * 2)  # two leaves each
    del feeder
    assert until(lambda: len(jax.live_arrays()) <= before)


def slowly(batches, pause=0.01):
    """The same, each after a while, as from a slow source."""
    for batch in batches:
        time.sleep(pause)
        yield batch


def test_an_error_of_a_batch_comes_at_its_place_from_a_slow_source():
    """And what comes after it follows."""
    batches = [np.full(2, number) for number in range(12)]
    batches[8] = np.array(["text"])
    with iter(headrace.device_put(slowly(batches), CPU)) as feeder:
        assert [int(next(feeder)[0]) for _ in range(8)] == list(range(8))
        with pytest.raises(TypeError, match="device cannot store"):
            next(feeder)
        assert [int(batch[0]) for batch in feeder] == [9, 10, 11]


def test_a_user_who_waits_for_a_slow_source_has_the_state_of_the_batch():
    """From which the stream goes on, however long was waited for each."""

    def slow(x):
        time.sleep(0.002)
        return x

    source = headrace.load(range(60), transformations=[slow], batch_size=4, num_epochs=1)
    with iter(source.to_device(CPU)) as feeder:
        for taken in range(1, 9):
            assert int(next(feeder)[0]) == 4 * (taken - 1)
        state = feeder.get_state()
    with iter(source.to_device(CPU)) as feeder:
        feeder.set_state(state)
        assert [int(batch[0]) for batch in feeder] == list(range(32, 60, 4))


def test_a_slow_transfer_does_not_hold_up_the_reading(monkeypatch):
    """Both threads are at work at once: while a batch is on its way, those after it are read."""
    went, may_go, to_devices = threading.Event(), threading.Event(), transfer.to_devices

    def held_up(*arguments):
        went.set()
        may_go.wait(PATIENCE)
        return to_devices(*arguments)

    monkeypatch.setattr(transfer, "to_devices", held_up)
    read = []
    with iter(
        headrace.device_put((read.append(number) or np.full(2, number) for number in range(9)), CPU)
    ) as feeder:
        feeder.start_prefetch()
        assert went.wait(PATIENCE)
        assert until(lambda: len(read) == 5)  # the one on its way, and `host_buffer` others
        may_go.set()
        assert [int(batch[0]) for batch in feeder] == list(range(9))


# ---- Leaves that cannot go


def test_leaves_that_cannot_go_are_an_error_or_stay():
    """Strings and objects: an error that names the leaf, or the same arrays on the host."""
    with (
        iter(loader("strings").to_device(CPU)) as feeder,
        pytest.raises(TypeError, match=r"\['bytes'\].*'keep'|keep"),
    ):
        next(feeder)
    expected = next(iter(loader("strings")))
    batch = next(iter(loader("strings").to_device(CPU, on_unsupported="keep")))
    assert isinstance(batch["x"], jax.Array)
    assert batch["text"].tolist() == expected["text"].tolist()
    assert batch["bytes"].tolist() == expected["bytes"].tolist()


@pytest.mark.parametrize(
    "leaf",
    [
        np.datetime64("2020"),
        np.array("text"),
        np.zeros(2, [("i", "i4")]),
        object(),
        "text",
        np.longdouble(1),
    ],
)
def test_what_jax_has_no_array_of_is_kept_as_it_is(leaf):
    """Dates, texts, records, objects and extended floats stay on the host, the very same."""
    (batch,) = iter(headrace.device_put([{"leaf": leaf, "x": 1.5}], CPU, on_unsupported="keep"))
    assert batch["leaf"] is leaf
    assert batch["x"].item() == 1.5


class Foreign:
    """An array of another library, in short."""

    dtype = "their own"
    shape = (3,)


@pytest.mark.parametrize(
    "leaf", [Foreign(), np.arange(3, dtype=">i4"), np.ma.masked_array([1, 2, 3], [0, 1, 0])]
)
def test_arrays_that_jax_would_refuse_or_misread_are_named_or_kept(leaf):
    """Those of other libraries, of another byte order, and masked ones."""
    with pytest.raises(TypeError, match=r"leaf \['odd'\]"):
        next(iter(headrace.device_put([{"odd": leaf}], CPU)))
    assert (
        next(iter(headrace.device_put([{"odd": leaf}], CPU, on_unsupported="keep")))["odd"] is leaf
    )


def test_a_number_that_does_not_fit_is_an_error():
    """It would wrap; the message has the leaf, the value and the limit."""
    limit = np.iinfo(np.int32).max
    assert next(iter(headrace.device_put([limit], CPU))).item() == limit
    with pytest.raises(
        OverflowError, match=r"leaf \['n'\] is 1099511627776, outside of .* 2147483647"
    ):
        next(iter(headrace.device_put([{"n": 2**40}], CPU)))


def test_every_dtype_of_jax_goes():
    """Numbers of all kinds, booleans, bfloat16, jax's own arrays and keys."""
    leaves = [
        np.zeros(2, dtype)
        for dtype in ("bool", "int8", "uint16", "float16", "float32", "complex64")
    ]
    leaves += [
        np.zeros(2, jax.numpy.bfloat16),
        jax.numpy.ones(3),
        jax.random.key(0),
        True,
        7,
        2.5,
        np.float32(1),
    ]
    (batch,) = iter(headrace.device_put([leaves], CPU))
    assert all(isinstance(leaf, jax.Array) for leaf in batch)
    assert batch[6].dtype == jax.numpy.bfloat16
    assert not batch[10].weak_type


# ---- Errors


def _fails_at(number, times):
    """A loader whose record `number` fails so many times, and the list of its failures."""
    failures = []

    def check(x):
        if x == number and len(failures) < times:
            failures.append(x)
            raise ValueError(f"record {x} is bad")
        return x

    return headrace.load(range(40), transformations=[check], batch_size=4, num_epochs=1), failures


def test_an_error_of_the_loader_comes_at_its_step():
    """All batches before it come first, the state stays after the last of them, and `next` tries
    again.
    """
    source, failures = _fails_at(17, times=2)
    with iter(source.to_device(CPU)) as feeder:
        seen = [next(feeder).tolist() for _ in range(4)]
        state = feeder.get_state()
        for _ in range(2):
            with pytest.raises(ValueError, match="record 17 is bad") as caught:
                next(feeder)
            assert "position" in "".join(caught.value.__notes__)
            assert feeder.get_state() == state
        seen += [batch.tolist() for batch in feeder]
    assert len(failures) == 2
    assert np.concatenate(seen).tolist() == list(range(40))


def test_an_error_of_the_transform_comes_at_its_step_and_can_be_tried_again():
    """The batch that failed is made again, from a source with a state."""
    calls = []

    def transform(batch):
        calls.append(batch[0])
        if batch[0] == 8 and calls.count(8) == 1:
            raise StopIteration("not the end")
        return batch + 100

    source = headrace.load(range(40), batch_size=4, num_epochs=1)
    with iter(source.to_device(CPU, transform=transform)) as feeder:
        seen = [next(feeder), next(feeder)]
        with pytest.raises(RuntimeError, match="transform= raised StopIteration"):
            next(feeder)
        seen += list(feeder)
    assert np.concatenate(seen).tolist() == list(range(100, 140))


def test_an_error_behind_a_plain_iterable_leaves_out_its_batch():
    """A generator cannot go back: the next batch follows, and an error of its own ends it."""

    def rows():
        yield np.ones(2)
        yield np.array(["text"])
        yield np.zeros(2)
        raise OSError("the disk is gone")

    feeder = iter(headrace.device_put(rows(), CPU))
    assert next(feeder).tolist() == [1, 1]
    with pytest.raises(TypeError, match="device cannot store"):
        next(feeder)
    assert next(feeder).tolist() == [0, 0]
    with pytest.raises(OSError, match="the disk is gone"):
        next(feeder)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(feeder)


def test_the_end_comes_again_and_again():
    """StopIteration, without a thread left, until a state is set."""
    feeder = iter(images().to_device(CPU))
    start = feeder.get_state()
    assert len(list(feeder)) == 8
    assert list(feeder) == list(feeder) == []
    assert not any(thread.name.startswith("headrace-feeder") for thread in threading.enumerate())
    feeder.set_state(start)
    assert len(list(feeder)) == 8


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"host_buffer": 0}, "host_buffer=0 must be at least 1"),
        ({"device_buffer": "2"}, "device_buffer='2' is a str"),
        ({"transform": 3}, "transform=3 is not a function"),
        ({"on_uneven": "crop"}, "on_uneven='crop' is"),
        ({"on_unsupported": None}, "on_unsupported=None is"),
    ],
)
def test_wrong_arguments_are_named(more, message):
    """When the feeder is described, not when it runs."""
    with pytest.raises((TypeError, ValueError), match=message):
        images().to_device(CPU, **more)


@pytest.mark.slow
def test_without_jax_the_error_says_what_to_install():
    """MissingExtraError for each of the doors; importing headrace needs no jax."""
    program = """
        import sys
        sys.modules["jax"] = None
        import headrace
        loader = headrace.load(range(3))
        for call in (lambda: loader.to_device(0), lambda: headrace.device_put([], 0), lambda: headrace.shard_options_for(0)):
            try:
                call()
            except headrace.errors.MissingExtraError as error:
                print(error)
    """
    lines = device_programs.run(program).splitlines()
    assert len(lines) == 3
    assert all('pip install "headrace[jax]"' in line for line in lines)
    assert issubclass(MissingExtraError, ImportError)


# ---- Stopping


def test_closing_stops_the_threads_and_keeps_the_state():
    """No thread is left when `close` returns, a second time does nothing, and `next` says what to
    do.
    """
    feeder = iter(images(worker_count=1).to_device(CPU))
    next(feeder)
    state = feeder.get_state()
    feeder.close()
    assert not any(thread.name.startswith("headrace-feeder") for thread in threading.enumerate())
    feeder.close()
    assert feeder.get_state() == state
    with pytest.raises(ClosedError, match="a new one"):
        next(feeder)


def test_dropping_a_feeder_stops_its_threads():
    """A loop that breaks leaves nothing; nor does a feeder that nobody has taken a batch from."""
    for batch in images().to_device(CPU):
        del batch
        break
    untouched = iter(images().to_device(CPU))
    untouched.start_prefetch()
    del untouched
    assert until(
        lambda: (
            not any(thread.name.startswith("headrace-feeder") for thread in threading.enumerate())
        )
    )


def test_a_feeder_that_raised_an_error_stops_when_it_is_dropped():
    """At once, though a plain iterable went on after the error: nothing holds the feeder, not even
    a cycle.
    """

    def transform(row):
        if row == 1:
            raise ValueError("bad")
        return row

    gc.disable()
    try:
        feeder = iter(headrace.device_put(itertools.count(), CPU, transform=transform))
        next(feeder)
        with pytest.raises(ValueError, match="bad") as caught:
            next(feeder)
        next(feeder)
        dropped = weakref.ref(feeder)
        del feeder, caught
        assert dropped() is None
    finally:
        gc.enable()
    assert until(
        lambda: (
            not any(thread.name.startswith("headrace-feeder") for thread in threading.enumerate())
        )
    )


def test_a_system_without_a_second_thread_to_give_leaves_none(monkeypatch):
    """The error is told, and the next call begins anew."""
    start, refused = threading.Thread.start, []

    def refusing(self):
        if "transfer" in self.name and not refused:
            refused.append(self)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    with iter(images().to_device(CPU)) as feeder:
        with pytest.raises(RuntimeError, match="new thread"):
            next(feeder)
        assert [label for batch in feeder for label in batch["label"].tolist()] == list(range(64))


def test_an_iterator_that_was_passed_stands_where_the_user_does():
    """It stays open when the feeder is closed, and goes on after the last batch that the feeder
    gave.
    """
    iterator = iter(images())
    next(iterator)
    with iter(headrace.device_put(iterator, CPU)) as feeder:
        assert next(feeder)["label"].tolist() == list(range(8, 16))
    assert next(iterator)["label"].tolist() == list(range(16, 24))


def test_an_iterator_that_was_passed_goes_back_when_its_feeder_is_dropped():
    """A loop that breaks loses nothing: the next one over the same description goes on after its
    last batch.
    """
    batches = headrace.device_put(iter(images()), CPU)
    for start in (0, 8, 16):
        for batch in batches:
            assert batch["label"].tolist() == list(range(start, start + 8))
            break


def test_two_feeders_do_not_read_from_one_iterator():
    """The second is refused as long as the first is open, and then goes on after it."""
    iterator = iter(images())
    with iter(headrace.device_put(iterator, CPU)) as first:
        next(first)
        second = iter(headrace.device_put(iterator, CPU))
        with pytest.raises(ValueError, match="Close that feeder first"):
            next(second)
    assert next(second)["label"].tolist() == list(range(8, 16))


def test_a_source_that_returns_after_the_close_is_closed_then(monkeypatch):
    """By its reader, with nobody there to wait; closing a second time waits for that."""
    monkeypatch.setattr("headrace.loader.device.feeder.CLOSE_SECONDS", 0.1)
    for closings in (1, 2):
        go_on, ended = threading.Event(), threading.Event()

        class Slow:
            def __iter__(self, go_on=go_on, ended=ended):
                try:
                    yield np.ones(2)
                    go_on.wait(PATIENCE)
                    yield np.ones(2)
                finally:
                    ended.set()

        feeder = iter(headrace.device_put(Slow(), CPU))
        next(feeder)
        feeder.close()
        assert not ended.is_set()
        go_on.set()
        if closings == 2:
            monkeypatch.setattr("headrace.loader.device.feeder.CLOSE_SECONDS", PATIENCE)
            feeder.close()
            assert ended.is_set()
        assert until(ended.is_set)


def test_an_own_source_is_closed():
    """A generator that a feeder opened is closed with it."""
    ended = threading.Event()

    class Endless:
        def __iter__(self):
            try:
                while True:
                    yield np.ones(2)
            finally:
                ended.set()

    with iter(headrace.device_put(Endless(), CPU)) as feeder:
        next(feeder)
    assert ended.is_set()


def test_a_source_that_does_not_return_does_not_hold_up_what_is_there():
    """Batches that are on the host already come, while the source is stuck with the next one;
    `close` returns, too.
    """
    go_on = threading.Event()

    def stuck():
        for number in range(5):
            yield np.full(2, number)
        go_on.wait(PATIENCE)

    feeder = iter(headrace.device_put(stuck(), CPU, cpu_buffer_size=2, device_buffer_size=1))
    assert [int(next(feeder)[0]) for _ in range(5)] == list(range(5))
    threading.Timer(0.2, go_on.set).start()
    feeder.close()
    assert until(lambda: threading.active_count() == 1 or go_on.is_set())


EXITS = {
    "ready batches wait": "source = (np.ones(4) for _ in range(10**9))",
    "the source is slow": """
        def slow():
            yield np.ones(4)
            time.sleep(1000)
        source = slow()
    """,
    "a transfer runs": "source = (np.ones(40_000_000, np.uint8)[1:] for _ in range(10**9))",
    "a loader with processes": (
        "source = headrace.load(range(10**6), batch_size=64, worker_count=1)"
    ),
    "a loader that reads ahead": "source = headrace.load(Slow(), batch_size=2)",
}


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", EXITS)
@pytest.mark.parametrize(
    "ending", chosen(["", "raise KeyboardInterrupt"], "raise KeyboardInterrupt")
)
def test_the_interpreter_exits_at_once_and_quietly(name, ending):
    """With a feeder that still runs, whatever its threads are doing, and by Ctrl-C too: no hang, no
    message.
    """
    program = f"""
import sys, time
import jax, numpy as np, headrace

class Slow:
    def __len__(self): return 1000
    def __getitem__(self, key): time.sleep(0.01); return key

{device_programs.textwrap.dedent(EXITS[name])}
sys.excepthook = lambda *_: None
feeder = iter(headrace.device_put(source, jax.devices()[0], on_unsupported="keep"))
next(feeder)
time.sleep(0.1)
print("done", flush=True)
{ending}
"""
    done = device_programs.subprocess.run(
        [device_programs.sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**device_programs.ENVIRONMENT, "PYTHONWARNINGS": ""},
        check=False,
    )
    assert done.stdout == "done\n"
    assert done.stderr == ""
    assert done.returncode == (-2 if ending else 0)


# ---- Where the time went


def test_stats_tell_what_was_waited_for():
    """The parts add up to the wait of each step, and the slow part is the one that is named."""

    def slow(batch):
        time.sleep(0.02)
        return batch

    with iter(images().to_device(CPU, transform=slow)) as feeder:
        list(feeder)
        stats = feeder.stats()
    assert stats.steps == len(stats.last) == 8
    for step in stats.last:
        assert sum(step[1:]) == pytest.approx(step.waited)
        assert min(step) >= -1e-9
    assert stats.total.waited == pytest.approx(sum(step.waited for step in stats.last))
    assert stats.total.transforming > stats.total.transfer + stats.total.reading
    with iter(headrace.device_put([np.zeros(2)], CPU)) as feeder:
        list(feeder)
        shown = str(feeder.stats())
    assert shown.startswith("1 steps")
    assert "What to do: " in shown


def test_the_work_shows_up_in_a_trace(tmp_path):
    """A trace of jax.profiler has spans named after what the feeder's threads do."""
    with (
        jax.profiler.trace(tmp_path),
        iter(images().to_device(CPU, transform=lambda batch: batch)) as feeder,
    ):
        list(feeder)
    (trace,) = tmp_path.rglob("*.xplane.pb")
    content = trace.read_bytes()
    for name in (b"transfer", b"read", b"transform", b"wait", b"next rows", b"task"):
        assert b"headrace: " + name in content


def test_without_a_feeder_work_shows_up_in_a_trace_too(tmp_path):
    """Of the threads of this process: those of the loop and of workers that are threads."""
    with (
        jax.profiler.trace(tmp_path),
        iter(images(worker_count=1, worker_kind="thread")) as iterator,
    ):
        list(iterator)
    (trace,) = tmp_path.rglob("*.xplane.pb")
    content = trace.read_bytes()
    assert b"headrace: task" in content
    assert b"headrace: next rows" in content


WIDE = {"id": np.arange(8, dtype=np.int64) + (1 << 31), "x": np.ones(8, np.float32)}


def test_ids_that_are_cut_on_devices_are_one_warning():
    """With the leaf, the number and what becomes of it, at the user's own line; batches come all
    the same.
    """
    batches = headrace.load(WIDE, batch_size=2, num_epochs=1).to_device(CPU)
    with pytest.warns(
        UserWarning, match=r"leaf \['id'\] has 2147483648, outside of .* becomes -2147483648"
    ) as caught:
        received = list(batches)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert len(received) == 4
    assert len(str(caught[0].message)) < 500
    assert "jax_enable_x64" in str(caught[0].message)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, (1 << 31) - 1, -(1 << 31)], np.int64),
        np.array([0, (1 << 32) - 1], np.uint64),
        np.array([1 << 31], np.uint32),
        np.zeros((3, 0), np.int64),
    ],
    ids=str,
)
def test_integers_that_fit_are_no_warning(values, recwarn):
    """Of 64 bits, to the last that fits into 32; they arrive as they are."""
    (received,) = headrace.device_put([values], CPU)
    assert np.array_equal(np.asarray(received), values)
    assert not recwarn.list


@pytest.mark.parametrize("value", [-(1 << 31) - 1, 1 << 40])
def test_what_is_cut_later_or_below_is_told_too(value):
    """Not the first batch but the third; a number below all that fit; and a scalar."""
    batches = [
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
        np.array([1, value, 1]),
        np.int64(value),
    ]
    feeder = iter(headrace.device_put(batches, CPU))
    with pytest.warns(UserWarning, match=f"the batch has {value}, outside of") as caught:
        assert len(list(feeder)) == 4
    assert len(caught) == 1


def test_a_warning_that_is_an_error_loses_no_batch():
    """With filters that raise, `next` raises once, and then gives the batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with iter(headrace.load(WIDE, batch_size=8, num_epochs=1).to_device(CPU)) as feeder:
            with pytest.raises(UserWarning, match="outside of"):
                next(feeder)
            assert next(feeder)["x"].shape == (8,)


def test_ids_that_stay_on_the_host_are_whole():
    """As the warning says: a tree of shardings with None for them."""
    loader_of_ids = headrace.load(WIDE, batch_size=8, num_epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch,) = loader_of_ids.to_device({"id": None, "x": CPU}, on_unsupported="keep")
    assert batch["id"].tolist() == WIDE["id"].tolist()
    assert isinstance(batch["x"], jax.Array)


@pytest.mark.long
def test_with_x64_ids_are_whole_and_no_warning(tmp_path):
    """In a program of its own, as the setting is of the process."""
    program = tmp_path / "program.py"
    program.write_text(
        "import jax, numpy as np, headrace\n"
        "jax.config.update('jax_enable_x64', True)\n"
        "(batch,) = headrace.device_put([np.array([1 << 40])], jax.devices('cpu')[0])\n"
        "assert batch.tolist() == [1 << 40] and batch.dtype == np.int64\n"
    )
    subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(program)], check=True, timeout=120
    )
