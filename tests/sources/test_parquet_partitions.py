"""Fields of records that folders name, as in `year=2024/x.parquet`: the same as pyarrow's."""

import pickle
import re

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from headrace.errors import SourceError
from headrace.files.partitions import top_folder, values_in
from headrace.sources import ParquetDataSource, fingerprint_of


def written(path, **columns):
    """Write a file of these columns, with its folders, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"x": [1, 2]}), path)
    return path


def python_records(source):
    """All records, with Python's numbers."""
    records = source.__getitems__(range(len(source)))
    return [
        {name: getattr(value, "item", lambda value=value: value)() for name, value in each.items()}
        for each in records
    ]


def of_pyarrow(folder):
    """What `pyarrow.dataset` reads from a folder; its files are in another order."""
    found = ds.dataset(folder, partitioning="hive")
    return sorted(map(repr, found.to_table().to_pylist()))


@pytest.mark.parametrize(
    "values",
    [
        ["007", "1"],
        ["-1", "2147483647"],
        ["2147483648", "1"],
        ["+1", "2"],
        ["1.0", "2"],
        ["", "2"],
        ["a%20b%2Fc", "S\u00e3o Paulo"],
        ["__HIVE_DEFAULT_PARTITION__", "1"],
        ["__HIVE_DEFAULT_PARTITION__", "a=b"],
        ["1_0", "\u0663"],
    ],
    ids=str,
)
def test_values_and_types_are_those_of_pyarrow(tmp_path, values):
    """Whole numbers of 32 bits, or texts; escaped characters, and Hive's name of a
    missing value.
    """
    for number, value in enumerate(values):
        written(tmp_path / f"k={value}" / "a.parquet", x=[number])
    source = ParquetDataSource(tmp_path)
    assert sorted(map(repr, python_records(source))) == of_pyarrow(tmp_path)
    kind = ds.dataset(tmp_path, partitioning="hive").schema.field("k").type
    assert {type(record["k"]) for record in source.__getitems__([0, 1])} <= {
        np.int32 if kind == pa.int32() else str,
        type(None),
    }


def test_several_levels_other_folders_and_files_outside(tmp_path):
    """Folders without `=` name nothing; a file that lies in no folder of a name has None there."""
    for place in (
        "b.parquet",
        "plain/k=1/x.parquet",
        "k=2/deep/name%20of=v/x.parquet",
        "_private/k=9/x.parquet",
    ):
        written(tmp_path / place)
    source = ParquetDataSource(tmp_path)
    assert sorted(map(repr, python_records(source))) == of_pyarrow(tmp_path)
    assert {tuple(record) for record in python_records(source)} == {("x", "k", "name of")}
    assert [source.facts.file_place(key).file[len(str(tmp_path)) :] for key in (0, 2, 4)] == [
        "/b.parquet",
        "/k=2/deep/name%20of=v/x.parquet",
        "/plain/k=1/x.parquet",
    ]


