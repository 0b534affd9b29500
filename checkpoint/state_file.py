"""A file with the state of one iterator, fast enough to be saved at every step.

A state of at most 4,096 bytes is written in place with one write call, which the kernel completes
even if the process is killed. A larger one is written to a new file, which then replaces the old
one.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, BinaryIO

from ..common.closing import ClosedAtExit
from ..common.messages import TEXT, shorten, shorten_lines
from ..errors import CheckpointError, ClosedError
from ..files.descriptors import write_at
from ..files.whole_files import WholeFile
from ..loader.state.files import as_said, from_bytes, to_bytes, unreadable, with_state

# The kernel copies this number of bytes into a file without handling signals in between.
PAGE = 4096
"""Size in bytes to which states are padded."""
LOOK_EVERY = (
    64  # number of saves from one check whether the file was removed or replaced to the next
)


class StateFile(ClosedAtExit):
    """File with the state of an iterator, saved at every step.

    A loop of 5 ms steps takes 1 to 4 % longer.

    The file is JSON. After the process ends, even if it is killed, the file contains a complete
    state: the state of the last `save`, or, if the process was killed during `save`, of the `save`
    before. To survive the loss of the machine, use Orbax's checkpoints, which take milliseconds.
    Each process has its own file. To resume with another number of processes, pass the contents of
    all files to `set_states`.

    Args:
        path: path of the file; `~` at its beginning is the home folder. Missing folders are
            created. Only the owner may read the file (mode 0600).

    Raises:
        CheckpointError: the path is a folder, or cannot be used: for example, it is too long, or is
            relative and the current folder was deleted.

    >>> import pathlib, tempfile
    >>> import headrace
    >>> batches, again = (iter(headrace.load(range(8), batch_size=2)) for _ in range(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with headrace.checkpoint.StateFile(pathlib.Path(folder, "loader.json")) as file:
    ...         batch = next(batches)
    ...         file.save(batches)
    ...         file.restore(again)
    True
    >>> next(again).tolist()
    [2, 3]
    """

    _file: BinaryIO | None = None  # of one page

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = _resolved(path)
        self._identity: tuple[int, int] | None = None  # of the file that was written last
        self._saves = 0
        self._closed = False

    def save(self, iterator: Any) -> None:
        """Write the current state of the iterator.

        Raises:
            TypeError: `iterator` has no state; it may be a loader instead of its iterator.
            ClosedError: this object was closed.
            CheckpointError: another file has replaced this one. With a state of more than 4,096
                bytes, each call checks this; otherwise each 64th call, and only if this file was
                deleted.
            OSError: the file system reports an error.
        """
        if self._closed:
            raise ClosedError("this state file was closed. Make a new one, StateFile(path).")
        content = to_bytes(with_state(iterator).get_state()).ljust(PAGE)
        self._saves += 1
        looks = self._saves % LOOK_EVERY == 0  # to ask each time would cost as much as to write
        descriptor = -1 if self._file is None else self._file.fileno()
        if (
            descriptor >= 0
            and len(content) == PAGE
            and not (looks and os.fstat(descriptor).st_nlink == 0)
        ):
            self._write(descriptor, content)
            return
        self._check_place()
        try:
            self._replace(content)
        except OSError as error:
            if len(str(error)) <= 2 * TEXT:
                raise
            raise OSError(error.errno, error.strerror, shorten(error.filename)) from None

    def restore(self, iterator: Any, strict: bool = True) -> bool:
        """Restore an iterator from the file, and start to prefetch.

        Args:
            iterator: the iterator to restore.
            strict: False: resume although source, sampler or operations differ from those of the
                state.

        Returns:
            True if the iterator was restored; False if there is no file yet.

        Raises:
            TypeError: `iterator` has no state; it may be a loader instead of its iterator.
            CheckpointError: the file cannot be read, is not a state, or belongs to another
                pipeline. The iterator is not changed.
        """
        with_state(iterator)
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(self._path, error) from None
        try:
            iterator.set_state(from_bytes(content.rstrip(), iterator), **as_said(strict))
        except CheckpointError as error:
            raise CheckpointError(f"{shorten(self._path)}: {shorten_lines(error, 400)}") from None
        iterator.start_prefetch()
        return True

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._closed = True
        self._let_go()

    def _write(self, descriptor: int, content: bytes) -> None:
        if write_at(descriptor, content, 0) != len(content):
            raise OSError(
                errno.EIO,
                "only a part of the state was written; free some space on this disk",
                str(self._path),
            )

    def _check_place(self) -> None:
        """Check that the path leads to the file that was written last, or that there is no file.

        Raises:
            CheckpointError: another file is there.
        """
        if self._identity is None:
            return
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return
        if (found.st_dev, found.st_ino) != self._identity:
            raise CheckpointError(
                f"{shorten(self._path)} was replaced: another file has its name now. If two "
                "iterators save to this path, give each iterator its own; otherwise make a new "
                "StateFile(path)."
            )

    def _replace(self, content: bytes) -> None:
        """Write a new file in place of the one at the path, and keep it open for the next state.

        Missing folders are created.

        Raises:
            OSError: the file system reports an error.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = WholeFile(str(self._path), 0o600)
        descriptor = whole.file.fileno()
        try:
            self._write(descriptor, content)
            if self._identity is None:
                os.fsync(descriptor)  # what is replaced may have been there for long
            whole.appear(durable=False)
        except BaseException:
            whole.discard()
            raise
        found = os.fstat(descriptor)
        self._identity = found.st_dev, found.st_ino
        self._let_go()
        self._file = whole.file
        if len(content) != PAGE:
            self._let_go()

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        self._let_go()


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        resolved = Path(path).expanduser().resolve()
        is_folder = resolved.is_dir()
    except FileNotFoundError:
        raise CheckpointError(
            f"{shorten(path)} is a relative path, and the current folder was deleted. Pass an "
            "absolute path."
        ) from None
    except (
        OSError,
        RuntimeError,
    ) as error:  # RuntimeError: a user or a target of links is not found
        raise CheckpointError(
            f"{shorten(path)} cannot be used as a path: "
            f"{shorten(error.strerror if isinstance(error, OSError) else error)}. Pass another "
            "path."
        ) from None
    if is_folder:
        raise CheckpointError(
            f"{shorten(resolved)} is a folder, but the state is written to a file. Pass the path "
            "of a file in it."
        )
    return resolved
