"""A loader has a figure in the comparison only if each record comes, once, and unspoiled."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import processes
import pytest
from libraries import Library
from loaders import records, run
from loaders.workloads import WORKLOADS

HERE = Path(__file__).parent
MNIST = replace(next(one for one in WORKLOADS if one.name == "mnist"), count=4000)
FAULTY = Library("faulty", "faulty_speed", "numpy")


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays `mnist` with few records, so that a second is several epochs, by a loader
    with a fault.
    """
    monkeypatch.setenv("PYTHONPATH", str(HERE / "planted"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def play(fault, seconds=0.0):
        monkeypatch.setenv("BENCH_FAULT", fault)
        return run.play(FAULTY, "faulty", MNIST, tmp_path, seconds, 0)

    return play


FAULTS = {
    "skips one": "1 of 100 records are lost",
    "skips half": "50 of 100 records are lost",
    "doubles one": "1 of 100 records are doubled",
    "one in place of another": "1 of 100 records are lost",
    "spoils one": "is spoiled",
    "does not convert": "a batch of uint8",
    "crops": "a batch of float32(100, 27, 28)",
    "does not shuffle": "not shuffled",
    "raises": "ValueError: this loader is broken",
    "dies": "the program ended",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.one_in(3)
def test_a_planted_fault_is_found_before_anything_is_measured(fault, played):
    """The cell says what is wrong, and has no figure."""
    found = played(fault)
    assert FAULTS[fault] in found["wrong"]
    assert "rate" not in found


def test_the_data_of_a_cell_are_in_its_folder_alone(played, tmp_path, monkeypatch):
    """Cells of one place would read one another's files; and the folder from which the command is
    called stays as it is.
    """
    called_from = tmp_path / "called from"
    called_from.mkdir()
    monkeypatch.chdir(called_from)
    assert played("")["wrong"] == ""
    assert not [*called_from.iterdir()]
    assert [each.name for each in tmp_path.iterdir() if each != called_from] == ["faulty-mnist-100"]


TIMED = {
    "timed: skips half": "records are lost",
    "timed: one batch": "records are doubled",
    "timed: short batches": "batches of 128 in place of 256",
    "timed: spoils one": "is spoiled",
    "timed: does not shuffle": "not shuffled",
}


@pytest.mark.parametrize("fault", TIMED)
@pytest.mark.long
def test_a_fault_that_is_there_only_while_the_clock_runs_is_found(fault, played):
    """It passes the check, and has no figure all the same."""
    assert played(fault)["wrong"] == ""
    assert TIMED[fault] in played(fault, 1.0)["wrong"]


@pytest.mark.long
def test_a_loader_that_hangs_has_no_figure(played, monkeypatch):
    """It is killed."""
    monkeypatch.setattr(run, "LIMIT", 3.0)
    assert played("hangs")["wrong"] == "a hang"


def test_what_a_loader_does_not_claim_is_not_played(played):
    """The cell has the sentence."""
    assert played("claims nothing")["unclaimed"] == "“It cannot.”"


@pytest.mark.long
def test_a_right_loader_has_a_figure(played):
    """The check finds nothing; then rate, first batch, processor and memory are there."""
    assert played("")["wrong"] == ""
    found = played("", 0.3)
    assert found["wrong"] == ""
    assert all(found[key] > 0 for key in ("rate", "first", "cpu", "memory"))


def test_a_cell_has_the_median_of_its_turns_unless_one_was_wrong():
    """One turn with a fault takes the figure away."""
    runs = [{"rate": rate, "first": 1, "cpu": 1, "memory": 1, "wrong": ""} for rate in (5, 1, 3)]
    assert run.summary(runs)["rate"] == 3
    assert run.summary([*runs, {"wrong": "a record is lost"}]) == {"wrong": "a record is lost"}


PROGRAM = """
import os, sys, time
block = bytearray(os.urandom(1)) * (64 << 20)
if not os.fork():
    while time.process_time() < 0.3:
        pass
    print("done", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.wait()
"""


def test_work_and_memory_of_child_processes_count_and_shared_memory_counts_once():
    """A child works for 0.3 s, and shares 64 MiB with its parent."""
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "start_new_session": True,
    }
    with subprocess.Popen([sys.executable, "-c", PROGRAM], **pipes) as program:
        assert program.stdout.readline() == "done\n"
        work, memory = processes.processor_seconds(program.pid), processes.memory(program.pid)
        program.stdin.write("\n")
    assert work >= 0.29
    assert 64 << 20 <= memory < 128 << 20


BATCHES = {
    "mnist": {"image": np.zeros((2, 28, 28), np.float32)},
    "bytes_1k": np.stack(
        [np.frombuffer(records.kilobyte(number), np.uint8) for number in range(2)]
    ),
    "tar": np.stack([np.frombuffer(records.kilobyte(number), np.uint8) for number in range(2)]),
    "jpeg": {"image": np.full((2, 224, 224, 3), 41, np.uint8), "number": np.arange(2)},
    "parquet": {"number": np.arange(2), "value": np.arange(2, dtype=np.float32) / 2},
    "packing": {"tokens": np.ones((2, records.ROW), np.int64)},
}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_the_numbers_that_a_check_keeps_do_not_keep_the_batch(workload):
    """Else the memory of all batches would count as that of the loader, the more the
    faster it is.
    """
    batch = BATCHES[workload.name]
    found = records.numbers(workload, batch)
    arrays = list(batch.values()) if isinstance(batch, dict) else [batch]
    assert not any(np.shares_memory(found, array) for array in arrays)


def test_results_of_both_commands_are_kept_in_one_file(tmp_path):
    """Figures are added to verdicts, and a cell that is played again takes the place of its own."""
    file = tmp_path / "results.json"
    file.write_text(
        json.dumps({"grain": {"cells": {"plain:middle": ["ok", ""]}, "versions": {"grain": "1"}}})
    )
    for rate in (1, 2):
        run.keep(
            file,
            {"grain": {"versions": {"numpy": "2"}, "speed": {"tar": {"rate": rate}}, "facts": {}}},
        )
    kept = json.loads(file.read_text())["grain"]
    assert kept["cells"] == {"plain:middle": ["ok", ""]}
    assert kept["speed"] == {"tar": {"rate": 2}}
    assert kept["versions"] == {"grain": "1", "numpy": "2"}
