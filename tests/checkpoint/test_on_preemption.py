"""A process that is asked to end saves its state, and ends its loop: at any moment, alone or with
other processes.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from support import preempted_hosts

import headrace
from headrace import on_preemption

RECORDS = 60


def loader(**options):
    """Batches of two."""
    return headrace.load(
        range(RECORDS), shuffle=True, seed=1, batch_size=2, num_epochs=1, **options
    )


@pytest.fixture(autouse=True)
def handlers():
    """The handlers after the test are those before it."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)
    yield
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGUSR1)) == before


def test_a_loop_ends_after_its_step_with_the_state_saved():
    """The state continues with the next element, and signals are handled as before."""
    expected, saved = [batch.tolist() for batch in loader()], []
    with iter(loader()) as iterator:
        batches = on_preemption(iterator, lambda it: saved.append(it.get_state()))
        seen = []
        for batch in batches:
            seen.append(batch.tolist())
            if len(seen) == 7:
                os.kill(os.getpid(), signal.SIGTERM)
        assert batches.preempted
        assert list(batches) == []
        assert len(saved) == 1
        assert len(seen) == 7
    with iter(loader()) as iterator:
        iterator.set_state(saved[0])
        assert seen + [batch.tolist() for batch in iterator] == expected


def test_a_loop_without_a_signal_ends_as_always():
    """Nothing is saved."""
    with iter(loader()) as iterator, on_preemption(iterator, pytest.fail) as batches:
        assert len(list(batches)) == RECORDS // 2
        assert not batches.preempted


def test_other_signals_can_announce_the_end():
    """As Slurm's --signal=USR1@120."""
    saved = []
    with iter(loader()) as iterator:
        for batch in on_preemption(iterator, saved.append, signals=[signal.SIGUSR1]):
            assert batch is not None
            os.kill(os.getpid(), signal.SIGUSR1)
    assert saved == [iterator]


@pytest.mark.slow
def test_a_loop_that_is_left_handles_signals_no_more():
    """Neither after `close`, nor when the object is gone: then SIGTERM ends the process again."""
    came = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with iter(loader()) as iterator:
            batches = on_preemption(iterator, pytest.fail)
            next(batches)
            batches.close()
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
            next(batches)
            batches = on_preemption(iterator, pytest.fail)
            next(batches)
            del batches
            gc.collect()
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, former)


