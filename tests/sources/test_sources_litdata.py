"""LitData chunks that LitData has written (`write_litdata.py`)."""

from __future__ import annotations

import json
import pickle
import shutil
import struct

import numpy as np
import pytest
from support.source_conformance import SourceConformance, assert_same
from support.write_litdata import COUNT, FOLDER, SAMPLES, mixed, nested, plain, tokens

from headrace import LitDataSource
from headrace.errors import LengthsError, NoRecordsError, SourceError, SourceNotFoundError
from headrace.formats.sharded.litdata_values import litdata_decoder, nested_value


class OfLitData(SourceConformance):
    """Several chunks."""

    on_files = True
    count = COUNT
    name = "mixed"

    def write(self, folder, count):
        shutil.copytree(FOLDER / self.name, folder / "litdata")
        if count < COUNT:  # the last chunk is left out
            index = json.loads((folder / "litdata" / "index.json").read_text())
            index["chunks"].pop()
            (folder / "litdata" / "index.json").write_text(json.dumps(index))

    def open(self, folder, count):
        return LitDataSource(folder / "litdata")

    def expected_record(self, key):
        return SAMPLES[self.name](int(key))


class TestLitData(OfLitData):
    """Plain chunks."""


class TestLitDataFrames(OfLitData):
    """Chunks with compressed groups of samples."""

    name = "mixed_batch"


class TestLitDataTables(OfLitData):
    """Chunks with samples in a table of Arrow."""

    name = "plain_zstd"


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
def test_samples_of_each_layout_are_read_as_they_were_written(name, cache_bytes):
    """With and without compression, in any order."""
    source = LitDataSource(FOLDER / name, cache_bytes=cache_bytes)
    keys = np.random.default_rng(0).permutation(COUNT)
    for key, record in zip(keys, source.__getitems__(keys)):
        assert_same(record, SAMPLES[name](int(key)))
    assert len(source._cache._blocks) <= (1 if cache_bytes == 1 else COUNT)


@pytest.mark.parametrize("name", ["mixed", "mixed_batch", "plain"])
def test_columns_of_litdata_are_chosen(name):
    """In the order that the user gives, also those whose values are trees."""
    columns = ["text", "ids"] if name == "plain" else ["inner", "text", "list"]
    source = pickle.loads(pickle.dumps(LitDataSource(FOLDER / name, columns)))
    for key in range(COUNT):
        assert_same(source[key], {column: SAMPLES[name](key)[column] for column in columns})
    assert source.fingerprint != LitDataSource(FOLDER / name).fingerprint
    with pytest.raises(ValueError, match=r"no column 'nothing'. Name some of its columns: "):
        LitDataSource(FOLDER / name, ["nothing"])
    with pytest.raises(ValueError, match=r"columns=\[\] is empty"):
        LitDataSource(FOLDER / name, [])


def test_columns_need_samples_that_are_dicts():
    """Other samples have no names."""
    with pytest.raises(
        ValueError, match=r"columns=\['a'\] is given, but the samples of .* are not dicts"
    ):
        LitDataSource(FOLDER / "nested", ["a"])


def test_lengths_of_litdata_are_known():
    """Of a column; of documents of tokens without reading them."""
    assert LitDataSource(FOLDER / "mixed").lengths_by("row").tolist() == list(range(COUNT))
    for name in ("tokens", "tokens_zstd"):
        source = LitDataSource(FOLDER / name)
        assert source.facts.lengths().tolist() == [len(tokens(key)) for key in range(COUNT)]
    with pytest.raises(LengthsError, match="has no column 'x'"):
        LitDataSource(FOLDER / "number").lengths_by("x")


@pytest.mark.parametrize("name", ["tokens", "tokens_zstd"])
def test_tokens_are_cut_into_blocks_as_litdata_does(name):
    """The tokens of each chunk are joined; what is left at its end is dropped."""
    index = json.loads((FOLDER / name / "index.json").read_text())
    expected, first = [], 0
    for chunk in index["chunks"]:
        joined = np.concatenate([tokens(key) for key in range(first, first + chunk["chunk_size"])])
        expected += [joined[at : at + 4] for at in range(0, len(joined) - 3, 4)]
        first += chunk["chunk_size"]
    source = LitDataSource(FOLDER / name, block_size=4)
    assert_same(source.__getitems__(np.arange(len(source))), expected)
    assert source.facts.lengths().tolist() == [4] * len(expected)
    assert source.fingerprint != LitDataSource(FOLDER / name, block_size=5).fingerprint
    with pytest.raises(
        NoRecordsError, match=r"has block_size=10000 tokens\. Pass a smaller block_size="
    ):
        LitDataSource(FOLDER / name, block_size=10_000)
    with pytest.raises(
        ValueError, match=r"block_size=4 is given, but the samples of .* were not written for"
    ):
        LitDataSource(FOLDER / "number", block_size=4)


