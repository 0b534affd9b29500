"""In: record keys. Out: the rows of a Hugging Face `datasets.Dataset`, read from the Arrow table that it keeps.

The rows of a dataset without a format, and of one `with_format("numpy")`, are read here: many times faster than `datasets`
reads them, and as whole columns where a batch of numbers is all that is asked for. Other formats, and features that are decoded
(images, audio), are read by `datasets` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ...errors import SourceError
from ..keys import Keys, check_key, check_keys
from ..parts import LastResult
from ..protocol import fingerprint_of, is_hugging_face
from .column_lengths import column_named, lengths_of_column
from .columns import Array
from .pieces import Finder, Int64s, PieceRows, Places
from .table import Lists, Numbers, TableColumn, Text, table_column

_TABLE_FORMATS = ("arrow", "pandas", "polars")


class HuggingFaceDataSource:
    """The rows of a Hugging Face `datasets.Dataset`. A `DataLoader` makes one of a dataset that it is given.

    A row is a dict. Its values depend on the dataset's format:

    * none: Python objects, as `dataset[k]` gives them;
    * `with_format("numpy")`: NumPy scalars and arrays of the dtypes that are stored, as `ParquetDataSource` gives them;
    * any other, or with features that are decoded (images): what `dataset.__getitems__` gives.

    Where all columns are numbers or texts (or, with NumPy's format, arrays of one shape), a plain `Batch` takes them right
    from the table. A dataset on disk stays there: it is mapped into memory, and pickled it is the names of its files.

    Args:
        dataset: a `datasets.Dataset`, its rows selected and shuffled as you like.

    Raises:
        TypeError: it is something else; or its format is "arrow", "pandas" or "polars", which has no rows.

    Example (needs `datasets`):
        `HuggingFaceDataSource(datasets.load_from_disk(path).with_format("numpy"))[0]["label"]` is a NumPy integer.
    """

    array_keys: ClassVar[bool] = True
    checks_keys: ClassVar[bool] = True

    def __init__(self, dataset: Any) -> None:
        if not is_hugging_face(dataset):
            raise TypeError(f"HuggingFaceDataSource takes a datasets.Dataset, not {a_kind_of(dataset)}.")
        form = dataset.format["type"]
        if form in _TABLE_FORMATS:
            raise TypeError(
                f'a datasets.Dataset with_format("{form}") gives tables, not rows; pass dataset.with_format("numpy"), or '
                "with_format(None) for Python objects."
            )
        self.dataset = dataset
        self._length = len(dataset)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        row: dict[str, Any] = self.__getitems__([check_key(key, self._length, "HuggingFaceDataSource")])[0]
        return row

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """The rows of `keys`, in their order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file of the dataset is damaged; the message names it, and the column.
        """
        checked = check_keys(keys, self._length, "HuggingFaceDataSource")
        if not len(checked):
            return []
        if not self._reads_table:
            return self.dataset.__getitems__(checked.tolist())  # type: ignore[no-any-return]
        places = self._places(checked)
        rows: list[dict[str, Any]] = [{} for _ in checked]
        for name, column in self._columns.items():
            for row, value in zip(rows, self._values(name, column, places, checked)):
                row[name] = value
        return rows

    def _values(self, name: str, column: TableColumn, places: Places, keys: Int64s) -> list[Any]:
        try:
            return column.take(places)
        except (ValueError, LookupError, OverflowError) as error:  # `UnicodeError` and Arrow's are among them
            files = first_few([file["filename"] for file in self.dataset.cache_files]) or "the dataset"
            raise SourceError(
                f"{files}: column {short_repr(name)} of record key {keys[0]}, or of one read with it, cannot be read, as the "
                f"file is damaged: {shorten(error)}"
            ) from error

    @property
    def reads_ahead(self) -> bool:
        """Not where rows are views of what is in memory, or in the system's cache of files."""
        return not self._reads_table

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """The number of rows and the fingerprint that `datasets` keeps."""
        return fingerprint_of(self.dataset)

    @cached_property
    def columns(self) -> Any:
        """A dict of columns to take batches from, if all are numbers or texts; None if not."""
        if not self._reads_table or not self._length:
            return None
        places = LastResult(self._places)
        columns = {name: self._whole(name, column, places) for name, column in self._columns.items()}
        return None if None in columns.values() or not columns else columns

    def _whole(self, name: str, column: TableColumn, places: LastResult[Places]) -> _BatchColumn | _BatchTexts | None:
        """A column to take batches from, which have the dtype that stacking the values would give them."""
        if isinstance(column, Text):
            return _BatchTexts(lambda keys: self._values(name, column, places.of(keys), keys), column, self._length)
        if not isinstance(column, Numbers):
            return None
        dtype = _stacked(column.rows) if column.as_python else column.rows.dtype
        return None if dtype is None else _BatchColumn(column.rows, self._length, dtype, places)

    @cached_property
    def lengths(self) -> dict[str, Int64s] | None:
        """The lengths of rows' arrays by column, with NumPy's format; None if there are none."""
        if self._as_python or not self._reads_table or not self._length:
            return None
        places = self._places(np.arange(self._length))
        lengths = {name: _lengths(column, places) for name, column in self._columns.items()}
        return {name: found for name, found in lengths.items() if found is not None} or None

    def lengths_by(self, name: str) -> Int64s:
        """The lengths of a column, `int64[rows]`, from the table: of lists, texts and bytes; whole numbers are lengths.

        Raises:
            LengthsError: there is no such column, or its values have no length.
        """
        table = self.dataset.data.table
        column = column_named(name, table.column_names, "the dataset has")
        lengths = lengths_of_column(table.column(column), name, column)
        return lengths if self._selected is None else lengths[self._rows(np.arange(self._length))]

    @property
    def arrow_schema(self) -> Any:
        """The types of the rows in Arrow, as files keep them; None where rows are not read from the table.

        A float16 becomes a float32, an `Array2D` and a list of a fixed size become lists. A column of another type is left out.
        """
        import pyarrow

        if not self._reads_table:
            return None
        fields = [self.dataset.data.table.schema.field(name) for name in self.dataset.format["columns"]]
        kept = [(field, _kept_type(field.type)) for field in fields]
        return pyarrow.schema([field.with_type(kind) for field, kind in kept if kind is not None])

    @cached_property
    def _as_python(self) -> bool:
        return bool(self.dataset.format["type"] != "numpy")

    @cached_property
    def _reads_table(self) -> bool:
        """True if rows are read here, not by `datasets`."""
        form, decoded = self.dataset.format, getattr(self.dataset.features, "_column_requires_decoding", None)
        known = form["type"] in (None, "python", "numpy") and not form["format_kwargs"]
        whole = not form["output_all_columns"] or form["columns"] == self.dataset.column_names
        return bool(known and whole and decoded is not None and not any(map(decoded.get, form["columns"])))

    @cached_property
    def _batches(self) -> list[Any]:
        """The parts of the table that are not empty; in each, all columns are one piece."""
        return [batch for batch in self.dataset.data.table.to_batches() if len(batch)]

    @cached_property
    def _columns(self) -> dict[str, TableColumn]:
        names = self.dataset.format["columns"]
        return {name: table_column([part.column(name) for part in self._batches], self._as_python) for name in names}

    @cached_property
    def _finder(self) -> Finder:
        return Finder([len(batch) for batch in self._batches])

    @cached_property
    def _selected(self) -> tuple[Finder, PieceRows] | None:
        """The row of the table for each row of a dataset that was shuffled or selected from."""
        table = self.dataset._indices
        if table is None:
            return None
        chunks = [chunk.to_numpy() for chunk in table.column(0).chunks if len(chunk)]
        return Finder([len(chunk) for chunk in chunks]), PieceRows(chunks)

    def _places(self, keys: Int64s) -> Places:
        if self._selected is None:
            return self._finder.places(keys)
        return self._finder.places(self._rows(keys))

    def _rows(self, keys: Int64s) -> Int64s:
        """Rows of the table, of a dataset that was shuffled or selected from."""
        assert self._selected is not None, "its rows are those of the table"
        finder, rows = self._selected
        return check_keys(rows.take(finder.places(keys)), self.dataset.data.num_rows, "HuggingFaceDataSource")

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return _with_columns, (self.dataset,)

    def __repr__(self) -> str:
        return f"HuggingFaceDataSource({self._length} rows of {first_few(self.dataset.format['columns'], 8)})"


def _with_columns(dataset: Any) -> HuggingFaceDataSource:
    """A source that has looked through the table, which takes a second for 10,000 chunks: workers are forked after that."""
    own = HuggingFaceDataSource(dataset)
    if own._reads_table:
        own._columns  # noqa: B018  a cached property
    return own


def _kept_type(kind: Any) -> Any:
    """The type for values of a type that not all Parquet files keep: such lists of a fixed size give no missing ones back."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):  # of `datasets` are arrays of several dimensions, which lie in lists
        return _kept_type(kind.storage_type) if hasattr(kind, "storage_dtype") else None
    if types.is_float16(kind):
        return pa.float32()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _kept_type(kind.value_type)
        if item is None or (item == kind.value_type and not types.is_fixed_size_list(kind)):
            return None if item is None else kind
        return pa.large_list(item) if types.is_large_list(kind) else pa.list_(item)
    if types.is_struct(kind):
        parts = [(part, _kept_type(part.type)) for part in kind]
        return (
            None
            if None in [found for _, found in parts]
            else pa.struct([part.with_type(found) for part, found in parts])
        )
    return kind


class _BatchColumn:
    """Column of numbers, with the part of an array's interface that `Batch` uses: dtype, shape, `take` by keys."""

    def __init__(self, rows: PieceRows, length: int, dtype: npt.DTypeLike, places: LastResult[Places]) -> None:
        self._rows = rows
        self._places = places
        self.dtype = np.dtype(dtype)
        self.shape = (length, *rows.shape)
        self.nbytes = length * self.dtype.itemsize * int(np.prod(rows.shape))

    def __len__(self) -> int:
        return int(self.shape[0])

    def take(self, keys: Int64s, axis: Literal[0], out: Array, mode: Literal["clip"]) -> None:
        """As `np.ndarray.take`: the rows of `keys` into `out`."""
        self._rows.take_into(self._places.of(keys), out)


class _BatchTexts:
    """A column of strings or bytes as far as a batch needs it; `sources.protocol.TextColumn` says what it does."""

    is_text: ClassVar[Literal[True]] = True
    dtype = np.dtype(object)

    def __init__(self, values: Callable[[Int64s], list[Any]], column: Text, length: int) -> None:
        self._values = values
        self.shape = (length,)
        self.nbytes = column.ragged.items_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def rows_of(self, keys: Int64s) -> tuple[Array, Int64s]:
        """The values of `keys`, all made at once."""
        values = np.empty(len(keys), object)
        values[:] = self._values(keys)
        return values, np.arange(len(keys))


def _stacked(rows: PieceRows) -> npt.DTypeLike | None:
    """The dtype of stacked Python numbers; of lists there is none, and that of uint64 depends on the values."""
    if rows.shape or rows.dtype == np.uint64:
        return None
    return {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[rows.dtype.kind]


def _lengths(column: TableColumn, places: Places) -> Int64s | None:
    if isinstance(column, Lists):
        return column.lengths(places)
    if isinstance(column, Numbers) and column.rows.shape:
        return np.full(len(places.rows), column.rows.shape[0], np.int64)
    return None
