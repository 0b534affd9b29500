"""`bench/resume.py` finds each fault of a loader, and none where there is none; our own column is
right.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import resume
from resuming.cases import EVENTS, PIPELINES
from resuming.oracle import Page, Verdict, judge

ROOT = Path(__file__).parent.parent.parent
PIPELINE = [one.name for one in PIPELINES]
EVENT = [one.name for one in EVENTS]


def verdicts(adapter, *cells, fault="", seconds=40):
    """A verdict for each cell, as `resume.py` gives them."""
    paths = {"PYTHONPATH": str(Path(__file__).parent / "planted")}
    environment = os.environ | paths | {"BENCH_FAULT": fault, "BENCH_SECONDS": str(seconds)}
    command = [sys.executable, str(ROOT / "bench/resume.py"), "--play", adapter, *cells]
    text = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    return {
        line["cell"]: line["word"] for line in map(json.loads, text.splitlines()) if "cell" in line
    }


FAULTS = {
    "drops the last batch": ("plain:middle", "lost"),
    "forgets a shard": ("shuffle:each_step", "lost"),
    "skips one after resume": ("plain:middle", "lost"),
    "doubles one after resume": ("shuffle:batch_size", "doubled"),
    "state is a batch late": ("plain:kill_program", "doubled"),
    "both hosts read the same": ("plain:unequal_hosts", "doubled"),
    "swaps two after resume": ("map:end", "ok"),  # nothing is left to swap
    "swaps two after resume ": ("map:middle", "order"),
    "another shuffle each time": ("shuffle:timing", "doubled"),  # and as many are lost
    "hangs when resumed": ("plain:middle", "hang"),
    "a host has more": ("plain:unequal_hosts", "uneven"),
    "refuses states": ("plain:middle", "refused"),
    "swallows errors": ("plain:failing_record", "lost"),
    "claims nothing": ("plain:middle", "grey"),
    "added records come first": ("plain:data_grow", "doubled"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.one_in(6)
def test_a_planted_fault_is_found(fault):
    """By the cell that is about it."""
    cell, word = FAULTS[fault]
    assert verdicts(
        "faulty_resume", cell, fault=fault.strip(), seconds=2 if word == "hang" else 40
    ) == {cell: word}


def test_a_right_loader_is_right():
    """In each event but the death of a worker, as it has none."""
    events = [event for event in EVENT if event not in ("kill_worker", "hosts", "data_grow")]
    found = verdicts("faulty_resume", *(f"shuffle:{event}" for event in events))
    assert set(found.values()) == {"ok", "restart"}
    assert [cell for cell, word in found.items() if word == "restart"] == ["shuffle:failing_record"]


def test_an_epoch_more_may_drop_other_records():
    """A loader may begin the next epoch after the end; its last batch, which is dropped, has other
    records when shuffled.
    """
    pipeline, event = (
        next(one for one in all_ if one.name == name)
        for all_, name in ((PIPELINES, "drop"), (EVENTS, "end"))
    )

    def ledger(*legs):
        return [[Page([leg], "end", opened=True)] for leg in legs]

    first, second = list(range(96)), list(range(5, 101))
    assert judge(pipeline, event, ledger(first, second), ledger(first)).word == "ok"
    assert judge(pipeline, event, ledger(first, second[:90]), ledger(first)).word == "doubled"


def test_a_fault_that_has_nothing_to_do_with_the_event_is_told_so():
    """As where a loader fills its last batch up with a record that it has given already."""
    pipeline, event = PIPELINES[0], EVENTS[1]
    came = [[Page([[*range(96), 5]], "end", opened=True)]]
    assert (
        judge(pipeline, event, came, came).detail
        == "1 elements too often: 5; the same without the event"
    )


def test_records_are_added_in_a_file_of_their_own():
    """Files that a program has read are as they were, which this loader demands; records that were
    added are no fault.
    """
    assert verdicts("faulty_resume", "plain:data_grow") == {"plain:data_grow": "ok"}


def test_a_worker_death_is_judged_where_there_are_workers():
    """A loader without workers is grey there, and no pass."""
    assert verdicts("faulty_resume", "plain:kill_worker") == {"plain:kill_worker": "grey"}


@pytest.mark.long
def test_our_own_column():
    """Two cells that need processes; all of them with --long."""
    assert verdicts("headrace", "epochs_filter:workers", "mix:kill_program") == {
        "epochs_filter:workers": "ok",
        "mix:kill_program": "ok",
    }


@pytest.mark.long
@pytest.mark.parametrize("pipeline", PIPELINE)
def test_our_whole_column(pipeline):
    """All is right; only a window shuffle, which keeps the records that it was made with, refuses
    data that grew.
    """
    found = verdicts("headrace", *(f"{pipeline}:{event}" for event in EVENT))
    assert set(found.values()) <= {"ok", "restart", "refused"}
    refused = [cell for cell, word in found.items() if word == "refused"]
    assert refused == (["window:data_grow"] if pipeline == "window" else [])


def test_a_run_that_was_stopped_keeps_its_verdicts_and_goes_on(tmp_path, monkeypatch):
    """A later run with --go-on plays the other cells only."""
    file, played = tmp_path / "results.json", []

    def play(adapter, python, cells, versions, most):
        for cell in cells[:most]:
            played.append(cell)
            yield cell, Verdict("ok")
        raise RuntimeError("stopped")

    monkeypatch.setattr(resume, "python_of", lambda library: sys.executable)
    command = [
        "resume.py",
        "--loaders",
        "grain",
        "--events",
        "middle",
        "end",
        "--go-on",
        "--results",
        str(file),
    ]
    monkeypatch.setattr(sys, "argv", command)
    for most in (1, 100):
        monkeypatch.setattr(resume, "play", functools.partial(play, most=most))
        with pytest.raises(RuntimeError, match="stopped"):
            resume.main()
        assert list(json.loads(file.read_text())["grain"]["cells"]) == sorted(played)
    assert played == [
        f"{one.name}:{event}" for one in PIPELINES if one.small for event in ("middle", "end")
    ]


def test_cells_have_names_of_their_own():
    """20 pipelines and 12 events."""
    assert (len({*PIPELINE}), len({*EVENT})) == (20, 12)
