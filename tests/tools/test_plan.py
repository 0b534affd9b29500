"""`headrace plan`: how many workers and nodes hide the work of a step, held against a simulation
and against workers.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated import simulated_step

import headrace
from headrace.tools.command_line import main
from headrace.tools.diagnosis.diagnose import work_alone
from headrace.tools.diagnosis.judging.estimates import worker_seconds
from headrace.tools.plan import Machines, Needs, Plan, step_seconds

COMMANDS = Path(__file__).parent.parent.parent / "docs" / "api" / "command-line.md"

NEEDS = st.builds(
    lambda work, share, nbytes, step: Needs(work, work * share, nbytes, step),
    st.floats(1e-3, 2.0),
    st.floats(0.1, 1.0),
    st.floats(1e3, 1e8),
    st.floats(5e-3, 0.5),
)
MACHINES = st.builds(Machines, st.integers(1, 16), st.integers(2, 64), st.floats(1e8, 1e11))


@pytest.mark.slow
@given(NEEDS, MACHINES)
def test_a_plan_hides_the_work_in_a_simulation(needs, machines):
    """A step is as long as the plan says, within 5 %, though tasks vary by half of their length."""
    plan = Plan.of(needs, machines)
    if plan.workers > 400:
        return
    assert (
        simulated_step(needs, machines, plan.workers, plan.nodes, 4 * plan.workers + 400)
        <= 1.05 * plan.seconds
    )
    if plan.hidden:
        assert plan.seconds == needs.step + needs.hand_over
    assert str(plan).startswith(plan.sentence)
    assert len(plan.sentence) < 300


@pytest.mark.slow
@given(NEEDS, MACHINES, st.integers(1, 40), st.integers(0, 4))
def test_the_length_of_a_step_is_that_of_a_simulation(needs, machines, workers, nodes):
    """With any number of workers and nodes, where tasks are alike."""
    cores = machines.cores_per_node * nodes or machines.cores
    expected = step_seconds(needs, machines, min(workers, cores), nodes)
    simulated = simulated_step(needs, machines, min(workers, cores), nodes, 400, spread=0.0)
    assert simulated == pytest.approx(expected, rel=0.1)


def test_fewer_workers_than_planned_make_the_step_wait():
    """Half of them make it twice as long, on nodes as on this machine."""
    needs = Needs(work=1.0, processor=1.0, nbytes=1e6, step=0.05)
    for machines in (Machines(64, 8, 1e9), Machines(4, 8, 1e9)):
        plan = Plan.of(needs, machines)
        assert plan.hidden
        assert simulated_step(needs, machines, plan.workers // 2, plan.nodes) > 1.7 * plan.seconds


def test_work_that_has_room_here_needs_no_nodes():
    """And what waits, needs workers, not cores."""
    here = Plan.of(Needs(work=1.0, processor=0.01, nbytes=1e6, step=0.05), Machines(1, 8, 1e9))
    assert (here.workers, here.nodes, here.hidden) == (22, 0, True)
    assert "22 workers hide the work of a step of 50.0 ms, on this machine." in str(here)
    one = Plan.of(Needs(work=0.01, processor=0.01, nbytes=1e6, step=0.05), Machines(1, 8, 1e9))
    assert "1 worker hides the work of a step of 50.0 ms, on this machine." in str(one)


def test_a_network_that_is_too_slow_is_told():
    """With what a batch takes on it."""
    plan = Plan.of(Needs(work=1.0, processor=1.0, nbytes=1e8, step=0.05), Machines(1, 8, 1e9))
    assert not plan.hidden
    assert plan.sentence.startswith(
        "The network is too slow for a step of 50.0 ms: a batch of 100.0 MB takes 100 ms"
    )


PROGRAM = """
import time, headrace

def fetch(x):
    time.sleep(0.002)
    return x

