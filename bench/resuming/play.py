"""Run cells of the comparison of resuming in a loader's own environment.

    python resume.py --play ADAPTER PIPELINE:EVENT …

Prints a line of JSON for each cell, with its verdict, which compares two ledgers: what came out of
a run with the event, and of one without it. Needs only Python and what the adapter imports. Each
leg of a run, and each host, is a process of its own, with a time limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import filecmp
import functools
import importlib.metadata
import json
import os
import pickle
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from libraries import adapter_of
from resuming.cases import EVENTS, PIPELINES, Event, Leg, Pipeline
from resuming.oracle import Ledger, Page, Verdict, judge
from resuming.program import Run, Touch

SECONDS = float(os.environ.get("BENCH_SECONDS", "40"))
"""The longest that a leg may take; a hang is what takes longer."""


def play(adapter: Any, pipeline: Pipeline, event: Event) -> Verdict:
    """Judge a cell by two ledgers, with the event and without it."""
    pipeline = pipeline.with_records(event.more)
    first = event.legs[0]
    plain = Leg(workers=first.workers, hosts=first.hosts if event.alike else 1)
    reshaped = len({(leg.workers, leg.hosts, leg.batch) for leg in event.legs}) > 1
    # with the same settings
    quiet = Event(event.name if reshaped else "", "", (plain,), alike=event.alike)
    reference = _ledger(adapter, pipeline, quiet)
    ledger = _ledger(adapter, pipeline, event, len(reference[0][0].steps))
    return judge(pipeline, event, ledger, reference)


@functools.cache  # so that events share a run to which nothing happened
def _ledger(adapter: Any, pipeline: Pipeline, event: Event, length: int = 0) -> Ledger:
    legs: Ledger = []
    written, states = -1, []
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for number, leg in enumerate(event.legs):
            if leg.spare and legs[-1][0].end == "end":
                break
            if leg.stop == -1:
                leg = dataclasses.replace(leg, stop=length)
            if leg.more != written:
                _write(adapter, pipeline.with_file(leg.more), folder)
                written = leg.more
            _begin(pipeline, leg, folder)
            loaded, touch = [pickle.loads(state) for state in states] or None, Touch(name)
            run = Run(pipeline, folder / "data", leg, 0, touch, loaded, event)
            runs = [dataclasses.replace(run, host=host) for host in range(leg.hosts)]
            legs.append(_pages(adapter, runs, folder / str(number)))
            if any(page.end == "hang" for page in legs[-1]):
                break
            last = [f"{host}-{len(page.steps)}" for host, page in enumerate(legs[-1]) if page.steps]
            states = [(folder / f"{number}/{one}.state").read_bytes() for one in last] or states
    return legs


def _begin(pipeline: Pipeline, leg: Leg, folder: Path) -> None:
    """Tell `Touch` what the leg does to records."""
    shutil.rmtree(folder / "pids", ignore_errors=True)
    (folder / "pids").mkdir()
    middle = pipeline.records()[0][-1]
    fails = middle[len(middle) // 2 + 1] if leg.fail else -1
    told = {"fails": fails, "noise": leg.noise, "slow": 0.003 if leg.kill else 0}
    (folder / "leg.json").write_text(json.dumps(told))


def _pages(adapter: Any, runs: list[Run], folder: Path) -> list[Page]:
    """All hosts of a leg, at the same time."""
    folder.mkdir()
    in_time = _in_children([functools.partial(_host, adapter, run, folder) for run in runs])
    pages = [_page(folder / f"{run.host}.jsonl") for run in runs]
    for page, done in zip(pages, in_time):
        page.end = page.end if done else "hang"
    return pages


def _host(adapter: Any, run: Run, folder: Path) -> None:
    """One host: writes each batch down, after its state."""
    with (folder / f"{run.host}.jsonl").open("w", buffering=1) as lines:

        def write(**line: Any) -> None:
            lines.write(json.dumps(line) + "\n")

        stream = None
        try:
            stream = adapter.stream(run)
            step = 0
            while run.leg.stop is None or step < run.leg.stop:
                batch = next(stream, None)
                write(opened=True)
                if batch is None:
                    write(end="end")
                    break
                step += 1
                state = stream.state()
                (folder / f"{run.host}-{step}.state").write_bytes(pickle.dumps(state))
                write(step=[int(number) for number in batch])
                if step == 3 and run.leg.kill and not _kill(run, folder, stream):
                    write(end="no worker")
                    break
                if run.leg.reopen:
                    _close(stream)
                    states = [pickle.loads(pickle.dumps(state))]
                    stream = adapter.stream(dataclasses.replace(run, states=states))
            else:
                write(end="stop")
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[-1].line
            # the error may hold the trace of a worker
            told = f"{type(error).__name__}: {error}{'' if str(error) else f'in `{line}`'}"
            write(end="error", message=told if len(told) < 400 else f"{told[:100]} … {told[-300:]}")
        _close(stream)


def _close(stream: Any) -> None:
    with contextlib.suppress(Exception):
        getattr(stream, "close", lambda: None)()


def _kill(run: Run, folder: Path, stream: Any) -> bool:
    """Kills the program, or a worker; whether there was one."""
    if run.leg.kill == "program":
        next(stream, None)  # a batch for which no state is saved
        os.kill(os.getpid(), signal.SIGKILL)
    workers = {int(path.name) for path in (folder.parent / "pids").iterdir()} - {os.getpid()}
    if workers:
        os.kill(workers.pop(), signal.SIGKILL)
        return True
    return False


def _page(file: Path) -> Page:
    page = Page()
    for text in file.read_text().splitlines() if file.exists() else ():
        line = json.loads(text)
        page.opened = page.opened or "opened" in line
        if "step" in line:
            page.steps.append(line["step"])
        page.end, page.message = line.get("end", page.end), line.get("message", page.message)
    return page


def _write(adapter: Any, pipeline: Pipeline, folder: Path) -> None:
    """Write the records elsewhere, and copy new and changed files, and no others, to `data`."""
    made = Path(tempfile.mkdtemp(dir=folder))

    def work() -> None:
        adapter.write(pipeline.records(), made)
        shutil.copytree(made, folder / "data", copy_function=_copy_if_new, dirs_exist_ok=True)
        (made / "written").touch()

    _in_children([work])
    if not (made / "written").exists():
        name = adapter.__name__
        raise RuntimeError(f"{name} has not written its files; BENCH_ERRORS=FILE keeps its errors")


def _copy_if_new(file: str, to: str) -> None:
    if not os.path.exists(to) or not filecmp.cmp(file, to, shallow=False):
        shutil.copy2(file, to)


def _in_children(works: list[Callable[[], None]]) -> list[bool]:
    """Each in a process group of its own, which is killed in the end; whether it was in time."""
    children = [_child(work) for work in works]
    until, in_time = time.monotonic() + SECONDS, []
    for child in children:
        while not (ended := _ended(child)) and time.monotonic() < until:
            time.sleep(0.01)
        in_time.append(ended)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return in_time


def _ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    os.setsid()
    errors = os.environ.get("BENCH_ERRORS", os.devnull)
    with open(os.devnull) as nothing, open(errors, "a") as kept:
        os.dup2(nothing.fileno(), 0)
        os.dup2(kept.fileno(), 1)
        os.dup2(kept.fileno(), 2)
    try:
        work()
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def play_all(name: str, cells: list[str]) -> None:
    """Play the cells of an adapter."""
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for workers
    adapter = adapter_of(name)
    pipelines, events = ({one.name: one for one in all_} for all_ in (PIPELINES, EVENTS))
    versions = {package: importlib.metadata.version(package) for package in adapter.PACKAGES}
    print(json.dumps({"versions": versions | {"Python": platform.python_version()}}), flush=True)
    for cell in cells:
        name, _, happens = cell.partition(":")
        pipeline, event = pipelines[name], events[happens]
        sentence = adapter.unclaimed(pipeline, event)
        verdict = Verdict("grey", sentence) if sentence else play(adapter, pipeline, event)
        print(json.dumps({"cell": cell} | dataclasses.asdict(verdict)), flush=True)
