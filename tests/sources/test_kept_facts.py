"""Facts about many files: found once, kept beside them, and found anew where a file was changed."""

import json
import os

import pytest
from array_record.python import array_record_module

from headrace import ArrayRecordDataSource, JsonLinesDataSource
from headrace.errors import SourceError
from headrace.sources import kept_facts


def array_record(path, *records):
    """Writes a file of records."""
    writer = array_record_module.ArrayRecordWriter(str(path), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()


def json_lines(path, *records):
    """Writes a file of records."""
    path.write_text("".join(json.dumps({"text": record.decode()}) + "\n" for record in records))


KINDS = {
    "array_record": (ArrayRecordDataSource, array_record, lambda record: record),
    "jsonl": (JsonLinesDataSource, json_lines, lambda record: record["text"].encode()),
}


@pytest.fixture(params=KINDS)
def many(request, tmp_path, monkeypatch):
    """Functions that read a folder of files, write a file of it, and make a source; and the files
    that are looked at.
    """
    kind, write, content = KINDS[request.param]
    monkeypatch.setattr(kept_facts, "MANY_FILES", 5)
    looked = []
    look = kind._inspect_file
    monkeypatch.setattr(
        kind,
        "_inspect_file",
        lambda self, path: looked.append(os.path.basename(path)) or look(self, path),
    )

    def put(number, *records):
        write(tmp_path / f"{number}.{request.param}", *records)

    for number in range(6):
        put(number, *[b"%d" % number] * (number + 1))
    return (
        lambda: [content(record) for record in kind(tmp_path)],
        put,
        looked,
        lambda: kind(tmp_path),
    )


def test_files_are_looked_at_once_and_changed_ones_again(many):
    """The second source on the same files looks at none, and one on a changed file at that one
    alone.
    """
    read, put, looked, _ = many
    expected = [b"%d" % number for number in range(6) for _ in range(number + 1)]
    assert [read() for _ in range(3)] == [expected] * 3
    assert len(looked) == 6
    put(0, b"7", b"8", b"9")
    assert [read() for _ in range(2)] == [[b"7", b"8", b"9", *expected[1:]]] * 2
    assert [name[0] for name in looked[6:]] == ["0"]


def test_the_source_is_the_same_with_and_without_kept_facts(many, monkeypatch):
    """Its fingerprint is that of a source which looked at all files, also where those were few."""
    *_, source = many
    kept = [source().fingerprint for _ in range(2)]
    monkeypatch.setattr(kept_facts, "MANY_FILES", 100)
    assert [source().fingerprint] * 2 == kept


def test_a_file_that_changes_after_the_source_was_made_is_told(many):
    """Kept facts have the stamps of the files, as those that were found anew."""
    _, put, _, source = many
    source()
    one = source()
    put(3, b"another")
    with pytest.raises(SourceError, match=r"3\..*changed after the source was made"):
        one[7]
