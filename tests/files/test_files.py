"""Files by path: which there are, reads at offsets, streams that unpack, files that
appear whole.
"""

from __future__ import annotations

import gzip
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.errors import SourceError, SourceNotFoundError
from headrace.files.opened import open_file
from headrace.files.paths import find_files
from headrace.files.streams import open_stream
from headrace.files.whole_files import written_whole
from headrace.sources.tokens.writer import TokenWriter

DATA = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path):
    """A file with `DATA`, open."""
    (tmp_path / "data").write_bytes(DATA)
    opened = open_file(str(tmp_path / "data"))
    yield opened
    opened.close()


def test_paths_of_all_kinds_give_files(tmp_path, monkeypatch):
    """A file, a glob, a folder and a path from the home directory, in one list."""
    for name in ("b.rec", "a.rec", "c.txt"):
        (tmp_path / name).write_bytes(b"1")
    monkeypatch.setenv("HOME", str(tmp_path))
    both = [f"{tmp_path}/a.rec", f"{tmp_path}/b.rec"]
    assert find_files([tmp_path, "~/*.rec", "~/c.txt"], ("*.rec",)) == [
        *both,
        *both,
        f"{tmp_path}/c.txt",
    ]


DEEP = [
    "a.rec",
    "b=1/c=2/x.rec",
    "b=1/c=2/y.rec",
    "b=1/z.rec",
    "b-1.rec",
    ".hidden/x.rec",
    "_temporary/0/x.rec",
    "b=1/_x.rec",
    "b=1/.x.rec",
    "__MACOSX/a.rec",
    "b=1/c=2/notes.txt",
]
"""Files in a folder and its folders; those after the fifth are not data."""


def test_a_folder_is_searched_to_its_bottom(tmp_path):
    """Its files are sorted by path, as those of `**` are; hidden and private folders and files are
    left out.
    """
    for name in DEEP:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    expected = sorted(f"{tmp_path}/{name}" for name in DEEP[:5])
    for folder in (tmp_path, f"{tmp_path}/"):
        assert find_files(folder, ("*.rec",)) == expected
    assert find_files(tmp_path / "b=1", ("*.rec",)) == [path for path in expected if "b=1/" in path]
    assert find_files(tmp_path / "_temporary", ("*.rec",)) == [f"{tmp_path}/_temporary/0/x.rec"]
    with pytest.raises(SourceNotFoundError, match=r"contains no file named \*\.csv"):
        find_files(tmp_path, ("*.csv",))


def test_the_folders_of_a_store_are_searched_to_their_bottom():
    """Names below the folder are left out by the same rule; the folder itself may have any name."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in DEEP:
        memory.pipe(f"/_deep/{name}", b"1")
    assert find_files("memory://_deep", ("*.rec",)) == sorted(
        f"memory://_deep/{name}" for name in DEEP[:5]
    )
    memory.rm("/_deep", recursive=True)


def test_a_link_into_a_circle_ends_the_search_of_a_folder(tmp_path):
    """A link to another folder is followed; one to a folder around it is not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.rec").write_bytes(b"1")
    (tmp_path / "in" / "back").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "other")
    assert find_files(tmp_path / "in", ("*.rec",)) == [f"{tmp_path}/in/link/b.rec"]


def test_reads_give_the_bytes_of_their_ranges(file):
    """At any offset, from several threads, and after the file travelled by pickle."""
    copy = pickle.loads(pickle.dumps(file))
    ranges = [(at, at % 300) for at in range(0, len(DATA) - 300, 77)]
    expected = [DATA[at : at + length] for at, length in ranges]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda one: file.read(*one), ranges)) == expected
    assert copy.read_many(*zip(*ranges)) == expected
    assert copy.size == len(DATA)
    copy.close()
    copy.close()


def test_a_read_past_the_end_is_an_error(file):
    """It names the file, the place and what is there."""
    with pytest.raises(
        SourceError,
        match=(
            r"9 bytes were expected at byte .*but the file has only 5 there\. The file is cut off"
        ),
    ):
        file.read(len(DATA) - 5, 9)


def test_what_cannot_be_opened_is_an_error(tmp_path):
    """A file that is not there, and a folder."""
    with pytest.raises(SourceNotFoundError, match="no file"):
        open_file(str(tmp_path / "none"))
    with pytest.raises(SourceError, match="is a folder"):
        open_file(str(tmp_path))


@pytest.mark.parametrize("suffix", ["gz", "zst", "bin"])
def test_streams_unpack_by_the_end_of_the_name(tmp_path, suffix):
    """Several members in one file are one stream; without `decompress` the bytes come
    as they are.
    """
    if suffix == "zst":
        pytest.importorskip("backports.zstd")
        from backports.zstd import compress
    else:
        compress = gzip.compress if suffix == "gz" else bytes
    path = tmp_path / f"lines.{suffix}"
    path.write_bytes(compress(b"one\n" * 70000) + compress(b"two\nthree"))
    with open_stream(str(path), "auto") as stream:
        assert list(stream) == [b"one\n"] * 70000 + [b"two\n", b"three"]
    with open_stream(str(path)) as stream:
        assert stream.read() == path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "content"),
    [("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\0\x01"), ("gzip", b"text"), ("zstd", b"text")],
)
def test_a_damaged_stream_is_an_error(tmp_path, kind, content):
    """It names the file and about where in it."""
    if kind == "zstd":
        pytest.importorskip("backports.zstd")
    (tmp_path / "x.gz").write_bytes(content)
    with (
        pytest.raises(SourceError, match=r"x\.gz cannot be unpacked, near byte \d+"),
        open_stream(str(tmp_path / "x.gz"), kind) as stream,
    ):
        stream.read()


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    """In place of an older one; an exception leaves that as it was, and nothing beside it."""
    path = tmp_path / "a"
    for content in (b"first", b"second"):
        with written_whole(str(path)) as out:
            out.write(content)
    with pytest.raises(KeyError), written_whole(str(path)) as out:
        out.write(b"third")
        raise KeyError
    assert (os.listdir(tmp_path), path.read_bytes()) == (["a"], b"second")


def test_tokens_are_written_and_read_below_the_home_directory(tmp_path, monkeypatch):
    """A `~` at the beginning of a path is the home, in sources and writers alike."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with TokenWriter("~/t.npy") as writer:
        writer.append([1])
    assert sorted(os.listdir(tmp_path)) == ["t.npy", "t.npy.offsets"]
