"""Records through maps and filters in bulk."""

import numpy as np
import pytest

from headrace import Filter, MapTransform, RandomMapTransform
from headrace.common.generators.keyed_random import KeyedGenerator
from headrace.loader.work.steps.fused import FusedMapFilter, fused_at_front, plain_at_front
from headrace.operations.protocol import Context

RECORDS = 12


def _operations(
    failing: int | None, record: int, error: type[Exception]
) -> list[MapTransform | Filter]:
    """Map, filter, map, filter, map; one of them fails on a record."""

    def function_at(place: int, drops: int | None):
        def function(element):
            if (place, element) == (failing, record):
                raise error("no")
            return element if drops is None else element % drops != 1

        return function

    return [
        MapTransform(function_at(0, None)),
        Filter(function_at(1, 2)),
        MapTransform(function_at(2, None)),
        Filter(function_at(3, 3)),
        MapTransform(function_at(4, None)),
    ]


def passage_of(operations, records):
    """The records on their way through the operations; record i has the position 100 + i."""
    fused = fused_at_front(operations, 0, Context(seed=7))
    assert len(fused) == len(operations)
    return FusedMapFilter(
        fused, iter(records), len(records), lambda: (100 + np.arange(len(records)), None)
    )


def test_what_is_left_says_which_record_it_comes_from():
    """Elements and the numbers of their records agree after any filters."""
    passage = passage_of(_operations(None, 0, ValueError), range(RECORDS))
    elements = list(passage.elements)
    assert elements == [0, 2, 6, 8] == passage.numbers(len(elements)).tolist()
    assert passage.ended


@pytest.mark.parametrize("error", [ValueError, StopIteration])
@pytest.mark.parametrize(
    ("failing", "record"),
    [(0, 0), (0, 11), (1, 3), (1, 11), (2, 0), (2, 10), (3, 4), (3, 10), (4, 6), (4, 8)],
)
def test_a_failure_is_told_from_the_end_and_blamed_on_the_operation_that_it_arose_in(
    failing, record, error
):
    """Whichever operation fails, on the first or on the last record that comes to it, is the one at
    fault.
    """
    passage = passage_of(_operations(failing, record, error), range(RECORDS))
    elements = []
    try:
        elements.extend(passage.elements)
    except ValueError:
        assert error is ValueError
    assert not passage.ended
    assert passage.at_fault() == failing
    assert (
        passage.numbers(len(elements)).tolist()
        == elements
        == [one for one in (0, 2, 6, 8) if one < record]
    )


def test_a_record_goes_through_all_before_the_next_begins():
    """No operation works on several records before the next one gets the first of them."""
    log = []
    maps = [
        MapTransform(lambda element, name=name: log.append((name, element)) or element)
        for name in "ab"
    ]
    assert list(passage_of(maps, [1, 2]).elements) == [1, 2]
    assert log == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_random_maps_get_the_generators_of_their_records_and_numbers():
    """They draw what they draw one by one: by seed, number of the operation, and position."""
    maps = [
        MapTransform(lambda element: [element]),
        *2 * [RandomMapTransform(lambda drawn, rng: [*drawn, rng.random()])],
    ]
    expected = [
        [record, *(KeyedGenerator(number).at(7, 100 + record).random() for number in (1, 2))]
        for record in range(4)
    ]
    assert list(passage_of(maps, range(4)).elements) == expected


def test_a_random_map_after_a_filter_is_not_fused():
    """The position of a record that passed a filter is not known without asking which one it is."""
    maps = [Filter(bool), RandomMapTransform(lambda element, rng: element), MapTransform(abs)]
    assert len(fused_at_front(maps, 0, Context(seed=7))) == len(plain_at_front(maps)) == 1
