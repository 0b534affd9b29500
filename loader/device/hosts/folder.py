"""Messages of processes as files in a folder that all of them share, for programs without jax.

In: texts with keys. Out: the texts that other processes have set.

The folder may still have files of an earlier run, which was killed. So the processes first meet:
each process writes a file `hello/<process>`. The file has a random number that this process has
drawn, and the numbers that it has read in the files of the other processes. A process knows that
another process is alive when it finds its own number in the other's file, because no process of an
earlier run can know the number. The numbers of all processes together name the folder of the run's
messages. The first process removes the folders of earlier runs.

After the meeting, each process rewrites its `hello` file every second, on a thread of its own, with
a count. A process that waits for another one raises an error if the count of the other process
stays the same for a minute, or if the other process has a new number.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ....common.messages import first_few, shorten
from ....errors import HostsError
from .store import WAIT_MS

# Chosen.
BEAT_SECONDS = 1.0
"""Seconds between two signs of life of a process."""

DEAD_SECONDS = 60.0
"""Seconds without a sign of life after which a process counts as dead.

More than a slow file system needs.
"""

MEET_SECONDS = 300.0
"""Seconds for which a process waits for others to begin, as `jax.distributed.initialize` does."""

MOST_CERTAIN = 4
"""Number of steps agreed in advance, so that one that is asked to end is soon heard."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02
"""Seconds between two looks for a file: few at first, then more."""


class FolderStore:
    """The messages of one run as files, one for each key. It has the methods of `MessageStore`.

    Args:
        meeting: the meeting of all processes in the folder.
    """

    most_certain: float = MOST_CERTAIN

    def __init__(self, meeting: Meeting) -> None:
        self._meeting = meeting

    @property
    def is_open(self) -> bool:
        return self._meeting.run is not None

    def open(self, stopped: Callable[[], bool]) -> bool:
        """Wait until all processes have met in the folder, and return True.

        Return False if `stopped()` becomes True before.

        Raises:
            HostsError: another process does not come, or the folder cannot be used.
        """
        return self.is_open or self._meeting.meet(stopped)

    def set(self, key: str, value: str) -> None:
        _write(self._path(key), value)

    def replace(self, key: str, value: str) -> None:
        _write(self._path(key), value)

    def get(self, key: str, wait_ms: int = WAIT_MS) -> str | None:
        path, until, pause = self._path(key), time.monotonic() + wait_ms / 1000, SHORTEST_PAUSE
        while (text := _read(path)) is None:
            if time.monotonic() >= until:
                self._meeting.check()
                return None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return text

    def there(self, folder: str) -> dict[str, str]:
        texts = {path.name: _read(path) for path in _files(self._path(folder))}
        return {name: text for name, text in texts.items() if text is not None}

    def delete(self, folder: str) -> None:
        shutil.rmtree(self._path(folder), ignore_errors=True)

    def count(self, key: str) -> int:
        """Add one to the number that is stored for a key, and return the new number.

        If two processes do this at the same time, both may get the number that includes both
        additions.
        """
        _write(self._path(key) / secrets.token_hex(8), "")
        return len(_files(self._path(key)))

    def _path(self, key: str) -> Path:
        assert self._meeting.run is not None
        return self._meeting.run / key


