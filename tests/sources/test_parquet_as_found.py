"""Parquet files as people have them: written by several programs, in folders that name fields, with
odd types.
"""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.source_conformance import SourceConformance, assert_same

from headrace.errors import LengthsError, SourceError
from headrace.sources import ParquetDataSource, fingerprint_of

DAY = datetime.datetime(2020, 1, 2, 3, 4, 5)


def written(path, columns):
    """Write a table of these columns to a file, with the folders in its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        columns if isinstance(columns, pa.Table) else pa.table(columns), path, row_group_size=5
    )
    return path


def python(value):
    """A value as pyarrow's `to_pylist` gives it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {name: python(inner) for name, inner in value.items()}
    return [python(item) for item in value] if isinstance(value, list) else value


def records_of(source):
    """All records, as Python values; read alone and among many they are the same."""
    together = source.__getitems__(range(len(source)))
    assert_same([source[key] for key in range(len(source))], together)
    return [python(record) for record in together]


class TestUnified(SourceConformance):
    """Four files: string, large_string, a dictionary of strings, and no text at all; other units,
    and an order of columns.
    """

    on_files = True

    def write(self, folder, count):
        texts = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.null())
        lists = (
            pa.list_(pa.int16()),
            pa.large_list(pa.int16()),
            pa.list_(pa.int16()),
            pa.list_(pa.null()),
        )
        for number, keys in enumerate(np.array_split(np.arange(count), 4)):
            columns = {
                "text": pa.array(
                    [None if number == 3 else f"text {key % 9}" for key in keys], texts[number]
                ),
                "list": pa.array(
                    [[] if number == 3 else [key, key] for key in keys.tolist()], lists[number]
                ),
                "time": pa.array(keys.tolist(), pa.int64())
                .cast(pa.timestamp("s"))
                .cast(pa.timestamp(("ms", "us")[number % 2])),
                "key": keys,
            }
            written(
                folder / f"{number}.parquet",
                dict(reversed(columns.items())) if number == 2 else columns,
            )

    def open(self, folder, count):
        return ParquetDataSource(folder)

    def expected_record(self, key):
        last = key >= self.count - self.count // 4
        items = np.array([] if last else [key, key], np.int16)
        text = None if last else f"text {key % 9}"
        return {
            "text": text,
            "list": items,
            "time": np.datetime64(key * 10**6, "us"),
            "key": np.int64(key),
        }


class TestSchema(SourceConformance):
    """Files with narrower numbers, without a column, and with one more."""

    on_files = True

    def write(self, folder, count):
        first, second = np.array_split(np.arange(count), 2)
        written(
            folder / "a.parquet",
            {"key": first.astype(np.int32), "half": first.astype(np.float32) / 2},
        )
        written(
            folder / "b.parquet",
            {"more": second, "key": second, "text": [f"text {key}" for key in second]},
        )

    def open(self, folder, count):
        fields = {"key": pa.int64(), "text": pa.string(), "half": pa.float64()}
        return ParquetDataSource(folder, schema=pa.schema(fields))

    def expected_record(self, key):
        first = key < (self.count + 1) // 2
        half, text = (np.float64(key / 2), None) if first else (None, f"text {key}")
        return {"key": np.int64(key), "text": text, "half": half}


class TestPartitioned(SourceConformance):
    """Folders of two levels, with a cache too small for two row groups."""

    on_files = True

    def write(self, folder, count):
        for number, keys in enumerate(np.array_split(np.arange(count), 4)):
            place = folder / f"year={2020 + number // 2}" / f"part=p{number % 2}"
            written(place / "x.parquet", {"key": keys, "text": [f"text {key}" for key in keys]})

    def open(self, folder, count):
        return ParquetDataSource(folder, columns=["part", "key", "year"], cache_bytes=300)

    def expected_record(self, key):
        number = next(
            number
            for number, keys in enumerate(np.array_split(np.arange(self.count), 4))
            if key in keys
        )
        return {
            "part": f"p{number % 2}",
            "key": np.int64(key),
            "year": np.int32(2020 + number // 2),
        }


@pytest.mark.slow
class TestPartitionedOtherFileSystem(TestPartitioned):
    """The same by a pattern on a file system that is not the local one."""

    def open(self, folder, count):
        sub = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        return ParquetDataSource("year=*/**/*.parquet", ["part", "key", "year"], sub)


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16], pa.binary(16)))

