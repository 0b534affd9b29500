"""Lengths of records are known before any is read, and costs follow from them."""

from __future__ import annotations

import io
import json
import tarfile
from typing import NamedTuple

import numpy as np
import pytest

import headrace
from headrace.common.costs import as_lengths, costs_of, length_of_field
from headrace.errors import LengthsError
from headrace.sources.lengths import lengths_of


class Bare:
    """A user's source without any optional member."""

    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, key):
        return self.records[key]


class Pair(NamedTuple):
    x: list
    y: int


ARRAYS = [np.zeros(3), np.zeros(0), np.zeros(5)]


def test_lengths_are_those_that_the_source_tells():
    """As int64, read-only, one for each record."""
    found = lengths_of(headrace.MemorySource(ARRAYS))
    assert found.tolist() == [3, 0, 5]
    assert found.dtype == np.int64
    assert not found.flags.writeable
    assert lengths_of(ARRAYS).tolist() == [3, 0, 5]
    assert lengths_of([{"x": one, "id": 1} for one in ARRAYS]).tolist() == [3, 0, 5]


def test_lengths_may_be_an_array():
    """Of any whole numbers; no source needs to know any."""
    for given in ([1, 2, 3], np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3], np.uint8)):
        assert lengths_of(Bare("abc"), given).tolist() == [1, 2, 3]


def test_lengths_by_name_are_those_of_a_field():
    """Of an array, a list or a text its length; a number is the length itself."""
    records = [
        {"x": one, "ids": [1] * 4, "n": 7, "text": "äb", "in": {"n": key}}
        for key, one in enumerate(ARRAYS)
    ]
    assert lengths_of(records, "x").tolist() == [3, 0, 5]
    assert lengths_of(records, "ids").tolist() == [4] * 3
    assert lengths_of(records, "n").tolist() == [7] * 3
    assert lengths_of(records, "text").tolist() == [3] * 3
    assert lengths_of(records, "in/n").tolist() == [0, 1, 2]
    columns = {"x": np.zeros((3, 6)), "n": np.array([4, 0, 9])}
    assert lengths_of(columns, "x").tolist() == [6] * 3
    assert lengths_of(columns, "n").tolist() == [4, 0, 9]
    assert lengths_of([Pair([1, 2], 9)], "x").tolist() == [2]


def test_columns_of_objects_have_the_lengths_of_what_is_in_them():
    """Arrays of unequal length, lists and texts, as `np.load` and pandas give them."""
    ragged = np.empty(3, object)
    ragged[:] = ARRAYS
    assert lengths_of({"x": ragged, "id": np.arange(3)}).tolist() == [3, 0, 5]
    assert lengths_of(ragged).tolist() == [3, 0, 5]
    assert lengths_of({"x": ragged}, "x").tolist() == [3, 0, 5]
    assert lengths_of({"text": np.array(["a", "äb", ""])}, "text").tolist() == [1, 3, 0]
    assert lengths_of(
        {"in": {"text": np.array(["a", None, "bc"], object)}}, "in/text"
    ).tolist() == [1, 0, 2]


def test_lengths_may_be_a_function_of_a_record():
    """It is called for each, in the order of keys."""
    assert lengths_of(Bare(["a", "abc"]), len).tolist() == [1, 3]
    assert lengths_of(Bare(["a"] * 2500), len).tolist() == [1] * 2500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"Bare does not know the lengths of its records\. Pass lengths="),
        (
            "x",
            r"lengths='x': Bare does not know lengths of this name\. It knows no lengths by name\. Pass an array",
        ),
        (
            [1, 2, 3],
            r"array has shape \(3,\), but there are 2 records\. Pass one length for each record, shape \(2,\)",
        ),
        ([1, -2], r"record 1 has length -2, but lengths are whole numbers in \[0, 2\^62\)"),
        ([1, np.nan], "record 1 has length nan"),
        ([1, np.inf], "record 1 has length inf"),
        ([1.5, 1], "record 0 has length 1.5"),
        (lambda record: -1, "record 0 has length -1"),
        (lambda record: np.nan, "record 0 has length nan"),
        (lambda record: None, "record 0 has length None"),
    ],
)
def test_lengths_that_cannot_be_are_refused(given, message):
    """With the value, the limit and the remedy."""
    with pytest.raises(LengthsError, match=message) as caught:
        lengths_of(Bare(["a", "b"]), given)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "given", [["a", "b"], {"x": [1, 2]}, True, b"ab", [True, False], [[1], [2, 3]]]
)
def test_what_is_no_length_at_all_is_refused(given):
    """By its kind."""
    with pytest.raises(TypeError, match="Pass an array"):
        lengths_of(Bare(["a", "b"]), given)


