"""The first line, the table, the JSON and the page of a verdict tell the same: numbers, rounding
and finding.
"""

from __future__ import annotations

import dataclasses
import html
import json
import re

import pytest
from support.measured_runs import LOOP, RECORDED, STORE, measured_store, recorded_run

import headrace
from headrace.reporting.machine import processors, taken_by_others
from headrace.reporting.recording import Recording
from headrace.reporting.report import page
from headrace.tools.command_line import main
from headrace.tools.diagnosis.diagnosis import Diagnosis
from headrace.tools.diagnosis.measuring import Look, of_all_loops

LOOPS = {
    **{name: recorded_run(name) for name in RECORDED},
    "a store": measured_store(),
    "a store, beside a step": dataclasses.replace(
        measured_store(workers=2), elapsed=0.05, waited=0.0326, step_known=True
    ),
    "a store with a limit": dataclasses.replace(
        measured_store(), read_seconds=32 * 80e-3, elapsed=0.16, waited=0.16, unready=0.16
    ),
    "epochs": dataclasses.replace(
        LOOP, waited=0.0295, unready=0.0292, starting=0.02, loops=8, loops_alike=8, steps=96
    ),
    "rows": dataclasses.replace(LOOP, records=0.256, rows=256),
    "a busy machine": dataclasses.replace(LOOP, others=1.4, cores=2),
}


@pytest.fixture(scope="module")
def recording():
    """Of a loop that ran."""
    with iter(headrace.load(range(40), batch_size=4, num_epochs=1)) as batches:
        list(batches)
        return Recording.of(batches)


@pytest.mark.slow
@pytest.mark.one_in(18)
@pytest.mark.parametrize("name", LOOPS)
def test_sentence_table_json_and_page_agree(name, recording):
    """The share that is waited, the length of a step, the finding, and what its cure gives."""
    diagnosis = Diagnosis.of(LOOPS[name])
    first, *lines = str(diagnosis).splitlines()
    text = "\n".join(lines)
    waited = re.search(r"waited in next\(\) +\S+ \S+ +(\d+)%", text).group(1)
    step = re.search(r"^A step of (\S+ \S+)", text, re.MULTILINE).group(1)
    if diagnosis.measured.step_known:
        assert f"waits {waited} % of its time" in first
    else:
        assert f"one every {step}: " in first
    _told_gain_is_listed(first, text)
    plain = json.loads(json.dumps(diagnosis.to_dict()))
    assert plain["sentence"] == first
    assert plain["finding"]["kind"] == diagnosis.finding.kind
    assert f"{plain['measured']['waited'] / plain['measured']['elapsed']:.0%}" == f"{waited}%"
    shown = html.unescape(page(recording, str(diagnosis)))
    assert f"<h1>{first}</h1>" in shown
    said, _, table = text.strip().partition("\n\n")
    assert f"<p>{said}</p>" in shown
    assert f"<pre>{table}</pre>" in shown
    assert "What to do:" not in shown  # that is the advice of stats(), on other steps


def _told_gain_is_listed(first, text):
    gain = re.search(r"would give (\S+) times the batches", first)
    if gain is not None:
        assert f": {gain.group(1)} times the steps" in text


def test_parts_of_the_waiting_add_up_to_it():
    """The start of workers, what workers take, and the hand-over."""
    text = str(Diagnosis.of(LOOPS["epochs"]))
    rows = dict(re.findall(r"^  +(waited in next\(\)|for [a-z -]+?) +(\S+) ms", text, re.MULTILINE))
    assert float(rows.pop("waited in next()")) == pytest.approx(29.5)
    assert sum(map(float, rows.values())) == pytest.approx(
        29.5 if len(rows) == 3 else 29.2, abs=0.2
    )


def test_workers_that_begin_in_every_loop_are_the_finding():
    """With one loop, or none of the workers, as the cure; its effect is what is left of a step."""
    diagnosis = Diagnosis.of(LOOPS["epochs"])
    assert diagnosis.finding.kind == "start"
    assert diagnosis.sentence.startswith(
        "Your step waits 98 % of its time: its workers start again for each of 8 loops of 12 "
        "steps, which takes 240 ms; one loop over all epochs (num_epochs=) would "
    )
    assert (
        "worker_count=0, where nothing has to begin" in str(diagnosis)
        or diagnosis.measured.work > 0.03
    )
    less = dataclasses.replace(diagnosis.measured, starting=0.005)
    assert Diagnosis.of(less).finding.kind == "operation"


