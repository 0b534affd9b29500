"""What the executor does when messages, deaths and lack of room come in any order: with workers
that are played.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.leaks import descriptors
from support.played_executors import SIGKILL, SPANS, Played, _pipeline

from headrace import Batch, Filter
from headrace.common import remote_errors
from headrace.common.system import anonymous_file
from headrace.errors import WorkerCrashedError
from headrace.loader.executors.processes import channel
from headrace.loader.executors.processes.channel import Broken
from headrace.loader.executors.transport import Answered, Kill, Silent
from headrace.loader.work.tasks import GroupTask, SpanTask

AT_ONCE = 1e-9
"""A timeout that has passed whenever somebody looks."""


def _anything(_):
    return True


GROUPS = _pipeline(Filter(_anything), Batch(4))


def _block(handle):
    assert handle.ready()  # else its result would be waited for
    return handle.result()


def _elements(handles):
    return [_block(handle).elements for handle in handles]


def _expected(count, length=4):
    return [list(range(length * n, length * (n + 1))) for n in range(count)]


@pytest.mark.parametrize("report_first", [False, True])
def test_what_a_worker_had_answered_when_it_died_counts(report_first):
    """Answers that come with the death, or are read only after its report, are taken; the rest is
    done again, once.
    """
    with Played() as played:
        handles = played.submit(3)
        worker = played[0]
        worker.take_messages()
        if report_first:
            played.zygote.report(0, SIGKILL)
        worker.answer(2)
        worker.die()
        if not report_first:
            played.hear()  # of the channel's end alone
            played.zygote.report(0, SIGKILL)
        del played.zygote.workers[0]
        played.hear()
        assert [handle.block is not None for handle in handles] == [True, True, False]
        played[1].take_messages()
        assert [rows for rows, _ in played[1].asked] == _expected(3)[2:]
        played.finish()
        assert _elements(handles) == _expected(3)


def test_a_worker_whose_channel_stays_open_is_replaced():
    """A process that it has started has the other end still."""
    with Played() as played:
        handles = played.submit(2)
        dead = played.zygote.workers.pop(0)
        played.zygote.report(0, SIGKILL)
        played.hear()
        played.finish()
        assert _elements(handles) == _expected(2)
        dead.die()


def test_the_other_end_of_a_workers_channel_is_closed_here_once_the_worker_has_it():
    """Else there would be a descriptor more for each, and its end would not be seen."""
    with Played(workers=2) as played:
        assert not played.zygote._in_transit


@pytest.mark.parametrize(("pipeline", "kept"), [(SPANS, 0), (GROUPS, 1)])
def test_the_descriptor_of_a_workers_memory_is_kept_only_for_workers_of_a_next_stage(
    pipeline, kept
):
    """There are many, and a process may not have more than a limit of them."""
    with Played(pipeline=pipeline) as played:
        (handle,) = played.submit(1)
        memory = anonymous_file("test", 4096)
        before = len(descriptors())
        played[0].lend(memory, 4096)
        assert _block(handle).elements == _expected(1)[0]
        os.close(memory)
        assert len(descriptors()) == before - 1 + kept


def test_a_task_that_is_sent_to_a_dead_worker_is_done_by_another():
    """Between a death and its report tasks may still be given to that worker."""
    with Played() as played:
        (early,) = played.submit(1)
        worker = played.zygote.workers.pop(0)
        worker.die()
        before_it_shows = played.submit(1)
        played.hear()
        after_it_shows = played.submit(1)
        played.zygote.report(0, SIGKILL)
        played.hear()
        played.finish()
        assert _elements([early, *before_it_shows, *after_it_shows]) == _expected(1) * 3


def test_messages_wait_for_room_and_keep_their_order():
    """A worker that has no room gets its tasks later; nobody waits for it meanwhile."""
    with Played() as played:
        ours = played.transport._workers[0].channel
        ours.full = True
        handles = played.submit(5)
        played.hear()
        played[0].take_messages()
        assert not played[0].asked
        ours.full = False
        played.hear()
        played[0].take_messages()
        assert [rows for rows, _ in played[0].asked] == _expected(5)
        played.finish()
        assert _elements(handles) == _expected(5)


def test_messages_that_wait_for_room_go_to_another_worker_after_a_death():
    """What never reached a worker is done by the next one."""
    with Played() as played:
        handles = played.submit(1)
        played.transport._workers[0].channel.full = True
        handles += [played.executor.submit(SpanTask(0, 4, 8))]
        played.zygote.bury(0, SIGKILL)
        played.hear()
        played.finish()
        assert _elements(handles) == _expected(2)


def test_a_task_of_several_units_becomes_its_parts():
    """What stands before the record at fault can so be delivered; no try is counted."""
    with Played() as played:
        (handle,) = played.submit(1, length=8)
        played.zygote.bury(0, SIGKILL)
        played.hear()
        assert _block(handle).parts == [SpanTask(0, 0, 4), SpanTask(0, 4, 8)]


@pytest.mark.parametrize(
    ("status", "how"), [(SIGKILL, "by signal SIGKILL"), (40, "by signal 40"), (256, "exit code 1")]
)
def test_a_task_that_ends_three_workers_fails_by_name(status, how):
    """The error says how the last one ended and which records it was at; real-time signals have no
    name.
    """
    with Played() as played:
        deadly, other = played.submit(2)
        for worker in range(3):
            played.zygote.bury(worker, status)
            played.hear()
        played.finish()  # each of its records is tried alone, and none ends a worker
        error = _block(deadly).failure.error
        assert isinstance(error, WorkerCrashedError)
        for words in [how, "3 times", "positions 0 to 3"]:
            assert words in str(error)
        played.finish()
        assert _elements([other]) == [[4, 5, 6, 7]]


def test_a_late_task_that_is_answered_before_its_worker_dies_is_done():
    """The answer counts, and the task that died with the worker is not blamed: it may still end two
    others.
    """
    with Played(timeout=AT_ONCE) as played:
        late, other = played.submit(2)
        played.hear()
        assert played.zygote.killed == [0]
        played[0].answer()
        played.zygote.bury(0, SIGKILL)
        played.hear()
        assert _elements([late]) == _expected(1)
        for worker in (1, 2):
            played.zygote.bury(worker, SIGKILL)
            played.hear()
        assert not other.ready()
        played.finish()
        assert _elements([other]) == [[4, 5, 6, 7]]


def test_a_late_task_is_told_as_late(caplog):
    """The user reads of the timeout, and not of the signal that we sent."""
    with caplog.at_level(logging.WARNING), Played(timeout=AT_ONCE) as played:
        (handle,) = played.submit(1, length=1)
        for worker in range(3):
            if worker:
                played[worker].begin()
            played.hear()
            assert played.zygote.killed[-1] == worker
            played.zygote.bury(worker, SIGKILL)
            played.hear()
        assert "timeout=1e-09 s, 3 times" in str(_block(handle).failure.error)
    assert "SIGKILL" not in caplog.text


def test_when_the_zygote_dies_what_was_answered_counts_and_the_rest_is_done_again(caplog):
    """Its workers' last answers are read, and all else goes to new workers of a new zygote, in
    order.
    """
    with Played(workers=2) as played:
        handles = played.submit(5)
        played[0].answer()
        played.zygote.die()
        played.hear()
        assert (played.zygote.starts, sorted(played.zygote.workers)) == (2, [2, 3])
        played.finish()
        assert _elements(handles) == _expected(5)
    assert "is started again" in caplog.text


def test_a_zygote_that_dies_again_and_again_is_an_error():
    """After three times without a result everything is closed."""
    with Played() as played:
        played.submit(1)
        for _ in range(2):
            played.zygote.die()
            played.hear()
        played.zygote.die()
        with pytest.raises(
            WorkerCrashedError, match=r"by signal SIGKILL \(.*, 3 times without a result"
        ):
            played.hear()


def test_a_pipeline_that_cannot_be_unpacked_is_the_error_that_says_why():
    """The zygote's error arrives as itself."""
    with Played() as played:
        played.zygote.say(Broken(remote_errors.encode(LookupError("no such module"))))
        with pytest.raises(LookupError, match="no such module"):
            played.hear()


