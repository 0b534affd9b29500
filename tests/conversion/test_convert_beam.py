"""`headrace.convert` as a pipeline of Apache Beam, on its local runner."""

from __future__ import annotations

import logging
import tempfile

import pytest
from support.conversions import RECORDS, content, convert, read, write_tfrecord, write_tfrecords

import headrace
from headrace.errors import ConversionError, SourceError
from headrace.tools.command_line import main

pytest.importorskip("apache_beam", reason="apache-beam is not installed")


@pytest.fixture(autouse=True)
def alone(caplog, monkeypatch, tmp_path):
    """Beam logs what it does, and leaves temporary folders."""
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.long
def test_both_ways_give_the_same_bytes(tmp_path):
    """All files, the manifest too, with functions of the user's and shards anew."""
    write_tfrecords(tmp_path / "in")
    for options in ({}, {"shards": 4, "transform": lambda record: record[::-1]}):
        here, there = (tmp_path / f"{way} {len(options)}" / "out" for way in ("here", "there"))
        convert(tmp_path / "in", here, **options)
        convert(tmp_path / "in", there, runner="DirectRunner", **options)
        assert content(here) == content(there)
    assert read(there) == [record[::-1] for record in RECORDS]


@pytest.mark.slow
def test_a_pipeline_that_fails_is_told_and_goes_on(tmp_path):
    """The error is that of the record; what was whole is not made again."""
    write_tfrecords(tmp_path / "in")
    path = tmp_path / "in" / "c.tfrecord-00000-of-00001"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(SourceError, match=r"c\.tfrecord.* cut off"):
        convert(tmp_path / "in", tmp_path / "out", runner="DirectRunner")
    made = convert(tmp_path / "in", tmp_path / "skipped", runner="DirectRunner", on_error="skip")
    assert (made.records, made.left_out) == (99, 1)


def test_the_command_line_hands_options_on(tmp_path, capsys):
    """What comes after -- is Beam's; a runner that Beam does not know is told."""
    write_tfrecord(tmp_path / "in" / "a.tfrecord", RECORDS)
    source, target = str(tmp_path / "in"), str(tmp_path / "out")
    assert (
        main(
            [
                "convert",
                source,
                target,
                "--runner",
                "DirectRunner",
                "--",
                "--direct_num_workers",
                "1",
            ]
        )
        == 0
    )
    assert "100 records in 1 shards" in capsys.readouterr().out
    assert headrace.verify(target) == []
    with pytest.raises(ConversionError, match="runner='Nothing'"):
        convert(source, tmp_path / "two", runner="Nothing")
