"""Stores of messages in a folder, for processes that are threads of a test."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from headrace.loader.device.hosts.folder import FolderStore, Meeting


@contextmanager
def stores_of(folder: Path, processes: int) -> Iterator[list[FolderStore]]:
    """The store of each process, after all of them have met."""
    meetings = [Meeting(folder, me, range(processes)) for me in range(processes)]
    try:
        with ThreadPoolExecutor(processes) as threads:
            assert all(threads.map(lambda meeting: meeting.meet(lambda: False), meetings))
        yield [FolderStore(meeting) for meeting in meetings]
    finally:
        for meeting in meetings:
            meeting.leave()
