"""`headrace.convert` of text and arrays: tokens, and columns of Parquet."""

from __future__ import annotations

import numpy as np
import pytest
from support.conversions import WRITE, convert

import headrace
from headrace.errors import ConversionError, SourceError


def _tokenizer(path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "text": 1, **{str(number): 2 + number for number in range(30)}}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.save(str(path))
    return path


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.tfrecord"])
def test_text_becomes_tokens_document_by_document(name, tmp_path):
    """By a tokenizer's file; documents stand apart, and the dtype is the smallest that the
    vocabulary needs.
    """
    WRITE[name](tmp_path / name)
    convert(
        tmp_path / name,
        tmp_path / "out",
        "tokens",
        tokenizer=_tokenizer(tmp_path / "tokenizer.json"),
    )
    documents = headrace.TokenSource(tmp_path / "out" / "x.npy")
    assert [document["tokens"].tolist() for document in documents][7] == [1, 9]
    assert (len(documents), documents[39]["tokens"].tolist(), documents[0]["tokens"].dtype) == (
        40,
        [1, 0],
        np.uint16,
    )
    assert headrace.verify(tmp_path / "out") == []
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "manifest.json",
        "x.npy",
        "x.npy.offsets",
    ]


def test_tokens_that_are_there_stay_what_they_are(tmp_path):
    """Rows of arrays of whole numbers, without a tokenizer; a dtype that does not hold them is
    refused.
    """
    documents = [np.arange(n % 5) + n for n in range(300)]
    convert(
        [{"tokens": document} for document in documents],
        tmp_path / "out",
        "tokens",
        options={"dtype": "uint16"},
    )
    written = headrace.TokenSource(next((tmp_path / "out").glob("*.npy")), name=None)
    assert [one.tolist() for one in written] == [one.tolist() for one in documents]
    with pytest.raises(ConversionError, match=r"record 254: token .* does not fit uint8"):
        convert(
            [{"tokens": one} for one in documents],
            tmp_path / "two",
            "tokens",
            options={"dtype": "uint8"},
        )


def test_a_folder_of_tokens_is_one_source(tmp_path):
    """Of all its files in their order; an input without records gives a file without documents."""
    (tmp_path / "in").mkdir()
    for name, count in (("a", 3), ("b", 0), ("c", 2)):
        (tmp_path / "in" / f"{name}.jsonl").write_text(
            "".join(f"[{number}]\n" for number in range(count))
        )
    assert convert(tmp_path / "in", tmp_path / "out", "tokens").records == 5
    assert [one.tolist() for one in headrace.TokenSource(tmp_path / "out", name=None)] == [
        [0],
        [1],
        [2],
        [0],
        [1],
    ]
    assert len(list((tmp_path / "out").glob("*.npy"))) == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "rows",
    [
        np.arange(6, dtype=np.uint16),
        np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
        np.array(["a", "bc"]),
        np.random.default_rng(0).random((7, 3), np.float32),
        np.asfortranarray(np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)),
        np.zeros((3, 0)),
    ],
    ids=lambda rows: f"{rows.dtype}, {rows.ndim} axes",
)
def test_the_rows_of_arrays_are_a_column_of_parquet(rows, tmp_path):
    """`value`, with the dtype, and a fixed size where rows have axes: of `.npy` files, and of
    arrays in memory.
    """
    np.save(tmp_path / "x.npy", rows)
    for name, source, column in (
        ("a", tmp_path / "x.npy", "value"),
        ("b", rows, "value"),
        ("c", {"n": rows}, "n"),
    ):
        convert(source, tmp_path / name, "parquet")
        read = headrace.ParquetDataSource(tmp_path / name)
        assert list(read[0]) == [column]
        assert np.array_equal(
            [record[column] for record in read], rows.tolist() if rows.dtype.kind == "M" else rows
        )
        if rows.dtype.kind in "fui":
            assert read[0][column].dtype == rows.dtype


def test_a_dump_of_tokens_becomes_documents(tmp_path):
    """By a length, the last one shorter; or by the offsets that a `TokenWriter` wrote. The dtype
    stays.
    """
    np.save(tmp_path / "x.npy", np.arange(10, dtype=np.uint16))
    with pytest.raises(ConversionError, match="number, 0, so it is unknown where documents begin"):
        convert(tmp_path / "x.npy", tmp_path / "out", "tokens")
    convert(
        tmp_path / "x.npy",
        tmp_path / "by length",
        "tokens",
        options={"document_length": 4},
        shards=2,
    )
    convert(tmp_path / "by length", tmp_path / "out", "tokens", shards=1)
    for folder in ("by length", "out"):
        source = headrace.TokenSource(tmp_path / folder, name=None)
        assert [one.tolist() for one in source] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert source[0].dtype == np.uint16
    convert(tmp_path / "by length", tmp_path / "rows", "parquet")
    assert headrace.ParquetDataSource(tmp_path / "rows")[2]["tokens"].tolist() == [8, 9]


def test_an_end_token_is_put_after_each_document(tmp_path):
    """Where it is not there already; the files are the same as of documents that had it, and it
    must fit their dtype.
    """
    records = [[5, 6], [7, 0], [], [0, 8]]
    for end in (0, "0"):
        convert(
            records,
            tmp_path / str(type(end)),
            "tokens",
            options={"end_of_text": end, "dtype": "uint16"},
            shards=1,
        )
        source = headrace.TokenSource(tmp_path / str(type(end)), name=None)
        assert [one.tolist() for one in source] == [[5, 6, 0], [7, 0], [0], [0, 8, 0]]
        assert source[0].dtype == np.uint16
    for end in (-1, 1 << 16, "x", 1.5):
        with pytest.raises(
            ConversionError, match=r"must be a token number from 0 to .*the largest of uint16"
        ):
            convert(
                records, tmp_path / "out", "tokens", options={"end_of_text": end, "dtype": "uint16"}
            )


def test_a_length_of_documents_is_for_dumps_of_tokens(tmp_path):
    """Of one axis; all else is refused before anything is made."""
    np.save(tmp_path / "x.npy", np.zeros((2, 3), int))
    for source, length, error in (
        (tmp_path / "x.npy", 4, ConversionError),
        ([[1, 2]], 4, ConversionError),
        (tmp_path / "x.npy", 0, ValueError),
    ):
        with pytest.raises(error, match="document_length"):
            convert(source, tmp_path / "out", "tokens", options={"document_length": length})
    assert not list((tmp_path / "out").glob("*.npy"))


def test_an_npy_file_of_objects_is_refused_without_words_about_tokens(tmp_path):
    """Arrays of numbers of any shape can be converted, so the remedy does not ask for integers with
    one axis.
    """
    np.save(tmp_path / "x.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(
        SourceError, match=r"x\.npy cannot be read as .* Save an array without Python objects by"
    ):
        headrace.convert(tmp_path / "x.npy", tmp_path / "out", progress=False)
