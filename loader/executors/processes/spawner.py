"""Control the zygote (the process that makes workers) from the user's process.

In: requests. Out: the channels to the zygote and to its workers, and texts that say how a process
ended.

The pipeline is pickled into anonymous memory, from which any number of processes can unpickle it.
Large arrays are not copied into the pickle but stored after it. A process that unpickles the
pipeline maps the memory privately and uses the arrays in place, so processes share the memory pages
until one of them writes to a page.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....common.pickled import pickled
from ....common.system import anonymous_file, is_portable, signal_name
from ...interrupts import Uninterrupted, wait_until
from ..transport import Kill, Spawn
from .channel import Channel, Start

# Chosen.
GRACE_SECONDS = 5.0
"""Seconds that the zygote (the process that makes workers) may take to end before it is killed."""

# Without the garbage collector, importing takes a tenth less.
_PROGRAM = (
    "import gc; gc.disable(); from headrace.loader.executors.processes.zygote import main; main()"
)
"""Python program of the zygote (the process that makes workers), or of a worker.

The garbage collector is off during the imports, and turned on later.
"""

_HINTS = {
    "SIGKILL": " (the system may have run out of memory: use fewer workers or smaller batches)",
    "SIGSEGV": " (a crash in native code)",
    "SIGBUS": " (shared memory may be used up)",
}

# NumPy and pyarrow otherwise start threads when they are imported, and the zygote could not fork.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Environment variables that keep libraries from starting threads when they are imported."""

_HEADER, _ALIGNMENT = 16, 64  # bytes


class Payload:
    """Anonymous memory with one pickled value. The memory has no file, only a file descriptor.

    The memory exists as long as some process has the descriptor open, or has mapped the memory.
    """

    def __init__(self) -> None:
        self.descriptor = -1

    def pack(self, value: Any, parts: Iterable[tuple[str, Any]]) -> None:
        """Pickle a value into anonymous memory.

        Args:
            value: the value.
            parts: objects in it that the user passed, each after a name for it.

        Raises:
            PicklingError: a part of the value cannot be pickled. The message names this part.
            OSError: there is no memory or no file descriptor left.
        """
        stream, buffers = pickled(value, parts)
        sizes = pickle.dumps([buffer.nbytes for buffer in buffers])
        header = len(sizes).to_bytes(8, "little") + len(stream).to_bytes(8, "little")
        self._write([header + sizes + stream, *buffers])

    def _write(self, parts: Sequence[Any]) -> None:
        size = 0
        for part in parts:
            size = _aligned(size) + memoryview(part).nbytes
        with Uninterrupted():
            self.descriptor = anonymous_file("headrace-payload", size)
        end = 0
        for part in parts:
            data, offset = memoryview(part).cast("B"), _aligned(end)
            end = offset + len(data)
            while offset < end:
                offset += os.pwrite(self.descriptor, data[len(data) - (end - offset) :], offset)

    def close(self) -> None:
        """Close the file descriptor of the memory with the pickled value. May be called twice."""
        with Uninterrupted():
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1


def unpack(descriptor: int) -> Any:
    """Unpickle the value in the memory of a `Payload`, given the file descriptor of this memory.

    The descriptor may be closed afterwards. Exceptions of unpickling are raised unchanged.
    """
    memory = memoryview(
        mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    )
    sizes_stop = _HEADER + int.from_bytes(memory[:8], "little")
    stream_stop = sizes_stop + int.from_bytes(memory[8:_HEADER], "little")
    buffers, end = [], stream_stop
    for size in pickle.loads(memory[_HEADER:sizes_stop]):
        start = _aligned(end)
        end = start + size
        buffers.append(memory[start:end])
    return pickle.loads(memory[sizes_stop:stream_stop], buffers=buffers)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


