"""Records through maps and filters in bulk."""

import pytest

from headrace import Filter, MapTransform
from headrace.loader.work.steps.fused import FusedMapFilter, plain_at_front

RECORDS = 12


def _operations(failing: int | None, record: int, error: type[Exception]) -> list[MapTransform | Filter]:
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


def test_what_is_left_says_which_record_it_comes_from():
    """Elements and the numbers of their records agree after any filters."""
    passage = FusedMapFilter(plain_at_front(_operations(None, 0, ValueError)), iter(range(RECORDS)), RECORDS)
    elements = list(passage.elements)
    assert elements == [0, 2, 6, 8] == passage.numbers(len(elements)).tolist()
    assert passage.ended


@pytest.mark.parametrize("error", [ValueError, StopIteration])
@pytest.mark.parametrize(
    ("failing", "record"), [(0, 0), (0, 11), (1, 3), (1, 11), (2, 0), (2, 10), (3, 4), (3, 10), (4, 6), (4, 8)]
)
def test_a_failure_is_told_from_the_end_and_blamed_on_the_operation_that_it_arose_in(failing, record, error):
    """Whichever operation fails, on the first or on the last record that comes to it, is the one at fault."""
    passage = FusedMapFilter(plain_at_front(_operations(failing, record, error)), iter(range(RECORDS)), RECORDS)
    elements = []
    try:
        elements.extend(passage.elements)
    except ValueError:
        assert error is ValueError
    assert not passage.ended
    assert passage.at_fault() == failing
    assert passage.numbers(len(elements)).tolist() == elements == [one for one in (0, 2, 6, 8) if one < record]


def test_a_record_goes_through_all_before_the_next_begins():
    """No operation works on several records before the next one gets the first of them."""
    log = []
    maps = [MapTransform(lambda element, name=name: log.append((name, element)) or element) for name in "ab"]
    assert list(FusedMapFilter(plain_at_front(maps), iter([1, 2]), 2).elements) == [1, 2]
    assert log == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
