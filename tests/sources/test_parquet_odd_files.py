"""Parquet files that pyarrow reads in parts only, or not at all: large nested columns, views,
encrypted files.
"""

import base64
import decimal

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from support.source_conformance import SourceConformance, assert_same

from headrace.errors import SourceError
from headrace.files.remote.store import close_stores
from headrace.files.streams import RawFile
from headrace.sources import ParquetDataSource
from headrace.sources.arrow import columns

LIMIT = 7
"""Most rows that the planted limit reads at once."""


@pytest.fixture
def limited(monkeypatch):
    """Make pyarrow read no more than `LIMIT` rows of a nested column at once, and join no arrays of
    one.
    """
    read, slices, joined = (
        pq.ParquetFile.read_row_group,
        pq.ParquetFile.iter_batches,
        pa.concat_arrays,
    )
    tries = []

    def refuse(file, rows, wanted):
        kinds = [
            field.type for field in file.schema_arrow if wanted is None or field.name in wanted
        ]
        if rows > LIMIT and any(map(pa.types.is_nested, kinds)):
            raise pa.ArrowNotImplementedError(
                "Nested data conversions not implemented for chunked array outputs"
            )

    def read_some(file, number, columns=None, **options):
        tries.append("whole")
        refuse(file, file.metadata.row_group(number).num_rows, columns)
        return read(file, number, columns=columns, **options)

    def read_slices(file, batch_size, row_groups, columns=None, **options):
        tries.append(batch_size)
        refuse(file, batch_size, columns)
        return slices(file, batch_size, row_groups=row_groups, columns=columns, **options)

    def join(arrays):
        if len(arrays) > 1 and pa.types.is_nested(arrays[0].type):
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return joined(arrays)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_some)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read_slices)
    monkeypatch.setattr(pa, "concat_arrays", join)
    return tries


def nested(keys):
    """A table of nested columns; every fifth list of the last one has a null."""
    keys = [int(key) for key in keys]
    return pa.table(
        {
            "key": keys,
            "texts": [[f"text {key}"] * (key % 3) for key in keys],
            "numbers": pa.array([[key] * (key % 4) for key in keys], pa.list_(pa.int32())),
            "struct": [{"a": key, "b": [str(key)]} for key in keys],
            "gaps": [[key, None] if key % 5 == 0 else [key] for key in keys],
        }
    )


class TestInSlices(SourceConformance):
    """A row group is read in slices where pyarrow refuses it as a whole; the records
    are the same.
    """

    on_files = True

    @pytest.fixture(autouse=True)
    def _limited(self, limited):
        """The planted limit, for all tests."""

    def write(self, folder, count):
        pq.write_table(nested(range(count)), folder / "x.parquet", row_group_size=40)

    def open(self, folder, count):
        return ParquetDataSource(folder)

    def expected_record(self, key):
        return {
            "key": np.int64(key),
            "texts": [f"text {key}"] * (key % 3),
            "numbers": np.full(key % 4, key, np.int32),
            "struct": {"a": key, "b": [str(key)]},
            "gaps": [key, None] if key % 5 == 0 else np.array([key]),
        }


def test_the_number_of_rows_that_can_be_read_is_found_once(tmp_path, limited):
    """A later read of the row group begins with it; plain columns are never read in slices."""
    pq.write_table(nested(range(64)), tmp_path / "x.parquet")
    source = ParquetDataSource(tmp_path, cache_bytes=0, columns=["texts", "key"])
    for number in range(3):
        source._cache.forget()
        assert source[number]["texts"] == [f"text {number}"] * number
    assert limited == ["whole", 16, 4, 4, 4]
    limited.clear()
    assert ParquetDataSource(tmp_path, columns=["key"])[60] == {"key": 60}
    assert limited == ["whole"]
    assert source.lengths_by("texts").tolist() == [key % 3 for key in range(64)]


