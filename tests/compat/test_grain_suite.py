"""Grain's own tests, which its wheel has, with ours in its place.

Those that fail are in the table of docs/grain-names.md, and no others. The plain command runs the
two shortest files. Two files take many minutes: `python tests/grain_suite.py prefetch
process_prefetch`, by hand.
"""

import grain_suite
import pytest

QUICK = ("samplers", "sharding")
BY_HAND = ("prefetch", "process_prefetch")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.long)
        for name in grain_suite.FILES
        if name not in BY_HAND
    ],
)
@pytest.mark.slow
def test_grains_own_tests_hold_but_for_those_that_the_docs_list(name, tmp_path):
    """Of each file; a line of the table whose tests hold is one too many."""
    outcome = grain_suite.run(name, tmp_path)
    unknown, gone = grain_suite.unlike(name, outcome.failed)
    assert {test: outcome.failed[test] for test in unknown} == {}
    assert gone == []


def test_the_table_of_grains_tests_is_that_of_the_docs():
    """Where it is not, `python tests/grain_suite.py` writes it anew."""
    assert grain_suite.grain_names.PAGE.read_text() == grain_suite.written()
