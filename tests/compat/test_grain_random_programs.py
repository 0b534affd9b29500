"""Random programs, beside the real Grain: the same elements and ends, from the beginning and from states of either kind."""

import itertools
import json
import random
import warnings

import both
import grain_programs
import pytest

import headrace.compat.grain as grain

MOST = 30
CRASHES = (IndexError, AssertionError, KeyError)  # of Grain's own code, in the middle of its packings
LONG, SHARES = 2000, 20


def some(iterator, count):
    """The next elements, and how they ended: the error, "end", or None where there may be more."""
    found = []
    for _ in range(count):
        try:
            found.append(both.told(next(iterator)))
        except StopIteration:
            return found, "end"
        except Exception as error:
            return found, error
    return found, None


def as_grain(theirs, ours):
    """The same elements, and the same end; an error of ours is one of Grain's type, too."""
    (expected, ended), (found, stopped) = theirs, ours
    same_end = type(ended) in type(stopped).__mro__ if isinstance(ended, Exception) else ended == stopped
    return expected == found and same_end


def begun(g, number):
    """The iterator of a program, or the error that it begins with."""
    try:
        return iter(grain_programs.program(number)(g))
    except Exception as error:
        return error


def from_state(g, number, state):
    """What a new iterator of a program gives from a state on."""
    iterator = begun(g, number)
    try:
        iterator.set_state(json.loads(json.dumps(state)))
    except Exception as error:
        return [], error
    return some(iterator, MOST)


def runs_as_grain(number):
    """Run one program with both. Where Grain's own states do not go on, they are not looked at."""
    theirs, ours = begun(both.real, number), begun(grain, number)
    if isinstance(theirs, Exception):
        # Grain refuses batches after a filter of no elements at all, too
        assert isinstance(ours, type(theirs)) or "can not follow" in str(theirs), (
            f"program {number}: {theirs!r}, {ours!r}"
        )
        return
    taken = random.Random(-number - 1).randrange(MOST)
    before = some(theirs, taken)
    if isinstance(before[1], CRASHES):
        return
    assert as_grain(before, some(ours, taken)), f"program {number}"
    if before[1] is not None:
        return
    their_state, our_state = theirs.get_state(), ours.get_state()
    rest = some(theirs, MOST)
    if isinstance(rest[1], CRASHES):
        return
    assert as_grain(rest, some(ours, MOST)), f"program {number}, after {taken}"
    assert as_grain(rest, from_state(grain, number, our_state)), f"program {number}, our state after {taken}"
    if as_grain(rest, from_state(both.real, number, their_state)):
        assert as_grain(rest, from_state(grain, number, their_state)), f"program {number}, Grain's state after {taken}"


def run_all(numbers):
    """Run several."""
    with both.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            runs_as_grain(number)


@pytest.mark.parametrize("share", range(4))
def test_random_programs_run_as_with_grain(share):
    """Datasets in datasets, mixes, zips, interleaves, packings; states at a random step."""
    run_all(range(share * 15, share * 15 + 15))


def test_programs_that_differed_run_as_with_grain():
    """A strict zip whose packed input fails where it should end; a part of a dataset that has no elements."""
    run_all([3722, 4048])


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_thousands_of_random_programs_run_as_with_grain(share):
    """The same, many."""
    each = LONG // SHARES
    run_all(itertools.islice(itertools.count(1000 + share * each), each))
