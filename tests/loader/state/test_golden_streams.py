"""The order of records and the random numbers of operations do not change by accident: streams have
the digests of before.
"""

import json
from pathlib import Path

import golden_streams
import pytest

GOLDEN = json.loads((Path(__file__).parents[2] / "golden_streams.json").read_text())


@pytest.mark.parametrize("name", GOLDEN["whole"])
def test_a_whole_stream(name):
    """Of every kind of pipeline."""
    assert golden_streams.whole(name) == GOLDEN["whole"][name]


@pytest.mark.parametrize("name", GOLDEN["resharded"])
@pytest.mark.one_in(3)
def test_the_streams_of_a_run_on_other_shards_before(name):
    """What three shards left at unequal steps, in the middle of windows and of what a flat map
    makes.
    """
    pipeline, _, skips = name.rpartition(", ")
    assert golden_streams.resharded(pipeline, skips == "True") == GOLDEN["resharded"][name]