def test_a_row_that_is_too_large_alone_is_an_error(tmp_path, limited, monkeypatch):
    """It says what pyarrow cannot do, and the remedy; other columns are read."""
    monkeypatch.setattr("test_parquet_odd_files.LIMIT", 0)
    pq.write_table(nested(range(3)), tmp_path / "x.parquet")
    with pytest.raises(
        SourceError,
        match=r"x\.parquet: a row of row group 0 has more than 2 GiB.*Leave the column out",
    ) as raised:
        _ = ParquetDataSource(tmp_path)[1]
    assert len(str(raised.value)) < 500
    assert ParquetDataSource(tmp_path, columns=["key"])[1] == {"key": 1}


VIEWS = {
    "text": pa.array(["a" * 20, None, "b"], pa.string_view()),
    "bytes": pa.array([b"a" * 20, None, b"b"], pa.binary_view()),
    "texts": pa.array([["a" * 20, "b"], None, []], pa.list_(pa.string_view())),
    "struct": pa.array([{"a": "b" * 20}, None, {"a": None}], pa.struct({"a": pa.string_view()})),
    "map": pa.array([[("a", "b" * 20)], None, []], pa.map_(pa.string_view(), pa.string_view())),
    "list view of texts": pa.array([["a"], None, []], pa.list_view(pa.string_view())),
    "dictionary": pa.array([["a"], None, []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "decimal": pa.array(
        [decimal.Decimal("1.25"), None, decimal.Decimal(10**60)], pa.decimal256(70, 2)
    ),
    "decimals": pa.array([[decimal.Decimal("1.25")], None, []], pa.list_(pa.decimal256(70, 2))),
}


@pytest.mark.parametrize("array", VIEWS.values(), ids=VIEWS)
def test_views_and_large_decimals_have_the_values_of_pyarrow(tmp_path, array):
    """Whether few rows are asked for or many."""
    pq.write_table(pa.table({"x": array}), tmp_path / "x.parquet")
    source = ParquetDataSource(tmp_path)
    expected = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [source[key] for key in range(3)] == expected
    assert list(source.__getitems__([2, 0, 1] * 3)) == [expected[2], expected[0], expected[1]] * 3


@pytest.mark.parametrize(
    "kind", [pa.list_view(pa.int32()), pa.large_list_view(pa.int32())], ids=str
)
def test_list_views_of_numbers_are_arrays(tmp_path, kind):
    """Like lists; their lengths are known."""
    pq.write_table(pa.table({"x": pa.array([[1, 2], None, []], kind)}), tmp_path / "x.parquet")
    source = ParquetDataSource(tmp_path)
    expected = [np.array([1, 2], np.int32), None, np.array([], np.int32)]
    assert_same([source[key]["x"] for key in range(3)], expected)
    assert_same([record["x"] for record in source.__getitems__([0, 1, 2])], expected)
    assert source.lengths_by("x").tolist() == [2, 0, 0]


def test_lengths_of_views_of_texts_are_bytes(tmp_path):
    """As those of other texts."""
    pq.write_table(
        pa.table({"x": pa.array(["\u00e4" * 9, None], pa.string_view())}), tmp_path / "x.parquet"
    )
    assert ParquetDataSource(tmp_path).lengths_by("x").tolist() == [18, 0]


def test_lengths_of_bytes_of_one_size(tmp_path):
    """The size of the type; 0 for a null."""
    pq.write_table(pa.table({"x": pa.array([b"abcd", None], pa.binary(4))}), tmp_path / "x.parquet")
    source = ParquetDataSource(tmp_path)
    assert (source[0]["x"], source.lengths_by("x").tolist()) == (b"abcd", [4, 0])


def test_a_list_is_a_python_list_only_if_it_has_a_null_itself():
    """Other lists of the column, in the same piece or another, do not matter."""
    arrays = [pa.array([[1], [2, None]]), pa.array([[3, None], [4]])]
    expected = [np.array([1]), [2, None], [3, None], np.array([4])]
    assert_same(columns.column_of(pa.chunked_array(arrays)).take([0, 1, 2, 3]), expected)
    assert_same(columns._Pieces(arrays).take([0, 1, 2, 3]), expected)


def test_a_tensor_has_its_shape_whatever_the_other_rows_are():
    """A null among the rows does not make it flat, and a null in it is not a zero."""
    stored = pa.array([[1, 2, 3, 4], None, [5, None, 7, 8]], pa.list_(pa.int32(), 4))
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 2], permutation=[1, 0])
    first = np.array([[1, 3], [2, 4]], np.int32)
    for rows, expected in [
        ([0], [first]),
        ([0, 1], [first, None]),
        ([2, 0], [[5, None, 7, 8], first]),
    ]:
        array = pa.ExtensionArray.from_storage(kind, stored.take(rows))
        assert_same(
            columns.column_of(pa.chunked_array([array])).take(list(range(len(rows)))), expected
        )


