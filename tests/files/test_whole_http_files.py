"""HTTP servers that send only whole files: each file is fetched once, into the cache, and read from
there.
"""

from __future__ import annotations

import logging
import pickle
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.plain_http import plain_server

from headrace import JsonLinesDataSource
from headrace.errors import SourceError, SourceNotFoundError
from headrace.files.opened import local_copy, open_file, stamp_of
from headrace.files.paths import find_files

DATA = random.Random(0).randbytes((1 << 20) + 12345)
RANGES = [(0, 10), (5000, 100_000), (len(DATA) - 7, 7), (100, 0), (20, 10)]
EXPECTED = [DATA[offset : offset + length] for offset, length in RANGES]
MODIFIED = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
SERVERS = {
    "ignores": {},
    "etag": {"headers": {"ETag": 'W/"abc"'}},
    "400": {"refusal": 400},
    "416": {"refusal": 416},
    "501": {"refusal": 501},
    "no size": {"sends_size": False},
    "no size nor version": {"sends_size": False, "headers": {}},
    "no head": {"head": False},
}


@pytest.fixture(scope="module")
def library():
    """The library of stores has opened what it opens once in a process."""
    with plain_server() as server:
        server.files = {"a.bin": DATA}
        stamp_of(f"{server.url}/a.bin")


@pytest.fixture
def server(library):
    """A server with one file."""
    with plain_server() as server:
        server.files, server.headers = {"a.bin": DATA}, MODIFIED
        yield server


@pytest.fixture
def options(tmp_path):
    """A cache of its own."""
    return {"cache_dir": str(tmp_path / "cache"), "cache_bytes": 2**24, "timeout": 20, "tries": 3}


def become(server, kind):
    """Change what the server does."""
    for name, value in SERVERS[kind].items():
        setattr(server, name, value)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_file_is_fetched_once_and_read_from_the_cache(server, options, kind, caplog):
    """Whatever the server refuses; several threads wait for one request, and one line in the log
    says so.
    """
    become(server, kind)
    url = f"{server.url}/a.bin"
    assert find_files(url, ()) == [url]
    with caplog.at_level(logging.INFO, "headrace"):
        file = open_file(url, options)
        before = server.whole  # requests that only look at the headers, too
        file.prefetch([0], [len(DATA)])
        others = [pickle.loads(pickle.dumps(file)) for _ in range(3)]
        with ThreadPoolExecutor(4) as threads:
            assert (
                list(threads.map(lambda each: each.read_many(*zip(*RANGES)), [file, *others]))
                == [EXPECTED] * 4
            )
        file.prefetch([0], [len(DATA)])
        assert file.read(0, len(DATA)) == DATA
        with local_copy(url, options, file.stamp) as path:
            assert Path(path).read_bytes() == DATA
    assert server.whole - before == (0 if "no size" in kind else 1)
    assert [
        record.getMessage().startswith(url)
        for record in caplog.records
        if "all of it" in record.msg
    ] == [True]
    asked = len(server.asked)
    assert open_file(url, options, file.stamp).read_many(*zip(*RANGES)) == EXPECTED
    assert all(asked for _, asked in server.asked[asked:])


READER = """
import sys
from headrace.files.opened import open_file
print(len(open_file(sys.argv[1], eval(sys.argv[2])).read(0, 100_000)))
"""


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ignores", "no size"])
def test_processes_fetch_a_file_once(server, options, kind):
    """The second one waits for the first, or finds what it fetched."""
    become(server, kind)
    command = [sys.executable, "-c", READER, f"{server.url}/a.bin", repr(options)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["100000\n"] * 2
    copies = list(Path(options["cache_dir"]).glob("*/whole"))
    assert [copy.stat().st_size for copy in copies] == [len(DATA)]


def test_an_answer_that_is_cut_off_is_asked_for_again(server, options):
    """The copy has all bytes."""
    file = open_file(f"{server.url}/a.bin", options)
    server.cut = 2
    server.refusal = 416
    assert file.read_many(*zip(*RANGES)) == EXPECTED


@pytest.mark.parametrize("kind", ["ignores", "etag", "416", "no size", "no size nor version"])
def test_another_version_is_an_error(server, options, kind):
    """The cache may have lost the copy; a file that is opened anew has the new version."""
    become(server, kind)
    url = f"{server.url}/a.bin"
    file = open_file(url, options)
    assert file.read(0, 9) == DATA[:9]
    server.files = {"a.bin": DATA[::-1]}
    server.headers = {
        name: value.replace("abc", "def").replace("07", "08")
        for name, value in server.headers.items()
    }
    assert file.read(0, 9) == DATA[:9]
    for copy in Path(options["cache_dir"]).glob("*/whole"):
        copy.unlink()
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        file.read(0, 9)
    assert open_file(url, options).read(0, 9) == DATA[::-1][:9]


@pytest.mark.parametrize("kind", ["ignores", "no size"])
def test_what_the_cache_cannot_hold_is_an_error(server, options, kind):
    """No cache, or one that is too small: what to change."""
    become(server, kind)
    for budget, text in (
        (0, r"did not send a part of the file\..*cache_bytes=0 allows no cache\. Pass"),
        (9999, "Raise the limit"),
    ):
        with pytest.raises(SourceError, match=text):
            open_file(f"{server.url}/a.bin", {**options, "cache_bytes": budget}).read(0, 9)


@pytest.mark.parametrize("kind", ["ignores", "no size", "no size nor version"])
def test_a_full_disk_is_an_error_of_the_cache(server, options, kind):
    """The message names the folder of the cache, not the server, which is not asked again."""
    resource = pytest.importorskip("resource")
    become(server, kind)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, limits[1]))
    try:
        with pytest.raises(
            SourceError,
            match=r"the cache of remote files .*/cache cannot be used: .*File too large",
        ):
            open_file(f"{server.url}/a.bin", options).read(0, 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert open_file(f"{server.url}/a.bin", options).read(0, 9) == DATA[:9]


def test_a_file_that_is_missing_or_refused_is_an_error(server, options):
    """Also where only a request for the file tells."""
    become(server, "no head")
    with pytest.raises(SourceNotFoundError, match="there is no file"):
        open_file(f"{server.url}/none", options)
    file = open_file(f"{server.url}/a.bin", options)
    server.refusal = 416
    server.files = {}
    with pytest.raises(SourceError, match="there is no file"):
        file.read(0, 9)


@pytest.mark.parametrize("path", ["*.parquet", "train/[0-3].parquet", "train/"])
def test_patterns_and_folders_of_http_are_refused(server, path):
    """The message says to list the files; a query is no pattern."""
    with pytest.raises(
        SourceError, match=r"HTTP servers do not list their files.* Pass a list of the URLs"
    ):
        find_files(f"{server.url}/{path}", ("*.parquet",))
    with pytest.raises(SourceNotFoundError, match="there is no file"):
        find_files(f"{server.url}/none.parquet?x=1", ("*.parquet",))


def test_a_source_reads_from_such_a_server(server, options, tmp_path):
    """Its index is made from the copy."""
    server.files = {"a.jsonl": b"".join(b'{"x": %d}\n' % number for number in range(1000))}
    source = JsonLinesDataSource(
        f"{server.url}/a.jsonl", storage_options=options, index_dir=tmp_path / "index"
    )
    assert [source[key]["x"] for key in (0, 500, 999)] == [0, 500, 999]
    assert server.whole == 1
    source.close()
