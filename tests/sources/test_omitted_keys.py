"""Records to leave out are named by keys, by files of keys, or by a function of file and row:
always the same set.
"""

import gzip
import json
import pathlib

import numpy as np
import pytest

import headrace
from headrace.errors import RecordKeyError, SourceError, SourceNotFoundError
from headrace.sources.omission.keys import keys_to_omit

ROWS = (4, 0, 7, 1)
"""Records of each file."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same records in files of several formats, each with an empty one."""
    folder = tmp_path_factory.mktemp("formats")
    records = [[{"x": 10 * file + row} for row in range(count)] for file, count in enumerate(ROWS)]
    for file, some in enumerate(records):
        lines = "".join(f"{json.dumps(record)}\n" for record in some)
        (folder / f"{file}.jsonl").write_text(lines)
    headrace.convert(
        str(folder / "[023].jsonl"),
        folder / "parquet",
        "parquet",
        workers=0,
        progress=False,
        options={"row_group_size": 3},
    )
    headrace.convert(
        str(folder / "[023].jsonl"), folder / "array_record", workers=0, progress=False
    )
    documents = folder / "tokens"
    documents.mkdir()
    for file, some in enumerate(records):
        with headrace.TokenWriter(
            documents / f"{file}.npy", dtype=np.int32, may_be_empty=True
        ) as writer:
            writer.extend([[record["x"]] for record in some])
    return {
        "json lines": headrace.JsonLinesDataSource(folder),
        "parquet": headrace.ParquetDataSource(folder / "parquet"),
        "array record": headrace.ArrayRecordDataSource(folder / "array_record"),
        "tokens": headrace.TokenSource(documents),
        "subset": headrace.Subset(headrace.JsonLinesDataSource(folder), range(12)),
    }


PREDICATES = {
    "arrays": lambda file, row: (row > 2) & (row < 6),
    "a chained comparison": lambda file, row: 2 < row < 6,
    "the file alone": lambda file, row: pathlib.Path(file).name.startswith("2"),
    "a set of rows": lambda file, row: row in {0, 5},
    "a list of rows": lambda file, row: row in [0, 5],
    "a set of pairs": lambda file, row: (pathlib.Path(file).stem, row) in {("2", 6), ("3", 0)},
    "text of a row": lambda file, row: f"{pathlib.Path(file).stem}:{row}" in {"0:3", "2:1"},
    "digits of a row": lambda file, row: str(row).endswith("1"),
    "an int made of a row": lambda file, row: int(row) == 6,
    "nothing": lambda file, row: False,
}


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("name", ["json lines", "parquet", "array record", "tokens", "subset"])
def test_a_predicate_picks_the_rows_that_it_is_true_of(sources, name, predicate):
    """Whatever it does with many rows at once: held against one row at a time."""
    told = PREDICATES[predicate]
    places = [(f"{file}.x", row) for file, count in enumerate(ROWS) for row in range(count)]
    expected = [key for key, (file, row) in enumerate(places) if told(file, row)]
    assert keys_to_omit(sources[name], told).tolist() == expected


def test_a_predicate_that_takes_arrays_is_called_once_for_each_file(sources):
    """Of a format whose files are read as one part."""
    asked = []
    assert (
        len(
            keys_to_omit(
                sources["json lines"], lambda file, row: asked.append(np.size(row)) or row < 0
            )
        )
        == 0
    )
    assert asked == [4, 7, 1]


def test_a_record_made_of_several_is_left_out_with_any_of_them(tmp_path):
    """Rows of a packed dataset are made of several documents each."""
    (tmp_path / "a.jsonl").write_text("".join(f"[{row}]\n" for row in range(6)))
    source = headrace.JsonLinesDataSource(tmp_path)
    packed = headrace.MapDataset.source(source).pack(2, lengths=np.ones(6, int))
    assert [
        keys_to_omit(packed, lambda file, row, which=which: row == which).tolist()
        for which in range(6)
    ] == [
        [key for key in range(3) if which in [used.key for used in packed.made_of(key)]]
        for which in range(6)
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("keys.txt", b"# of last week\n7\n\n 2 \r\n7\n"),
        ("keys.txt", b"\xef\xbb\xbf7\r\n2\r\n"),
        ("keys.txt.gz", gzip.compress(b"7\n2\n", mtime=0)),
        ("keys.jsonl", b'7\n{"key": 2, "why": "asked for"}\n'),
    ],
)
def test_files_of_keys_are_read(tmp_path, name, content):
    """Text with a key a line, packed or not, and JSON lines; a key may come twice."""
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, str(tmp_path / name)):
        assert keys_to_omit(range(10), path).tolist() == [2, 7]


