"""Folders of ours. In: a path. Out: a folder that nobody but its user may look into."""

from __future__ import annotations

import os


def private_folder(path: str) -> None:
    """Make a folder that is not there, for its user alone (mode 0700); one that is there stays as it is.

    Raises:
        OSError: it cannot be made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     private_folder(f"{folder}/kept/files")
    ...     oct(os.stat(f"{folder}/kept/files").st_mode & 0o777)
    '0o700'
    """
    if not path or os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
