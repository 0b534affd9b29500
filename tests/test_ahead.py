"""What comes from worker processes is taken while the user is busy, and nobody notices but by the clock."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest
from pipelines import chosen, loader, stream

import millrace

LONG = 0.02


def _load(count, *operations, worker_count=2, **more):
    """The numbers below `count`, with operations; a task is one batch, as there is a timeout."""
    sampler = millrace.IndexSampler(count, num_epochs=1)
    return millrace.DataLoader(
        data_source=range(count), sampler=sampler, operations=operations, worker_count=worker_count, timeout=60, **more
    )


THREAD = "millrace-ahead"


class Witness:
    """An element of the user's class, which knows on which thread it was decoded."""

    def __init__(self, key: int) -> None:
        self.key = key

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state, decoded_by=threading.current_thread().name)


def _witness(key: int) -> Witness:
    return Witness(key)


def _fails_at_tens(key: int) -> int:
    if key % 10 == 0:
        raise ValueError("a ten")
    return key


def _who_took(pause: float, caplog) -> list[str]:
    """The threads on which answers of workers were taken: those that wrote down what was skipped."""
    loader = _load(400, _fails_at_tens, millrace.Batch(4), on_error="skip")
    with caplog.at_level(logging.WARNING), iter(loader) as batches:
        for _ in batches:
            time.sleep(pause)
    return [record.threadName for record in caplog.records]


def test_in_long_steps_batches_are_taken_by_a_thread_of_their_own(caplog):
    """But for those that come too late on a busy machine."""
    assert _who_took(LONG, caplog).count(THREAD) > 20


def test_a_loop_that_comes_back_at_once_takes_its_batches_itself(caplog):
    """A switch of threads for every batch would cost more than it saves."""
    assert _who_took(0, caplog).count("MainThread") > 25


def test_objects_of_the_users_classes_are_decoded_by_the_users_thread():
    """Their code may want a lock that the user holds."""
    with iter(_load(40, _witness, millrace.Batch(1))) as batches:
        for key, batch in enumerate(batches):
            assert (batch[0].key, batch[0].decoded_by) == (key, "MainThread")
            time.sleep(LONG)


@pytest.mark.parametrize("name", ["random", "filter, batch", "trees", "filter, batch, flat map, batch"])
def test_the_stream_is_the_same_however_long_the_steps(name):
    """Short and long steps in turns, with the states in between."""
    expected, chance = stream(loader(name)), random.Random(0)
    found, states = [], []
    with iter(loader(name, worker_count=2)) as iterator:
        for element in iterator:
            found += stream([element])
            states.append(iterator.get_state())
            time.sleep(chance.choice((0, 0, 0.001, 0.006, 0.02)))
    assert found == expected
    for step in (1, len(states) // 2, len(states) - 1):
        with iter(loader(name, worker_count=1)) as again:
            again.set_state(states[step])
            assert stream(again) == expected[step + 1 :]


def _slow_to_decode(key: int) -> dict[str, list[str]]:
    return {"words": [f"{key}-{number}" for number in range(20_000)]}


@pytest.mark.parametrize("seed", chosen(range(4), 0))
def test_the_iterator_moves_and_closes_while_the_thread_decodes(seed):
    """To another place, and to its end, at any moment; the fixture sees that no thread is left."""
    chance = random.Random(seed)
    expected = [_slow_to_decode(key) for key in range(5)]
    with iter(_load(1000, _slow_to_decode)) as elements:
        for key in range(4):
            assert next(elements) == expected[key]
            time.sleep(LONG * chance.random())
        state = elements.get_state()
        assert next(elements) == expected[4]
        time.sleep(LONG * chance.random())
        elements.set_state(state)
        assert next(elements) == expected[4]
        time.sleep(LONG * chance.random())


@pytest.mark.parametrize("count", chosen([3, 20], 3))
def test_interrupts_at_any_moment_leave_a_whole_iterator(count):
    """Raised by a timer in `next`, in the step, in `set_state`, or while these wait for the thread."""
    chance, loader = random.Random(4), _load(10**4, _slow_to_decode)
    former = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with iter(loader) as elements:
            interrupts = 0
            while interrupts < count:
                key = elements.state_dict()["step"]
                assert next(elements) == _slow_to_decode(key)
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.06))
                    try:
                        for _ in range(50):
                            next(elements)
                            time.sleep(chance.choice((0, 0.005, 0.01)))
                            if chance.random() < 0.2:
                                elements.set_state(elements.get_state())
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:  # it may come as late as in the call that takes it back
                    interrupts += 1
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_forked_copy_is_told_apart_in_long_steps_too(tmp_path):
    """And the parent goes on."""
    program = """
        import os, time, warnings
        import millrace
        if __name__ == "__main__":
            warnings.simplefilter("ignore")
            with iter(millrace.load(range(10**4), batch_size=2, num_epochs=1, worker_count=2)) as batches:
                total = 0
                for step, batch in enumerate(batches):
                    total += int(batch.sum())
                    if step < 100:
                        time.sleep(0.003)
                    if step == 100 and os.fork() == 0:
                        try:
                            for batch in batches:
                                pass
                        except RuntimeError as error:
                            print(step, error, flush=True)
                        os._exit(0)
                    if step == 100:
                        os.wait()
                print(total)
        """
    output, errors = _run(program, tmp_path)
    told = "100 this iterator belongs to another process; make a new one here, iter(loader).\n"
    assert (output, errors) == (f"{told}{sum(range(10**4))}\n", "")