def test_groups_are_done_again_with_the_rows_that_they_name():
    """Rows of earlier tasks go along to the worker that does a group again, each group
    on its own.
    """
    with Played(pipeline=GROUPS) as played:
        (span,) = played.submit(1, length=32)
        played.finish()
        block = _block(span)
        groups = [GroupTask(1, ((7, 4 * n, 4 * n + 4),)) for n in range(3)]
        handles = [played.executor.submit(group, {7: block}) for group in groups]
        played.executor.send_gathered()
        played.zygote.bury(0, SIGKILL)
        played.hear()
        assert [handle.tries for handle in handles[1:]] == [0, 0]
        played.finish()
        assert _elements(handles) == [[rows] for rows in _expected(3)]


EVENTS = ["submit", "answer", "die", "report", "begin", "full", "room", "zygote dies", "hear"]


@given(
    workers=st.integers(1, 3),
    timeout=st.sampled_from([None, AT_ONCE]),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5)), max_size=25),
)
def test_every_task_is_answered_once_whatever_happens(workers, timeout, events):
    """Whatever comes, in whatever order: at the end each task has its own rows, or was given up
    after its tries.
    """
    with Played(workers, timeout) as played:
        handles, dead = [], []
        for event, number in events:
            alive = list(played.zygote.workers.values())
            worker = alive[number % len(alive)] if alive else None
            if event == "submit":
                handles.append(
                    played.executor.submit(SpanTask(0, 4 * len(handles), 4 * len(handles) + 4))
                )
            elif event == "hear":
                played.executor.handle_events(wait=False)
            elif event == "zygote dies":
                if played.zygote.starts < 3:
                    played.zygote.die()
                    dead.clear()
                    played.hear()
            elif event == "report":
                if dead:
                    played.zygote.report(dead.pop(0), SIGKILL)
            elif worker is None:
                continue
            elif event == "die":
                dead.append(played.zygote.workers.pop(worker.number).number)
                worker.die()
            elif event == "answer":
                worker.answer(number)
            elif event == "begin":
                worker.begin()
            else:
                played.transport._workers[worker.number].channel.full = event == "full"
        for number in dead:
            played.zygote.report(number, SIGKILL)
        for remote in played.transport._workers.values():
            remote.channel.full = False
        played.hear()
        played.finish()
        for handle, rows in zip(handles, _expected(len(handles))):
            block = _block(handle)
            if block.failure is None:
                assert block.elements == rows
            else:
                assert isinstance(block.failure.error, WorkerCrashedError)


