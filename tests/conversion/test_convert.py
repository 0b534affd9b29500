"""`headrace.convert`: what goes in comes out, shard for shard, and the manifest says so."""

from __future__ import annotations

import json
import shutil
import tarfile
import warnings
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from support.conversions import (
    RECORDS,
    ROWS,
    WRITE,
    content,
    convert,
    read,
    write_tfrecord,
    write_tfrecords,
)

import headrace
from headrace.errors import ConversionError, SourceError
from headrace.formats.example import decode_example
from headrace.formats.example_writer import encode_example


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


def test_each_file_becomes_a_file_of_its_name(tfrecords, tmp_path):
    """With the same records in the same order, and nothing else in the folder but the manifest."""
    made = convert(tfrecords, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.array_record",
        "b.array_record",
        "c-00000-of-00001.array_record",
        "manifest.json",
    ]
    assert read(tmp_path / "out") == RECORDS
    assert [shard.records for shard in made.shards] == [30, 1, 69]
    assert made.records == 100
    assert headrace.verify(tmp_path / "out") == []


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_records_can_be_divided_anew(tfrecords, tmp_path, shards):
    """Into any number of files of nearly equal length, in the same order."""
    made = convert(tfrecords, tmp_path / "out", shards=shards)
    counts = [shard.records for shard in made.shards]
    assert (sum(counts), len(counts), max(counts) - min(counts) <= 1) == (100, shards, True)
    assert read(tmp_path / "out") == RECORDS


