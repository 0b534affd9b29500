"""`headrace convert` and `headrace verify`, and what a person sees of a conversion."""

from __future__ import annotations

import io
import time

import pytest
from support.conversions import RECORDS, content, convert, read, write_tfrecords

import headrace
from headrace.conversion.progress import ConversionProgress
from headrace.tools.command_line import main


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


def test_the_command_does_what_the_function_does(tfrecords, tmp_path, capsys):
    """With globs, several paths and options of the writer; a line says what was made."""
    sources = [str(tfrecords / "[ab].*"), str(tfrecords / "c.tfrecord-00000-of-00001")]
    target = tmp_path / "one" / "out"
    options = [
        "--workers",
        "0",
        "--shards",
        "2",
        "--option",
        "group_size=4",
        "--option",
        "uncompressed",
    ]
    assert main(["convert", *sources, str(target), *options]) == 0
    assert capsys.readouterr().out == "100 records in 2 shards, 262,144 bytes\n"
    convert(
        sources, tmp_path / "two" / "out", shards=2, options={"group_size": 4, "uncompressed": ""}
    )
    assert content(target) == content(tmp_path / "two" / "out")
    assert read(target) == RECORDS


def test_damaged_records_are_told_on_the_command_line(tfrecords, tmp_path, capsys):
    """Without --on-error skip by an error, with it by their number and the first reasons."""
    path = tfrecords / "a.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])
    arguments = ["convert", str(tfrecords), str(tmp_path / "out"), "--workers", "0"]
    assert main(arguments) == 2
    assert "headrace: " in (told := capsys.readouterr().err)
    assert "a.tfrecord: the file ends inside the record at byte" in told
    assert main([*arguments[:2], str(tmp_path / "two"), *arguments[3:], "--on-error", "skip"]) == 0
    output = capsys.readouterr()
    assert "99 records in 3 shards" in output.out
    assert ", damaged and left out: 1" in output.out
    assert "left out: " in output.err


def test_verify_has_an_exit_status(tfrecords, tmp_path, capsys):
    """0 and a line that says so if all is right, 1 and a line for each thing that is not, 2 for a
    folder that is none.
    """
    convert(tfrecords, tmp_path / "out")
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == "All files are as manifest.json says.\n"
    (tmp_path / "out" / "a.array_record").write_bytes(b"")
    assert main(["verify", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().out == "a.array_record has 0 bytes, not 131,072\n"
    assert main(["verify", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--shards", "0"], "shards=0 must be at least 1"),
        (["--from", "xml"], "Use one of tfrecord"),
        (
            ["--to", "tokens", "--tokenizer", "nowhere.json"],
            "there is no tokenizer file 'nowhere.json'",
        ),
        (["--", "--project", "x"], "no runner was passed"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(arguments, named, tfrecords, tmp_path, capsys):
    """And the exit status is 2."""
    assert (
        main(["convert", str(tfrecords), str(tmp_path / "out"), "--workers", "0", *arguments]) == 2
    )
    told = capsys.readouterr().err
    assert told.startswith("headrace: ")
    assert named in told
    assert told.count("\n") == 1


def test_a_folder_without_files_of_a_known_format_is_told_what_to_pass(tmp_path, capsys):
    """In few words, however many formats there are; so is a name that is no path."""
    (tmp_path / "in" / "cat").mkdir(parents=True)
    for source in (str(tmp_path / "in"), "mnist"):
        assert main(["convert", source, str(tmp_path / "out")]) == 2
        told = capsys.readouterr().err
        assert "--from" in told
        assert len(told) < 500 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("to", "option"),
    [
        ("parquet", "compression=foo"),
        ("parquet", "foo=3"),
        ("parquet", "row_group_size=0"),
        ("parquet", "row_group_size=x"),
        ("tokens", "dtype=foo"),
        ("tokens", "foo=3"),
    ],
)
def test_options_that_a_format_has_not_are_told_before_anything_is_made(
    to, option, tmp_path, capsys
):
    """In one line, without a folder that is left."""
    (tmp_path / "a.jsonl").write_text('{"a": 1}')
    arguments = [
        "convert",
        str(tmp_path / "a.jsonl"),
        str(tmp_path / "out"),
        "--to",
        to,
        "--workers",
        "0",
    ]
    assert main([*arguments, "--option", option]) == 2
    told = capsys.readouterr().err
    assert told.startswith("headrace: ")
    assert option.split("=")[0] in told
    assert not (tmp_path / "out").exists()


class Terminal(io.StringIO):
    """What is written to it is kept."""

    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch):
    """Both tell shards, records and their rate, what was read and the time that is left."""
    real = time.monotonic
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(time, "monotonic", real)
        with ConversionProgress((2, 3), 2e6, "B", True, stream) as progress:
            monkeypatch.setattr(time, "monotonic", lambda: real() + 60)  # a minute passes
            progress.advance(1000, 1e6)
            first = stream.getvalue()
            progress.shard_done()
            progress.shard_done()
            progress.advance(1000, 1e6)
        text = stream.getvalue()
        if stream.isatty():
            assert "3/3 shards" in text
            assert "1.00M/2.00M" in text or "2.00M/2.00M" in text
        else:
            assert first.startswith("1/3 shards, 1,000 records, 1")
            assert first.endswith(", 1.00MB of 2.00MB read, 01:00 left\n")
            assert text.count("\n") == 2
            assert "3/3 shards, 2,000 records" in text


@pytest.mark.slow
def test_nothing_is_shown_where_nothing_is_wanted(tfrecords, tmp_path, capsys):
    """With `progress=True`, a last line tells the number of records, also with worker processes.
    Else nothing is printed.
    """
    convert(tfrecords, tmp_path / "one")
    assert capsys.readouterr() == ("", "")
    convert(tfrecords, tmp_path / "two", progress=True)
    assert capsys.readouterr().err.startswith("3/3 shards, 100 records, ")
    convert(tfrecords, tmp_path / "three", progress=True, workers=1)
    assert capsys.readouterr().err.startswith("3/3 shards, 100 records, ")


def test_a_word_that_is_no_format_is_told(tmp_path):
    """Files of several formats in one folder, or of none that is known."""
    (tmp_path / "in").mkdir()
    for name in ("a.tfrecord", "b.jsonl", "c.xyz", "c"):
        (tmp_path / "in" / name).write_bytes(b"")
    (tmp_path / "tabs.csv").write_text("a\tb\n1\t2\n")
    (tmp_path / "none").mkdir()
    for source, message in (
        (tmp_path / "in", "files of several formats: json_lines, tfrecord"),
        (tmp_path / "in" / "c.xyz", "unknown"),
        (
            [tmp_path / "in" / "b.jsonl", tmp_path / "in" / "c"],
            r"^the format of .*in/c' is unknown\. Pass",
        ),
        (tmp_path / "tabs.csv", "tabs, not by commas"),
        (
            tmp_path / "none",
            r"none' contains no file with a known format in its name .*by a glob, such as .*none/\*.*\(--from\)",
        ),
    ):
        with pytest.raises(headrace.errors.HeadraceError, match=message):
            convert(source, tmp_path / "out")
