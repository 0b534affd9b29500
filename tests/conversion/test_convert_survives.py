"""`headrace.convert` survives: damaged records, kills at any moment, full disks, other
processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe

import psutil
import pytest
from array_record.python import array_record_module
from support.conversions import (
    RECORDS,
    content,
    convert,
    flip,
    read,
    write_tfrecord,
    write_tfrecords,
)
from support.pipelines import chosen
from support.source_conformance import exit_code

import headrace
from headrace.conversion import processes
from headrace.conversion.outputs.array_record import ArrayRecordOutput
from headrace.conversion.target import target_at
from headrace.errors import ConversionError, WorkerCrashedError


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


def test_another_version_of_a_function_is_another_conversion(tmp_path):
    """Told by its code and what is in its closure; the same written again is the same."""

    def reverse(by):
        return lambda record: record[::by]

    convert(RECORDS, tmp_path / "out", transform=reverse(-1))
    assert convert(RECORDS, tmp_path / "out", transform=reverse(-1)).records == 100
    for other in (reverse(2), lambda record: record[::-1], lambda record: record):
        with pytest.raises(ConversionError, match="differs in: transform"):
            convert(RECORDS, tmp_path / "out", transform=other)


def test_a_conversion_of_which_nothing_is_left_is_forgotten(tmp_path):
    """Another one takes its place; nothing of its receipts is believed."""
    calls = []

    def stop(record):
        calls.append(record)
        if len(calls) > 60:
            raise KeyError
        return record

    with pytest.raises(KeyError):
        convert(RECORDS, tmp_path / "out", shards=2, transform=stop)
    next((tmp_path / "out").glob("*.array_record")).unlink()
    convert(RECORDS[::-1], tmp_path / "out", shards=2)
    assert headrace.verify(tmp_path / "out") == []
    assert read(tmp_path / "out") == RECORDS[::-1]


def test_a_source_that_was_changed_is_told(tfrecords, tmp_path):
    """A finished conversion, and one that was stopped, are not mixed with other data, options or
    damage.
    """
    convert(tfrecords, tmp_path / "out")
    for options in ({"shards": 2}, {"options": {"group_size": 4}}, {"transform": len}):
        with pytest.raises(ConversionError, match="another conversion, which differs in"):
            convert(tfrecords, tmp_path / "out", **options)
    os.utime(tfrecords / "a.tfrecord", (1, 1))
    with pytest.raises(ConversionError, match=r"differs in: files\. .* or remove this folder"):
        convert(tfrecords, tmp_path / "out")


def test_what_is_missing_is_made_again(tfrecords, tmp_path):
    """Files of a finished conversion that were removed or cut off; the bytes are the same."""
    convert(tfrecords, tmp_path / "out")
    before = content(tmp_path / "out")
    (tmp_path / "out" / "a.array_record").unlink()
    os.truncate(tmp_path / "out" / "b.array_record", 100)
    assert headrace.verify(tmp_path / "out") == [
        "a.array_record is missing",
        "b.array_record has 100 bytes, not 131,072",
    ]
    convert(tfrecords, tmp_path / "out")
    assert content(tmp_path / "out") == before


def test_verify_finds_a_flipped_bit_and_a_file_too_many(tfrecords, tmp_path):
    """And says so of a folder that is not done, or is none."""
    with pytest.raises(ConversionError, match=r"has no manifest\.json"):
        headrace.verify(tmp_path)
    convert(tfrecords, tmp_path / "out")
    flip(tmp_path / "out" / "a.array_record", 70_000)
    (tmp_path / "out" / "z.array_record").write_bytes(b"")
    assert headrace.verify(tmp_path / "out") == [
        "a.array_record has another content (SHA-256)",
        "z.array_record is not in the manifest",
    ]


def test_two_processes_do_not_write_to_one_folder(tfrecords, tmp_path):
    """The second one is told, at once."""
    with (
        target_at(str(tmp_path / "out")).locked(),
        pytest.raises(ConversionError, match="another process"),
    ):
        convert(tfrecords, tmp_path / "out")
    assert convert(tfrecords, tmp_path / "out").records == 100


PROGRAM = """
import sys, headrace
if __name__ != "__main__":
    raise SystemExit("a worker imports the user's program")
