"""Random programs whose mix and omitted records change between runs on other shards: each token once, or a refusal."""

from __future__ import annotations

from collections import Counter

import pytest
from changing_programs import ChangingProgram


def _played(seeds, **options):
    """The refusals of many histories, by reason."""
    refused = Counter()
    for seed in seeds:
        program = ChangingProgram(seed, **options)
        program.play()
        refused += program.refused
    return refused


@pytest.mark.parametrize("of_streams", [False, True])
@pytest.mark.slow
def test_each_token_comes_once_or_the_change_is_refused(of_streams):
    """Of other weights, new parts and more omitted records, each with other shards in between; reasons are documented."""
    refused = _played(range(24), of_streams=of_streams)
    assert 0 < refused.total() < 48


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
@pytest.mark.parametrize("of_streams", [False, True])
def test_each_token_comes_once_in_four_thousand_histories(block, of_streams):
    """The same of many."""
    assert _played(range(1000 + 100 * block, 1100 + 100 * block), of_streams=of_streams)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_each_token_of_a_changed_mix_comes_once_in_two_thousand_histories(block):
    """The same without omitted records, so that mixes change more often."""
    assert _played(range(5000 + 100 * block, 5100 + 100 * block), kinds=("weights", "part"))