class Spawner:
    """Starts and ends the zygote (the process that makes workers), and has the channels to workers.

    The attribute `channel` is the channel to the zygote; each worker has another channel. After
    `close`, `begin` may be called to start a new zygote.
    """

    channel: Channel
    _owner: int  # a forked copy of it must not end the process

    def __init__(self) -> None:
        self._process: int | None = None
        self._status: int | None = None
        self._was_stopped = False
        self._channels: dict[int, Channel] = {}
        self._in_transit: dict[
            int, socket.socket
        ] = {}  # the other ends, of workers that have not said a word yet

    def begin(self) -> None:
        """Start the interpreter of the zygote (process that makes workers), without waiting for it.

        Raises:
            OSError: the system cannot start it.
        """
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        environment = {**os.environ, "PYTHONPATH": paths, **_NO_THREADS}
        # the kernel goes by the thread
        dies_with_us = threading.current_thread() is threading.main_thread()
        with Uninterrupted():
            self.channel, theirs = Channel.pair()
            end = theirs.fileno()
            try:
                self._owner, self._was_stopped = os.getpid(), False
                self._process = start_interpreter(
                    ["zygote", end, self._owner, int(dies_with_us)], [end], environment
                )
            except BaseException:
                self.channel.close()
                raise
            finally:
                theirs.close()

    def send_start(self, payload: int, each_unpacks: bool) -> None:
        """Send the zygote (the process that makes workers) the payload's descriptor, and settings.

        The payload is memory with the pickled options and pipeline. If the zygote has ended,
        nothing is sent.

        Args:
            payload: descriptor of the payload.
            each_unpacks: True if each worker unpickles the payload; False if the zygote does.
        """
        environment = {**os.environ, **_NO_THREADS}
        with contextlib.suppress(OSError):  # it is gone already; its channel says so
            self.channel.send(Start(list(sys.path), environment, each_unpacks), [payload])

    def spawn(self, worker: int) -> Channel:
        """Ask the zygote (the process that makes workers) for a worker.

        Return the channel to the worker. If the zygote has ended, this call does not fail: the
        end of the zygote can be seen at `self.channel`.

        Args:
            worker: number of the worker.
        """
        with Uninterrupted():
            self._channels[worker], self._in_transit[worker] = Channel.pair()
            # it is gone; its channel says so, and everything starts anew
            with contextlib.suppress(OSError):
                self.channel.send(Spawn(worker), [self._in_transit[worker].fileno()])
            if not is_portable():
                self.arrived(worker)
        return self._channels[worker]

    def arrived(self, worker: int) -> None:
        """Close this process's copy of the socket that was sent to a new worker.

        The socket is the worker's end of its channel. Called when the worker has received the
        socket.
        """
        with Uninterrupted():
            if worker in self._in_transit:
                self._in_transit.pop(worker).close()

    def kill(self, worker: int) -> None:
        with contextlib.suppress(OSError):
            self.channel.send(Kill(worker))

    def forget(self, worker: int) -> None:
        """Close the channel of worker number `worker`, because the worker has ended."""
        self.arrived(worker)
        self._channels.pop(worker).close()

    def kill_if_stopped(self) -> None:
        """Kill the zygote (the process that makes workers) if a signal has stopped it.

        A stopped zygote cannot make workers. Does nothing on systems without `os.waitid`, where a
        stopped process cannot be noticed.
        """
        if not hasattr(os, "waitid"):
            return
        flags = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        if self._process is not None and os.waitid(os.P_PID, self._process, flags) is not None:
            self._was_stopped = True
            os.kill(self._process, signal.SIGKILL)

    def end(self) -> None:
        """End the zygote (the process that makes workers), and wait until it has ended.

        The zygote ends all its workers. If this process is a forked copy of the process that called
        `begin`, only this copy's end of the channel is closed. May be called twice.
        """
        with Uninterrupted():
            if self._process is None:
                return
            self.channel.close()
            if os.getpid() != self._owner:
                return
            if not wait_until(lambda: self._reaped(os.WNOHANG), GRACE_SECONDS):
                os.kill(self._process, signal.SIGKILL)
                self._reaped(0)
            self._process = None

    @property
    def last_end(self) -> str:
        """Text that says how the last zygote (process that makes workers) ended.

        In messages, the text follows the words "the process that makes the workers".
        """
        if self._was_stopped:
            return "was stopped by a signal, and killed as it could make none"
        return (
            "was terminated unexpectedly "
            f"{'' if self._status is None else description(self._status)}"
        ).rstrip()

    def _reaped(self, flags: int) -> bool:
        """Return True if the zygote (the process that makes workers) has ended.

        Its exit status is stored for `last_end`.

        Args:
            flags: flags for `os.waitpid`; with `os.WNOHANG`, this call does not wait.
        """
        try:
            number, status = os.waitpid(self._process or 0, flags)
        except ChildProcessError:  # who reaps all children of this process has reaped it
            return True
        self._status = status if number else None
        return number != 0

    def close(self) -> None:
        """End the zygote (process that makes workers) and its workers, and close all channels.

        May be called twice.
        """
        with Uninterrupted():
            while self._channels:
                self.forget(next(iter(self._channels)))
            self.end()


def description(status: int) -> str:
    """Describe how a process ended, from its `os.waitpid` status, e.g. "by signal SIGKILL".

    >>> description(3 << 8)
    'with exit code 3'
    """
    if os.WIFSIGNALED(status):
        name = signal_name(os.WTERMSIG(status))
        return f"by signal {name}{_HINTS.get(name, '')}"
    return f"with exit code {os.waitstatus_to_exitcode(status)}"


def start_interpreter(
    arguments: Sequence[object], descriptors: Sequence[int], environment: Mapping[str, str]
) -> int:
    """Start a Python interpreter for a zygote or a worker, and return its process id.

    A zygote is a process that makes workers. The caller has to wait for the end of the new process
    (`os.waitpid`). SIGINT stays blocked until `zygote.main` ignores it, because Ctrl-C is meant for
    the user's process. The working directory is on the module path only if `environment` names it
    in PYTHONPATH.

    Args:
        arguments: "zygote" or "worker", and the numbers that `zygote.main` expects.
        descriptors: descriptors that the interpreter inherits.
        environment: its environment variables.

    Raises:
        OSError: the system cannot start a process.
    """
    import subprocess  # 3 ms of a worker's start

    command = [sys.executable, "-P", "-c", _PROGRAM, *map(str, arguments)]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process = subprocess.Popen(
            command, pass_fds=descriptors, env=environment, stdin=subprocess.DEVNULL
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    process.returncode = 0  # so that `subprocess` does not wait for it, or warn that nobody did
    return process.pid
