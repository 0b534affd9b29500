"""What the loop does with the pool's decisions, whatever the transport is."""

from __future__ import annotations

import pytest

from headrace import Batch, DataLoader, IndexSampler
from headrace.loader.executors.pooled import PooledExecutor
from headrace.loader.executors.transport import Answered, Message, Ready
from headrace.loader.options import ExecutionOptions, ReadOptions
from headrace.loader.timing.observer import Observer
from headrace.loader.work.row_origins import RowOrigins
from headrace.loader.work.tasks import Block, GroupTask, SpanTask


class PlayedRows:
    """Rows that may be lost."""

    def __init__(self, elements):
        self.elements, self.lost = elements, False

    def load(self):
        """The rows, unless they are lost."""
        return None if self.lost else self.elements

    def columns(self):
        """None: they are a list."""


class Played:
    """A transport whose worker answers when it is told to: of a span its positions, of a group that
    it was done.
    """

    worker_count, depth, may_lose_rows = 1, 3, True
    nbytes = 0  # of the rows of a task

    def __init__(self):
        self.sent: list[Message] = []
        self.events = [Ready(0)]

    def start(self, worker):
        """There is one from the beginning."""

    def send(self, worker, message):
        """Note a message."""
        self.sent.append(message)

    def poll(self, seconds):
        """What was said; who waits gets all answers."""
        if seconds != 0:
            self.answer()
        events, self.events = self.events, []
        return events

    def answer(self):
        """Answer all that was sent."""
        for message in self.sent:
            self.events.append(Answered(0, [_block(task, self.nbytes) for task in message.tasks]))
        self.sent = []

    def close(self):
        """Nothing is left."""


def _block(task, nbytes):
    tags = RowOrigins()
    found = list(range(task.start, task.stop)) if isinstance(task, SpanTask) else ["done"]
    for unit, position in enumerate(found):
        tags.add(unit, position if isinstance(task, SpanTask) else 0, 0)
    block = Block.of(found, tags)
    block.rows, block.nbytes, block.seconds = PlayedRows(found), nbytes, 1.0
    return block


def _executor(depth=3, transport=None):
    pipeline = iter(
        DataLoader(data_source=range(99), sampler=IndexSampler(99), operations=[Batch(4)])
    )._pipeline
    transport = transport or Played()
    transport.depth = depth
    return PooledExecutor(
        pipeline, ExecutionOptions(1, worker_buffer_size=2), Observer(), transport
    ), transport


def test_workers_that_were_begun_end_when_another_one_cannot_begin():
    """There is no executor that could be closed."""
    closed = []

    class Fails(Played):
        def start(self, worker):
            raise OSError("no more processes")

        def close(self):
            closed.append(None)

    with pytest.raises(OSError, match="no more"):
        _executor(transport=Fails())
    assert closed == [None]


def test_a_worker_is_sent_tasks_in_the_order_in_which_the_pool_gave_them():
    """No more messages at a time than the transport's depth; the next ones as answers come."""
    executor, transport = _executor()
    handles = [executor.submit(SpanTask(0, 4 * number, 4 * number + 4)) for number in range(5)]
    assert [message.tasks[0].start for message in transport.sent] == [0, 4, 8]
    transport.answer()
    assert [handle.ready() for handle in handles] == [True, True, True, False, False]
    assert [message.tasks[0].start for message in transport.sent] == [12, 16]
    assert [handle.result().elements for handle in handles] == [
        list(range(4 * n, 4 * n + 4)) for n in range(5)
    ]


def test_as_many_batches_wait_as_have_room_but_one_for_each_worker():
    """Of large ones fewer are made ahead; a limit that is too small for any leaves each worker its
    batch.
    """
    for most, window in ((None, 6), (5 << 20, 5), (2 << 20, 2), (1, 2)):
        pipeline = iter(
            DataLoader(data_source=range(99), sampler=IndexSampler(99), operations=[Batch(4)])
        )._pipeline
        options = ExecutionOptions(
            2,
            worker_buffer_size=2,
            read_options=ReadOptions(num_threads=0, prefetch_buffer_bytes=most),
        )
        transport = Played()
        transport.worker_count, transport.nbytes = 1, 1 << 20
        executor = PooledExecutor(pipeline, options, Observer(), transport)
        executor.submit(SpanTask(0, 0, 4)).result()
        assert executor.window(0) == window


def test_rows_that_were_lost_are_made_again_before_what_names_them():
    """The task that made them goes to a worker first; what names them follows, with the rows that
    came of that.
    """
    executor, transport = _executor()
    span = executor.submit(SpanTask(0, 8, 12))
    block = span.result()
    block.rows.rows.lost = True
    group = executor.submit(GroupTask(0, ((7, 1, 3),)), {7: block})
    executor.send_gathered()
    assert [message.tasks for message in transport.sent] == [[SpanTask(0, 8, 12)]]
    transport.answer()
    assert not group.ready()
    (message,) = transport.sent
    (named,) = message.named
    assert (named.first, named.last, named.rows.lost) == (1, 3, False)
    assert group.result().elements == ["done"]
    assert block.elements == [8, 9, 10, 11]


def test_a_worker_that_cannot_do_its_tasks_yet_makes_other_lost_rows(monkeypatch):
    """A message whose rows are lost goes back; what waits behind it goes to the worker in its
    place, or nothing would.
    """
    executor, transport = _executor(depth=1)
    spans = [executor.submit(SpanTask(0, start, start + 4)) for start in (0, 4)]
    blocks = [span.result() for span in spans]
    monkeypatch.setattr(executor._sizes.pace, "tasks", lambda stage: 2)  # in a message
    group = executor.submit(GroupTask(0, ((0, 0, 4), (1, 0, 4))), dict(enumerate(blocks)))
    later = executor.submit(SpanTask(0, 8, 12))  # its number is above that of the group
    transport.answer()
    assert later.ready()
    blocks.append(later.result())
    for block in blocks:
        block.rows.rows.lost = True
    other = executor.submit(GroupTask(0, ((2, 0, 4),)), {2: blocks[2]})
    for _ in range(4):
        transport.answer()
        group.ready()
    assert group.ready()
    assert other.result().elements == ["done"]


def test_rows_that_were_lost_are_made_again_for_who_wants_them_here():
    """Whoever asks for them waits for the task that makes them."""
    executor, _ = _executor()
    block = executor.submit(SpanTask(0, 8, 12)).result()
    block.rows.rows.lost = True
    assert block.elements == [8, 9, 10, 11]
