"""The target lies outside of the source. In: what a user passes as both. Out: an error if it does not."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from ..common.messages import shorten
from ..errors import ConversionError
from ..files.paths import text_of
from ..files.urls import is_remote, local_path
from .inputs.find import is_paths


def check_apart(source: Any, target: str) -> None:
    """Hold a source against the target. A source that is no path is nowhere.

    Raises:
        ConversionError: the target is a folder of the source, or lies in one: its files would be taken for the source's.
    """
    for folder in _folders(source):
        if _place(target).is_relative_to(_place(folder)):
            raise ConversionError(
                f"the target {shorten(target)} is the source {shorten(folder)}, or lies in it, and its files would be taken "
                "for the source's; pass a target outside of it."
            )


def _folders(source: Any) -> Iterator[str]:
    """The folders whose files are read, those of a `**` with all that is in them."""
    if not is_paths(source):
        return
    for path in map(text_of, source if isinstance(source, (list, tuple)) else [source]):
        if is_remote(path) or os.path.lexists(path):
            yield path
        elif "**" in path:
            yield next(part for part in _above(path) if not glob.has_magic(part))


def _above(path: str) -> Iterator[str]:
    while path != os.path.dirname(path):
        yield path
        path = os.path.dirname(path)
    yield path or "."


def _place(path: str) -> PurePath:
    return PurePath(path) if is_remote(path) else PurePath(os.path.realpath(local_path(path)))
