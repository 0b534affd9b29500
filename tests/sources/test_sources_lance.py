"""Lance tables: versions, deletions, filters, columns, workers, and every way that a table can be
missing.
"""

import os
import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.source_conformance import COUNT, SourceConformance, assert_same

import headrace
from headrace.errors import LengthsError, NoRecordsError, SourceError, SourceNotFoundError
from headrace.sources import LanceSource, fingerprint_of


@pytest.fixture(scope="module", autouse=True)
def runtime(tmp_path_factory):
    """Lance's own event loop begins when it is first used, and lasts as long as the process."""
    lance.write_dataset(pa.table({"x": [1]}), tmp_path_factory.mktemp("runtime") / "x.lance").take(
        [0]
    )


def table(keys):
    """A table of one row per key, with columns of six kinds."""
    keys = np.asarray(keys, np.int64)
    return pa.table(
        {
            "key": keys,
            "image": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(keys, 3).astype(np.float32)), 3
            ),
            "text": [f"text {key}" for key in keys],
            "tokens": [[int(key)] * (key % 4) for key in keys],
            "maybe": pa.array([None if key % 3 == 0 else int(key) for key in keys], pa.int16()),
            "gaps": [[int(key), None] if key % 5 == 0 else [int(key)] for key in keys],
        }
    )


def record(key):
    """What comes for a key."""
    maybe = None if key % 3 == 0 else np.int16(key)
    image, tokens = np.full(3, key, np.float32), np.full(key % 4, key, np.int64)
    gaps = [key, None] if key % 5 == 0 else np.array([key])
    return {
        "key": np.int64(key),
        "image": image,
        "text": f"text {key}",
        "tokens": tokens,
        "maybe": maybe,
        "gaps": gaps,
    }


