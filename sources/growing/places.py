"""Folders of generations, and names of files in them."""

from __future__ import annotations

import glob
import os
import time

from ...files.paths import file_system_of
from ...files.stamps import local_stamp
from ...files.storage_options import StorageOptions
from ...files.urls import is_remote
from .conversion_folder import folder_of

SETTLED_SECONDS = 1.0
"""Seconds since its last change after which a file is complete, if its format does not show it."""


def home(path: str, storage: StorageOptions) -> str:
    """Return the folder that is listed for a path.

    It is the path itself if that is a folder, else the folder of the glob or file.

    Args:
        path: a path, a glob or a folder.
        storage: how files in a store are reached.
    """
    if not glob.has_magic(path) and file_system_of(path, storage).is_directory(path):
        return path
    folder = folder_of(path)
    while glob.has_magic(folder):
        folder = folder_of(folder)
    return folder


def normal(path: str) -> str:
    """Return a path, or the URL of a folder, in its normal form."""
    return path.rstrip("/") if is_remote(path) else os.path.normpath(path)


def joined(folder: str, name: str) -> str:
    """Return the path of a name in a folder; only the name if the folder is `.`."""
    return (
        name
        if folder == "."
        else os.path.normpath(f"{folder}/{name}")
        if not is_remote(folder)
        else f"{folder}/{name}"
    )


def is_settled(path: str, seconds: float = SETTLED_SECONDS) -> bool:
    """Return True if a file was not modified in the last `seconds` seconds.

    Return True for any file in a store.

    Args:
        path: path of the file.
        seconds: this time, default 1.
    """
    if is_remote(path):
        return True
    modified = local_stamp(path).modified
    return isinstance(modified, int) and abs(time.time() - modified / 1e9) >= seconds
