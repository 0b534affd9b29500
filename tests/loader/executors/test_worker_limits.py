"""Workers that die while they hand over, that run out of memory, and what is left after
many runs.
"""

import asyncio
import gc
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from support import leaks
from support.own_processes import everything, workers
from support.pipelines import chosen, loader, stream
from support.without import linux_only

import headrace
from headrace import Batch, DataLoader, IndexSampler
from headrace.loader.executors.processes.channel import Channel, Done


def run_program(text: str, folder: Path, *prefix: str, timeout: float = 120) -> str:
    """Run a program; its standard output."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    result = subprocess.run(
        [*prefix, sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


class DiesAtHandOver:
    """A map whose worker kills itself, once in all, when it hands over its second answer."""

    def __init__(self, marker: Path, number: int, sends_first: bool) -> None:
        self.marker, self.number, self.sends_first = marker, number, sends_first
        self.armed = False

    def __call__(self, x):
        if not self.armed:
            self.armed = True
            self._arm()
        return x

    def _arm(self) -> None:
        send, answers = Channel.send, []

        def send_and_die(channel, message, descriptors=()):
            answers.append(message)
            last = isinstance(message, Done) and len(answers) == 2 and not self.marker.exists()
            if last:
                self.marker.touch()
            if self.sends_first or not last:
                send(channel, message, descriptors)
            if last:
                os.kill(os.getpid(), self.number)
                time.sleep(60)

        Channel.send = send_and_die


@pytest.mark.one_in(6)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
@pytest.mark.parametrize(
    "sends_first", [True, False], ids=["after the answer", "before the answer"]
)
@pytest.mark.slow
def test_a_worker_killed_while_it_hands_over_changes_nothing(number, sends_first, tmp_path):
    """An answer that was sent counts, and one that was not is worked out again."""
    marker = tmp_path / "died"
    dies = DiesAtHandOver(marker, number, sends_first)

    def opened(operations, **more):
        sampler = IndexSampler(60, num_epochs=1, shuffle=True, seed=5)
        return DataLoader(data_source=range(60), sampler=sampler, operations=operations, **more)

    rows = [lambda x: np.full(500, x), headrace.Filter(lambda row: row[0] % 5), Batch(4)]
    got = stream(opened([dies, *rows], worker_count=2))
    assert marker.exists()
    assert got == stream(opened(rows))


@pytest.mark.slow
def test_a_stopped_and_continued_worker_changes_nothing():
    """SIGSTOP without a timeout only holds the stream up."""
    expected = stream(loader("map, batch, map", records=200))
    with iter(loader("map, batch, map", records=200, worker_count=2)) as iterator:
        got = stream([next(iterator)])
        for child in workers():
            child.suspend()
        time.sleep(0.2)
        for child in workers():
            child.resume()
        got += stream(iterator)
    assert got == expected


@pytest.mark.slow
def test_memory_that_a_worker_cannot_get_is_a_memory_error_with_the_record_key():
    """Beyond a limit of the address space the operation's MemoryError arrives, and the next step
    may go on.
    """

    def greedy(x):
        if x == 9:
            resource.setrlimit(
                resource.RLIMIT_AS, (2 << 30, resource.getrlimit(resource.RLIMIT_AS)[1])
            )
            np.ones(4 << 30, np.uint8)
        return x

    sampler = IndexSampler(20, num_epochs=1)
    got = []
    with pytest.raises(MemoryError) as caught:
        for batch in DataLoader(
            data_source=range(20), sampler=sampler, operations=[greedy, Batch(4)], worker_count=2
        ):
            got += batch.tolist()
    assert got == list(range(8))
    assert "record key 9" in " ".join(caught.value.__notes__)


@pytest.mark.slow
def test_a_limit_of_the_address_space_is_named(tmp_path):
    """Where batches do not fit under `ulimit -v`, the error says how large they are and
    what to do.
    """
    text = """
        import resource, numpy as np, headrace
        def large(x):
            return np.broadcast_to(np.float32(x), (100_000_000,))
        loader = headrace.load([1, 2, 3, 4], transformations=[large], batch_size=4, num_epochs=1, worker_count=1)
        resource.setrlimit(resource.RLIMIT_AS, (5 << 28, 5 << 28))
        try:
            batches = list(loader)
        except (OSError, MemoryError) as error:
            print(error)
        """
    told = run_program(text, tmp_path)
    assert "for a batch of 1,600,00" in told, told
    assert "ulimit -v" in told, told


def _may_mount() -> bool:
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.one_in(2)
@pytest.mark.skipif(not _may_mount(), reason="needs the right to mount a small /dev/shm")
@pytest.mark.parametrize("transport", ["", "portable"])
@pytest.mark.slow
def test_little_shared_memory_is_enough(tmp_path, monkeypatch, transport):
    """With 64 MB under /dev/shm, batches of 20 MB come: memory has no limit there, and files are
    elsewhere if it is full.
    """
    monkeypatch.setenv("HEADRACE_TRANSPORT", transport)
    (tmp_path / "shell").write_text('mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"')
    text = """
        import numpy as np, headrace
        loader = headrace.load(list(range(64)), transformations=[lambda x: np.full(1_250_000, x, np.float32)],
                               batch_size=4, num_epochs=1, worker_count=2)
        kept = list(loader)
        print(sum(int(batch[:, 0].sum()) for batch in kept) == sum(range(64)))
        """
    assert run_program(text, tmp_path, "unshare", "-m", "sh", str(tmp_path / "shell")) == "True"


@pytest.mark.long
def test_a_notebook_works(tmp_path):
    """Functions defined in a cell of a real kernel reach the workers."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    cells = [
        "import headrace\nfactor = 3\ndef scale(x):\n    return factor * x",
        "loader = headrace.load(list(range(20)), transformations=[scale, lambda x: x + 1], batch_size=5, num_epochs=1, "
        "worker_count=2)",
        "print(sum(int(batch.sum()) for batch in loader))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    asyncio.run(client.async_execute())  # `execute` would leave its loop open
    (output,) = notebook.cells[-1].outputs
    assert output.text.strip() == str(sum(3 * x + 1 for x in range(20)))


