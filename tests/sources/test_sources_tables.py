"""Tables and columns of pandas, polars and pyarrow."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pytest
from support.source_conformance import SourceConformance

import headrace
from headrace.errors import SourceError
from headrace.sources import ParquetDataSource, as_source

# polars opens descriptors for its threads at the first date, and keeps them.
polars.DataFrame({"when": [datetime.datetime(2026, 1, 1)]})

COLUMNS = {
    "x": [1, 2, 3],
    "weight": [0.5, 1.5, 2.5],
    "text": ["a", "é", ""],
    "flag": [True, False, True],
}


def _tables(columns):
    return {
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "pyarrow": pyarrow.table(columns),
        "record batch": pyarrow.record_batch(columns),
    }


class OfRows(SourceConformance):
    def expected_record(self, key):
        return {"number": np.int64(key), "text": f"é{key}", "half": np.float64(key / 2)}

    def columns(self, count):
        return {
            "number": np.arange(count),
            "text": [f"é{key}" for key in range(count)],
            "half": np.arange(count) / 2,
        }


class TestPandas(OfRows):
    def open(self, folder, count):
        return as_source(pandas.DataFrame(self.columns(count), index=range(7, count + 7)))


class TestPolars(OfRows):
    def open(self, folder, count):
        return as_source(polars.DataFrame(self.columns(count)))


class TestPyarrow(OfRows):
    """In several chunks."""

    def open(self, folder, count):
        table = pyarrow.table(self.columns(count))
        return as_source(pyarrow.concat_tables([table[:5], table[5:]]))


@pytest.mark.parametrize("kind", _tables(COLUMNS))
def test_a_table_is_a_source_of_its_rows(kind):
    """A table is a source of its rows."""
    source = as_source(_tables(COLUMNS)[kind])
    assert [source[key] for key in range(3)] == [
        {name: column[key] for name, column in COLUMNS.items()} for key in range(3)
    ]
    assert {name: type(value) for name, value in source[1].items()} == {
        "x": np.int64,
        "weight": np.float64,
        "text": str,
        "flag": np.bool_,
    }


@pytest.mark.parametrize("kind", _tables(COLUMNS))
def test_a_loader_makes_batches_of_a_table(kind):
    """A loader makes batches of a table."""
    table = _tables({"x": COLUMNS["x"], "weight": COLUMNS["weight"]})[kind]
    (batch,) = headrace.load(table, batch_size=3, num_epochs=1)
    assert (batch["x"].tolist(), batch["weight"].tolist()) == (COLUMNS["x"], COLUMNS["weight"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_missing_value_is_none(kind):
    """A missing value is None."""
    columns = {"x": [1, None, 3], "text": ["a", None, "c"], "list": [[1], None, [2, 3]]}
    if kind == "pandas":
        columns["x"] = pandas.array(columns["x"], dtype="Int64")
    source = as_source(_tables(columns)[kind] if kind != "pandas" else pandas.DataFrame(columns))
    assert source[1] == {"x": None, "text": None, "list": None}
    assert source[2]["x"] == 3
    assert list(source[2]["list"]) == [2, 3]


def test_extension_dtypes_of_pandas_become_those_of_numpy():
    """Extension dtypes of pandas become those of NumPy."""
    frame = pandas.DataFrame(
        {"x": pandas.array([1, 2], dtype="Int32"), "kind": pandas.Categorical(["u", "v"])}
    )
    record = as_source(frame)[1]
    assert (type(record["x"]), record["kind"]) == (np.int32, "v")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_dates_are_those_of_numpy(kind):
    """Dates are those of NumPy."""
    source = as_source(
        _tables({"when": [datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 3)]})[kind]
    )
    assert source[1]["when"] == np.datetime64("2026-01-03")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("missing", [False, True])
def test_times_with_a_zone_keep_it(kind, missing):
    """They are what the library returns by row, whether the column has missing values or not."""
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    times = [datetime.datetime(2026, month, 1, 12, tzinfo=zone) for month in (1, 7)]
    source = as_source(_tables({"when": [*times, None] if missing else times})[kind])
    found = [source[key]["when"] for key in range(len(source))]
    assert found[:2] == times
    assert [time.utcoffset() for time in found[:2]] == [
        datetime.timedelta(hours=hours) for hours in (1, 2)
    ]
    assert found[2:] == [None] * missing


def test_lists_of_one_length_are_rows_of_an_array():
    """Lists of one length are rows of an array."""
    arrow = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(range(6)), 2)
    frame = polars.DataFrame(
        {"x": [[0, 1], [2, 3], [4, 5]]}, schema={"x": polars.Array(polars.Int64, 2)}
    )
    for table in (pyarrow.table({"x": arrow}), frame):
        assert as_source(table).columns["x"].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    "column",
    [
        pandas.Series([1, 2, 3]),
        pandas.Series([1, 2, 3]).array,
        pandas.Index([1, 2, 3]),
        polars.Series([1, 2, 3]),
        pyarrow.array([1, 2, 3]),
        pyarrow.chunked_array([[1], [2, 3]]),
    ],
    ids=lambda column: type(column).__module__ + type(column).__name__,
)
def test_a_column_is_a_source_of_its_values_and_part_of_a_dict(column):
    """A column is a source of its values and part of a dict."""
    assert [int(as_source(column)[key]) for key in range(3)] == [1, 2, 3]
    source = as_source({"x": column, "more": {"y": np.zeros((3, 2))}})
    assert source[2]["x"] == 3
    assert source[2]["more"]["y"].shape == (2,)


def test_a_table_with_a_name_twice_is_refused():
    """A table with a name twice is refused."""
    with pytest.raises(
        ValueError, match=r"two columns of the table are called 'x'. Give each column its own name"
    ):
        as_source(pandas.DataFrame([[1, 2]], columns=["x", "x"]))


def test_missing_items_and_structs_in_polars_arrays_stay_what_they_are():
    """A whole number does not become a float, and a struct not a row of numbers."""
    whole = polars.Series([[2**60 + 1, None]], dtype=polars.Array(polars.Int64, 2))
    structs = polars.Series(
        [[{"a": 1, "b": 2.5}]],
        dtype=polars.Array(polars.Struct({"a": polars.Int64, "b": polars.Float64}), 1),
    )
    assert as_source(whole)[0] == [2**60 + 1, None]
    assert as_source(structs)[0] == [{"a": 1, "b": 2.5}]


def test_subclasses_of_pandas_are_tables():
    """As those of other packages are."""

    class Own(pandas.Series):
        pass

    assert as_source(Own([1, 2]))[1] == 2


def test_arrays_of_pandas_are_columns():
    """The arrays behind columns, `frame["text"].values`, are read as the columns are, with None for
    a missing value.
    """
    frame = pandas.DataFrame(
        {"text": ["a", None], "kind": pandas.Categorical(["u", "v"]), "x": [1.5, float("nan")]}
    )
    source = as_source(
        {"text": frame["text"].values, "kind": frame["kind"].values, "x": frame["x"].array}
    )
    assert source[0] == {"text": "a", "kind": "u", "x": 1.5}
    assert source[1]["text"] is None
    assert np.isnan(source[1]["x"])
    assert as_source({"key": pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)])})[1] == {
        "key": ("b", 2)
    }


@pytest.mark.parametrize("dtype", [polars.Int128, polars.UInt128])
def test_integers_of_128_bits_are_integers_of_python(dtype):
    """NumPy has none of this size."""
    assert as_source(polars.Series([1, 2**100], dtype=dtype))[1] == 2**100


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (
            (pandas.DataFrame({"x": [1]}), pandas.Series([1])),
            r'Pass columns as a dict, {"x": X, "y": y}',
        ),
        (
            (polars.DataFrame({"x": [1]}), polars.Series([1])),
            r'Pass columns as a dict, {"x": X, "y": y}',
        ),
        (
            (pandas.DataFrame({"x": [1]}), np.array([1])),
            r'Pass columns as a dict, {"x": X, "y": y}',
        ),
        (pyarrow.table({"x": [1, 2]}).to_batches(), r"pyarrow.Table.from_batches\(batches\)"),
        (pyarrow.table({"x": [1, 2]}).to_reader(), r"reader.read_all\(\)"),
        (pyarrow.dataset.dataset(pyarrow.table({"x": [1, 2]})), r"dataset.to_table\(\)"),
    ],
    ids=[
        "tuple of pandas",
        "tuple of polars",
        "tuple with NumPy",
        "record batches",
        "reader",
        "dataset",
    ],
)
def test_what_is_nearly_a_table_is_refused_with_what_to_pass(data, remedy):
    """Their items are not rows, or cannot be read in any order."""
    with pytest.raises(TypeError, match=remedy):
        as_source(data)


def test_integers_of_128_bits_are_an_error_that_says_so(tmp_path):
    """Written by polars; the file is neither cut off nor damaged."""
    polars.DataFrame({"x": polars.Series([2**100], dtype=polars.Int128)}).write_parquet(
        tmp_path / "x.parquet"
    )
    with pytest.raises(
        SourceError, match=r"x\.parquet has integers of 128 bits.*Write them as 64 bits"
    ) as caught:
        ParquetDataSource(tmp_path)
    assert "damaged" not in str(caught.value)
