"""Write output files atomically: a file appears only when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..common.messages import remedy_for, shorten
from ..errors import OutputError
from ..files.whole_files import WholeFile, written_whole


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Check that a file can be written, and return its path. Call this before long work.

    It leaves no file behind.

    Raises:
        OutputError: the file cannot be written.
    """
    with _output_errors(path):
        place = Path(path).expanduser()
        if place.is_dir():
            raise IsADirectoryError("it must be a file, but it is a folder")
        if place.exists() and not place.is_file():
            raise OSError("it must be a file, but it is a device or a pipe")
        WholeFile(str(place)).discard()
    return place


def written(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file, and return its path. An existing file is replaced when the new one is complete.

    A symbolic link is replaced, not followed.

    Raises:
        OutputError: the file cannot be written.
    """
    place = check_writable(path)
    with _output_errors(path), written_whole(str(place)) as file:
        file.write(content)
    return place


@contextmanager
def _output_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Return a context in which an OSError becomes an OutputError that names the file."""
    try:
        yield
    except OSError as error:
        reason = shorten(error.strerror or error)
        raise OutputError(
            f"{shorten(path)} cannot be written: {reason}. "
            f"{remedy_for(error, 'Name a file in an existing folder that you may write to')}."
        ) from error