def _copied(folder, name="mixed"):
    """Return a copy of the chunks, and their index."""
    shutil.copytree(FOLDER / name, folder / "litdata")
    return folder / "litdata", json.loads((folder / "litdata" / "index.json").read_text())


def test_unpacked_chunks_beside_packed_ones_are_read(tmp_path):
    """LitData leaves such files in its cache."""
    folder, index = _copied(tmp_path, "mixed_chunk")
    for chunk in index["chunks"]:
        (folder / chunk["filename"]).unlink()
        plain_name = chunk["filename"].replace(".zstd", "")
        shutil.copy(FOLDER / "mixed" / plain_name, folder / plain_name)
    assert_same(LitDataSource(folder)[20], mixed(20))


@pytest.mark.parametrize("name", ["mixed", "mixed_chunk", "tokens"])
def test_sizes_without_the_offsets_are_those_of_old_versions(tmp_path, name):
    """LitData 0.2.30 wrote the size of all samples of a chunk."""
    folder, index = _copied(tmp_path, name)
    for chunk in index["chunks"]:
        chunk["chunk_bytes"] -= 4 * (chunk["chunk_size"] + 2)
    (folder / "index.json").write_text(json.dumps(index))
    assert_same(LitDataSource(folder)[20], SAMPLES[name](20))


def test_headers_of_tensors_are_read_in_the_byte_order_of_each_version():
    """LitData 0.2.30 wrote the smallest byte of the dtype, the axes and the sides first; 0.2.76
    writes it last.
    """
    values, decode = np.arange(6, dtype="<i8").reshape(2, 3), litdata_decoder("x", "tensor", False)
    for order in (">", "<"):
        assert_same(decode(struct.pack(f"{order}4I", 18, 2, 2, 3) + values.tobytes()), values)


def test_pickled_objects_of_litdata_need_a_word(tmp_path):
    """They can run code; other columns can be read."""
    folder, index = _copied(tmp_path)
    index["config"]["data_format"][4] = "pickle"
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match=r"column 'bytes' has pickled objects.*allow_pickle=True"):
        LitDataSource(folder)
    assert LitDataSource(folder, ["text"])[1] == {"text": "é"}
    with pytest.raises(SourceError, match=r"chunk-0-0.bin cannot be read at record key 1"):
        LitDataSource(folder, ["bytes"], allow_pickle=True).__getitems__([1])
    index["config"]["data_format"][4], path = "pickle", folder / "chunk-0-0.bin"
    stored = pickle.dumps((1, 2))
    # as long as before, so only the first bytes of it
    data = path.read_bytes().replace(bytes(range(8)), stored[:8])
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"cannot be read at record key 8"):
        LitDataSource(folder, ["bytes"], allow_pickle=True).__getitems__([8])


def test_pickled_objects_of_litdata_are_read(tmp_path):
    """If the user says so."""
    value = pickle.dumps({1, 2})
    data = (
        b"".join(number.to_bytes(4, "little") for number in (1, 12, 16 + len(value), len(value)))
        + value
    )
    config = {"data_format": ["pickle"], "data_spec": None}
    chunk = {"chunk_bytes": len(data), "chunk_size": 1, "filename": "a.bin"}
    (tmp_path / "a.bin").write_bytes(data)
    (tmp_path / "index.json").write_text(json.dumps({"chunks": [chunk], "config": config}))
    assert LitDataSource(tmp_path, allow_pickle=True)[0] == {1, 2}


def test_folders_without_chunks_are_named(tmp_path):
    """And an index without them."""
    with pytest.raises(SourceNotFoundError, match=r"index.json does not exist. Pass a folder"):
        LitDataSource(tmp_path)
    _, index = _copied(tmp_path)
    (tmp_path / "index.json").write_text(json.dumps({**index, "chunks": []}))
    with pytest.raises(NoRecordsError, match="no samples"):
        LitDataSource(tmp_path)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_chunk_of_another_size_is_an_error_when_the_source_is_made(tmp_path, change):
    """It names the file, its size and the expected one."""
    folder, _ = _copied(tmp_path)
    path = folder / "chunk-0-1.bin"
    path.write_bytes(path.read_bytes()[:-1] if change < 0 else path.read_bytes() + b"x")
    with pytest.raises(
        SourceError,
        match=r"chunk-0-1.bin has [0-9,]+ bytes, but index.json says .* was cut or changed",
    ):
        LitDataSource(folder)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "number"])
def test_a_damaged_chunk_is_an_error_that_names_it(tmp_path, name):
    """Whatever byte is changed: other values, or an error of ours. A table may look like a chunk
    that has pickles.
    """
    folder, index = _copied(tmp_path, name)
    path = folder / index["chunks"][0]["filename"]
    good, messages = path.read_bytes(), []
    for place in [
        *np.random.default_rng(0).integers(0, len(good), 20).tolist(),
        0,
        4,
        8,
        13,
        len(good) - 2,
    ]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        try:
            LitDataSource(folder).__getitems__(np.arange(COUNT))
        except SourceError as error:
            messages.append(str(error))
    assert messages
    assert all(
        path.name in each or "column 'score' has pickled objects" in each for each in messages
    )
    assert all(len(each) < 500 for each in messages)


