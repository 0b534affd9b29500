"""The processes that headrace started in the process of a test; not those of Ray or of other
libraries.
"""

from __future__ import annotations

import psutil

from headrace.loader.interrupts import wait_until


def zygotes() -> list[psutil.Process]:
    """The processes that make workers."""
    return [child for child in psutil.Process().children() if "zygote" in _command(child)]


def zygote() -> psutil.Process:
    """The only one; another thread may be about to start it."""
    assert wait_until(zygotes, 10)
    (only,) = zygotes()
    return only


def workers() -> list[psutil.Process]:
    """All that it has made."""
    return zygote().children()


def everything() -> list[psutil.Process]:
    """This process, those that make workers, and workers."""
    return [
        psutil.Process(),
        *zygotes(),
        *(worker for one in zygotes() for worker in one.children()),
    ]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []
