"""TFRecord, tar and JSON lines at random: what every source promises, their indices, and files that
are bad.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from itertools import product

import numpy as np
import pytest
from support.damage import ODD_VALUES, paths_in, with_value
from support.indexed_files import content, examples, in_three, json_lines, tar, tfrecords
from support.own_processes import workers
from support.pipelines import chosen
from support.source_conformance import SourceConformance, open_files

import headrace
from headrace.errors import SourceError, SourceNotFoundError
from headrace.formats.index import MAGIC, SUFFIX, digest_of, index_of, write_index
from headrace.formats.json_lines import AT_ONCE
from headrace.formats.tfrecord import framed
from headrace.sources import (
    JsonLinesDataSource,
    TarDataSource,
    TextLinesSource,
    TFRecordDataSource,
    fingerprint_of,
)


def _replaced(path, write):
    path.with_suffix(".new").write_bytes(write(range(20, 40)))
    os.replace(path.with_suffix(".new"), path)


CHANGES = {
    "replaced": (_replaced, "the file changed after the source was made"),
    "cut off": (lambda path, _: os.truncate(path, 9), "the file changed after the source was made"),
    "removed": (lambda path, _: path.unlink(), "no file '.*/x[.]"),
    "unreadable": (
        lambda path, _: (path.unlink(), path.symlink_to(path)),
        "cannot be opened: .*symbolic links",
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a worker was terminated unexpectedly")
@pytest.mark.parametrize(
    "change",
    [
        name if name == "replaced" else pytest.param(name, marks=pytest.mark.long)
        for name in CHANGES
    ],
)
@pytest.mark.parametrize("kind", ["json_lines"], indirect=True)
def test_new_workers_on_a_file_that_changed_end_in_one_error(kind, change):
    """Whoever opens it anew says so; what came until then is right."""
    make, path, write = kind
    doing, message = CHANGES[change]
    expected = [repr(record) for record in make(path)]
    loader = headrace.load(
        make(path), num_epochs=500, worker_count=1, transformations=[repr], batch_size=5
    )
    got = []
    with pytest.raises(SourceError, match=message), iter(loader) as batches:
        for batch in batches:
            got.extend(batch)
            if len(got) == 5:
                doing(path, write)
                workers()[0].kill()
    assert got == (expected * 500)[: len(got)]


class TestTFRecord(SourceConformance):
    on_files = True

    def write(self, folder, count):
        in_three(folder, ".tfrecord", count, tfrecords)

    def open(self, folder, count):
        return TFRecordDataSource(folder, max_open_files=2)

    def expected_record(self, key):
        return content(key)


class TestExamples(SourceConformance):
    on_files = True

    def write(self, folder, count):
        in_three(folder, ".tfrecord-0", count, examples)

    def open(self, folder, count):
        return TFRecordDataSource(folder, features={"label": np.int64, "image": bytes})

    def expected_record(self, key):
        return {"label": np.int64(key), "image": content(key)}


class TestJsonLines(SourceConformance):
    on_files = True

    def write(self, folder, count):
        in_three(folder, ".jsonl", count, json_lines)

    def open(self, folder, count):
        return JsonLinesDataSource(str(folder / "*.jsonl"))

    def expected_record(self, key):
        return {"key": key, "text": "é" * key}


def _text_lines(numbers):
    return "".join(f"{'é' * (key % 5)}\r\n" for key in numbers).encode()


class TestTextLines(SourceConformance):
    on_files = True

    def write(self, folder, count):
        in_three(folder, ".txt", count, _text_lines)

    def open(self, folder, count):
        return TextLinesSource(folder)

    def expected_record(self, key):
        return "é" * (key % 5)


LINES = {
    "blank lines": (b"a\n\n \nb\n", ["a", "", " ", "b"]),
    "no last line break": (b"a\nb", ["a", "b"]),
    "line breaks of Windows": (b"\xef\xbb\xbfa\r\n\r\nb\rc\r\n", ["a", "", "b\rc"]),
    "only a line break": (b"\n", [""]),
    "a line longer than what is read at once": (
        b"x" * (AT_ONCE + 3) + b"\n\ny",
        ["x" * (AT_ONCE + 3), "", "y"],
    ),
    "a break where a piece ends": (
        b"x" * (AT_ONCE - 1) + b"\n\ny\n",
        ["x" * (AT_ONCE - 1), "", "y"],
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_each_line_of_a_text_file_is_a_record(tmp_path, case):
    """Blank lines count, too; the line break does not belong to the record."""
    content, expected = LINES[case]
    (tmp_path / "a.txt").write_bytes(content)
    source = TextLinesSource(tmp_path / "a.txt")
    assert [source[key] for key in range(len(source))] == expected
    assert source.__getitems__([*range(len(source))][::-1]) == expected[::-1]


def test_a_line_that_is_not_utf_8_is_named(tmp_path):
    """The error is raised when the line is read, with the file and the place of the line."""
    (tmp_path / "a.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(
        SourceError, match=r"a.txt: the line at byte 2 is not UTF-8: .* Convert the file to UTF-8"
    ):
        TextLinesSource(tmp_path / "a.txt")[1]


def test_the_header_of_a_csv_file_is_left_out(tmp_path):
    """Its rows are lines to split, and its header is record 0."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    source = TextLinesSource(tmp_path / "a.csv")
    rows = headrace.load(
        source, num_epochs=1, omit=[0], transformations=[lambda line: line.split(",")]
    )
    assert list(rows) == [["1", "2"], ["3", "4"]]


class TestTar(SourceConformance):
    on_files = True

    def write(self, folder, count):
        in_three(folder, ".tar", count, tar)

    def open(self, folder, count):
        return TarDataSource([folder / f"{name}.tar" for name in "abc"])

    def expected_record(self, key):
        return {"__key__": f"folder/{key:05}", "txt": content(key), "cls": str(key).encode()}


KINDS = {
    "tfrecord": (TFRecordDataSource, "x.tfrecord", tfrecords),
    "json_lines": (JsonLinesDataSource, "x.jsonl", json_lines),
    "tar": (TarDataSource, "x.tar", tar),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path, monkeypatch):
    """A class, and the path of a file of 20 records. The user's cache folder is one of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make, name, write = KINDS[request.param]
    path = tmp_path / "data" / name
    path.parent.mkdir()
    path.write_bytes(write(range(20)))
    return make, path, write


def count_of_finds(monkeypatch, make):
    """A list that gets the path of each file that is gone through."""
    found, find = [], make.index_kind.find
    told = dataclasses.replace(
        make.index_kind, find=lambda file: found.append(file.path) or find(file)
    )
    monkeypatch.setattr(make, "index_kind", told)
    return found


def test_an_index_is_made_once_and_kept_beside_the_file(kind, monkeypatch):
    """Sources after the first one, and folders, take it as it is, and never as data."""
    make, path, _ = kind
    made = count_of_finds(monkeypatch, make)
    for paths in (path, [path, path], path.parent, f"{path.parent}/*", path):
        source = make(paths)
        assert source[3] == make(path)[3]
    assert made == [str(path)]
    assert sorted(os.listdir(path.parent)) == [path.name, path.name + SUFFIX]


def test_an_index_of_another_file_is_made_anew(kind, monkeypatch):
    """After the file was changed; after the index was cut off, damaged or replaced."""
    make, path, write = kind
    index = path.with_name(path.name + SUFFIX)
    whole = make(path) and index.read_bytes()
    for damaged in (
        b"",
        whole[:30],
        whole[:-1],
        whole + b"x",
        b"headrace index 1\n{}\n",
        b"\xff" * 100,
    ):
        index.write_bytes(damaged)
        assert len(make(path)) == 20
        assert index.read_bytes() == whole
    path.write_bytes(write(range(7)))
    assert len(make(path)) == 7
    assert index.read_bytes() != whole


def changed(whole, place, value):
    """An index with something else at a place of its JSON."""
    said, _, arrays = whole[len(MAGIC) :].partition(b"\n")
    return MAGIC + json.dumps(with_value(json.loads(said), place, value)).encode() + b"\n" + arrays


@pytest.mark.parametrize("step", chosen([20, 1], 20))
def test_an_index_with_any_changed_byte_gives_the_same_records(kind, step):
    """Each byte of what it says, and bytes all over its arrays: the digest that is kept tells; then
    it is made anew.
    """
    make, path, _ = kind
    index = path.with_name(path.name + SUFFIX)
    expected = make(path).__getitems__(range(20))
    whole = index.read_bytes()
    arrays_at = whole.index(b"\n", len(MAGIC)) + 1
    places = [*range(arrays_at), *range(arrays_at, len(whole), 7)]
    for number, place in enumerate(places[::step]):
        damaged = bytearray(whole)
        damaged[place] ^= (1, 0x80, 0xFF)[number % 3]
        index.write_bytes(damaged)
        assert make(path).__getitems__(range(20)) == expected


@pytest.mark.slow
def test_an_index_is_checked_by_each_process_that_maps_it(kind):
    """One that was damaged after the source was made is made anew by who reads."""
    make, path, _ = kind
    index = path.with_name(path.name + SUFFIX)
    expected = make(path).__getitems__(range(20))
    whole = index.read_bytes()
    for place in range(whole.index(b"\n", len(MAGIC)) + 1, len(whole), 11):
        source = make(path)
        damaged = bytearray(whole)
        damaged[place] ^= 1
        index.write_bytes(damaged)
        assert source.__getitems__(range(20)) == expected
        index.write_bytes(whole)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("step", chosen([21, 1], 21))
def test_a_forged_index_never_gives_other_records_or_ends_the_process(kind, step):
    """Each value of its JSON changed into every other kind of value, dtypes that hold addresses
    among them.
    """
    make, path, _ = kind
    index = path.with_name(path.name + SUFFIX)
    expected = make(path).__getitems__(range(20))
    whole = index.read_bytes()
    said = json.loads(whole[len(MAGIC) :].partition(b"\n")[0])
    odd = (
        *ODD_VALUES,
        "|O",
        "<f8",
        "<i8",
        "|u1",
        "<M8[s]",
        "|V8",
        "|S0",
        [-1],
        [2**62, 2],
        {"offsets": ["|O", [3]]},
    )
    for place, value in [*product(paths_in(said), odd)][::step]:
        index.write_bytes(changed(whole, place, value))
        assert make(path).__getitems__(range(20)) == expected
    index.write_bytes(MAGIC + b"[" * 100_000 + b"\n")
    assert make(path).__getitems__(range(20)) == expected


def test_an_index_with_a_digest_of_its_own_must_lead_into_the_file(kind):
    """Numbers that a forger changed, digest and all: what is read are records of this file, or an
    error of ours.
    """
    make, path, _ = kind
    place = path.with_name(path.name + SUFFIX)
    kept = index_of(str(path), make.index_kind)
    expected = make(path).__getitems__(range(20))
    for name, array in kept.arrays.items():
        for value in (-1, 2**31 - 1, 10**6, 0):
            forged = {**kept.arrays, name: array.copy()}
            forged[name].reshape(-1)[-1] = np.int64(value).astype(array.dtype)
            digest = digest_of(forged, kept.words)
            write_index(
                str(place),
                make.index_kind.name,
                dataclasses.replace(kept, arrays=forged, digest=digest),
            )
            try:
                assert make(path).__getitems__(range(19)) == expected[:19]
            except SourceError:
                place.unlink()


def test_an_index_may_be_kept_elsewhere(kind, tmp_path):
    """With index_dir=, nothing appears beside the file; two files of one name have
    their own there.
    """
    make, path, write = kind
    other = path.parent.parent / "other" / path.name
    other.parent.mkdir()
    other.write_bytes(write(range(5)))
    for _ in range(2):
        assert (
            len(make(path, index_dir=tmp_path / "kept")),
            len(make(other, index_dir=tmp_path / "kept")),
        ) == (20, 5)
    assert (os.listdir(path.parent), len(os.listdir(tmp_path / "kept"))) == ([path.name], 2)


def test_where_nothing_can_be_written_the_cache_folder_is_used(kind, monkeypatch, tmp_path):
    """A read-only folder is no error; where there is no other place either, the user is told."""
    make, path, _ = kind
    place = path.with_name(path.name + SUFFIX)
    place.mkdir()  # root may write to read-only folders; nobody may write to this path
    made = count_of_finds(monkeypatch, make)
    assert (len(make(path)), len(make(path)), made) == (20, 20, [str(path)])
    assert len(list((tmp_path / "cache/headrace-indices").iterdir())) == 1
    assert (tmp_path / "cache/headrace-indices").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match=r"its index cannot be saved.*index_dir="):
        source = make(path, index_dir=tmp_path / "file")
    assert len(source) == 20


def test_a_file_that_is_replaced_or_cut_off_while_it_is_read_is_an_error(kind):
    """Open or not yet open: no record of another file comes."""
    make, path, write = kind
    opened, unopened = make(path), make(path)
    _ = opened[3]
    os.truncate(path, path.stat().st_size - 1)
    for source in (opened, unopened):
        with pytest.raises(
            SourceError, match=rf"{path.name}: the file changed after the source was made"
        ):
            source.__getitems__([3, 4])
    path.write_bytes(write(range(20)))
    stamp = path.stat()
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    for source in (opened, unopened):
        with pytest.raises(SourceError, match="the file changed after the source was made"):
            _ = source[3]


def test_a_file_that_vanishes_is_an_error_unless_it_is_open(kind):
    """Who has it open reads it to the end."""
    make, path, _ = kind
    opened, unopened = make(path), make(path)
    third = opened[3]
    path.unlink()
    assert opened[3] == third
    with pytest.raises(SourceNotFoundError, match=path.name):
        _ = unopened[3]


@pytest.mark.parametrize("name", ["nope.x", "*.nope", "empty"])
def test_nothing_found_is_an_error_that_names_what_was_given(kind, name):
    """A path, glob or folder without files."""
    make, path, _ = kind
    (path.parent / "empty").mkdir()
    with pytest.raises(SourceNotFoundError, match=name.replace("*", r"\*")):
        make(path.parent / name)


def test_files_that_are_cut_off_compressed_or_foreign_are_an_error_at_once(kind):
    """Nothing is left open, and no index is kept."""
    make, path, _ = kind
    good = path.read_bytes()
    bad = path.with_name(f"bad{path.suffix}")
    contents = (
        [gzip.compress(good)]
        if make is JsonLinesDataSource
        else [good[: len(good) // 3], b"x" * 5000]
    )
    for data in [*contents, gzip.compress(good)]:
        bad.write_bytes(data)
        with pytest.raises(
            SourceError, match=rf"{bad.name}.* (is compressed|cut off|damaged|not a)"
        ):
            make([path, bad])
    assert open_files(path.parent) == []
    assert not bad.with_name(bad.name + SUFFIX).exists()


def test_files_without_records_are_an_error_alone(kind, tmp_path):
    """TFRecord and JSON lines have empty files, as parallel writers leave them; a tar file is never
    empty.
    """
    make, path, write = kind
    empty = path.with_name(f"empty{path.suffix}")
    empty.write_bytes(write([]) if make is TarDataSource else b"")
    assert len(make([empty, path, empty])) == 20
    with pytest.raises(SourceError, match="no records"):
        make(empty)


@pytest.mark.parametrize("what", ["bytes", "example", "line"])
def test_a_damaged_record_is_named_by_key_file_and_offset(what, tmp_path):
    """Alone and among others; the others are read."""
    if what == "line":
        path, data = tmp_path / "x.jsonl", b'{"x": 1}\n{"x": ?}\n{"x": 3}\n'
        make, bad, text = JsonLinesDataSource, data, "the line at byte 9 cannot be read as JSON"
    elif what == "bytes":
        path, data = tmp_path / "x.tfrecord", framed(b"one") + framed(b"two") + framed(b"three")
        make, bad, text = (
            TFRecordDataSource,
            data.replace(b"two", b"2wo"),
            "the record at byte 19 is damaged",
        )
    else:
        path = tmp_path / "x.tfrecord"
        bad = examples([1]) + framed(b"no example") + examples([3])
        make, text = (
            (lambda path: TFRecordDataSource(path, decode=True)),
            r"10 bytes, which begin .* are not a tf",
        )
    path.write_bytes(bad)
    source = make(path)
    for read in (lambda: source[1], lambda: source.__getitems__([2, 1, 0])):
        with pytest.raises(
            SourceError, match=rf"record key 1 cannot be read: .*{path.name}: {text}"
        ) as caught:
            read()
        assert len(str(caught.value)) <= 500
    assert len(source.__getitems__([2, 0])) == 2


def test_what_features_give_is_part_of_the_fingerprint(tmp_path):
    """Bytes, all features, and some of them are three sources; a dtype has one name."""
    path = tmp_path / "x.tfrecord"
    path.write_bytes(examples(range(3)))
    kinds = [
        {},
        {"decode": True},
        {"features": {"label": np.int64}},
        {"features": {"label": np.int32}},
    ]
    assert (
        len({json.dumps(fingerprint_of(TFRecordDataSource(path, **kind))) for kind in kinds}) == 4
    )
    same = [
        TFRecordDataSource(path, features={"label": dtype}).fingerprint
        for dtype in (np.int64, "int64", np.dtype("i8"))
    ]
    assert same[0] == same[1] == same[2]


def test_content_of_tfrecord_files_is_part_of_the_fingerprint(tmp_path):
    """Their checksums stand in the index: other records of the same lengths are another source."""
    told = []
    for said in (b"one", b"two"):
        path = tmp_path / said.decode() / "x.tfrecord"
        path.parent.mkdir()
        path.write_bytes(framed(said))
        told.append(fingerprint_of(TFRecordDataSource(path)))
    assert told[0] != told[1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_open_files": 0}, ValueError),
        ({"max_open_files": "8"}, TypeError),
        ({"index_dir": 3}, TypeError),
    ],
)
def test_arguments_are_checked(kind, arguments, error):
    """Before a file is looked at."""
    make, path, _ = kind
    with pytest.raises(
        error, match=next(iter(arguments)) if "index_dir" not in arguments else "path"
    ):
        make(path, **arguments)


def test_files_in_a_store_are_read_like_local_ones(kind, tmp_path):
    """Their indices are kept in the user's cache folder."""
    import fsspec

    make, path, write = kind
    options = {"cache_dir": str(tmp_path / "blocks")}
    store = fsspec.filesystem("memory")
    try:
        store.pipe(f"/folder/{path.name}", write(range(20)))
        source = make("memory://folder", storage_options=options)
        assert [source[key] for key in range(20)] == [make(path)[key] for key in range(20)]
        assert os.listdir(tmp_path / "cache/headrace-indices")[0].endswith(f"-{path.name}{SUFFIX}")
        source.close()
    finally:
        store.rm("/folder", recursive=True)


def test_a_tilde_is_the_home_directory(kind, monkeypatch):
    """In paths, globs and folders, and for the folder of indices."""
    make, path, _ = kind
    monkeypatch.setenv("HOME", str(path.parent.parent))
    for paths in (f"~/data/{path.name}", "~/data", "~/data/x.*", [f"~/data/{path.name}"]):
        assert len(make(paths, index_dir="~/kept")) == 20
    assert os.listdir(path.parent) == [path.name]
