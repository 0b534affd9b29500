"""Processes agree on each step by messages. Here the processes are threads, which share
a folder.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.shared_folders import stores_of

from headrace.loader.device.hosts.agreement import Agreement
from headrace.loader.device.hosts.verdict import Go, Offer, Refuse, Stop

BATCH = Offer("batch", rows=8, layout="float32[8]")


def _never():
    return False


@pytest.fixture
def two(tmp_path):
    """The agreements of two processes on one run, and the folder."""
    with stores_of(tmp_path, 2) as stores:
        yield [Agreement(store, "run", me, range(2)) for me, store in enumerate(stores)], tmp_path


def _both(agreements, *offers):
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda one, offer: one.agree(offer, _never), agreements, offers))


def test_all_processes_get_the_same_verdict_on_each_step(two):
    """A batch of both is delivered; where one has none, the stream ends on both."""
    agreements, _ = two
    drop = Offer("batch", "drop", rows=8)
    for _ in range(3):
        assert _both(agreements, drop, drop) == [Go(), Go()]
    assert _both(agreements, drop, Offer("end", "drop")) == [Stop(), Stop()]


def test_steps_that_are_certain_need_no_message(two):
    """Both said that the next batches have equally many rows: then each decides alone, until these
    steps are over.
    """
    agreements, folder = two
    steady = Offer("batch", rows=8, layout="float32[8]", steady=4)
    assert _both(agreements, steady, steady) == [Go(certain=3)] * 2
    written = sorted(folder.rglob("*/*"))
    assert [agreements[0].agree(BATCH, _never) for _ in range(3)] == [Go(certain=3)] * 3
    assert [path for path in sorted(folder.rglob("*/*")) if path not in written] == []
    assert [agreements[1].agree(BATCH, _never) for _ in range(3)] == [Go(certain=3)] * 3
    assert _both(agreements, BATCH, BATCH) == [Go(), Go()]


@pytest.mark.parametrize("other", [Offer("batch", rows=7, layout="float32[8]"), Offer("end")])
def test_a_batch_that_is_not_the_promised_one_is_refused(other, two):
    """The other processes were not asked; so it is an error, which says what was promised."""
    agreements, _ = two
    steady = Offer("batch", rows=8, layout="float32[8]", steady=4)
    _both(agreements, steady, steady)
    verdict = agreements[0].agree(other, _never)
    assert isinstance(verdict, Refuse)
    assert "batch 1 of this run" in verdict.message
    assert agreements[1].agree(Offer("failed", detail="a fault"), _never) == Refuse("a fault")


def test_who_waits_hears_that_another_process_has_left(two):
    """By an error or because its feeder was closed; the last one to leave deletes the messages."""
    agreements, folder = two
    agreements[1].leave(Offer("failed", detail="a fault"))
    verdict = agreements[0].agree(BATCH, _never)
    assert isinstance(verdict, Refuse)
    assert "process 1 failed: a fault" in verdict.message
    assert list(folder.rglob("gone"))
    agreements[0].leave(None)
    assert all(agreement.left for agreement in agreements)
    assert not list(folder.rglob("gone"))


def test_all_loops_end_after_the_batch_at_which_one_is_asked_to_end(two):
    """No later step is certain then."""
    agreements, _ = two
    steady = Offer("batch", rows=8, layout="float32[8]", steady=4)
    asked = Offer("batch", rows=8, layout="float32[8]", steady=4, stops=True)
    assert _both(agreements, steady, asked) == [Go(last=True)] * 2


def test_who_is_stopped_waits_no_longer(two):
    """There is no verdict then."""
    agreements, _ = two
    assert agreements[0].agree(BATCH, lambda: True) is None


def test_a_process_without_a_batch_gets_a_batch_without_rows_of_another(two):
    """It has the layout of the last step. Once sent, a layout is not sent again."""
    agreements, _ = two
    pad = Offer("batch", "pad", rows=8, layout="float32[3]")
    _both(agreements, pad, Offer("end", "pad"))
    agreements[0].give_template("float32[2]", {"x": np.zeros((0, 2), np.float32)})
    agreements[0].give_template("float32[3]", {"x": np.zeros((0, 3), np.float32)})
    agreements[0].give_template("float32[3]", {"x": np.zeros((0, 4), np.float32)})
    template = agreements[1].template(_never)
    assert (template["x"].shape, template["x"].dtype) == ((0, 3), np.float32)
    assert agreements[1].template(lambda: True) is None


def test_messages_of_steps_that_all_have_passed_are_deleted(two):
    """Those of a block of 64 steps, at the first step of the next block."""
    agreements, folder = two
    for _ in range(64):
        _both(agreements, BATCH, BATCH)
    assert len([*folder.rglob("0/*/0")]) == 64
    _both(agreements, BATCH, BATCH)
    assert not [*folder.rglob("0/*/0")]
    assert [path.parent.name for path in folder.rglob("1/*/0")] == ["64"]