@pytest.mark.parametrize(
    "keys", [[7, 2, 7], (2, 7), {2, 7}, np.array([7, 2], np.uint8), range(2, 8, 5), iter([7, 2])]
)
def test_keys_come_in_any_form(keys):
    """Duplicates and any order are fine."""
    assert keys_to_omit(range(10), keys).tolist() == [2, 7]


def test_keys_in_npy_files_have_any_integer_type(tmp_path):
    """They are checked as others are."""
    np.save(tmp_path / "keys.npy", np.array([7, 2, 7], np.uint32))
    assert keys_to_omit(range(10), tmp_path / "keys.npy").tolist() == [2, 7]
    with pytest.raises(
        RecordKeyError, match=r"record key 7 is out of range\. The source has 5 records"
    ):
        keys_to_omit(range(5), tmp_path / "keys.npy")
    np.save(tmp_path / "keys.npy", np.array([1.5]))
    with pytest.raises(
        TypeError, match=r"must be integers, but are float64\. Pass an array of record keys"
    ):
        keys_to_omit(range(5), tmp_path / "keys.npy")


@pytest.mark.parametrize(
    ("omit", "error", "told"),
    [
        (
            [10],
            RecordKeyError,
            r"omit: record key 10 is out of range\. The source has 10 records: pass a key from 0 to 9\.$",
        ),
        ([-1], RecordKeyError, "record key -1 is out of range"),
        ([1 << 70], RecordKeyError, "out of range"),
        (
            [1.5],
            TypeError,
            r"a record key must be an integer, not float \(1\.5\)\. Pass an array of record keys",
        ),
        ([True], TypeError, "must be an integer, not bool"),
        ([[1]], TypeError, "must have one"),
        (3, TypeError, r"omit=3 is an int\. Pass an array of record keys"),
        ({"web": [1]}, TypeError, r"is a dict\. Pass an array of record keys"),
        ("nowhere.txt", SourceNotFoundError, "nowhere.txt"),
        (
            lambda file, row: True,
            SourceError,
            r"range does not state in which files its records are .*\. Pass a list of record keys",
        ),
    ],
)
def test_what_names_no_record_is_an_error(omit, error, told):
    """The error says what was given, and what to pass."""
    with pytest.raises(error, match=told):
        keys_to_omit(range(10), omit)


def test_a_line_that_is_no_key_is_told_by_its_number(tmp_path):
    """With the file."""
    (tmp_path / "keys.txt").write_text("1\n\nseven\n")
    with pytest.raises(
        SourceError,
        match=(
            r"line 3 is b'seven', which is not a record key\. Write one int in each line, or a "
            r"JSON object with an int"
        ),
    ):
        keys_to_omit(range(10), tmp_path / "keys.txt")


def test_a_predicate_gives_truth_values(sources):
    """Another value, or an error of its own, is told for a single row."""
    with pytest.raises(TypeError, match="0, an int, for row 0 of"):
        keys_to_omit(sources["json lines"], lambda file, row: row * 1)
    with pytest.raises(ZeroDivisionError):
        keys_to_omit(sources["json lines"], lambda file, row: 1 / 0)


def test_a_file_of_keys_that_is_not_there_is_told_with_the_remedy(tmp_path):
    """Its name may have been meant as something else."""
    with pytest.raises(
        SourceNotFoundError,
        match=r"does not name an existing file of keys\. Pass an array of record keys",
    ):
        keys_to_omit(range(10), tmp_path / "none.txt")


def test_a_folder_is_no_file_of_keys(tmp_path):
    """It is told as such, with the remedy."""
    with pytest.raises(SourceError, match=r"is a folder\. Pass an array of record keys"):
        keys_to_omit(range(10), tmp_path)
