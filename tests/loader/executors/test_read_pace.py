"""Where records are read: in the thread that needs them if they are quick, on threads if they wait
or compute for long.
"""

from __future__ import annotations

import numpy as np
import pytest

from headrace.loader.executors.reading import read_pace, spans
from headrace.loader.executors.reading.read_ahead import Reads
from headrace.loader.executors.reading.read_pace import ReadPace
from headrace.loader.executors.reading.spans import InPlace, Reading, bytes_of_records

QUICK, COMPUTES, STORE = (0.7e-6, 0.7e-6), (2e-4, 2e-4), (20e-3, 3e-5)
"""Seconds and processor seconds of a record: in memory, decompressed, in a store."""


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr(read_pace, "perf_counter", lambda: now[0])
    return now


def note(pace, count, kind):
    """Reads on threads took as long as records of this kind do."""
    pace.note(count, count * kind[0], count * kind[1])


def read_in_place(pace, count, kind):
    """As many records as the pace says are read in place, and are of this kind; their number."""
    if here := pace.in_place(count):
        pace.note_in_place(here, here * kind[0], here * kind[1])
    return here


@pytest.mark.parametrize("count", [1, 128, 2048])
def test_quick_records_are_read_in_place_however_many_a_span_has(clock, count):
    """After the first reads on threads, which may have waited for the interpreter, and
    one trial.
    """
    pace = ReadPace(None)
    assert read_in_place(pace, count, QUICK) == 0, "nothing is known yet"
    pace.note(1, 5e-3, 1e-6)
    clock[0] = 1.0
    assert 1 <= read_in_place(pace, count, QUICK) <= count
    assert [read_in_place(pace, count, QUICK) for _ in range(3)] == [count] * 3


def test_records_that_wait_are_read_on_threads_but_for_rare_trials(clock):
    """A trial reads one record, and all of them take a hundredth of the time."""
    pace, trials = ReadPace(None), []
    note(pace, 1, STORE)
    for tick in range(10_000):
        clock[0] = tick * 1e-3
        trials.append(read_in_place(pace, 512, STORE))
    assert set(trials) == {0, 1}
    assert sum(trials) * STORE[0] <= 0.011 * 10


@pytest.mark.parametrize(("calls", "joins"), [(None, False), (1, False), (4, False), (4, True)])
def test_records_that_take_much_processor_time_are_never_read_in_place(clock, calls, joins):
    """They may have let go of the interpreter, so that threads read several at a time."""
    pace = ReadPace(calls, joins)
    note(pace, 8, COMPUTES)
    for tick in range(100):
        clock[0] = tick * 1.0
        assert read_in_place(pace, 128, COMPUTES) == 0


def test_a_source_that_begins_to_wait_gets_threads_and_one_that_ceases_is_read_in_place_again(
    clock,
):
    """A cache in front of a store."""
    pace = ReadPace(None)
    note(pace, 1, QUICK)
    for _ in range(3):
        for _ in range(5):
            clock[0] += 1.0
            read_in_place(pace, 128, QUICK)
        assert read_in_place(pace, 128, QUICK) == 128
        assert read_in_place(pace, 128, STORE) == 128
        assert pace.in_place(128) == 0
        note(pace, 1, STORE)
        assert pace.step(128) == 16, "from now on the clock is looked at more often"


def test_one_short_wait_changes_nothing(clock):
    """Another program may have had the processor."""
    pace = ReadPace(None)
    note(pace, 1, QUICK)
    clock[0] = 1.0
    for _ in range(4):
        read_in_place(pace, 128, QUICK)
    assert read_in_place(pace, 128, (30e-6, 0.7e-6)) == 128
    assert read_in_place(pace, 128, QUICK) == 128
    assert read_in_place(pace, 128, (30e-6, 0.7e-6)) == 128
    assert read_in_place(pace, 128, (30e-6, 0.7e-6)) == 128
    assert pace.in_place(128) == 0


@pytest.mark.parametrize(("calls", "pieces"), [(1, [512]), (4, [128] * 4), (None, [1, 1])])
def test_a_span_is_cut_as_the_source_says(calls, pieces):
    """Whole, into equal shares, or one by one as long as nothing is known."""
    pace, left, found = ReadPace(calls), 512, []
    for _ in pieces:
        found.append(pace.piece(512, 512, left, 500))
        left -= found[-1]
    assert found == pieces or calls is None


def test_pieces_of_records_that_are_read_one_by_one_take_a_millisecond(clock):
    """More of those that are quick; never more than there is room for."""
    pace = ReadPace(None)
    assert pace.piece(512, 512, 512, 500) == 1
    note(pace, 1, COMPUTES)
    assert pace.piece(512, 512, 512, 500) == 5
    assert pace.piece(512, 512, 512, 3) == 3