headrace.convert(sys.argv[1], sys.argv[2], workers=2, progress=False, shards=int(sys.argv[3]) or None)
"""


def start(*arguments, **options):
    """A program that converts, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], start_new_session=True, **options
    )


def workers_of(process):
    """The processes that a conversion has started."""
    return psutil.Process(process.pid).children()


def killed_until_done(source, target, shards, kills, seed):
    """Convert, killed so often at random moments: all of it, one worker, or the parent alone."""
    dice, times = random.Random(seed), 0
    while times < kills:
        process = start(source, target, shards, stderr=subprocess.DEVNULL)
        time.sleep(dice.random() * 0.6)
        if process.poll() is None:
            _kill(process, dice.choice(["all", "worker", "parent"]))
            times += 1
        if process.wait() == 0:
            assert headrace.verify(target) == []
            _damage(target, dice)
    process = start(source, target, shards)
    assert process.wait() == 0


def _kill(process, which):
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, IndexError):
        if which == "all":
            os.killpg(process.pid, signal.SIGKILL)
        elif which == "parent":
            process.kill()
        else:
            workers_of(process)[0].kill()


def _damage(target, dice):
    """So that there is something left to do."""
    dice.choice(sorted(target.glob("*.array_record"))).unlink()


@pytest.mark.parametrize(
    ("shards", "kills", "seed"),
    [(5, 4, 5), *((shards, 20, seed) for shards in (0, 5) for seed in range(5))],
)
@pytest.mark.long
def test_a_conversion_that_was_killed_goes_on_to_the_same_bytes(shards, kills, seed, tmp_path):
    """At random moments: the whole of it, a worker, or the parent alone. No file appears that is
    not whole.
    """
    for name in ("a.tfrecord", "b.tfrecord.gz", "c.tfrecord"):
        write_tfrecord(
            tmp_path / "in" / name,
            [random.Random(number).randbytes(1000) for number in range(2000)],
        )
    convert(tmp_path / "in", tmp_path / "whole" / "out", shards=shards or None)
    killed_until_done(tmp_path / "in", tmp_path / "killed" / "out", shards, kills, seed=seed)
    assert content(tmp_path / "killed" / "out") == content(tmp_path / "whole" / "out")


DOCUMENTS = [{"tokens": list(range(number))} for number in range(4)]
OURS = tuple(f"/conversion/{name}.py" for name in ("target", "conversion", "shards"))


def killed_after(target, lines):
    """Convert in a child that is killed after so many lines of our code; whether it was."""
    child = os.fork()
    if child:
        return exit_code(child) == -signal.SIGKILL
    left = iter(range(lines))

    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith(OURS):
            return None
        if event == "line" and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    code = 1
    try:
        sys.settrace(trace)
        convert(DOCUMENTS, target, "tokens", shards=2)
        code = 0
    finally:
        os._exit(code)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("stride", chosen([1, 37], 37))
@pytest.mark.slow
def test_a_conversion_that_is_killed_at_a_line_leaves_what_is_whole(stride, tmp_path):
    """Killed before any line of our code: files have all their bytes or are not there, and another
    run makes the same.
    """
    convert(DOCUMENTS, tmp_path / "whole" / "out", "tokens", shards=2)
    whole = content(tmp_path / "whole" / "out")
    counts = []
    for lines in range(0, 10_000, stride):
        target = tmp_path / f"{lines}" / "out"
        killed = killed_after(target, lines)
        there = content(target) if target.exists() else {}
        counts.append(len(there.keys() & whole.keys()))
        assert {name: there[name] for name in there.keys() & whole.keys()}.items() <= whole.items()
        convert(DOCUMENTS, target, "tokens", shards=2)
        assert content(target) == whole
        shutil.rmtree(target.parent)
        if not killed:
            break
    assert len(counts) > 200 // stride
    assert (counts == sorted(counts), counts[0], counts[-1]) == (True, 0, 5)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_and_what_was_whole_stays(tmp_path):
    """With its signal; another run does the rest."""
    calls = tmp_path / "calls"

    def kill_once(record):
        if record == RECORDS[99] and not calls.exists():
            calls.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return record

    write_tfrecords(tmp_path / "in")
    with pytest.raises(WorkerCrashedError, match="Run the same command"):
        convert(tmp_path / "in", tmp_path / "out", workers=1, transform=kill_once)
    assert (tmp_path / "out" / "a.array_record").exists()
    convert(tmp_path / "in", tmp_path / "out", workers=1, transform=kill_once)
    assert read(tmp_path / "out") == RECORDS


