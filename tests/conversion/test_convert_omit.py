"""`convert(…, omit=…)` writes files anew without some records, and says by which keys the others
were known before.
"""

import json

import numpy as np
import pytest
from support.conversions import RECORDS, content, convert, read, write_tfrecords
from support.source_conformance import SourceConformance

import headrace
from headrace.errors import ConversionError, RecordKeyError, SourceError
from headrace.sources.omission.rewritten import FormerKeys, FormerSource, former_sources
from headrace.tools.command_line import main

OMITTED = [0, 3, *range(30, 55), 99]


@pytest.fixture
def records(tmp_path):
    """A folder with the records in four files, the second of which will lose all of its own."""
    convert(RECORDS, tmp_path / "before", shards=4)
    return tmp_path / "before"


def _left(omitted):
    return [key for key in range(len(RECORDS)) if key not in set(omitted)]


@pytest.mark.parametrize("shards", [None, 3])
def test_the_others_are_written_in_their_order(records, tmp_path, shards):
    """With the same files or other ones, also where a file loses all records."""
    omitted = [*OMITTED, *range(25, 50)]
    made = convert(records, tmp_path / "out", omit=omitted, shards=shards)
    assert read(tmp_path / "out") == [RECORDS[key] for key in _left(omitted)]
    assert made.records == len(_left(omitted))
    assert headrace.verify(tmp_path / "out") == []


def test_all_formats_lose_records(tmp_path):
    """Compressed files, too, and records by file and row; a source in Python by its keys."""
    files = write_tfrecords(tmp_path / "in")
    convert(files, tmp_path / "out", omit=lambda file, row: ("a.tfrecord" in file) & (row < 29))
    assert read(tmp_path / "out") == RECORDS[29:]
    convert(RECORDS, tmp_path / "list", omit=OMITTED)
    assert read(tmp_path / "list") == [RECORDS[key] for key in _left(OMITTED)]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps({'text': str(n)})}\n" for n in range(20)))
    convert(rows, tmp_path / "parquet", to="parquet", omit=[1, 2])
    assert [row["text"] for row in headrace.ParquetDataSource(tmp_path / "parquet")] == [
        str(n) for n in range(20) if n not in (1, 2)
    ]


@pytest.mark.parametrize("form", ["array_record", "parquet", "tokens"])
def test_former_keys_find_the_records_that_are_left(tmp_path, form):
    """The source has the former length and fingerprint; keys that are gone are an error that says
    so.
    """
    documents = [np.arange(n % 5 + 1) + n for n in range(50)]
    given = (
        [{"text": str(n)} for n in range(50)]
        if form == "parquet"
        else documents
        if form == "tokens"
        else RECORDS[:50]
    )
    kinds = {
        "array_record": headrace.ArrayRecordDataSource,
        "parquet": headrace.ParquetDataSource,
        "tokens": headrace.TokenSource,
    }
    convert(given, tmp_path / "before", to=form, shards=3)
    convert(
        tmp_path / "before",
        tmp_path / "out",
        to=form,
        omit=[0, 7, 49],
        source_format="npy" if form == "tokens" else None,
    )
    before, now = kinds[form](tmp_path / "before"), FormerKeys(kinds[form](tmp_path / "out"))
    assert (len(now), now.fingerprint, now.omitted_keys.tolist()) == (
        50,
        before.fingerprint,
        [0, 7, 49],
    )
    for key in set(range(50)) - {0, 7, 49}:
        assert str(now[key]) == str(before[key])
    with pytest.raises(
        RecordKeyError, match="record key 7 was omitted when the files were written"
    ):
        now.__getitems__([6, 7])


def test_files_written_anew_twice_know_all_former_keys(records, tmp_path):
    """The second map counts the keys of the first files, too."""
    convert(records, tmp_path / "one", omit=OMITTED)
    convert(tmp_path / "one", tmp_path / "two", omit=lambda file, row: row == 1, workers=2)
    last, first = former_sources(headrace.ArrayRecordDataSource(tmp_path / "two"))
    sources = [headrace.ArrayRecordDataSource(tmp_path / name) for name in ("one", "before")]
    assert [last.fingerprint, first.fingerprint] == [source.fingerprint for source in sources]
    now = FormerKeys(headrace.ArrayRecordDataSource(tmp_path / "two"), first)
    left = _left(now.omitted_keys.tolist())
    assert now.__getitems__(left) == [RECORDS[key] for key in left]
    assert len(left) == len(_left(OMITTED)) - 4


