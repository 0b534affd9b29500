"""Files of ours, each whole or not there. In: bytes, and a path. Out: the file, in place of the one that was there.

The one writer of this kind: indices, shards, tokens, states and pictures appear through it. The standard library has none.
The cache of remote files has its own protocol (`remote/cache.py`), in which the unfinished file is also the lock.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_BUFFER_BYTES = 1 << 20


@contextmanager
def written_whole(path: str) -> Iterator[BinaryIO]:
    """A file to write to, which appears at `path` when the block ends: whole and on the disk, in place of what was there.

    Where the block ends in an exception, nothing is left. Who is killed leaves at most a file whose name ends in `.unfinished`.

    Raises:
        OSError: as the file system says, such as for a full disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(f"{folder}/a.txt") as file:
    ...         print(file.write(b"all"), os.path.exists(f"{folder}/a.txt"))
    ...     os.listdir(folder)
    3 False
    ['a.txt']
    """
    whole = WholeFile(path)
    try:
        yield whole.file
        whole.finish()
        whole.appear()
    except BaseException:
        whole.discard()
        raise


class WholeFile:
    """A file that is written under a name of its own beside `path`, with the permissions `mode` less the umask."""

    file: BinaryIO

    def __init__(self, path: str, mode: int = 0o666) -> None:
        self._path = path
        self._beside = f"{path}.{secrets.token_hex(4)}.unfinished"
        self.file = open(self._beside, "xb", _BUFFER_BYTES, opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115

    def finish(self) -> None:
        """Have all of it on the disk, but under another name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def appear(self, durable: bool = True) -> None:
        """Give the file its name, and have that on the disk, too, if it is to outlive the machine."""
        os.replace(self._beside, self._path)
        if durable:
            sync(os.path.dirname(self._path) or ".")

    def discard(self) -> None:
        with suppress(FileNotFoundError):
            os.remove(self._beside)
        with suppress(OSError):  # what was in the buffer may not fit on the disk
            self.file.close()


def put_whole(written: str, path: str) -> None:
    """Give a file of the same file system its name, when its bytes are on the disk; its folder is made."""
    sync(written)
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    os.replace(written, path)
    sync(folder)


def sync(path: str) -> None:
    """Have a file or a folder on the disk. Windows opens no folders; it sees to their entries."""
    if os.name == "nt" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: str) -> None:
    """Make a folder that is not there, for its user alone (mode 0700); one that is there stays as it is. Raises OSError."""
    if not path or os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
