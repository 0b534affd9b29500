"""What every test is held to: it leaves no thread and no shared memory behind."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

NOT_OURS = ("tqdm_monitor",)


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.name.startswith(NOT_OURS)}


def _shared_memory() -> set[str]:
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


@pytest.fixture(autouse=True)
def nothing_left():
    """Fails a test that leaves a thread or a shared-memory segment."""
    threads, memory = _threads(), _shared_memory()
    yield
    deadline = time.monotonic() + 5
    while (left := _threads() - threads) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"
    assert _shared_memory() <= memory, "shared memory left behind"
