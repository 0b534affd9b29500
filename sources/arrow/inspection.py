"""Inspect Parquet files: read the footer of each file, and compare the columns of all files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ...common.messages import a_kind_of, first_few, remedy_for, short_repr, shorten
from ...errors import SourceError
from ...files.partitions import types_of, values_in
from ...files.storage_options import storage_options_of
from .files import StoreFiles, parquet_library, resolve
from .record_columns import RecordColumns, can_cast, target_types
from .row_groups import ParquetPart, open_handle, stamp_of_open, unreadable
from .same_values import castable, common_type, values_of

Inspected: TypeAlias = tuple[ParquetPart, Any]
"""Facts about a file, and its Arrow schema."""

_SIGNATURE_BYTES = 28
"""Length of the signature after a footer that can be read, of a file with encrypted columns."""

_REMEDY = (
    "Pass schema= (a pyarrow.schema) with the columns and types to read; or columns= with names "
    "that have the same type in all files; or make one source for each schema."
)


def inspect_file(filesystem: Any, path: str) -> Inspected:
    """Read the footer of a file, and return facts about its row groups, and its Arrow schema.

    Args:
        filesystem: file system of the file.
        path: path of the file.

    Raises:
        SourceError: the file is missing, empty, cut off, encrypted or not Parquet; or has integers
            of 128 bits, or several columns, or fields of one struct, of one name.
    """
    magic = b""
    try:
        with open_handle(filesystem, path) as handle:
            stamp = stamp_of_open(filesystem, path, handle)
            if not stamp.size:
                raise SourceError(
                    f"{shorten(path)}: the file is empty (0 bytes). Remove the file, or write it "
                    "again."
                )
            magic = handle.read_at(8, stamp.size - 8) if stamp.size >= 8 else b""
            file = parquet_library().ParquetFile(handle)
            counts = tuple(
                file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)
            )
            schema = file.schema_arrow.remove_metadata()
            _check_names(schema, path)
            # The file ends in the footer, its length, and PAR1.
            length = int.from_bytes(magic[:4], "little")
            # pyarrow ends the process if the place of an encrypted column is asked for, as is done
            # for stores.
            if length - file.metadata.serialized_size == _SIGNATURE_BYTES and isinstance(
                filesystem, StoreFiles
            ):
                raise encrypted(path)
            footer = hashlib.sha256(handle.read_at(length, stamp.size - 8 - length)).hexdigest()[
                :16
            ]
            return ParquetPart(path, stamp, counts, footer), schema
    except SourceError:
        raise
    except unreadable() as error:
        if magic.endswith(b"PARE"):
            raise encrypted(path) from error
        if isinstance(error, OSError) and error.errno:  # without a number, it is about the content
            raise SourceError(
                f"{shorten(path)} cannot be read: {shorten(error)}. "
                f"{remedy_for(error, 'Check the path and its permissions')}."
            ) from error
        if "more than 64 bits" in str(error):
            raise SourceError(
                f"{shorten(path)} has integers of 128 bits, which pyarrow cannot read. Write them "
                "as 64 bits, decimals or texts, such as "
                "frame.with_columns(polars.col(name).cast(polars.String)).write_parquet(path)."
            ) from error
        raise SourceError(
            f"{shorten(path)} is not a Parquet file, or is cut off or damaged: {shorten(error)}. "
            "Pass a Parquet file, or write it again."
        ) from error


def encrypted(path: str) -> SourceError:
    """Return the error for a file that is encrypted.

    Args:
        path: path of the file.
    """
    return SourceError(
        f"{shorten(path)} is encrypted, or some of its columns are, and ParquetDataSource has no "
        "keys. Write a copy that is not encrypted: "
        "pyarrow.parquet.write_table(pyarrow.parquet.read_table(path, decryption_properties=…), "
        "copy)."
    )


def reading_error(path: str, what: str, error: BaseException) -> SourceError:
    """Return the error for a part of a file that cannot be read.

    Args:
        path: path of the file.
        what: the part, such as "record key 7".
        error: error of the library.
    """
    if "decrypt" in str(error):
        return encrypted(path)
    return SourceError(
        f"{shorten(path)}: {what} cannot be read: {shorten(error)}. Check the file, or write it "
        "again."
    )


def schema_of_file(path: str) -> Any:
    """Return the Arrow schema of a local Parquet file.

    Raises:
        SourceError: the file is not Parquet, is damaged, or has several columns of one name.
    """
    return inspect_file(resolve(None, path, storage_options_of(None))[0], path)[1]


def _check_names(fields: Iterable[Any], path: str) -> None:
    """Raise SourceError if two columns, or two fields of one struct, have the same name.

    A record is a dict, so names must be unique.

    Args:
        fields: fields of an Arrow schema or struct.
        path: path of the file, for the message.
    """
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = first_few(sorted(short_repr(name) for name in set(names) if names.count(name) > 1))
        raise SourceError(
            f"{shorten(path)}: several columns, or fields of one struct, have the same name, "
            f"{twice}. Write the file with a different name for each."
        )
    for field in fields:
        _check_names([field.type.field(number) for number in range(field.type.num_fields)], path)


def checked_schema(schema: Any) -> Any:
    """Return the user's `schema=` without metadata; None if it is None.

    Raises:
        TypeError: it is not a `pyarrow.Schema`.
        ValueError: it has no fields, or two fields of one name.
    """
    import pyarrow as pa

    if schema is None:
        return None
    if not isinstance(schema, pa.Schema):
        raise TypeError(
            f"schema= is {a_kind_of(schema)}. Pass a pyarrow.schema, such as pyarrow.schema([('x', "
            "'int64')])."
        )
    if not schema.names:
        raise ValueError("schema= has no fields. Pass a schema with at least one field.")
    twice = sorted({short_repr(name) for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ValueError(
            f"schema= has several fields of the name {first_few(twice)}. Pass a schema with each "
            "name once."
        )
    return schema.remove_metadata()


def record_columns(
    files: Sequence[Inspected], columns: Sequence[str] | None, schema: Any, top: str | None
) -> tuple[RecordColumns, tuple[str, ...]]:
    """Return the columns of the records, and the names of all columns that could be chosen.

    Args:
        files: facts and schema of each file that has rows; of the first file if none has rows.
        columns: the user's `columns=`.
        schema: the user's `schema=`, or None.
        top: folder below which names of folders are fields; None: they are not.

    Raises:
        SourceError: the files have different columns, or a column cannot be converted to its type
            in `schema`.
        ValueError: `columns` is empty; a name in `columns` is not a column of `schema` (of the
            files without `schema`); or no name in `schema` is a column of the files.
    """
    folders = {} if top is None else types_of([values_in(file.path, top) for file, _ in files])
    if schema is not None:
        folders = {name: kind for name, kind in folders.items() if name in schema.names}
        names = _chosen(columns, schema.names, "schema=")
        types = target_types(schema, schema.names)
        check_convertible(files, types, frozenset(folders))
        _check_any_there(files, schema, folders)
        return RecordColumns(names, types, frozenset(folders), top or ""), tuple(schema.names)
    first, first_schema = files[0]
    everything = (
        *first_schema.names,
        *(name for name in folders if first_schema.get_field_index(name) < 0),
    )
    names = _chosen(columns, everything, shorten(first.path))
    folders = {name: _own_type(files, name, kind) for name, kind in folders.items()}
    in_files = tuple(name for name in names if name not in folders)
    types = _common_types(files, in_files, frozenset(folders) if columns is None else None)
    return RecordColumns(names, {**types, **folders}, frozenset(folders), top or ""), everything


def _own_type(files: Sequence[Inspected], name: str, kind: Any) -> Any:
    """Return the type of a field that folders name.

    It is that of a column of this name in the first file that has one.

    Args:
        files: facts and schema of each file.
        name: name of the field.
        kind: type of the field if no file has such a column.
    """
    return next(
        (schema.field(name).type for _, schema in files if schema.get_field_index(name) >= 0), kind
    )


def check_convertible(
    files: Sequence[Inspected], types: dict[str, Any], folders: frozenset[str]
) -> None:
    """Raise SourceError if a column of a file cannot be converted to its type in the user's schema.

    Args:
        files: facts and schema of each file.
        types: type of each column of the user's schema.
        folders: names of the columns that folders name. Columns of these names in files are checked
            when they are read.
    """
    seen = None
    for file, own in files:
        if seen is not None and own.equals(seen):
            continue
        seen = own
        for name in (name for name in types if name in own.names and name not in folders):
            if not can_cast(own.field(name).type, types[name]):
                raise SourceError(
                    f"{shorten(file.path)}: column {short_repr(name)} is "
                    f"{shorten(own.field(name).type, 80)}, which cannot be converted to "
                    f"{shorten(types[name], 80)}. Pass schema= with another type of this column, "
                    "or without this column."
                )


def _check_any_there(files: Sequence[Inspected], schema: Any, folders: dict[str, Any]) -> None:
    if not folders and not any(set(schema.names) & set(own.names) for _, own in files):
        raise ValueError(
            f"schema= has the columns {first_few(list(map(short_repr, schema.names)))}, and no "
            f"file has any of them. Name some of the columns of {shorten(files[0][0].path)}: "
            f"{first_few(files[0][1].names, 8)}."
        )


def _common_types(
    files: Sequence[Inspected], columns: tuple[str, ...], ignored: frozenset[str] | None
) -> dict[str, Any]:
    """Return the types of the columns that must be converted in some file. Mostly there are none.

    The order of columns, whether they may contain nulls, and types that give equal values may
    differ.

    Args:
        files: facts and schema of each file.
        columns: names of the columns that are read.
        ignored: further columns that a file may have. None: it may have any.

    Raises:
        SourceError: the columns of a file differ from those of the files before it. The message
            names columns that differ, and both files.
    """
    first, schema = files[0]
    types = {
        name: (schema.field(name).type, first.path) for name in columns if name in schema.names
    }
    seen, converted = schema, set()
    for file, own in files[1:]:
        if own.equals(seen):
            continue
        seen = own
        _check_same_names(first.path, file.path, own, columns, ignored)
        for name in columns:
            held, (kind, path) = own.field(name).type, types[name]
            common = common_type(kind, held)
            if common is None:
                raise SourceError(
                    f"{shorten(file.path)} has other columns than {shorten(path)}: "
                    f"{short_repr(name)} is {shorten(held, 80)}, not {shorten(kind, 80)}. {_REMEDY}"
                )
            if common is not kind:
                types[name] = common, file.path
            if values_of(held) != values_of(common) or values_of(kind) != values_of(common):
                converted.add(name)
    return {name: castable(types[name][0]) for name in columns if name in converted}


def _check_same_names(
    first: str, path: str, own: Any, columns: tuple[str, ...], ignored: frozenset[str] | None
) -> None:
    there = set(own.names)
    difference = [f"{short_repr(name)} is missing" for name in columns if name not in there]
    if ignored is not None:
        difference += [
            f"{short_repr(name)} is new" for name in own.names if name not in {*columns, *ignored}
        ]
    if difference:
        raise SourceError(
            f"{shorten(path)} has other columns than {shorten(first)}: {first_few(difference)}. "
            f"{_REMEDY}"
        )


def check_same_records(
    first: Inspected, other: Inspected, columns: Sequence[str] | None, schema: Any, top: str | None
) -> None:
    """Raise SourceError if a file cannot be added to a growing source.

    That is so if it would change the records before it.

    Args:
        first: the first file of the source.
        other: the added file.
        columns: the user's `columns=`.
        schema: the user's `schema=`, or None.
        top: folder below which names of folders are fields; None: they are not.
    """
    if schema is not None:
        folders = frozenset() if top is None else frozenset(values_in(other[0].path, top))
        check_convertible([other], target_types(schema, schema.names), folders)
        return
    before, _ = record_columns([first], columns, None, top)
    after, _ = record_columns([first, other], columns, None, top)
    for name, kind in after.types.items():
        known = (
            [before.types[name]]
            if name in before.types
            else [field.type for field in first[1] if field.name == name]
        )
        if known and (values_of(kind) == values_of(known[0]) or str(known[0]) == "null"):
            continue
        was = shorten(known[0], 80) if known else "missing"
        raise SourceError(
            f"{shorten(other[0].path)}: column {short_repr(name)} is {shorten(kind, 80)}, but "
            f"{was} in {shorten(first[0].path)}. All files of a growing source must have the same "
            f"columns. {_REMEDY}"
        )


def _chosen(columns: Sequence[str] | None, names: Sequence[str], whose: str) -> tuple[str, ...]:
    if columns is None:
        return tuple(names)
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if not chosen:
        raise ValueError(
            f"columns=[] is empty. Name at least one column of {whose}: {first_few(names, 8)}."
        )
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(
            f"{whose} has no column {first_few(list(map(short_repr, unknown)))}. Name some of its "
            f"columns: {first_few(names, 8)}."
        )
    return chosen
