"""Folders of folders: every format of files finds those at the bottom, in one order, whether the
source grows or not.
"""

import os
import shutil

import pytest
from support import indexed_files as files
from support.growing_files import FORMATS

from headrace.sources import TarDataSource, TFRecordDataSource, fingerprint_of
from headrace.sources.facts import facts_of

PLACES = ["a", "b/c", "b/d", "b-c", "deep/er/still/x"]
"""Files, without their suffix."""


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("growing", [False, True])
def test_files_at_any_depth_are_read_in_the_order_of_their_paths(tmp_path, kind, growing):
    """Files below private and hidden folders are not; a moved folder is the same source."""
    form, data = FORMATS[kind], tmp_path / "data"
    for number, place in enumerate([*PLACES, "_old/x", ".hid/x", "b/_x"]):
        path = data / f"{place}.{form.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        form.write(path, 2 * number, 2 * number + 1)
    source = form.source(data, growing=growing)
    order = sorted(range(len(PLACES)), key=lambda number: f"{PLACES[number]}.{form.suffix}")
    assert form.numbers(source) == [2 * number + more for number in order for more in (0, 1)]
    names = [f"{data}/{PLACES[number]}.{form.suffix}" for number in order]
    assert [facts_of(source).file_place(key).file for key in range(0, len(source), 2)] == names
    print_of = fingerprint_of(source)
    source.close()
    shutil.move(data, tmp_path / "moved")
    assert fingerprint_of(form.source(tmp_path / "moved", growing=growing)) == print_of


@pytest.mark.parametrize("kind", FORMATS)
def test_a_growing_folder_finds_new_folders(tmp_path, kind):
    """Their records come after the others, even if their paths come before."""
    form, source = FORMATS[kind], None
    for number, place in enumerate(("b/x", "a/y", "b/a/z")):
        path = tmp_path / f"{place}.{form.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        form.write(path, number)
        if form.suffix == "jsonl":
            os.utime(path, (1, 1))
        source = (
            form.source(tmp_path, growing=True)
            if source is None
            else source.at_generation(source.newest_generation())
        )
        assert form.numbers(source) == list(range(number + 1))
        assert source.generation == number


@pytest.mark.parametrize(
    ("suffix", "kind", "write"),
    [("tar", TarDataSource, files.tar), ("tfrecord", TFRecordDataSource, files.tfrecords)],
)
def test_tar_and_tfrecord_files_at_any_depth(tmp_path, suffix, kind, write):
    """As those of the other formats."""
    for number, place in enumerate(PLACES):
        path = tmp_path / f"{place}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(write([number + 1]))
    source = kind(tmp_path)
    found = [
        record["txt"] if suffix == "tar" else record
        for record in source.__getitems__(range(len(PLACES)))
    ]
    assert found == [files.content(number + 1) for number in (0, 3, 1, 2, 4)]
