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
from pipelines import loader, stream

import millrace

LONG = 0.02


def _load(count, *operations, worker_count=2):
    """The numbers below `count`, with operations; a task is one batch, as there is a timeout."""
    sampler = millrace.IndexSampler(count, num_epochs=1)
    return millrace.DataLoader(
        data_source=range(count), sampler=sampler, operations=operations, worker_count=worker_count, timeout=60
    )


class Witness:
    """An element that knows on which thread it was decoded."""

    def __init__(self, key: int) -> None:
        self.key = key

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state, decoded_by=threading.current_thread().name)


def _witness(key: int) -> Witness:
    return Witness(key)


def _decoded_by(worker_count: int, pause: float) -> list[str]:
    found = []
    with iter(_load(40, _witness, millrace.Batch(1), worker_count=worker_count)) as elements:
        for element in elements:
            found.append(element[0].decoded_by)
            time.sleep(pause)
    return found


def test_in_long_steps_batches_are_decoded_on_a_thread_of_their_own():
    """From the first long step on, but for looks that come too late on a busy machine."""
    assert _decoded_by(2, LONG).count("millrace-ahead") > 20


def test_in_short_steps_there_is_no_such_thread():
    """A switch of threads for every batch would cost more than it saves."""
    with iter(_load(2000, _witness, millrace.Batch(1))) as elements:
        names = [element[0].decoded_by for element in elements]
    assert names.count("MainThread") > 9 * names.count("millrace-ahead")


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


def test_the_iterator_moves_and_closes_while_the_thread_is_at_it():
    """To another place, and to its end, at any moment; the fixture sees that no thread is left."""
    chance, batched = random.Random(1), _load(1000, millrace.Batch(4))
    expected = [batch.tolist() for batch in batched]
    for _ in range(5):
        with iter(batched) as batches:
            for step in range(3):
                assert next(batches).tolist() == expected[step]
                time.sleep(LONG * chance.random())
            state = batches.get_state()
            assert next(batches).tolist() == expected[3]
            time.sleep(LONG * chance.random())
            batches.set_state(state)
            assert next(batches).tolist() == expected[3]
            time.sleep(LONG * chance.random())


def test_an_iterator_that_is_dropped_in_a_long_step_leaves_no_thread():
    """Also in the middle of a loop."""
    for batch in _load(1000, millrace.Batch(4)):
        time.sleep(LONG)
        if batch[0] >= 16:
            break
    del batch
    assert not [thread for thread in threading.enumerate() if thread.name == "millrace-ahead"]


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


def test_workers_that_die_in_a_long_step_are_replaced_in_it(caplog):
    """The stream stays, and the work is done again before the user asks for it."""
    whole = _load(400, millrace.Batch(4))
    expected = [batch.tolist() for batch in whole]
    found = []
    with caplog.at_level(logging.WARNING), iter(whole) as batches:
        for step, batch in enumerate(batches):
            found.append(batch.tolist())
            if step in (3, 20):
                time.sleep(LONG)
            if step in (4, 21):
                (zygote,) = psutil.Process().children()
                (zygote if step == 21 else zygote.children()[0]).send_signal(signal.SIGKILL)
                time.sleep(0.2)
    assert found == expected
    assert any("terminated unexpectedly" in record.message for record in caplog.records)


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


def test_interrupts_at_random_moments_of_long_steps_are_one_keyboard_interrupt_each(tmp_path):
    """In the step, in `next`, or while the thread works: the loop ends, and the same iterator goes on."""
    program = """
        import time
        import millrace
        if __name__ == "__main__":
            loader = millrace.load(range(10**6), batch_size=2, num_epochs=1, worker_count=2)
            batches, found = iter(loader), 0
            print("ready", flush=True)
            for interrupts in range(6):
                try:
                    while True:
                        state = batches.get_state()
                        batch = next(batches)
                        assert batch.tolist() == [2 * found, 2 * found + 1], (batch, found)
                        found += 1
                        time.sleep(0.006)
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                    batches.set_state(state)
                    found = batches.state_dict()["step"]
            batches.close()
        """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    running = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "ready\n"
    chance = random.Random(3)
    for _ in range(6):
        time.sleep(chance.uniform(0.5, 0.9))
        running.send_signal(signal.SIGINT)
        assert running.stdout.readline() == "interrupted\n", running.communicate()[1]
    assert running.communicate(timeout=60) == ("", "")


def _run(program: str, folder: os.PathLike[str]) -> tuple[str, str]:
    path = os.path.join(folder, "program.py")
    with open(path, "w") as file:
        file.write(textwrap.dedent(program))
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False)
    return run.stdout, run.stderr
