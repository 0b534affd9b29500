"""ArrayRecord files: every way to name them, every way they can be bad, and readers shared by
threads.
"""

import os
import pathlib
import pickle
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from array_record.python import array_record_module
from support.array_record_files import record, write_file
from support.source_conformance import COUNT, SourceConformance, open_files

from headrace import Batch, DataLoader, IndexSampler, MixSampler
from headrace.errors import SourceError, SourceNotFoundError
from headrace.files.opened import LocalFile
from headrace.files.reader_pool import ReaderPool, open_file_limit
from headrace.sources import ArrayRecordDataSource, fingerprint_of, reader_of
from headrace.sources.array_record import files as files_module


class TestOneFile(SourceConformance):
    on_files = True

    def write(self, folder, count):
        write_file(folder / "x.array_record", map(record, range(count)))

    def open(self, folder, count):
        return ArrayRecordDataSource(folder / "x.array_record")

    def expected_record(self, key):
        return record(key)


class TestManyFilesFewOpen(TestOneFile):
    """Seven files, one of them empty, and at most two readers open."""

    def write(self, folder, count):
        for number, keys in enumerate(np.array_split(np.arange(count), 6)):
            write_file(
                folder / f"x.array_record-{number + (number > 2):05}-of-00007",
                map(record, keys),
                1 + number,
            )
        write_file(folder / "x.array_record-00003-of-00007", [])

    def open(self, folder, count):
        return ArrayRecordDataSource(folder, max_open_files=2)


class TestParts(TestOneFile):
    """Ranges and file instructions, two of them of one file."""

    def open(self, folder, count):
        path = str(folder / "x.array_record")
        middle = SimpleNamespace(filename=path, skip=10, take=20, examples_in_shard=count)
        rest = SimpleNamespace(filename=path, skip=60, take=-1, examples_in_shard=count)
        return ArrayRecordDataSource([f"{path}[0:10]", middle, f"{path}[30:60]", rest])


@pytest.fixture
def files(tmp_path):
    """A folder with the records 0 to 29 in the files a, b and c."""
    for name, start in (("b", 10), ("a", 0), ("c", 20)):
        write_file(tmp_path / f"{name}.array_record", map(record, range(start, start + 10)))
    return tmp_path


def keys_of(source):
    """The numbers in all records of a source."""
    return [int(bytes(found).split()[1]) for found in source]


def test_a_glob_and_a_directory_are_sorted_and_a_list_keeps_its_order(files):
    """Globs and directories give their files by name; a list, also of globs, gives them as it
    stands.
    """
    a, b, c = (str(files / f"{name}.array_record") for name in "abc")
    (files / "notes.txt").write_text("no records")
    (files / ".a.array_record").write_text("hidden")
    for paths in (
        files,
        str(files),
        f"{files}/*.array_record",
        f"{files}/**/*.array_record",
        [a, b, c],
    ):
        assert keys_of(ArrayRecordDataSource(paths)) == list(range(30))
    assert keys_of(ArrayRecordDataSource([c, pathlib.Path(a)])) == [*range(20, 30), *range(10)]
    assert keys_of(ArrayRecordDataSource((f"{files}/[bc].array_record", a))) == [
        *range(10, 30),
        *range(10),
    ]
    assert keys_of(ArrayRecordDataSource(os.fsencode(b))) == list(range(10, 20))


def test_a_range_is_half_open(files):
    """`path[start:end]` is the records start … end - 1 of one file."""
    assert keys_of(ArrayRecordDataSource(f"{files}/b.array_record[3:5]")) == [13, 14]
    assert keys_of(
        ArrayRecordDataSource([f"{files}/b.array_record[9:10]", f"{files}/a.array_record[0:0]"])
    ) == [19]


def test_a_range_may_leave_out_a_bound(files):
    """`path[start:]` goes to the file's end, `path[:end]` begins with its first record."""
    path = f"{files}/b.array_record"
    assert keys_of(ArrayRecordDataSource(f"{path}[7:]")) == [17, 18, 19]
    assert keys_of(ArrayRecordDataSource(f"{path}[:2]")) == [10, 11]
    assert keys_of(ArrayRecordDataSource(f"{path}[:]")) == list(range(10, 20))
    assert keys_of(ArrayRecordDataSource([f"{path}[8:]", f"{path}[:1]"])) == [18, 19, 10]