def test_keys_before_and_after_are_inverse(records, tmp_path):
    """By a brute-force list of the keys that are left."""
    convert(records, tmp_path / "out", omit=OMITTED)
    (former,) = former_sources(headrace.ArrayRecordDataSource(tmp_path / "out"))
    left, now = np.array(_left(OMITTED)), np.arange(len(_left(OMITTED)))
    assert former.key_after(left).tolist() == now.tolist()
    assert former.key_before(now).tolist() == left.tolist()
    assert np.flatnonzero(~former.has(np.arange(100))).tolist() == sorted(OMITTED)


class TestFormerKeysAsASource(SourceConformance):
    """A source by former keys of which none is gone."""

    def open(self, folder, count):
        source = headrace.MemorySource([b"record %d" % key for key in range(count)])
        return FormerKeys(source, FormerSource(count, np.empty(0, np.int64), source.fingerprint))

    def expected_record(self, key):
        return b"record %d" % key


def test_the_map_belongs_to_all_files_in_their_order(records, tmp_path):
    """Some of the files, or the files in another order, have no former keys; nor have those of a
    plain conversion.
    """
    convert(records, tmp_path / "out", omit=OMITTED)
    paths = sorted(map(str, (tmp_path / "out").glob("*.array_record")))
    assert FormerKeys(headrace.ArrayRecordDataSource(paths))
    for source in (paths[1:], paths[::-1], str(records)):
        with pytest.raises(
            SourceError, match=r"does not read all files of a folder that headrace\.convert"
        ):
            FormerKeys(headrace.ArrayRecordDataSource(source))
    with pytest.raises(SourceError, match="MemorySource does not read all files"):
        FormerKeys(headrace.MemorySource([1]))


def test_a_map_that_was_changed_is_refused(records, tmp_path):
    """Its digest is in the manifest."""
    convert(records, tmp_path / "out", omit=OMITTED)
    source = headrace.ArrayRecordDataSource(tmp_path / "out")
    np.save(tmp_path / "keys.npy", np.array([1]))
    (tmp_path / "keys.npy").rename(tmp_path / "out" / "omitted-0.keys")
    with pytest.raises(SourceError, match="keys that the conversion omitted cannot be read"):
        FormerKeys(source)


def test_another_list_is_another_conversion(records, tmp_path):
    """A conversion that was stopped goes on only with the same keys; the same again changes
    nothing.
    """
    convert(records, tmp_path / "out", omit=OMITTED)
    before = content(tmp_path / "out")
    convert(records, tmp_path / "out", omit=OMITTED[::-1])
    assert content(tmp_path / "out") == before
    for other in (OMITTED[1:], None):
        with pytest.raises(ConversionError, match="another conversion, which differs in: omitted"):
            convert(records, tmp_path / "out", omit=other)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"omit": range(100)},
            ConversionError,
            r"omit= contains all 100 records, so no record is left to convert\. Omit fewer",
        ),
        (
            {"omit": [100]},
            RecordKeyError,
            r"record key 100 is out of range\. The source has 100 records",
        ),
        (
            {"omit": [1], "on_error": "skip"},
            ConversionError,
            r'damaged records out, which would change this count\. Pass on_error="raise"',
        ),
    ],
)
def test_what_cannot_be_left_out_is_an_error(records, tmp_path, options, error, told):
    """Before anything is written."""
    with pytest.raises(error, match=told):
        convert(records, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command_takes_a_file_of_keys(records, tmp_path, capsys):
    """And tells how many records were left out."""
    (tmp_path / "keys.txt").write_text("".join(f"{key}\n" for key in OMITTED))
    arguments = [
        "convert",
        str(records),
        str(tmp_path / "out"),
        "--omit",
        str(tmp_path / "keys.txt"),
        "--workers",
        "0",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "72 records in 4 shards, 524,288 bytes, omitted: 28\n"
    assert read(tmp_path / "out") == [RECORDS[key] for key in _left(OMITTED)]
