"""Files in stores: the same bytes as those of local files, whatever happens on the way; a cache
that keeps its budget.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.remote_store import BUCKET, Faults, moto_server, options, proxy_to, put

from headrace.errors import MissingExtraError, SourceError, SourceNotFoundError
from headrace.files.opened import local_copy, open_file, stamp_of
from headrace.files.paths import find_files
from headrace.files.remote import cache as remote_cache
from headrace.files.remote import remote_file
from headrace.files.remote.cache import Cache
from headrace.files.remote.hot import HOT
from headrace.files.storage_options import storage_options_of
from headrace.files.streams import open_stream

MIB = 1 << 20
DATA = random.Random(0).randbytes(5 * MIB + 12345)
NAMES = ("train/a.bin", "train/b.bin", "train/deep/c.bin", "train/_done", "one.bin")
URL = f"s3://{BUCKET}/train/a.bin"
RANGES = [(0, 10), (MIB - 5, 10), (3 * MIB, 2 * MIB + 1), (len(DATA) - 7, 7), (100, 0), (20, 10)]


@pytest.fixture(scope="module")
def upstream():
    """A store that has files."""
    with moto_server() as address:
        put(address, "", b"")
        for name in NAMES:
            put(address, name, DATA)
        with proxy_to(address) as proxy:  # what the library opens once in a process is open now
            stamp_of(URL, options(proxy))
        yield address


@pytest.fixture
def store(upstream):
    """A proxy before it."""
    with proxy_to(upstream) as proxy:
        yield proxy


@pytest.fixture
def to_store(store, tmp_path):
    """Options that lead there, with a cache of their own."""
    return options(store, cache_dir=str(tmp_path / "cache"), cache_bytes=2**24, timeout=1, tries=4)


def expected(ranges):
    """The bytes at ranges."""
    return [DATA[offset : offset + length] for offset, length in ranges]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cache_bytes", [0, 2**24])
@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(delay=0.05), Faults(error=3), Faults(truncate=3), Faults(stall=5)],
    ids=["none", "delay", "errors", "truncated", "stalls"],
)
def test_reads_are_those_of_a_local_file_under_any_fault(store, to_store, faults, cache_bytes):
    """Late, refused, cut off or stalled answers are asked for again, and the bytes are right."""
    to_store = {**to_store, "cache_bytes": cache_bytes, "timeout": 0.3}
    file = open_file(URL, to_store)
    store.faults = faults
    assert file.size == len(DATA)
    assert file.read_many(*zip(*RANGES)) == expected(RANGES)
    assert pickle.loads(pickle.dumps(file)).read(77, 1000) == DATA[77:1077]


def test_many_ranges_are_few_requests(store, to_store):
    """Ranges that are close to one another come together, without a cache; with one, each block
    comes once.
    """
    ranges = [(at, 100) for at in range(0, MIB, 1000)]
    open_file(URL, {**to_store, "cache_bytes": 0}).read_many(*zip(*ranges))
    assert store.reads == 1
    file = open_file(URL, to_store)
    for _ in range(3):
        assert file.read_many(*zip(*ranges)) == expected(ranges)
    assert store.reads == 2
    file.read(0, len(DATA))
    assert store.reads == 3
    asked = len(store.asked)
    assert open_file(URL, to_store, file.stamp).read(5, 5) == DATA[5:10]
    assert len(store.asked) == asked


def test_threads_ask_for_each_block_once(store, to_store):
    """Who comes while another one asks for a block waits for it."""
    store.faults = Faults(delay=0.2)
    files = [open_file(URL, to_store) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda file: file.read(0, len(DATA)), files)) == {DATA}
    assert store.bytes_asked == len(DATA)


def test_what_is_prefetched_is_not_asked_for_again(store, to_store):
    """Reads that come later find it, or wait for it."""
    file = open_file(URL, to_store)
    file.prefetch([0], [MIB])
    assert file.read(10, 10) == DATA[10:20]
    assert file.read(0, MIB) == DATA[:MIB]
    assert store.bytes_asked == MIB


def test_streams_and_copies_of_remote_files(store, to_store):
    """From the beginning to the end, and as a file of this machine."""
    with open_stream(URL, storage_options=to_store) as stream:
        assert stream.read() == DATA
    with local_copy(URL, to_store) as path:
        assert Path(path).read_bytes() == DATA
    asked = store.reads
    with local_copy(URL, to_store) as path:
        assert os.path.getsize(path) == len(DATA)
    assert store.reads == asked


PATHS = {
    "train/a.bin": ["train/a.bin"],
    "train": ["train/a.bin", "train/b.bin", "train/deep/c.bin"],
    "train/": ["train/a.bin", "train/b.bin", "train/deep/c.bin"],
    "train/[ab].bin": ["train/a.bin", "train/b.bin"],
    "**/*.bin": ["one.bin", "train/a.bin", "train/b.bin", "train/deep/c.bin"],
    "*/b.*": ["train/b.bin"],
    "train/deep/**": ["train/deep/c.bin"],
    "": ["one.bin", "train/a.bin", "train/b.bin", "train/deep/c.bin"],
}


def test_paths_in_a_store_give_the_same_files_as_local_ones(to_store):
    """A file, a folder to its bottom, patterns; sorted by path."""
    for path, names in PATHS.items():
        url = f"s3://{BUCKET}/{path}" if path else f"s3://{BUCKET}"
        assert find_files(url, ("*.bin",), to_store) == [
            f"s3://{BUCKET}/{name}" for name in names
        ], path


def test_a_url_that_was_made_a_path_is_told(to_store):
    """It is no URL any more: `s3:/data`."""
    with pytest.raises(
        SourceNotFoundError, match="Pass a URL as a string, because Path removes a slash"
    ):
        find_files(Path("s3://data/one.bin"), (), to_store)


def test_other_schemes(store, to_store, tmp_path):
    """HTTP by obstore, memory by fsspec, file:// as a path of this machine."""
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/folder/a.bin", DATA)
    (tmp_path / "a b.bin").write_bytes(DATA)
    ours = {name: to_store[name] for name in ("cache_dir", "cache_bytes")}
    paths = (
        "memory://folder/a.bin",
        f"{store.url}/{BUCKET}/one.bin",
        f"file://{tmp_path}/a%20b.bin",
    )
    for path in paths:
        (found,) = find_files(path, ("*",), ours)
        file = open_file(found, ours)
        assert file.read_many(*zip(*RANGES)) == expected(RANGES)
        file.close()
    assert (
        find_files("memory://folder", ("*.bin",))
        == find_files("memory://folder/*.bin", ())
        == ["memory://folder/a.bin"]
    )
    fsspec.filesystem("memory").rm("/folder", recursive=True)


