"""Datasets of Hugging Face, made here: what `datasets.Dataset` gives, read from its table."""

import datetime
import decimal
import itertools
import pickle
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.source_conformance import SourceConformance, assert_same

import headrace
from headrace.errors import RecordKeyError
from headrace.sources import HuggingFaceDataSource, MixedSource, as_source, fingerprint_of
from headrace.sources.arrow.pieces import Finder, PieceRows

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # What datasets and what it imports say at import is not ours.
    import datasets

datasets.disable_progress_bars()


def in_chunks(columns, features=None, rows=10):
    """A dataset in memory whose table has many chunks, as those that are written to disk have."""
    table = pa.Table.from_pydict(columns, None if features is None else features.arrow_schema)
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=rows))
    return datasets.Dataset(datasets.table.InMemoryTable(chunked), fingerprint="made here")


def numbers(count):
    """Columns of a number and of text."""
    return {"x": list(range(count)), "text": [f"row {key} ü" for key in range(count)]}


class TestOnDisk(SourceConformance):
    """A dataset that was saved and is mapped into memory, given to a loader as it is."""

    on_files = True

    def write(self, folder, count):
        in_chunks(numbers(count)).save_to_disk(folder / "saved", num_shards=2)

    def open(self, folder, count):
        return HuggingFaceDataSource(datasets.load_from_disk(str(folder / "saved")))

    def expected_record(self, key):
        return {"x": key, "text": f"row {key} ü"}


class TestOfNumPy(SourceConformance):
    """Shuffled, in memory, with NumPy's format."""

    def open(self, folder, count):
        order = list(reversed(range(count)))
        return HuggingFaceDataSource(in_chunks(numbers(count)).select(order).with_format("numpy"))

    def expected_record(self, key):
        return {"x": np.int64(96 - key), "text": f"row {96 - key} ü"}

    def test_the_fingerprint_is_that_of_the_content(self):
        """It is the one that the dataset keeps."""
        rows = in_chunks(numbers(5))
        assert fingerprint_of(as_source(rows)) == {
            "kind": "Dataset",
            "records": 5,
            "content": rows._fingerprint,
        }


value = datasets.Value
KINDS = {
    "bool": (value("bool"), lambda key: key % 2 == 0),
    "int8": (value("int8"), lambda key: key % 100 - 50),
    "uint64": (value("uint64"), lambda key: key),
    "float32": (value("float32"), lambda key: key / 8),
    "float16": (value("float16"), lambda key: np.float16(key / 8)),
    "date": (value("date32"), lambda key: datetime.date(2026, 1, 1) + datetime.timedelta(days=key)),
    "span": (value("duration[ms]"), lambda key: datetime.timedelta(milliseconds=key)),
    "price": (value("decimal128(9, 2)"), lambda key: decimal.Decimal(key) / 4),
    "maybe": (value("int32"), lambda key: None if key % 3 == 0 else key),
    "text": (value("string"), lambda key: None if key % 5 == 0 else f"é{key}" * (key % 4)),
    "large": (value("large_string"), str),
    "bytes": (value("binary"), lambda key: bytes([key]) * (key % 3)),
    "day": (
        value("timestamp[us]"),
        lambda key: datetime.datetime(2026, 1, 1) + datetime.timedelta(days=key),
    ),
    "class": (datasets.ClassLabel(names=["no", "yes"]), lambda key: key % 2),
    "tokens": (datasets.List(value("int32")), lambda key: list(range(key % 4))),
    "some tokens": (
        datasets.LargeList(value("int32")),
        lambda key: None if key % 4 == 1 else [key] * (key % 3),
    ),
    "holes": (datasets.List(value("int64")), lambda key: [key, None]),
    "pair": (datasets.List(value("uint8"), length=2), lambda key: [key, key + 1]),
    "words": (datasets.List(value("string")), lambda key: [str(key), "x"]),
    "nested": (
        {"a": value("int64"), "b": {"c": datasets.List(value("int16"))}},
        lambda key: {"a": key, "b": {"c": [key] * (key % 3)}},
    ),
    "matrix": (datasets.Array2D((2, 3), "uint8"), lambda key: [[key, 1, 2], [3, 4, 5]]),
    "lists": (datasets.List(datasets.List(value("int32"))), lambda key: [[key] * (key % 3)]),
    "empty": (datasets.List(value("int32")), lambda key: []),
    "nothing": (value("null"), lambda key: None),
}
"""Columns of all kinds: the feature, and the value of each row."""