def test_several_arrays_of_a_record_must_be_chosen_from():
    """The message names them."""
    with pytest.raises(
        LengthsError,
        match=r"lengths of 2 arrays of a record: x, y\. Choose one of them, such as lengths='x'",
    ):
        lengths_of([{"x": np.zeros(2), "y": np.zeros(3)}])
    with pytest.raises(
        LengthsError, match=r"record 1 has no field 'x': it has y\. Name a field that all records"
    ):
        lengths_of([{"x": 1}, {"y": 2}], "x")
    with pytest.raises(LengthsError, match="record 0 has no field 'x': it is an int"):
        length_of_field(3, "x", record=0)
    assert length_of_field({"x": None}, "x", record=0) == 0


def test_no_records_have_no_lengths():
    """An empty array is a right answer."""
    assert lengths_of(Bare([]), []).shape == (0,)
    assert lengths_of(Bare([]), len).shape == (0,)
    assert not lengths_of(Bare([[7]]), len).flags.writeable
    assert costs_of(as_lengths([], 0)).shape == (0,)


def test_a_list_of_unequal_lists_has_the_length_of_the_outer_one():
    """As it does in an array of objects."""
    assert length_of_field({"ids": [[1, 2], [3]]}, "ids", 0) == 2
    assert length_of_field({"ids": ([1, 2], [])}, "ids", 0) == 2


@pytest.mark.parametrize(
    ("record", "name", "text"),
    [
        ({"a": {"b": 1}}, "a", "the value in record 7 is a dict, which has no length"),
        ({"a": {"b": 1}}, "a/c", "record 7 has no field 'a/c': its field 'a' has b"),
        ({"a": 5}, "a/c", "record 7 has no field 'a/c': its field 'a' is an int"),
        ({}, "a", "record 7 has no field 'a': it has no fields"),
    ],
)
def test_the_message_names_the_field_that_lacks_something(record, name, text):
    """In nested dicts, it is not the record."""
    with pytest.raises(LengthsError, match=text):
        length_of_field(record, name, 7)


@pytest.mark.parametrize("given", [[2**70], [[1], [1, 2]], ["3"], [True], None])
def test_lengths_that_are_no_array_of_numbers_are_refused(given):
    """Also numbers of more than 64 bits."""
    with pytest.raises(
        TypeError, match=r"cannot be read as an array of integers or floats\. Pass an array"
    ):
        as_lengths(given, 1)


def test_costs_are_a_function_of_lengths():
    """By default the length; attention costs its square, too."""
    lengths = as_lengths([0, 1, 10], 3)
    assert costs_of(lengths).tolist() == [0, 1, 10]
    assert costs_of(lengths, headrace.attention(2, 0.5)).tolist() == [0, 2.5, 70]
    assert costs_of(lengths, np.sqrt)[1] == 1
    assert costs_of(np.array([1 << 61]), headrace.attention(1, 1))[0] > 1e36


@pytest.mark.parametrize(
    ("cost", "error", "message"),
    [
        (3, TypeError, r"cost=3 is an int\. Pass a function that takes an array of lengths"),
        (lambda lengths: "x", TypeError, "It must return one number for each"),
        (lambda lengths: 1.0, LengthsError, r"an array of shape \(\) for lengths of shape \(2,\)"),
        (
            lambda lengths: lengths * np.nan,
            LengthsError,
            r"nan for the length 1\. It must return finite",
        ),
        (lambda lengths: -lengths, LengthsError, r"-1\.0 for the length 1"),
    ],
)
def test_costs_that_cannot_be_are_refused(cost, error, message):
    """With the first length that has one."""
    with pytest.raises(error, match=message):
        costs_of(np.array([1, 2]), cost)


@pytest.mark.parametrize(
    ("numbers", "error"),
    [
        ((-1, 1), ValueError),
        ((0, 0), ValueError),
        ((np.nan, 1), ValueError),
        ((10**400, 1), ValueError),
        ((np.float32(np.inf), 1), ValueError),
        (("1", 1), TypeError),
    ],
)
def test_attention_takes_two_numbers(numbers, error):
    """Neither negative, not both 0."""
    with pytest.raises(error, match=r"attention: .*Pass a"):
        headrace.attention(*numbers)


@pytest.mark.parametrize("kind", [int, float, np.int8, np.float16, np.float32, np.float64])
def test_attention_takes_numbers_of_any_kind(kind):
    """Also small ones of NumPy, without a warning."""
    assert headrace.attention(kind(2), kind(1)) == headrace.attention(2, 1)


TEXTS = ["", "a", "äbc", "x" * 3000, *["y" * (number % 17) for number in range(2000)]]


