"""MDS shards that MosaicML Streaming has written (`write_mds.py`)."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
from support.source_conformance import SourceConformance, assert_same
from support.write_mds import COUNT, FOLDER, row

import headrace
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


def test_columns_are_chosen():
    """Columns are chosen."""
    source = pickle.loads(pickle.dumps(MdsSource(FOLDER / "none", ["i64", "text"])))
    assert source[3] == {"i64": -3, "text": "ééé"}
    assert list(source[3]) == ["i64", "text"]
    assert source.lengths_by("text").tolist() == [2 * (key % 5) for key in range(COUNT)]  # bytes, as for all sources
    with pytest.raises(ValueError, match=r"no column 'nothing'. Name some of its columns: any, bytes"):
        MdsSource(FOLDER / "none", ["nothing"])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reads_each_sample_once(workers):
    """A loader reads each sample once."""
    loader = headrace.load(MdsSource(FOLDER / "zstd", ["int"]), seed=1, num_epochs=1, worker_count=workers)
    assert sorted(record["int"] for record in loader) == list(range(-5, COUNT - 5))


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
    with pytest.raises(SourceNotFoundError, match=r"index.json does not exist on this machine. Pass a folder"):
        MdsSource(tmp_path)
    (tmp_path / "index.json").write_text('{"shards": [], "version": 2}')
    with pytest.raises(NoRecordsError, match="no samples"):
        MdsSource(tmp_path)
    (tmp_path / "index.json").write_text('{"version": 2}')
    with pytest.raises(SourceError, match="not the index of MDS shards"):
        MdsSource(tmp_path)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_shard_that_is_cut_or_changed_is_an_error(tmp_path, place):
    """A shard that is cut or changed is an error."""
    folder = tmp_path / "mds"
    shutil.copytree(FOLDER / "none", folder)
    path = folder / "shard.00000.mds"
    data = bytearray(path.read_bytes())
    if place == 0:
        del data[-1]
    else:
        data[4 * place + 4 : 4 * place + 8] = (2**31 + 7).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"shard.00000.mds cannot be read.*Check the file"):
        MdsSource(folder)[1]
