"""Log of generations (numbered lists of files) on disk, which several processes may share.

    FOLDER/.headrace-generations/<digest of what the source reads>/000000.json, 000001.json …

All processes use the file of the process that writes a number first. A file is written under a
temporary name, and then linked to its number. The link fails if the number exists. So a numbered
file is complete.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress

from ...common.messages import remedy_for, shorten
from ...errors import SourceError
from ...files.whole_files import sync
from .generation import Generation

FOLDER = ".headrace-generations"
"""Name of the log's folder, within the folder of the data."""


class GenerationLog:
    """Log of generations on disk, one file each.

    Args:
        folder: folder of the log. It is created with the first generation.
    """

    folder: str

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def written(self) -> str | None:
        """Folder of the log of generations.

        It is None if it does not exist yet, or this process cannot write to it.
        """
        return self.folder if os.access(self.folder, os.W_OK) else None

    def read(self, number: int) -> Generation | None:
        """Return the generation (list of files) with this number; None if it is not in the log.

        Raises:
            SourceError: the file cannot be read, or is damaged.
        """
        path = self._path(number)
        try:
            with open(path, "rb") as file:
                return Generation.from_json(json.loads(file.read()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, LookupError) as error:
            # without the path
            reason = (isinstance(error, OSError) and error.strerror) or shorten(error)
            remedy = (
                "Restore this file and its permissions, or use the release of headrace that wrote "
                "it. Or remove its folder: then all files count as new, and older checkpoints "
                "cannot be restored"
            )
            remedy = remedy_for(error, remedy) if isinstance(error, OSError) else remedy
            raise SourceError(
                f"{shorten(path)}: the list of files of generation {number} cannot be read: "
                f"{reason}. {remedy}."
            ) from error

    def add(self, generation: Generation) -> None:
        """Write a generation (list of files) to the log.

        Do nothing if another process has written one with this number.

        Raises:
            SourceError: the file cannot be written.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            _write_first(
                self._path(generation.number),
                json.dumps(generation.to_json(), ensure_ascii=False).encode(),
            )
        except FileExistsError:
            return
        except OSError as error:
            raise SourceError(
                f"{shorten(self.folder)}: the list of the files of generation {generation.number} "
                f"cannot be written: {shorten(error)}. "
                f"{remedy_for(error, 'Make the folder writable')}, or pass the path of another "
                "folder as growing=."
            ) from error

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:06}.json")


def _write_first(path: str, data: bytes) -> None:
    """Write a file completely to disk under its final name.

    Args:
        path: path of the file.
        data: content; a line break is added.

    Raises:
        FileExistsError: the file exists.
        OSError: the file cannot be written.
    """
    beside = f"{path}.{secrets.token_hex(4)}.unfinished"
    try:
        with open(beside, "xb") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
        sync(os.path.dirname(path))
    finally:
        with suppress(OSError):
            os.remove(beside)
