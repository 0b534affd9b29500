"""Values that a conversion would change, or has no place for. In: small files. Out: errors that
name them.
"""

from __future__ import annotations

import datetime
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.conversions import convert, read

import headrace
from headrace.conversion.outputs.arrow_values import holds
from headrace.conversion.outputs.encoding import as_example, as_json
from headrace.conversion.outputs.parquet import ParquetOutput
from headrace.errors import ConversionError, SourceError, StopIterationError, WorkerCrashedError
from headrace.formats.example import decode_example


def _lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


DAY = datetime.datetime(2026, 1, 2, 3)
CHANGED = [
    (1, 2.5),
    (None, 2.5),
    ([1], [1, 2.5]),
    ({"x": 1}, {"x": 1, "y": 2}),
    ([{"x": 1}], [{"x": 1}, {"y": 2}]),
    ({"x": {"z": 1}}, {"x": {"z": 1.5}}),
    ({"x": 1}, {"x": float("nan")}),
    (1, "one"),
]


@pytest.mark.parametrize(("first", "later"), CHANGED)
def test_a_value_that_its_column_would_change_is_an_error(first, later):
    """Arrow makes 2 of 2.5, and leaves out names that a struct has not; beside others of their kind
    too.
    """
    output = ParquetOutput(pa.schema({"a": pa.array([first]).type}), {})
    assert output.encode([{"a": first}, {"a": None}, {}]).num_rows == 3
    for rows in ([later], [first, later], [None, later, first]):
        with pytest.raises(
            ConversionError,
            match=(
                r"column 'a' has type.*in the first records, but a later record has.*Pass "
                r"transform="
            ),
        ):
            output.encode([{"a": value} for value in rows])


def test_a_time_is_no_day():
    """Arrow leaves its hours out."""
    with pytest.raises(ConversionError, match="column 'a'"):
        ParquetOutput(pa.schema({"a": pa.date32()}), {}).encode([{"a": DAY}])


def test_what_arrow_makes_of_values_is_compared_one_by_one():
    """Texts of another class, and times with microseconds: equal to themselves only, and None to
    None only.
    """

    class Name(str):
        pass

    texts = pa.array(["a", "b", None])
    assert holds(texts, [Name("a"), Name("b"), None])
    assert not any(
        holds(texts, [Name("a"), *others])
        for others in ((Name("c"), None), (Name("b"), "c"), (b"b", None))
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    for value in (moment, moment.time(), moment - DAY):
        assert holds(pa.array([value, None]), [value, None])
        assert not holds(pa.array([value, value]), [value, None])


def test_values_that_stay_the_same_in_another_type_are_taken():
    """Whole numbers for numbers, and the types of Arrow that Python has not."""
    same = [
        (pa.int64(), 2.0, 2),
        (pa.float64(), 2, 2.0),
        (pa.int16(), np.int64(5), 5),
        (pa.large_string(), "x", "x"),
        (pa.map_(pa.string(), pa.int64()), [("x", 1)], [("x", 1)]),
        (pa.list_(pa.float32(), 2), [1, 2], [1.0, 2.0]),
        (pa.timestamp("ns"), DAY, DAY),
        (pa.struct([("x", pa.int64()), ("y", pa.int64())]), {"y": 1}, {"x": None, "y": 1}),
    ]
    for kind, value, expected in same:
        table = ParquetOutput(pa.schema({"a": kind}), {}).encode([{"a": value}, {"a": None}])
        assert table["a"].to_pylist() == [expected, None], kind


def test_a_value_of_another_type_after_the_first_records_is_named(tmp_path):
    """By file and offset; with "skip" it is counted, and all others are there."""
    _lines(
        tmp_path / "a.jsonl",
        *[{"a": 1, "b": {"x": 1}}] * 1000,
        {"a": 2.5},
        {"b": {"x": 1, "y": 2}},
        {"a": 7},
    )
    with pytest.raises(
        ConversionError,
        match=r"byte .*column 'a' has type int64 in the first records, but a later record has 2\.5",
    ):
        convert(tmp_path / "a.jsonl", tmp_path / "out", "parquet")
    made = convert(tmp_path / "a.jsonl", tmp_path / "out", "parquet", on_error="skip")
    assert (made.records, made.shards[0].left_out) == (1001, 2)
    assert headrace.ParquetDataSource(tmp_path / "out")[1000]["a"] == 7


def test_a_column_of_other_parquet_files_has_the_type_of_the_first(tmp_path):
    """Fractions of a second file are no whole numbers."""
    for name, value in (("a", 1), ("b", 2.5)):
        pq.write_table(pa.table({"x": [value]}), tmp_path / f"{name}.parquet")
    with pytest.raises(ConversionError, match="record 0: column 'x' has type int64"):
        convert(tmp_path / "*.parquet", tmp_path / "out", "parquet", shards=1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, r"have no columns\. Pass transform="),
        ({"a": {}}, "gives this column another type, or leaves it out"),
        ({"a": 2**64}, "one type"),
    ],
)
def test_rows_that_parquet_cannot_hold_are_refused(row, message, tmp_path):
    """Rows without columns would be none."""
    with pytest.raises(ConversionError, match=message):
        convert(_lines(tmp_path / "a.jsonl", row, row), tmp_path / "out", "parquet")
    assert not (tmp_path / "out").exists()