@pytest.mark.parametrize("function", [None, print])
def test_workers_unpickle_the_pipeline_themselves_after_a_function_of_the_users(function):
    """Else the zygote does, once for all of them."""
    with Played(worker_init_fn=function) as played:
        assert played.zygote.each_unpacks == (function is not None)


def test_workers_are_silent_if_nothing_comes_in_a_wait_without_end():
    """Not if nothing has come yet, nor if something comes."""
    with Played(hang_seconds=1e-3) as played:
        played.submit(1)
        assert played.transport.poll(0) == []
        assert [type(event) for event in played.transport.poll(None)] == [Silent]
        played[0].answer(4)
        assert [type(event) for event in played.transport.poll(None)] == [Answered]


@pytest.mark.parametrize("portable", [False, True])
def test_a_message_comes_with_all_of_its_descriptors(portable, monkeypatch):
    """Also on other systems, and if they are more than a packet may have."""
    monkeypatch.setattr(channel, "is_portable", lambda: portable)
    ours, theirs = channel.Channel.pair()
    with closing(ours), closing(channel.Channel(theirs)) as other, open(os.devnull) as file:
        ours.send(Kill(3), [file.fileno()] * 70)
        message, descriptors = other.receive()
        for each in descriptors:
            os.close(each)
    assert (message, len(descriptors)) == (Kill(3), 70)


class _ByteByByte(socket.socket):
    """A connection over which bytes arrive one by one."""

    def recvmsg_into(self, buffers, *room):
        return super().recvmsg_into([memoryview(buffers[0])[:1]], *room)

    def recv_into(self, buffer):
        return super().recv_into(buffer, 1)


def test_a_message_may_come_in_pieces(monkeypatch):
    """On other systems, where the connection has no packets."""
    monkeypatch.setattr(channel, "is_portable", lambda: True)
    ours, theirs = channel.Channel.pair()
    other = channel.Channel(_ByteByByte(fileno=theirs.detach()))
    with closing(ours), closing(other):
        ours.send(Kill(3))
        assert other.receive() == (Kill(3), [])
