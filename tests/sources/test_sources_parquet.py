"""Parquet files: values of every Arrow type, the cache of row groups, and every way that files can
be bad.
"""

import datetime
import decimal
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from support.source_conformance import SourceConformance, assert_same, exit_code, open_files

from headrace.errors import SourceError, SourceNotFoundError
from headrace.files import reader_pool
from headrace.sources import ParquetDataSource, fingerprint_of
from headrace.sources.arrow import decoded, row_groups
from headrace.sources.arrow.block_cache import BlockCache
from headrace.sources.arrow.columns import column_of


def table(keys):
    """A table of one row per key, with columns of four kinds."""
    keys = np.asarray(keys, np.int64)
    return pa.table(
        {
            "key": keys,
            "image": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(keys, 3).astype(np.float32)), 3
            ),
            "text": [f"text {key}" for key in keys],
            "maybe": pa.array([None if key % 3 == 0 else int(key) for key in keys], pa.int16()),
        }
    )


class TestOneFile(SourceConformance):
    on_files = True

    def write(self, folder, count):
        pq.write_table(table(range(count)), folder / "x.parquet", row_group_size=10)

    def open(self, folder, count):
        return ParquetDataSource(folder / "x.parquet")

    def expected_record(self, key):
        maybe = None if key % 3 == 0 else np.int16(key)
        image = np.full(3, key, np.float32)
        return {"key": np.int64(key), "image": image, "text": f"text {key}", "maybe": maybe}


class TestManyFilesSmallCache(TestOneFile):
    """Five files, one of them without rows, some columns in another order, and a cache too small
    for two groups.
    """

    def write(self, folder, count):
        for number, keys in enumerate(np.array_split(np.arange(count), 4)):
            pq.write_table(table(keys), folder / f"x-{number}.parquet", row_group_size=7)
        pq.write_table(table([]), folder / "x-1b.parquet")

    def open(self, folder, count):
        return ParquetDataSource(folder, columns=["text", "key"], cache_bytes=300)

    def expected_record(self, key):
        return {"text": f"text {key}", "key": np.int64(key)}


class TestOtherFileSystem(TestOneFile):
    """A file system that is not the local one."""

    def open(self, folder, count):
        return ParquetDataSource(
            "*.parquet", filesystem=fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        )


DAY = datetime.datetime(2020, 1, 2, 3, 4, 5)
UTC = datetime.timezone.utc  # noqa: UP017
VALUES = [
    (pa.array([1, 2], pa.uint8()), [np.uint8(1), np.uint8(2)]),
    (pa.array([1, None], pa.int32()), [np.int32(1), None]),
    (pa.array([2**60 + 1, None], pa.int64()), [np.int64(2**60 + 1), None]),
    (pa.array([0.5, None], pa.float32()), [np.float32(0.5), None]),
    (pa.array(np.array([0.5, 1], np.float16)), [np.float16(0.5), np.float16(1)]),
    (pa.array([True, False]), [np.True_, np.False_]),
    (pa.array([True, None]), [np.True_, None]),
    (pa.array(["ä", None]), ["ä", None]),
    (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
    (pa.array([b"\0a", None]), [b"\0a", None]),
    (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
    (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"]),
    (pa.nulls(2), [None, None]),
    (pa.array([DAY, None], pa.timestamp("us")), [np.datetime64(DAY, "us"), None]),
    (pa.array([DAY, DAY], pa.timestamp("ms")), [np.datetime64(DAY, "ms")] * 2),
    (pa.array([DAY.date(), None]), [np.datetime64(DAY.date(), "D"), None]),
    (pa.array([datetime.timedelta(1), None]), [np.timedelta64(86400 * 10**6, "us"), None]),
    (pa.array([DAY.time(), None]), [DAY.time(), None]),
    (pa.array([decimal.Decimal("1.20"), None]), [decimal.Decimal("1.20"), None]),
    (pa.array([[1, 2, 3], []]), [np.array([1, 2, 3]), np.array([], int)]),
    (pa.array([[1.0], None, [2.0, 3.0]]), [np.array([1.0]), None, np.array([2.0, 3.0])]),
    (
        pa.array([[1], [2]], pa.large_list(pa.int8())),
        [np.array([1], np.int8), np.array([2], np.int8)],
    ),
    (pa.array([[1, None], [2]]), [[1, None], np.array([2])]),
    (
        pa.array([[1, None], None, [2, 3]], pa.list_(pa.int8(), 2)),
        [[1, None], None, np.array([2, 3], np.int8)],
    ),
    (pa.array([["a"], []]), [["a"], []]),
    (
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)),
        [np.array([1, 2], np.int32), np.array([3, 4], np.int32)],
    ),
    (
        pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        [np.array([1, 2]), None, np.array([3, 4])],
    ),
    (
        pa.array([[[1, 2], [3, 4]]], pa.list_(pa.list_(pa.int64(), 2), 2)),
        [np.array([[1, 2], [3, 4]])],
    ),
    (
        pa.array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int64(), 2))),
        [[1, 2], [3, 4, 5, 6]],
    ),
    (pa.array([{"a": 1, "b": None}, None]), [{"a": 1, "b": None}, None]),
    (pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int8())), [[("a", 1)], []]),
    (
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8).reshape(2, 2, 2)),
        list(np.arange(8).reshape(2, 2, 2)),
    ),
]
VALUES[-4] = (VALUES[-4][0], [np.array([[1, 2]]), np.array([[3, 4], [5, 6]])])


