"""MDS shards that MosaicML Streaming has written (`write_mds.py`)."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
from support.source_conformance import SourceConformance, assert_same
from support.write_mds import COUNT, FOLDER, row

from headrace import MdsSource
from headrace.errors import NoRecordsError, SourceError, SourceNotFoundError


class TestMds(SourceConformance):
    """Several shards."""

    on_files = True
    count = COUNT

    def write(self, folder, count):
        shutil.copytree(FOLDER / "none", folder / "mds")
        if count < COUNT:  # the last shard is left out
            index = json.loads((folder / "mds" / "index.json").read_text())
            index["shards"].pop()
            (folder / "mds" / "index.json").write_text(json.dumps(index))

    def open(self, folder, count):
        return MdsSource(folder / "mds")

    def expected_record(self, key):
        return row(key)


@pytest.mark.parametrize("compression", ["zstd", "gz", "bz2", "br", "snappy"])
@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
def test_compressed_shards_have_the_same_samples(compression, cache_bytes):
    """Compressed shards have the same samples."""
    source = MdsSource(FOLDER / compression, cache_bytes=cache_bytes)
    keys = np.random.default_rng(0).integers(0, COUNT, 50)
    for key, record in zip(keys, source.__getitems__(keys)):
        assert_same(record, row(key))
    assert len(source._cache._blocks) == (1 if cache_bytes == 1 else len(source._shards))


@pytest.mark.parametrize(
    ("name", "digest"), [("none", "72d789c44323f4d8"), ("gz", "698865a25851cc9f")]
)
def test_a_fingerprint_is_that_of_earlier_versions(name, digest):
    """Else their states would be refused."""
    found = MdsSource(FOLDER / name).fingerprint
    assert found == {"kind": "MdsSource", "records": COUNT, "files": digest}


def test_columns_are_chosen():
    """Columns are chosen."""
    source = pickle.loads(pickle.dumps(MdsSource(FOLDER / "none", ["i64", "text"])))
    assert source[3] == {"i64": -3, "text": "ééé"}
    assert list(source[3]) == ["i64", "text"]
    # bytes, as for all sources
    assert source.lengths_by("text").tolist() == [2 * (key % 5) for key in range(COUNT)]
    with pytest.raises(
        ValueError, match=r"no column 'nothing'. Name some of its columns: any, bytes"
    ):
        MdsSource(FOLDER / "none", ["nothing"])


def test_pickled_objects_need_a_word(tmp_path):
    """Pickled objects need a word."""
    folder = tmp_path / "mds"
    shutil.copytree(FOLDER / "none", folder)
    index = json.loads((folder / "index.json").read_text())
    for shard in index["shards"]:
        shard["column_encodings"][shard["column_names"].index("bytes")] = "pkl"
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=r"'bytes' has pickled objects.*allow_pickle=True"):
        MdsSource(folder)
    assert MdsSource(folder, ["text"])[1]["text"] == "é"
    with pytest.raises(SourceError, match=r"shard.00000.mds cannot be read at record key 1"):
        MdsSource(folder, ["bytes"], allow_pickle=True)[1]


def test_folders_without_shards_are_named(tmp_path):
    """Folders without shards are named."""
    with pytest.raises(SourceNotFoundError, match=r"index.json does not exist. Pass a folder"):
        MdsSource(tmp_path)
    (tmp_path / "index.json").write_text('{"shards": [], "version": 2}')
    with pytest.raises(NoRecordsError, match="no samples"):
        MdsSource(tmp_path)
    (tmp_path / "index.json").write_text('{"version": 2}')
    with pytest.raises(SourceError, match="not the index of MDS shards"):
        MdsSource(tmp_path)


def _copied(folder, compression="none"):
    """Return a copy of the shards, and their index."""
    shutil.copytree(FOLDER / compression, folder / "mds")
    return folder / "mds", json.loads((folder / "mds" / "index.json").read_text())


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("change", [-1, -4096, 1])
def test_a_shard_of_another_size_is_an_error_when_the_source_is_made(tmp_path, compression, change):
    """It names the file, its size and the expected one; a mapped file that is cut would end the
    process.
    """
    folder, _ = _copied(tmp_path, compression)
    path = sorted(path for path in folder.iterdir() if path.name != "index.json")[1]
    data = path.read_bytes()
    path.write_bytes(data[: max(len(data) + change, 0)] if change < 0 else data + b"x")
    size, found = f"{len(data):,}", f"{max(len(data) + change, 0):,}"
    with pytest.raises(
        SourceError,
        match=rf"{path.name} has {found} bytes, but index.json says {size}\. It was cut or",
    ):
        MdsSource(folder)


def test_a_shard_that_is_cut_after_the_source_was_made_is_an_error(tmp_path):
    """The source maps a shard when it first reads a sample of it."""
    folder, _ = _copied(tmp_path)
    source = MdsSource(folder)
    path = folder / "shard.00000.mds"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        SourceError,
        match=(
            r"shard.00000.mds cannot be read: the shard has 5,780 bytes, but the index says 5,781"
        ),
    ):
        source[1]


@pytest.mark.parametrize("place", [1, 2])
def test_a_shard_that_is_changed_is_an_error(tmp_path, place):
    """It names the file and the record."""
    folder, _ = _copied(tmp_path)
    path = folder / "shard.00000.mds"
    data = bytearray(path.read_bytes())
    data[4 * place + 4 : 4 * place + 8] = (2**31 + 7).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(
        SourceError, match=r"shard.00000.mds cannot be read at record key 1.*Check the file"
    ):
        MdsSource(folder)[1]


def test_a_shard_with_another_number_of_samples_than_the_index_says_is_an_error(tmp_path):
    """It would be read past the end of its offsets."""
    folder, index = _copied(tmp_path)
    index["shards"][0]["samples"] += 1
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        SourceError,
        match=r"shard.00000.mds cannot be read: the shard has 14 samples, but the index says 15",
    ):
        MdsSource(folder)[14]


def _without(name):
    def change(index):
        del index["shards"][1][name]

    return change


def _with(name, value):
    def change(index):
        index["shards"][1][name] = value

    return change


ODD = {
    "missing samples": (_without("samples"), "shard 1 has no 'samples'"),
    "missing sizes": (_without("column_sizes"), "shard 1 has no 'column_sizes'"),
    "missing files": (_without("raw_data"), "shard 1 has no 'raw_data'"),
    "no file": (_with("raw_data", None), "shard 1 has raw_data=None, which is not of type dict"),
    "no name": (_with("raw_data", {"bytes": 3}), "shard 1 has no 'basename'"),
    "a number as name": (
        _with("raw_data", {"bytes": 3, "basename": 3}),
        "shard 1 has basename=3, which is not of type str",
    ),
    "a text as number": (
        _with("samples", "3"),
        "shard 1 has samples='3', which is not of type int",
    ),
    "a negative number": (_with("samples", -3), "shard 1 has samples=-3, which is negative"),
    "a negative size": (
        _with("column_sizes", [-1] * 14),
        "shard 1 has a column of size -1, but a size must be a whole number of at least 0, or null",
    ),
    "few names": (
        _with("column_names", ["x"]),
        "shard 1 must have a name, an encoding and a size for each column",
    ),
    "numbers as names": (
        _with("column_names", [3] * 14),
        "shard 1 must have a name, an encoding and a size for each column",
    ),
    "another format": (
        _with("format", "json"),
        "shard 1 has format 'json' and version 2, but only format 'mds' with version 2 can be read",
    ),
    "another version": (
        _with("version", 3),
        "shard 1 has format 'mds' and version 3, but only format 'mds' with version 2 can be read",
    ),
    "no shard": (lambda index: index["shards"].append(3), "shard 2 has no 'format'"),
    "no list": (
        lambda index: index.update(shards={}),
        "it has shards={}, which is not of type list",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_index_with_odd_values_is_an_error_of_ours(tmp_path, name):
    """It names the index, the shard and the value."""
    folder, index = _copied(tmp_path)
    change, words = ODD[name]
    change(index)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        SourceError,
        match=rf"index\.json is not the index of MDS shards, version 2: {words}\. Pass a folder",
    ):
        MdsSource(folder)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000])
def test_an_index_that_is_no_json_or_no_dict_is_an_error_of_ours(tmp_path, text):
    """Whatever the file contains."""
    (tmp_path / "index.json").write_bytes(text)
    with pytest.raises(
        SourceError, match=r"index\.json is not the index of MDS shards, version 2: .*Pass a folder"
    ):
        MdsSource(tmp_path)


@pytest.mark.parametrize(
    "encoding",
    ["", "video", "ndarray:float99", "ndarray:float32:2,x", "ndarray:int8:2:3", "ndarray:", "Int"],
)
def test_an_unknown_encoding_is_an_error_of_ours(tmp_path, encoding):
    """Other columns can be read."""
    folder, index = _copied(tmp_path)
    for shard in index["shards"]:
        shard["column_encodings"][0] = encoding
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        SourceError,
        match=r"column 'any' has the encoding .*, which is not one of .*Name only other columns",
    ) as caught:
        MdsSource(folder)
    assert len(str(caught.value)) < 500
    assert MdsSource(folder, ["int"])[3]["int"] == -2