@pytest.mark.parametrize("name", ["a.b", "a.c", "a", ".", "list"])
def test_all_bytes_of_a_column_are_fetched_at_once_whatever_its_name_is(
    tmp_path, monkeypatch, name
):
    """A point in a name does not end it: the row group of a file in a store is read from memory."""
    table = pa.table(
        {
            "a.b": [1, 2],
            "a.c": [["x"], []],
            "a": [{"d": 1, "e": [2]}] * 2,
            ".": ["y", "z"],
            "list": [[3], [4]],
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    fsspec.filesystem("memory").pipe("/points/x.parquet", (tmp_path / "x.parquet").read_bytes())
    kept = {"storage_options": {"cache_dir": str(tmp_path / "cache")}}
    source = ParquetDataSource("memory://points/x.parquet", columns=[name], **kept)
    first = source[0]  # and the footer
    source._cache.forget()
    monkeypatch.setattr(
        RawFile, "read_at", lambda *_: pytest.fail("bytes are fetched that were not loaded")
    )
    assert_same(source[0], first)
    assert np.array_equal(first[name], table[name][0].as_py())


class Keys(encryption.KmsClient):
    """Keys that are wrapped as they are."""

    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key, _):
        return base64.b64encode(key).decode()

    def unwrap_key(self, key, _):
        return base64.b64decode(key)


def encrypted(path, plaintext_footer):
    """Write a file whose column `secret` is encrypted."""
    options = {
        "footer_key": "k",
        "column_keys": {"k": ["secret"]},
        "plaintext_footer": plaintext_footer,
    }
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(), encryption.EncryptionConfiguration(**options)
    )
    pq.write_table(
        pa.table({"open": [1, 2], "secret": [3, 4]}), path, encryption_properties=properties
    )


def test_encrypted_files_are_named_with_the_remedy(tmp_path):
    """A file without a readable footer when the source is made; one with, when an encrypted column
    is read.
    """
    encrypted(tmp_path / "whole.parquet", False)
    encrypted(tmp_path / "columns.parquet", True)
    remedy = (
        r"is encrypted, or some of its columns are.*Write a copy that is not encrypted: "
        r"pyarrow\.parquet\.write_table"
    )
    with pytest.raises(SourceError, match=f"whole.parquet {remedy}") as raised:
        ParquetDataSource(tmp_path / "whole.parquet")
    assert len(str(raised.value)) < 500
    source = ParquetDataSource(tmp_path / "columns.parquet")
    for read in (lambda: source[1], lambda: source.lengths_by("secret")):
        with pytest.raises(SourceError, match=f"columns.parquet {remedy}"):
            read()
    assert ParquetDataSource(tmp_path / "columns.parquet", columns=["open"])[1] == {"open": 2}


def test_encrypted_columns_in_a_store_are_refused_at_once(tmp_path):
    """Asking pyarrow for their places in the file, as for ranges of a store, would end
    the process.
    """
    fsspec = pytest.importorskip("fsspec")
    encrypted(tmp_path / "columns.parquet", True)
    memory = fsspec.filesystem("memory")
    memory.pipe("/odd/columns.parquet", (tmp_path / "columns.parquet").read_bytes())
    with pytest.raises(SourceError, match="is encrypted, or some of its columns are"):
        ParquetDataSource("memory://odd/columns.parquet", columns=["open"])
    close_stores()
    memory.rm("/odd", recursive=True)