def test_a_column_of_a_file_may_repeat_the_value_of_its_folder(tmp_path):
    """Some writers leave such a column. It has the type of the files; a folder whose name is not of
    this type is an error.
    """
    written(tmp_path / "one" / "k=7" / "a.parquet", k=pa.array([7], pa.int32()), x=[1])
    assert python_records(ParquetDataSource(tmp_path / "one")) == [{"k": 7, "x": 1}]
    assert of_pyarrow(tmp_path / "one") == ["{'k': 7, 'x': 1}"]
    written(tmp_path / "one" / "k=8" / "b.parquet", x=[2], k=pa.array([8], pa.int32()))
    written(tmp_path / "one" / "k=9" / "c.parquet", x=[3])
    assert python_records(ParquetDataSource(tmp_path / "one")) == [
        {"k": k, "x": k - 6} for k in (7, 8, 9)
    ]
    assert python_records(ParquetDataSource(tmp_path / "one", columns=["k"])) == [
        {"k": k} for k in (7, 8, 9)
    ]
    assert python_records(ParquetDataSource(tmp_path / "one", columns=["x"])) == [
        {"x": x} for x in (1, 2, 3)
    ]
    written(tmp_path / "one" / "k=abc" / "a.parquet", x=[4])
    source = ParquetDataSource(tmp_path / "one")
    assert source[0]["k"] == 7
    with pytest.raises(
        SourceError,
        match=(
            r"the folder 'k=abc' does not name a value of type int32.*Pass schema= "
            r".*partitioning=None"
        ),
    ):
        _ = source[3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", pa.array([7], pa.int64())),
        ("007", pa.array([7], pa.uint8())),
        ("a b", pa.array(["a b"]).dictionary_encode()),
        ("a", pa.array(["a"], pa.string_view())),
        ("2024-05-06", pa.array(["2024-05-06"]).cast(pa.date32())),
        ("2024-05-06 07%3A08%3A09", pa.array(["2024-05-06 07:08:09"]).cast(pa.timestamp("us"))),
        ("1.50", pa.array(["1.5"]).cast(pa.decimal128(5, 2))),
        ("0.1", pa.array([0.1], pa.float32())),
        ("nan", pa.array([np.nan])),
        ("true", pa.array([True])),
        ("x", pa.array([b"x"])),
        ("__HIVE_DEFAULT_PARTITION__", pa.array([None], pa.int32())),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_a_column_that_repeats_the_folder_may_have_any_type(tmp_path, text, value):
    """Values are compared, not their texts; a row with another value is an error."""
    written(tmp_path / f"k={text}" / "a.parquet", k=value, x=[1])
    (record,) = python_records(ParquetDataSource(tmp_path))
    (alone,) = python_records(ParquetDataSource(tmp_path, partitioning=None))
    assert repr(record) == repr(alone)
    kind = value.type
    other = pa.nulls(1, kind) if value.null_count == 0 else pa.array([5], kind)
    written(
        tmp_path / f"k={text}" / "a.parquet",
        k=pa.chunked_array([value, other]).cast(kind),
        x=[1, 2],
    )
    with pytest.raises(SourceError, match=r"disagree: in a row, the column has (None|5)"):
        _ = ParquetDataSource(tmp_path)[0]


@pytest.mark.parametrize(
    "options", [{}, {"columns": ["k"]}, {"schema": pa.schema({"k": pa.string()})}], ids=str
)
@pytest.mark.parametrize("value", [5, "abc"])
def test_a_folder_and_a_column_that_disagree_are_an_error(tmp_path, options, value):
    """One of the two must be wrong. Polars takes the folder's value without an error."""
    written(tmp_path / "k=1" / "a.parquet", x=[1], k=[value])
    source = ParquetDataSource(tmp_path, **options)
    with pytest.raises(
        SourceError,
        match=(
            rf"k=1/a\.parquet: the folder 'k=1' and .* has {re.escape(repr(value))}\. Pass "
            rf"partitioning=None"
        ),
    ) as caught:
        _ = source[0]
    assert len(str(caught.value)) < 500
    assert python_records(ParquetDataSource(tmp_path, columns=["x"])) == [{"x": 1}]
    assert ParquetDataSource(tmp_path, partitioning=None)[0]["x"] == 1


def test_a_file_in_no_folder_of_a_name_has_the_values_of_its_column(tmp_path):
    """As in pyarrow: no folder says otherwise."""
    written(tmp_path / "a.parquet", x=[1, 2], k=pa.array([5, 6], pa.int32()))
    written(tmp_path / "k=7" / "b.parquet", x=[3])
    found = python_records(ParquetDataSource(tmp_path, columns=["k", "x"]))
    assert found == [{"k": 5, "x": 1}, {"k": 6, "x": 2}, {"k": 7, "x": 3}]
    expected = ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist()
    assert sorted(each["k"] for each in expected) == [5, 6, 7]


def test_fields_are_named_below_what_the_user_passed(tmp_path):
    """Below a folder, the fixed part of a pattern, or the folder that several paths share; a single
    file has no more fields.
    """
    files = [str(written(tmp_path / "top=1" / f"k={k}" / "a.parquet")) for k in (3, 4)]
    top = tmp_path / "top=1"
    for paths in (
        top,
        f"{top}/",
        f"{top}/k=*/*.parquet",
        f"{top}/**/*.parquet",
        files,
        [f"{top}/k=3", f"{top}/k=4"],
    ):
        assert [record["k"] for record in python_records(ParquetDataSource(paths))] == [3, 3, 4, 4]
        assert list(ParquetDataSource(paths)[0]) == ["x", "k"]
    assert list(ParquetDataSource(tmp_path)[0]) == ["x", "top", "k"]
    for paths in (files[0], [files[0]], f"{top}/k=3", f"{top}/k=3/*.parquet"):
        assert list(ParquetDataSource(paths)[0]) == ["x"]
    for paths in (top, files):
        assert list(ParquetDataSource(paths, partitioning=None)[0]) == ["x"]


def test_relative_paths_name_the_same_fields(tmp_path, monkeypatch):
    """`.`, `./folder`, and a URL."""
    written(tmp_path / "data" / "k=3" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    for paths in (
        ".",
        "data",
        "./data",
        "data/k=*/*.parquet",
        "*/*/*.parquet",
        f"file://{tmp_path}/data",
    ):
        assert ParquetDataSource(paths)[0] == {"x": 1, "k": 3}, paths


def test_queries_of_urls_are_no_folders():
    """A signature may have any characters."""
    urls = [f"https://host/data/k={k}/x.parquet?Signature=a/b={k}/c" for k in (1, 2)]
    top = top_folder(urls)
    assert [values_in(url, top) for url in urls] == [{"k": "1"}, {"k": "2"}]
    assert values_in(urls[0], top_folder(urls[:1])) == {}
    assert values_in("s3://bucket/k=1/x.parquet", top_folder(["s3://bucket/?=*/x.parquet"])) == {
        "k": "1"
    }


def test_columns_and_schema_name_fields_of_folders(tmp_path):
    """They choose and order them, and give them other types; a schema without them
    leaves them out.
    """
    for k in (3, 4):
        written(tmp_path / f"k={k}" / "a.parquet")
    assert ParquetDataSource(tmp_path, columns=["k"])[2] == {"k": 4}
    schema = pa.schema({"k": pa.string(), "x": pa.int64()})
    assert python_records(ParquetDataSource(tmp_path, schema=schema))[1:3] == [
        {"k": "3", "x": 2},
        {"k": "4", "x": 1},
    ]
    assert list(ParquetDataSource(tmp_path, schema=pa.schema({"x": pa.int8()}))[0]) == ["x"]
    with pytest.raises(ValueError, match=r"no column 'year'\. Name some of its columns: x, k"):
        ParquetDataSource(tmp_path, columns=["year"])
    with pytest.raises(
        ValueError, match=r"partitioning='hive2' is not a known value\. Use \"hive\""
    ):
        ParquetDataSource(tmp_path, partitioning="hive2")


def test_the_fingerprint_depends_on_the_values(tmp_path):
    """And on whether they are fields; not on the folder above."""
    written(tmp_path / "a" / "k=3" / "x.parquet")
    written(tmp_path / "b" / "k=4" / "x.parquet")
    written(tmp_path / "c" / "x.parquet")
    prints = [fingerprint_of(ParquetDataSource(tmp_path / name))["files"] for name in "abc"]
    assert len(set(prints)) == 3
    assert (
        fingerprint_of(ParquetDataSource(tmp_path / "a", partitioning=None))["files"] == prints[2]
    )
    (tmp_path / "d").mkdir()
    (tmp_path / "a").rename(tmp_path / "d" / "a")
    moved = ParquetDataSource(tmp_path / "d" / "a")
    assert fingerprint_of(pickle.loads(pickle.dumps(moved)))["files"] == prints[0]


def grown(source):
    """The same source with its newest generation."""
    return source.at_generation(source.newest_generation())


def test_a_growing_folder_gets_more_folders(tmp_path):
    """New values of the fields are read; records keep their keys."""
    written(tmp_path / "k=3" / "b.parquet")
    source = ParquetDataSource(tmp_path, growing=True)
    written(tmp_path / "k=2" / "a.parquet")
    written(tmp_path / "k=2" / "null.parquet", x=pa.nulls(1))
    assert [(record["x"], record["k"]) for record in python_records(grown(source))] == [
        (1, 3),
        (2, 3),
        (1, 2),
        (2, 2),
        (None, 2),
    ]
    assert grown(source).generation == 1


@pytest.mark.parametrize(
    ("place", "columns", "text"),
    [
        ("k=abc/a.parquet", {"x": [1]}, "column 'k' is string, but int32 in"),
        ("k=4/day=1/a.parquet", {"x": [1]}, "column 'day' is int32, but missing in"),
        ("k=4/a.parquet", {"x": ["text"]}, "'x' is string, not int64"),
        (
            "k=4/a.parquet",
            {"x": [1], "time": pa.array([1], pa.timestamp("us"))},
            r"column 'time' is timestamp\[us\], but timestamp\[ms\] in",
        ),
    ],
)
def test_a_new_file_that_would_change_earlier_records_is_left_out(
    tmp_path, caplog, place, columns, text
):
    """The warning names it; later files are read."""
    time = {"time": pa.array([1], pa.timestamp("ms"))} if "time" in columns else {}
    written(tmp_path / "k=3" / "b.parquet", x=[1], **time)
    source = ParquetDataSource(tmp_path, growing=True)
    written(tmp_path / place, **columns)
    written(tmp_path / "k=9" / "later.parquet", x=[1], **time)
    assert [record["k"] for record in python_records(grown(source))] == [3, 9]
    assert f"{place} is left out for now" in caplog.text
    assert re.search(text, caplog.text)


def test_a_growing_source_under_a_schema(tmp_path, caplog):
    """New files may have other types, fewer columns and more; one that cannot be converted is left
    out.
    """
    written(tmp_path / "a.parquet", x=pa.array([1], pa.int8()))
    source = ParquetDataSource(
        tmp_path, growing=True, schema=pa.schema({"x": pa.int64(), "more": pa.string()})
    )
    written(tmp_path / "b.parquet", x=[2], more=["m"])
    written(tmp_path / "c.parquet", y=[2])
    written(tmp_path / "d.parquet", x=[[2]])
    expected = [{"x": 1, "more": None}, {"x": 2, "more": "m"}, {"x": None, "more": None}]
    assert python_records(grown(source)) == expected
    assert (
        "d.parquet: column 'x' is list<element: int64>, which cannot be converted to int64"
        in caplog.text
    )
