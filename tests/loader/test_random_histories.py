"""Random programs that are stopped, changed and resumed, against a plain account of the records that must come."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from histories import REASONS, drawn, played

from headrace.loader.plan.lineage import ReshardHistory
from headrace.loader.state import changed_mix, changed_parts, changed_records


def _played(seeds):
    """The numbers of changes, and of refusals by reason, of many histories."""
    changes, refused = 0, Counter()
    for seed in seeds:
        outcome = played(drawn(seed))
        changes += outcome.changes
        refused += Counter(refusal.reason for refusal in outcome.refused)
    return changes, refused


@pytest.mark.parametrize("block", range(9))
def test_each_record_comes_as_often_as_it_must_or_the_change_is_refused(block):
    """Weights, parts, omitted and appended records, batch sizes, skipped steps and shards change, in ninety histories."""
    changes, refused = _played(range(10 * block, 10 * block + 10))
    assert changes > refused.total()
    assert refused.keys() <= REASONS.keys()


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_each_record_comes_as_often_as_it_must_in_ten_thousand_histories(block):
    """The same of many, of which at most a third of the changes is refused."""
    changes, refused = _played(range(1000 + 100 * block, 1100 + 100 * block))
    assert changes > 2 * refused.total()


def _nothing(*arguments):
    """In place of a check."""


def _of_the_slowest(first_unread):
    """The place from which new weights hold, as the slowest shard alone would say."""

    def wrong(pipeline, states, *options, **named):
        return first_unread(pipeline, [min(states, key=lambda state: state.cursor.positions[0])], *options, **named)

    return wrong


FAULTS = {
    "a changed mix near its end, after other shards": (
        130,
        ("mix", "ramp", "mix by schedule", "mix of a chain"),
        [
            patch.object(ReshardHistory, "depends_on_end", False),
            patch.object(changed_mix, "check_last_windows", _nothing),
            patch.object(changed_mix, "check_row_windows", _nothing),
        ],
    ),
    "omission at unequal steps": (
        89,
        ("index", "mix", "endless mix"),
        [
            patch.object(changed_records, "check_unread", _nothing),
            patch.object(changed_parts, "check_unread", _nothing),
        ],
    ),
    "a slower shard draws by the new weights": (
        6,
        ("endless mix", "weighted", "mix"),
        [patch.object(changed_mix, "first_unread", _of_the_slowest(changed_mix.first_unread))],
    ),
}
"""A seed, kinds, and what is planted. That growth after a shard ended is seen shows `test_history_faults.py`."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    """Otherwise the histories would prove nothing."""
    seed, kinds, planted = FAULTS[fault]
    played(drawn(seed, kinds))
    with ExitStack() as stack:
        for each in planted:
            stack.enter_context(each)
        with pytest.raises(AssertionError, match=r"comes twice|is omitted|its weight is 0"):
            played(drawn(seed, kinds))
