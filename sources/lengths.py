"""Lengths of all records, `int64[records]`, found without reading records where possible.

The facts about a source may have three functions: `lengths` (of the arrays in records),
`lengths_by` (of a field, or the number in it) and `record_bytes` (sizes in the file).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..common.costs import as_length, as_lengths
from ..common.identity.functions import function_identity
from ..common.messages import a_kind_of, first_few, remedy_for, short_repr, shorten
from ..common.validation import array_of
from ..errors import LengthsError, OutputError
from ..files.opened import OpenFile
from ..files.paths import PathLike, text_of
from ..files.stamps import Stamp
from ..formats.index import (
    SUFFIX,
    FoundRecords,
    Index,
    IndexKind,
    digest_of,
    read_index,
    write_index,
)
from .accepted import as_source
from .facts import facts_of
from .mixed.source import MixedSource
from .protocol import SourceLike, fingerprint_of, reader_of

Int64s = npt.NDArray[np.int64]

LengthsLike: TypeAlias = (
    "str | os.PathLike[str] | Callable[[Any], Any] | npt.ArrayLike | Mapping[Any, Any]"
)
"""Types of the argument `lengths=` that users pass; see `lengths_of`."""

BYTES = "bytes"
"""Value of `lengths=` that selects the size of each record in its file."""

_AT_A_TIME = 1024
"""Number of records that are read per call when a user's function measures them."""


def lengths_of(source: SourceLike, lengths: LengthsLike | None = None) -> Int64s:
    """Return the length of each record, in the order of keys.

    Args:
        source: any source.
        lengths: where the lengths come from:

            * None: the source's own `lengths`;
            * an array: one length for each record;
            * a string: name of a field. A length is the length of the array, list or text in the
              field, or the number in the field. "bytes" means the size of each record in its file;
              if the source does not know sizes, the field of this name;
            * a function that takes a record and returns its length. All records are read by this
              call;
            * a `pathlib.Path`: a file that `headrace.measure_lengths` wrote.

    Returns:
        `int64[len(source)]`, read-only. For a mix, keys without a record have length 0.

    Raises:
        LengthsError: the source does not know lengths; there is not one length for each record; or
            a length is negative, NaN or not a whole number; or a file of lengths is missing or
            belongs to another source.
        TypeError: `lengths` has another type, or does not contain numbers.

    >>> lengths_of([np.zeros(3), np.zeros(5)], len).tolist()
    [3, 5]
    """
    source = as_source(source)
    count = len(source)
    if isinstance(source, MixedSource) and (
        lengths is None or isinstance(lengths, str) or callable(lengths)
    ):
        return as_lengths(
            source.by_key([lengths_of(part, lengths) for part in source.parts.values()]), count
        )
    if lengths is None:
        return as_lengths(_own(source), count, f"{type(source).__name__}.lengths")
    if isinstance(lengths, os.PathLike):
        kept = lengths_in_file(lengths, source)
        if kept is None:
            raise LengthsError(
                f"{shorten(text_of(lengths))} is missing or damaged, or does not contain lengths "
                "of this source. Write it with headrace.measure_lengths(source, function, path)."
            )
        return as_lengths(kept, count)
    if isinstance(lengths, str):
        return as_lengths(_named(source, lengths), count, f"lengths={short_repr(lengths)}")
    if callable(lengths):
        return measured(source, lengths)
    if isinstance(lengths, (Mapping, bool, bytes)):
        raise TypeError(
            f"lengths={short_repr(lengths)} is {a_kind_of(lengths)}. Pass an array, the name of a "
            "field, or a function of a record."
        )
    if isinstance(source, MixedSource) and (shape := array_of(lengths).shape) != (count,):
        parts = [f"{name} ({len(part)} records)" for name, part in source.parts.items()]
        raise LengthsError(
            f"lengths= has the shape {shape}, but the source is a mix of {first_few(parts)}. Pass "
            "the name of a field, or a function of a record. To balance a mix, pass "
            "balance=headrace.Balance({part: lengths, …}) to its MixSampler."
        )
    return as_lengths(lengths, count)


def measured(source: Any, function: Callable[[Any], Any]) -> Int64s:
    """Return the lengths that a function returns for all records, `int64[records]`, read-only.

    Args:
        source: source whose records are all read by this call.
        function: takes a record and returns its length.

    Raises:
        LengthsError: a result is not a whole number of at least 0.
    """
    found = np.empty(len(source), np.int64)
    read = reader_of(source)
    for start in range(0, len(found), _AT_A_TIME):
        keys = np.arange(start, min(start + _AT_A_TIME, len(found)), dtype=np.int64)
        for key, record in zip(keys.tolist(), read(keys)):
            found[key] = as_length(function(record), key)
    found.flags.writeable = False
    return found


