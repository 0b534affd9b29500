"""Source of the rows of a Hugging Face `datasets.Dataset`, read from its Arrow table.

If the dataset has no format, or the format "numpy", this module reads the rows itself. That is many
times faster than `datasets`, and a batch of numbers is read column by column. `datasets` reads the
rows of datasets with other formats, or with features that must be decoded (images, audio).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from ...common.messages import a_kind_of, first_few, short_repr, shorten
from ...errors import SourceError
from ..facts import SourceFacts
from ..keys import Keys, check_key, check_keys
from ..parts import LastResult
from ..protocol import fingerprint_of, is_hugging_face
from .column_lengths import column_named, lengths_of_column
from .pieces import Finder, Int64s, PieceRows, Places
from .table import BatchColumn, BatchTexts, Lists, Numbers, TableColumn, Text, table_column

_TABLE_FORMATS = ("arrow", "pandas", "polars")


class HuggingFaceDataSource:
    """Rows of a Hugging Face `datasets.Dataset`.

    `DataLoader` converts a dataset that is passed to it to such a source.

    A row is a dict. Its values depend on the dataset's format:

    * no format: Python objects, as `dataset[k]` returns them;
    * `with_format("numpy")`: NumPy scalars and arrays of the stored dtypes, as `ParquetDataSource`
      returns them;
    * any other format, a format with options, or features that must be decoded (images): the result
      of `dataset.__getitems__`.

    If all columns are numbers or texts without nulls (with format "numpy" also times, and arrays
    whose type has a fixed shape), `Batch` reads whole columns from the table. A dataset on disk is
    mapped into memory. Pickling it stores only the names of its files.

    Args:
        dataset: a `datasets.Dataset`. It may be shuffled, or have selected rows.

    Raises:
        TypeError: `dataset` is something else; or its format is "arrow", "pandas" or "polars",
            which has no rows.

    Example (needs `datasets`):
        `HuggingFaceDataSource(datasets.load_from_disk(path).with_format("numpy"))[0]["label"]` is a
        NumPy integer.
    """

    def __init__(self, dataset: Any) -> None:
        if not is_hugging_face(dataset):
            raise TypeError(
                f"HuggingFaceDataSource takes a datasets.Dataset, not {a_kind_of(dataset)}. Pass a "
                'split, such as load_dataset(…, split="train"), loaded without streaming=True.'
            )
        form = dataset.format["type"]
        if form in _TABLE_FORMATS:
            raise TypeError(
                f'a datasets.Dataset with_format("{form}") gives tables, not rows. Pass '
                'dataset.with_format("numpy"), or with_format(None) for Python objects.'
            )
        self.dataset = dataset
        self._length = len(dataset)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]:
        row: dict[str, Any] = self.__getitems__(
            [check_key(key, self._length, "HuggingFaceDataSource")]
        )[0]
        return row

    def __getitems__(self, keys: Keys) -> Sequence[Any]:
        """Return the rows of `keys`, in order.

        Raises:
            RecordKeyError: a key lies outside `[0, len(self))`.
            SourceError: a file of the dataset is damaged. If this class reads the rows, the message
                names files and the column.
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
        except (
            ValueError,
            LookupError,
            OverflowError,
        ) as error:  # `UnicodeError` and Arrow's are among them
            files = (
                first_few([file["filename"] for file in self.dataset.cache_files]) or "the dataset"
            )
            raise SourceError(
                f"{files}: column {short_repr(name)} cannot be read at record key {keys[0]}, or at "
                f"a record that was read with it: {shorten(error)}. The file is damaged, or a "
                "value does not fit into Python's type. Check the values of this column, or write "
                "the file again."
            ) from error

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            array_keys=True,
            checks_keys=True,
            reads_ahead=not self._reads_table,  # whose rows are views of memory or of mapped files
            columns=lambda: self.columns,
            lengths=lambda: self.lengths,
            lengths_by=self.lengths_by,
        )

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Number of rows, and the fingerprint that `datasets` computes for the dataset."""
        return fingerprint_of(self.dataset)

    @cached_property
    def columns(self) -> Any:
        """Dict by name of the columns, from which `Batch` reads whole columns.

        None if a column has nulls, or values that are neither numbers nor texts. With the format
        "numpy", times and arrays whose type has a fixed shape are possible, too; without it, uint64
        is not. None also if `datasets` reads the rows, or if there are no rows.
        """
        if not self._reads_table or not self._length:
            return None
        places = LastResult(self._places)
        columns = {
            name: self._whole(name, column, places) for name, column in self._columns.items()
        }
        return None if None in columns.values() or not columns else columns

    def _whole(
        self, name: str, column: TableColumn, places: LastResult[Places]
    ) -> BatchColumn | BatchTexts | None:
        """Return a column of numbers or texts in the form that `Batch` reads.

        Return None for a column that it cannot read.

        The result has the dtype that a batch of the column's values has.

        Args:
            name: name of the column.
            column: values of the column.
            places: finds the chunk and the row of each key in the table; remembers its last result.
        """
        if isinstance(column, Text):
            return BatchTexts(
                lambda keys: self._values(name, column, places.of(keys), keys), column, self._length
            )
        if not isinstance(column, Numbers):
            return None
        dtype = _stacked(column.rows) if column.as_python else column.rows.dtype
        return None if dtype is None else BatchColumn(column.rows, self._length, dtype, places)

    @cached_property
    def lengths(self) -> dict[str, Int64s] | None:
        """Lengths of the arrays in each column of arrays without nulls, `{name: int64[rows]}`.

        None if the format is not "numpy", if `datasets` reads the rows, or if there are no rows or
        no such column.
        """
        if self._as_python or not self._reads_table or not self._length:
            return None
        places = self._places(np.arange(self._length))
        lengths = {name: _lengths(column, places) for name, column in self._columns.items()}
        return {name: found for name, found in lengths.items() if found is not None} or None

    def lengths_by(self, name: str) -> Int64s:
        """Return the length of each value of a column, `int64[rows]`, without reading rows.

        The values may be lists, texts or bytes. An integer is a length itself.

        Args:
            name: name of the column, or path of a field in it, such as "meta/tokens".

        Raises:
            LengthsError: there is no such column, or its values have no length.
        """
        table = self.dataset.data.table
        column = column_named(name, table.column_names, "the dataset has")
        lengths = lengths_of_column(table.column(column), name, column)
        return lengths if self._selected is None else lengths[self._rows(np.arange(self._length))]

    @property
    def arrow_schema(self) -> Any:
        """Arrow schema with which `headrace.convert` writes rows; None if `datasets` reads them.

        A float16 column becomes float32. `Array2D` columns and lists of fixed size become lists.
        Columns that no Arrow type for files can hold are left out.
        """
        import pyarrow

        if not self._reads_table:
            return None
        fields = [
            self.dataset.data.table.schema.field(name) for name in self.dataset.format["columns"]
        ]
        kept = [(field, _kept_type(field.type)) for field in fields]
        return pyarrow.schema([field.with_type(kind) for field, kind in kept if kind is not None])

    @cached_property
    def _as_python(self) -> bool:
        return bool(self.dataset.format["type"] != "numpy")

    @cached_property
    def _reads_table(self) -> bool:
        """True if this module reads the rows from the table; False if `datasets` reads them."""
        form, decoded = (
            self.dataset.format,
            getattr(self.dataset.features, "_column_requires_decoding", None),
        )
        known = form["type"] in (None, "python", "numpy") and not form["format_kwargs"]
        whole = not form["output_all_columns"] or form["columns"] == self.dataset.column_names
        return bool(
            known and whole and decoded is not None and not any(map(decoded.get, form["columns"]))
        )

    @cached_property
    def _batches(self) -> list[Any]:
        """Record batches of the table that are not empty.

        In each of them, a column is one piece of memory.
        """
        return [batch for batch in self.dataset.data.table.to_batches() if len(batch)]

    @cached_property
    def _columns(self) -> dict[str, TableColumn]:
        names = self.dataset.format["columns"]
        return {
            name: table_column([part.column(name) for part in self._batches], self._as_python)
            for name in names
        }

    @cached_property
    def _finder(self) -> Finder:
        return Finder([len(batch) for batch in self._batches])

    @cached_property
    def _selected(self) -> tuple[Finder, PieceRows] | None:
        """Two objects that find the table's row of each record; None if not needed.

        They are a `Finder`, and the row numbers.

        `datasets` stores these row numbers, in chunks, for a dataset that was shuffled or from
        which rows were selected. The `Finder` finds the chunk of a record; the `PieceRows` reads
        the row number in it.
        """
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
        """Return the table's row `int64[n]` for each key `int64[n]`.

        Only for a dataset that was shuffled or from which rows were selected.

        Raises:
            RecordKeyError: the dataset refers to a row that its table does not have.
        """
        assert self._selected is not None, "its rows are those of the table"
        finder, rows = self._selected
        return check_keys(
            rows.take(finder.places(keys)), self.dataset.data.num_rows, "HuggingFaceDataSource"
        )

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return _with_columns, (self.dataset,)

    def __repr__(self) -> str:
        return (
            f"HuggingFaceDataSource({self._length} rows of "
            f"{first_few(self.dataset.format['columns'], 8)})"
        )


def _with_columns(dataset: Any) -> HuggingFaceDataSource:
    """Return a source of `dataset`, and read its table's structure now, not at the first read.

    Called by unpickling.
    """
    own = HuggingFaceDataSource(dataset)
    if own._reads_table:  # takes a second for 10,000 chunks, and workers are forked after that
        own._columns  # noqa: B018  a cached property
    return own


def _kept_type(kind: Any) -> Any:
    """Return the Arrow type with which an Arrow type is written to files; None without one.

    Lists of fixed size become lists: not all readers return their nulls.
    """
    import pyarrow as pa

    types = pa.types
    # of `datasets` are arrays of several dimensions, which lie in lists
    if isinstance(kind, pa.BaseExtensionType):
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


def _stacked(rows: PieceRows) -> npt.DTypeLike | None:
    """Return the dtype of an array made of a column's values as Python numbers.

    Return None if it depends on the values.

    Args:
        rows: rows of the column. For lists, and for uint64, the result is None.
    """
    if rows.shape or rows.dtype == np.uint64:
        return None
    return {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}[rows.dtype.kind]


def _lengths(column: TableColumn, places: Places) -> Int64s | None:
    if isinstance(column, Lists):
        return column.lengths(places)
    if isinstance(column, Numbers) and column.rows.shape:
        return np.full(len(places.rows), column.rows.shape[0], np.int64)
    return None