@pytest.mark.parametrize("is_preempted", [True, False])
def test_a_loop_may_run_in_another_thread(is_preempted):
    """It ends as in the main thread; from the next signal on, signals are handled as before."""
    came, found = [], []
    former = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with iter(loader()) as iterator:
            batches = on_preemption(iterator, lambda it: found.append(it.step))
            if is_preempted:
                os.kill(os.getpid(), signal.SIGTERM)
            thread = threading.Thread(target=lambda: found.append(len(list(batches))))
            thread.start()
            thread.join()
            assert (found, batches.preempted) == (
                ([0, 0], True) if is_preempted else ([RECORDS // 2], False)
            )
            assert came == []
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
            assert signal.getsignal(signal.SIGTERM).__name__ == "<lambda>"
    finally:
        signal.signal(signal.SIGTERM, former)


def test_a_loop_that_is_dropped_in_another_thread_does_not_keep_the_process():
    """The next signal is handled as before."""
    came = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with iter(loader()) as iterator:
            held = [on_preemption(iterator, pytest.fail)]
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_a_signal_in_an_inner_loop_ends_the_outer_one_too():
    """As of an evaluation in a training: both are saved, the inner one first."""
    saved = []
    with iter(loader()) as training, iter(loader()) as evaluation:
        outer = on_preemption(training, lambda it: saved.append("training"))
        for _ in outer:
            for _ in on_preemption(evaluation, lambda it: saved.append("evaluation")):
                os.kill(os.getpid(), signal.SIGTERM)
    assert saved == ["evaluation", "training"]
    assert (training.step, evaluation.step) == (1, 1)


def test_a_loop_after_one_that_ended_in_another_thread_hears_a_signal():
    """The loop that has ended does nothing; after the second loop, signals are handled as before
    both.
    """
    came, saved = [], []
    former = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        first = on_preemption(iter(loader()), pytest.fail)
        thread = threading.Thread(target=lambda: list(first))
        thread.start()
        thread.join()
        with iter(loader()) as iterator:
            for _ in on_preemption(iterator, lambda it: saved.append(it.step)):
                os.kill(os.getpid(), signal.SIGTERM)
        assert (saved, came) == ([1], [])
        assert signal.getsignal(signal.SIGTERM).__name__ == "<lambda>"
    finally:
        signal.signal(signal.SIGTERM, former)


def test_loops_may_end_in_any_order():
    """After the end of all, signals are handled as before, also if the loop that began first has
    ended first.
    """
    before = signal.getsignal(signal.SIGTERM)
    with iter(loader()) as one, iter(loader()) as other:
        first, second = on_preemption(one, pytest.fail), on_preemption(other, pytest.fail)
        first.close()
        second.close()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_handler_around_a_loop_may_call_its_handler_after_the_end():
    """As programs do that keep the former handler: the handler from before the loop is called,
    once.
    """
    came = []
    former = signal.signal(signal.SIGTERM, lambda number, frame: came.append("before"))
    try:
        with iter(loader()) as iterator:
            batches = on_preemption(iterator, pytest.fail)
            inner = signal.getsignal(signal.SIGTERM)
            signal.signal(
                signal.SIGTERM, lambda number, frame: [came.append("around"), inner(number, frame)]
            )
            batches.close()
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == ["around", "before"]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_an_error_of_save_is_raised():
    """And the loop is over."""

    def save(iterator):
        raise OSError("disk full")

    with iter(loader()) as iterator, on_preemption(iterator, save) as batches:
        next(batches)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(OSError, match="disk full"):
            next(batches)
        assert not batches.preempted


def test_what_cannot_be_preempted_is_refused():
    """A loader, a list, no function, no signal, another thread."""
    with iter(loader()) as iterator:
        for wrong in (loader(), iter([1])):
            with pytest.raises(
                TypeError, match=r"without steps. Pass the iterator of a loader, iter\(loader\)"
            ):
                on_preemption(wrong, print)
        with pytest.raises(TypeError, match=r"save=3 is an int. Pass a function"):
            on_preemption(iterator, 3)
        for number in (signal.SIGKILL, 1000, "TERM"):
            with pytest.raises(
                ValueError, match=r"cannot be handled: .* Pass signals such as signal.SIGTERM"
            ):
                on_preemption(iterator, print, signals=[signal.SIGTERM, number])
        errors = []

        def elsewhere():
            try:
                on_preemption(iterator, print)
            except ValueError as error:
                errors.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert "main thread" in errors[0]


SIGNALS = 8
"""They come within 8 × 0.15 s, and two workers sleep for 3 s in the operation: so each signal comes
before the end.
"""

PROGRAM = textwrap.dedent("""
    import json, os, signal, sys, time
    import headrace
    from headrace.checkpoint import StateFile

    folder, workers = sys.argv[1], int(sys.argv[2])

    def slow(x):
        time.sleep(0.001)
        return x

    loader = headrace.load(range(6000), shuffle=True, seed=3, batch_size=2, num_epochs=1, transformations=[slow],
                           worker_count=workers)
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # for a signal after the loop
    with StateFile(f"{folder}/state.json") as file, iter(loader) as iterator, open(f"{folder}/seen.txt", "a") as seen:
        file.restore(iterator)
        with headrace.on_preemption(iterator, file.save) as batches:
            print("ready", flush=True)
            for batch in batches:
                seen.write(json.dumps(batch.tolist()) + "\\n")
        seen.flush()
    # Not sys.exit: at its end, Python handles signals as before, and a late one would end the process.
    os._exit(3 if batches.preempted else 0)
""")


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("whole_group", [False, True], ids=["process", "group"])
@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_process_that_gets_sigterm_at_any_moment_loses_nothing(
    worker_count, whole_group, tmp_path
):
    """Again and again until the end: each record comes once. With the group, its workers get the
    signal, too, as in Slurm.
    """
    chance, codes = random.Random(worker_count), []
    while not codes or codes[-1] == 3:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path), str(worker_count)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.15)
        if len(codes) < SIGNALS:
            (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
        codes.append(process.wait(60))
        process.stdout.close()
    assert codes == [3] * SIGNALS + [0]
    seen = [
        record
        for line in (tmp_path / "seen.txt").read_text().splitlines()
        for record in json.loads(line)
    ]
    assert sorted(seen) == list(range(6000))


@pytest.mark.long
@pytest.mark.parametrize(("by", "workers"), [("jax", 0), ("folder", 2), ("alone", 0), ("alone", 2)])
def test_two_hosts_that_get_sigterm_at_random_moments_lose_nothing(by, workers, tmp_path):
    """While they start, in the loop or while they save; one or both, once or twice. More by `python
    tests/preemptions.py`.
    """
    found = preempted_hosts.play(tmp_path, 6, seed=workers, by=by, workers=workers)
    assert found["runs to the end"] >= 1
    assert sum(found.values()) > 6


HOSTS = textwrap.dedent("""
    import json, os, pathlib, sys, time
    import jax
    import headrace

    index, count, port, folder = sys.argv[1:]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", int(count), int(index))
    folder = pathlib.Path(folder)
    sampler = headrace.IndexSampler(12_000, headrace.ShardByJaxProcess(), shuffle=True, seed=2, num_epochs=1)
    loader = headrace.DataLoader(data_source=range(12_000), sampler=sampler, operations=[headrace.Batch(3)])
    seen = []

    def save(iterator):
        time.sleep(int(index))  # the first process, whose end aborts the others, saves first
        (folder / f"{index}-of-{count}.json").write_bytes(iterator.get_state())

    with iter(loader) as iterator:
        former = sorted(folder.glob(f"*-of-{count}.json"))
        if former:
            iterator.set_states([path.read_bytes() for path in former])
        from jax.experimental import multihost_utils
        multihost_utils.sync_global_devices("begin")
        with headrace.on_preemption(iterator, save) as batches:
            print("ready", flush=True)
            for batch in batches:
                seen += batch.tolist()
                time.sleep(0.005)
        print(json.dumps([batches.preempted, iterator.step, seen]), flush=True)
    if not batches.preempted:
        multihost_utils.sync_global_devices("end")
    os._exit(0)  # nobody waits for the others, as if the machine was gone: they must have saved
""")


@pytest.mark.long
def test_all_hosts_end_at_the_same_step_if_one_gets_sigterm(tmp_path):
    """By JAX's preemption service; nothing is lost or repeated over several preemptions."""
    chance, seen, ended = random.Random(0), [], []
    for attempt in range(8):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", HOSTS, str(index), "2", str(port), str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
            for index in range(2)
        ]
        try:
            for process in processes:
                assert "ready\n" in process.stdout, process.stderr.read()  # read up to this line
            time.sleep(chance.random() * 0.3)
            if attempt < 3:
                processes[attempt % 2].send_signal(signal.SIGTERM)
            outputs = [process.communicate(timeout=120) for process in processes]
        finally:
            for process in processes:
                process.kill()
        found = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
        assert len({(preempted, step) for preempted, step, _ in found}) == 1, found
        ended.append(found[0][0])
        seen += [record for _, _, records in found for record in records]
        if not found[0][0]:
            break
    assert ended[0]  # the first signal comes at the beginning of 10 s
    assert not ended[-1]
    assert np.array_equal(np.sort(seen), np.arange(12_000))