@pytest.mark.parametrize("bounds", ["[-3:]", "[:-1]", "[-3:-1]", "[0:10:2]", "[::2]", "[::-1]"])
def test_negative_bounds_and_steps_are_refused(files, bounds):
    """What Python's slices have besides is an error that says which ranges there are."""
    with pytest.raises(
        ValueError,
        match=rf"b\.array_record{re.escape(bounds)}: .*\[start:end\], \[start:\] or \[:end\]",
    ):
        ArrayRecordDataSource(f"{files}/b.array_record{bounds}")


def test_a_file_with_brackets_in_its_name_is_that_file(files):
    """A file that exists under the literal name is neither a pattern nor a range."""
    write_file(files / "x[0:2]", [record(5)])
    assert keys_of(ArrayRecordDataSource(files / "x[0:2]")) == [5]


def test_reader_options_go_over_ours(files):
    """`reader_options` reach the library's reader, which names the ones it knows when it refuses
    one.
    """
    assert keys_of(ArrayRecordDataSource(files, {"readahead_buffer_size": 1024})) == list(range(30))
    with pytest.raises(ValueError, match="no_such_option"):
        ArrayRecordDataSource(files / "a.array_record", {"no_such_option": 1})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (lambda good: b"", "the file is empty"),
        (lambda good: b"not records at all", "not an ArrayRecord file"),
        (lambda good: bytes(range(256)) * 1024, "not an ArrayRecord file"),
        (lambda good: good[: len(good) // 2], "is cut off"),
        (lambda good: good[:-1], "is cut off"),
    ],
)
def test_a_bad_file_is_an_error_at_construction(files, content, text):
    """Empty, foreign and truncated files are errors that name the file, when the source is made."""
    bad = files / "bad.array_record"
    bad.write_bytes(content((files / "a.array_record").read_bytes()))
    with pytest.raises(SourceError, match=rf"bad\.array_record.*{text}"):
        ArrayRecordDataSource(files)
    assert open_files(files) == []


@pytest.mark.parametrize(
    "name", ["nope.array_record", "*.nope", "nope.array_record[0:3]", "empty_folder"]
)
def test_nothing_found_is_an_error_that_names_what_was_given(files, name):
    """A path, glob or directory without files is a `SourceNotFoundError`, which is a
    `FileNotFoundError`.
    """
    (files / "empty_folder").mkdir()
    with pytest.raises(SourceNotFoundError, match=name.split("[")[0].replace("*", r"\*")):
        ArrayRecordDataSource(str(files / name))
    missing = SimpleNamespace(filename=str(files / "nope"), skip=0, take=3, examples_in_shard=3)
    with pytest.raises(FileNotFoundError, match="nope"):
        ArrayRecordDataSource(missing)


@pytest.mark.parametrize(
    ("paths", "error", "text"),
    [
        ("a.array_record[0:11]", SourceError, r"records \[0:11\], but the file has 10"),
        ("a.array_record[12:]", SourceError, r"records \[12:\], but the file has 10"),
        ("a.array_record[:11]", SourceError, r"records \[0:11\], but the file has 10"),
        ("a.array_record[5:2]", ValueError, "ends before it starts"),
        (
            "*.array_record[1:]",
            ValueError,
            r"needs a single file, but .*matches 3 files\. Name one file",
        ),
        (
            "*.array_record[0:2]",
            ValueError,
            r"needs a single file, but .*matches 3 files\. Name one file",
        ),
    ],
)
def test_a_range_that_the_file_has_not_is_an_error(files, paths, error, text):
    """A range beyond the file's end, a backward one, and one of several files are refused."""
    with pytest.raises(error, match=text):
        ArrayRecordDataSource(f"{files}/{paths}")


@pytest.mark.parametrize("paths", [3, None, [3], [None], [b"x", 1.5]])
def test_paths_must_be_paths(paths):
    """What is no path, nor a list of them, is a `TypeError` (or not found, when an earlier one is
    missing).
    """
    with pytest.raises((TypeError, SourceNotFoundError), match=r"path|no file"):
        ArrayRecordDataSource(paths)


