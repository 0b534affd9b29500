"""Records in memory: sequences, arrays, trees of arrays, ranges; and the helpers that every source
goes through.
"""

import collections
import operator
import subprocess
import sys

import numpy as np
import pytest
from support.source_conformance import SourceConformance

import headrace.errors
from headrace.errors import RecordKeyError, SourceError
from headrace.sources import (
    DataSource,
    MemorySource,
    RangeDataSource,
    as_source,
    fingerprint_of,
    reader_of,
)


class TestList(SourceConformance):
    def open(self, folder, count):
        return MemorySource([self.expected_record(key) for key in range(count)])

    def expected_record(self, key):
        return {"text": f"record {key}", "value": key * 0.5}


class TestArray(SourceConformance):
    def open(self, folder, count):
        return MemorySource(np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3))

    def expected_record(self, key):
        return np.arange(key * 6, key * 6 + 6, dtype=np.float32).reshape(2, 3)


class TestDictOfArrays(SourceConformance):
    def open(self, folder, count):
        return MemorySource(
            {
                "label": np.arange(count),
                "image": np.repeat(np.arange(count), 4).reshape(count, 2, 2),
            }
        )

    def expected_record(self, key):
        return {"label": np.int64(key), "image": np.full((2, 2), key)}


class TestNestedTree(SourceConformance):
    def open(self, folder, count):
        keys = np.arange(count)
        return MemorySource(
            {"z": keys, "in": {"b": keys * 2.0, "a": (keys + 1, keys[:, None] + np.zeros(3, int))}}
        )

    def expected_record(self, key):
        inner = {"b": np.float64(key * 2.0), "a": (np.int64(key + 1), np.full(3, key))}
        return {"z": np.int64(key), "in": inner}


class TestRange(SourceConformance):
    def open(self, folder, count):
        return RangeDataSource(5, 5 - 3 * count, -3)

    def expected_record(self, key):
        return 5 - 3 * key


Point = collections.namedtuple("Point", "x y")


def test_columns_are_the_arrays_themselves():
    """A columnar source shows its arrays, not copied; a sequence has none."""
    image = np.zeros((3, 2))
    assert np.shares_memory(MemorySource(image).columns, image)
    assert np.shares_memory(MemorySource({"image": image}).columns["image"], image)
    assert np.shares_memory(MemorySource({"in": {"image": image}}).columns["in"]["image"], image)
    assert np.shares_memory(MemorySource({"in": Point(image, image)}).columns["in"].y, image)
    assert MemorySource([1, 2]).columns is None


def test_rows_are_read_only_views_and_the_users_array_stays_writable():
    """An operation cannot change the source in place, which would change the next epoch; the user
    still may.
    """
    image = np.zeros((3, 2))
    source = MemorySource({"image": image})
    for record in (source[1], source.__getitems__([1])[0]):
        assert np.shares_memory(record["image"], image)
        with pytest.raises(ValueError, match="read-only"):
            record["image"] += 1
    image += 1


def test_a_memory_mapped_array_is_read_where_it_lies(tmp_path):
    """A memory map is a columnar source and is not read into memory."""
    np.save(tmp_path / "x.npy", np.arange(10))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = as_source({"x": mapped})
    assert np.shares_memory(source.columns["x"], mapped)
    assert type(source.columns["x"]) is np.ndarray
    assert source[4]["x"] == 4


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ({"a": np.zeros(3), "b": np.zeros(2)}, ValueError, r"data\['a'\] has 3, data\['b'\] has 2"),
        ({"n": {"a": np.zeros(3)}, "b": np.zeros(2)}, ValueError, r"data\['n'\]\['a'\] has 3"),
        ({}, ValueError, "dict has no arrays"),
        ({"a": {}}, ValueError, "dict has no arrays"),
        ([], ValueError, "list is empty"),
        ((), ValueError, "tuple is empty"),
        (np.zeros((0, 3)), ValueError, "the array has 0 records"),
        ({"a": np.zeros((0, 3))}, ValueError, r"data\['a'\] has 0 records"),
        (np.array(3), TypeError, r"the array has no axis \(shape \(\)\)"),
        ({"a": np.array(3)}, TypeError, r"data\['a'\] has no axis"),
        (
            {"a": np.zeros(2), "b": [1, 2]},
            TypeError,
            r"data\['b'\]\[0\] is of type int, not a NumPy array",
        ),
        ({"a": None}, TypeError, r"data\['a'\] is of type NoneType"),
        ({"a": np.ma.masked_array([1, 2])}, TypeError, "masked array"),
        (collections.UserDict(a=np.zeros(2)), TypeError, "not UserDict"),
    ],
)
def test_data_that_makes_no_source_is_refused(data, error, text):
    """Unequal lengths, no records, leaves that are no arrays: an error that names the leaf and its
    length.
    """
    with pytest.raises(error, match=text):
        MemorySource(data)
    with pytest.raises(error, match=text):
        as_source(data)