def test_damage_among_the_first_records_is_named_by_its_place(tmp_path):
    """Where the columns are looked for, too; an error of the user's own function is
    noted with it.
    """
    with pytest.raises(ZeroDivisionError) as caught:
        convert(
            _lines(tmp_path / "a.jsonl", 1, 0),
            tmp_path / "out",
            "parquet",
            transform=lambda x: {"x": 1 / x},
        )
    assert caught.value.__notes__ == [f"at {tmp_path}/a.jsonl, byte 2"]


def test_integers_that_an_example_cannot_hold_are_refused(tmp_path):
    """They came back as negative ones."""
    rows = [{"x": np.uint64(2**63 - 1)}, {"x": np.array([1, 2**63], np.uint64)}]
    with pytest.raises(ConversionError, match=r"record 1: feature 'x'.*integers of int64"):
        convert(rows, tmp_path / "out")
    convert(rows[:1], tmp_path / "out")
    assert decode_example(read(tmp_path / "out")[0])["x"] == [2**63 - 1]


def test_half_a_surrogate_pair_stays_in_json(tmp_path):
    """UTF-8 has no such characters, JSON has; a `tf.train.Example` is told."""
    assert as_json({"x": "ü 🌍"}) == '{"x":"ü 🌍"}'.encode()
    row = {"x": "ü \ud83d"}
    convert(_lines(tmp_path / "a.jsonl", row), tmp_path / "out")
    assert json.loads(read(tmp_path / "out")[0]) == row
    with pytest.raises(
        ConversionError, match=r'byte 0: .*surrogates not allowed.* pass encode="json"'
    ):
        convert(tmp_path / "a.jsonl", tmp_path / "two", encode="example")


def test_a_row_of_csv_that_is_not_in_utf8_is_left_out_alone(tmp_path):
    """All others are there, and the error names its line."""
    (tmp_path / "a.csv").write_bytes(
        b"n,text\n" + b"1,caf\xc3\xa9\n" * 700 + b"2,caf\xe9\n" + b"3,x\n"
    )
    with pytest.raises(SourceError, match="line 702: the line must be in UTF-8"):
        convert(tmp_path / "a.csv", tmp_path / "out", "parquet")
    made = convert(tmp_path / "a.csv", tmp_path / "out", "parquet", on_error="skip")
    assert (made.records, made.shards[0].left_out) == (701, 1)
    (tmp_path / "b.csv").write_bytes("né\n1\n".encode("utf-16"))
    with pytest.raises(SourceError, match=r"b\.csv, line 1 is not in UTF-8"):
        convert(tmp_path / "b.csv", tmp_path / "two", "parquet", on_error="skip")


def test_text_of_csv_is_no_number_and_may_be_long(tmp_path):
    """`12_34` is a number for Python alone; a document may have more than the 128 KiB that its csv
    module allows.
    """
    (tmp_path / "a.csv").write_text(f"id,digits,text\n12_34,\u0661,{'x' * 200_000}\n")
    convert(tmp_path / "a.csv", tmp_path / "out", "parquet")
    assert headrace.ParquetDataSource(tmp_path / "out")[0] == {
        "id": "12_34",
        "digits": "\u0661",
        "text": "x" * 200_000,
    }


def test_documents_of_lists_are_no_tokens(tmp_path):
    """Neither those of one length, nor those of several."""
    for document in ([[1], [2]], [[1], [2, 3]]):
        with pytest.raises(
            ConversionError, match=r"byte 0: a document is a list .*, not a list of whole numbers"
        ):
            convert(_lines(tmp_path / "a.jsonl", {"tokens": document}), tmp_path / "out", "tokens")


