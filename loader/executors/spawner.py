"""The user's side of the zygote: starts it, sends it requests, ends it.

In: requests. Out: a channel on which it reports.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from ..transport.channel import Channel
from ..transport.messages import Kill, Spawn, Start
from .interpreter import command


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
            self._process = subprocess.Popen(
                command(theirs.fileno(), os.getpid()),
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )

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
        process, self._process = self._process, None
        if process is None:
            return None
        self.channel.close()
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
