"""What `headrace.convert` refuses, and says so before anything is made."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from support.conversions import RECORDS, content, convert, write_tfrecord, write_tfrecords

from headrace.errors import ConversionError, MissingExtraError, SourceError
from headrace.formats.tfrecord import crc_function


@pytest.fixture
def tfrecords(tmp_path):
    """Three files, one of them compressed."""
    return write_tfrecords(tmp_path / "in")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"to": "json"}, ValueError, "to='json' is not a known value\\. Use \"array_record\""),
        ({"source_format": "xml"}, ConversionError, "Use one of tfrecord, tar"),
        ({"on_error": "fail"}, ValueError, 'Use "raise" or "skip"'),
        ({"shards": 0}, ValueError, "shards=0 must be at least 1"),
        ({"shards": 1000}, ConversionError, r"100 records\. Pass a smaller number of shards"),
        ({"to": "parquet", "decode": "bytes"}, ConversionError, r"Parquet stores columns\. Pass"),
        (
            {"to": "parquet"},
            SourceError,
            r"tf\.train\.Example, or are damaged\. .*pass decode=\"bytes\" to a conversion",
        ),
        ({"decode": "json"}, ConversionError, "byte 0: a record is not valid JSON"),
        (
            {"to": "parquet", "encode": "json"},
            ConversionError,
            'encode= works with to="array_record"',
        ),
        (
            {"runner_options": ["--x"]},
            ConversionError,
            r"runner= \(--runner\), the name of a Beam runner",
        ),
        ({"transform": 3}, TypeError, "must be a function"),
        (
            {"options": {"group_size": "much"}},
            ConversionError,
            "Option group_size: invalid value: much",
        ),
        ({"encode": lambda record: 3}, ConversionError, "Return bytes from this function"),
        (
            {"transform": lambda record: None},
            ConversionError,
            "a record is None. .* has a return statement",
        ),
        (
            {"to": "parquet", "decode": "bytes", "transform": lambda record: None},
            ConversionError,
            "a record is None. .* return statement",
        ),
    ],
)
def test_what_cannot_be_done_is_told_with_a_remedy(options, error, message, tfrecords, tmp_path):
    """And nothing is written."""
    with pytest.raises(error, match=message) as caught:
        convert(tfrecords, tmp_path / "out", **options)
    assert len(str(caught.value)) < 500
    assert not list((tmp_path / "out").glob("*.array_record"))


@pytest.mark.parametrize(
    ("to", "wrong"),
    [("array_record", {"group_size": "much"}), ("parquet", {"compression": "much"})],
)
def test_options_as_in_the_error_are_accepted(to, wrong, tmp_path):
    """The error shows a dict; with the dict that it shows, the conversion succeeds."""
    records = [{"x": number} for number in range(3)]
    encode = "json" if to == "array_record" else None
    given = {"to": to, **({"encode": encode} if encode else {})}
    with pytest.raises(
        ConversionError, match=r"does not accept the options .*such as \{"
    ) as caught:
        convert(records, tmp_path / "wrong", options=wrong, **given)
    shown = ast.literal_eval(str(caught.value).partition("such as ")[2].removesuffix("."))
    assert convert(records, tmp_path / "right", options=shown, **given).records == 3


def test_a_source_in_the_target_is_not_overwritten(tmp_path):
    """Files that stand where shards would are an error, and stay what they were; also empty ones."""
    convert(RECORDS, tmp_path / "one")
    (tmp_path / "one" / "manifest.json").unlink()
    before = content(tmp_path / "one")
    with pytest.raises(ConversionError, match=r"would overwrite\. Remove"):
        convert(tmp_path / "one" / "*", tmp_path / "one")
    assert content(tmp_path / "one") == before
    (shard,) = (tmp_path / "one").glob("*.array_record")
    shard.write_bytes(b"")
    with pytest.raises(ConversionError, match=r"would overwrite\. Remove"):
        convert(RECORDS, tmp_path / "one")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("in", "in"),
        ("in", "in/out"),
        ("in/", "other/../in/a/b"),
        ("link", "in/out"),
        ("in", "link/out"),
        ("**/*.tfrecord", "in/out"),
        ("in/**", "in"),
        ("in/a.tfrecord", "in/a.tfrecord"),
        ("s3://bucket/in", "s3://bucket/in/out"),
    ],
)
def test_a_target_in_the_source_is_refused(source, target, tmp_path, monkeypatch):
    """Before anything is made, however both are written; a folder beside the source, or beside its
    files, is none.
    """
    monkeypatch.chdir(tmp_path)
    write_tfrecord(tmp_path / "in" / "a.tfrecord", RECORDS)
    (tmp_path / "link").symlink_to("in")
    with pytest.raises(
        ConversionError,
        match=(
            r"the source.*so the new files would become part of the source\. Pass a target outside "
            r"of"
        ),
    ):
        convert(source, target)
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["a.tfrecord"]
    for source in ("in", "in/*.tfrecord", "in/**/a*"):
        assert convert(source, f"in-{len(source)}").records == 100
    assert convert("in/*.tfrecord", "in/out").records == 100


def test_a_library_that_is_missing_leaves_nothing(tmp_path, monkeypatch):
    """Neither the folder for what is not done, nor the target, whichever part of a conversion needs
    it.
    """
    write_tfrecord(tmp_path / "in" / "a.tfrecord", RECORDS)
    for module, options in (("google_crc32c", {}), ("apache_beam", {"runner": "DirectRunner"})):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            crc_function.cache_clear()
            with pytest.raises(MissingExtraError, match="pip install"):
                convert(tmp_path / "in", tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ConversionError, match="Return bytes"):
        convert(tmp_path / "in", tmp_path / "out", encode=len)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_two_files_of_one_name_are_told(tmp_path):
    """They would be written to one file."""
    for name in ("x.tfrecord", "x.tfrecord.gz"):
        write_tfrecord(tmp_path / "in" / name, RECORDS)
    with pytest.raises(ConversionError, match=r"would both be converted to x\.array_record"):
        convert(tmp_path / "in", tmp_path / "out")


def test_a_target_that_is_no_folder_is_told(tmp_path):
    """A file in its place, or a name that the system does not take."""
    (tmp_path / "out").write_text("a file")
    for target, message in (
        ("out", r"folder\. Pass a"),
        ("out/in", "Not a directory"),
        ("x" * 10**5, "File name too long"),
    ):
        with pytest.raises(ConversionError, match=message) as caught:
            convert(RECORDS, tmp_path / target)
        assert len(str(caught.value)) < 500


WITHOUT_PRIVILEGES = """
import sys, headrace
for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        headrace.convert(source, target, workers=0, progress=False)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_files_that_one_may_not_read_or_write_are_told(tmp_path):
    """An input file, one in a folder that one may not enter, a target in a folder that one may not
    write to: an error each.
    """
    write_tfrecord(tmp_path / "in" / "a.tfrecord", RECORDS).chmod(0)
    write_tfrecord(tmp_path / "closed" / "a.tfrecord", RECORDS)
    write_tfrecord(tmp_path / "open" / "a.tfrecord", RECORDS)
    (tmp_path / "full").mkdir(0o500)
    (tmp_path / "closed").chmod(0)
    pairs = [
        ("in", "out"),
        ("closed/a.tfrecord", "out"),
        ("open", "full/out"),
        ("open", "full"),
        ("open", "closed"),
    ]
    paths = [str(tmp_path / path) for pair in pairs for path in pair]
    command = (
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    )
    told = subprocess.check_output(
        [*command, sys.executable, "-c", WITHOUT_PRIVILEGES, *paths], text=True
    ).splitlines()
    (tmp_path / "closed").chmod(0o700)
    assert all("Permission denied" in line for line in told)
    for line, words in zip(
        told,
        (
            "SourceError .*in/a.tfrecord cannot be opened",
            "SourceError .*closed/a.tfrecord' cannot be accessed",
            "ConversionError the target folder .*full/out cannot be created.* Pass a target in a folder that you may write",
            "ConversionError the target folder .*full cannot be created.* Pass a target in a folder that you may write",
            "ConversionError .*closed/manifest.json cannot be read.* pass another target",
        ),
        strict=True,
    ):
        assert re.match(words, line), line