def test_no_records_at_all_is_an_error(files):
    """A file without records is fine beside others; a source without records is not, nor an empty
    list.
    """
    write_file(files / "zero.array_record", [])
    assert len(ArrayRecordDataSource([files / "zero.array_record", files / "a.array_record"])) == 10
    with pytest.raises(SourceError, match="no records"):
        ArrayRecordDataSource(files / "zero.array_record")
    with pytest.raises(SourceError, match="no records"):
        ArrayRecordDataSource(f"{files}/a.array_record[4:4]")
    with pytest.raises(ValueError, match=r"empty\. Pass at"):
        ArrayRecordDataSource([])


def test_a_damaged_record_is_named_by_file_and_key(files):
    """A damaged part found while reading is an error with file and key; other records are still
    read.
    """
    write_file(files / "d.array_record", [os.urandom(1000) for _ in range(200)])
    path = files / "d.array_record"
    content = bytearray(path.read_bytes())
    content[len(content) // 4 : len(content) // 4 + 50] = bytes(50)
    path.write_bytes(bytes(content))
    source = ArrayRecordDataSource([files / "a.array_record", path])
    with pytest.raises(SourceError, match=r"d\.array_record: record key (\d+) ") as caught:
        source.__getitems__(range(len(source)))
    assert isinstance(caught.value.__cause__, RuntimeError)
    key = int(str(caught.value).split("record key ")[1].split()[0])
    assert f"(record {key - 10} of the file)" in str(caught.value)
    with pytest.raises(SourceError, match=f"record key {key} "):
        source[key]
    assert source[3] == record(3)
    assert len(source[10]) == 1000


def test_a_file_that_vanishes_is_an_error_when_it_is_read(files):
    """Files deleted after construction give an error that names the file."""
    source = ArrayRecordDataSource(files)
    (files / "b.array_record").unlink()
    assert source[0] == record(0)
    with pytest.raises(SourceNotFoundError, match=r"b\.array_record"):
        source[10]


def test_files_are_opened_when_they_are_read_and_no_more_than_the_limit(files):
    """Nothing is open before the first read; at most `max_open_files` stay open, the last used
    ones.
    """
    source = ArrayRecordDataSource(files, max_open_files=2)
    assert open_files(files) == []
    source.__getitems__(range(30))
    assert [pathlib.Path(path).name[0] for path in sorted(open_files(files))] == ["b", "c"]
    assert open_files(files) != []
    pickle.dumps(source)
    with source:
        assert source[5] == record(5)
    assert open_files(files) == []
    assert source[29] == record(29)


@pytest.mark.parametrize(
    ("value", "error"), [("8", TypeError), (1.5, TypeError), (0, ValueError), (-1, ValueError)]
)
def test_the_limit_of_open_files_is_a_positive_number(files, value, error):
    """Anything but a positive integer as `max_open_files` is an error that names the value."""
    with pytest.raises(error, match=f"max_open_files={value!r}"):
        ArrayRecordDataSource(files, max_open_files=value)


def test_the_default_limit_follows_the_process_limit():
    """The limit of open files is between 16 and 1024."""
    assert 16 <= open_file_limit() <= 1024


class Reader:
    """A reader that knows whether it was closed while in use."""

    opened = 0
    closed = 0

    def __init__(self, number):
        self.number = number
        self.users = 0
        self.alive = True
        Reader.opened += 1

    def close(self):
        assert self.alive
        assert not self.users
        self.alive = False
        Reader.closed += 1


@pytest.mark.slow
def test_a_reader_in_use_is_never_closed_under_its_user():
    """Eight threads over five files and two places: no reader is closed in use, and all are closed
    once.
    """
    Reader.opened = Reader.closed = 0
    pool = ReaderPool(Reader, 2)
    lock = threading.Lock()

    def use(seed):
        for number in np.random.default_rng(seed).integers(0, 5, 2000).tolist():
            with pool.lend(number) as reader:
                with lock:
                    reader.users += 1
                assert reader.alive
                assert reader.number == number
                with lock:
                    reader.users -= 1
            if number == 0:
                pool.close()
        return True

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(use, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert len(pool) <= 2
    pool.close()
    assert len(pool) == 0
    assert Reader.opened == Reader.closed > 5


def test_a_reader_lent_out_when_the_pool_closes_is_closed_afterwards():
    """`close()` waits for no one: a reader in use is closed when its user is done, a failed open
    leaves nothing.
    """
    pool = ReaderPool(Reader, 2)
    with pool.lend(1) as reader:
        pool.close()
        assert reader.alive
        with pool.lend(1) as other:
            assert other is not reader
    assert not reader.alive
    assert len(pool) == 1

    def fail(number):
        raise SourceError("cannot open")

    failing = ReaderPool(fail, 2)
    with pytest.raises(SourceError), failing.lend(0):
        pass
    assert len(failing) == 0


def test_sources_of_one_content_agree_with_the_library(files):
    """Batches of few and of many keys are what the library's own reader returns."""
    source = ArrayRecordDataSource(files / "a.array_record")
    reader = array_record_module.ArrayRecordReader(str(files / "a.array_record"))
    for size in (1, 2, 16, 17, 200):
        keys = np.random.default_rng(size).integers(0, 10, size)
        assert reader_of(source)(keys) == reader.read(keys.tolist())
    reader.close()
    assert COUNT > 10


def _page_of_records(path):
    """A file of several blocks of the format, so that a cut takes some of its records."""
    write_file(path, [os.urandom(100) for _ in range(1000)])
    return ArrayRecordDataSource(path)


def test_a_file_cut_off_while_it_is_open_is_an_error(tmp_path):
    """The library gives empty records there; few and many keys, and keys before the cut."""
    path = tmp_path / "x.array_record"
    source = _page_of_records(path)
    _ = source[0]
    os.truncate(path, os.path.getsize(path) // 2)
    for keys in ([999], list(range(0, 1000, 10)), [0]):
        with pytest.raises(
            SourceError, match=r"the file changed after the source was made \(262144 → .*bytes\)"
        ):
            source.__getitems__(keys)


def test_a_file_written_anew_while_it_is_open_is_an_error(tmp_path):
    """Records that are not compressed lie at the same places: no record of the new file comes."""
    path = tmp_path / "x.array_record"
    write_file(path, [b"old"] * 1000, "1,uncompressed")
    source = ArrayRecordDataSource(path)
    assert source[3] == b"old"
    write_file(path, [b"new"] * 1000, "1,uncompressed")
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        _ = source[3]


def test_empty_records_are_records(tmp_path):
    """In a file that nobody changed, or that was removed while it was open."""
    path = tmp_path / "x.array_record"
    write_file(path, [b"", b"a"] * 20)
    source = ArrayRecordDataSource(path)
    assert source.__getitems__([0, 1]) == [b"", b"a"]
    path.unlink()
    assert source.__getitems__(list(range(40))) == [b"", b"a"] * 20


def test_a_file_that_was_replaced_is_an_error_when_it_is_opened_again(tmp_path):
    """A worker, or a source that was closed, would read other records than before."""
    path = tmp_path / "x.array_record"
    source = _page_of_records(path)
    write_file(tmp_path / "y.array_record", [bytes(100)] * 1000)
    os.replace(tmp_path / "y.array_record", path)
    for reader in (source, pickle.loads(pickle.dumps(source))):
        with pytest.raises(SourceError, match="the file changed after the source was made"):
            _ = reader[3]


def test_the_fingerprint_tells_contents_of_one_size_apart(tmp_path):
    """The index of a file is part of it, so that other records of the same number and file size are
    another source.
    """
    prints = []
    for folder, lengths in (("a", (10, 90)), ("b", (90, 10))):
        (tmp_path / folder).mkdir()
        write_file(tmp_path / folder / "x.array_record", [b"x" * length for length in lengths])
        prints.append(fingerprint_of(ArrayRecordDataSource(tmp_path / folder)))
    assert prints[0]["files"] == prints[1]["files"]
    assert prints[0] != prints[1]


def test_a_name_that_is_not_utf8_is_an_error(tmp_path):
    """The library takes no such name; the error can be printed."""
    write_file(tmp_path / "x.array_record", [b"a"])
    os.rename(tmp_path / "x.array_record", os.fsencode(tmp_path) + b"/\xff.array_record")
    with pytest.raises(SourceError, match="is not UTF-8") as caught:
        ArrayRecordDataSource(tmp_path)
    str(caught.value).encode()


@pytest.mark.parametrize("kind", ["one", "mix"])
def test_a_mix_of_many_files_opens_what_one_source_of_them_does(kind, tmp_path):
    """Each file once, and as many threads."""
    paths = [tmp_path / f"{number}.array_record" for number in range(35)]
    for path in paths:
        write_file(path, map(record, range(4)))
    if kind == "one":
        source = ArrayRecordDataSource(paths)
        sampler = IndexSampler(len(source), shuffle=True, seed=0)
    else:
        source = {path.stem: ArrayRecordDataSource(path) for path in paths}
        sampler = MixSampler(source, shuffle=True, seed=0)
    before = threading.active_count()
    with iter(DataLoader(data_source=source, sampler=sampler, operations=[Batch(20)])) as batches:
        for _ in range(7):
            next(batches)
        assert len(open_files(tmp_path)) == 35
        # two that read, and one that watches for hangs
        assert threading.active_count() <= before + 3


def _length(content):
    return len(content)


def test_batches_of_records_alone_are_made_in_the_calling_thread_whatever_the_number_of_workers(
    tmp_path,
):
    """The library reads on all processors; stats say why there are no workers. With an operation
    there are.
    """
    write_file(tmp_path / "x.array_record", map(record, range(100)))
    source = ArrayRecordDataSource(tmp_path / "x.array_record")

    def run(worker_count, *operations):
        sampler = IndexSampler(100, shuffle=True, seed=1, num_epochs=1)
        loader = DataLoader(
            data_source=source,
            sampler=sampler,
            operations=[*operations, Batch(8)],
            worker_count=worker_count,
        )
        with iter(loader) as iterator:
            batches = [batch.tolist() for batch in iterator]
            return batches, iterator.stats()

    batches, stats = run(2)
    assert batches == run(0)[0]
    assert (stats.worker_count, stats.workers.started) == (0, 0)
    assert "ArrayRecordDataSource" in stats.decision
    assert stats.decision in str(stats)
    worked, stats = run(2, _length)
    assert worked == [list(map(len, batch)) for batch in batches]
    assert (stats.workers.started, stats.decision) == (2, "")


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_records_are_those_of_the_keys_however_many_are_read_one_by_one(
    tmp_path, monkeypatch, count, seconds
):
    """Few are read one by one unless that takes long; all others in one call, and in
    their order.
    """
    monkeypatch.setattr(files_module, "_CALL_SECONDS", seconds)
    write_file(tmp_path / "x.array_record", map(record, range(300)))
    keys = np.random.default_rng(0).integers(0, 300, count)
    source = ArrayRecordDataSource(tmp_path / "x.array_record")
    assert source.__getitems__(keys) == [record(key) for key in keys.tolist()]


class FarFile(LocalFile):
    """A local file that passes for one in a store; notes how many bytes are read of it."""

    def __init__(self, path):
        super().__init__(path)
        self.path, self.bytes_read = "https://host/x.array_record", 0

    def read(self, offset, length):
        self.bytes_read += length
        return super().read(offset, length)

    def read_many(self, offsets, lengths):
        return [*map(self.read, offsets, lengths)]


def test_the_records_of_a_file_in_a_store_are_counted_from_its_ends(tmp_path, monkeypatch):
    """Its middle, which may be large, is not fetched."""
    write_file(tmp_path / "x.array_record", [os.urandom(100_000)] * 60)
    far = FarFile(tmp_path / "x.array_record")
    monkeypatch.setattr(files_module, "open_file", lambda path, storage: far)
    monkeypatch.setattr(files_module, "local_copy", None)  # of the whole file
    assert files_module.inspected(far.path, "", ()).records == 60
    assert far.bytes_read < 5_000_000 < far.size
