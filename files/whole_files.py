"""Write files atomically: a file appears when it is complete.

Indices, shards, tokens, checkpoints and pictures are written through this module. The cache of
remote files has its own protocol (`remote/cache.py`), in which the unfinished file is also a lock.
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
    """Yield a file to write to.

    When the block ends, it appears at `path`, complete and on disk, in place of an existing file.

    If the block ends with an exception, nothing is written to `path`. If the process is killed, a
    file whose name ends in `.unfinished` may be left.

    Raises:
        OSError: the file system reports an error, such as a full disk.

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
    """File that is written under a temporary name beside `path`.

    Its permissions are `mode` less the umask.
    """

    file: BinaryIO

    def __init__(self, path: str, mode: int = 0o666) -> None:
        self._path = path
        self._beside = f"{path}.{secrets.token_hex(4)}.unfinished"
        self.file = open(  # noqa: SIM115
            self._beside, "xb", _BUFFER_BYTES, opener=lambda name, flags: os.open(name, flags, mode)
        )

    def finish(self) -> None:
        """Flush all bytes to disk. The file keeps its temporary name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def appear(self, durable: bool = True) -> None:
        """Rename the file to its final name.

        Args:
            durable: True (default): flush the folder, too, so that the file survives a crash of the
                machine.
        """
        os.replace(self._beside, self._path)
        if durable:
            sync(os.path.dirname(self._path) or ".")

    def discard(self) -> None:
        with suppress(FileNotFoundError):
            os.remove(self._beside)
        with suppress(OSError):  # what was in the buffer may not fit on the disk
            self.file.close()


def put_whole(written: str, path: str) -> None:
    """Flush a written file to disk, and rename it. Missing folders are created.

    Args:
        written: path of the file.
        path: its new path, on the same file system.
    """
    sync(written)
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    os.replace(written, path)
    sync(folder)


def sync(path: str) -> None:
    """Flush a file or folder to disk.

    On Windows, which cannot open folders, folders are skipped.
    """
    if os.name == "nt" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(path: str) -> None:
    """Create a missing folder that only its user can access (mode 0700).

    An existing folder is not changed.

    Raises:
        OSError: the folder cannot be created.
    """
    if not path or os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