UNIFIED = {
    "texts": [
        pa.array(["a", None]),
        pa.array(["b"], pa.large_string()),
        pa.array(["c"]).dictionary_encode(),
        pa.nulls(2),
    ],
    "null first": [pa.nulls(2), pa.array([2**60 + 1, None]), pa.nulls(1)],
    "bytes": [
        pa.array([b"a"]),
        pa.array([b"b", None], pa.large_binary()),
        pa.array([b"c"], pa.binary(1)),
    ],
    "views": [pa.array(["a"]), pa.array(["b", None], pa.string_view())],
    "views of views": [
        pa.array(
            [[["a"], None], None], pa.list_view(pa.list_view(pa.dictionary(pa.int8(), pa.string())))
        ),
        pa.array([[["b"]]], pa.large_list(pa.large_list(pa.string_view()))),
        pa.nulls(1),
    ],
    "views of times": [
        pa.array(
            [[[[DAY]], []], None, [[], [[DAY, DAY]]]],
            pa.list_view(pa.list_view(pa.list_(pa.timestamp("ms")))),
        ),
        pa.array([[[[DAY]]]], pa.list_(pa.list_(pa.list_(pa.timestamp("us"))))),
    ],
    "views in structs": [
        pa.array(
            [{"a": [1], "b": DAY}],
            pa.struct({"a": pa.list_view(pa.int64()), "b": pa.timestamp("us")}),
        ),
        pa.array(
            [{"a": [2], "b": DAY}, None],
            pa.struct({"b": pa.timestamp("ms"), "a": pa.large_list(pa.int64())}),
        ),
    ],
    "items with a type of their own": [pa.ListArray.from_arrays([0, 1], UUIDS), pa.nulls(1)],
    "lists": [
        pa.array([[1], None]),
        pa.array([[2, 3], []], pa.large_list(pa.int64())),
        pa.nulls(1),
    ],
    "lists with nulls": [
        pa.array([[1], [None]]),
        pa.array([[2, 3], []], pa.large_list(pa.int64())),
    ],
    "lists of nothing": [pa.array([[]], pa.list_(pa.null())), pa.array([[1, 2]])],
    "lists of texts": [
        pa.array([["a"]]),
        pa.array([["b"], None], pa.list_(pa.dictionary(pa.int8(), pa.large_string()))),
    ],
    "times": [
        pa.array([DAY], pa.timestamp("ms")),
        pa.array([DAY, None], pa.timestamp("us")),
        pa.array([DAY], pa.timestamp("s")),
    ],
    "times of a zone": [
        pa.array([DAY], pa.timestamp("ms", "UTC")),
        pa.array([DAY], pa.timestamp("us", "UTC")),
    ],
    "times of day": [
        pa.array([DAY.time()], pa.time32("s")),
        pa.array([DAY.time()], pa.time64("us")),
    ],
    "durations": [pa.array([5, None], pa.duration("s")), pa.array([7], pa.duration("us"))],
    "decimals": [
        pa.array([decimal.Decimal("1.20")], pa.decimal128(5, 2)),
        pa.array([decimal.Decimal("3.45"), None], pa.decimal256(50, 2)),
    ],
    "structs": [
        pa.array([{"a": 1, "b": None}, None], pa.struct({"a": pa.int64(), "b": pa.null()})),
        pa.array([{"a": 2, "b": "x"}], pa.struct({"b": pa.large_string(), "a": pa.int64()})),
    ],
    "maps": [
        pa.array([[("a", None)]], pa.map_(pa.string(), pa.null())),
        pa.array([[("b", 2)], None], pa.map_(pa.large_string(), pa.int64())),
    ],
}