def test_the_manifest_says_what_there_is(tfrecords, tmp_path):
    """Records, bytes and SHA-256 of each shard, and from what it was made."""
    made = convert(tfrecords, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (told["records"], told["left_out"], len(told["shards"])) == (100, 0, 3)
    assert (
        told["bytes"]
        == sum(path.stat().st_size for path in (tmp_path / "out").glob("*.array_record"))
        == made.bytes
    )
    assert [file["path"] for file in told["source"]["files"]] == sorted(
        map(str, tfrecords.iterdir())
    )
    assert told["options"]["options"] == "group_size:1"
    assert told["headrace"] == headrace.__version__


def test_workers_write_the_same_bytes(tfrecords, tmp_path):
    """As the calling process does; an object of the user's, and a function of `__main__`, come
    along.
    """
    convert(tfrecords, tmp_path / "one", transform=lambda record: record[::-1])
    convert(tfrecords, tmp_path / "two", transform=lambda record: record[::-1], workers=2)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert read(tmp_path / "one") == [record[::-1] for record in RECORDS]


def _tar(path):
    with tarfile.open(path, "w") as archive:
        for number, row in enumerate(ROWS):
            for name, data in (
                (f"a/{number}.txt", row["text"].encode()),
                (f"a/{number}.cls", b"%d" % number),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, BytesIO(data))


@pytest.mark.parametrize("name", WRITE)
def test_rows_of_any_format_become_parquet(name, tmp_path):
    """With typed columns, the same for all files, and row groups for random reads."""
    WRITE[name](tmp_path / name)
    convert(tmp_path / name, tmp_path / "out", "parquet", options={"row_group_size": 16})
    rows = pq.read_table(tmp_path / "out" / "x.parquet").to_pylist()
    text = (lambda value: value) if name != "x.tfrecord" else bytes.decode  # examples hold bytes
    assert [{**row, "text": text(row["text"])} for row in rows] == ROWS
    metadata = pq.ParquetFile(tmp_path / "out" / "x.parquet").metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [
        16,
        16,
        8,
    ]


@pytest.mark.parametrize("name", WRITE)
def test_rows_of_any_format_become_array_record(name, tmp_path):
    """As tf.train.Example, but for JSON lines, which stay JSON."""
    WRITE[name](tmp_path / name)
    convert(tmp_path / name, tmp_path / "out")
    if "jsonl" in name:
        assert list(map(json.loads, read(tmp_path / "out"))) == ROWS
        return
    for record, row in zip(read(tmp_path / "out"), ROWS, strict=True):
        found = decode_example(record)
        assert (found["text"].decode(), found["label"].tolist(), found["score"].tolist()) == (
            row["text"],
            [row["label"]],
            [row["score"]],
        )


def test_samples_of_a_tar_file_become_examples_and_rows(tmp_path):
    """By key, with a member for each extension."""
    _tar(tmp_path / "x.tar")
    convert(tmp_path / "x.tar", tmp_path / "out")
    assert decode_example(read(tmp_path / "out")[7]) == {
        "__key__": b"a/7",
        "txt": b"text 7",
        "cls": b"7",
    }
    convert(tmp_path / "x.tar", tmp_path / "rows", "parquet")
    assert pq.read_table(tmp_path / "rows" / "x.parquet").to_pylist()[7] == {
        "__key__": "a/7",
        "txt": b"text 7",
        "cls": b"7",
    }


def test_array_record_and_npy_are_read_too(tmp_path):
    """Bytes as they are; the rows of an array each as a .npy file."""
    convert(RECORDS, tmp_path / "one", shards=3)
    convert(tmp_path / "one", tmp_path / "two")
    assert read(tmp_path / "two") == RECORDS
    rows = np.random.default_rng(0).normal(size=(10, 2, 3))
    np.save(tmp_path / "x.npy", rows)
    convert(tmp_path / "x.npy", tmp_path / "rows")
    assert np.array_equal([np.load(BytesIO(record)) for record in read(tmp_path / "rows")], rows)


def test_any_source_and_function_goes(tmp_path):
    """A dict of arrays, by a function of a record and one that makes bytes of it."""
    data = {"x": np.arange(12).reshape(6, 2), "y": np.arange(6)}
    made = convert(
        data,
        tmp_path / "out",
        shards=2,
        transform=lambda record: record["x"] + record["y"],
        encode=lambda array: array.astype("<i8").tobytes(),
    )
    assert [np.frombuffer(record, "<i8").tolist() for record in read(tmp_path / "out")][3] == [
        9,
        10,
    ]
    assert made.source["source"]["kind"] == "MemorySource"


def test_a_hugging_face_dataset_on_disk_is_found_by_its_folder(tmp_path):
    """Also one split of several. The columns have the types of the dataset, one without any value
    among the first rows, too.
    """
    with warnings.catch_warnings():
        # What datasets and what it imports say at import is not ours.
        warnings.simplefilter("ignore")
        import datasets

        datasets.disable_progress_bars()
    rows = datasets.Dataset.from_list(ROWS)
    rows.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=rows).save_to_disk(tmp_path / "two")
    for source, options in (("one", {}), ("two", {"split": "train"})):
        convert(tmp_path / source, tmp_path / "out" / source, "parquet", **options)
        assert list(headrace.ParquetDataSource(tmp_path / "out" / source)) == ROWS
    with pytest.raises(
        ConversionError,
        match=r"has no split 'test', but the splits train\. Choose one of them with split=",
    ):
        convert(tmp_path / "two", tmp_path / "out" / "three", split="test")
    types = {"a": datasets.Value("int8"), "b": {"c": datasets.Value("float32")}}
    late = {"a": [None] * 1000 + [7], "b": [{"c": 0.5}] * 1001}
    typed = datasets.Dataset.from_dict(late, features=datasets.Features(types))
    shard = convert(typed, tmp_path / "typed", "parquet").shards[0].name
    table = pq.read_table(tmp_path / "typed" / shard)
    assert table.schema.types == [pa.int8(), pa.struct({"c": pa.float32()})]
    assert table["a"].to_pylist() == late["a"]


def test_images_in_folders_become_examples(tmp_path):
    """Their bytes and labels; the manifest has the names of the classes."""
    for name in ("cat/1.jpg", "dog/1.jpg", "dog/2.png"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "in" / name).write_bytes(name.encode())
    made = convert(tmp_path / "in", tmp_path / "out", source_format="images", shards=2)
    assert made.source["classes"] == ["cat", "dog"]
    assert decode_example(read(tmp_path / "out")[2]) == {
        "image": b"dog/2.png",
        "label": np.array([1]),
    }


