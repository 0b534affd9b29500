"""`headrace.progress`: a line for who watches, and the iterator itself for the program."""

from __future__ import annotations

import asyncio
import io
import itertools
import re

import pytest

import headrace
from headrace import MapDataset, load


class Terminal(io.StringIO):
    """A file that is a terminal."""

    def isatty(self):
        return True


def _last_line(file):
    return file.getvalue().replace("\n", "\r").rstrip("\r").rpartition("\r")[2]


def test_the_line_tells_rates_waits_and_the_epoch():
    """When the loop has ended: of all of it."""
    file = Terminal()
    loader = load(range(40), batch_size=4, num_epochs=2)
    assert len(list(headrace.progress(iter(loader), description="train", file=file))) == 20
    line = _last_line(file)
    assert line.startswith("train: 100%")
    assert "20/20" in line
    assert re.search(r"step/s, [\d,]+ records/s, [\d.]+ [kM]?B/s, waited [\d.]+%, epoch 1\]", line)


def test_without_a_terminal_there_is_no_line():
    """A log is not filled; with disable=False it is written all the same."""
    quiet, told = io.StringIO(), io.StringIO()
    loader = load(range(8), num_epochs=1)
    assert list(headrace.progress(loader, file=quiet)) == list(range(8))
    assert list(headrace.progress(loader, file=told, disable=False)) == list(range(8))
    assert quiet.getvalue() == ""
    assert "8/8" in told.getvalue()


def test_it_stands_in_the_iterators_place():
    """Length, state, questions, prefetch, context and close are the iterator's; the line goes on
    from a state.
    """
    file = Terminal()
    loader = load(range(100), batch_size=5, num_epochs=1)
    with headrace.progress(iter(loader), file=file) as steps:
        steps.start_prefetch()
        list(itertools.islice(steps, 7))
        state = steps.get_state()
        assert (len(steps), steps.step, steps.stats().steps, steps.last_records().tolist()[0]) == (
            20,
            7,
            7,
            30,
        )
        expected = [batch.tolist() for batch in steps]
        steps.set_state(state)
        assert [batch.tolist() for batch in steps] == expected
        steps.load_state_dict(steps.state_dict())
        assert next(steps, None) is None
    with pytest.raises(headrace.errors.ClosedError):
        next(steps)
    assert "35%" in file.getvalue()
    assert "20/20" in _last_line(file)


def test_an_error_of_the_users_passes_and_the_loop_goes_on():
    """As without the line: the next `next` tries again."""

    def fails_once(number, failed=[]):  # noqa: B006
        if number == 2 and not failed:
            failed.append(number)
            raise ValueError("mine")
        return number

    steps = headrace.progress(
        iter(load(range(4), transformations=[fails_once], num_epochs=1)), file=Terminal()
    )
    assert [next(steps), next(steps)] == [0, 1]
    with pytest.raises(ValueError, match="mine"):
        next(steps)
    assert list(steps) == [2, 3]


def test_it_takes_what_can_be_iterated():
    """Endless chains and iterators that are not of headrace too: without what they do not tell."""
    file = Terminal()
    steps = headrace.progress(MapDataset.range(3).repeat(), file=file)
    assert list(itertools.islice(steps, 4)) == [0, 1, 2, 0]
    steps.close()
    assert "epoch 1" in _last_line(file)
    assert list(headrace.progress(iter("abc"), file=file)) == ["a", "b", "c"]
    assert "3step" in _last_line(file)


def test_each_epoch_of_a_loop_per_epoch_has_a_line_of_its_own():
    """From nothing to its length, though steps are counted over all epochs; after a restore, from
    where it goes on.
    """
    epochs = load(range(5), batch_size=2).epochs(2)
    for epoch in epochs:
        file = Terminal()
        steps = headrace.progress(epoch, file=file)
        assert sum(1 for _ in steps) == 3
        assert " 3/3 [" in _last_line(file)
        assert f"epoch {epochs.epoch - 1}]" in _last_line(file)
    other = load(range(5), batch_size=2).epochs(2)
    next(other), next(next(other))
    going_on = load(range(5), batch_size=2).epochs(2)
    going_on.set_state(other.get_state())
    file = Terminal()
    assert sum(1 for _ in headrace.progress(next(going_on), file=file)) == 2
    assert " 1/3 [" in file.getvalue()


def test_on_devices_the_line_is_of_the_feeder():
    """Records are those that the host has read."""
    jax = pytest.importorskip("jax")
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    file = Terminal()
    feeder = iter(load(range(40), batch_size=4, num_epochs=1).to_device(sharding))
    with headrace.progress(feeder, file=file) as steps:
        assert sum(1 for _ in steps) == 10
    assert "10/10" in _last_line(file)
    assert "records/s" in _last_line(file)


@pytest.mark.long
def test_in_a_notebook_there_is_a_line():
    """Where standard error is no terminal, and a reader sees it all the same."""
    import nbformat
    from nbclient import NotebookClient

    code = (
        "import headrace\nfor _ in headrace.progress(headrace.load(range(8), num_epochs=1)): pass"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    # `execute` would leave its loop open
    asyncio.run(NotebookClient(notebook, timeout=60).async_execute())
    assert "8/8" in str(notebook.cells[0].outputs)