def test_a_feeder_may_take_over_a_running_iterator():
    """Its state is that of the feeder's user."""
    jax = pytest.importorskip("jax")
    with iter(_load(100, millrace.Batch(2))) as batches:
        for _ in range(4):
            next(batches)
            time.sleep(LONG)
        with iter(millrace.device_put(batches, jax.devices()[0])) as feeder:
            assert [next(feeder).tolist() for _ in range(3)] == [[8, 9], [10, 11], [12, 13]]
            time.sleep(LONG)
        assert next(batches).tolist() == [14, 15]


def test_an_iterator_that_is_dropped_in_a_long_step_leaves_no_thread():
    """Also in the middle of a loop."""
    for batch in _load(1000, millrace.Batch(4)):
        time.sleep(LONG)
        if batch[0] >= 16:
            break
    del batch
    assert not [thread for thread in threading.enumerate() if thread.name == THREAD]


def _fails_at_thirty(key: int) -> int:
    if key == 30:
        raise ValueError("thirty")
    return key


def test_an_error_that_was_met_ahead_comes_at_its_place():
    """The state before it still leads to it."""
    with iter(_load(100, _fails_at_thirty, millrace.Batch(2))) as batches:
        for step in range(15):
            assert next(batches).tolist() == [2 * step, 2 * step + 1]
            time.sleep(LONG)
        for _ in range(2):
            with pytest.raises(ValueError, match="thirty"):
                next(batches)
            time.sleep(LONG)
        assert batches.records_at(15).tolist() == [30, 31]


def _slowly(key: int) -> int:
    time.sleep(0.3)
    return key


@pytest.mark.parametrize("dies", ["worker", "zygote"])
def test_workers_that_die_in_a_long_step_are_replaced_in_it(dies, caplog):
    """The stream stays, and the work is done again before the user asks for it. Nothing else is there to be taken first."""
    found = []
    with caplog.at_level(logging.WARNING), iter(_load(6, _slowly, millrace.Batch(1), worker_count=1)) as batches:
        for step, batch in enumerate(batches):
            found.append(int(batch[0]))
            time.sleep(LONG)
            if step == 2:
                (zygote,) = psutil.Process().children()
                (zygote if dies == "zygote" else zygote.children()[0]).send_signal(signal.SIGKILL)
                time.sleep(1)
    assert found == list(range(6))
    assert [record.threadName for record in caplog.records if "terminated unexpectedly" in record.message] == [THREAD]


def test_a_system_without_a_thread_to_give_is_no_obstacle(tmp_path):
    """The user's own thread does it all then."""
    program = """
        import threading, time
        import millrace
        class NoThread(threading.Thread):
            def start(self):
                raise RuntimeError("can't start new thread")
        if __name__ == "__main__":
            with iter(millrace.load(range(40), batch_size=2, num_epochs=1, worker_count=1)) as batches:
                total = int(next(batches).sum())
                threading.Thread = NoThread
                for batch in batches:
                    total += int(batch.sum())
                    time.sleep(0.005)
            print(total)
        """
    assert _run(program, tmp_path) == (f"{sum(range(40))}\n", "")


@pytest.mark.parametrize("way", ["", "sys.exit()", "del batches"])
def test_a_program_may_end_in_a_long_step(way, tmp_path):
    """With its thread waiting; no warning and no process is left."""
    program = f"""
        import sys, time
        import millrace
        if __name__ == "__main__":
            batches = iter(millrace.load(range(1000), batch_size=2, worker_count=2))
            for _ in range(5):
                batch = next(batches)
                time.sleep(0.01)
            print(batch.tolist(), flush=True)
            {way}
        """
    assert _run(program, tmp_path) == ("[8, 9]\n", "")


def _run(program: str, folder: os.PathLike[str]) -> tuple[str, str]:
    path = os.path.join(folder, "program.py")
    with open(path, "w") as file:
        file.write(textwrap.dedent(program))
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False)
    return run.stdout, run.stderr
