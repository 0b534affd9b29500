"""What the user's process learns of its workers: their log, lines of code in tracebacks, why they
ended.
"""

from __future__ import annotations

import gc
import linecache
import logging
import os
import sys

import pytest

from headrace import load
from headrace.errors import DebuggerError, WorkerCrashedError
from headrace.loader import options
from headrace.loader.executors.processes.zygote import run_and_exit


def records(operation, **more):
    """Six records through an operation in a worker process."""
    return list(load(range(6), transformations=[operation], num_epochs=1, worker_count=1, **more))


def test_the_log_of_workers_arrives_in_the_handlers_of_the_program(caplog):
    """With the levels that the program gave its loggers, and with exceptions as text."""
    log = logging.getLogger("of the program")

    def operation(record):
        log.debug("not wanted")
        log.info("record %d", record)
        if record == 3:
            try:
                raise KeyError("inside")
            except KeyError:
                log.exception("caught", extra={"no": lambda: "pickle"})
        return record

    with caplog.at_level(logging.INFO, "of the program"):
        assert records(operation) == list(range(6))
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.INFO] == [
        f"record {number}" for number in range(6)
    ]
    (caught,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "KeyError: 'inside'" in caught.exc_text
    assert caught.name == "of the program"


def test_workers_collect_garbage_but_not_what_they_share():
    """The collector does not touch the pages of memory that all workers have in common. A loader
    that an operation begins knows that it is in a worker.
    """
    found = records(
        lambda record: (gc.isenabled(), gc.get_freeze_count() > 1000, options.INSIDE_A_TASK.get())
    )
    assert found == [(True, True, True)] * 6


@pytest.mark.slow
def test_tracebacks_of_workers_have_the_file_and_the_line_of_a_script(request):
    """Also of functions that are pickled by value."""

    def operation(record):
        raise ValueError("bad")  # this very line

    with pytest.raises(ValueError, match="bad") as caught:
        records(operation)
    assert "test_worker_reports.py" in str(caught.value.__cause__)
    assert 'raise ValueError("bad")  # this very line' in str(caught.value.__cause__)


@pytest.mark.slow
def test_tracebacks_of_workers_have_the_text_of_a_notebook_cell():
    """Its text is in no file; only the program has it."""
    text = "def operation(record):\n    raise ValueError('in a cell')  # line two\n"
    name = "<cell 7 of a notebook>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    cell = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), cell)
    with pytest.raises(ValueError, match="in a cell") as caught:
        records(cell["operation"])
    assert "# line two" in str(caught.value.__cause__)
    assert name in str(caught.value.__cause__)


@pytest.mark.slow
def test_breakpoint_in_a_worker_says_what_to_do():
    """A worker has no terminal."""

    def operation(record):
        breakpoint()

    with pytest.raises(DebuggerError, match="worker_count=0"):
        records(operation)


def test_the_text_of_sys_exit_is_in_the_error():
    """It says why the worker ended."""

    def operation(record):
        sys.exit("no licence for this data")

    with pytest.raises(WorkerCrashedError, match=r"exit code 1 \(no licence for this data\)"):
        records(operation)


@pytest.mark.parametrize(("code", "status"), [(None, 0), (7, 7), (256 + 7, 7), ("text", 1)])
def test_a_worker_ends_with_the_code_of_sys_exit(code, status, monkeypatch):
    """Its lowest eight bits; text is an error."""
    ends = []
    monkeypatch.setattr(os, "_exit", ends.append)
    run_and_exit(lambda: sys.exit(code))
    assert ends == [status]
