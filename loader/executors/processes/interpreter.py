"""How a fresh interpreter is started that will be the zygote or a worker.

In: what it is to be. Out: a process. Nothing here imports NumPy or the rest of the package.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

_PROGRAM = "import gc; gc.disable(); from headrace.loader.executors.processes.zygote import main; main()"
"""Without the garbage collector, importing takes a tenth less; `main` turns it on again."""


def start(arguments: Sequence[object], descriptors: Sequence[int], environment: Mapping[str, str]) -> int:
    """Start one that has these descriptors. Its process number; the caller reaps it.

    The working directory is not on its module path. It is born with SIGINT blocked, until `main` ignores that: Ctrl-C is for
    the user's process.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM, *map(str, arguments)]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process = subprocess.Popen(command, pass_fds=descriptors, env=environment, stdin=subprocess.DEVNULL)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    process.returncode = 0  # so that `subprocess` does not wait for it, or warn that nobody did
    return process.pid