def every_kind(count=37):
    """A dataset with all of them."""
    columns = {name: [make(key) for key in range(count)] for name, (_, make) in KINDS.items()}
    return datasets.Dataset.from_dict(
        columns, datasets.Features({name: kind for name, (kind, _) in KINDS.items()})
    )


def rechunked(dataset, rows=8):
    """The same with chunks of so many rows, and a piece cut off at both ends, so that chunks are
    slices.
    """
    table = pa.Table.from_batches(dataset.data.table.to_batches(max_chunksize=rows)).slice(3, 30)
    return datasets.Dataset(datasets.table.InMemoryTable(table), dataset.info)


@pytest.mark.parametrize("column", list(KINDS))
@pytest.mark.one_in(2)
def test_python_values_are_what_datasets_gives(column):
    """Of every kind of column, in chunks, with and without selected rows: the same values of the
    same types.
    """
    rows = rechunked(every_kind()).select_columns([column])
    for dataset in (
        rows,
        rows.shuffle(seed=0),
        rows.select(range(5, 25)),
        datasets.concatenate_datasets([rows, rows]),
    ):
        source = as_source(dataset)
        keys = np.random.default_rng(0).integers(0, len(dataset), 50)
        assert_same(list(source.__getitems__(keys)), [dataset[int(key)] for key in keys])
        assert_same(source[3], dataset[3])


def test_numpy_values_keep_the_dtype_that_is_stored():
    """With NumPy's format numbers, and lists of numbers, are of the dtype of the column; nulls are
    None.
    """
    row = as_source(rechunked(every_kind()).with_format("numpy"))[0]  # row 3 of the whole
    expected = {
        "bool": np.bool_(False),
        "int8": np.int8(-47),
        "uint64": np.uint64(3),
        "float32": np.float32(0.375),
        "float16": np.float16(0.375),
        "date": np.datetime64("2026-01-04"),
        "span": np.timedelta64(3, "ms"),
        "price": decimal.Decimal("0.75"),
        "maybe": None,
        "text": "é3é3é3",
        "large": "3",
        "bytes": b"",
        "day": np.datetime64("2026-01-04", "us"),
        "class": np.int64(1),
        "tokens": np.arange(3, dtype=np.int32),
        "some tokens": np.empty(0, np.int32),
        "holes": [3, None],
        "pair": np.array([3, 4], np.uint8),
        "words": ["3", "x"],
        "nested": {"a": 3, "b": {"c": []}},
        "matrix": np.array([[3, 1, 2], [3, 4, 5]], np.uint8),
        "lists": [[]],
        "empty": np.empty(0, np.int32),
        "nothing": None,
    }
    assert_same(row, expected)


def test_numpy_lists_are_arrays_unless_they_have_a_null_themselves():
    """Other lists of the column, of any kind, do not matter."""
    for kind in (datasets.List(value("int32")), datasets.List(value("int32"), length=2)):
        rows = [[1, 2], None, [3, None], [4, 5]]
        dataset = datasets.Dataset.from_dict({"x": rows}, datasets.Features({"x": kind}))
        found = as_source(dataset.with_format("numpy")).__getitems__([0, 1, 2, 3])
        assert_same(
            [row["x"] for row in found],
            [np.array([1, 2], np.int32), None, [3, None], np.array([4, 5], np.int32)],
        )


