"""Source of the rows of a Lance table, all or those that a filter selects, as dicts.

Lance reads a single row without others, so a shuffled order costs no more than a sequential one.
Format: https://lance.org/format/table/.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.lazy_exports import optional_library
from ...common.messages import first_few, short_repr, shorten
from ...errors import NoRecordsError, SourceError, SourceNotFoundError
from ...files.paths import PathLike, text_of
from ..facts import SourceFacts
from ..file_source import hex_digest
from ..keys import Keys, check_key, check_keys
from ..provenance import FilePlace
from .column_lengths import column_named, lengths_of_column
from .decoded import DecodedRows, Form

Int64s = npt.NDArray[np.int64]

_ROW_NUMBER = "_rowoffset"
"""Name of Lance's column that has the number of each row; deleted rows are not counted."""


class LanceSource:
    """Rows of one version of a Lance table. Thread-safe, picklable.

    A record is a dict of column name to value. Values have the types that `ParquetDataSource`
    documents. The version is fixed when the source is made, so rows that writers add later are not
    read.

    Args:
        uri: a folder, or another URI that Lance accepts, such as `s3://…`.
        columns: names of the columns to read, in this order. Default: all. Others are not read.
        filter: a condition in Lance's SQL, such as `"split = 'train' and length > 10"`. The rows
            that satisfy it are the records, in the order of the table. Lance evaluates it in the
            constructor, and again in `lengths_by`. It takes 8 bytes of memory per selected row.
            None (default): all rows.
        version: version or tag of the table. Default: the newest.
        storage_options: options that are passed to Lance, for tables in stores.

    Raises:
        SourceNotFoundError: the table, or this version of it, does not exist.
        SourceError: the table cannot be read, or Lance does not understand the filter.
        NoRecordsError: there are no rows.
        ValueError: a name in `columns` is not a column of the table, or `columns` is empty.
        TypeError: `uri` is not a path.
        MissingExtraError: Lance is not installed.

    Example (needs a table):
        `LanceSource("train.lance", columns=["image", "label"], filter="label < 10")[0]` is a dict
        with these two keys.
    """

    _table: Any
    _process: int | None
    """Id of the process that last opened the table; None before that, and after unpickling."""

    def __init__(
        self,
        uri: PathLike,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        version: int | str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._uri, self._filter = text_of(uri), filter
        self._storage = None if storage_options is None else dict(storage_options)
        self._prepare()
        table = self._opened(version)
        self._version: int = table.version
        self._columns = _chosen(columns, table.schema.names, self._uri)
        self._rows = None if filter is None else self._let_through(table, filter)
        self._count = table.count_rows() if self._rows is None else len(self._rows)
        self._identity = self._digest(table)
        self._table, self._process = table, os.getpid()
        if not self._count:
            table_and_version = f"{shorten(self._uri)}, version {self._version},"
            if filter is None:
                raise NoRecordsError(
                    f"{table_and_version} has no rows. Pass another version=, or write rows to the "
                    "table."
                )
            raise NoRecordsError(
                f"{table_and_version} has no row for which filter={short_repr(filter)} is true. "
                "Pass another filter= or version=."
            )

    def _prepare(self) -> None:
        self._table = self._process = None
        self._form: Form | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        return self._read(np.array([check_key(key, self._count, "LanceSource")], np.int64))[0]

    def __getitems__(self, keys: Keys) -> list[dict[str, Any]]:
        """Return the rows of `keys`, in order, by one call of Lance.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: the table cannot be read; or this process was forked from one that had made
                or read the source.
        """
        return self._read(check_keys(keys, self._count, "LanceSource"))

    def _read(self, keys: Int64s) -> list[dict[str, Any]]:
        if not len(keys):
            return []
        try:
            taken = self._open().take(self._numbers(keys).tolist(), columns=list(self._columns))
        except SourceError:  # the table cannot be opened again
            raise
        except (OSError, ValueError, RuntimeError) as error:
            self._refuse(
                f"record key {keys[0]}, or one that was read with it, cannot be read", error
            )
        return DecodedRows(taken, self._form_of(taken)).rows(list(range(len(keys))))

    def _numbers(self, keys: Int64s) -> Int64s:
        return keys if self._rows is None else self._rows[keys]

    def _form_of(self, taken: Any) -> Form:
        if self._form is None:
            self._form = Form(
                self._columns, [taken.schema.field(name).type for name in self._columns]
            )
        return self._form

    def _open(self) -> Any:
        if self._process not in (None, os.getpid()):
            raise SourceError(
                f"{shorten(self._uri)}: this process was forked from a process that had read the "
                "table, and Lance does not work after a fork. Use the workers of DataLoader, or "
                "start processes with "
                'multiprocessing.get_context("spawn").'
            )
        with self._lock:
            if self._table is None:
                self._table = self._opened(self._version)
                self._process = os.getpid()
            return self._table

    def _opened(self, version: int | str | None) -> Any:
        lance = optional_library("lance", "LanceSource needs Lance", "lance")
        try:
            return lance.dataset(self._uri, version=version, storage_options=self._storage)
        except (OSError, ValueError, RuntimeError) as error:
            with_version = "" if version is None else f" with version {short_repr(version)}"
            if "not found" in str(error):
                raise SourceNotFoundError(
                    f"{shorten(self._uri)}: there is no Lance table{with_version}: "
                    f"{_plain(error)}. Check the path, version= and storage_options=."
                ) from error
            self._refuse(f"the Lance table{with_version} cannot be opened", error)

    def _refuse(self, what: str, error: Exception) -> NoReturn:
        raise SourceError(
            f"{shorten(self._uri)}: {what}: {_plain(error)}. Check the path, filter=, version= and "
            "storage_options=, or write the table again."
        ) from error

    def _let_through(self, table: Any, condition: str) -> Int64s:
        try:
            found = table.to_table(columns=[_ROW_NUMBER], filter=condition)
        except (OSError, ValueError, RuntimeError) as error:
            self._refuse(f"filter={short_repr(condition)} cannot be evaluated", error)
        numbers: Int64s = found[_ROW_NUMBER].to_numpy().astype(np.int64)
        return numbers

    def _digest(self, table: Any) -> str:
        """Return a digest of a table's version, of the columns, and of the filter.

        The version has files and deleted rows.
        """
        fragments = [
            (
                part.fragment_id,
                part.physical_rows,
                part.num_deletions,
                [file.path for file in part.metadata.files],
            )
            for part in table.get_fragments()
        ]
        return hex_digest(repr((self._columns, self._filter, fragments)))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Number of records, and a digest of the table's files, columns and filter.

        It does not depend on the folder.
        """
        return {"kind": "LanceSource", "records": self._count, "files": self._identity}

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            lengths_by=self.lengths_by,
            file_place=self.file_place,
        )

    def file_place(self, key: int) -> FilePlace:
        number = int(
            self._numbers(np.array([check_key(key, self._count, "LanceSource")], np.int64))[0]
        )
        return FilePlace(self._uri, number, f"version {self._version}")

    def lengths_by(self, name: str) -> Int64s:
        """Return the length of each value of a column, `int64[records]`.

        The values may be lists, texts or bytes. An integer is a length itself. The column is read.

        Args:
            name: name of the column, or path of a field in it, such as "meta/tokens".

        Raises:
            LengthsError: there is no such column, or its values have no length.
            SourceError: the table cannot be read.
        """
        table = self._open()
        own = column_named(name, table.schema.names, "the table has")
        try:
            column = table.to_table(columns=[own], filter=self._filter)[own]
        except (OSError, ValueError, RuntimeError) as error:
            self._refuse(f"column {short_repr(own)} cannot be read", error)
        return lengths_of_column(column, name, own)

    def close(self) -> None:
        """Close the table. The source stays usable: the next read opens the table again."""
        with self._lock:
            self._table = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_table", "_form", "_lock", "_process")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __repr__(self) -> str:
        return f"LanceSource({self._count} rows of {shorten(self._uri)}, version {self._version})"


def _plain(error: Exception) -> str:
    """Return the message of an error of Lance, shortened.

    It leaves out the line of Lance's own code that raised it.
    """
    return shorten(str(error).partition(", /")[0]).rstrip(".")


def _chosen(columns: Sequence[str] | None, names: Sequence[str], uri: str) -> tuple[str, ...]:
    if columns is None:
        return tuple(names)
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    unknown = [name for name in chosen if name not in names]
    if not chosen:
        raise ValueError(
            f"columns=[] is empty. Name at least one column of {shorten(uri)}: "
            f"{first_few(names, 8)}."
        )
    if unknown:
        raise ValueError(
            f"{shorten(uri)} has no column {first_few(list(map(short_repr, unknown)))}. Name some "
            f"of its columns: {first_few(names, 8)}."
        )
    return chosen
