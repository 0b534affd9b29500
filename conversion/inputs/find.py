"""Find the input of a conversion from paths, the name of a dataset, or an object."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from ... import sources
from ...common.messages import TEXT, first_few, short_repr, shorten
from ...errors import ConversionError, MissingExtraError, SourceError, SourceNotFoundError
from ...files.paths import find_files, text_of
from ...files.urls import is_remote
from ...formats.index import SUFFIX
from ..job import RecordInput
from .formats import FORMATS, Opening, format_of
from .from_files import FileInput
from .from_source import SourceInput

OTHER_FORMATS = ("images", "huggingface", "tfds")
"""Formats of a path or a name, besides files of records."""


def find_input(
    source: Any, source_format: str | None, split: str | None, as_bytes: bool, opening: Opening
) -> RecordInput:
    """Return the input for a user's `source`.

    Args:
        source: paths of files; a folder of images or a Hugging Face dataset; a name or folder of
            TFDS; or any source.
        source_format: format of files, "images", "huggingface" or "tfds". None: determined from the
            names of the files.
        split: split of a dataset that has several.
        as_bytes: True: do not decode the examples of TFDS.
        opening: arguments for opening files.

    Raises:
        ConversionError: the format is unknown, or cannot be determined.
        SourceError: nothing is found, or it cannot be read.
    """
    if source_format is not None and source_format not in (*FORMATS, *OTHER_FORMATS):
        raise ConversionError(
            f"source_format={short_repr(source_format)} is not a known format. Use one of "
            f"{', '.join((*FORMATS, *OTHER_FORMATS))}."
        )
    storage = opening.storage
    if not is_paths(source):
        return SourceInput(source)
    if source_format == "images":
        return SourceInput(sources.ImageFolderDataSource(source, storage_options=storage))
    if source_format == "tfds":
        path = text_of(source)
        folder, name = (
            os.path.split(path) if os.path.isdir(path) or is_remote(path) else (None, path)
        )
        examples = sources.TfdsDataSource(name, split or "train", folder, storage_options=storage)
        return SourceInput(examples.serialized if as_bytes else examples)
    if source_format == "huggingface" or (source_format is None and _is_hugging_face(source)):
        return SourceInput(_hugging_face(text_of(source), split))
    forms = [FORMATS[source_format]] if source_format else list(FORMATS.values())
    patterns = tuple(pattern for form in forms for pattern in form.patterns)
    try:
        found = find_files(source, patterns, storage)
    except SourceNotFoundError as error:
        folder = None if isinstance(source, (list, tuple)) else text_of(source)
        if folder is not None and os.path.isdir(folder):
            message = _nothing_in(
                folder, source_format, [suffix for form in forms for suffix in form.suffixes]
            )
        else:
            hint = (
                ""
                if source_format
                else " For images, or a name of TFDS, pass source_format= (--from)."
            )
            message = f"{error}{hint}"
        raise SourceNotFoundError(message) from error
    names = [name for name in dict.fromkeys(found) if not name.endswith(SUFFIX)]
    return FileInput(names, forms[0] if source_format else format_of(names), opening)


def _nothing_in(folder: str, source_format: str | None, suffixes: list[str]) -> str:
    whose = ", and their format as source_format= (--from), which is images for a folder of images"
    return (
        f"the directory {short_repr(folder, TEXT)} contains no file with a known format in its "
        f"name ({first_few(suffixes, 16)}); pass files by a glob, such as "
        f"{short_repr(os.path.join(folder, '*'), TEXT)}{'' if source_format else whose}."
    )


def is_paths(source: Any) -> bool:
    """Return True if `source` is a path or a non-empty list of paths."""
    paths = (str, os.PathLike)
    return isinstance(source, paths) or (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(item, paths) for item in source)
    )


def _is_hugging_face(source: Any) -> bool:
    """Return True if `source` is a folder of `save_to_disk` of Hugging Face datasets.

    It may be of one dataset, or of a dict of them.
    """
    if isinstance(source, (list, tuple)):
        return False
    folder = text_of(source)
    return any(
        os.path.isfile(os.path.join(folder, name)) for name in ("state.json", "dataset_dict.json")
    )


def _hugging_face(path: str, split: str | None) -> Any:
    try:
        datasets = import_module("datasets")  # a folder of ours has that name, too
    except ImportError as error:
        raise MissingExtraError(
            f"{shorten(path)} is a Hugging Face dataset, which needs the package datasets: pip "
            "install "
            '"headrace[huggingface]"'
        ) from error
    try:
        found = datasets.load_from_disk(path)
    # of files that are damaged, `datasets` says it in the words of Python, JSON and Arrow
    except Exception as error:
        raise SourceError(
            f"{shorten(path)} cannot be read as a Hugging Face dataset on disk: {shorten(error)}. "
            "Check its permissions. If a file is damaged or missing, save it again with "
            "save_to_disk. If it is something else, pass source_format=."
        ) from error
    if not isinstance(found, dict):
        return found
    if split not in found:
        raise ConversionError(
            f"{shorten(path)} has "
            f"{'' if split is None else f'no split {short_repr(split)}, but '}the splits "
            f"{first_few(list(found), 8)}. Choose one of them with split= (--split)."
        )
    return found[split]