def batches(dataset, **options):
    """A loader of two shuffled epochs."""
    source = as_source(dataset)
    sampler = headrace.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=2)
    return headrace.DataLoader(data_source=dataset, sampler=sampler, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", [None, "numpy"])
@pytest.mark.parametrize(
    "names",
    [
        ["bool", "int8", "float32", "class"],
        ["uint64"],
        ["pair", "matrix"],
        ["large"],
        ["bytes", "int8", "large"],
    ],
)
def test_batches_of_columns_are_those_of_rows(form, names):
    """A plain Batch gives the same arrays of the same dtypes as one that stacks the rows."""
    rows = rechunked(every_kind()).select_columns(names).with_format(form)
    if form is None and "pair" in names:
        assert as_source(rows).columns is None  # lists are no arrays
        return
    whole = batches(rows, operations=[headrace.Batch(7)])
    one_by_one = batches(rows, operations=[lambda row: row, headrace.Batch(7)])
    for left, right in zip(whole, one_by_one, strict=True):
        assert_same(left, right)


def test_numbers_and_texts_without_nulls_are_columns():
    """They are, with any number of chunks and with rows selected; a null makes rows of them."""
    rows = rechunked(every_kind())
    assert list(as_source(rows.select_columns(["int8", "class"]).shuffle(seed=0)).columns) == [
        "int8",
        "class",
    ]
    assert list(as_source(rows.select_columns(["int8", "large"])).columns) == ["int8", "large"]
    assert as_source(rows.select_columns(["maybe"])).columns is None
    assert as_source(rows.select_columns(["int8", "text"])).columns is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", ["whole", "subset", "mix", "filter"])
def test_batches_with_texts_are_those_of_rows_wherever_they_are_made(shape, worker_count):
    """Also where parts are chosen or mixed, batches are short at the end, and operations follow."""
    rows = rechunked(every_kind()).select_columns(["large", "int8", "bytes"]).shuffle(seed=2)
    source = {
        "whole": rows,
        "filter": rows,
        "subset": headrace.Subset(rows, np.arange(20)),
        "mix": {"a": rows, "b": rows.select(range(10))},
    }[shape]
    if shape == "mix":
        sampler = headrace.MixSampler(source, [1, 1])
    else:
        sampler = headrace.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=1)
    after = [headrace.Filter(_all_of_it)] if shape == "filter" else []

    def first_batches(before, worker_count):
        operations = [*before, headrace.Batch(8), *after]
        loader = headrace.DataLoader(
            data_source=source, sampler=sampler, operations=operations, worker_count=worker_count
        )
        with iter(loader) as iterator:
            return list(itertools.islice(iterator, 5))

    found, expected = first_batches([], worker_count), first_batches([_same], 0)
    assert len(found) >= 3
    for left, right in zip(found, expected, strict=True):
        assert_same(left, right)


def _same(row):
    return row


def _all_of_it(batch):
    return len(batch["large"]) > 0


def test_batches_before_a_text_that_cannot_be_read_come():
    """The error names the record, as where rows are read."""
    texts = [f"text {key}".encode() for key in range(100)]
    texts[50] = b"\xff\xfe"
    damaged = pa.Array.from_buffers(pa.string(), 100, pa.array(texts).buffers())
    dataset = datasets.Dataset(datasets.table.InMemoryTable(pa.table({"text": damaged})))
    found = []
    loader = headrace.DataLoader(
        data_source=dataset, sampler=headrace.IndexSampler(100), operations=[headrace.Batch(8)]
    )
    with pytest.raises(headrace.errors.SourceError, match="damaged") as caught:
        for batch in loader:
            found += batch["text"].tolist()
    assert found == [f"text {key}" for key in range(48)]
    assert "record key 50" in str(caught.value.__notes__)


def test_columns_of_several_datasets_are_mixed():
    """A mix of datasets of the same numbers is taken column by column, too."""
    parts = {
        name: in_chunks({"x": [start, start + 1, start + 2]}, rows=2)
        for name, start in (("a", 0), ("b", 10))
    }
    assert MixedSource(parts).columns is not None
    loader = headrace.DataLoader(
        data_source=parts,
        sampler=headrace.MixSampler(parts, [1, 1]),
        operations=[headrace.Batch(4)],
    )
    assert sorted(next(iter(loader))["x"].tolist()) == [0, 1, 10, 11]