def _writes(array, path):
    try:
        pq.write_table(pa.table({"x": array}), path)
    except pa.ArrowNotImplementedError:
        return False
    return True


def _reads(path):
    """Whether pyarrow itself reads the file; some releases fail at nulls in lists of a
    fixed size.
    """
    try:
        return pq.read_table(path) is not None
    except pa.ArrowInvalid:
        return False


@pytest.mark.parametrize(
    ("array", "values"), VALUES, ids=lambda value: str(getattr(value, "type", ""))
)
@pytest.mark.one_in(3)
def test_each_type_has_its_value(tmp_path, array, values):
    """Numbers come as NumPy scalars, lists of numbers as arrays, text as `str`, nulls as None, the
    rest as Python.
    """
    if not _writes(array, tmp_path / "x.parquet") or not _reads(tmp_path / "x.parquet"):
        pytest.skip(
            f"pyarrow {pa.__version__} cannot write {array.type}, or read back what it wrote of it"
        )
    source = ParquetDataSource(tmp_path / "x.parquet")
    assert_same([row["x"] for row in source.__getitems__(range(len(values)))], values)
    assert_same(
        [row["x"] for row in source.__getitems__([len(values) - 1, 0])], [values[-1], values[0]]
    )


def test_arrays_are_read_only(tmp_path):
    """Rows lie in the cache and are read-only, so that no operation changes what the next epoch
    reads.
    """
    pq.write_table(table(range(3)), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="read-only"):
        ParquetDataSource(tmp_path / "x.parquet")[0]["image"][0] = 5


@pytest.fixture
def folder(tmp_path):
    """A folder with the rows 0 to 29 in the files a, b and c."""
    for name, start in (("b", 10), ("a", 0), ("c", 20)):
        pq.write_table(
            table(range(start, start + 10)), tmp_path / f"{name}.parquet", row_group_size=4
        )
    return tmp_path


def keys_of(source):
    """The column `key` of all rows of a source."""
    return [int(row["key"]) for row in source.__getitems__(range(len(source)))]