def test_a_worker_leaves_ctrl_c_to_the_process_that_made_it(monkeypatch):
    """Which ends it: it ends by itself once nobody gives it work any more."""
    ours, theirs = Pipe()
    ours.close()
    monkeypatch.setattr(sys, "argv", ["worker", str(os.dup(theirs.fileno()))])
    theirs.close()
    handler = signal.getsignal(signal.SIGINT)
    try:
        processes.main()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.slow
def test_an_interrupt_ends_a_conversion_and_its_workers(tmp_path):
    """Ctrl-C goes to all of them, as from a terminal; nothing is left but what is whole."""
    write_tfrecord(tmp_path / "in" / "a.tfrecord", [bytes(1000)] * 20_000)
    write_tfrecord(tmp_path / "in" / "b.tfrecord", RECORDS)
    process = start(tmp_path / "in", tmp_path / "out", 0, stderr=subprocess.PIPE)
    while not list((tmp_path / "out").glob(".conversion/writing-*")) and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate()[1]
    assert not list((tmp_path / "out").glob(".conversion/writing-*"))
    assert {path.name for path in (tmp_path / "out").glob("*.array_record")} <= {"b.array_record"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("to", ["array_record", "bytes", "parquet", "tokens"])
def test_a_disk_that_is_full_is_told_and_leaves_nothing_half(to, tmp_path):
    """Here by a limit on the size of files; with room, another run goes on."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    rows = [{"tokens": list(os.urandom(1000))} for _ in range(500)]
    source = [json.dumps(row).encode() for row in rows] if to in ("array_record", "bytes") else rows
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(
            ConversionError, match=r"out-00000-of-00001.* cannot be written: .*File too large"
        ):
            convert(source, tmp_path / "out", to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "out").exists()
    assert convert(source, tmp_path / "out", to).records == 500


def test_a_full_disk_is_told_before_the_array_record_file_is_closed(tmp_path, monkeypatch):
    """Its library only notes the failure: the rest of a large file would be read in vain."""

    class Full:
        def __init__(self, path, options):
            self.written = 0

        def write(self, record):
            self.written += 1

        def ok(self):
            return self.written == 0

        def close(self):
            if self.written:
                raise RuntimeError("No space left on device")

    monkeypatch.setattr(array_record_module, "ArrayRecordWriter", Full)
    writer = ArrayRecordOutput("json", None, {}).open(str(tmp_path / "a.array_record"))
    writer.extend([])
    with pytest.raises(OSError, match="No space left"):
        writer.extend([b"a record"])


def test_an_os_error_of_the_users_stays_what_it_is(tmp_path):
    """It is not taken for one of the disk."""

    def missing(record):
        raise FileNotFoundError("my table")

    with pytest.raises(FileNotFoundError, match="my table") as caught:
        convert(RECORDS, tmp_path / "out", transform=missing)
    assert caught.value.__notes__ == ["at MemorySource: record 0"]


def test_a_worker_that_ends_before_a_shard_is_told_so():
    """While it counted records, nothing was being written."""
    worker = object.__new__(processes._Interpreter)
    worker._process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    for part, doing in (
        (None, "while it started"),
        ("a.csv", "while it counted the records of a.csv"),
    ):
        assert f"exit code 3 {doing}. Finished" in str(worker._crashed(part))
