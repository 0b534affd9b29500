"""Tests that every source must pass."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from ..loader.data_loader import DataLoader
from ..samplers import IndexSampler
from ..sources import as_source, fingerprint_of, reader_of
from ..sources.facts import SourceFacts, facts_of, used_records
from .comparing import assert_equal

_CHILD_SECONDS = 30


class SourceConformance:
    """Tests of a source: a subclass of it, named `Test…`, is collected by pytest.

    They check that a key always gives the same record, read alone, among many, on threads, in a
    forked process, after pickling, and by a loader that is stopped and resumed; and that what the
    source says about its records is true.

    Attributes:
        count: number of records.
        on_files: False (default). True for a source that reads files: its pickle is small, its
            files may be moved, and none of them stays open after `close`, or when the source has
            died.

    >>> class TestSquares(SourceConformance):
    ...     def open(self, folder, count):
    ...         return [key * key for key in range(count)]
    ...     def expected_record(self, key):
    ...         return key * key
    """

    count = 97
    on_files = False

    def write(self, folder: Path, count: int) -> None:
        """Write the files of a source of `count` records into an empty folder.

        The default writes nothing.
        """

    def open(self, folder: Path, count: int) -> Any:
        """Return a new source of `count` records, from the files that `write` has written."""
        raise NotImplementedError

    def expected_record(self, key: int) -> Any:
        """Return the record that the source must give for a key."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return the folder with the files of the source."""
        folder = tmp_path / "data"
        folder.mkdir()
        self.write(folder, self.count)
        return folder

    @pytest.fixture
    def source(self, folder: Path) -> Any:
        """Return the source."""
        return as_source(self.open(folder, self.count))

    @pytest.fixture
    def expected(self) -> list[Any]:
        """Return the records of all keys."""
        return [self.expected_record(key) for key in range(self.count)]

    def test_each_key_gives_its_record(self, source: Any, expected: list[Any]) -> None:
        """`source[k]` is record k. A NumPy integer of any width is a key like a Python int."""
        for key in range(self.count):
            assert_equal([source[key]], [expected[key]])
        for kind in (np.int64, np.int32, *([np.uint8] if self.count <= 256 else []), np.uint64):
            assert_equal([source[kind(self.count - 1)]], [expected[self.count - 1]])

    def test_many_keys_give_the_same_as_one_by_one(self, source: Any, expected: list[Any]) -> None:
        """Reading many keys in random order, with duplicates, gives their records in that order."""
        keys = np.random.default_rng(0).integers(0, self.count, 3 * self.count)
        for some in (keys, keys[:5], keys[:1], np.arange(self.count), np.full(3, self.count // 2)):
            records = reader_of(source)(some)
            assert len(records) == len(some)
            for key, record in zip(some, records):
                assert_equal([record], [expected[key]])

    def test_a_shuffled_loader_gives_each_record_once_and_resumes(
        self, source: Any, expected: list[Any]
    ) -> None:
        """An epoch follows the order of its sampler, and a state from its middle gives the rest."""
        sampler = IndexSampler(self.count, shuffle=True, seed=1, num_epochs=1)
        loader = DataLoader(data_source=source, sampler=sampler)
        keys, half = sampler.record_keys(np.arange(self.count)).tolist(), self.count // 2
        with iter(loader) as iterator:
            assert_equal(
                [next(iterator) for _ in range(half)], [expected[key] for key in keys[:half]]
            )
            state = iterator.get_state()
        with iter(loader) as iterator:
            iterator.set_state(state)
            assert_equal(list(iterator), [expected[key] for key in keys[half:]])

    def test_a_pickled_source_gives_the_same_records(
        self, source: Any, expected: list[Any]
    ) -> None:
        """A source travels to another process by pickle, before and after it was read.

        What is pickled of a source on files is where they are, not what is in them.
        """
        for _ in range(2):
            assert_equal(
                list(reader_of(pickle.loads(pickle.dumps(source)))(np.arange(self.count))), expected
            )
        assert_equal([copy.copy(source)[0]], [expected[0]])
        if self.on_files:
            reader_of(source)(np.arange(self.count))
            assert len(pickle.dumps(source)) < 4000

    def test_eight_threads_read_at_the_same_time(self, source: Any, expected: list[Any]) -> None:
        """Threads that read one source at the same time get their own records."""

        def read(seed: int) -> bool:
            generator = np.random.default_rng(seed)
            for _ in range(2):
                keys = generator.integers(0, self.count, 33)
                assert_equal(list(reader_of(source)(keys)), [expected[key] for key in keys])
            return True

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(read, range(8)))

    @pytest.mark.filterwarnings(
        "ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning"
    )
    def test_a_forked_child_reads_what_the_parent_reads(
        self, source: Any, expected: list[Any]
    ) -> None:
        """After a fork child and parent read the same source independently of each other."""
        reader_of(source)(np.arange(5))
        child = os.fork()
        if child == 0:  # No pytest in here: the child only answers with its exit code.
            ok = False
            try:
                assert_equal(list(reader_of(source)(np.arange(self.count)[::-1])), expected[::-1])
                ok = True
            finally:
                os._exit(0 if ok else 1)
        assert_equal(list(reader_of(source)(np.arange(self.count))), expected)
        assert _exit_code(child) == 0

    def test_the_facts_are_true(self, source: Any, expected: list[Any]) -> None:
        """What the facts say of all records, and of files, is what the records say.

        A pickled source has the same facts.
        """
        facts = facts_of(source)
        keys = np.arange(self.count)
        assert facts.reads_singly is not None
        assert not facts.answers_exactly or (facts.array_keys and facts.checks_keys)
        assert facts.reads_ahead is True or 0 <= facts.reads_ahead < 1000
        assert facts.file_count() >= 0
        assert facts.records_together() >= 1
        for numbers in (
            *_leaves_of(facts.lengths()),
            *_leaves_of(facts.record_bytes()),
            *_leaves_of(facts.columns()),
        ):
            assert len(numbers) == self.count
        for key in range(self.count):
            if facts.lookup is not None:
                assert_equal([facts.lookup(key)], [expected[key]])
            if facts.items is not None:
                assert_equal([facts.items[key]], [expected[key]])
        if facts.announce is not None:
            assert facts.announce(keys) is None
        for key in (0, self.count - 1):
            assert used_records(source, key)
        self._check_file_runs(facts)
        others = facts_of(pickle.loads(pickle.dumps(source)))
        for (name, value), other in zip(facts._asdict().items(), others):
            assert type(other) is type(value), name
            if isinstance(value, (bool, int)):
                assert other == value, name

    def _check_file_runs(self, facts: SourceFacts) -> None:
        """Assert that runs of records cover all keys in order.

        Each begins where the source says that its first record is.
        """
        if facts.file_runs is None:
            return
        runs = list(facts.file_runs())
        assert [run.key for run in runs] == [0, *np.cumsum([run.records for run in runs])[:-1]]
        assert sum(run.records for run in runs) == self.count
        for run in runs:
            for place, key in (
                (run.record, run.key),
                (run.record + run.records - 1, run.key + run.records - 1),
            ):
                found = facts.file_place(key)
                assert found is not None
                assert found[:2] == (run.file, place)

    def test_the_fingerprint_is_that_of_the_content(
        self, folder: Path, source: Any, tmp_path: Path
    ) -> None:
        """Opening again or pickling keeps the fingerprint; other content changes it."""
        assert fingerprint_of(as_source(self.open(folder, self.count))) == fingerprint_of(source)
        assert fingerprint_of(pickle.loads(pickle.dumps(source))) == fingerprint_of(source)
        other = tmp_path / "other"
        other.mkdir()
        self.write(other, self.count - 1)
        assert fingerprint_of(as_source(self.open(other, self.count - 1))) != fingerprint_of(source)

    def test_moved_files_are_the_same_source(
        self, folder: Path, source: Any, tmp_path: Path
    ) -> None:
        """Files moved to another folder keep their fingerprint."""
        if self.on_files:
            moved = tmp_path / "elsewhere" / "deeper"
            moved.parent.mkdir()
            fingerprint = fingerprint_of(source)
            shutil.move(folder, moved)
            assert fingerprint_of(self.open(moved, self.count)) == fingerprint

    def test_no_descriptor_is_left_open(
        self, folder: Path, source: Any, expected: list[Any]
    ) -> None:
        """None of its files is open after `close()`, or when nothing refers to the source.

        A closed source reads again.
        """
        if self.on_files:
            reader_of(source)(np.arange(self.count))
            if callable(close := getattr(source, "close", None)):
                close()
                assert _open_files(folder) == []
                assert_equal([source[1]], [expected[1]])
                close()
            before = _open_files(folder)
            second = self.open(folder, self.count)
            reader_of(second)(np.arange(self.count))
            del second
            left = _open_files(folder)
            assert left == before, (
                f"files are still open: {', '.join(left)}. Nothing refers to the source any more, "
                "so the source, or an object that it keeps (as a connection of sqlite3), is in a "
                "reference cycle. Break the cycle, or close such an object in the source's __del__."
            )


def _leaves_of(tree: Any) -> list[Any]:
    return [leaf for leaf in optree.tree_leaves(tree) if leaf is not None]


def _open_files(folder: Path) -> list[str]:
    """Return the files in a folder that this process has open."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return [link for link in links if link.startswith(str(folder))]


def _exit_code(child: int) -> int:
    """Wait for a forked process, and return its exit code; -1 if it hangs and is killed."""
    end = time.monotonic() + _CHILD_SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