def test_a_glob_and_a_directory_are_sorted_and_a_list_keeps_its_order(folder):
    """Globs and directories give their files by name; a list gives them as it stands."""
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.txt").write_text("no rows")
    for paths in (
        folder,
        str(folder),
        f"{folder}/*.parquet",
        [folder / f"{name}.parquet" for name in "abc"],
    ):
        assert keys_of(ParquetDataSource(paths)) == list(range(30))
    assert keys_of(ParquetDataSource([folder / "c.parquet", str(folder / "a.parquet")])) == [
        *range(20, 30),
        *range(10),
    ]


def test_globs_work_on_every_file_system(folder):
    """Patterns, `**` too, mean the same on a pyarrow or fsspec file system and in a URI."""
    deep = folder / "deep" / "er"
    deep.mkdir(parents=True)
    pq.write_table(table(range(30, 40)), deep / "d.parquet")
    sub = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    assert keys_of(ParquetDataSource("[ab].parquet", filesystem=sub)) == list(range(20))
    assert keys_of(ParquetDataSource("**/*.parquet", filesystem=sub)) == list(range(40))
    assert keys_of(ParquetDataSource("deep/*/d.parquet", filesystem=sub)) == list(range(30, 40))
    assert keys_of(ParquetDataSource("deep/er", filesystem=sub)) == list(range(30, 40))
    assert keys_of(ParquetDataSource(f"file://{folder}/a.parquet")) == list(range(10))
    fsspec = pytest.importorskip("fsspec")
    assert keys_of(ParquetDataSource(str(folder), filesystem=fsspec.filesystem("file"))) == list(
        range(40)
    )
    for name in ("nope", "*.nope", "nope/*.parquet"):
        with pytest.raises(SourceNotFoundError, match="nope"):
            ParquetDataSource(name, filesystem=sub)


def test_columns_are_chosen_and_ordered(folder):
    """`columns` gives the keys of the records and their order; one name may stand alone."""
    assert list(ParquetDataSource(folder, columns=["text", "key"])[0]) == ["text", "key"]
    assert list(ParquetDataSource(folder, columns="key")[0]) == ["key"]
    assert fingerprint_of(ParquetDataSource(folder)) != fingerprint_of(
        ParquetDataSource(folder, columns=["key"])
    )


def test_an_unknown_column_is_an_error_that_names_those_there_are(folder):
    """A name that is no column is a `ValueError` with the columns of the file."""
    with pytest.raises(
        ValueError, match=r"no column 'label'\. Name some of its columns: key, image, text, maybe"
    ):
        ParquetDataSource(folder, columns=["key", "label"])
    with pytest.raises(ValueError, match="at least one column"):
        ParquetDataSource(folder, columns=[])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda good: good.drop_columns("text"), "'text' is missing"),
        (lambda good: good.append_column("more", good["key"]), "'more' is new"),
        (
            lambda good: good.set_column(0, "key", good["key"].cast(pa.int8())),
            "'key' is int8, not int64",
        ),
    ],
)
def test_files_with_other_columns_are_an_error(folder, change, text):
    """A file whose columns differ from those of the first is named, with the difference."""
    pq.write_table(change(table(range(3))), folder / "z.parquet")
    with pytest.raises(
        SourceError, match=rf"z\.parquet has other columns than .*a\.parquet: {text}"
    ):
        ParquetDataSource(folder)
    assert len(ParquetDataSource(folder, columns=["image"])) == 33


