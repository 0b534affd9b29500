"""The rules of joins: which input gives the next row, and which states can be."""

from headrace.loader.plan.mix_rules import MixRows
from headrace.loader.plan.rules import Again, Interleaved, InTurn
from headrace.samplers.mix.order import MixOrder


def test_states_that_cannot_be_are_no_states():
    """A place beyond the open inputs, more open inputs than may be, one that is open twice or was
    never opened.
    """
    rule = Interleaved(inputs=5, cycle=2)
    assert rule.is_state(rule.start)
    assert rule.is_state((7, 1, 4, 2, 3))
    for state in (
        (7, 2, 4, 2, 3),
        (7, 0, 4, 1, 2, 3),
        (7, 0, 6, 2, 3),
        (7, 0, 4, 3, 3),
        (7, 0, 4, 2, 4),
        (7, 0, 4),
    ):
        assert not rule.is_state(state), state


def test_states_of_a_mix_name_each_input_that_has_ended_and_its_row():
    """In the order of their ends."""
    rule = MixRows(MixOrder.of([1, 1, 1]), goes_on=True)
    state = rule.ended((7, *rule.ended((4,), 0)[1:]), 1)
    assert state == (7, 0, 4, 1, 7)
    assert rule.is_state(state)
    for wrong in ((9, 0, 7, 1, 4), (9, 0, 4, 0, 7), (9, 3, 4), (3, 0, 4), (9, 0)):
        assert not rule.is_state(wrong), wrong


def test_a_stream_that_was_repeated_often_enough_gives_nothing_more():
    """Without a number of times it goes on for ever."""
    assert Again(2).choices((5, 1), 3).tolist() == [0, 0, 0]
    assert Again(2).choices((5, 2), 3).tolist() == []
    assert Again(None).choices((5, 2), 3).tolist() == [0, 0, 0]
    assert Again(2).ended((5, 0), 0) == (5, 1)
    assert Again(2).ended((5, 1), 0) is None


def test_a_zip_takes_one_element_of_each_input_for_each_row():
    """An input that comes later in the row is behind by one in the middle of a row."""
    assert [InTurn(3).taken(rows) for rows in range(5)] == [
        [0, 0, 0],
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
        [2, 1, 1],
    ]
