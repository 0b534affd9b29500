"""Sources on files tell where each record lies: the file, and its number there."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.array_record_files import write_file
from support.conversions import write_tfrecord
from support.source_conformance import assert_same

import headrace
from headrace.sources.provenance import FilePlace


def _array_record(path, records):
    write_file(path.with_suffix(".array_record"), records)


def _parquet(path, records):
    table = pa.table({"text": pa.array(records, pa.binary())})
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=2)


def _tfrecord(path, records):
    write_tfrecord(path.with_suffix(".tfrecord"), records)


def _json_lines(path, records):
    lines = [json.dumps({"text": record.decode()}) for record in records]
    path.with_suffix(".jsonl").write_text("\n\n".join(lines))


def _tar(path, records):
    with tarfile.open(path.with_suffix(".tar"), "w") as tar:
        for record in records:
            for extension in ("txt", "cls"):
                info = tarfile.TarInfo(f"{record.decode()}.{extension}")
                info.size = len(record)
                tar.addfile(info, io.BytesIO(record))


def _tokens(path, records):
    with headrace.TokenWriter(path.with_suffix(".npy"), dtype=np.uint16) as writer:
        writer.extend([list(record) for record in records])


KINDS = {
    "array_record": (headrace.ArrayRecordDataSource, _array_record, ""),
    "parquet": (headrace.ParquetDataSource, _parquet, "row group 1"),
    "tfrecord": (headrace.TFRecordDataSource, _tfrecord, ""),
    "json_lines": (headrace.JsonLinesDataSource, _json_lines, ""),
    "tar": (headrace.TarDataSource, _tar, "key b2"),
    "tokens": (headrace.TokenSource, _tokens, ""),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_the_one_of_that_number_in_its_file(kind, tmp_path):
    """Of several files; with what else tells a record, and the tokens of a document."""
    make, write, note = KINDS[kind]
    for name, count in {"a": 5, "b": 3}.items():
        write(tmp_path / name, [f"{name}{number}".encode() for number in range(count)])
    with make(tmp_path) if kind != "parquet" else _Open(make(tmp_path)) as source:
        for key in range(len(source)):
            place = source.file_place(key)
            assert_same([make(place.file)[place.record]], [source[key]])
        last = source.file_place(7)
    assert (last.record, last.note) == (2, note)
    assert last.file.rpartition("/")[2].partition(".")[0] == "b"
    assert last.tokens == ((4, 6) if kind == "tokens" else None)


class _Open:
    """A source that need not be closed."""

    def __init__(self, source):
        self.source = source

    def __enter__(self):
        return self.source

    def __exit__(self, *error):
        pass


def test_of_a_part_of_a_file_the_number_is_that_in_the_whole_file(tmp_path):
    """As ArrayRecord's `path[start:end]` and the instructions of TFDS name it."""
    write_file(tmp_path / "a.array_record", [b"0", b"1", b"2", b"3"])
    with headrace.ArrayRecordDataSource(f"{tmp_path}/a.array_record[2:4]") as source:
        assert source.file_place(1) == (f"{tmp_path}/a.array_record", 3, "", None)


def test_an_image_is_a_file_of_its_own(tmp_path):
    """With its class."""
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    place = headrace.ImageFolderDataSource(tmp_path).file_place(1)
    assert place == (f"{tmp_path}/dog/2.jpg", 0, "class dog", None)


def test_a_trace_names_files_and_tokens_of_pieces(tmp_path):
    """Of a mix of packed documents: the file of each, and which of its tokens stand in the row."""
    for name, base in {"a": 0, "b": 1000}.items():
        with headrace.TokenWriter(tmp_path / f"{name}.npy", dtype=np.uint16) as writer:
            writer.extend([base + 20 * number + np.arange(3 + 5 * number) for number in range(4)])
    parts = {
        name: headrace.MapDataset.source(headrace.TokenSource(tmp_path / f"{name}.npy"))
        for name in "ab"
    }
    mixed = headrace.MapDataset.mix(
        {name: part.shuffle(seed=0).pack(8) for name, part in parts.items()}
    ).batch(3)
    batch, found = mixed[1], headrace.trace(mixed, 1)
    for record in found.records:
        assert record.file == f"{tmp_path}/{record.dataset}.npy"
        start, stop = record.file_tokens
        row = batch["tokens"][record.row][batch["tokens_segment_ids"][record.row] == record.segment]
        assert row.tolist() == np.load(record.file)[start:stop].tolist()
    assert "of 2 files" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["records"][0]["file"] == found.records[0].file


def test_a_source_of_ones_own_may_tell_its_files():
    """By a function file_place in its facts, that gives a file and a number."""

    class Own:
        def __len__(self):
            return 10

        def __getitem__(self, key):
            return key

        facts = headrace.SourceFacts(file_place=lambda key: FilePlace(f"file {key // 4}", key % 4))

    (record,) = headrace.trace(headrace.load(Own()), 6).records
    assert (record.file, record.record) == ("file 1", 2)
