"""Megatron-LM's `.bin` and `.idx`: files written here byte by byte, as its own writer lays them
out.
"""

import os
import pickle
import struct
from contextlib import suppress

import numpy as np
import pytest
from support.pipelines import chosen
from support.source_conformance import SourceConformance, assert_same, open_files

import headrace
from headrace import MegatronSource
from headrace.errors import NoRecordsError, SourceError, SourceNotFoundError
from headrace.sources import lengths_of

CODES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 6: "d", 7: "f", 8: "H", 9: "I", 10: "Q"}
"""Of dtypes, as `struct` writes them."""


def write(prefix, content, code=8, modes=None, **spoilt):
    """Writes documents, each a list of sequences; `spoilt` are parts of the index to write in place
    of the right ones.
    """
    sequences = [sequence for document in content for sequence in document]
    size = struct.calcsize("<" + CODES[code])
    ends = [0]
    for document in content:
        ends.append(ends[-1] + len(document))
    starts = [size * sum(map(len, sequences[:number])) for number in range(len(sequences))]
    parts = {
        "magic": b"MMIDIDX\x00\x00",
        "version": struct.pack("<Q", 1),
        "dtype": struct.pack("<B", code),
        "sequences": struct.pack("<Q", len(sequences)),
        "documents": struct.pack("<Q", len(ends)),
        "lengths": b"".join(struct.pack("<i", len(sequence)) for sequence in sequences),
        "pointers": b"".join(struct.pack("<q", start) for start in starts),
        "ends": b"".join(struct.pack("<q", end) for end in ends),
        "modes": b"" if modes is None else struct.pack(f"<{len(modes)}b", *modes),
    }
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_suffix(".idx").write_bytes(b"".join({**parts, **spoilt}.values()))
    tokens = b"".join(
        struct.pack("<" + CODES[code], token) for sequence in sequences for token in sequence
    )
    prefix.with_suffix(".bin").write_bytes(tokens)
    return prefix


def sequence(key):
    """Sequence `key`; each fifth is empty."""
    return list(range(key * 3, key * 3 + key % 5))


def document(key):
    """Document `key`, of none to three sequences."""
    return [sequence(10 * key + number) for number in range(key % 4)]


def flat(document):
    """The tokens of a document."""
    return [token for sequence in document for token in sequence]


class TestDocuments(SourceConformance):
    """Documents of several sequences, with modes as multimodal datasets have them."""

    on_files = True

    def write(self, folder, count):
        documents = [document(key) for key in range(count)]
        write(folder / "web_document", documents, modes=[0] * sum(map(len, documents)))

    def open(self, folder, count):
        return MegatronSource(folder / "web_document")

    def expected_record(self, key):
        return {"tokens": np.array(flat(document(key)), np.uint16)}


class TestSequences(SourceConformance):
    """The sequences of several files, one of which has none."""

    on_files = True

    def write(self, folder, count):
        write(
            folder / "a",
            [[sequence(0), sequence(1)], [], [sequence(key) for key in range(2, 50)]],
            code=4,
        )
        write(folder / "b", [], code=4)
        write(folder / "c", [[sequence(key) for key in range(50, count)]], code=4)

    def open(self, folder, count):
        return MegatronSource(folder, sequences=True, name=None)

    def expected_record(self, key):
        return np.array(sequence(key), np.int32)


@pytest.mark.parametrize("code", CODES)
def test_every_dtype_of_the_format_comes_back(tmp_path, code):
    """Tokens of each dtype code come back with its dtype, at its limits."""
    dtype = np.dtype("<" + CODES[code])
    most = np.iinfo(dtype).max if dtype.kind in "iu" else 2.5
    source = MegatronSource(write(tmp_path / "x", [[[most, 0], [1]], [[most]]], code), name=None)
    assert_same(
        list(source.__getitems__([0, 1])), [np.array([most, 0, 1], dtype), np.array([most], dtype)]
    )
    assert source.lengths.tolist() == [3, 1]


def test_files_are_named_in_any_way(tmp_path):
    """By prefix, with a dot in it too, by either file, a glob, a folder, a list, which keeps its
    order.
    """
    for name, keys in (("v1.5_document", range(5)), ("w_document", range(5, 9))):
        documents = [[sequence(key)] for key in keys]
        write(tmp_path / name, documents) if "." not in name else write(tmp_path / "tmp", documents)
    for suffix in (".bin", ".idx"):
        os.rename(tmp_path / f"tmp{suffix}", tmp_path / f"v1.5_document{suffix}")
    first, second = (str(tmp_path / name) for name in ("v1.5_document", "w_document"))
    for paths in (
        [first, second],
        tmp_path,
        f"{tmp_path}/*",
        f"{tmp_path}/*_document.bin",
        [f"{first}.bin", f"{second}.idx"],
    ):
        source = MegatronSource(paths, name=None)
        assert [one.tolist() for one in source] == [sequence(key) for key in range(9)]
    assert [one.tolist() for one in MegatronSource([second, first], name=None)] == [
        sequence(key) for key in [5, 6, 7, 8, 0, 1, 2, 3, 4]
    ]


