"""What a process died of, in words.

In: a status, as `os.waitpid` gives it. Out: "with exit code 3", "by signal SIGKILL (…)".
"""

from __future__ import annotations

import os
import signal

_HINTS = {
    signal.SIGKILL: " (the system may have run out of memory: use fewer workers or smaller batches)",
    signal.SIGSEGV: " (a crash in native code)",
    signal.SIGBUS: " (shared memory may be used up)",
}


def description(status: int) -> str:
    """How a process ended.

    >>> description(3 << 8)
    'with exit code 3'
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"by signal {signal.Signals(number).name}{_HINTS.get(number, '')}"  # type: ignore[call-overload]
    return f"with exit code {os.waitstatus_to_exitcode(status)}"