def test_another_version_is_an_error(upstream, store, to_store):
    """Blocks of two versions never come together."""
    put(upstream, "changed.bin", DATA)
    file = open_file(f"s3://{BUCKET}/changed.bin", to_store)
    assert file.read(0, 9) == DATA[:9]
    put(upstream, "changed.bin", DATA[::-1])
    with pytest.raises(SourceError, match="the file changed after the source was made"):
        file.read(3 * MIB, 9)
    assert open_file(f"s3://{BUCKET}/changed.bin", to_store).read(0, 9) == DATA[::-1][:9]


def test_errors_say_what_and_what_to_do(store, to_store, monkeypatch):
    """No such file, bucket, scheme or option; no credentials; a store that stays away. None is
    asked again but the last.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SourceNotFoundError, match="no file 's3://data/none'"):
        open_file(f"s3://{BUCKET}/none", to_store)
    with pytest.raises(SourceNotFoundError, match="no file or directory 's3://data/none'"):
        find_files(f"s3://{BUCKET}/none", ("*",), to_store)
    with pytest.raises(SourceError, match="there is no such bucket"):
        find_files("s3://nobody/none/", ("*",), to_store)
    with pytest.raises(SourceError, match="scheme nope://"):
        open_file("nope://a/b", to_store)
    with pytest.raises(
        SourceError, match=r"cannot be opened with this URL and these storage_options: .*regio"
    ):
        open_file(URL, {"regio": "x"})
    nobody = {
        "endpoint": store.url,
        "region": "us-east-1",
        "metadata_endpoint": store.url + "/latest/api/token",
    }
    with pytest.raises(SourceError, match="access is refused; set credentials"):
        open_file(URL, nobody)
    store.faults = Faults(refuse=1)
    with pytest.raises(SourceError, match="access is refused; set credentials"):
        open_file(URL, to_store)
    store.faults = Faults(error=1)
    asked = len(store.asked)
    with pytest.raises(SourceError, match=r"the request failed \(tries: 3\)") as found:
        open_file(URL, {**to_store, "tries": 3})
    assert len(store.asked) == asked + 3
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([1], "Pass a dict"),
        ({1: 2}, "Pass a dict"),
        ({"cache_bytes": -1}, "cache_bytes=-1 must be at least 0"),
        ({"tries": 0}, "tries=0"),
        ({"timeout": 0}, "timeout=0 is not a positive int or float"),
    ],
)
def test_wrong_options_are_errors(options, message):
    """They say which."""
    with pytest.raises((TypeError, ValueError), match=message):
        storage_options_of(options)


def credentials():
    """As a cloud's library would find them."""
    return {"access_key_id": "a", "secret_access_key": "b", "token": None, "expires_at": None}