@pytest.mark.parametrize("suffix", ["tfrecord", "tfrecord.gz", "parquet", "array_record"])
@pytest.mark.parametrize("shards", [None, 2])
def test_files_without_records_are_no_matter(suffix, shards, tmp_path):
    """As parallel writers leave them: each becomes a file without records, and has no part in
    others.
    """
    rows = [{"x": number} for number in range(10)]
    for name, some in (("a", rows[:0]), ("b", rows), ("c", rows[:0])):
        path = tmp_path / "in" / f"{name}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(some, schema=pa.schema([("x", pa.int64())])), path)
        elif suffix == "array_record":
            writer = ArrayRecordWriter(str(path), "group_size:1")
            for row in some:
                writer.write(encode_example(row))
            writer.close()
        else:
            write_tfrecord(path, map(encode_example, some))
    made = convert(tmp_path / "in", tmp_path / "out", shards=shards)
    assert [shard.records for shard in made.shards] == ([5, 5] if shards else [0, 10, 0])
    assert [decode_example(record)["x"].tolist() for record in read(tmp_path / "out")] == [
        [n] for n in range(10)
    ]


def test_types_of_csv_hold_for_all_files(tmp_path):
    """Those of the first file that has rows; empty numbers are nulls, a value of another type is an
    error with its line.
    """
    (tmp_path / "0.csv").write_text("n,text\n")
    (tmp_path / "a.csv").write_text('n,text\n1,"a, b"\n,\n')
    (tmp_path / "b.csv").write_text("n,text\n2,x\nthree,y\n")
    with pytest.raises(
        SourceError, match=r"b\.csv, line 3: the value 'three' must be a number of type"
    ):
        convert(tmp_path / "*.csv", tmp_path / "out", "parquet", source_format="csv")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.csv").write_text("n,text\n1,x\n")
    for columns, message in (
        ("text,n", "column 1 is 'text', but in .* 'n'"),
        ("n", "column 2 is missing, but .* 'text'"),
    ):
        (tmp_path / "other" / "b.csv").write_text(f"{columns}\n")
        with pytest.raises(
            SourceError, match=rf"b\.csv: {message}\. Convert files with different columns"
        ):
            convert(tmp_path / "other", tmp_path / "out", "parquet", source_format="csv")
    made = convert(
        tmp_path / "*.csv", tmp_path / "two", "parquet", source_format="csv", on_error="skip"
    )
    rows = [
        row
        for name in "ab"
        for row in pq.read_table(tmp_path / "two" / f"{name}.parquet").to_pylist()
    ]
    assert rows == [{"n": 1, "text": "a, b"}, {"n": None, "text": ""}, {"n": 2, "text": "x"}]
    assert made.left_out == 1


@pytest.mark.slow
def test_an_exception_of_the_users_stays_what_it_is(tfrecords, tmp_path):
    """It comes from a worker, too, and a note says at which record."""

    def fail(record):
        return {}[len(record)]

    for workers in (0, 1):
        with pytest.raises(KeyError, match="20") as caught:
            convert(
                tfrecords / "b.tfrecord.gz",
                tmp_path / f"out {workers}",
                transform=fail,
                workers=workers,
            )
        assert "b.tfrecord.gz, byte 0" in caught.value.__notes__[0]


def test_files_may_be_told_by_absolute_and_relative_paths_together(tmp_path, monkeypatch):
    """And by paths that lead upwards: names are what they have below their common folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    paths = [
        write_tfrecord(tmp_path / folder / "x.tfrecord", RECORDS[:2]) for folder in ("one", "two")
    ]
    for source in ([paths[0], "../two/x.tfrecord"], ["../one/x.tfrecord", "../two/x.tfrecord"]):
        made = convert(source, tmp_path / "out")
        assert [shard.name for shard in made.shards] == ["one/x.array_record", "two/x.array_record"]
        shutil.rmtree(tmp_path / "out")
