"""What several shards leave over is an order of its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.samplers.order import UnreadOrder


@st.composite
def _stopped(draw):
    total = draw(st.integers(0, 200))
    count = draw(st.integers(1, 12))
    lengths = [len(range(shard, total, count)) for shard in range(count)]
    return total, [draw(st.integers(0, length)) for length in lengths]


def _left(total: int, reached: list[int]) -> list[int]:
    """The plain definition."""
    count = len(reached)
    return [position for position in range(total) if position // count >= reached[position % count]]


@pytest.mark.slow
@given(_stopped())
def test_every_position_that_is_left_comes_exactly_once(case):
    """Whatever the shards had done, at whatever steps, over the end of the last level too."""
    total, reached = case
    left = UnreadOrder(reached, total)
    found = left.positions(np.arange(left.length))
    assert sorted(found.tolist()) == _left(total, reached)


@pytest.mark.slow
@given(_stopped(), st.data())
def test_remainders_of_remainders_come_exactly_once_too(case, data):
    """Shards of what is left may stop anywhere again."""
    total, reached = case
    first = UnreadOrder(reached, total)
    count = data.draw(st.integers(1, 5))
    again = [
        data.draw(st.integers(0, len(range(shard, first.length, count)))) for shard in range(count)
    ]
    second = UnreadOrder(again, first.length)
    found = first.positions(second.positions(np.arange(second.length))).tolist()
    delivered = {
        first.positions(np.array([shard + level * count])).item()
        for shard in range(count)
        for level in range(again[shard])
    }
    assert sorted([*found, *delivered]) == _left(total, reached)


@pytest.mark.slow
@given(_stopped(), st.integers(0, 20))
def test_positions_that_an_order_gets_later_come_after_all_that_was_left(case, more):
    """Their places do not depend on where shards stood at the former end."""
    total, reached = case
    left = UnreadOrder(reached, total)
    found = left.positions(np.arange(left.length + more)).tolist()
    assert sorted(found[: left.length]) == _left(total, reached)
    assert found[left.length :] == list(range(total, total + more))


def test_shards_at_equal_steps_leave_an_offset():
    """The same global batches go on."""
    left = UnreadOrder([5] * 4, total=1 << 60)
    assert left.positions(np.array([0, 1, 10**15])).tolist() == [20, 21, 10**15 + 20]


def test_the_levels_come_in_order():
    """Nobody gets ahead by more than one level of the former shards."""
    left = UnreadOrder([3, 0, 7, 1], total=1000)
    levels = left.positions(np.arange(left.length)) // 4
    assert (np.diff(levels) >= 0).all()