def test_credentials_may_come_from_a_function(store, to_store):
    """It travels with the file, to workers too."""
    given = {name: value for name, value in to_store.items() if "key" not in name}
    file = pickle.loads(pickle.dumps(open_file(URL, {**given, "credential_provider": credentials})))
    assert file.read(3, 9) == DATA[3:12]


def test_without_the_extra_an_error_names_it(monkeypatch):
    """It says what to install."""
    for name in ("obstore", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    for url in ("gs://x/y", "hf://x/y"):
        with pytest.raises(MissingExtraError, match=r'pip install "headrace\[remote\]"'):
            open_file(url)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_forked_child_says_that_it_cannot_read(to_store):
    """What is in the cache it reads; for all else there is an error, and no waiting for threads
    that do not exist.
    """
    file = open_file(URL, to_store)
    file.read(0, 9)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            assert file.read(0, 9) == DATA[:9]
            file.read(3 * MIB, 9)
        except SourceError as error:
            code = (
                0 if "was forked from a process that had opened remote files" in str(error) else 2
            )
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- The cache


def kept(folder):
    """Bytes of all pieces in a folder."""
    return sum(path.stat().st_size for path in Path(folder).glob("*/*"))


def test_the_budget_is_kept_and_what_was_used_last_stays(store, to_store):
    """However much is read, never more than the budget is there, and soon almost as much."""
    budget = 4 * MIB
    to_store = {**to_store, "cache_bytes": budget}
    files = [open_file(f"s3://{BUCKET}/{name}", to_store) for name in NAMES[:2]]
    for at in [*range(0, len(DATA), MIB), 0, 3 * MIB]:
        for file in files:
            assert file.read(at, 9) == DATA[at : at + 9]
            assert kept(to_store["cache_dir"]) <= budget
    assert kept(to_store["cache_dir"]) >= budget * 3 // 4
    asked = store.reads
    files[1].read(3 * MIB, 9)
    assert store.reads == asked
    assert files[0].read(0, len(DATA)) == DATA  # more than the whole cache, at once
    with (
        pytest.raises(
            SourceError,
            match=r"bytes of a remote file do not fit into the cache .*, whose limit is .*bytes",
        ),
        local_copy(URL, to_store),
    ):
        pass


def test_a_piece_that_is_not_whole_is_brought_again(store, to_store):
    """A machine may go down before all of it is on the disk: the size tells."""
    file = open_file(URL, to_store)
    for _ in range(2):
        assert file.read(0, len(DATA)) == DATA
        with local_copy(URL, to_store) as path:
            assert Path(path).read_bytes() == DATA
        for piece in Path(to_store["cache_dir"]).glob("*/*"):
            os.truncate(piece, piece.stat().st_size // 2)


@pytest.mark.parametrize("ahead", [False, True], ids=["read", "mapped"])
@pytest.mark.one_in(2)
def test_a_cached_block_with_a_changed_byte_is_brought_again(store, to_store, ahead):
    """Wherever the byte is, in the data or in its checksums: never other bytes, and the block is
    whole again afterwards.
    """
    chosen = random.Random(1)
    assert open_file(URL, to_store).read(0, len(DATA)) == DATA
    pieces = sorted(Path(to_store["cache_dir"]).glob("*/*"))
    for _ in range(20):
        piece = chosen.choice(pieces)
        whole = piece.read_bytes()
        at = chosen.choice(
            [0, len(whole) - 1, MIB // 2 - 1, MIB // 2, chosen.randrange(len(whole))]
        ) % len(whole)
        piece.write_bytes(
            whole[:at] + bytes([whole[at] ^ (1 << chosen.randrange(8))]) + whole[at + 1 :]
        )
        file = open_file(URL, to_store)
        start = int(piece.name, 16) * MIB // 2
        if ahead:
            HOT.clear()
            file.prefetch([start], [MIB // 2])
        offsets = [*range(start, min(start + MIB // 2, len(DATA)), 10_000), max(start - 5, 0)]
        lengths = [min(10_000, len(DATA) - offset) for offset in offsets]
        assert file.read_many(offsets, lengths) == expected(zip(offsets, lengths))
        assert piece.read_bytes() == whole


@pytest.mark.parametrize("at", [1000, MIB // 2 + 2], ids=["data", "checksums"])
def test_a_block_that_is_changed_in_place_while_it_is_mapped_is_brought_again(store, to_store, at):
    """Reads of mapped memory are checked, too: the next read has the store's bytes."""
    file = open_file(URL, to_store)
    file.prefetch([0], [MIB // 2])
    assert file.read(0, MIB // 2) == DATA[: MIB // 2]
    (piece,) = Path(to_store["cache_dir"]).glob("*/*0")
    with open(piece, "r+b") as changed:
        changed.seek(at)
        byte = changed.read(1)[0]
        changed.seek(at)
        changed.write(bytes([byte ^ 90]))
    parts = [(0, MIB // 2), (990, 20), (MIB // 2 - 40_000, 40_000)]
    assert file.read_many(*zip(*parts)) == expected(parts)
    assert piece.read_bytes()[: MIB // 2] == DATA[: MIB // 2]


def test_a_mapped_block_belongs_to_the_folder_of_its_cache(store, to_store, tmp_path):
    """A second cache in another folder does not read the mapped memory of the first."""
    file = open_file(URL, to_store)
    file.prefetch([0], [9])
    assert file.read(0, 9) == DATA[:9]
    asked = store.bytes_asked
    other = {**to_store, "cache_dir": str(tmp_path / "other")}
    assert open_file(URL, other).read(0, 9) == DATA[:9]
    assert store.bytes_asked > asked
    assert list((tmp_path / "other").glob("*/*0"))


def test_a_cached_copy_with_a_changed_byte_is_made_again(store, to_store):
    """The copy, or its checksums, or these are gone; its first use in a process finds out."""
    for where in ("whole", "whole.sums"):
        for at in (0, 700, -1):
            with local_copy(URL, to_store) as path:
                assert Path(path).read_bytes() == DATA
            (piece,) = Path(to_store["cache_dir"]).glob(f"*/{where}")
            damaged = bytearray(piece.read_bytes())
            damaged[at] ^= 4
            piece.write_bytes(damaged)
            remote_file.checked_copies.clear()
            asked = store.bytes_asked
            with local_copy(URL, to_store) as path:
                assert Path(path).read_bytes() == DATA
            assert store.bytes_asked == asked + len(DATA)
            with local_copy(URL, to_store):
                assert store.bytes_asked == asked + len(DATA)
    piece.unlink()
    remote_file.checked_copies.clear()
    with local_copy(URL, to_store) as path:
        assert Path(path).read_bytes() == DATA


def test_nobody_else_may_look_into_the_folders_of_the_cache(store, to_store):
    """They are made for their user alone; one that was there before stays as its owner made it."""
    folder = Path(to_store["cache_dir"])
    open_file(URL, to_store).read(0, 9)
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, *folder.glob("*/"))] == [
        "0o700",
        "0o700",
    ]
    shutil.rmtree(folder)
    folder.mkdir(mode=0o755)
    open_file(URL, to_store).read(0, 9)
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_damaged_block_in_a_cache_that_cannot_be_written_is_an_error(
    store, to_store, monkeypatch
):
    """It is never read, and never asked for again without end."""
    assert open_file(URL, to_store).read(0, 9) == DATA[:9]
    (piece,) = Path(to_store["cache_dir"]).glob("*/*")
    piece.write_bytes(b"\x00" + piece.read_bytes()[1:])

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("headrace.files.remote.cache.os.remove", refuse)
    with pytest.raises(
        SourceError,
        match=r"the cache of remote files .*cannot be used: \[Errno 13\] Permission denied",
    ):
        open_file(URL, to_store).read(0, 9)


def test_announced_blocks_stay_mapped_until_others_are_announced(store, to_store):
    """They are read though the cache has removed them; a range may span them and others. They are
    not kept for long.
    """
    file = open_file(URL, to_store)
    file.prefetch([0], [2 * MIB])
    assert file.read(0, 2 * MIB) == DATA[: 2 * MIB]
    limit = time.monotonic() + 30
    while list(Path(to_store["cache_dir"]).glob("*/*.part")) and time.monotonic() < limit:
        time.sleep(1e-3)  # another thread that came for a piece may still look whether it is there
    assert {path.name for path in Path(to_store["cache_dir"]).glob("*/*")} == {
        f"{number:08x}" for number in range(4)
    }
    shutil.rmtree(to_store["cache_dir"])
    assert file.read_many([0, 5, MIB // 2 - 5], [0, 100, 2 * MIB]) == [
        b"",
        DATA[5:105],
        DATA[MIB // 2 - 5 :][: 2 * MIB],
    ]
    assert store.bytes_asked == 5 * MIB // 2
    for at in (3 * MIB, 4 * MIB):
        file.prefetch([at], [9])
        assert file.read(at, 9) == DATA[at : at + 9]
    assert file.read(0, 9) == DATA[:9]
    assert store.bytes_asked == 4 * MIB


def test_a_folder_that_is_cleared_while_it_is_written_to_is_made_anew(store, to_store):
    """What was being written is read all the same."""
    file = open_file(URL, to_store)

    def clear():
        while not done.wait(0.002):
            shutil.rmtree(to_store["cache_dir"], ignore_errors=True)

    done = threading.Event()
    thread = threading.Thread(target=clear)
    thread.start()
    try:
        for _ in range(5):
            assert file.read(0, len(DATA)) == DATA
    finally:
        done.set()
        thread.join()


def test_who_comes_when_a_piece_has_just_got_its_name_leaves_no_file(tmp_path, monkeypatch):
    """Another one writes it between the look for it and the making of the file to write."""
    cache = Cache(str(tmp_path), 1 << 20)
    opened = remote_cache._opened

    def others_first(path, folder):
        monkeypatch.undo()
        with cache.claim("a/0", wait=True).file(1) as out:
            out.write(b"x")
        return opened(path, folder)

    monkeypatch.setattr(remote_cache, "_opened", others_first)
    assert cache.claim("a/0", wait=True) is None
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["0"]


def test_a_piece_is_begun_however_often_its_folder_is_cleared(tmp_path):
    """Between any two steps of making the folder, too."""
    done = threading.Event()

    def clear():
        while not done.is_set():
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)

    thread = threading.Thread(target=clear)
    thread.start()
    try:
        cache = Cache(str(tmp_path / "cache"), 8 * MIB)
        for number in range(500):
            claim = cache.claim(f"a/{number}", wait=True)
            assert claim is not None
            claim.give_up()
    finally:
        done.set()
        thread.join()


def test_copies_that_do_not_fit_together_come_one_after_the_other(store, to_store):
    """Each waits for room; the budget is kept, and what is open stays whole."""
    to_store = {**to_store, "cache_bytes": 8 * MIB}
    most = []

    def copy(name):
        with local_copy(f"s3://{BUCKET}/{name}", to_store) as path:
            most.append(kept(to_store["cache_dir"]))
            return Path(path).read_bytes()

    with ThreadPoolExecutor(3) as threads:
        assert set(threads.map(copy, NAMES[:3])) == {DATA}
    assert max(most) <= 8 * MIB


def test_a_cache_that_cannot_be_written_is_an_error(store, to_store, tmp_path):
    """A folder that is a file, and a disk that is full: folder and remedy."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        SourceError,
        match=(
            r"the cache of remote files .*cannot be used: \[Errno 20\] Not a directory: .*, or "
            r"choose another folder"
        ),
    ):
        open_file(URL, {**to_store, "cache_dir": str(tmp_path / "file" / "x")}).read(0, 9)
    assert (
        open_file(URL, {**to_store, "cache_bytes": 0, "cache_dir": "/proc/x"}).read(0, 9)
        == DATA[:9]
    )


def test_a_full_disk_is_an_error_that_leaves_nothing(to_store, monkeypatch):
    """No half of a piece is there, and what was reserved is given back."""
    resource = pytest.importorskip("resource")
    file = open_file(URL, to_store)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB // 8, limits[1]))
    try:
        with pytest.raises(SourceError, match=r"cannot be used: .*File too large"):
            file.read(0, 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert kept(to_store["cache_dir"]) == 0
    assert file.read(0, 9) == DATA[:9]


KILLED = """
import sys, threading
from headrace.files.opened import open_file
file = open_file(sys.argv[1], eval(sys.argv[2]))
print("begun", flush=True)
for _ in range(1000):
    file.read(0, file.size)
    for path in __import__("pathlib").Path(eval(sys.argv[2])["cache_dir"]).glob("*/*"):
        path.unlink(missing_ok=True)
"""


def test_a_killed_process_leaves_a_cache_that_works(store, to_store):
    """Killed while it writes: others read right bytes, and the budget is kept."""
    to_store = {**to_store, "cache_bytes": 7 * MIB}
    for moment in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, URL, repr(to_store)],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        child.stdout.readline()
        time.sleep(0.02 * moment)
        child.kill()
        child.wait()
        child.stdout.close()
        for name in NAMES[:2]:
            assert open_file(f"s3://{BUCKET}/{name}", to_store).read(0, len(DATA)) == DATA
            assert kept(to_store["cache_dir"]) <= 7 * MIB


ENDS = """
import sys
from headrace.files.opened import open_file
file = open_file(sys.argv[1], eval(sys.argv[2]))
file.prefetch([0], [file.size])
"""


def test_a_program_ends_while_blocks_are_brought_ahead(store, to_store):
    """It waits for what is on its way, and not for more; it ends well."""
    store.faults = Faults(delay=0.2)
    subprocess.run(
        [sys.executable, "-c", ENDS, URL, repr({**to_store, "timeout": 5})], check=True, timeout=30
    )
    store.faults = Faults(error=2)
    subprocess.run(
        [sys.executable, "-c", ENDS, URL, repr({**to_store, "timeout": 5, "tries": 1000})],
        check=True,
        timeout=30,
    )


def test_no_thread_stays(store, to_store):
    """Requests that run at the same time have threads of their own, which end with the call."""
    starts = range(0, len(DATA), 2 * MIB)
    open_file(URL, to_store).read_many(starts, [9] * len(starts))
    assert not [one for one in threading.enumerate() if one.name.startswith("headrace-request")]