def test_a_document_is_a_read_only_view_and_no_descriptor_stays_open(tmp_path):
    """Nothing is copied, no operation can change the file, and a pickle holds paths alone."""
    source = MegatronSource(write(tmp_path / "x", [[[1, 2], [3]], [[4] * 9999]]))
    one, again = (source[0]["tokens"] for _ in range(2))
    assert np.shares_memory(one, again)
    with pytest.raises(ValueError, match="read-only"):
        one += 1
    assert open_files(tmp_path) == []
    assert len(pickle.dumps(source)) < 2000


def test_its_place_is_told(tmp_path):
    """A record's file, its number in it, and its tokens are known, as for messages."""
    for name in "ab":
        write(tmp_path / name, [[[1, 2]], [[3], [4, 5]]])
    place = MegatronSource(tmp_path).file_place(3)
    assert (place.file, place.record, place.tokens) == (f"{tmp_path}/b.bin", 1, (2, 5))


@pytest.mark.slow
def test_loaders_pack_budget_and_resume(tmp_path):
    """Rows of `Pack`, and batches by budget planned from its lengths, are those of the same
    documents in memory.
    """
    documents = [[[key + 1] * (key % 7 + 1), [9]] for key in range(40)]
    write(tmp_path / "x", documents)
    source = MegatronSource(tmp_path / "x")
    memory = [{"tokens": np.array(flat(each), np.uint16)} for each in documents]
    assert lengths_of(source).tolist() == [len(flat(each)) for each in documents]
    packed = [
        list(headrace.MapDataset.source(each).shuffle(seed=1).pack(16, window=10))
        for each in (source, memory)
    ]
    assert_same(*packed)
    batches = []
    for workers in (0, 2):
        budget = headrace.BudgetBatch(32, pad_to=[8, 16])
        loader = headrace.load(
            source,
            seed=2,
            shuffle=True,
            num_epochs=1,
            transformations=[budget],
            worker_count=workers,
        )
        with iter(loader) as iterator:
            batches.append([next(iterator) for _ in range(3)])
            state = iterator.get_state()
        with iter(loader) as iterator:
            iterator.set_state(state)
            batches[-1] += iterator
        assert len(batches[-1]) == len(loader)
    assert_same(*batches)


def test_a_growing_source_leaves_out_what_megatron_still_writes(tmp_path):
    """A `.bin` whose `.idx` is not there, or not whole, comes with a later look."""
    write(tmp_path / "a", [[[1, 2]]])
    source = MegatronSource(tmp_path, growing=True, name=None)
    whole = write(tmp_path / "b", [[[3]], [[4]]]).with_suffix(".idx").read_bytes()
    (tmp_path / "b.idx").write_bytes(whole[:-3])
    assert source.newest_generation() == 0
    (tmp_path / "b.idx").write_bytes(whole)
    assert source.newest_generation() == 1
    assert [one.tolist() for one in source.at_generation(1)] == [[1, 2], [3], [4]]
    os.remove(tmp_path / "a.idx")
    with pytest.raises(SourceError, match=r"there\. To read"):
        MegatronSource(tmp_path, growing=True)


def packed(kind, *numbers):
    """Numbers as they are in an index."""
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


