"""Documents of tokens, as slices of mapped files; and the writer of such files, killed wherever one
can kill it.
"""

import itertools
import os
import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pipelines import chosen
from support.source_conformance import SourceConformance, assert_same, exit_code, open_files

import headrace
from headrace import TokenSource, TokenWriter
from headrace.errors import ClosedError, SourceError, SourceNotFoundError
from headrace.files.reader_pool import _Table
from headrace.sources import reader_of
from headrace.sources.tokens.document_file import DocumentFile
from headrace.sources.tokens.ended import MarkedByToken

DTYPES = ["uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64", ">u2"]


def document(key, dtype=np.uint16):
    """Document `key`; each seventh is empty."""
    return np.arange(key * 7, key * 7 + key % 7).astype(dtype)


def write(path, documents, dtype=np.uint16):
    """Writes a file of documents."""
    with TokenWriter(path, dtype=dtype) as writer:
        writer.extend(documents)


class TestWritten(SourceConformance):
    """What `TokenWriter` wrote."""

    on_files = True

    def write(self, folder, count):
        write(folder / "train.npy", map(document, range(count)))

    def open(self, folder, count):
        return TokenSource(folder / "train.npy")

    def expected_record(self, key):
        return {"tokens": document(key)}


class TestSeveral(SourceConformance):
    """Several files in a folder, one of them without a document."""

    on_files = True

    def write(self, folder, count):
        write(folder / "a.npy", map(document, range(count // 3)))
        TokenWriter(folder / "b.npy", np.uint16, may_be_empty=True).close()
        write(folder / "c.npy", map(document, range(count // 3, count)))

    def open(self, folder, count):
        return TokenSource(folder)

    def expected_record(self, key):
        return {"tokens": document(key)}


class TestRaw(SourceConformance):
    """A raw file without offsets, as nanoGPT writes it; records are bare arrays."""

    on_files = True

    def write(self, folder, count):
        np.arange(count * 5 + 3, dtype=np.uint16).tofile(folder / "train.bin")

    def open(self, folder, count):
        return TokenSource(folder / "train.bin", dtype=np.uint16, document_length=5, name=None)

    def expected_record(self, key):
        return np.arange(key * 5, key * 5 + 5, dtype=np.uint16)


def ended(count):
    """Bare tokens of documents that end in 9; the last one does not."""
    documents = [
        np.append(np.arange(key % 5) % 3 + 10, 9).astype(np.uint16) for key in range(count)
    ]
    return [*documents[:-1], documents[-1][:-1]] if len(documents[-1]) > 1 else documents


class TestEndOfText(SourceConformance):
    """Raw shards without document ends, split after a token."""

    on_files = True

    def write(self, folder, count):
        np.concatenate(ended(40)).tofile(folder / "a.bin")
        np.concatenate(ended(count - 40)).tofile(folder / "b.bin")

    def open(self, folder, count):
        return TokenSource(folder / "*.bin", dtype=np.uint16, end_of_text=9)

    def expected_record(self, key):
        return {"tokens": [*ended(40), *ended(97 - 40)][key]}


class TestOffsetsInMemory(SourceConformance):
    """A raw file, and an array of offsets."""

    def write(self, folder, count):
        np.arange(count * 3, dtype=np.int32).tofile(folder / "train.bin")

    def open(self, folder, count):
        return TokenSource(
            folder / "train.bin", np.arange(count + 1, dtype=np.uint32) * 2, dtype="int32"
        )

    def expected_record(self, key):
        return {"tokens": np.arange(key * 2, key * 2 + 2, dtype=np.int32)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_integer_dtype_comes_back(tmp_path, dtype):
    """Documents of any integer dtype come back as they were written, at the dtype's limits too."""
    limits = np.iinfo(dtype)
    documents = [
        np.array([limits.min, limits.max], dtype),
        np.array([], dtype),
        np.array([1], dtype),
    ]
    write(tmp_path / "x.npy", documents, dtype)
    source = TokenSource(tmp_path / "x.npy")
    assert_same(reader_of(source)(np.arange(3)), [{"tokens": one} for one in documents])


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 300), max_size=20), min_size=1, max_size=20))
def test_what_was_written_is_what_is_read(tmp_path_factory, documents):
    """Any documents, lists or arrays, empty ones too, are read as they were written, with their
    lengths.
    """
    path = tmp_path_factory.mktemp("tokens") / "deep" / "x.npy"
    write(path, documents)
    source = TokenSource(path, name=None)
    assert [source[key].tolist() for key in range(len(source))] == documents
    assert source.lengths.tolist() == [len(one) for one in documents]
    assert source.lengths.dtype == np.int64


def test_a_document_is_a_read_only_view(tmp_path):
    """Nothing is copied, and no operation can change the file."""
    write(tmp_path / "x.npy", [[1, 2], [3]])
    source = TokenSource(tmp_path / "x.npy")
    one, again = (source[1]["tokens"] for _ in range(2))
    assert np.shares_memory(one, again)
    assert type(one) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        one += 1
    with pytest.raises(ValueError, match="read-only"):
        source.lengths["tokens"][0] = 5


def test_the_name_of_the_array_is_the_users(tmp_path):
    """Records are a dict with the array under `name`, and so are lengths; with None they are the
    array. All are told apart.
    """
    write(tmp_path / "x.npy", [[1, 2], [3]])
    named, bare = (
        TokenSource(tmp_path / "x.npy", name="code"),
        TokenSource(tmp_path / "x.npy", name=None),
    )
    assert_same(named[0], {"code": np.array([1, 2], np.uint16)})
    assert_same(bare[0], np.array([1, 2], np.uint16))
    assert named.lengths["code"].tolist() == bare.lengths.tolist() == [2, 1]
    assert (
        len({str(source.fingerprint) for source in (named, bare, TokenSource(tmp_path / "x.npy"))})
        == 3
    )


def test_numpy_reads_the_files(tmp_path):
    """Tokens and offsets are two `.npy` files."""
    write(tmp_path / "x.npy", [[1, 2], [], [3]])
    assert_same(np.load(tmp_path / "x.npy"), np.array([1, 2, 3], np.uint16))
    assert_same(np.load(tmp_path / "x.npy.offsets"), np.array([0, 2, 2, 3]))


def test_offsets_may_be_any_file_and_leave_tokens_out(tmp_path):
    """Offsets of others are read from where they are; documents need not cover all tokens."""
    np.save(tmp_path / "x.npy", np.arange(10, dtype=np.int16))
    np.save(tmp_path / "starts.npy", np.array([2, 5, 9], np.uint32))
    source = TokenSource(tmp_path / "x.npy", tmp_path / "starts.npy", name=None)
    assert [source[0].tolist(), source[1].tolist()] == [[2, 3, 4], [5, 6, 7, 8]]
    assert pickle.loads(pickle.dumps(source))[1].tolist() == [5, 6, 7, 8]


def test_empty_documents_alone_are_a_source(tmp_path):
    """A file without tokens, but with documents, is read."""
    write(tmp_path / "x.npy", [[], []])
    source = TokenSource(tmp_path / "x.npy")
    assert (len(source), source[1]["tokens"].size, source.fingerprint["tokens"]) == (2, 0, 0)


def test_closing_leaves_documents_readable(tmp_path):
    """A document that was read before `close` stays what it is, and the source opens its files
    again.
    """
    write(tmp_path / "x.npy", [[1, 2], [3]])
    with TokenSource(tmp_path / "x.npy", name=None) as source:
        held = source[0]
    assert held.tolist() == source[0].tolist() == [1, 2]


def test_a_source_holds_no_descriptor_and_gives_its_memory_back(tmp_path):
    """Thousands of sources may be open at a time; one that died, with all its documents, leaves
    nothing mapped.
    """
    write(tmp_path / "x.npy", [[1, 2], [3]])
    source = TokenSource(tmp_path / "x.npy", name=None)
    held = source[0]
    assert open_files(tmp_path) == []
    del source
    assert held.tolist() == [1, 2]
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    del held
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


# ---- Documents that a token ends, or begins


def bare(path, *tokens):
    """A `.npy` file of tokens alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.array(tokens, np.uint16))
    return path


@pytest.mark.parametrize(
    ("tokens", "ends", "begins"),
    [
        ([1, 2, 9, 3, 9], [[1, 2, 9], [3, 9]], [[1, 2], [9, 3], [9]]),
        ([9, 1, 9, 9, 2], [[9], [1, 9], [9], [2]], [[9, 1], [9], [9, 2]]),
        ([9], [[9]], [[9]]),
        ([1, 9], [[1, 9]], [[1], [9]]),
    ],
)
def test_a_token_ends_or_begins_documents(tmp_path, tokens, ends, begins):
    """It stays in its document, as the last or the first one; what lies before the first and after
    the last is kept, too.
    """
    path = bare(tmp_path / "x.npy", *tokens)
    for arguments, expected in (({"end_of_text": 9}, ends), ({"begin_of_text": 9}, begins)):
        source = TokenSource(path, name=None, **arguments)
        assert [one.tolist() for one in source] == expected
        assert source.lengths.tolist() == [len(one) for one in expected]


def test_documents_are_found_once_and_again_in_a_file_that_was_changed(tmp_path, monkeypatch):
    """What was found is kept beside the file; another version of it is noticed, and so is what was
    damaged.
    """
    path = bare(tmp_path / "x.npy", 1, 9, 2, 9)
    read = []
    find = MarkedByToken._find
    monkeypatch.setattr(
        MarkedByToken, "_find", lambda self, file: read.append(file.path) or find(self, file)
    )
    for _ in range(2):
        source = TokenSource(path, end_of_text=9, name=None)
        assert [one.tolist() for one in source] == [[1, 9], [2, 9]]
    assert len(read) == 1
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npy.to-9.headrace-index"]
    other = TokenSource(path, end_of_text=2)
    assert len(read) == 2
    assert other.fingerprint != source.fingerprint
    bare(path, 1, 2, 3, 9, 5)
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        source[0]
    for left in (3, 4):
        assert [one.tolist() for one in TokenSource(path, end_of_text=9, name=None)] == [
            [1, 2, 3, 9],
            [5],
        ]
        assert len(read) == left
        kept = tmp_path / "x.npy.to-9.headrace-index"
        kept.write_bytes(kept.read_bytes()[:-8] + bytes(8))


def test_a_folder_that_cannot_be_written_and_index_dir(tmp_path, monkeypatch):
    """What was found is then kept in the user's cache folder; `index_dir=` names another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    path = bare(tmp_path / "x.npy", 1, 9, 2, 9)
    TokenSource(path, end_of_text=9, index_dir=tmp_path / "there")
    (
        tmp_path / "x.npy.to-9.headrace-index"
    ).mkdir()  # no file can be put in its place, whoever runs this
    assert len(TokenSource(path, end_of_text=9)) == 2
    kept = [
        name
        for folder in ("there", "home/headrace-indices")
        for name in os.listdir(tmp_path / folder)
    ]
    assert [name.split("-", 1)[1] for name in kept] == ["x.npy.to-9.headrace-index"] * 2


def test_a_large_file_is_gone_through_in_pieces(tmp_path, monkeypatch):
    """Tokens at the edges of pieces end documents as all others do."""
    monkeypatch.setattr("headrace.sources.tokens.ended._BYTES_AT_ONCE", 8)
    tokens = np.random.default_rng(0).integers(8, 11, 1000).astype(np.uint16)
    source = TokenSource(bare(tmp_path / "x.npy", *tokens), end_of_text=9, name=None)
    assert_same(np.concatenate(list(source)), tokens)
    assert [one.tolist().count(9) for one in source][:-1] == [1] * (len(source) - 1)
    assert all(one[-1] == 9 for one in [*source][:-1])


def test_a_token_that_is_nowhere_is_told(tmp_path):
    """A file without it is one document, with a warning; a token that its dtype cannot have is an
    error.
    """
    path = bare(tmp_path / "x.npy", 1, 2, 3)
    with pytest.warns(
        UserWarning, match=r"x\.npy: end_of_text=9 is nowhere among its 3 tokens, .* your tokenizer"
    ):
        assert len(TokenSource(path, end_of_text=9)) == 1
    with pytest.raises(
        ValueError,
        match=r"begin_of_text=70000 is not a token of .*dtype uint16, so they are from 0 to",
    ):
        TokenSource(path, begin_of_text=70000)


def test_a_growing_folder_of_bare_shards(tmp_path):
    """Shards that come later are split by the same token."""
    bare(tmp_path / "a.npy", 1, 9, 2, 9)
    source = TokenSource(tmp_path, end_of_text=9, growing=True, name=None)
    bare(tmp_path / "b.npy", 3, 9)
    assert source.newest_generation() == 1
    assert [one.tolist() for one in source.at_generation(1)] == [[1, 9], [2, 9], [3, 9]]


# ---- Several files


def in_three(folder, count=40):
    """Files whose documents, in the order of names, are the first ones."""
    for name, keys in (("a", range(10)), ("b", range(10, 11)), ("c", range(11, count))):
        write(folder / f"{name}.npy", map(document, keys))
    return folder


def test_several_files_are_named_in_any_way(tmp_path, monkeypatch):
    """A folder, a glob that finds other files of ours, a list, `~`; a list keeps its order, and may
    name a file twice.
    """
    in_three(tmp_path / "data")
    (tmp_path / "data" / "d.npy.00.unfinished").write_bytes(b"")
    monkeypatch.setenv("HOME", str(tmp_path))
    for paths in (
        "~/data",
        tmp_path / "data",
        "~/data/*",
        ["~/data/a.npy", tmp_path / "data" / "[bc].npy"],
    ):
        source = TokenSource(paths, name=None)
        assert_same(list(reader_of(source)(np.arange(40))), [document(key) for key in range(40)])
        assert source.lengths.tolist() == [key % 7 for key in range(40)]
    twice = TokenSource([tmp_path / "data" / f"{name}.npy" for name in "bab"], name=None)
    assert [document.tolist() for document in twice] == [
        document(key).tolist() for key in [10, *range(10), 10]
    ]


def test_several_files_are_told_apart_by_names_and_content(tmp_path):
    """And by their order; a folder of one file is the source that the file is, whatever
    its name.
    """
    in_three(tmp_path / "data")
    paths = [tmp_path / "data" / f"{name}.npy" for name in "abc"]
    fingerprint = TokenSource(paths).fingerprint
    assert fingerprint == TokenSource(tmp_path / "data").fingerprint
    others = [
        TokenSource(paths[::-1]),
        TokenSource(paths[:2]),
        TokenSource(paths, name="code"),
        TokenSource(paths[:1]),
    ]
    told = {str(one) for one in (fingerprint, *(other.fingerprint for other in others))}
    for suffix in ("", ".offsets"):
        os.rename(f"{paths[2]}{suffix}", tmp_path / "data" / f"d.npy{suffix}")
    assert len({*told, str(TokenSource(tmp_path / "data").fingerprint)}) == 6
    write(tmp_path / "alone" / "z.npy", map(document, range(10)))
    assert TokenSource(tmp_path / "alone").fingerprint == TokenSource(paths[0]).fingerprint


def test_files_of_one_source_fit_together(tmp_path):
    """Offsets are those of one file, and all files have one dtype; the error names the file that
    does not fit.
    """
    in_three(tmp_path)
    with pytest.raises(
        ValueError,
        match=(
            r"offsets= belongs to a single file, but there are 3 files: .*Write the offsets of each"
        ),
    ):
        TokenSource(tmp_path, [0, 1])
    write(tmp_path / "d.npy", [[1]], np.int32)
    with pytest.raises(
        SourceError, match=r"has values of dtype int32, but .*has uint16\. Write all files"
    ):
        TokenSource(tmp_path)


def test_raw_files_of_documents_of_one_length(tmp_path):
    """What remains at the end of each is left out; a file that is shorter than a
    document has none.
    """
    for name, tokens in (("a", range(7)), ("b", range(2)), ("c", range(20, 29))):
        np.array(tokens, np.uint16).tofile(tmp_path / f"{name}.bin")
    source = TokenSource(tmp_path / "*.bin", dtype=np.uint16, document_length=3, name=None)
    assert [one.tolist() for one in source] == [
        [0, 1, 2],
        [3, 4, 5],
        [20, 21, 22],
        [23, 24, 25],
        [26, 27, 28],
    ]


def test_loaders_pack_find_and_resume_over_several_files(tmp_path):
    """They give what they give of one file with the same documents."""
    write(tmp_path / "one.npy", map(document, range(40)))
    one, several = TokenSource(tmp_path / "one.npy"), TokenSource(in_three(tmp_path / "data"))
    rows = [
        list(headrace.MapDataset.source(source).shuffle(seed=1).pack(16, window=10))
        for source in (one, several)
    ]
    assert_same(*rows)
    batches = []
    for source in (one, several):
        batch = headrace.Batch(4, batch_fn=headrace.pad_batch(length={"tokens": 8}))
        loader = headrace.load(source, shuffle=True, seed=3, num_epochs=2, transformations=[batch])
        with iter(loader) as iterator:
            batches.append([next(iterator) for _ in range(7)])
            assert batches[-1][5]["tokens"].sum() == sum(
                source[key]["tokens"].sum() for key in loader.records_at(5)
            )
            state = iterator.get_state()
        with iter(loader) as iterator:
            iterator.set_state(state)
            batches[-1] += iterator
    assert_same(*batches)


# ---- Very many files


def small_files(folder, count):
    """Files of two documents each."""
    folder.mkdir()
    for number in range(count):
        np.save(folder / f"{number:04d}.npy", np.array([number, number, 7], np.uint16))
        with open(folder / f"{number:04d}.npy.offsets", "wb") as file:
            np.save(file, np.array([0, 2, 3]))
    return folder


def mapped_files(folder):
    """Mappings of files under a folder that this process has."""
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line
    ]


@pytest.mark.slow
def test_more_files_than_may_be_mapped_are_read(tmp_path, monkeypatch):
    """Of very many files in one source few are open and none is mapped, whatever documents are
    held; records are the same.
    """
    folder = small_files(tmp_path / "data", 300)
    mapped = TokenSource(folder, name=None)
    expected, keys = (
        [document.copy() for document in mapped],
        np.random.default_rng(0).permutation(600),
    )
    del mapped
    monkeypatch.setattr("headrace.sources.tokens.documents.MOST_MAPPED", 299)
    source = TokenSource(folder, name=None)
    held = source.__getitems__(keys)
    assert_same(held, [expected[key] for key in keys])
    assert not any(document.flags.writeable for document in held)
    assert 0 < len(open_files(folder)) <= 256
    assert mapped_files(folder) == []
    assert (
        source.fingerprint
        == TokenSource(
            [folder / f"{number:04d}.npy" for number in range(300)], name=None
        ).fingerprint
    )
    source.close()
    assert open_files(folder) == []


def test_the_mappings_of_many_sources_are_bounded(tmp_path, monkeypatch):
    """A mix of very many sources keeps as many files mapped as one source may."""
    monkeypatch.setattr("headrace.files.reader_pool._mapped", _Table(8))
    folder = small_files(tmp_path / "data", 40)
    sources = [TokenSource(folder / f"{number:04d}.npy") for number in range(40)]
    for _ in range(2):
        for number, source in enumerate(sources):
            assert source[0]["tokens"].tolist() == [number, number]
    assert 0 < len(mapped_files(folder)) <= 8
    assert open_files(folder) == []


def test_of_very_many_files_some_are_looked_into(tmp_path, monkeypatch):
    """Names and sizes of all, and the content of some, tell two such sources apart."""
    folder = small_files(tmp_path / "data", 20)
    monkeypatch.setattr("headrace.sources.tokens.documents._MAX_ALL_SAMPLED", 10)
    monkeypatch.setattr("headrace.sources.tokens.documents._SAMPLED_FILES", 5)
    looked = []
    look = DocumentFile.sample
    monkeypatch.setattr(
        DocumentFile, "sample", lambda self, pieces: looked.append(self.path) or look(self, pieces)
    )
    fingerprints = [TokenSource(folder).fingerprint for _ in range(2)]
    assert fingerprints[0] == fingerprints[1]
    assert len(looked) == 10
    os.rename(folder / "0003.npy", folder / "0003b.npy")
    os.rename(folder / "0003.npy.offsets", folder / "0003b.npy.offsets")
    assert TokenSource(folder).fingerprint != fingerprints[0]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of files of which facts are kept, and the paths of those that are looked at."""
    monkeypatch.setattr("headrace.sources.tokens.documents.MANY_FILES", 10)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    looked = []
    look = TokenSource._counts
    monkeypatch.setattr(
        TokenSource,
        "_counts",
        lambda self, path: looked.append(os.path.basename(path)) or look(self, path),
    )
    return small_files(tmp_path / "data", 20), looked


def documents_of(source):
    """All its documents, as lists."""
    return [one.tolist() for one in source]


def test_facts_about_many_files_are_found_once(kept):
    """The next source on the same files looks at none of them, and is the same one."""
    folder, looked = kept
    sources = [TokenSource(folder, name=None) for _ in range(2)]
    assert len(looked) == 20
    assert (
        documents_of(sources[0])
        == documents_of(sources[1])
        == [x for n in range(20) for x in ([n, n], [7])]
    )
    assert sources[0].fingerprint == sources[1].fingerprint
    assert sources[1].lengths.tolist() == [2, 1] * 20
    assert len(TokenSource(folder, name=None, dtype=None, document_length=3)) == 20
    assert len(looked) == 40


@pytest.mark.parametrize("suffix", ["", ".offsets"])
def test_a_file_that_was_changed_is_looked_at_again(kept, suffix):
    """And only that one, whichever of its two files it is."""
    folder, looked = kept
    before = TokenSource(folder, name=None)
    with open(folder / f"0003.npy{suffix}", "wb") as file:
        np.save(file, np.array([0, 1, 3]) if suffix else np.array([1, 2, 3], np.uint16))
    for _ in range(2):
        source = TokenSource(folder, name=None)
        assert looked[20:] == ["0003.npy"]
        assert documents_of(source)[6:8] == ([[3], [3, 7]] if suffix else [[1, 2], [3]])
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        before[6]


def test_kept_facts_that_are_damaged_or_of_missing_files_are_not_taken(kept):
    """Those that were damaged are found anew; a file that is gone, or of another dtype, is named as
    ever.
    """
    folder, looked = kept
    expected = documents_of(TokenSource(folder, name=None))
    (facts,) = folder.glob(".files.*.headrace-index")
    facts.write_bytes(facts.read_bytes()[:-8] + bytes([1] * 8))
    assert documents_of(TokenSource(folder, name=None)) == expected
    assert len(looked) == 40
    paths = sorted(folder.glob("*.npy"))
    TokenSource(paths)
    np.save(paths[5], np.zeros(3, np.int32))
    with pytest.raises(SourceError, match="has values of dtype int32"):
        TokenSource(paths)
    os.remove(f"{paths[5]}.offsets")
    with pytest.raises(SourceError, match="where its records begin"):
        TokenSource(paths)
    os.remove(paths[5])
    with pytest.raises(SourceNotFoundError, match=r"0005\.npy"):
        TokenSource(paths)


def test_facts_that_cannot_be_kept_beside_the_files_are_kept_in_the_cache(kept):
    """They are in the user's cache folder then; and where nothing can be written they are found
    anew.
    """
    folder, looked = kept
    TokenSource(folder)
    (facts,) = folder.glob(".files.*.headrace-index")
    os.remove(facts)
    facts.mkdir()  # no file can be put in its place, whoever runs this
    for _ in range(2):
        assert len(TokenSource(folder)) == 40
    assert len(looked) == 40


# ---- What is refused


def spoilt(tmp_path, tokens=None, offsets=None, raw=None):
    """A path with these files."""
    path = tmp_path / "x.npy"
    for name, content in ((path, tokens), (tmp_path / "x.npy.offsets", offsets)):
        if content is not None:
            with open(name, "wb") as file:
                np.save(file, content)
    if raw is not None:
        path.write_bytes(raw)
    return path


TOKENS = np.arange(5, dtype=np.uint16)


@pytest.mark.parametrize(
    ("files", "arguments", "text"),
    [
        ({}, {}, r"no file .*x\.npy"),
        ({"tokens": TOKENS}, {}, r"where its records begin, because .*is missing, which TokenWriter"),
        ({"tokens": TOKENS}, {"offsets": "elsewhere.npy"}, r"no file 'elsewhere\.npy'"),
        ({"tokens": TOKENS, "offsets": np.array([0, 6])}, {}, r"x\.npy\.offsets: the offsets go from 0 to 6, .* 5 tokens"),
        ({"tokens": TOKENS, "offsets": np.array([-1, 5])}, {}, "the offsets go from -1 to 5"),
        ({"tokens": TOKENS, "offsets": np.array([0, 3, 2, 5])}, {}, "offset 2 is 2, less than 3, the offset before it"),
        ({"tokens": TOKENS, "offsets": np.array([0, 4])}, {}, "end at token 4, but there are 5 tokens"),
        ({"tokens": TOKENS, "offsets": np.array([], int)}, {}, r"there are no offsets\. Document k is"),
        ({"tokens": TOKENS[:0], "offsets": np.array([0])}, {}, "no documents"),
        ({"tokens": TOKENS, "offsets": np.array([0.0, 5.0])}, {}, r"x\.npy\.offsets has values of dtype float64"),
        ({"tokens": TOKENS}, {"offsets": [0, 6]}, r"x\.npy with offsets=: the offsets go from 0 to 6"),
        ({"tokens": TOKENS}, {"document_length": 6}, r"fewer tokens than document_length=6 \(5 in all\)"),
        ({"tokens": TOKENS}, {"dtype": np.int32}, r"has values of dtype uint16, but dtype=int32 was passed\. Leave dtype= out"),
        ({"tokens": TOKENS.astype(float)}, {}, "has values of dtype float64, but must have integers"),
        ({"tokens": np.array(["a", 1], object)}, {}, "cannot be read"),
        ({"tokens": np.zeros((2, 3), int)}, {}, r"shape \(2, 3\).*one axis.*reshape\(-1\)"),
        ({"raw": b""}, {}, r"the file is empty \(0 bytes\)"),
        ({"raw": b"12345678"}, {}, r"\.npy file\. Save .*for a file of bare tokens, pass dtype="),
        ({"raw": b"123"}, {"dtype": np.uint16}, "3 bytes, which is not a multiple of 2, the size of uint16"),
        ({"raw": b"\x93NUMPY\x01\x00"}, {}, "cannot be read"),
    ],
)  # fmt: skip
def test_files_that_hold_something_else_are_told(tmp_path, files, arguments, text):
    """A file that is missing, empty, cut off, or no tokens at all: the error names the file, what
    was found and the remedy.
    """
    path = spoilt(tmp_path, **files)
    with pytest.raises(SourceError, match=text) as caught:
        TokenSource(path, **arguments)
    assert len(str(caught.value)) < 500


def test_a_folder_without_files_of_tokens_is_told(tmp_path):
    """By what was looked for in it."""
    (tmp_path / "x.bin").write_bytes(b"12")
    with pytest.raises(SourceNotFoundError, match=r"no file named \*\.npy"):
        TokenSource(tmp_path)


def test_a_cut_off_file_is_told(tmp_path):
    """A `.npy` file that is shorter than its header says is an error when the source is made."""
    path = spoilt(tmp_path, TOKENS, np.array([0, 5]))
    os.truncate(path, path.stat().st_size - 2)
    with pytest.raises(SourceError, match=r"x\.npy cannot be read"):
        TokenSource(path)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dtype": "float32"}, TypeError, "dtype='float32' is not an integer type"),
        ({"dtype": bool}, TypeError, "integer type"),
        ({"dtype": "tokens"}, TypeError, "integer type"),
        ({"offsets": [0.5, 1]}, TypeError, "offsets=.*must be integers with one axis"),
        ({"offsets": 5}, TypeError, "offsets=5 must be integers with one axis"),
        ({"offsets": [0, 5], "document_length": 5}, ValueError, "Pass only one of them"),
        (
            {"end_of_text": 1, "document_length": 5},
            ValueError,
            "document_length= and end_of_text= both say",
        ),
        ({"end_of_text": 1, "begin_of_text": 1}, ValueError, "Pass only one of them"),
        (
            {"end_of_text": "<eos>"},
            TypeError,
            r"end_of_text='<eos>' is a str\. Pass the ID of a token, such as .*",
        ),
        ({"document_length": 0}, ValueError, "document_length=0 must be at least 1"),
        ({"name": 3}, TypeError, r"name=3 is not a string\. Pass a string, or None"),
    ],
)
def test_arguments_that_cannot_be_are_told(tmp_path, arguments, error, text):
    """An argument of another kind is an error that says what to pass."""
    with pytest.raises(error, match=text):
        TokenSource(spoilt(tmp_path, TOKENS), **arguments)


_LOOKS = (
    lambda source: source[0],
    lambda source: source.lengths,
    lambda source: source.fingerprint,
    lambda source: source.file_place(0),
)


@pytest.mark.parametrize("name", ["x.npy", "x.npy.offsets"])
def test_a_file_that_was_changed_is_told(tmp_path, name):
    """Files that were cut off after the source was made are an error, and end no process, whatever
    looks at them.
    """
    write(tmp_path / "x.npy", [[1, 2, 3], [4]])
    source = TokenSource(tmp_path / "x.npy")
    unread = pickle.loads(pickle.dumps(source))
    os.truncate(tmp_path / name, 0)
    for one, look in itertools.product((source, unread), _LOOKS):
        with pytest.raises(
            SourceError,
            match=rf"{name}: the file changed after the source was made \(\d+ → 0 bytes\)",
        ):
            look(one)


def test_a_file_that_was_removed_stays_readable(tmp_path):
    """What is mapped stays whole for its readers when its name is gone; one who opens it later is
    told.
    """
    write(tmp_path / "x.npy", [[1, 2, 3], [4]])
    source = TokenSource(tmp_path / "x.npy", name=None)
    assert source[1].tolist() == [4]
    for name in os.listdir(tmp_path):
        os.remove(tmp_path / name)
    assert source[0].tolist() == [1, 2, 3]
    source.close()
    with pytest.raises(SourceNotFoundError):
        source[0]


# ---- The writer


@pytest.mark.parametrize(
    ("tokens", "error", "text"),
    [
        (
            [1, 65536],
            ValueError,
            "token .*does not fit uint16, which holds 0 to .*Pass a dtype= that holds it",
        ),
        (np.array([5, -1]), ValueError, "token -1 does not fit uint16"),
        (
            [0.5],
            TypeError,
            r"must be integers with one axis, of at most 64 bits, not a list \(\[0\.5\]\)",
        ),
        ([True], TypeError, "integers with one axis"),
        ([2**70], TypeError, "integers with one axis"),
        ("text", TypeError, r"not a str \('text'\)\. Turn text into tokens first"),
        (b"text", TypeError, "tokens first"),
        ([[1, 2], [3]], TypeError, "write several documents with extend"),
        (np.zeros((2, 2), int), TypeError, "write several documents with extend"),
        (5, TypeError, "integers with one axis"),
        (None, TypeError, "integers with one axis"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_and_nothing_of_it_is_written(
    tmp_path, tokens, error, text
):
    """What are no tokens of the file's dtype is an error; the writer goes on with the next
    document.
    """
    with TokenWriter(tmp_path / "x.npy", dtype=np.uint16) as writer:
        writer.append([1])
        with pytest.raises(error, match=text):
            writer.append(tokens)
        writer.append([65535])
    source = TokenSource(tmp_path / "x.npy", name=None)
    assert [one.tolist() for one in source.__getitems__([0, 1])] == [[1], [65535]]


def test_arrays_of_another_dtype_are_converted(tmp_path):
    """Tokens of any dtype whose values fit are taken, in any layout."""
    write(
        tmp_path / "x.npy",
        [np.arange(8)[::-2], np.array([1], np.uint64), np.array([1], ">i4")],
        np.uint8,
    )
    source = TokenSource(tmp_path / "x.npy", name=None)
    assert [one.tolist() for one in source.__getitems__([0, 1, 2])] == [[7, 5, 3, 1], [1], [1]]


def test_nothing_appears_before_the_writer_is_closed(tmp_path):
    """Until then there is no file of that name; what is there has a name that ends in
    `.unfinished`.
    """
    writer = TokenWriter(tmp_path / "x.npy")
    writer.append([1])
    with pytest.raises(SourceNotFoundError):
        TokenSource(tmp_path / "x.npy")
    assert all(name.endswith(".unfinished") for name in os.listdir(tmp_path))
    writer.close()
    writer.close()
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npy.offsets"]
    with pytest.raises(ClosedError, match="was closed"):
        writer.append([2])


@pytest.mark.parametrize("how", ["exception", "discard", "forgotten", "no document"])
def test_a_writer_that_does_not_finish_leaves_nothing(tmp_path, how):
    """An exception in the block, `discard`, a writer that is forgotten, or without any document: no
    file is left.
    """
    if how == "exception":
        with pytest.raises(KeyError), TokenWriter(tmp_path / "x.npy") as writer:
            writer.append([1])
            raise KeyError
    elif how == "discard":
        writer = TokenWriter(tmp_path / "x.npy")
        writer.append([1])
        writer.discard()
        writer.close()
    elif how == "forgotten":
        writer = TokenWriter(tmp_path / "x.npy")
        writer.append([1])
        del writer
    else:
        with (
            pytest.raises(ValueError, match=r"no document was written"),
            TokenWriter(tmp_path / "x.npy"),
        ):
            pass
    assert os.listdir(tmp_path) == []


def test_a_writer_that_cannot_make_its_second_file_leaves_none(tmp_path):
    """The name of the file of offsets is longer, so of some names it is too long for the file
    system, and no file is left.
    """
    refused = 0
    for length in range(200, 252):
        try:
            TokenWriter(tmp_path / f"{'x' * (length - 4)}.npy").discard()
        except OSError:
            refused += 1
        assert os.listdir(tmp_path) == []
    assert 8 < refused < 52


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_is_there_is_not_overwritten(tmp_path, when):
    """A path that is taken is an error, when the writer is made and when it is closed; the file
    stays what it is.
    """
    if when == "before":
        write(tmp_path / "x.npy", [[1]])
        with pytest.raises(FileExistsError, match=r"already\. Remove it, or write to another path"):
            TokenWriter(tmp_path / "x.npy")
    else:
        with pytest.raises(FileExistsError), TokenWriter(tmp_path / "x.npy") as late:
            late.append([2])
            write(tmp_path / "x.npy", [[1]])
    assert TokenSource(tmp_path / "x.npy", name=None)[0].tolist() == [1]
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npy.offsets"]


def test_a_path_of_another_format_is_refused(tmp_path):
    """The writer writes `.npy`, and a name that says something else is an error."""
    with pytest.raises(ValueError, match=r"end in \.npy"):
        TokenWriter(tmp_path / "train.bin")
    with pytest.raises(TypeError, match="integer type"):
        TokenWriter(tmp_path / "train.npy", dtype=float)


DOCUMENTS = [[1, 2, 3], list(range(5000)), [], [4]]


def killed_after(path, lines):
    """Writes in a child that is killed after so many lines of the writer's code; whether it was."""
    child = os.fork()
    if child:
        return exit_code(child) == -signal.SIGKILL
    left = iter(range(lines))

    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith(("/tokens/writer.py", "/files/streams.py")):
            return None
        if event == "line" and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    code = 1
    try:
        sys.settrace(trace)
        write(path, DOCUMENTS)
        code = 0
    finally:
        os._exit(code)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("stride", chosen([1, 21], 21))
def test_a_killed_writer_leaves_a_whole_file_or_none(tmp_path, stride):
    """Killed before a line of the writer's code: the path gives all documents or says that it is
    not there.
    """
    there = []
    for lines in range(0, 10_000, stride):
        path = tmp_path / f"{lines}" / "x.npy"
        killed = killed_after(path, lines)
        there.append(path.exists())
        if not there[-1]:
            with pytest.raises(SourceNotFoundError):
                TokenSource(path)
            write(path, DOCUMENTS)  # what a killed writer left is in nobody's way
        assert [
            one.tolist() for one in TokenSource(path, name=None).__getitems__(range(4))
        ] == DOCUMENTS
        if not killed:
            break
    assert len(there) > 50 // stride
    assert there == sorted(there)
    assert there[-1]


@pytest.mark.parametrize("name", ["tokens", "code", None])
def test_packing_is_planned_from_the_lengths_that_a_source_tells(tmp_path, name):
    """A chain that plans its rows gives those of a `Pack` that reads what comes, whatever records
    are called.
    """
    write(tmp_path / "x.npy", map(document, range(40)))
    source = TokenSource(tmp_path / "x.npy", name=name)
    planned = headrace.MapDataset.source(source).pack(16, window=10)
    read = headrace.load(source, transformations=[headrace.Pack(16, window=10)], num_epochs=1)
    rows = list(read)
    assert len(planned) == len(rows)
    for one, other in zip(planned, rows):
        assert_same(one, other)