@pytest.mark.parametrize(
    "data",
    [
        (np.zeros((10, 3)), np.arange(10)),
        (np.zeros((10, 3)), np.arange(10), np.ones(10)),
        Point(np.zeros(5), np.zeros(5)),
    ],
)
@pytest.mark.parametrize("make", [as_source, MemorySource])
def test_a_tuple_of_columns_is_refused(data, make):
    """`(X, y)` of equal length means columns, but a tuple holds records: the error names both ways
    to say it.
    """
    with pytest.raises(
        TypeError,
        match=(
            rf"tuple of {len(data)} arrays of length {len(data[0])}.*\{{\"x\": X, \"y\": y\}}.*list"
        ),
    ):
        make(data)


@pytest.mark.parametrize(
    "data",
    [
        [np.zeros((10, 3)), np.arange(10)],
        (np.zeros(10), np.arange(9)),
        (np.zeros(10),),
        (np.zeros(2), np.zeros(2)),
        (np.array(1), np.array(2)),
        (np.zeros(10), "text"),
    ],
)
def test_arrays_that_are_records_are_a_sequence(data):
    """A list of arrays, and a tuple of arrays that can be no columns, hold one record per item."""
    source = as_source(data)
    assert len(source) == len(data)
    assert source[0] is data[0]


@pytest.mark.parametrize(
    "arguments", [(0,), (3, 3), (3, 1), (0, 5, -1), (2**63 + 5,), (0, 2**64, 2**63), (1, 5, 0)]
)
def test_a_range_without_records_or_beyond_64_bits_is_refused(arguments):
    """An empty range, a step of 0 and numbers beyond 64 bits are errors when the source is made."""
    with pytest.raises(ValueError):
        RangeDataSource(*arguments)


def test_a_range_takes_the_arguments_of_range():
    """`RangeDataSource(stop)`, `(start, stop)` and `(start, stop, step)` are Python's ranges."""
    for arguments in [(5,), (2, 5), (2, 11, 3), (5, 0, -2), (-(2**63), 2**63 - 1, 2**62)]:
        source = RangeDataSource(*arguments)
        assert source.__getitems__(range(len(source))) == list(range(*arguments))
        assert all(type(record) is int for record in source)
    assert len(RangeDataSource(10, step=3)) == 4


def test_fingerprints_tell_layouts_apart():
    """Names, dtypes and shapes of the arrays are part of the fingerprint."""
    trees = [
        {"a": np.zeros(3)},
        {"b": np.zeros(3)},
        {"a": np.zeros(3, int)},
        {"a": np.zeros((3, 1))},
        np.zeros(3),
    ]
    prints = [str(fingerprint_of(as_source(tree))) for tree in trees]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("data", [(i for i in range(3)), {1, 2}, iter([1]), 5, None, object()])
def test_what_has_no_random_access_is_no_source(data):
    """A generator, a set, a number: the error names what is missing."""
    with pytest.raises(TypeError, match="needs __len__ and __getitem__"):
        as_source(data)


def test_a_path_is_no_source():
    """A string is not a sequence of characters: the error points to the sources that open files."""
    with pytest.raises(TypeError, match="ArrayRecordDataSource"):
        as_source("train.array_record")


class Squares:
    """A user's own source with the bare minimum."""

    def __len__(self):
        return 10

    def __getitem__(self, key):
        assert type(key) is int
        return key * key


class BatchedSquares(Squares):
    """A user's own source with batched reading, in the manner of PyTorch."""

    def __getitems__(self, keys):
        assert type(keys) is list
        assert all(type(key) is int for key in keys)
        return [key * key for key in keys]


class ShortSquares(Squares):
    def __getitems__(self, keys):
        return [key * key for key in keys][1:]


class LazySquares(Squares):
    def __getitems__(self, keys):
        return (key * key for key in keys)


class Walker:
    """A sequence whose iterator, a generator, runs one item ahead of what was consumed."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __iter__(self):
        yield from self.items


class WalkedSquares(Squares):
    def __getitems__(self, keys):
        return Walker([key * key for key in keys])


class NamedSquares(Squares):
    def fingerprint(self):
        return {"kind": "squares", "records": 10}


@pytest.mark.parametrize("kind", [Squares, BatchedSquares, LazySquares, WalkedSquares])
def test_a_users_own_source_gets_plain_python_keys(kind):
    """A source with `__len__` and `__getitem__` works as it is; its keys are Python ints, many of
    them a list.
    """
    source = as_source(kind())
    assert isinstance(source, DataSource)
    assert list(reader_of(source)(np.array([3, 1, 3]))) == [9, 1, 9]


def test_a_source_that_returns_too_few_records_is_reported():
    """When `__getitems__` returns another number of records than asked for, the error names both
    numbers.
    """
    with pytest.raises(
        SourceError, match=r"ShortSquares.__getitems__ returned 2 records for 3 keys"
    ):
        reader_of(ShortSquares())(np.array([3, 1, 3]))


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ({"x": [9, 1, 9], "y": [0, 0, 0]}, "dict"),
        (collections.UserDict(x=[9, 1, 9]), "UserDict"),
        ({9: None, 1: None, 4: None}, "dict"),
        (None, "NoneType"),
        (3, "int"),
        (np.array(3), "ndarray"),
    ],
)
def test_a_source_that_returns_no_sequence_of_records_is_reported(returned, text):
    """A dict of columns, or nothing at all, from `__getitems__` is an error that says what it must
    return.
    """

    class Odd(Squares):
        def __getitems__(self, keys):
            return returned

    with pytest.raises(
        SourceError,
        match=(
            rf"Odd\.__getitems__ returned an object of type {text} for 3 keys\. .* a sequence of "
            rf"records"
        ),
    ):
        reader_of(Odd())(np.array([3, 1, 3]))


@pytest.mark.parametrize("kind", [BatchedSquares, LazySquares, WalkedSquares])
def test_what_a_reader_returns_is_walked_exactly(kind):
    """The records are a list, a tuple or an array: their iterator tells how many were not yet
    consumed.
    """
    records = reader_of(kind())(np.array([3, 1, 3]))
    assert type(records) in (list, tuple, np.ndarray)
    walk = iter(records)
    next(walk)
    assert operator.length_hint(walk) == 2


class Tens:
    """A user's own source that wraps a list, and with it its negative indices."""

    def __init__(self):
        self.items = list(range(0, 100, 10))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, key):
        return self.items[key]


