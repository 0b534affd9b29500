"""The user's side of the zygote: starts it, sends it requests, ends it.

In: requests. Out: a channel on which it reports.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

from ..transport.channel import Channel
from ..transport.messages import Kill, Spawn, Start
from .interpreter import command

_START_SECONDS = 1.0
"""What it takes to start a process, at most."""


class Spawner:
    """A zygote and its channel. `begin` may be called again after `close`."""

    channel: Channel

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start the interpreter; it boots while the caller goes on."""
        self.channel, theirs = Channel.pair()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            "OPENBLAS_NUM_THREADS": "1",  # else importing numpy starts threads there, and it could not fork
        }
        with theirs:
            self._start(command(theirs.fileno(), os.getpid()), theirs.fileno(), environment)

    def _start(self, arguments: list[str], descriptor: int, environment: dict[str, str]) -> None:
        """Start a process, on a thread of its own: an interrupt in this one could have it made and nobody know of it."""
        trouble: list[Exception] = []
        done = threading.Event()

        def start() -> None:
            try:
                self._process = subprocess.Popen(
                    arguments, pass_fds=[descriptor], env=environment, stdin=subprocess.DEVNULL
                )
            except Exception as error:
                trouble.append(error)
            finally:
                done.set()

        try:
            try:
                threading.Thread(target=start, name="millrace-start", daemon=True).start()
            except RuntimeError:  # the system gives no more threads
                start()
            done.wait()
            if trouble:
                raise trouble[0]
        except BaseException:
            done.wait(_START_SECONDS)  # so that `close` finds the process; there may be no thread
            if self._process is None:
                self.channel.close()
            raise

    def send_start(self, payload: int) -> None:
        """Tell it what to unpack, and where its modules are."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        try:
            self.channel.send(Start(list(sys.path), environment), [payload])
        except OSError:
            return  # it is gone already; its channel says so

    def spawn(self, worker: int, end: socket.socket) -> None:
        """Have a worker made that has this end of a channel."""
        self.channel.send(Spawn(worker), [end.fileno()])

    def kill(self, worker: int) -> None:
        """Have a worker killed."""
        try:
            self.channel.send(Kill(worker))
        except OSError:
            return

    def close(self) -> int | None:
        """End it and all its workers, and wait until they are gone; its exit status. May be called twice."""
        process = self._process
        if process is None:
            return None
        interrupt: BaseException | None = None
        self.channel.close()
        while process.returncode is None:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
            except BaseException as error:  # the user is tired of waiting
                interrupt = error
                process.kill()
        self._process = None
        if interrupt is not None:
            raise interrupt
        return process.returncode