def test_the_order_of_columns_may_differ_between_files(folder):
    """Columns are found by name: another order in a later file changes nothing."""
    pq.write_table(
        table(range(30, 40)).select(["text", "maybe", "image", "key"]), folder / "z.parquet"
    )
    assert keys_of(ParquetDataSource(folder)) == list(range(40))
    assert list(ParquetDataSource(folder)[35]) == ["key", "image", "text", "maybe"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (lambda good: b"", "the file is empty"),
        (lambda good: b"not rows at all", "not a Parquet file"),
        (lambda good: b"x", "not a Parquet file"),
        (lambda good: good[: len(good) // 2], "is cut off"),
        (lambda good: good[:-1], "is cut off"),
    ],
)
def test_a_bad_file_is_an_error_at_construction(folder, content, text):
    """Empty, foreign and truncated files are errors that name the file, when the source is made."""
    (folder / "bad.parquet").write_bytes(content((folder / "a.parquet").read_bytes()))
    with pytest.raises(SourceError, match=rf"bad\.parquet.*{text}"):
        ParquetDataSource(folder)
    assert open_files(folder) == []


def test_no_rows_at_all_is_an_error(tmp_path):
    """A source without rows is an error, and so are a folder without files and a missing file."""
    pq.write_table(table([]), tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="no rows"):
        ParquetDataSource(tmp_path)
    (tmp_path / "x.parquet").unlink()
    with pytest.raises(SourceNotFoundError, match=r"no file named \*\.parquet"):
        ParquetDataSource(tmp_path)
    with pytest.raises(SourceNotFoundError, match="nope"):
        ParquetDataSource(tmp_path / "nope.parquet")


def test_a_damaged_row_group_is_named_by_file_and_key(tmp_path):
    """A damaged row group is an error with file and key when it is read; the others are
    still read.
    """
    numbers = pa.table({"x": np.random.default_rng(0).integers(0, 2**60, 3000)})
    path = tmp_path / "x.parquet"
    pq.write_table(numbers, path, row_group_size=1000, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    offset = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    content[offset : offset + 400] = b"\xff" * 400
    path.write_bytes(bytes(content))
    source = ParquetDataSource(path)
    assert source[5]["x"] == numbers["x"][5].as_py()
    for _ in range(2):
        with pytest.raises(
            SourceError, match=r"x\.parquet: record key 1234 \(row group 1\) cannot be read"
        ):
            source.__getitems__([3, 1234])
    assert source[2999]["x"] == numbers["x"][2999].as_py()


def test_the_cache_stays_within_its_bytes(tmp_path, monkeypatch):
    """Decoded row groups take at most `cache_bytes`, the least recently used are forgotten, the
    last one stays.
    """
    pq.write_table(pa.table({"x": np.arange(1000)}), tmp_path / "x.parquet", row_group_size=100)
    decoded_groups, read = [], pq.ParquetFile.read_row_group

    def noted(file, number, **options):
        decoded_groups.append(number)
        return read(file, number, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    # a row group takes some 813 bytes
    wanted = {2000: [0, 1, 2, 0], 2600: [0, 1, 2], 0: [0, 1, 0, 1, 2, 1, 0]}
    for cache_bytes, groups in wanted.items():
        decoded_groups.clear()
        source = ParquetDataSource(tmp_path / "x.parquet", cache_bytes=cache_bytes)
        for key in (0, 100, 101, 0, 100, 250, 150, 0):
            assert source[key]["x"] == key
        assert decoded_groups == groups


@pytest.mark.parametrize(
    ("value", "error"), [("1G", TypeError), (1e9, TypeError), (None, TypeError), (-1, ValueError)]
)
def test_the_cache_size_is_a_number_of_bytes(folder, value, error):
    """Anything but an integer from 0 as `cache_bytes` is an error that names value, limit and
    remedy.
    """
    with pytest.raises(error, match=f"cache_bytes={value!r} .*Pass .*bytes"):
        ParquetDataSource(folder, cache_bytes=value)
    assert len(ParquetDataSource(folder, cache_bytes=np.int64(0))) == 30


def test_a_block_is_decoded_once_for_all_threads_that_wait():
    """Threads that ask for one block at the same time share one decoding, and one failure; later
    calls try again.
    """
    calls = []
    gate = threading.Event()

    def decode(number):
        calls.append(number)
        gate.wait(10)
        if number < 0:
            raise SourceError("bad block")
        return np.full(4, number)

    cache = BlockCache(decode, 1000)
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(cache.get, 7) for _ in range(4)]
        gate.set()
        assert {id(block.result()) for block in found} == {id(found[0].result())}
    assert calls == [7]
    for _ in range(2):
        with pytest.raises(SourceError, match="bad block"):
            cache.get(-1)
    assert calls == [7, -1, -1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_block_that_a_thread_decodes_during_a_fork_is_decoded_anew_in_the_child():
    """There, that thread does not exist."""
    begun, gate = threading.Event(), threading.Event()

    def decode(number):
        begun.set()
        gate.wait(60)
        return np.full(4, number)

    cache = BlockCache(decode, 1000)
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(cache.get, 7)
        begun.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends a child that waits for that thread
            try:
                gate.set()
                status = int(cache.get(7)[0] != 7)
            finally:
                os._exit(status)
        gate.set()
        assert exit_code(child) == 0
        assert found.result()[0] == 7


def test_a_footer_is_parsed_once_however_many_row_groups_are_read(tmp_path, monkeypatch):
    """Parsing it takes many times as long as a row group: only the first read of a file does, by
    threads too.
    """
    for name in "ab":
        pq.write_table(
            pa.table({"key": np.arange(60)}), tmp_path / f"{name}.parquet", row_group_size=4
        )
    source = ParquetDataSource(tmp_path, cache_bytes=0)
    parsed, parse = [], pq.ParquetFile

    def counted(handle, metadata=None, **options):
        parsed.append(metadata is None)
        return parse(handle, metadata=metadata, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    keys = np.random.default_rng(0).permutation(120)
    with ThreadPoolExecutor(4) as threads:
        assert [record["key"] for record in threads.map(source.__getitem__, keys)] == (
            keys % 60
        ).tolist()
    assert parsed.count(True) == 2
    assert 2 <= parsed.count(False) <= 8


def test_no_two_threads_read_by_one_reader_of_the_library(tmp_path, monkeypatch):
    """It serves one thread at a time; several threads that read one file have one each, and open it
    once.
    """
    pq.write_table(pa.table({"key": np.arange(400)}), tmp_path / "x.parquet", row_group_size=4)
    source = ParquetDataSource(tmp_path, cache_bytes=0)

    class Watched(pq.ParquetFile):
        """Fails where two threads use it at the same time."""

        def read_row_group(self, *arguments, **options):
            mine = self.__dict__.setdefault("mine", threading.Lock())
            assert mine.acquire(blocking=False)
            try:
                return super().read_row_group(*arguments, **options)
            finally:
                mine.release()

    monkeypatch.setattr(pq, "ParquetFile", Watched)
    keys = np.random.default_rng(0).permutation(400)
    with ThreadPoolExecutor(8) as threads:
        assert [record["key"] for record in threads.map(source.__getitem__, keys)] == keys.tolist()
    assert open_files(tmp_path) == [str(tmp_path / "x.parquet")]


def test_parsed_footers_stay_within_their_bytes(tmp_path, monkeypatch):
    """Where they are larger than that, the least recently used is parsed again, and rows are the
    same.
    """
    monkeypatch.setattr(row_groups, "FOOTER_BYTES", 1)
    for number in range(3):
        pq.write_table(
            pa.table({"key": np.arange(9) + 9 * number}),
            tmp_path / f"{number}.parquet",
            row_group_size=3,
        )
    source = ParquetDataSource(tmp_path, cache_bytes=0)
    parsed, parse = [], pq.ParquetFile

    def counted(handle, metadata=None, **options):
        parsed.append(metadata is None)
        return parse(handle, metadata=metadata, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    for key in np.random.default_rng(0).integers(0, 27, 50):
        assert source[key]["key"] == key
        assert len(open_files(tmp_path)) == 1
    assert 10 < parsed.count(True) <= 50


def test_files_stay_open_until_the_source_is_closed_and_no_rows_are_pickled(folder):
    """A file that was read is read on without opening it again; open files and decoded rows stay
    out of the pickle.
    """
    with ParquetDataSource(folder, cache_bytes=0) as source:
        before = len(pickle.dumps(source))
        assert open_files(folder) == []
        for _ in range(2):
            source.__getitems__(range(30))
            assert sorted(open_files(folder)) == [str(folder / f"{name}.parquet") for name in "abc"]
        assert len(pickle.dumps(source)) == before
    assert open_files(folder) == []
    assert keys_of(source) == list(range(30))


def test_files_of_which_nothing_tells_a_change_are_open_for_each_read_only(folder):
    """Another file system's file of another size, under the old name, is seen at the next read."""
    sub = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    source = ParquetDataSource("a.parquet", filesystem=sub, cache_bytes=0)
    assert source[0]["key"] == 0
    assert open_files(folder) == []
    pq.write_table(table(range(50, 90)), folder / "a.parquet", row_group_size=4)
    with pytest.raises(
        SourceError, match=r"a\.parquet: the file changed after the source was made"
    ):
        _ = source[5]


def test_no_more_files_stay_open_than_the_process_can_spare(tmp_path, monkeypatch):
    """The files that were used last stay open; their rows are the same as those of files that are
    opened again.
    """
    monkeypatch.setattr(reader_pool, "open_file_limit", lambda: 2)
    for number in range(5):
        pq.write_table(table([number]), tmp_path / f"{number}.parquet")
    source = ParquetDataSource(tmp_path, cache_bytes=0)
    for key in np.random.default_rng(0).integers(0, 5, 40).tolist():
        assert source[key]["key"] == key
        assert len(open_files(tmp_path)) <= 2


def test_a_file_that_cannot_be_read_does_not_stay_open(tmp_path):
    """After an error nobody knows where its reader stands."""
    pq.write_table(pa.table({"x": np.arange(1000)}), tmp_path / "x.parquet", row_group_size=100)
    source = ParquetDataSource(tmp_path / "x.parquet", cache_bytes=0)
    assert source[7]["x"] == 7
    assert open_files(tmp_path)
    os.utime(tmp_path / "x.parquet", ns=(1, 1))
    with pytest.raises(SourceError, match="the file changed after the source was"):
        _ = source[307]
    assert open_files(tmp_path) == []


ROWS_OF_TYPES = [array for array, _ in VALUES] + [
    pa.array([DAY.date(), None], pa.date64()),
    pa.array([DAY, None], pa.timestamp("ns")),
    pa.array([DAY, None], pa.timestamp("us", "UTC")),
    pa.array([np.iinfo(np.int64).min, 2**62, 5], pa.timestamp("s")),
    pa.array([-(2**31), 2**31 - 1], pa.date32()),
    pa.array([2**64 - 1, 2**63, None], pa.uint64()),
    pa.array(np.array([0x7F800001, 0xFFC00123, 0x7F7FFFFF], np.uint32).view(np.float32)),
    pa.array(np.array([0x7C01, 0xFE12, 0x7BFF], np.uint16).view(np.float16)),
    pa.array(np.array([0x7FF0000000000001, 0x7FF8000000000123], np.uint64).view(np.float64)),
]


@pytest.mark.parametrize("array", ROWS_OF_TYPES, ids=lambda array: str(array.type))
def test_a_row_is_the_same_whether_few_or_many_are_asked_for(array):
    """Values that are made one by one have the type and the bits of those of a converted column."""
    form = decoded.Form(["x"], [array.type])
    few, many = (decoded.DecodedRows(pa.table({"x": array}), form) for _ in range(2))
    rows = [row % len(array) for row in range(8)]
    alone = [few.rows([row])[0]["x"] for row in range(len(array))]
    together = [record["x"] for record in many.rows(rows)][: len(array)]
    assert [_bits(value) for value in alone] == [_bits(value) for value in together]


def _bits(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape, value.tobytes()
    return type(value), [_bits(item) for item in value] if isinstance(value, list) else value


def test_a_block_says_how_many_bytes_it_takes_when_it_is_converted():
    """Flags and nulls take a byte in place of a bit then; the cache counts them from
    the beginning.
    """
    columns = {
        "plain": pa.array(np.arange(800)),
        "flag": pa.array(np.arange(800) % 2 == 0),
        "null": pa.array([None, 1.5] * 400),
        "list": pa.array([[1, 2], [3]] * 400),
    }
    made = pa.table(columns)
    block = decoded.DecodedRows(made, decoded.Form(made.column_names, made.schema.types))
    converted = sum(column_of(made[name]).nbytes for name in columns)
    assert converted <= block.nbytes <= 1.05 * converted


@pytest.mark.parametrize("rows", [4, 5])
def test_a_file_replaced_while_it_is_in_use_is_an_error(tmp_path, rows):
    """Other rows under the same keys never come, even if the new file has as many bytes; pickled
    sources see it too.
    """
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(4)}), path)
    source = ParquetDataSource(path)
    pq.write_table(pa.table({"x": np.arange(rows)[::-1]}), tmp_path / "y.parquet")
    os.utime(tmp_path / "y.parquet", ns=(1, 1))
    os.replace(tmp_path / "y.parquet", path)
    for reader in (source, pickle.loads(pickle.dumps(source))):
        with pytest.raises(SourceError, match="the file changed after the source was made"):
            _ = reader[0]


def test_a_file_replaced_while_a_row_group_is_read_is_an_error(tmp_path, monkeypatch):
    """What was read meanwhile may be of the new file: no row of it comes."""
    path = tmp_path / "x.parquet"
    plain = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table({"x": np.arange(4)}), path, **plain)
    source = ParquetDataSource(path)
    read = pq.ParquetFile.read_row_group

    def read_late(*arguments, **named):
        pq.write_table(pa.table({"x": np.arange(4)[::-1]}), path, **plain)
        os.utime(path, ns=(1, 1))
        return read(*arguments, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_late)
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        _ = source[0]


def test_the_fingerprint_tells_contents_of_one_size_apart(tmp_path):
    """The footer, with the statistics of its columns, is part of it."""
    prints = []
    for folder, shift in (("a", 0), ("b", 7)):
        (tmp_path / folder).mkdir()
        pq.write_table(
            pa.table({"x": np.arange(4) + shift}),
            tmp_path / folder / "x.parquet",
            compression="none",
        )
        prints.append(fingerprint_of(ParquetDataSource(tmp_path / folder)))
    assert prints[0]["files"] == prints[1]["files"]
    assert prints[0] != prints[1]


def test_values_that_python_cannot_hold_are_named_by_file_and_key(tmp_path):
    """Text that is not UTF-8, and dates after the year 9999, are errors of the source."""
    offsets = np.array([0, 2, 4], np.int32).tobytes()
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"ab\xff\xfe")]
    )
    late = pa.StructArray.from_arrays([pa.array([0, 2**62], pa.timestamp("us"))], ["time"])
    for name, column in (("text", text), ("late", late)):
        pq.write_table(pa.table({"x": column}), tmp_path / f"{name}.parquet")
        with pytest.raises(SourceError, match=rf"{name}\.parquet: record key 1 "):
            _ = ParquetDataSource(tmp_path / f"{name}.parquet")[1]


@pytest.mark.parametrize("uri", ["odd://host/x.parquet", "file:///no/x/%%"])
def test_a_uri_that_cannot_be_opened_is_a_source_error(uri):
    """It names the URI; nothing of pyarrow's comes raw."""
    with pytest.raises(SourceError, match=uri.partition("//")[2]):
        ParquetDataSource(uri)


def test_a_folder_that_may_not_be_read_is_a_source_error(tmp_path, monkeypatch):
    """What the file system says comes with the path."""

    def forbidden(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.scandir", forbidden)
    with pytest.raises(SourceError, match=r"cannot be accessed.*Permission denied"):
        ParquetDataSource(tmp_path)