class BatchedTens(Tens):
    def __getitems__(self, keys):
        return [self.items[key] for key in keys]


@pytest.mark.parametrize("kind", [Tens, BatchedTens])
@pytest.mark.parametrize("key", [-1, -10, 10, 2**62])
def test_a_users_own_source_is_asked_for_no_key_outside(kind, key):
    """A key outside `[0, len(source))` never reaches a user's source, where -1 would be the last
    record.
    """
    read = reader_of(kind())
    with pytest.raises(
        RecordKeyError,
        match=rf"{kind.__name__}: record key {key} is out of range\. The source has 10",
    ):
        read(np.array([0, key, 3]))
    assert list(read(np.array([0, 9]))) == [0, 90]


def test_our_own_sources_check_their_keys_once(monkeypatch):
    """`reader_of` leaves the check to a source that does it itself."""
    monkeypatch.setattr("headrace.sources.protocol.check_keys", None)
    assert list(reader_of(as_source([5, 6]))(np.array([1]))) == [6]


def test_a_users_fingerprint_goes_before_kind_and_length():
    """The fingerprint is the source's own; without one it is the class's name and the length."""
    assert fingerprint_of(NamedSquares()) == {"kind": "squares", "records": 10}
    assert fingerprint_of(Squares()) == {"kind": "Squares", "records": 10}


def test_a_fingerprint_that_is_no_dict_is_refused():
    """A fingerprint must be a dict."""

    class Odd(Squares):
        fingerprint = "odd"

    with pytest.raises(TypeError, match="must be a dict"):
        fingerprint_of(Odd())


def test_importing_sources_imports_no_file_library():
    """`import headrace.sources` imports none of jax, tensorflow, pyarrow, array_record,
    tensorflow_datasets.
    """
    heavy = ["jax", "tensorflow", "pyarrow", "array_record", "tensorflow_datasets", "grain"]
    code = f"import sys, headrace.sources; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("source", "module", "extra"),
    [
        ("ArrayRecordDataSource('x')", "array_record", "array-record"),
        ("ParquetDataSource('x')", "pyarrow", "parquet"),
        ("TfdsDataSource('x', 'train')", "tensorflow_datasets", "tfds"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(source, module, extra):
    """Without its library, a source says what to install; the module is made unimportable in a
    fresh process.
    """
    code = f"""
import sys
sys.modules[{module!r}] = None
from headrace.sources import *
try:
    {source}
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout.startswith(headrace.errors.MissingExtraError.__name__)
    assert f'pip install "headrace[{extra}]"' in done.stdout


def test_facts_of_another_type_are_an_error():
    """An attribute `facts` that is something else is refused, with the type that it must have."""

    class Odd(Tens):
        facts = ("reads_ahead", 4)

    with pytest.raises(
        TypeError, match=r"Odd\.facts is a tuple\. .*make it a headrace\.SourceFacts"
    ):
        reader_of(Odd())


def test_an_error_in_facts_is_not_hidden():
    """A property `facts` that fails is not taken for a source without facts."""

    class Wrong(Tens):
        @property
        def facts(self):
            return self.nothing

    with pytest.raises(AttributeError, match="nothing"):
        reader_of(Wrong())


def test_keys_of_signed_and_unsigned_kinds_together_are_keys():
    """NumPy joins them as floats; those that are too large are named all the same."""
    assert list(headrace.Subset(range(10), [np.uint64(3), np.int64(1)])) == [3, 1]
    for wrong, named in (
        ([np.uint64(30), np.int64(1)], 30),
        ([np.uint64(3), np.int64(-1)], -1),
        ([2**70, 1], 2**70),
    ):
        with pytest.raises(RecordKeyError, match=f"record key {named} is out of range"):
            headrace.Subset(range(10), wrong)
