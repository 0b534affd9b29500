"""The tests of `headrace.testing.SourceConformance`, and the promises of headrace's own sources.

A new source's test subclasses `SourceConformance` and gives `write`, `open` and `expected_record`;
`on_files = True` adds the promises of sources that read files.
"""

import copy
import json
import weakref
from typing import Any

import numpy as np
import pytest

from headrace.errors import RecordKeyError
from headrace.sources import as_source, fingerprint_of, reader_of
from headrace.sources.facts import facts_of
from headrace.testing import SourceConformance as OfAnySource
from headrace.testing.sources import _exit_code as exit_code
from headrace.testing.sources import _open_files as open_files

COUNT = OfAnySource.count

__all__ = ["COUNT", "SourceConformance", "assert_same", "exit_code", "open_files"]


class SourceConformance(OfAnySource):
    """The promises of every source of headrace."""

    own = True
    """It is one of ours; foreign ones check no keys and have no fingerprint of their own."""

    def test_lists_and_arrays_of_any_number_of_keys_are_read(self, source, expected):
        """`__getitems__` takes a list of integers, and our own sources any integer array; no keys
        give no records.
        """
        assert len(source) == self.count
        assert as_source(source) is source
        if hasattr(source, "__getitems__"):
            given = [[3, 1], [np.int64(3), 1]] + (
                [(3, 1), np.array([3, 1], np.uint16)] if self.own else []
            )
            for keys in given:
                assert_same(list(source.__getitems__(keys)), [expected[3], expected[1]])
        assert list(reader_of(source)(np.empty(0, np.int64))) == []
        assert list(source.__getitems__([])) == []

    def test_what_is_no_key_is_an_error_that_names_it(self, source):
        """A key outside is a `RecordKeyError` with key, length and source; what is no integer a
        `TypeError`.
        """
        if not self.own:
            pytest.skip("a foreign source")
        for key in (-1, self.count, 2**70, np.int64(-1), np.uint64(2**63)):
            expected = f"{type(source).__name__}: record key {key} .*{self.count} records"
            with pytest.raises(RecordKeyError, match=expected):
                source[key]
            with pytest.raises(RecordKeyError, match=expected):
                source.__getitems__([0, key])
        for key in (1.0, "1", None, True, [1], np.float64(1)):
            with pytest.raises(TypeError, match="record key"):
                source[key]
            with pytest.raises((TypeError, ValueError)):
                source.__getitems__([key, key])

    def test_generation_and_fingerprint(self, source):
        """A source that does not grow has one generation; its fingerprint is small JSON; facts do
        not keep it alive.
        """
        facts = facts_of(source)
        assert not facts.growing
        if facts.generations is not None:
            assert (facts.generations.generation, facts.generations.complete) == (0, True)
        text = json.dumps(fingerprint_of(source))
        assert json.loads(text) == fingerprint_of(source)
        assert len(text) <= 150
        assert "0x" not in text
        if self.own:
            dies = weakref.ref(source := copy.copy(source))
            facts_of(source)
            del source
            assert dies() is None


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
