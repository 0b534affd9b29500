"""Workers where parts of Linux are missing, and where the user asks for the transport that needs
none of them.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.without import PARTS, folder_without, linux_only

import headrace
from headrace.loader.executors.processes.spawner import Spawner

PROGRAM = """
    import json, os, signal, sys
    import numpy as np
    import headrace
    from headrace.common.system import is_portable

    class DiesOnce:
        def __init__(self, marker):
            self.marker = marker

        def __call__(self, x):
            if x == 77 and not os.path.exists(self.marker):
                open(self.marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return np.full(3000, x)

    def loader(workers, *operations, batch=8):
        return headrace.DataLoader(
            data_source=range(400), sampler=headrace.IndexSampler(400, shuffle=True, seed=3, num_epochs=1),
            operations=[*operations, headrace.Batch(batch)], worker_count=workers)

    def firsts(batches):
        return [batch[:, 0].tolist() for batch in batches]

    whole = firsts(loader(0, DiesOnce(__file__)))
    marker = __file__ + ".died"
    ragged = (lambda x: np.full(3000, x), headrace.Filter(lambda x: x[0] % 3 > 0))
    iterator = iter(loader(2, DiesOnce(marker)))
    begun = [next(iterator)[:, 0].tolist() for _ in range(7)]
    state = iterator.get_state()
    iterator.close()
    resumed = iter(loader(3, DiesOnce(marker)))
    resumed.set_state(state)
    kept = list(loader(2, lambda x: np.full(300_000, x), batch=20))
    failed = ""
    try:
        list(loader(1, lambda x: 1 // (x - 5)))
    except ZeroDivisionError as error:
        failed = "divided"
    print(json.dumps({
        "portable": is_portable(),
        "same": begun + firsts(resumed) == whole,
        "died": os.path.exists(marker),
        "regrouped": firsts(loader(2, *ragged)) == firsts(loader(0, *ragged)),
        "kept": sorted(int(value) for batch in kept for value in batch[:, -1]) == list(range(400)),
        "failed": failed,
    }))
    """


def outcome(tmp_path: Path, **environment: str) -> dict:
    """What the program says of itself."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    told = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


AS_EVERYWHERE = {"died": True, "same": True, "regrouped": True, "kept": True, "failed": "divided"}


@pytest.mark.parametrize("parts", [PARTS, *[(part,) for part in PARTS]], ids=str)
@pytest.mark.long
def test_workers_do_without_what_only_linux_has(tmp_path, parts):
    """The stream is the same, through the death of a worker and a resume; large batches are kept,
    and errors come.
    """
    path = os.pathsep.join([str(folder_without(parts, tmp_path)), os.environ.get("PYTHONPATH", "")])
    is_portable = parts != ("os.sched_getaffinity",)
    assert outcome(tmp_path, PYTHONPATH=path) == {"portable": is_portable, **AS_EVERYWHERE}


class Sent:
    """A channel that keeps what is sent."""

    def send(self, message, descriptors):
        (self.descriptor,) = descriptors


def test_the_end_of_a_worker_is_open_here_until_the_worker_has_it(monkeypatch):
    """Else a Mac may end that socket while it is under way (nodejs/node#7512)."""
    monkeypatch.setenv("HEADRACE_TRANSPORT", "portable")
    spawner = Spawner()
    spawner.channel = Sent()
    spawner.spawn(0)
    os.fstat(spawner.channel.descriptor)
    spawner.arrived(0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(spawner.channel.descriptor)
    spawner.forget(0)
    spawner.spawn(1)
    spawner.forget(1)  # it ended before it had it
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(spawner.channel.descriptor)


@linux_only
@pytest.mark.slow
def test_workers_that_have_begun_have_one_socket_each_here(monkeypatch):
    """Their own ends are closed with their first word."""

    def sockets():
        return sum(path.is_socket() for path in Path("/proc/self/fd").iterdir())

    monkeypatch.setenv("HEADRACE_TRANSPORT", "portable")
    before = sockets()
    with iter(headrace.load(range(8), batch_size=4, num_epochs=1, worker_count=1)) as iterator:
        next(iterator)
        assert sockets() == before + 2  # of the worker, and of the process that makes workers


ORPHAN = """
    import os, sys, time
    if "worker" in sys.orig_argv:  # boots slowly: when it looks for its parent, that is gone
        parent = os.getppid()
        open(os.environ["ORPHAN"], "w").write(str(os.getpid()))
        while os.getppid() == parent:
            time.sleep(0.01)
    """
STUCK = """
    import os, signal, time
    import psutil, headrace

    def wait_for(ready):
        while not ready():
            time.sleep(0.01)

    def begin_slowly(index, count):
        time.sleep(60)

    stream = headrace.MapDataset.source(range(8)).to_iter_dataset().batch(4).mp_prefetch(1, begin_slowly)
    with iter(stream) as iterator:
        iterator.start_prefetch()
        note = os.environ["ORPHAN"]
        wait_for(lambda: os.path.exists(note) and os.path.getsize(note))
        worker = psutil.Process(int(open(note).read()))
        worker.parent().kill()
        try:
            worker.wait(20)
            print("ended")
        except psutil.TimeoutExpired:
            print("left behind")
            worker.kill()
        os.kill(os.getpid(), signal.SIGKILL)  # the next worker waits for an end of its parent, too
    """


@pytest.mark.long
def test_a_worker_ends_whose_maker_was_killed_while_it_booted(tmp_path):
    """Also if that was before it could look who its parent is, and the user's code would keep it
    for long.
    """
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(ORPHAN))
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(STUCK))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {
        "HEADRACE_TRANSPORT": "portable",
        "PYTHONPATH": path,
        "ORPHAN": str(tmp_path / "pid"),
    }
    told = subprocess.run(
        [sys.executable, "-u", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert told.stdout == "ended\n", told.stderr


def test_an_unknown_transport_is_refused(monkeypatch):
    """The message says what there is."""
    monkeypatch.setenv("HEADRACE_TRANSPORT", "fast")
    with pytest.raises(
        ValueError,
        match="HEADRACE_TRANSPORT='fast' is not a known value\\. Set the variable to \"portable\"",
    ):
        next(iter(headrace.load(range(8), batch_size=4, worker_count=1)))
