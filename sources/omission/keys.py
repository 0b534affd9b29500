"""Keys of the records that a user wants to omit.

The user passes the keys, the path of a file of keys, or a predicate of file and row. A file of keys
is an `.npy` file of integers, or text with one key per line: an int, or a JSON object with the key
as `"key"`. Blank lines, and lines that begin with `#`, are ignored. The file may be compressed, or
in a store.
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...common.messages import TEXT, a_kind_of, short_repr, shorten
from ...errors import RecordKeyError, SourceError, SourceNotFoundError
from ...files.opened import local_copy
from ...files.paths import PathLike, text_of
from ...files.storage_options import StorageOptionsLike, storage_options_of
from ...files.streams import open_stream
from ..keys import check_keys
from ..tokens.files import map_npy
from .predicate import FileAndRow, selected_keys

Int64s = npt.NDArray[np.int64]

Omit: TypeAlias = Iterable[int] | PathLike | FileAndRow
"""Type of the argument `omit=`: keys, the path of a file of keys, or a predicate of file, row."""

OmitOfParts: TypeAlias = Omit | Mapping[str, Omit]
"""Type of `omit=` for a mix: an `Omit`, or a dict of an `Omit` for each part by name."""

REMEDY = "Pass an array of record keys, the path of a file of keys, or a function of file and row"


def keys_to_omit(
    source: Any, omit: Any, storage_options: StorageOptionsLike = None, argument: str = "omit"
) -> Int64s:
    """Return the keys of records that a user omits, `int64[n]`, ascending, without duplicates.

    Args:
        source: the source of the records.
        omit: an array, a list or a set of keys, in any order; the path of a file of keys; or a
            predicate `(file, row)`, which is called for the rows of each file.
        storage_options: how a file of keys in a store is reached.
        argument: the user's name of `omit`, for messages.

    Raises:
        TypeError: `omit` has another type, or a key is not an integer.
        RecordKeyError: a key lies outside `[0, len(source))`.
        SourceError: the file of keys cannot be read; or `omit` is a predicate, and the source does
            not know the files of its records.

    >>> keys_to_omit(range(10), [7, 3, 7]).tolist()
    [3, 7]
    """
    if callable(omit):
        return selected_keys(source, omit)
    if isinstance(omit, (str, bytes, os.PathLike)):
        name = text_of(omit)
        if os.path.isdir(name):
            raise SourceError(f"{argument}={short_repr(name, TEXT)} is a folder. {REMEDY}.")
        try:
            keys = keys_in_file(name, storage_options)
        except SourceNotFoundError:
            raise SourceNotFoundError(
                f"{argument}={short_repr(name, TEXT)} does not name an existing file of keys. "
                f"{REMEDY}."
            ) from None
        return checked(keys, len(source), shorten(name))
    return checked(_listed(omit, argument), len(source), argument)


def checked(keys: Any, records: int, whose: str) -> Int64s:
    """Return record keys as `int64[n]`, ascending and without duplicates.

    Check their type and range first.

    Args:
        keys: record keys.
        records: number of records of the source.
        whose: what the keys come from, "omit" or the name of a file; error messages begin with it.

    Raises:
        TypeError: the keys are not integers.
        RecordKeyError: a key lies outside `[0, records)`. The message names one such key.
    """
    try:
        return np.unique(check_keys(keys, records, whose))
    except TypeError as error:
        raise TypeError(f"{shorten(str(error).partition('. Pass ')[0], 300)}. {REMEDY}.") from None
    except RecordKeyError as error:
        raise RecordKeyError(f"{shorten(error, 300)}.") from None


def _listed(omit: Any, argument: str) -> Any:
    """Return keys as an array or a sequence.

    Args:
        omit: an array, a list, a set or another iterable of keys.
        argument: the user's name of `omit`.

    Raises:
        TypeError: `omit` is not iterable, or is a mapping.
    """
    if isinstance(omit, (np.ndarray, list, tuple, range)):
        return omit
    if isinstance(omit, (set, frozenset)) or (
        isinstance(omit, Iterable) and not hasattr(omit, "keys")
    ):
        return list(omit)
    raise TypeError(f"{argument}={short_repr(omit)} is {a_kind_of(omit)}. {REMEDY}.")


def keys_in_file(name: str, storage_options: StorageOptionsLike = None) -> Any:
    """Return the keys in a file as an array or a list, without a check of their range.

    Args:
        name: path or URL of the file: `.npy`, or text with a key in each line.
        storage_options: how a file in a store is reached.

    Raises:
        SourceNotFoundError: the file does not exist.
        SourceError: the file cannot be read, or a line is not a key.
    """
    storage = storage_options_of(storage_options)
    if name.lower().endswith(".npy"):
        with local_copy(name, storage) as copy:
            return np.array(
                map_npy(
                    copy, name, "Save the keys as an array of integers with one axis by np.save"
                )
            )
    with open_stream(name, "auto", storage) as stream:
        return list(_keys_of_lines(stream, name))


def _keys_of_lines(lines: Iterable[bytes], name: str) -> Iterator[int]:
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(BOM_UTF8).strip() if number == 1 else line.strip()
        if not text or text.startswith(b"#"):
            continue
        try:
            yield int(text) if not text.startswith(b"{") else _key_of(json.loads(text))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SourceError(
                f"{shorten(name)}: line {number} is {short_repr(text)}, which is not a record key. "
                'Write one int in each line, or a JSON object with an int as "key".'
            ) from None


def _key_of(value: Any) -> int:
    key = value["key"]
    if type(key) is not int:
        raise TypeError
    return key
