"""A host whose stream has ended gives its own batches again, from the first one."""

import pytest

import headrace
from headrace.errors import HostsError
from headrace.loader.device.hosts.repeats import Repeats

LOADER = headrace.load(range(7), batch_size=2, num_epochs=1)
BATCHES = [[0, 1], [2, 3], [4, 5], [6]]


def test_batches_come_again_and_again_by_their_number():
    """One after another, some left out, or an earlier one."""
    repeats = Repeats(LOADER)
    for number in (0, 1, 2, 3, 4, 9, 13, 2):
        assert repeats.batch(number).tolist() == BATCHES[number % 4]
    repeats.close()


def test_the_function_of_the_feeder_is_applied_to_them():
    """As to the batches before."""
    assert Repeats(LOADER, len).batch(3) == 1


def test_a_stream_without_a_batch_has_none_to_repeat():
    """The error says what to do."""
    nothing = headrace.load(
        range(7), transformations=[headrace.Filter(lambda x: x > 9)], batch_size=2, num_epochs=1
    )
    with pytest.raises(HostsError, match="no batch at all, so it has none to repeat"):
        Repeats(nothing).batch(0)