def test_calls_of_joined_spans_take_ten_milliseconds():
    """As far as there is room; nothing is joined as long as nothing is known, or where a span alone
    takes that long.
    """
    pace = ReadPace(1, joins=True)
    assert pace.piece(32, 32, 320, 500) == 32
    note(pace, 32, (5e-6, 1e-6))
    assert pace.piece(32, 32, 320, 500) == 320
    assert pace.piece(32, 32, 4000, 500) == 500
    assert pace.piece(2048, 2048, 4096, 500) == 2048
    for _ in range(30):
        note(pace, 32, STORE)
    assert pace.piece(32, 20, 4000, 500) == 20


def test_a_call_of_slow_records_ends_with_its_span():
    """Also where its span was begun by another call, and spans that wait would fit in."""
    reads, pace = Reads(2, 100, 1e9, lambda reads, count: None), ReadPace(2, joins=True)
    note(pace, 8, STORE)
    found = []
    for counts in ([8], [4, 4, 4]):
        for count in counts:
            reads.add(Reading(reads, list, np.arange(count), pace))
        found.append(reads.take().count)
    assert found == [4, 4]


def test_a_call_that_is_made_where_records_are_needed_goes_to_a_thread_when_their_use_takes_long(
    clock,
):
    """And comes back when it does not."""
    pace = ReadPace(1, joins=True)
    assert pace.is_called_here
    note(pace, 100, (5e-6, 1e-6))
    for used, here in ((1e-6, True), (2e-5, False), (1e-6, True)):
        for _ in range(30):
            pace.note_given(100)
            clock[0] += 100 * used
            pace.note_asked()
        assert pace.is_called_here is here
    assert not ReadPace(4, joins=True).is_called_here
    assert not ReadPace(1).is_called_here


def test_the_processor_time_of_quick_reads_is_not_asked_for(clock, monkeypatch):
    """It takes longer than a record in memory. A read that takes longer than usual is looked at the
    next time.
    """
    asked = []
    monkeypatch.setattr(spans, "thread_time", lambda: asked.append(None) or 0.0)
    pace, reads = ReadPace(None), Reads(1, 8, 1e9, lambda reads, count: None)

    def read(kind):
        """Read 8 records that take so long, and say whether the processor time was asked for."""
        now = iter((0.0, 8 * kind[0]))
        monkeypatch.setattr(spans, "perf_counter", lambda: next(now))
        asked.clear()
        assert len(InPlace(reads, list, np.arange(8), pace).records().records) == 8
        return bool(asked)

    note(pace, 1, QUICK)
    assert read(QUICK)
    assert not read(QUICK)
    assert not read((30e-6, 0.7e-6)), "it came without warning"
    assert read(QUICK)
    assert not read(QUICK)
    assert not read(STORE)
    assert not pace.is_quick, "a long wait needs no second look"


def test_records_that_suddenly_compute_are_found_out_by_the_next_look(clock):
    """A read that was not looked at counts as a wait; a look in a trial tells how much of the time
    was work.
    """
    pace = ReadPace(None)
    note(pace, 1, QUICK)
    clock[0] = 1.0
    for _ in range(3):
        read_in_place(pace, 128, QUICK)
    pace.note_in_place(128, 128 * 2e-3, None)
    clock[0] = 1e3
    assert read_in_place(pace, 128, (2e-3, 2e-3)) == 1, "a trial"
    clock[0] = 1e6
    assert pace.in_place(128) == 0


@pytest.mark.parametrize("front", [1, 3])
def test_records_that_a_source_returns_as_an_array_are_joined_as_those_of_a_list(front):
    """The front of a span is read in place, and the rest by a reader."""
    reads = Reads(1, 8, 1e9, lambda reads, count: [reads.work() for _ in range(count)])
    pace, keys = ReadPace(1), np.arange(4)
    rest = reads.add(Reading(reads, np.copy, keys[front:], pace))
    assert list(InPlace(reads, np.copy, keys[:front], pace, rest).records().records) == [0, 1, 2, 3]


def test_a_thread_whose_records_another_reader_has_begun_is_no_reader_any_more():
    """Else fewer and fewer readers were left, and in the end nobody read."""
    reads = Reads(2, 8, 1e9, lambda reads, count: None)
    reading = Reading(reads, list, np.arange(4), ReadPace(1, joins=True))
    assert reads.enter(), "another reader is at work"
    reads.add(reading)
    assert reads.ask(reading)
    assert reads.take().count == 4, "the other reader was faster"
    reads.work_here(reading)
    assert reads.enter()


def test_the_bytes_of_records_are_estimated_from_a_few():
    """Of none they are none."""
    assert bytes_of_records([]) == 0
    assert bytes_of_records([b"a" * 100] * 8) > 800
