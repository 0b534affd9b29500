"""A file with the state of one iterator, for saving at every step.

In: an iterator. Out: a file with its state, written in place, in one write that is over before the process can be killed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from ..common.messages import TEXT, shorten, shorten_lines
from ..errors import CheckpointError, ClosedError
from ..files.descriptors import write_at
from ..files.whole_files import WholeFile
from ..loader.state.files import as_said, from_bytes, to_bytes, unreadable, with_state

PAGE = 4096
"""The bytes that the kernel copies into a file without a look at signals between them; JSON may end in blanks."""
LOOK_EVERY = 64  # Saves from one look whether somebody has removed or replaced the file to the next


class StateFile:
    """The state of an iterator in a local file, at every step: a loop of 5 ms steps takes 1 to 4 % longer.

    The file is JSON. Once the process that writes it has ended, however that happened, it holds a whole state: that of the
    last `save`, or of the one before if the process was killed during `save`. What is to survive the death of the machine
    belongs into Orbax's checkpoints, which take milliseconds. Each process has a file of its own; to go on with another
    number of processes pass the contents of all of them to `set_states`.

    Args:
        path: the file; folders above it are made. Only its owner may read it (mode 0600).

    Raises:
        CheckpointError: the path is that of a folder, or too long, or it is a relative one and the current folder was deleted.

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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = _resolved(path)
        self._file: BinaryIO | None = None  # of one page
        self._identity: tuple[int, int] | None = None  # of the file that was written last
        self._saves = 0
        self._closed = False

    def save(self, iterator: Any) -> None:
        """Write the state of this moment.

        Raises:
            CheckpointError: another file has taken the place of this one. Looked for at every 64th call.
            OSError: as the file system says.
        """
        if self._closed:
            raise ClosedError("the state file was closed; make a new one, StateFile(path).")
        content = to_bytes(with_state(iterator).get_state()).ljust(PAGE)
        self._saves += 1
        looks = self._saves % LOOK_EVERY == 0  # to ask each time would cost as much as to write
        descriptor = -1 if self._file is None else self._file.fileno()
        if descriptor >= 0 and len(content) == PAGE and not (looks and os.fstat(descriptor).st_nlink == 0):
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
        """Bring an iterator to the saved place, and have it begin to prefetch there. False: nothing was saved yet.

        Args:
            iterator: to be brought there.
            strict: False goes on although source, sampler or operations are not those of the state.

        Raises:
            TypeError: it is no iterator, but a loader for example.
            CheckpointError: the file cannot be read, or holds no state, or that of another pipeline; the iterator stays
                where it was.
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
        """Close the file. May be called twice."""
        self._closed = True
        self._let_go()

    def __enter__(self) -> StateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, descriptor: int, content: bytes) -> None:
        if write_at(descriptor, content, 0) != len(content):
            raise OSError(errno.EIO, "the file system took only a part of a state", str(self._path))

    def _check_place(self) -> None:
        """If there is a file, it must be the one that was written last."""
        if self._identity is None:
            return
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return
        if (found.st_dev, found.st_ino) != self._identity:
            raise CheckpointError(
                f"{shorten(self._path)}: another file has taken the place of the one that was written to; give each iterator a "
                "path of its own, and make a new StateFile after moving files."
            )

    def _replace(self, content: bytes) -> None:
        """Have another file take the place of the one there is, if any."""
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
        if hasattr(self, "_file"):
            self._let_go()


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        resolved = Path(path).resolve()
        is_folder = resolved.is_dir()
    except FileNotFoundError:
        raise CheckpointError(f"{shorten(path)}: the current folder was deleted; pass an absolute path.") from None
    except OSError as error:
        raise CheckpointError(f"{shorten(path)}: {error.strerror}; pass another path.") from None
    if is_folder:
        raise CheckpointError(f"{shorten(resolved)} is a folder; pass the path of a file in it.")
    return resolved