@pytest.mark.parametrize(("what", "arrays"), UNIFIED.items(), ids=UNIFIED)
def test_files_with_equal_values_are_one_source(tmp_path, what, arrays):
    """Each record is what pyarrow reads from its file, in both orders of the files; and its type is
    the same in all files.
    """
    for name, order in (("forward", arrays), ("backward", arrays[::-1])):
        for number, array in enumerate(order):
            written(tmp_path / name / f"{number}.parquet", {"x": array, "y": range(len(array))})
        source = ParquetDataSource(tmp_path / name)
        files = [tmp_path / name / f"{number}.parquet" for number in range(len(order))]
        assert records_of(source) == [
            record for file in files for record in pq.read_table(file).to_pylist()
        ]
        values = [
            record["x"]
            for record in source.__getitems__(range(len(source)))
            if record["x"] is not None
        ]
        if what != "lists with nulls":  # which are Python lists in the row groups that have some
            assert len({(type(value), getattr(value, "dtype", None)) for value in values}) == 1


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pa.array([1]), pa.array([1], pa.int32())),
        (pa.array([1.0]), pa.array([1])),
        (pa.array(["a"]), pa.array([b"a"])),
        (
            pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
            pa.array([[1, 2, 3]], pa.list_(pa.int64(), 3)),
        ),
        (pa.array([[1]]), pa.array([[1.0]])),
        (pa.array([{"a": 1}]), pa.array([{"b": 1}])),
        (pa.array([{"a": 1}]), pa.array([{"a": "x"}])),
        (pa.array([DAY], pa.timestamp("us", "UTC")), pa.array([DAY], pa.timestamp("us"))),
        (pa.array([DAY], pa.timestamp("us")), pa.array([1])),
        (pa.array([decimal.Decimal("1.2")]), pa.array([decimal.Decimal("1.20")])),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            pa.array([[("a", 1.5)]], pa.map_(pa.string(), pa.float64())),
        ),
    ],
    ids=lambda array: str(array.type),
)
def test_other_values_are_refused_with_both_types_and_the_remedy(tmp_path, first, other):
    """The message names the file, the column, what it is, what it should be, and `schema=`."""
    written(tmp_path / "a.parquet", {"y": pa.nulls(1), "x": first})
    written(tmp_path / "b.parquet", {"y": [1], "x": other})
    with pytest.raises(SourceError) as raised:
        ParquetDataSource(tmp_path)
    message = str(raised.value)
    assert f"b.parquet has other columns than {tmp_path}/a.parquet: 'x' is " in message
    kinds = [pq.read_schema(tmp_path / f"{name}.parquet").field("x").type for name in "ba"]
    assert f"'x' is {kinds[0]}, not {kinds[1]}. Pass schema=" in message
    assert len(message) < 500 + 2 * len(str(tmp_path))


def test_a_refused_type_is_compared_with_the_file_that_has_it(tmp_path):
    """A column that is null in the first file gets its type from the second one; the third one is
    refused with its name.
    """
    for name, array in (("a", pa.nulls(1)), ("b", pa.array([1])), ("c", pa.array(["1"]))):
        written(tmp_path / f"{name}.parquet", {"x": array})
    with pytest.raises(
        SourceError,
        match=r"c\.parquet has other columns than .*b\.parquet: 'x' is string, not int64",
    ):
        ParquetDataSource(tmp_path)
    with pytest.raises(SourceError, match=r"'y' is missing.*Pass schema="):
        ParquetDataSource(
            [written(tmp_path / "d.parquet", {"y": [1]}), tmp_path / "b.parquet"], columns=["y"]
        )


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ([pa.array([1], pa.int32()), pa.array([2**40])], pa.int64()),
        ([pa.array([0.5], pa.float32()), pa.array([0.25])], pa.float64()),
        ([pa.array([1]), pa.array([0.25])], pa.float64()),
        (
            [pa.array([[1, 2]], pa.list_(pa.int64(), 2)), pa.array([[1, 2, 3]])],
            pa.list_(pa.int64()),
        ),
        (
            [pa.array([DAY], pa.timestamp("us")), pa.array([DAY], pa.timestamp("ns"))],
            pa.timestamp("us"),
        ),
        (
            [pa.array(["a"]), pa.array(["b"]).dictionary_encode()],
            pa.dictionary(pa.int8(), pa.string()),
        ),
        ([pa.array(["7"]), pa.array([8])], pa.int64()),
        (
            [pa.array([decimal.Decimal("1.2")]), pa.array([decimal.Decimal("1.25")])],
            pa.decimal128(20, 3),
        ),
    ],
    ids=lambda given: str(given) if isinstance(given, pa.DataType) else "",
)
def test_a_schema_gives_the_types_of_all_records(tmp_path, arrays, kind):
    """The values are those of `pyarrow.dataset` under the same schema."""
    for number, array in enumerate(arrays):
        written(tmp_path / f"{number}.parquet", {"x": array})
    schema = pa.schema({"x": kind})
    source = ParquetDataSource(tmp_path, schema=schema)
    try:
        expected = ds.dataset(tmp_path, schema=schema).to_table().to_pylist()
    except pa.ArrowException:  # it refuses dictionaries, and texts in place of numbers
        expected = [
            {"x": pa.scalar(value, kind).as_py()}
            for value in pa.concat_arrays([plain(each, kind) for each in arrays]).to_pylist()
        ]
    assert records_of(source) == expected
    assert len({type(record["x"]) for record in source.__getitems__([0, 1])}) == 1