loader = headrace.load(range(10_000), transformations=[fetch], batch_size=5, worker_count=2)
"""


def test_the_command_measures_a_program_and_prints_a_plan(tmp_path, capsys):
    """The first line says how many workers; the second what a batch takes, in one thread whatever
    the loader's workers.
    """
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    assert main(["plan", str(path), "--step-seconds", "0.005", "--steps", "5"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert "hide the work of a step of 5.0 ms" in first
    assert second.startswith("Measured: a batch of 5 records (40 B) takes ")
    assert main(["plan", str(path) + ":nothing", "--step-seconds", "0.005"]) == 2
    assert (
        "has no name nothing at its top level. Name one of its loaders, loader"
        in capsys.readouterr().err
    )
    for option in (["--cores", "0"], ["--step-seconds", "-1"], ["--bandwidth", "x"]):
        with pytest.raises(SystemExit):
            main(["plan", str(path), "--step-seconds", "1", *option])


WRONG = ["-1", "0", "nan", "inf", "x", "1e400"]


@pytest.mark.parametrize("option", ["--bandwidth", "--step-seconds", "--seconds"])
def test_numbers_that_mean_nothing_are_refused_by_their_unit(option, tmp_path, capsys):
    """A bandwidth is no number of seconds."""
    for text in WRONG:
        with pytest.raises(SystemExit):
            main(["plan", str(tmp_path / "train.py"), "--step-seconds", "1", option, text])
        unit = "Gbit/s, such as 10" if option == "--bandwidth" else "seconds, such as 0.05"
        assert (
            f"argument {option}: '{text}' is not a finite number above 0. Pass a number of {unit}."
            in capsys.readouterr().err
        )


@pytest.mark.parametrize("option", ["--cores", "--cores-per-node", "--steps"])
def test_counts_that_mean_nothing_are_refused(option, tmp_path, capsys):
    """With the smallest one that means something."""
    for text in (*WRONG, "2.5"):
        with pytest.raises(SystemExit):
            main(["plan", str(tmp_path / "train.py"), "--step-seconds", "1", option, text])
        assert f"Pass {3 if option == '--steps' else 1} or more." in capsys.readouterr().err


def test_a_plan_comes_as_json(tmp_path, capsys):
    """What the words say, as numbers, with the keys that the docs name."""
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    assert (
        main(
            ["plan", str(path), "--step-seconds", "0.005", "--steps", "5", "--cores", "3", "--json"]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    (line,) = (
        line for line in COMMANDS.read_text().splitlines() if line.startswith("| `plan --json`")
    )
    assert set(told) == set(re.findall(r"`(\w+)`", line.split("|")[2]))
    assert (told["machines"]["cores"], told["needs"]["step"], told["records"]) == (3, 0.005, 5)
    assert f"{told['workers']} worker" in told["sentence"]


@pytest.mark.slow
@given(NEEDS, MACHINES)
def test_json_and_words_tell_the_same_steps(needs, machines):
    """One entry for each line of the table."""
    plan = Plan.of(needs, machines)
    told = json.loads(json.dumps(plan.to_dict()))
    lines = str(plan).partition("Waits by number of workers:\n")[2].splitlines()
    assert [int(line.split()[0]) for line in lines] == [each["workers"] for each in told["steps"]]
    assert [each["nodes"] for each in told["steps"]] == list(range(len(lines)))
    assert all(
        each["seconds"] >= needs.step and 0 <= each["share_waited"] <= 1 for each in told["steps"]
    )


def test_workers_are_planned_from_the_work_that_a_loader_shows():
    """Eight records of 10 ms in a step of 20 ms: 4 workers at least."""

    def fetch(number):
        time.sleep(0.01)
        return number

    work = work_alone(headrace.load(range(10_000), transformations=[fetch], batch_size=8), 10, 20)
    assert work.work >= 0.08
    assert (
        Plan.of(Needs(work.work, work.processor, work.nbytes, 0.02), Machines(64, 64, 1e9)).workers
        >= 4
    )


class Waits:
    """A source whose reads take 10 ms, and no processor."""

    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        time.sleep(10e-3)
        return key


@pytest.mark.long
def test_a_plan_counts_on_the_reads_that_a_worker_has_under_way():
    """Not on one at a time, as they are measured: 32 reads of 10 ms are 20 ms of a worker that has
    16 under way.
    """
    loop = work_alone(headrace.load(Waits(), batch_size=32), 3, 10.0)
    assert loop.work >= 0.32
    assert worker_seconds(loop) < loop.work / 8
    alone = headrace.load(Waits(), batch_size=32, read_options=headrace.ReadOptions(num_threads=0))
    loop = work_alone(alone, 3, 10.0)
    assert worker_seconds(loop) == loop.work