def test_another_number_of_samples_than_the_index_says_is_an_error(tmp_path):
    """It would be read past the end of its offsets."""
    folder, index = _copied(tmp_path)
    index["chunks"][0]["chunk_size"] += 1
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        SourceError,
        match=r"chunk-0-0.bin cannot be read: the shard has 9 samples, but the index says 10",
    ):
        LitDataSource(folder)[9]


def _config(**values):
    return lambda index: index["config"].update(values)


def _chunk(**values):
    return lambda index: index["chunks"][1].update(values)


def _spec(**values):
    leaf = {"type": None, "context": None, "children_spec": []}
    return _config(data_format=["int"], data_spec=json.dumps([1, {**leaf, **values}]))


ODD = {
    "no config": (lambda index: index.pop("config"), "it has no 'config'"),
    "no chunks": (lambda index: index.pop("chunks"), "it has no 'chunks'"),
    "encrypted": (
        _config(encryption={"algorithm": "fernet"}),
        "its chunks are encrypted, which headrace cannot read",
    ),
    "MDS": (_config(format="mds"), "it describes MDS shards, which headrace.MdsSource reads"),
    "Parquet": (
        _config(item_loader="ParquetLoader"),
        "it describes Parquet files, which headrace.ParquetDataSource reads",
    ),
    "another loader": (
        _config(item_loader="TemporalArrayLoader"),
        "item_loader='TemporalArrayLoader' is neither",
    ),
    "another compression": (_config(compression="lz4"), "compression='lz4' is not zstd"),
    "another unit": (
        _config(compression_level="page"),
        "compression_level='page' is not one of chunk, batch and sample",
    ),
    "a number as encoding": (
        _config(data_format=[3]),
        "data_format=[3] has entries that are not texts",
    ),
    "few encodings": (
        _config(data_format=["int"]),
        "data_spec has 20 leaves, but data_format has 1 entries",
    ),
    "no JSON": (_config(data_spec="{"), "data_spec='{' is damaged"),
    "another version": (_config(data_spec="[2, {}]"), "data_spec has version 2, not 1"),
    "no node": (_config(data_spec="[1, 3]"), "data_spec has 3 in place of a node"),
    "a container": (
        _spec(type="my.Class"),
        "data_spec has the container 'my.Class', which is not one of",
    ),
    "no keys": (
        _spec(type="builtins.dict", context="3"),
        "data_spec has a dict with the keys 3, and 0 values",
    ),
    "a list as key": (
        _spec(type="builtins.dict", context="[[1]]"),
        "data_spec has a dict with the keys [[1]], and 0",
    ),
    "no name": (lambda index: index["chunks"][1].pop("filename"), "chunk 1 has no 'filename'"),
    "a text as number": (
        _chunk(chunk_size="9"),
        "chunk 1 has chunk_size='9', which is not of type int",
    ),
    "a negative number": (_chunk(chunk_bytes=-1), "chunk 1 has chunk_bytes=-1, which is negative"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_litdata_index_with_odd_values_is_an_error_of_ours(tmp_path, name):
    """It names the index and the value."""
    folder, index = _copied(tmp_path)
    change, words = ODD[name]
    change(index)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError) as caught:
        LitDataSource(folder)
    assert f"index.json is not the index of LitData chunks: {words}" in str(caught.value)
    assert "Pass a folder that litdata.optimize has written" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "encoding",
    ["", "graph", "Int", "mine", "no_header_numpy", "no_header_numpy:14", "no_header_tensor:10"],
)
def test_an_unknown_encoding_of_litdata_is_an_error_of_ours(tmp_path, encoding):
    """Other columns can be read."""
    folder, index = _copied(tmp_path)
    index["config"]["data_format"][0] = encoding
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        SourceError, match=r"column 'int' has the encoding .*, which is not one of .*name only"
    ) as caught:
        LitDataSource(folder)
    assert len(str(caught.value)) < 500
    assert LitDataSource(folder, ["text"])[3]["text"] == "ééé"


def test_a_nested_value_of_an_unknown_kind_is_an_error():
    """As is one that is cut; text of JSON is read, too."""
    assert nested_value(b'{"a": [1, null]}') == {"a": [1, None]}
    with pytest.raises(ValueError, match="kind 31, which is unknown"):
        nested_value(bytes([31, 0, 0, 0, 0]))
    with pytest.raises(ValueError, match="needs 8 bytes, but 1 are left"):
        nested_value(bytes([8, 0]))


def test_containers_of_litdata_become_dicts_lists_and_tuples():
    """Sample by sample, without the classes of collections."""
    assert_same(LitDataSource(FOLDER / "nested")[4], nested(4))
    assert type(LitDataSource(FOLDER / "nested")[4][1]) is tuple
    assert LitDataSource(FOLDER / "plain")[1] == plain(1)
