"""What a loop did when, and the file that Perfetto shows of it."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

import headrace
from headrace import Batch, Filter, load
from headrace.errors import OutputError
from headrace.loader.device.stats import BatchTimes, FeederStats, StepTimes, Times
from headrace.loader.stats import IteratorStats
from headrace.loader.timing.times import TaskEvent, TaskTimes
from headrace.reporting.timeline import timeline


def _slow(element):
    time.sleep(10e-3)  # tasks shorter than 8 ms are not all timed
    return element


def _even(number):
    return _slow(number) % 2 == 0


def _drained(workers):
    operations = [Filter(_even), Batch(4), _slow]
    iterator = iter(
        load(
            np.arange(32),
            transformations=operations,
            num_epochs=1,
            worker_count=workers,
            worker_kind="thread",
        )
    )
    assert len(list(iterator)) == 4
    return iterator


@pytest.mark.parametrize("workers", [0, 2])
def test_every_wait_receives_what_a_task_made_of_what_others_read(workers):
    """Flows lead from the tasks that read over those that batch to the user's waits; spans of a
    track follow one another.
    """
    iterator = _drained(workers)
    shown = timeline(iterator.stats())
    loop, *workers_ = shown.tracks
    tasks = [span for track in workers_ for span in track.spans if span.kind == "task"]
    reads = {flow for span in tasks if dict(span.details)["stage"] == 0 for flow in span.flows}
    batches = {
        span.flows[0]: set(span.flows[1:]) for span in tasks if dict(span.details)["stage"] == 1
    }
    waits = [span for span in loop.spans if span.kind == "waiting"]
    assert {flow for span in waits for flow in span.flows} == set(batches)
    assert set().union(*batches.values()) == reads
    assert all(one.ended <= other.began for one, other in pairwise(loop.spans))
    assert all(span.began <= span.ended for track in shown.tracks for span in track.spans)
    assert shown.ready[-1][1] == 0
    assert min(count for _, count in shown.ready) == 0
    iterator.close()


def test_a_feeders_step_comes_from_its_reading_over_its_transfer():
    """Each with a flow of its own, and the blocks that were taken meanwhile go into its reading."""
    task = TaskEvent(7, 0, 0, 4, (), 0.0, 1.0, 2.0, TaskTimes(0, 0.5, 1.5, 0.1, 0.0, 4, 4, 32))
    times = Times(0.9, 2.1, 2.5, 2.5, 2.6, 3.0)
    fed = FeederStats(
        1, 2.0, StepTimes(2.0, 1.1, 0.4, 0.1, 0.4, 0.0), (), (BatchTimes(1.0, 3.1, times),)
    )
    stage = _drained(0).stats().stages[1]
    shown = timeline(
        IteratorStats(1, 1.0, 1.0, 0, 0, stages=(stage,), tasks=(task._replace(stage=1),)), fed
    )
    kinds = {
        track.name: [(span.kind, span.flows) for span in track.spans] for track in shown.tracks
    }
    assert kinds["your loop"] == [("waiting", (-1,))]
    assert kinds["feeder: reads"] == [("waiting", (7, -1)), ("transforming", ())]
    assert kinds["feeder: sends"] == [("agreeing", ()), ("transfer", (-1,))]
    assert kinds["worker 0"][0] == ("task", (7,))


def test_the_file_is_chromes_trace_events(tmp_path):
    """Tracks have names and a process; spans of a track are nested; each flow leads from its first
    span to its last.
    """
    path = headrace.write_perfetto(_drained(2), tmp_path / "run.json")
    events = json.loads(path.read_text())["traceEvents"]
    by_kind = defaultdict(list)
    for event in events:
        by_kind[event["ph"]].append(event)
    assert set("MXCsf") <= set(by_kind) <= set("MXCstf")
    names = {
        event["tid"]: event["args"]["name"] for event in by_kind["M"] if "name" in event["args"]
    }
    assert list(names.values())[:2] == ["headrace", "your loop"]
    assert "worker 0" in names.values()
    assert {event["pid"] for event in events} == {os.getpid()}
    open_until = defaultdict(list)
    for span in by_kind["X"]:
        assert span["tid"] in names
        outer = open_until[span["tid"]]
        while outer and outer[-1] <= span["ts"] + 0.002:  # nanoseconds are rounded
            outer.pop()
        assert not outer or span["ts"] + span["dur"] <= outer[-1] + 0.002
        outer.append(span["ts"] + span["dur"])
    at = {kind: {event["id"]: event["ts"] for event in by_kind[kind]} for kind in "sf"}
    assert len(at["s"]) == len(by_kind["s"]) == len(by_kind["f"])
    assert at["s"].keys() == at["f"].keys() >= {event["id"] for event in by_kind["t"]}
    assert all(at["s"][flow] <= at["f"][flow] for flow in at["s"])
    previous = None
    for event in events:  # an arrow is bound to the span that began there last
        if event["ph"] in "stf":
            assert (previous["tid"], previous["ts"]) == (event["tid"], event["ts"])
        elif event["ph"] == "X":
            previous = event


def test_of_a_loop_that_has_not_begun_there_is_an_empty_trace(tmp_path):
    """And of one that is not of headrace an error that says so."""
    loop = iter(load(range(3)))
    assert headrace.write_perfetto(loop, tmp_path / "empty").stat().st_size > 0
    with pytest.raises(TypeError, match="of headrace"):
        headrace.write_perfetto(iter([1]), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_what_was_not_timed_is_said_to_be_so():
    """Of short tasks every few are timed; what is between two of them is not called the user's own
    work.
    """

    def task(block, at, tasks):
        times = TaskTimes(0, at, at + 1, 0.0, 0.0, 4, 4, 32, 0.0, tasks)
        return TaskEvent(block, 1, 0, 4, (), at, at, at + 1, times)

    stage = _drained(0).stats().stages[1]
    tasks = (task(0, 0.0, 1), task(1, 2.0, 1), task(5, 8.0, 4))
    loop, worker = timeline(IteratorStats(6, 9.0, 3.0, 0, 0, stages=(stage,), tasks=tasks)).tracks
    assert [span.kind for span in loop.spans] == [
        "waiting",
        "own work",
        "waiting",
        "not timed",
        "waiting",
    ]
    assert [span.name for span in worker.spans if span.kind == "not timed"] == [
        "3 tasks that were not timed"
    ]


@pytest.mark.parametrize("place", ["nowhere/run.json", "."])
def test_a_place_that_cannot_be_written_is_one_clear_error(place, tmp_path, monkeypatch):
    """It names the file, the reason and the remedy."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        OutputError,
        match=r"cannot be written: .* Name a file in an existing folder that you may write to",
    ):
        headrace.write_perfetto(_drained(0), place)
    assert list(tmp_path.iterdir()) == []