def _json_lines(folder, texts=TEXTS):
    half = len(texts) // 2
    for number, some in enumerate((texts[:half], texts[half:])):
        lines = [
            json.dumps({"text": text, "n": len(text), "in": {"ids": [1] * len(text)}})
            for text in some
        ]
        (folder / f"{number}.jsonl").write_text("\n\n".join(lines) + "\n")
    return headrace.JsonLinesDataSource(str(folder))


def test_lines_of_json_are_measured_once_and_the_lengths_are_kept(tmp_path, monkeypatch):
    """Beside each file, as its index is; a file that was changed is measured anew."""
    source = _json_lines(tmp_path)
    expected = [len(text.encode()) for text in TEXTS]
    assert lengths_of(source, "text").tolist() == expected
    assert lengths_of(source, "n").tolist() == [len(text) for text in TEXTS]
    assert lengths_of(source, "in/ids").tolist() == [len(text) for text in TEXTS]
    assert len(list(tmp_path.glob("*.headrace-index"))) == 2 * 4
    with monkeypatch.context() as patched:
        patched.setattr(headrace.JsonLinesDataSource, "_read", None)
        assert lengths_of(headrace.JsonLinesDataSource(str(tmp_path)), "text").tolist() == expected
    other = [text[1:] for text in TEXTS]
    assert lengths_of(_json_lines(tmp_path, other), "text").tolist() == [
        len(text.encode()) for text in other
    ]
    assert lengths_of(source, np.array(expected)).tolist() == expected


def test_sizes_in_files_are_known_from_the_index(tmp_path):
    """Without reading a record."""
    source = _json_lines(tmp_path)
    lines = [
        line
        for number in range(2)
        for line in (tmp_path / f"{number}.jsonl").read_bytes().split(b"\n")
        if line
    ]
    assert lengths_of(source, "bytes").tolist() == list(map(len, lines))


def test_a_pass_that_is_broken_off_leaves_nothing(tmp_path):
    """A line without the field, or an interrupt: the next one begins anew."""
    source = _json_lines(tmp_path)
    before = sorted(tmp_path.iterdir())

    def broken(*arguments):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(headrace.JsonLinesDataSource, "_fields", broken)
        with pytest.raises(KeyboardInterrupt):
            lengths_of(source, "text")
    with pytest.raises(LengthsError, match="record 0 has no field 'title': it has text, n, in"):
        lengths_of(source, "title")
    assert sorted(tmp_path.iterdir()) == before
    assert len(lengths_of(source, "text")) == len(TEXTS)


def test_kept_lengths_that_were_damaged_are_made_anew(tmp_path):
    """Their digest tells."""
    source = _json_lines(tmp_path)
    expected = lengths_of(source, "n").tolist()
    kept = list(tmp_path.glob("*.jsonl.*.headrace-index"))
    for path in kept:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    assert len(kept) == 2
    assert lengths_of(headrace.JsonLinesDataSource(str(tmp_path)), "n").tolist() == expected


def test_records_of_tfrecord_files_are_measured(tmp_path):
    """Features of an Example, whether the source decodes them or not, and sizes in the file."""
    pytest.importorskip("google_crc32c")
    from headrace.formats.tfrecord import framed

    records = [
        headrace.encode_example({"x": np.arange(n), "t": b"a" * (n + 1)}) for n in range(1, 30)
    ]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(framed, records)))
    for options in ({}, {"decode": True}):
        source = headrace.TFRecordDataSource(str(tmp_path / "a.tfrecord"), **options)
        assert lengths_of(source, "x").tolist() == list(range(1, 30))
        assert lengths_of(source, "t").tolist() == list(range(2, 31))
        assert lengths_of(source, "bytes").tolist() == list(map(len, records))