class Meeting:
    """The meeting of all processes that use a folder, each with a file `hello/<process>`.

    The processes have met when each has seen that all others are alive. Any thread may call the
    methods.

    Args:
        folder: the folder; it is made if it does not exist.
        me: index of this process.
        processes: indices of all processes.

    Attributes:
        run: folder of the messages; None until the processes have met.
    """

    def __init__(self, folder: Path, me: int, processes: Sequence[int]) -> None:
        self.run: Path | None = None
        self._folder, self._me = folder, me
        self._others = [process for process in processes if process != me]
        self._number = secrets.token_hex(8)
        self._numbers: dict[int, str] = {}  # of the others, as they were when the processes met
        self._alive: dict[
            int, tuple[int, float]
        ] = {}  # of the others, the last count and when it came
        self._beats, self._checked = 0, 0.0
        self._said_hello = False
        self._leaves = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def meet(self, stopped: Callable[[], bool]) -> bool:
        """Wait until all processes have met in the folder, and return True.

        Return False if `stopped()` becomes True before.

        Raises:
            HostsError: some processes do not come in time, or the folder cannot be written.
        """
        while not self._lock.acquire(timeout=LONGEST_PAUSE):
            if stopped():
                return False
        try:
            return self._met(stopped)
        finally:
            self._lock.release()

    def _met(self, stopped: Callable[[], bool]) -> bool:
        until = time.monotonic() + MEET_SECONDS
        while self.run is None:
            if stopped():
                return False
            self._check_place()
            said = {process: self._hello(process) for process in self._others}
            self._numbers = {process: str(text["number"]) for process, text in said.items() if text}
            self._say_hello()
            missing = [
                process for process, text in said.items() if not (text and self._is_met(text))
            ]
            if not missing:
                self._begin()
            elif time.monotonic() > until:
                where = f"to the folder {shorten(self._folder)}"
                these = f"these processes have not come {where}: {first_few(missing, 8)}"
                raise HostsError(
                    f"after {MEET_SECONDS:.0f} s, "
                    f"{these if missing[1:] else f'process {missing[0]} has not come {where}'}. "
                    "Start all processes with this folder, and begin the loop in all of them."
                )
            else:
                time.sleep(LONGEST_PAUSE)
        return True

    def _check_place(self) -> None:
        """Check that no other process uses this process's file `hello/<process>`.

        Raises:
            HostsError: after this process, another process with the same index has written to the
                file.
        """
        own = self._hello(self._me) if self._said_hello else None
        if own is not None and own["number"] != self._number:
            count = len(self._others) + 1
            raise HostsError(
                f"two processes have the index {self._me} of {count} in the folder "
                f"{shorten(self._folder)}, or this process was started a second time. Pass "
                f"ShardOptions({self._me}, {count}) in one process only, and give each program a "
                "folder of its own."
            )

    def _is_met(self, hello: dict[str, Any]) -> bool:
        return bool(hello["met"].get(str(self._me)) == self._number)

    def _begin(self) -> None:
        numbers = sorted([self._number, *self._numbers.values()])
        name = hashlib.blake2b("".join(numbers).encode(), digest_size=8).hexdigest()
        former = [path for path in self._folder.glob("run-*") if path.name != f"run-{name}"]
        for path in former if self._me == min([self._me, *self._others]) else ():
            shutil.rmtree(path, ignore_errors=True)
        self._thread = threading.Thread(
            target=self._beat_for_ever, name="headrace-sign-of-life", daemon=True
        )
        self._thread.start()
        atexit.register(self.leave)
        self.run = self._folder / f"run-{name}"

    def check(self) -> None:
        """Check that all other processes are alive.

        Raises:
            HostsError: a process is dead, or was started again; or another program uses the folder.
        """
        now = time.monotonic()
        if now - self._checked < BEAT_SECONDS:
            return
        self._checked = now
        own = self._hello(self._me)
        for process in [self._me, *self._others]:
            hello = own if process == self._me else self._hello(process)
            number = self._number if process == self._me else self._numbers[process]
            if hello is not None and hello["number"] != number:
                raise HostsError(
                    f"process {process} was started again, or another program uses the folder "
                    f"{shorten(self._folder)}, too. Restart all processes from the last "
                    "checkpoint, and give each program a folder of its own."
                )
            if process == self._me:
                continue
            count, since = self._alive.get(process, (-1, now))
            beats = count if hello is None else int(hello["beats"])
            self._alive[process] = (beats, now if beats != count else since)
            if now - self._alive[process][1] > DEAD_SECONDS:
                raise HostsError(
                    f"process {process} has given no sign of life for {DEAD_SECONDS:.0f} s. "
                    "Correct the cause, and restart all processes from the last checkpoint."
                )

    def _hello(self, process: int) -> dict[str, Any] | None:
        text = _read(self._folder / "hello" / str(process))
        try:
            said = json.loads(text or "null")
        except ValueError:
            return None
        return said if isinstance(said, dict) and {"number", "met", "beats"} <= set(said) else None

    def _say_hello(self) -> None:
        self._said_hello = True
        hello = {"number": self._number, "met": self._numbers, "beats": self._beats}
        _write(self._folder / "hello" / str(self._me), json.dumps(hello))

    def _beat_for_ever(self) -> None:
        while not self._leaves.wait(BEAT_SECONDS):
            hello = self._hello(self._me)
            if hello is not None and hello["number"] != self._number:
                return  # another process has taken the place
            self._beats += 1
            with contextlib.suppress(HostsError):  # the next one may succeed
                self._say_hello()

    def leave(self) -> None:
        """Leave the meeting: remove this process's `hello` file, and end the thread that writes it.

        The last process to leave also removes the folder of the messages.
        """
        atexit.unregister(self.leave)
        self._leaves.set()
        if self._thread is not None:
            self._thread.join()
        hello = self._hello(self._me)
        if hello is not None and hello["number"] == self._number:
            with contextlib.suppress(OSError):
                (self._folder / "hello" / str(self._me)).unlink()
        if self.run is not None and not _files(self._folder / "hello"):
            shutil.rmtree(self.run, ignore_errors=True)


_MEETINGS: dict[tuple[str, int, tuple[int, ...]], Meeting] = {}


def folder_store(folder: str | os.PathLike[str], me: int, processes: Sequence[int]) -> FolderStore:
    """Return a store for messages of processes as files in a folder.

    All stores of this process in the same folder share one `Meeting`.

    Args:
        folder: the folder, which all processes can read and write.
        me: index of this process.
        processes: indices of all processes.
    """
    key = (os.path.realpath(os.fspath(folder)), me, tuple(processes))
    return FolderStore(_MEETINGS.setdefault(key, Meeting(Path(key[0]), me, processes)))


def _write(path: Path, text: str) -> None:
    """Write a file in one step: other processes see either its former content or the whole text.

    Raises:
        HostsError: the file cannot be written.
    """
    unfinished = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text)
        unfinished.replace(path)
    except OSError as error:
        raise HostsError(
            f"cannot write to the folder {shorten(path.parent)}: {shorten(error)}. Pass a folder "
            "that all processes can read and write."
        ) from error


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:  # not there; or, on a network file system, being replaced
        return None


def _files(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    return []