@pytest.mark.parametrize(
    "other", [np.array(["x", "y"], object), np.array(["x", "y"])], ids=["objects", "texts"]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_texts_are_mixed_with_arrays_of_texts_in_any_order(other, is_first):
    """Such parts have no columns together: their batches are made of records."""
    parts = {"array": {"t": other}, "rows": in_chunks({"t": ["a", "b"]})}
    parts = parts if is_first else dict(reversed(parts.items()))
    loader = headrace.DataLoader(
        data_source=parts, sampler=headrace.MixSampler(parts), operations=[headrace.Batch(4)]
    )
    assert sorted(next(iter(loader))["t"].tolist()) == ["a", "b", "x", "y"]


def test_arrays_outlive_source_and_dataset(tmp_path):
    """A view of a list that lies in a file is whole after all else is gone."""
    in_chunks({"tokens": [[key] * 3 for key in range(50)]}).save_to_disk(tmp_path / "saved")
    source = as_source(datasets.load_from_disk(str(tmp_path / "saved")).with_format("numpy"))
    row = source[49]["tokens"]
    del source
    assert row.tolist() == [49, 49, 49]
    assert not row.flags.writeable


def test_lengths_are_known_without_reading():
    """Those of lists and of arrays of one shape, with NumPy's format; so packing is planned from
    them.
    """
    rows = rechunked(every_kind()).select_columns(["tokens", "pair", "text"])
    source = as_source(rows.shuffle(seed=1).with_format("numpy"))
    found = [source[key] for key in range(30)]
    assert source.lengths["tokens"].tolist() == [len(row["tokens"]) for row in found]
    assert source.lengths["pair"].tolist() == [2] * 30
    assert list(source.lengths) == ["tokens", "pair"]
    assert as_source(rows).lengths is None


def test_images_are_bytes_or_decoded():
    """Image(decode=False) gives the bytes that are stored; decoded images are those of datasets."""
    image = {"bytes": b"\x89PNG", "path": None}
    features = datasets.Features(
        {"image": datasets.Image(decode=False), "label": datasets.Value("int64")}
    )
    rows = datasets.Dataset.from_dict({"image": [image] * 3, "label": [0, 1, 2]}, features)
    assert as_source(rows)[1] == {"image": image, "label": 1}
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    features = datasets.Features({"image": datasets.Image()})
    decoded = datasets.Dataset.from_dict({"image": [pixels] * 3}, features)
    assert np.array_equal(np.asarray(as_source(decoded)[2]["image"]), pixels)
    assert np.array_equal(as_source(decoded.with_format("numpy"))[2]["image"], pixels)


def test_other_formats_are_those_of_datasets():
    """A transform, a dtype and columns that stand beside the format are as `datasets`
    gives them.
    """
    rows = in_chunks(numbers(30))
    upper = rows.with_transform(lambda batch: {"text": [text.upper() for text in batch["text"]]})
    assert as_source(upper)[29] == {"text": "ROW 29 Ü"}
    halves = as_source(rows.with_format("numpy", columns=["x"], dtype=np.float16))
    assert_same(next(iter(halves.__getitems__([7]))), {"x": np.float16(7)})
    beside = as_source(rows.with_format("numpy", columns=["x"], output_all_columns=True))
    assert beside[7] == {"x": 7, "text": "row 7 ü"}
    assert as_source(rows.with_format("numpy", columns=["text"]))[7] == {"text": "row 7 ü"}


@pytest.mark.parametrize("form", ["arrow", "pandas"])
def test_a_format_without_rows_is_refused(form):
    """Tables of pyarrow and pandas are an error that names the formats to use."""
    with pytest.raises(
        TypeError, match=r'gives tables, not rows\. Pass dataset\.with_format\("numpy"\)'
    ):
        as_source(in_chunks(numbers(3)).with_format(form))


def test_what_is_no_dataset_is_refused():
    """A list is an error here; a stream, and dicts of streams, say what to load instead."""
    with pytest.raises(TypeError, match=r"takes a datasets.Dataset, not a list"):
        HuggingFaceDataSource([1])
    stream = in_chunks(numbers(3)).to_iterable_dataset()
    for wrong in (stream, datasets.IterableDatasetDict({"train": stream})):
        with pytest.raises(TypeError, match="streaming=True"):
            as_source(wrong)
    with pytest.raises(TypeError, match=r"Pass one of them, data\['train'\]"):
        as_source(datasets.DatasetDict({"train": in_chunks(numbers(3))}))


def test_subclasses_read_by_themselves():
    """A subclass of Dataset may have a `__getitem__` of its own: it is a use headrace.load."""

    class Mine(datasets.Dataset):
        pass

    mine = Mine(in_chunks(numbers(3)).data)
    assert as_source(mine) is mine


def test_indices_outside_of_the_table_are_an_error():
    """Indices that do not fit the table are never read from memory."""
    rows = in_chunks(numbers(3))
    rows._indices = datasets.table.InMemoryTable.from_pydict(
        {"indices": pa.array([0, 7], pa.uint64())}
    )
    with pytest.raises(RecordKeyError, match=r"record key 7 is out of range\. The source has 3"):
        as_source(rows)[1]


def test_runs_resume_exactly(tmp_path):
    """Rows from files and from memory, filtered and in columns, go on byte for byte."""
    in_chunks(numbers(40)).save_to_disk(tmp_path / "saved")
    rows = datasets.load_from_disk(str(tmp_path / "saved")).shuffle(seed=3)
    odd = [headrace.Filter(lambda row: row["x"] % 2 == 1), headrace.Batch(4)]
    headrace.check_resume(batches(rows, operations=odd), steps=3, worker_counts=[0])
    whole = batches(rows.select_columns(["x"]), operations=[headrace.Batch(4)])
    headrace.check_resume(whole, steps=3, worker_counts=[0])


@pytest.mark.slow
def test_workers_are_forked_from_one_process_that_has_the_dataset():
    """They give the batches of the calling thread, and none of them had to import `datasets`
    itself.
    """

    def with_start(row):
        started_as = Path("/proc/self/cmdline").read_text().split("\0")
        return {"x": row["x"], "forked": "zygote" in started_as}

    rows = in_chunks(numbers(40)).shuffle(seed=3)
    found = list(batches(rows, operations=[with_start, headrace.Batch(8)], worker_count=1))
    alone = list(batches(rows, operations=[lambda row: row, headrace.Batch(8)]))
    assert [batch["x"].tolist() for batch in found] == [batch["x"].tolist() for batch in alone]
    assert all(batch["forked"].all() for batch in found)


def test_a_pickled_dataset_on_disk_is_the_names_of_its_files(tmp_path):
    """However many rows it has, and after they were read."""
    in_chunks({"x": list(range(50_000))}, rows=1000).save_to_disk(tmp_path / "saved")
    source = as_source(datasets.load_from_disk(str(tmp_path / "saved")))
    assert source[49_999] == {"x": 49_999}
    assert len(pickle.dumps(source)) < 4000


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (1,)])
def test_rows_in_pieces_are_those_of_one_array(shift, shape):
    """Pieces that lie anywhere, in any order, some empty, some not aligned, are read as if they
    stood together.
    """
    pieces = []
    for length in (4, 0, 1, 7):
        # each allocated for itself
        whole = np.zeros(length * 8 * int(np.prod(shape)) + shift, np.uint8)
        piece = whole[shift:].view(np.int64).reshape(length, *shape)
        piece[...] = np.arange(piece.size).reshape(piece.shape) + 100 * length
        pieces.append(piece)
    together = np.concatenate(pieces)
    keys = np.random.default_rng(0).integers(0, len(together), 40)
    places = Finder([len(piece) for piece in pieces]).places(keys)
    rows = PieceRows(pieces)
    assert_same(rows.take(places), together[keys])
    out = np.empty((40, *shape), np.float64)
    rows.take_into(places, out)
    assert np.array_equal(out, together[keys])