def test_gzip_that_is_none_is_told(tmp_path):
    """By the file, and not with a traceback of a library."""
    (tmp_path / "a.tfrecord.gz").write_bytes(b"nothing of the kind")
    (tmp_path / "b.tfrecord").write_bytes(gzip.compress(b"x" * 100))
    for name, message in (
        ("a.tfrecord.gz", "cannot be unpacked"),
        ("b.tfrecord", "is compressed with gzip"),
    ):
        with pytest.raises(SourceError, match=message):
            convert(tmp_path / name, tmp_path / "out", on_error="skip")


@pytest.mark.parametrize("name", ["kind", "version"])
def test_a_manifest_of_another_kind_or_version_is_told(name, tmp_path):
    """Each is enough."""
    write_tfrecord(tmp_path / "in.tfrecord", RECORDS[:2])
    convert(tmp_path / "in.tfrecord", tmp_path / "out")
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {name: 99}))
    with pytest.raises(ConversionError, match=r"but it has the kind .*99"):
        convert(tmp_path / "in.tfrecord", tmp_path / "out")


@pytest.mark.parametrize("file", ["plan.json", "receipt-*.json"])
def test_notes_of_an_unfinished_conversion_that_are_none_are_told(file, tmp_path):
    """As another version may have left them: the file, and what to do."""
    write_tfrecord(tmp_path / "in" / "a.tfrecord", RECORDS[:2])
    (tmp_path / "in" / "b.tfrecord").write_bytes(b"damaged")
    with pytest.raises(SourceError):
        convert(tmp_path / "in", tmp_path / "out")
    path = next((tmp_path / "out" / ".conversion").glob(file))
    for notes in ("[]", '{"shards": [{}]}'):
        path.write_text(notes)
        removed = "it" if "receipt" in file else f"the folder {tmp_path / 'out'}"
        with pytest.raises(
            ConversionError,
            match=f"{path.name} cannot be read: .* Remove {removed}, and convert again",
        ):
            convert(tmp_path / "in", tmp_path / "out")
    path.unlink() if "receipt" in file else shutil.rmtree(tmp_path / "out")
    with pytest.raises(SourceError):  # it converts again, as far as the damaged file
        convert(tmp_path / "in", tmp_path / "out")
