"""Turn the user's arguments into a job, and into JSON values that identify the conversion."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np

from ..common.fields import field_values
from ..common.messages import short_repr, shorten
from ..common.validation import one_of, whole_number
from ..errors import ConversionError
from ..files.paths import text_of
from ..files.storage_options import StorageOptionsLike, storage_options_of
from ..files.urls import is_remote, local_path
from .inputs.find import find_input, is_paths
from .inputs.formats import Opening
from .inputs.without import WithoutRecords
from .job import ConversionJob, InputPart, OnDamage, Output, RecordInput
from .outputs.array_record import ArrayRecordOutput
from .outputs.byte_records import BytesOutput
from .outputs.parquet import LOOKED_AT, ParquetOutput, schema_of
from .outputs.tokens import TokensOutput
from .steps import DECODERS, SingleNumbers, Step, identity_of, raised_at
from .target import target_at

_OF_BYTES = ("array_record", "bytes")
"""Formats whose records are bytes."""

_BEGIN = 60
"""Number of characters or bytes of a value that are kept to infer its type."""


@dataclass(frozen=True)
class Wanted:
    """Arguments of `convert` on which the result depends."""

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
    max_expansion: int
    omit: Any = None


def prepared(wanted: Wanted, target: str) -> tuple[ConversionJob, dict[str, Any]]:
    """Check the arguments.

    Return the job, and JSON values that identify it: equal ones mean that the same bytes are
    written.

    Args:
        wanted: arguments of `convert`.
        target: path or URL of the target folder.

    Raises:
        ConversionError: arguments do not fit together, or the input cannot be converted as
            requested.
        TypeError, ValueError: an argument has a wrong type, or is not one of its choices.
        SourceError: the source cannot be read.
    """
    _check(wanted)
    _check_apart(wanted.source, target)
    storage, skips = storage_options_of(wanted.storage_options), wanted.on_error == "skip"
    length = wanted.options.get("document_length") if wanted.to == "tokens" else None
    if length is not None:
        length = whole_number(
            "document_length", length, 1, None, "a number of tokens, such as 1024"
        )
    opening = Opening(
        {}, target_at(target, storage).index_dir, storage, wanted.max_expansion, length
    )
    as_bytes = wanted.to in _OF_BYTES and wanted.transform is None
    found = find_input(wanted.source, wanted.source_format, wanted.split, as_bytes, opening)
    if length is not None and found.format != "npy":
        raise ConversionError(
            f"document_length={length} is for .npy files of tokens, but the source is "
            f"{found.format or 'a source in Python'}. Leave document_length= out, or pass .npy "
            "files."
        )
    if wanted.omit is not None:
        found = WithoutRecords(found, wanted.omit, storage)
    # TFRecord files hold examples, which are taken apart where the target needs what is in them.
    by_format = "example" if wanted.to not in _OF_BYTES and found.format == "tfrecord" else None
    decode = (
        by_format if wanted.decode is None else None if wanted.decode == "bytes" else wanted.decode
    )
    first = partial(_prepared, found, (lambda error: None) if skips else None)
    steps: tuple[Step, ...] = () if decode is None else (DECODERS[decode],)
    if decode == "example" and wanted.to == "parquet":
        steps += (SingleNumbers(_begins(first(steps))),)
    steps += () if wanted.transform is None else (wanted.transform,)
    output = _output(wanted, found, first(steps), bool(steps))
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
    """Raise ConversionError if the target is, or lies in, a folder of the source.

    Its files would be read as input.

    Does nothing if the source is not a path.
    """
    paths = source if isinstance(source, (list, tuple)) else [source]
    for path in map(text_of, paths if is_paths(source) else ()):
        if not is_remote(path) and not os.path.lexists(path):
            if "**" not in path:
                continue
            while glob.has_magic(path):  # all below the folder of a `**` is read
                path = os.path.dirname(path)
        if _place(target).is_relative_to(_place(path or ".")):
            raise ConversionError(
                f"the target {shorten(target)} is inside the source {shorten(path or '.')}, so the "
                "new files would become part of the source. Pass a target outside of the source."
            )


def _place(path: str) -> PurePath:
    return PurePath(path) if is_remote(path) else PurePath(os.path.realpath(local_path(path)))


def _check(wanted: Wanted) -> None:
    one_of("to", wanted.to, "array_record", "bytes", "parquet", "tokens")
    one_of("on_error", wanted.on_error, "raise", "skip")
    if wanted.decode is not None:
        one_of("decode", wanted.decode, "bytes", *DECODERS)
    if wanted.encode is not None and not callable(wanted.encode):
        one_of("encode", wanted.encode, "example", "json")
    if wanted.transform is not None and not callable(wanted.transform):
        raise TypeError(
            f"transform={short_repr(wanted.transform)} must be a function that takes a record."
        )
    if wanted.shards is not None:
        whole_number("shards", wanted.shards, 1, None, "a number of files, such as 16")
    expands = "how many times its size a file may unpack to, such as 1000"
    whole_number("max_expansion", wanted.max_expansion, 1, None, expands)
    if not isinstance(wanted.options, Mapping):
        raise TypeError(
            f"options={short_repr(wanted.options)} must be a dict, such as {{name: value}}."
        )
    if wanted.omit is not None and wanted.on_error == "skip":
        raise ConversionError(
            'omit= counts the records of the source, and on_error="skip" leaves damaged records '
            'out, which would change this count. Pass on_error="raise" with omit=.'
        )
    given = field_values(wanted)
    for name, formats in (
        ("encode", _OF_BYTES),
        ("tokenizer", ("tokens",)),
        ("column", ("tokens",)),
    ):
        if given[name] is not None and wanted.to not in formats:
            possible = " or ".join(f'to="{each}"' for each in formats)
            raise ConversionError(
                f'{name}= works with {possible}, but to= is "{wanted.to}". Leave {name}= out, or '
                "change to=."
            )


def _output(wanted: Wanted, found: RecordInput, records: Iterator[Any], is_changed: bool) -> Output:
    if wanted.to in _OF_BYTES:
        encode = wanted.encode or found.encode
        output = ArrayRecordOutput if wanted.to == "array_record" else BytesOutput
        return output(encode, identity_of(encode), wanted.options)
    if wanted.to == "parquet":
        schema = None if is_changed else found.schema()
        return ParquetOutput(schema or schema_of(_begins(records)), wanted.options)
    options = dict(wanted.options)
    if wanted.tokenizer is None and found.format == "npy":  # tokens keep their dtype
        record = next(records, None)
        dtype = getattr(
            record.get("tokens") if isinstance(record, Mapping) else record, "dtype", None
        )
        if dtype is not None and dtype.kind in "iu":
            options = {"dtype": str(dtype), **options}
    return TokensOutput(wanted.tokenizer, wanted.column, options)


def _begins(records: Iterator[Any]) -> list[Any]:
    """Return the first records, with long arrays cut off: enough for the types of the values."""
    return [
        {name: _begin(value) for name, value in record.items()}
        if isinstance(record, dict)
        else _begin(record)
        if isinstance(record, np.ndarray)
        else record
        for record in islice(records, LOOKED_AT)
    ]


def _begin(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return value[:2].copy()
    return value[:_BEGIN] if isinstance(value, (bytes, str)) else value


def _prepared(found: RecordInput, on_damage: OnDamage, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Yield all records of an input after some steps.

    Args:
        found: the input.
        on_damage: function that is called with the error for each record that is skipped. None: the
            error is raised.
        steps: functions that are applied to each record, in order.
    """
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