class TestTable(SourceConformance):
    """A table of several files. Moving one keeps its fingerprint."""

    on_files = True

    def write(self, folder, count):
        lance.write_dataset(table(range(count)), folder / "x.lance", max_rows_per_file=20)

    def open(self, folder, count):
        return LanceSource(folder / "x.lance")

    def expected_record(self, key):
        return record(key)

    @pytest.mark.filterwarnings("ignore:.*fork")
    def test_a_forked_child_reads_what_the_parent_reads(self, source, expected):
        """Lance does not work in a process forked from one that used it: headrace's workers are
        not, and say so elsewhere.
        """
        source[0]
        child = os.fork()
        if child == 0:
            told = False
            try:
                source[0]
            except SourceError as error:
                told = "forked from a process that had read the table" in str(error)
            finally:
                os._exit(0 if told else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_the_fingerprint_is_that_of_the_content(self, folder, source, tmp_path):
        """The same version has the same fingerprint; other rows, columns and filters
        have others.
        """
        uri = folder / "x.lance"
        prints = [fingerprint_of(self.open(folder, COUNT)), fingerprint_of(source)]
        assert prints[0] == prints[1]
        lance.dataset(uri).delete("key = 5")
        others = [
            LanceSource(uri),
            LanceSource(uri, ["key"]),
            LanceSource(uri, filter="key > 1"),
            source,
        ]
        assert len({fingerprint_of(other)["files"] for other in others}) == 4


class TestAfterDeletions(TestTable):
    """Rows that were deleted have no keys; those after them follow on."""

    def write(self, folder, count):
        doubled = table(np.repeat(np.arange(count), 2))
        marked = doubled.append_column("odd", pa.array(np.arange(2 * count) % 2))
        lance.write_dataset(marked, folder / "x.lance", max_rows_per_file=30).delete("odd = 1")

    def open(self, folder, count):
        return LanceSource(folder / "x.lance", ["key", "image", "text", "tokens", "maybe", "gaps"])


class TestFiltered(TestTable):
    """The rows that a filter lets through are the records."""

    def write(self, folder, count):
        lance.write_dataset(table(range(-count, count)), folder / "x.lance", max_rows_per_file=30)

    def open(self, folder, count):
        return LanceSource(folder / "x.lance", filter="key >= 0")


@pytest.fixture
def uri(tmp_path):
    """A table of fifty rows."""
    lance.write_dataset(table(range(50)), tmp_path / "x.lance")
    return tmp_path / "x.lance"


def test_a_source_keeps_its_version(uri):
    """What is added to a table later is not in a source, nor in one of that version or tag."""
    source = LanceSource(uri)
    lance.write_dataset(table(range(50, 60)), uri, mode="append")
    lance.dataset(uri).tags.create("first", 1)
    assert [
        len(each)
        for each in (source, LanceSource(uri, version=1), LanceSource(uri, version="first"))
    ] == [50] * 3
    assert len(LanceSource(uri)) == 60
    assert LanceSource(uri)[59]["key"] == 59


def test_lengths_come_from_a_column(uri):
    """Lists, texts and whole numbers have lengths, of the rows that the filter lets through."""
    source = LanceSource(uri, ["key"], filter="key < 6")
    assert headrace.lengths_of(source, "tokens").tolist() == [0, 1, 2, 3, 0, 1]
    assert headrace.lengths_of(source, "text").tolist() == [6] * 6
    assert headrace.lengths_of(source, "key").tolist() == list(range(6))
    with pytest.raises(
        LengthsError, match=r"no column of this name\. Name one of the columns: key"
    ):
        headrace.lengths_of(source, "weight")


def test_a_trace_names_the_table_and_the_row(uri):
    """The place of a record is its row in a version."""
    place = LanceSource(uri, filter="key >= 10").file_place(2)
    assert (place.file, place.record, place.note) == (str(uri), 12, "version 1")


def test_what_is_missing_is_told(uri, tmp_path):
    """A table, a version, a column, a row, or a condition that is not there is an error that names
    it.
    """
    with pytest.raises(SourceNotFoundError, match=r"nothing\.lance: there is no Lance table"):
        LanceSource(tmp_path / "nothing.lance")
    with pytest.raises(SourceNotFoundError, match="no Lance table with version 9"):
        LanceSource(uri, version=9)
    with pytest.raises(ValueError, match="no column 'weight'"):
        LanceSource(uri, ["weight"])
    with pytest.raises(ValueError, match="is empty"):
        LanceSource(uri, [])
    with pytest.raises(NoRecordsError, match="no row for which filter='key > 99' is true"):
        LanceSource(uri, filter="key > 99")
    for wrong in ("weight > 3", "key >"):
        with pytest.raises(SourceError, match="filter="):
            LanceSource(uri, filter=wrong)
    with pytest.raises(
        TypeError, match=r"Pass headrace\.LanceSource\(dataset\.uri, version=dataset\.version\)"
    ):
        headrace.sources.as_source(lance.dataset(uri))
    with pytest.raises(TypeError, match="LanceSource"):
        headrace.sources.as_source(str(uri))


def test_a_version_that_was_cleaned_up_is_told(uri):
    """A source whose files are gone says so where it is read."""
    source = LanceSource(uri)
    source.close()
    for file in (uri / "data").iterdir():
        file.unlink()
    with pytest.raises(
        SourceError, match=r"x\.lance: record key 3, or one that was read with it, cannot be read"
    ):
        source[3]


def test_without_the_library_the_remedy_is_told():
    """Where Lance is not installed, the error names the extra."""
    program = (
        "import sys; sys.modules['lance'] = None\nimport headrace\nheadrace.LanceSource('x.lance')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 'pip install "headrace[lance]"' in ended.stderr


def test_rows_of_a_million_are_read_by_number(tmp_path):
    """Reading scattered rows in any order, some twice, gives those of their keys."""
    keys = np.arange(100_000)
    lance.write_dataset(pa.table({"key": keys}), tmp_path / "x.lance", max_rows_per_file=30_000)
    source = LanceSource(tmp_path / "x.lance", filter="key % 3 = 1")
    wanted = np.random.default_rng(0).integers(0, len(source), 500)
    assert_same(
        [row["key"] for row in source.__getitems__(wanted)], list(keys[keys % 3 == 1][wanted])
    )