def test_steps_of_all_loops_are_counted_with_the_start_of_their_workers():
    """Two loops of 10 steps, of 1 s each: 0.8 s of it is waited, of which workers begin
    for 0.5 s.
    """

    def look(at, steps, elapsed, waited, tasks=()):
        stats = headrace.loader.stats.IteratorStats(steps, elapsed, waited, 2, 0, tasks=tasks)
        return Look(at, 0.0, stats, stats)

    class Times:
        began = 10.5

    class First:
        block, asked, times = 0, 10.0, Times

    pair = look(10.0, 0, 0.0, 0.0), look(11.0, 10, 1.0, 0.8, (First,))
    longest = dataclasses.replace(LOOP, waited=0.02, unready=0.01, own_processor=0.4)
    found = of_all_loops(longest, [pair, pair])
    assert (found.steps, found.loops_alike) == (20, 2)
    assert (found.elapsed, found.waited, found.starting) == pytest.approx((0.1, 0.08, 0.05))
    assert found.unready == pytest.approx(0.05 + 0.5 * 0.03)
    # that of making workers is no part of what is left without it
    assert found.own_processor == pytest.approx(0.02)


EPOCHS = """
import headrace

def decode(x):
    return x + 0 * sum(range(1000))

loader = headrace.load(range(24), transformations=[decode], batch_size=2, num_epochs=1, worker_count=1)
for epoch in range(5):
    for batch in loader:
        pass
"""


@pytest.mark.long
def test_a_program_of_short_epochs_is_told_what_its_loops_wait_for(tmp_path, capsys):
    """Of all of them together: the start of workers is in the first line and in the table."""
    (tmp_path / "train.py").write_text(EPOCHS)
    assert main(["bench", str(tmp_path / "train.py"), "--steps", "1000", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    loop = told["measured"]
    assert (loop["steps"], loop["loops_alike"], loop["start"]) == (60, 5, 0.0)
    assert 0 < loop["starting"] <= loop["unready"] <= loop["waited"] <= loop["elapsed"]
    assert told["finding"]["kind"] == "start"


def test_a_machine_that_other_programs_keep_busy_is_told_as_such():
    """In the second line, with how much they took; a quiet one is not."""
    assert "It is busy: other programs took 1.4 of these meanwhile" in str(
        Diagnosis.of(LOOPS["a busy machine"])
    )
    assert "busy" not in str(Diagnosis.of(dataclasses.replace(LOOP, others=0.1, cores=2)))


@pytest.mark.slow
def test_what_this_program_and_its_workers_take_is_not_others():
    """Work in worker processes counts as our own, while they run and when they have ended."""
    before = processors()
    if before is None:
        pytest.skip("the system does not tell")
    with iter(
        headrace.load(range(40), transformations=[_busy], num_epochs=1, worker_count=1)
    ) as batches:
        assert len(list(batches)) == 40
        during = processors()
    after = processors()
    for now in (during, after):
        assert now.own - before.own > 0.3  # of 0.4 s, counted in hundredths
        assert taken_by_others(before, now) <= (now.busy - before.busy) / (now.at - before.at)


def _busy(number):
    import time

    until = time.thread_time() + 10e-3
    while time.thread_time() < until:
        pass
    return number


@pytest.mark.slow
def test_the_store_of_these_tests_is_what_a_loader_tells():
    """The facts of a source that reads one record at a time, as the arithmetic expects them."""

    class Store:
        def __len__(self):
            return 1000

        def __getitem__(self, key):
            import time

            time.sleep(2e-3)
            return key

    source = headrace.diagnose(headrace.load(Store(), batch_size=8), steps=10).measured.source
    assert (source.reads, source.threads, source.buffer, source.singly) == (
        STORE.reads,
        STORE.threads,
        STORE.buffer,
        STORE.singly,
    )
    assert source.random >= 2e-3