@pytest.mark.slow
def test_absl_flags_of_the_program_do_no_harm(tmp_path):
    """A program with absl flags, parsed or not, opens workers."""
    text = """
        import sys
        from absl import app, flags
        import headrace
        flags.DEFINE_integer("factor", 2, "A number.")
        def main(argv):
            factor = flags.FLAGS.factor
            loader = headrace.load(list(range(20)), transformations=[lambda x: x * factor], batch_size=5, num_epochs=1,
                                   worker_count=2)
            print(sum(int(batch.sum()) for batch in loader))
        app.run(main, argv=[sys.argv[0], "--factor=3"])
        """
    assert run_program(text, tmp_path) == str(3 * sum(range(20)))


def _proportional_bytes(processes: list[psutil.Process], kinds: str = "Anon|Shmem") -> int:
    """Without the pages of files: how many share those depends on what else runs."""
    sizes = re.compile(rf"^Pss_(?:{kinds}): +(\d+) kB", re.MULTILINE)
    texts = [Path(f"/proc/{process.pid}/smaps_rollup").read_text() for process in processes]
    return sum(1024 * int(size) for text in texts for size in sizes.findall(text))


def _footprint() -> tuple[int, int, int]:
    gc.collect()
    return len(leaks.descriptors()), threading.active_count(), len(everything())


def _more_than(before: tuple[int, int, int]) -> list[str]:
    """What there is more of now. Threads of other libraries may have ended meanwhile."""
    names = ("descriptors", "threads", "processes")
    return [
        f"{name}: {old} → {new}" for name, old, new in zip(names, before, _footprint()) if new > old
    ]


@pytest.mark.parametrize("iterators", chosen([8, 200], 8))
@pytest.mark.long
def test_many_iterators_leave_nothing(iterators):
    """Descriptors, threads and processes are those from before; memory does not grow after the
    first iterators.
    """
    short = headrace.load(np.arange(4096), batch_size=512, num_epochs=1, worker_count=2)
    for _ in range(8):
        next(iter(short))
    before, resident = _footprint(), psutil.Process().memory_info().rss
    for _ in range(iterators):
        iterator = iter(short)
        next(iterator)
        del iterator
    assert not _more_than(before)
    assert psutil.Process().memory_info().rss - resident < 4 << 20


@pytest.mark.long
@linux_only
def test_a_further_worker_costs_little_memory():
    """Less than 16 MB of proportional set size for each (11 measured alone), with a source of 50 MB
    that all share.
    """

    def cost(workers: int) -> int:
        loader = headrace.load(
            np.ones((12_500, 1_000), np.float32), batch_size=32, worker_count=workers
        )
        with iter(loader) as iterator:
            for _ in range(4 * workers):
                next(iterator)
            everyone = everything()
            workers_own = _proportional_bytes(
                [one for one in everyone if one.pid != os.getpid()], "Anon"
            )
            # what this process holds for other tests changes
            return workers_own + _proportional_bytes(everyone, "Shmem")

    cost(1)
    one, five = cost(1), cost(5)
    assert five - one < 4 * (16 << 20)


@pytest.mark.slow
def test_batches_smaller_than_a_page_share_memory():
    """They stand side by side, 64-byte aligned, and one that is kept stays what it is."""
    operations = [lambda x: np.full(20, x), Batch(4)]
    sampler = IndexSampler(400, num_epochs=1)
    with iter(
        DataLoader(data_source=range(400), sampler=sampler, operations=operations, worker_count=1)
    ) as iterator:
        batches = list(iterator)
    addresses = [batch.__array_interface__["data"][0] for batch in batches]
    assert all(address % 64 == 0 for address in addresses)
    assert len({address // 16384 for address in addresses}) < len(batches) // 5
    assert [batch[:, 7].tolist() for batch in batches] == [
        [4 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3] for n in range(100)
    ]