def lengths_in_file(path: PathLike, source: Any, function: Any = None) -> Int64s | None:
    """Read lengths that `keep_lengths` wrote.

    Return None if they are missing, damaged, or of another source or function.

    Args:
        path: path of the file.
        source: source of the records.
        function: function that measured the lengths. None: any function.
    """
    place = text_of(path)
    found = (
        read_index(place, _file_kind(source), Stamp(len(source), None))
        if os.path.exists(place)
        else None
    )
    if found is None or (function is not None and found.words != (function_identity(function),)):
        return None
    return found.arrays["lengths"]


def keep_lengths(path: PathLike, source: Any, function: str, lengths: Int64s) -> None:
    """Write the lengths of a source's records to a file, with the source's fingerprint.

    The file appears when it is complete.

    Args:
        path: path of the file.
        source: source of the records.
        function: identity of the function that measured the lengths. Take it before the first call,
            because calls may change the function's state.
        lengths: `int64[records]`.

    Raises:
        OutputError: the file cannot be written.
    """
    arrays, words = {"lengths": lengths}, (function,)
    index = Index(len(lengths), Stamp(len(source), None), digest_of(arrays, words), arrays, words)
    try:
        write_index(text_of(path), _file_kind(source).name, index)
    except OSError as error:
        raise OutputError(
            f"{shorten(text_of(path))}: the lengths cannot be written: {shorten(error)}. "
            f"{remedy_for(error, 'Pass a path in a folder that you may write to')}."
        ) from error


def _file_kind(source: Any) -> IndexKind:
    return lengths_kind(
        _no_pass, "a source", json.dumps(fingerprint_of(source), sort_keys=True, default=str)
    )


def _no_pass(file: OpenFile) -> FoundRecords:
    raise NotImplementedError(
        f"lengths of several files cannot be found in the single file {file.path}. This is a fault "
        "in headrace. Report it, with the output of `headrace report PROGRAM.py`."
    )


def lengths_kind(
    find: Callable[[OpenFile], FoundRecords], of: str, name: str, described: Any = None
) -> IndexKind:
    """Return the description of an index that contains lengths.

    Args:
        find: function that reads an open file and returns its lengths.
        of: format of the file.
        name: name of the field that is measured.
        described: JSON values that the lengths depend on, besides the file.
    """
    said = repr((of, name, described))
    suffix = f".{hashlib.sha256(said.encode()).hexdigest()[:8]}{SUFFIX}"
    return IndexKind(f"lengths in {said}", find, {"lengths": ("<i8", ())}, _fits, suffix)


def _fits(found: FoundRecords, size: int) -> bool:
    lengths = found.arrays["lengths"]
    return len(lengths) == found.count and bool((lengths >= 0).all())


def _own(source: Any) -> Any:
    own = facts_of(source).lengths()
    if own is None:
        raise LengthsError(
            f"{type(source).__name__} does not know the lengths of its records. Pass lengths= as "
            "an array, the name of a field, or a function of a record."
        )
    if not isinstance(own, Mapping):
        return own
    leaves = _leaves(own)
    if len(leaves) > 1:
        raise LengthsError(
            f"{type(source).__name__} knows the lengths of {len(leaves)} arrays of a record: "
            f"{first_few(sorted(leaves))}. Choose one of them, such as "
            f"lengths={next(iter(leaves))!r}."
        )
    return next(iter(leaves.values()))


def _named(source: Any, name: str) -> Any:
    facts = facts_of(source)
    sizes = facts.record_bytes() if name == BYTES else None
    if sizes is not None:
        return sizes
    if facts.lengths_by is not None:
        return facts.lengths_by(name)
    own = facts.lengths()
    leaves = _leaves(own) if isinstance(own, Mapping) else {}
    if name in leaves:
        return leaves[name]
    known_names = (
        f"It knows lengths of {first_few(sorted(leaves))}"
        if leaves
        else "It knows no lengths by name"
    )
    raise LengthsError(
        f"lengths={short_repr(name)}: {type(source).__name__} does not know lengths of this name. "
        f"{known_names}. Pass {'one of these names, ' if leaves else ''}an array, or a function of "
        "a record."
    )


def _leaves(lengths: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Flatten a tree of arrays: `{"audio": {"samples": a}}` -> `{"audio/samples": a}`.

    Args:
        lengths: a dict of arrays, or of such dicts.
        before: prefix of all paths.
    """
    found: dict[str, Any] = {}
    for key, value in lengths.items():
        path = f"{before}{key}"
        found.update(_leaves(value, f"{path}/") if isinstance(value, Mapping) else {path: value})
    return found
