"""Turns the user's arguments into a job. In: arguments. Out: a job, and its identity in plain JSON values."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np

from ..common.messages import short_repr, shorten
from ..common.validation import one_of, whole_number
from ..errors import ConversionError
from ..files.paths import text_of
from ..files.storage_options import StorageOptionsLike, storage_options_of
from ..files.streams import MAX_EXPANSION
from ..files.urls import is_remote, local_path
from .inputs.find import find_input, is_paths
from .inputs.formats import Opening
from .inputs.from_files import FileInput
from .job import ConversionJob, InputPart, OnDamage, Output, RecordInput
from .outputs.array_record import ArrayRecordOutput
from .outputs.parquet import LOOKED_AT, ParquetOutput, schema_of
from .outputs.tokens import TokensOutput
from .steps import DECODERS, SingleNumbers, Step, identity_of, raised_at
from .target import Target

_BEGIN = 60
"""So many characters of a value are kept for that, and for messages."""


@dataclass(frozen=True)
class Wanted:
    """The arguments of `convert` that the result depends on."""

    source: Any
    to: str
    source_format: str | None
    split: str | None
    shards: int | None
    on_error: str
    decode: str | None
    transform: Callable[[Any], Any] | None
    encode: str | Callable[[Any], bytes] | None
    options: Mapping[str, Any]
    tokenizer: str | None
    column: str | None
    storage_options: StorageOptionsLike
    max_expansion: int = MAX_EXPANSION


def prepared(wanted: Wanted, target: str) -> tuple[ConversionJob, dict[str, Any]]:
    """The job, and what it is: two with one identity write the same bytes.

    Raises:
        ConversionError: arguments do not go together, or what is read cannot become what is wanted.
        ValueError: an argument is none of its choices.
        SourceError: the source cannot be read.
    """
    _check(wanted)
    _check_apart(wanted.source, target)
    storage = storage_options_of(wanted.storage_options)
    as_bytes = wanted.to == "array_record" and wanted.transform is None
    index_dir = Target(target, storage).folder.index_dir
    opening = Opening({}, index_dir, storage, wanted.max_expansion, _document_length(wanted))
    found = find_input(wanted.source, wanted.source_format, wanted.split, as_bytes, opening)
    if opening.document_length is not None and _format(found) != "npy":
        raise ConversionError("document_length= divides .npy files of tokens, and the source is something else.")
    decode, skips = _decoding(wanted, found), wanted.on_error == "skip"
    steps = _steps(wanted, decode, found, skips)
    output = _output(wanted, found, steps, skips)
    options = {
        **output.identity(),
        "decode": decode,
        "transform": identity_of(wanted.transform),
        "shards": wanted.shards,
        "on_error": wanted.on_error,
    }
    identity = json.loads(json.dumps({"source": found.identity(), "options": options}, default=str))
    return ConversionJob(found, output, steps, skips, target, storage), identity


def _check_apart(source: Any, target: str) -> None:
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


def _check(wanted: Wanted) -> None:
    one_of("to", wanted.to, "array_record", "parquet", "tokens")
    one_of("on_error", wanted.on_error, "raise", "skip")
    if wanted.decode is not None:
        one_of("decode", wanted.decode, "bytes", *DECODERS)
    if wanted.encode is not None and not callable(wanted.encode):
        one_of("encode", wanted.encode, "example", "json")
    if wanted.transform is not None and not callable(wanted.transform):
        raise TypeError(f"transform={short_repr(wanted.transform)} must be a function of a record.")
    if wanted.shards is not None:
        whole_number("shards", wanted.shards, 1, None, "a number of files, such as 16")
    whole_number(
        "max_expansion", wanted.max_expansion, 1, None, "how many times its size a file may unpack to, such as 1000"
    )
    if not isinstance(wanted.options, Mapping):
        raise TypeError(f"options={short_repr(wanted.options)} must be a dict, {{name: value}}.")
    for name, value, to in (
        ("encode", wanted.encode, "array_record"),
        ("tokenizer", wanted.tokenizer, "tokens"),
        ("column", wanted.column, "tokens"),
    ):
        if value is not None and wanted.to != to:
            raise ConversionError(f'{name}= goes with to="{to}", not "{wanted.to}".')


def _document_length(wanted: Wanted) -> int | None:
    length = wanted.options.get("document_length") if wanted.to == "tokens" else None
    return (
        None if length is None else whole_number("document_length", length, 1, None, "a number of tokens, such as 1024")
    )


def _decoding(wanted: Wanted, found: RecordInput) -> str | None:
    """TFRecord files hold examples, which are taken apart where the target needs what is in them."""
    if wanted.decode is not None:
        return None if wanted.decode == "bytes" else wanted.decode
    return "example" if wanted.to != "array_record" and _format(found) == "tfrecord" else None


def _format(found: RecordInput) -> str | None:
    return found.form.name if isinstance(found, FileInput) else None


def _steps(wanted: Wanted, decode: str | None, found: RecordInput, skips: bool) -> tuple[Step, ...]:
    steps: tuple[Step, ...] = () if decode is None else (DECODERS[decode],)
    if decode == "example" and wanted.to == "parquet":
        steps += (SingleNumbers(_first(found, steps, skips)),)
    return steps if wanted.transform is None else (*steps, wanted.transform)


def _output(wanted: Wanted, found: RecordInput, steps: tuple[Step, ...], skips: bool) -> Output:
    if wanted.to == "tokens":
        return TokensOutput(wanted.tokenizer, wanted.column, {**_dtype(wanted, found, steps, skips), **wanted.options})
    if wanted.to == "array_record":
        encode = wanted.encode or (found.form.encode if isinstance(found, FileInput) else "example")
        return ArrayRecordOutput(encode, identity_of(encode), wanted.options)
    schema = None if steps else found.schema()
    return ParquetOutput(schema or schema_of(_first(found, steps, skips)), wanted.options)


def _dtype(wanted: Wanted, found: RecordInput, steps: tuple[Step, ...], skips: bool) -> dict[str, str]:
    """Tokens of `.npy` files keep their dtype."""
    if wanted.tokenizer is not None or _format(found) != "npy":
        return {}
    record = next(_prepared(found, steps, _ignored if skips else None), None)
    dtype = getattr(record.get("tokens") if isinstance(record, Mapping) else record, "dtype", None)
    return {"dtype": str(dtype)} if dtype is not None and dtype.kind in "iu" else {}


def _first(found: RecordInput, steps: tuple[Step, ...], skips: bool) -> list[Any]:
    """The first records, as they are after some steps; of long values as much as tells their types."""
    return list(map(_short, islice(_prepared(found, steps, _ignored if skips else None), LOOKED_AT)))


def _short(record: Any) -> Any:
    if isinstance(record, dict):
        return {name: _begin(value) for name, value in record.items()}
    return _begin(record) if isinstance(record, np.ndarray) else record


def _begin(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return value[:2].copy()
    return value[:_BEGIN] if isinstance(value, (bytes, str)) else value


def _prepared(found: RecordInput, steps: tuple[Step, ...], on_damage: OnDamage) -> Iterator[Any]:
    for part in map(InputPart, found.names()):
        for chunk in found.read(part, on_damage):
            for place, record in chunk.records:
                try:
                    for step in steps:
                        record = step(record)
                except Exception as error:
                    if on_damage is None:
                        raised_at(error, found.place(part, place))
                    on_damage(error)
                else:
                    yield record


def _ignored(error: Exception) -> None:
    """It is counted when the record is converted."""
