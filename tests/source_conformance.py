"""In: how to write and open a source of some kind. Out: the tests that every source must pass.

A new source's test subclasses `SourceConformance` and gives `write`, `open` and `expected_record`; `on_files = True`
adds the promises of sources that read files.
"""

import copy
import gc
import json
import os
import pickle
import shutil
import signal
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest

from headrace.errors import RecordKeyError
from headrace.sources import as_source, fingerprint_of, reader_of
from headrace.sources.facts import facts_of, used_records

COUNT = 97
CHILD_SECONDS = 30


class SourceConformance:
    """The promises of every source."""

    on_files = False
    """It reads files: it pickles small, moves with its files and leaves no descriptor open."""

    own = True
    """It is one of ours; foreign ones check no keys and have no fingerprint of their own."""

    def write(self, folder: Path, count: int) -> None:
        """Writes the files of a source of `count` records into the empty `folder`."""

    def open(self, folder: Path, count: int) -> Any:
        """Opens the source that `write` made."""
        raise NotImplementedError

    def expected_record(self, key: int) -> Any:
        """The record that must come for `key`."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        self.write(folder, COUNT)
        return folder

    @pytest.fixture
    def source(self, folder):
        return self.open(folder, COUNT)

    @pytest.fixture
    def expected(self):
        return [self.expected_record(key) for key in range(COUNT)]

    def test_length_is_the_number_of_records(self, source):
        """`len` gives the number of records, and the source is taken as it is."""
        assert len(source) == COUNT
        assert as_source(source) is source

    def test_each_key_gives_its_record(self, source, expected):
        """`source[k]` is record k."""
        for key in range(COUNT):
            assert_same(source[key], expected[key])

    def test_many_keys_give_the_same_as_one_by_one(self, source, expected):
        """Reading many keys in random order, with duplicates, gives the records of the keys in that order."""
        keys = np.random.default_rng(0).integers(0, COUNT, 3 * COUNT)
        for some in (keys, keys[:5], keys[:1], np.arange(COUNT), np.array([7, 7, 7])):
            records = reader_of(source)(some)
            assert len(records) == len(some)
            for key, record in zip(some, records):
                assert_same(record, expected[key])

    def test_numpy_integers_are_keys(self, source, expected):
        """A NumPy integer of any width is a key like a Python int."""
        for kind in (np.int64, np.int32, np.uint8, np.uint64):
            assert_same(source[kind(COUNT - 1)], expected[COUNT - 1])

    def test_many_takes_a_list_as_well_as_an_array(self, source, expected):
        """`__getitems__` takes a list of integers, and our own sources any integer array."""
        if hasattr(source, "__getitems__"):
            given = [[3, 1], [np.int64(3), 1]] + ([(3, 1), np.array([3, 1], np.uint16)] if self.own else [])
            for keys in given:
                assert_same(list(source.__getitems__(keys)), [expected[3], expected[1]])

    def test_no_keys_give_no_records(self, source):
        """An empty list of keys gives no records."""
        assert list(reader_of(source)(np.empty(0, np.int64))) == []
        assert list(source.__getitems__([])) == []

    def test_a_key_outside_is_an_error_that_names_it(self, source):
        """A negative or too large key is a `RecordKeyError` with the key, the length and the source."""
        if not self.own:
            pytest.skip("a foreign source")
        for key in (-1, COUNT, 2**70, np.int64(-1), np.uint64(2**63)):
            expected = f"{type(source).__name__}: record key {key} .*{COUNT} records"
            with pytest.raises(RecordKeyError, match=expected):
                source[key]
            with pytest.raises(RecordKeyError, match=expected):
                source.__getitems__([0, key])

    def test_a_key_that_is_no_integer_is_an_error(self, source):
        """Anything that is no integer is a `TypeError`."""
        if not self.own:
            pytest.skip("a foreign source")
        for key in (1.0, "1", None, True, [1], np.float64(1)):
            with pytest.raises(TypeError, match="record key"):
                source[key]
            with pytest.raises((TypeError, ValueError)):
                source.__getitems__([key, key])

    def test_a_pickled_source_gives_the_same_records(self, source, expected):
        """A source travels to another process by pickle, before and after it was read."""
        for _ in range(2):
            assert_same(list(reader_of(pickle.loads(pickle.dumps(source)))(np.arange(COUNT))), expected)
        assert_same(copy.copy(source)[0], expected[0])

    def test_a_pickle_of_a_file_source_is_small(self, source):
        """What is pickled of a source on files is where they are, not what is in them."""
        if self.on_files:
            reader_of(source)(np.arange(COUNT))
            assert len(pickle.dumps(source)) < 4000

    def test_eight_threads_read_at_the_same_time(self, source, expected):
        """Threads that read one source at the same time get their own records."""

        def read(seed):
            generator = np.random.default_rng(seed)
            for _ in range(5):
                keys = generator.integers(0, COUNT, 33)
                assert_same(list(reader_of(source)(keys)), [expected[key] for key in keys])
            return True

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(read, range(8)))

    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
    def test_a_forked_child_reads_what_the_parent_reads(self, source, expected):
        """After a fork child and parent read the same source independently of each other."""
        reader_of(source)(np.arange(5))
        child = os.fork()
        if child == 0:  # No pytest in here: the child only answers with its exit code.
            ok = False
            try:
                assert_same(list(reader_of(source)(np.arange(COUNT)[::-1])), expected[::-1])
                ok = True
            finally:
                os._exit(0 if ok else 1)
        assert_same(list(reader_of(source)(np.arange(COUNT))), expected)
        assert exit_code(child) == 0

    def test_the_facts_are_true(self, source, expected):
        """What the facts say of all records is what the records say; asking for them keeps no source alive."""
        facts = facts_of(source)
        keys = np.arange(COUNT)
        assert facts.reads_singly is not None
        assert not facts.answers_exactly or (facts.array_keys and facts.checks_keys)
        assert facts.reads_ahead is True or 0 <= facts.reads_ahead < 1000
        assert facts.file_count() >= 0
        assert facts.records_together() >= 1
        for numbers in (*leaves_of(facts.lengths()), *leaves_of(facts.record_bytes()), *leaves_of(facts.columns())):
            assert len(numbers) == COUNT
        for key in range(COUNT):
            if facts.lookup is not None:
                assert_same(facts.lookup(key), expected[key])
            if facts.items is not None:
                assert_same(facts.items[key], expected[key])
        if facts.announce is not None:
            assert facts.announce(keys) is None
        for key in (0, COUNT - 1):
            assert used_records(source, key)
        if self.own:
            dies = weakref.ref(source := copy.copy(source))
            facts_of(source)
            del source
            assert dies() is None

    def test_the_facts_about_files_agree(self, source):
        """Runs of records cover all keys, in order, and begin where the source says that their first record is."""
        facts = facts_of(source)
        if facts.file_runs is not None:
            runs = list(facts.file_runs())
            assert [run.key for run in runs] == [0, *np.cumsum([run.records for run in runs])[:-1]]
            assert sum(run.records for run in runs) == COUNT
            for run in runs:
                for place, key in ((run.record, run.key), (run.record + run.records - 1, run.key + run.records - 1)):
                    assert facts.file_place(key)[:2] == (run.file, place)

    def test_the_facts_travel_with_the_source(self, source):
        """A pickled source has the same facts."""
        facts, others = facts_of(source), facts_of(pickle.loads(pickle.dumps(source)))
        for name, value in facts._asdict().items():
            other = getattr(others, name)
            assert type(other) is type(value), name
            if isinstance(value, (bool, int)):
                assert other == value, name

    def test_the_generations_of_a_source_that_does_not_grow(self, source):
        """Sources on files have one generation, which is complete, unless they are made with `growing=`."""
        facts = facts_of(source)
        assert not facts.growing
        if facts.generations is not None:
            assert (facts.generations.generation, facts.generations.complete) == (0, True)

    def test_the_fingerprint_is_small_json(self, source):
        """A fingerprint is a small dict of plain JSON values, with no address in it."""
        text = json.dumps(fingerprint_of(source))
        assert json.loads(text) == fingerprint_of(source)
        assert len(text) <= 150
        assert "0x" not in text

    def test_the_fingerprint_is_that_of_the_content(self, folder, source, tmp_path):
        """Opening again or pickling keeps the fingerprint; other content changes it."""
        assert fingerprint_of(self.open(folder, COUNT)) == fingerprint_of(source)
        assert fingerprint_of(pickle.loads(pickle.dumps(source))) == fingerprint_of(source)
        other = tmp_path / "other"
        other.mkdir()
        self.write(other, COUNT - 1)
        assert fingerprint_of(self.open(other, COUNT - 1)) != fingerprint_of(source)

    def test_moved_files_are_the_same_source(self, folder, source, tmp_path):
        """Files moved to another folder keep their fingerprint."""
        if self.on_files:
            moved = tmp_path / "elsewhere" / "deeper"
            moved.parent.mkdir()
            fingerprint = fingerprint_of(source)
            shutil.move(folder, moved)
            assert fingerprint_of(self.open(moved, COUNT)) == fingerprint

    def test_no_descriptor_is_left_open(self, folder, source, expected):
        """After `close()`, and after the source has died, none of its files is open; a closed source reads again."""
        if self.on_files:
            for _ in range(2):
                assert_same(source[1], expected[1])
                if self.own and hasattr(source, "close"):
                    source.close()
                    assert open_files(folder) == []
            second = self.open(folder, COUNT)
            reader_of(second)(np.arange(COUNT))
            del second
            gc.collect()
            if self.own:
                assert open_files(folder) == []


def assert_same(left: Any, right: Any) -> None:
    """Raises unless two trees have the same structure, types and values."""
    assert type(left) is type(right), (left, right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for name in left:
            assert_same(left[name], right[name])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right):
            assert_same(one, other)
    elif isinstance(left, (np.ndarray, np.generic)):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a tree; none of None."""
    return [leaf for leaf in optree.tree_leaves(tree) if leaf is not None]


def open_files(folder: Path) -> list[str]:
    """The files under `folder` that this process holds open."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # The descriptor of the listing itself.
            continue
    return [link for link in links if link.startswith(str(folder))]


def exit_code(child: int) -> int:
    """Waits for a forked child, killing it when it hangs."""
    end = time.monotonic() + CHILD_SECONDS
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1
