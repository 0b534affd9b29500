"""Random programs that are stopped, changed and resumed, against a plain account of the records
that must come.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from unittest.mock import patch

import pytest
from support.histories import REASONS, STREAMS_THAT_GROW, History, Run, drawn, played
from support.history_programs import Program

from headrace.loader.plan import lineage
from headrace.loader.state import changed_records, changed_weights
from headrace.loader.state.checks import record_checks
from headrace.loader.state.checks.record_checks import first_unread


def _played(seeds, *kinds):
    """The numbers of changes, and of refusals by reason, of many histories."""
    changes, refused = 0, Counter()
    for seed in seeds:
        outcome = played(drawn(seed, *kinds))
        changes += outcome.changes
        refused += Counter(refusal.reason for refusal in outcome.refused)
    return changes, refused


@pytest.mark.one_in(9)
@pytest.mark.parametrize("block", range(9))
def test_each_record_comes_as_often_as_it_must_or_the_change_is_refused(block):
    """Weights, parts, omitted and appended records, batch sizes, skipped steps and shards change,
    in ninety histories.
    """
    changes, refused = _played(range(10 * block, 10 * block + 10))
    assert changes > refused.total()
    assert refused.keys() <= REASONS.keys()


@pytest.mark.parametrize(
    "seeds",
    [
        range(15),
        pytest.param(range(15, 50), marks=pytest.mark.slow),
        *(
            pytest.param(range(start, start + 50), marks=pytest.mark.long)
            for start in range(50, 600, 50)
        ),
    ],
)
def test_mixes_of_growing_streams_give_each_record_as_often_as_they_must(seeds):
    """Each stream has its own epochs, and looks for records at positions of its own."""
    changes, refused = _played(seeds, STREAMS_THAT_GROW)
    assert changes > refused.total()


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_each_record_comes_as_often_as_it_must_in_ten_thousand_histories(block):
    """The same of many, of which at most a third of the changes is refused."""
    changes, refused = _played(range(1000 + 100 * block, 1100 + 100 * block))
    assert changes > 2 * refused.total()


def _longer_near_its_end():
    """A mix on three shards, of which one is near the end; then other shards, and one part more."""
    first = Program("mix", {"a": 4, "b": 4}, {"a": 1, "b": 1}, shards=3)
    longer = {"records": {"a": 4, "b": 4, "c": 5}, "weights": {"a": 1, "b": 1, "c": 2}}
    return History(
        first, (Run((2, 3, 0), first._replace(shards=2)), Run((2, 0), first._replace(**longer)))
    )


def _positions_of_the_last_total(history, indices):
    """The unread positions, if earlier runs had as many positions as the order has at the end."""
    orders = []
    for order in history.orders:
        total = orders[-1].length if orders else history.delivered + history.orders[-1].length
        orders.append(dataclasses.replace(order, total=total))
    for order in reversed(orders):
        indices = order.positions(indices)
    return indices


def _of_the_slowest(pipeline, states, *options):
    """The place from which new weights hold, as the slowest shard alone would say."""
    return first_unread(
        pipeline, [min(states, key=lambda state: state.cursor.positions[0])], *options
    )


def _without_unfinished(states):
    """The places that shards have reached, without those of records that a window held back."""
    return ((state.cursor, state.shard, state.history.shards[0]) for state in states)


FAULTS = {
    "a changed mix near its end, after other shards": (
        _longer_near_its_end(),
        lambda: patch.object(lineage.ReshardHistory, "positions", _positions_of_the_last_total),
    ),
    "omission at unequal steps": (
        drawn(89, ("index", "mix", "endless mix")),
        lambda: patch.object(changed_records, "check_unread", lambda *arguments: None),
    ),
    "omission while records are held back": (
        drawn(1131),
        lambda: patch.object(record_checks, "_reached", _without_unfinished),
    ),
    "a slower shard draws by the new weights": (
        drawn(6, ("endless mix", "weighted", "mix")),
        lambda: patch.object(changed_weights, "first_unread", _of_the_slowest),
    ),
}
"""A history, and what is planted. That growth after a shard ended is seen shows
`test_history_faults.py`.
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    """Otherwise the histories would prove nothing."""
    history, planted = FAULTS[fault]
    played(history)
    with planted(), pytest.raises(AssertionError, match=r"comes twice|is omitted|its weight is 0"):
        played(history)