def plain(array, kind):
    """An array as another type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return (array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array).cast(
        kind
    )


def test_a_schema_fills_leaves_out_and_orders_columns(tmp_path):
    """A column that a file lacks is None there; `columns=` chooses among the schema; others are
    never read.
    """
    written(tmp_path / "a.parquet", {"x": [1, 2], "gone": [1, 2], "deep": [{"a": 1}, None]})
    written(
        tmp_path / "b.parquet",
        {"deep": [{"b": "t", "a": 3}], "text": ["t"], "x": pa.array([3], pa.int8())},
    )
    schema = pa.schema(
        {
            "text": pa.string(),
            "x": pa.int16(),
            "deep": pa.struct({"a": pa.int64(), "b": pa.string()}),
            "none": pa.float32(),
        }
    )
    source = ParquetDataSource(tmp_path, schema=schema)
    assert records_of(source) == ds.dataset(tmp_path, schema=schema).to_table().to_pylist()
    assert list(source[0]) == schema.names
    assert list(ParquetDataSource(tmp_path, ["x", "text"], schema=schema)[2]) == ["x", "text"]
    with pytest.raises(
        ValueError, match=r"schema= has no column 'gone'\. Name some of its columns: text, x, deep"
    ):
        ParquetDataSource(tmp_path, ["gone"], schema=schema)


def test_wrong_schemas_are_errors_when_the_source_is_made(tmp_path):
    """What is no schema, has no fields, names a column twice or is about other files."""
    written(tmp_path / "a.parquet", {"x": [1]})
    for schema, error, text in (
        ({"x": "int64"}, TypeError, r"schema= is a dict\. Pass a pyarrow\.schema"),
        (pa.schema([]), ValueError, "at least one field"),
        (pa.schema([("x", pa.int8()), ("x", pa.int8())]), ValueError, "each name once"),
        (
            pa.schema({"y": pa.int8()}),
            ValueError,
            r"columns 'y', and no file has any of them\. Name .*: x",
        ),
        (
            pa.schema({"x": pa.list_(pa.int8())}),
            SourceError,
            r"a\.parquet: column 'x' is int64, .* to list<item: int8>",
        ),
    ):
        with pytest.raises(error, match=text):
            ParquetDataSource(tmp_path, schema=schema)


def test_a_value_that_does_not_fit_the_schema_names_file_and_column(tmp_path):
    """It is found when its row group is read; the other files are read."""
    written(tmp_path / "a.parquet", {"x": [1]})
    written(tmp_path / "b.parquet", {"x": [2**40]})
    source = ParquetDataSource(tmp_path, schema=pa.schema({"x": pa.int32()}))
    assert source[0] == {"x": 1}
    for _ in range(2):
        with pytest.raises(
            SourceError,
            match=(
                r"b\.parquet: column 'x' is int64, .* read as int32: .*1099511627776.*Pass schema="
            ),
        ):
            _ = source[1]


def test_lengths_are_those_of_the_records(tmp_path):
    """Of files with several types, of columns that some lack, and of fields that folders name."""
    written(
        tmp_path / "n=3" / "a.parquet",
        {"text": ["äb", None], "list": pa.array([[1], [2, 3]]), "more": [["a"], []]},
    )
    written(
        tmp_path / "n=5" / "b.parquet",
        {
            "text": pa.nulls(1),
            "list": pa.array([[4] * 7], pa.large_list_view(pa.int64())),
            "more": [["a"]],
        },
    )
    source = ParquetDataSource(tmp_path, columns=["text", "list"])
    for _ in range(2):
        assert source.lengths_by("text").tolist() == [3, 0, 0]
        assert source.lengths_by("list").tolist() == [1, 2, 7]
        assert source.lengths_by("more").tolist() == [1, 0, 1]
        assert source.lengths_by("n").tolist() == [3, 3, 5]
    written(tmp_path / "n=7" / "c.parquet", {"list": pa.array([[1]], pa.list_(pa.int8()))})
    schema = pa.schema({"list": pa.list_(pa.int64()), "n": pa.int64(), "text": pa.string()})
    wider = ParquetDataSource(tmp_path, columns=["n"], schema=schema)
    assert wider.lengths_by("text").tolist() == [3, 0, 0, 0]
    assert wider.lengths_by("list").tolist() == [1, 2, 7, 1]
    with pytest.raises(LengthsError, match="no column of this name"):
        wider.lengths_by("more")


def test_the_fingerprint_depends_on_the_schema(tmp_path):
    """And on nothing that does not change the records."""
    written(tmp_path / "a.parquet", {"x": pa.array([1], pa.int32())})
    plain_one = fingerprint_of(ParquetDataSource(tmp_path))
    kinds = [pa.int32(), pa.int64(), pa.float64()]
    prints = [
        fingerprint_of(ParquetDataSource(tmp_path, schema=pa.schema({"x": kind})))["files"]
        for kind in kinds
    ]
    assert len({plain_one["files"], *prints}) == 4
    noted = pa.schema({"x": pa.int64()}, metadata={"a": "b"})
    assert fingerprint_of(ParquetDataSource(tmp_path, schema=noted))["files"] == prints[1]