def test_an_image_of_pillow_is_no_example():
    """As `datasets` gives them: it would be a list of numbers without a shape."""
    image = pytest.importorskip("PIL.Image").new("RGB", (4, 4))
    with pytest.raises(
        ConversionError,
        match=(
            r"'image' is an array with several axes, but tf\.train\.Example does not store shapes"
        ),
    ):
        as_example({"image": image})


@pytest.mark.parametrize(
    "values", [[1, None], ["a", "b"], [np.arange(2), np.arange(3)], []], ids=str
)
def test_arrays_of_objects_are_no_npy_files(values):
    """It says so, and what to do."""
    record = np.empty(len(values), object)
    record[:] = values
    words = (
        r"a record is an array of Python objects \(array\(.*which .npy files do not store\. Pass "
        r"transform=.*encode="
    )
    with pytest.raises(ConversionError, match=words) as caught:
        as_example(record)
    assert len(str(caught.value)) < 500


WITHIN_ITSELF: list[object] = []
WITHIN_ITSELF.append(WITHIN_ITSELF)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            {"x": {(1, 2): 3}},
            r"a dict \(\{'x': \{\(1, 2\): 3\}\}\) cannot .* keys must be str, .* not tuple\. Pass transform=",
        ),
        (
            WITHIN_ITSELF,
            r"a list .* cannot be written as JSON: Circular reference detected\. Pass transform=.*encode=",
        ),
        ({"a": {1}}, r"a set \(\{1\}\) cannot be written as JSON\. Pass encode="),
    ],
    ids=["key", "itself", "set"],
)
def test_what_json_does_not_have_is_an_error(record, words):
    """It names the value and the remedy."""
    with pytest.raises(ConversionError, match=words) as caught:
        as_json(record)
    assert len(str(caught.value)) < 500


TEXTS = [
    object,
    np.str_,
    np.bytes_,
    *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else []),
]


@pytest.mark.parametrize("dtype", TEXTS, ids=str)
def test_arrays_of_texts_are_features_as_lists_are(dtype):
    """So are arrays of objects that are all numbers."""
    texts = ["a", "bc", "d"]
    assert as_example({"x": np.array(texts, dtype)}) == as_example({"x": texts})
    assert as_example({"x": np.array([1, 300], object)}) == as_example({"x": [1, 300]})
    assert decode_example(as_example({"x": np.array(texts, dtype)}))["x"] == [b"a", b"bc", b"d"]


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, None], object),
        [np.arange(2), np.arange(3)],
        np.array(["a", 1], object),
        np.array([1j]),
    ],
    ids=str,
)
def test_values_that_are_no_features_are_an_error(value):
    """With its name, the value and what to do."""
    with pytest.raises(
        ConversionError,
        match=r"feature 'x'=.* cannot be stored\. Pass .*of these kinds\. Or pass encode=",
    ):
        as_example({"x": value})


def test_names_of_columns_are_strings(tmp_path):
    """Those of features, too."""
    with pytest.raises(ConversionError, match=r"column name 1 is not a string\. Pass transform="):
        convert([{1: 2}], tmp_path / "out", "parquet")
    with pytest.raises(ConversionError, match="record 0: the feature name 1"):
        convert([{1: 2}], tmp_path / "out")


@pytest.mark.parametrize("to", ["array_record", "parquet"])
def test_stop_iteration_of_the_users_is_told_as_such(to, tmp_path):
    """With the record; it became `RuntimeError: generator raised StopIteration`."""
    with pytest.raises(
        StopIterationError,
        match=(
            r"record 0: transform= or encode= raised StopIteration\. In your function, pass a "
            r"default"
        ),
    ):
        convert([1], tmp_path / "out", to, transform=lambda record: next(iter(())))


def test_stop_iteration_of_a_source_is_told_with_the_record(tmp_path):
    """It became `RuntimeError: generator raised StopIteration`."""

    class Ends:
        def __len__(self):
            return 100

        def __getitem__(self, key):
            return next(iter(())) if key == 50 else b"a"

    with pytest.raises(
        StopIterationError,
        match=r"record 50: the source raised StopIteration\. In its __getitem__ or",
    ):
        convert(Ends(), tmp_path / "out")


def test_a_worker_that_ends_is_told_with_its_shard(tmp_path):
    """By the name of the file that it made."""
    with pytest.raises(
        WorkerCrashedError, match=r"exit code 3 while it wrote out-00000-of-00001\.array_record"
    ):
        convert([1], tmp_path / "out", transform=lambda record: os._exit(3), workers=1)
