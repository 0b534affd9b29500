"""Lengths by a function of records: found once, kept in a file, known again with their source."""

from __future__ import annotations

import functools
import io
import json
import operator
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import headrace
from headrace.common.identity.functions import function_identity
from headrace.conversion.lengths import measure_converted
from headrace.errors import ConversionError, LengthsError, OutputError
from headrace.sources.lengths import lengths_of
from headrace.tools import command_line

TEXTS = ["x" * (number % 37) for number in range(3000)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_function_of_a_record_gives_its_length(worker_count):
    """In the order of keys, whoever reads."""
    found = headrace.measure_lengths(TEXTS, len, worker_count=worker_count, progress=False)
    assert found.tolist() == list(map(len, TEXTS))
    assert headrace.measure_lengths([{"n": 3}, {"n": 0}], "n").tolist() == [3, 0]
    assert headrace.measure_lengths([b"abc"], len).tolist() == [3]


class Tokens:
    """As a tokenizer."""

    def __init__(self, each):
        self.each = each

    def encode(self, text):
        return self.each * text


EACH, TOKENS = 1, Tokens(1)


def _helper(text):
    return EACH * len(text)


def _of_closure(content):
    return lambda text: len(text) * int(content[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda each: lambda text: EACH * len(text),
        lambda each: lambda text: _helper(text),
        lambda each: lambda text: sum(len(TOKENS.encode(one)) for one in [text]),
        lambda each: TOKENS.encode,
        lambda each: functools.partial(operator.mul, each),
        lambda each: _of_closure(np.array([each])),
        lambda each: _of_closure({0: each}),
        lambda each: lambda text, tokens=(each, "x"): len(text) * tokens[0],
        lambda each: lambda text: len(text) * next(iter({each})),
    ],
)
def test_lengths_are_measured_anew_if_what_a_function_refers_to_has_changed(
    make, tmp_path, monkeypatch
):
    """Constants and objects of its module, its helpers, its closure and defaults; an equal one
    finds what is kept.
    """
    found = {}
    for each in (1, 2, 2):
        monkeypatch.setitem(globals(), "EACH", each)
        monkeypatch.setitem(globals(), "TOKENS", Tokens(each))
        found.setdefault(each, []).append(function_identity(make(each)))
    assert found[1] != found[2][:1]
    assert found[2][0] == found[2][1]
    path = tmp_path / "lengths"
    for each in (1, 2):
        monkeypatch.setitem(globals(), "EACH", each)
        assert headrace.measure_lengths(["ab", "c"], _helper, path).tolist() == [2 * each, each]


@pytest.mark.slow
def test_the_identity_of_a_function_is_the_same_in_every_process():
    """Whatever the seed of hashes: sets have no order."""
    code = (
        "from headrace.common.identity.functions import function_identity as identity\nwords = "
        "{'a', 'b', 'c', 'd'}\nprint(identity(lambda text: len([word for word in text.split() if "
        "word in words and word not in {'x', 'y', 'z'}])))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_another_tokenizer_is_another_function():
    """Of a library in another language: it has no attributes, and is known by what it is pickled
    as.
    """
    tokenizers = pytest.importorskip("tokenizers")

    def measure(words):
        vocabulary = {word: number for number, word in enumerate(words)}
        tokenizer = tokenizers.Tokenizer(
            tokenizers.models.WordLevel(vocabulary, unk_token=words[0])
        )
        return lambda text: len(tokenizer.encode(text).ids)

    assert function_identity(measure(["a", "b"])) == function_identity(measure(["a", "b"]))
    assert function_identity(measure(["a", "b"])) != function_identity(measure(["a", "c"]))


def test_a_bar_tells_how_many_records_were_measured(monkeypatch):
    """On a terminal; unless nobody wants to see it."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for progress, expected in ((True, "3000/3000"), (False, "")):
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        headrace.measure_lengths(TEXTS, len, progress=progress)
        assert expected in terminal.getvalue()
        assert bool(terminal.getvalue()) == progress


def test_lengths_that_are_kept_are_not_measured_again(tmp_path):
    """Of this source and this function; others are measured, and take their place."""
    path = tmp_path / "texts.lengths"

    class Calls:
        number = 0

    def measure(text):
        Calls.number += 1
        return len(text)

    def by_two(text):
        return 2 * len(text)

    source = headrace.MemorySource(TEXTS)
    for _ in range(2):
        assert headrace.measure_lengths(source, measure, path).tolist() == list(map(len, TEXTS))
    assert Calls.number == len(TEXTS)
    assert lengths_of(source, path).tolist() == list(map(len, TEXTS))
    assert headrace.measure_lengths(source, by_two, path)[1] == 2
    assert lengths_of(source, pathlib.Path(path))[1] == 2
    other = headrace.MemorySource([*TEXTS[:-1], "another"])
    with pytest.raises(
        LengthsError,
        match=r"is missing or damaged, or does not contain lengths of this source\. Write it",
    ):
        lengths_of(other, path)
    assert headrace.measure_lengths(other, measure, path)[-1] == 7
    assert lengths_of(other, path)[-1] == 7


def test_functions_of_one_name_are_told_apart(tmp_path):
    """By their code, and by what is in their closures."""
    source = headrace.MemorySource([{"a": [1], "b": [1, 2]}])

    def by(name):
        return lambda record: len(record[name])

    measured = [
        headrace.measure_lengths(source, function, tmp_path / "x")[0]
        for function in (by("a"), by("b"), by("a"))
    ]
    assert measured == [1, 2, 1]
    measured = [
        headrace.measure_lengths(source, function, tmp_path / "x")[0]
        for function in (lambda record: len(record["a"]), lambda record: len(record["b"]))
    ]
    assert measured == [1, 2]


def test_a_file_that_was_damaged_is_made_anew(tmp_path):
    """Cut off at any byte, or with another one in it."""
    path, source = tmp_path / "x", headrace.MemorySource(TEXTS[:50])
    expected = headrace.measure_lengths(source, len, path).tolist()
    content = path.read_bytes()
    for damaged in (
        content[:0],
        content[:40],
        content[:-1],
        content[:-1] + bytes([content[-1] ^ 1]),
    ):
        path.write_bytes(damaged)
        assert headrace.measure_lengths(source, len, path).tolist() == expected
        assert path.read_bytes() == content


KILLED = """
import sys, time
import headrace
def measure(text):
    if text == "last":
        print("there", flush=True)
        time.sleep(60)
    return len(text)
headrace.measure_lengths(["a", "ab", "last"], measure, sys.argv[1])
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_wrong(tmp_path):
    """Neither a file, nor a part of one under its name."""
    path = tmp_path / "x"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"there\n"
        process.kill()
    assert not path.exists()
    assert headrace.measure_lengths(["a", "ab", "last"], len, path).tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda text: -1, LengthsError, "record 0 has length -1"),
        (lambda text: np.nan if text == "b" else 1, LengthsError, "record 1 has length nan"),
        (lambda text: 1.5, LengthsError, "record 0 has length 1.5"),
        ("title", LengthsError, "record 0 has no field 'title'"),
        (3, TypeError, r"function=3 is an int\. Pass a function"),
    ],
)
def test_what_is_no_length_is_refused(tmp_path, function, error, message):
    """With the record; no file is left."""
    with pytest.raises(error, match=message):
        headrace.measure_lengths(["a", "b"], function, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    """It names the path."""
    with pytest.raises(OutputError, match="the lengths cannot be"):
        headrace.measure_lengths(["a"], len, tmp_path / "nowhere" / "x")


@pytest.mark.parametrize("encode", ["example", "json"])
def test_convert_keeps_the_lengths_of_what_it_writes(tmp_path, capsys, encode):
    """Beside the files, whose own names and manifest stay what they were."""
    pytest.importorskip("array_record")
    lines = [json.dumps({"text": text, "ids": list(range(len(text) + 1))}) for text in TEXTS[:50]]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    out = tmp_path / "out"
    command = ["convert", str(tmp_path / "a.jsonl"), str(out), "--workers", "0", "--encode", encode]
    for name, expected in (
        ("ids", [len(text) + 1 for text in TEXTS[:50]]),
        ("text", list(map(len, TEXTS[:50]))),
    ):
        assert command_line.main([*command, "--lengths", name]) == 0
        source = headrace.ArrayRecordDataSource(str(out))
        assert lengths_of(source, out / "lengths.headrace-index").tolist() == expected
    assert command_line.main([*command, "--lengths", "bytes"]) == 0
    assert lengths_of(source, out / "lengths.headrace-index").tolist() == [
        len(source[key]) for key in range(50)
    ]
    assert headrace.verify(str(out)) == []
    with pytest.raises(LengthsError, match="record 0 has no field 'title'"):
        measure_converted(str(out), "array_record", "title", progress=False)
    capsys.readouterr()


def test_lengths_of_converted_columns_and_tokens_are_kept(tmp_path):
    """Columns by their offsets; documents by theirs."""
    pytest.importorskip("pyarrow")
    records = [{"text": text, "tokens": [1] * len(text)} for text in TEXTS[:50]]
    for to, name, kind in (
        ("parquet", "text", headrace.ParquetDataSource),
        ("tokens", "tokens", headrace.TokenSource),
    ):
        out = tmp_path / to
        headrace.convert(records, out, to, workers=0, progress=False)
        path = measure_converted(str(out), to, name)
        assert lengths_of(kind(str(out)), pathlib.Path(path)).tolist() == list(map(len, TEXTS[:50]))
    with pytest.raises(ConversionError, match="is in an object"):
        measure_converted("s3://bucket/out", "parquet", "text")