def test_members_of_tar_files_are_measured_by_the_index(tmp_path):
    """A sample without the member is named."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(5):
            for extension, size in {
                "txt": number,
                "cls": 1,
                **({"odd": 2} if number < 3 else {}),
            }.items():
                info = tarfile.TarInfo(f"{number}.{extension}")
                info.size = size
                tar.addfile(info, io.BytesIO(b"x" * size))
    source = headrace.TarDataSource(str(tmp_path / "a.tar"))
    assert lengths_of(source, "txt").tolist() == [0, 1, 2, 3, 4]
    assert lengths_of(source, "cls").tolist() == [1] * 5
    with pytest.raises(
        LengthsError,
        match=r"record 3 has no member with the extension 'odd'\. Name .* have txt, cls, odd",
    ):
        lengths_of(source, "odd")
    with pytest.raises(LengthsError, match="record 0 has no member with the extension 'png'"):
        lengths_of(source, "png")


COLUMNS = {
    "ids": [[1, 2], [], None, [3]],
    "pair": [[1, 2], [3, 4], [7, 8], [5, 6]],
    "text": ["ab", "", None, "ä"],
    "raw": [b"abc", b"", None, b"x"],
    "n": [7, 0, None, 3],
    "x": [0.5, 1.0, 2.0, 3.0],
    "meta": [
        {"ids": [1], "in": {"n": 4}},
        {"ids": None, "in": None},
        None,
        {"ids": [5, 6], "in": {"n": 9}},
    ],
    "kind": ["ab", "c", None, "ab"],
}
LENGTHS = {
    "ids": [2, 0, 0, 1],
    "pair": [2, 2, 2, 2],
    "text": [2, 0, 0, 2],
    "raw": [3, 0, 0, 1],
    "n": [7, 0, 0, 3],
    "meta/ids": [1, 0, 0, 2],
    "meta/in/n": [4, 0, 0, 9],
    "kind": [2, 1, 0, 2],
}


def _table():
    pa = pytest.importorskip("pyarrow")
    kinds = {
        "ids": pa.list_(pa.int64()),
        "pair": pa.list_(pa.int32(), 2),
        "n": pa.int32(),
        "kind": pa.dictionary(pa.int8(), pa.string()),
    }
    return pa.table({name: pa.array(values, kinds.get(name)) for name, values in COLUMNS.items()})


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_any_column_of_parquet_files_has_lengths(tmp_path, columns):
    """By offsets, over row groups and files; they are kept beside the files."""
    table = _table()
    from pyarrow import parquet

    for number in range(2):
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=3)
    source = headrace.ParquetDataSource(str(tmp_path), columns=columns)
    for name, expected in LENGTHS.items():
        assert lengths_of(source, name).tolist() == expected * 2
    assert len(list(tmp_path.glob("*.headrace-index"))) == 2 * len(LENGTHS)
    assert len(headrace.ParquetDataSource(str(tmp_path))) == 8
    with pytest.raises(LengthsError, match="type double, have no length"):
        lengths_of(source, "x")
    for name in ("y", "y/ids", "ids/n", "meta/y"):
        with pytest.raises(
            LengthsError,
            match=rf"lengths='{name}'.* no (column of this name|field '\w+')\. (Name|Its)",
        ):
            lengths_of(source, name)


def test_columns_of_hugging_face_datasets_have_lengths():
    """From the table, also of a dataset that was shuffled; without the length of any
    other source.
    """
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset(_table())
    for rows, keys in ((dataset, [0, 1, 2, 3]), (dataset.select([3, 0, 0]), [3, 0, 0])):
        for name, expected in LENGTHS.items():
            assert lengths_of(rows, name).tolist() == [expected[key] for key in keys]
    with pytest.raises(LengthsError, match="no column of this name"):
        lengths_of(dataset, "y")


def test_a_mix_has_the_lengths_of_its_parts_by_key():
    """Of each record; 0 for keys of no record."""
    mixed = headrace.MixedSource({"a": [np.zeros(3), np.zeros(4)], "b": [np.zeros(9)]})
    assert lengths_of(mixed).tolist() == [3, 9, 4]
    assert lengths_of(mixed, len).tolist() == [3, 9, 4]
    with pytest.raises(
        LengthsError, match=r"shape \(4,\), but the source is a mix of a \(2 records\), b \(1"
    ):
        lengths_of(mixed, [3, 4, 9, 0])
    other = headrace.MixedSource([[{"n": 2}], [{"n": 5}, {"n": 6}]])
    assert lengths_of(other, "n").tolist() == [2, 5, 0, 6]


def test_chains_pass_lengths_on_where_indices_are_arithmetic():
    """Shuffles, slices, repeats, mixes and concatenations of datasets whose source tells them; a
    map does not.
    """
    arrays = [np.zeros(length) for length in (3, 1, 4, 1, 5)]
    dataset = headrace.MapDataset.source(arrays)
    made = {
        "shuffle": dataset.shuffle(seed=1),
        "slice": dataset[1:4:2],
        "repeat": dataset.shuffle(seed=1).repeat(2),
        "concatenate": headrace.MapDataset.concatenate([dataset, dataset[:2]]),
        "mix": headrace.MapDataset.mix([dataset, dataset.shuffle(seed=2)], [0.3, 0.7]),
    }
    for chain in made.values():
        assert lengths_of(chain).tolist() == [len(element) for element in chain]
    for chain in (dataset.map(np.sqrt), dataset.repeat()):
        with pytest.raises(LengthsError, match="does not know the lengths"):
            lengths_of(chain)