SPOILT = {
    "magic": ({"magic": b"MMIDIDY\x00\x00"}, "index: it begins with"),
    "version": ({"version": packed("Q", 2)}, "has version 2 and dtype code 8, but only version 1"),
    "dtype": ({"dtype": b"\x0b"}, "dtype code 11, but only version 1 with codes 1 to 10 can be read"),
    "more sequences": ({"sequences": packed("Q", 4)}, "has 94 bytes, but 4 sequences in 2 documents need 106"),
    "too many": ({"sequences": packed("Q", 2**63)}, r"x\.idx has 94 bytes"),
    "no documents": ({"documents": packed("Q", 0)}, r"x\.idx is damaged: it says that it has no document offsets"),
    "cut off": ({"ends": packed("q", 0, 1)}, r"has 86 bytes, but 3 sequences in 2 documents need 94 bytes, or 97"),
    "cut off in the head": ({"dtype": b"", "sequences": b"", "documents": b"", "lengths": b"", "pointers": b"", "ends": b""},
                            r"has 17 bytes, but the header of a Megatron index has 34\. It is cut off"),
    "empty": (dict.fromkeys(("magic", "version", "dtype", "sequences", "documents", "lengths", "pointers", "ends"), b""),
              r"has 0 bytes, but the header of a Megatron index has 34\. It is cut off"),
    "longer": ({"lengths": packed("i", 2, 1, 3)}, r"sequence 2 should be at byte 6 with 3 tokens of uint16, but the \.bin"),
    "negative": ({"lengths": packed("i", 2, -1, 2)}, "sequence 1 should be at byte 4 with -1 tokens"),
    "before": ({"pointers": packed("q", -2, 4, 6)}, "sequence 0 should be at byte -2"),
    "odd": ({"pointers": packed("q", 0, 3, 6)}, "sequence 1 should be at byte 3"),
    "apart": ({"pointers": packed("q", 0, 6, 6)}, "sequence 1 belongs to"),
    "falling": ({"ends": packed("q", 0, 3, 2)}, r"x\.idx: document 2 begins at sequence 2, but the document before it"),
    "not ended": ({"ends": packed("q", 0, 1, 2)}, r"from sequence 0 to 2, not from 0 to 3, .*did not finish"),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
def test_a_damaged_index_is_told(tmp_path, how):
    """By the name of the file, what was found, and the remedy."""
    parts, text = SPOILT[how]
    write(tmp_path / "x", [[[1, 2], [3]], [[4, 5]]], **parts)
    with pytest.raises(SourceError, match=text) as caught:
        MegatronSource(tmp_path / "x")
    assert len(str(caught.value)) < 500


def test_documents_may_lie_apart_and_in_any_order(tmp_path):
    """Only the sequences of one document must follow each other."""
    write(tmp_path / "x", [[[1, 2], [3]], [[4, 5]]], pointers=packed("q", 4, 8, 0))
    source = MegatronSource(tmp_path / "x", name=None)
    assert [one.tolist() for one in source] == [[3, 4, 5], [1, 2]]


def test_missing_and_changed_files_are_told(tmp_path):
    """A `.bin` or `.idx` that is missing, cut off, or changed after the source was made
    is named.
    """
    with pytest.raises(SourceNotFoundError, match=r"x\.bin"):
        MegatronSource(tmp_path / "x")
    write(tmp_path / "x", [[[1, 2], [3]], [[4, 5]]])
    source = MegatronSource(tmp_path / "x")
    os.truncate(tmp_path / "x.bin", 8)
    with pytest.raises(
        SourceError, match=r"the file changed after the source was made \(10 → 8 bytes\)"
    ):
        source[0]
    with pytest.raises(
        SourceError,
        match=(
            r"sequence 2 should be at byte 6 with 2 tokens of uint16, but the \.bin file has 4\. "
            r"The \.bin file is cut off"
        ),
    ):
        MegatronSource(tmp_path / "x")
    os.truncate(tmp_path / "x.bin", 7)
    with pytest.raises(
        SourceError, match="has 7 bytes, which is not a multiple of 2, the size of uint16"
    ):
        MegatronSource(tmp_path / "x")
    os.remove(tmp_path / "x.idx")
    with pytest.raises(SourceError, match=r"index .*which Megatron writes"):
        MegatronSource(tmp_path / "x")


def test_files_that_do_not_fit_together_or_hold_nothing_are_told(tmp_path):
    """Files of several dtypes, and none but empty ones, are errors; a path of one is told what
    reads it.
    """
    write(tmp_path / "a", [], code=4)
    with pytest.raises(NoRecordsError, match="no documents"):
        MegatronSource(tmp_path)
    write(tmp_path / "b", [[[1]]])
    with pytest.raises(SourceError, match="has values of dtype uint16"):
        MegatronSource(tmp_path)
    for path in ("x.idx", "x.bin"):
        with pytest.raises(TypeError, match=r"MegatronSource\(path\)"):
            headrace.load(path, batch_size=2)


_CHANGES = chosen(range(94), *range(0, 94, 13))


@pytest.mark.parametrize("at", _CHANGES)
def test_a_changed_byte_of_an_index_is_an_error_or_gives_tokens_of_the_file(tmp_path, at):
    """No damage makes a reader look outside of the files, which would end the process."""
    write(tmp_path / "x", [[[1, 2], [3]], [[4, 5]]])
    whole = bytearray((tmp_path / "x.idx").read_bytes())
    for value in (0, 1, 127, 128, 255):
        (tmp_path / "x.idx").write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        for sequences in (False, True):
            with suppress(SourceError):
                source = MegatronSource(tmp_path / "x", sequences=sequences, name=None)
                assert sum(one.nbytes for one in source) <= 2 * 10
