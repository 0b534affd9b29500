"""Random programs, beside the real Grain: the same elements and ends, from the beginning and from
states of either kind.

The plain command runs a few of each kind, `--long` 7,200 more.
"""

import itertools
import json
import random
import warnings
from functools import partial

import pytest
from grain._src.core.exceptions import PyGrainInternalError
from support import both, grain_programs, grain_wider_programs

import headrace.compat.grain as grain

# Grain's own iterator, which its thread may be the last to let go of
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function "
    "DatasetIterator.__del__:pytest.PytestUnraisableExceptionWarning"
)

MOST = 30
# of Grain's own code, in the middle of its packings, and in endless repetitions of nothing
CRASHES = (IndexError, AssertionError, KeyError, PyGrainInternalError, both.NeverEndsError)
# the only states of Grain's that are
REFUSED = "and no FlatMap comes after a Batch of the results comes after a Filter"
LONG, SHARES = 1200, 12
PATIENCE = 60  # seconds, for elements that take a fraction of one


def some(iterator, count):
    """The next elements, and how they ended: the error, "end", or None where there may be more."""
    found = []
    try:
        with both.within(PATIENCE):
            for _ in range(count):
                found.append(both.told(next(iterator)))
    except StopIteration:
        return found, "end"
    except Exception as error:
        return found, error
    return found, None


def as_grain(theirs, ours):
    """The same elements, and the same end; an error of ours is one of Grain's type, too."""
    (expected, ended), (found, stopped) = theirs, ours
    same_end = (
        type(ended) in type(stopped).__mro__ if isinstance(ended, Exception) else ended == stopped
    )
    return expected == found and same_end


def begun(g, program):
    """The iterator of a program, or the error that it begins with."""
    try:
        return iter(program(g))
    except Exception as error:
        return error


def gone_to(g, program, state):
    """A new iterator of a program, at a state; or why it cannot go there."""
    iterator = begun(g, program)
    try:
        iterator.set_state(state if isinstance(state, bytes) else json.loads(json.dumps(state)))
    except Exception as error:
        return iter_failing(error)
    return iterator


def iter_failing(error):
    """An iterator that cannot begin."""
    raise error
    yield


def runs_as_grain(program, number):
    """Run one program with both. Where Grain's own states do not go on, they are not looked at."""
    theirs, ours = begun(both.real, program), begun(grain, program)
    if isinstance(theirs, Exception):
        # Grain refuses batches after a filter of no elements at all, too
        assert isinstance(ours, type(theirs)) or "can not follow" in str(theirs), (
            f"program {number}: {theirs!r}, {ours!r}"
        )
        return
    draws = random.Random(-number - 1)
    taken = draws.randrange(MOST)
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
    known = {"our state": our_state}
    if as_grain(rest, some(gone_to(both.real, program, their_state), MOST)):
        known["Grain's state"] = their_state
    for whose, state in known.items():
        found = some(gone_to(grain, program, state), MOST)
        if REFUSED in str(found[1]):
            continue
        assert as_grain(rest, found), f"program {number}, {whose} after {taken}"
        again, more = gone_to(grain, program, state), draws.randint(0, len(rest[0]))
        some(again, more)
        left = rest[0][more:], rest[1]
        assert as_grain(left, some(gone_to(grain, program, again.get_state()), MOST - more)), (
            f"program {number}, {whose} after {taken}, then ours after {more}"
        )


PROGRAMS = {
    "datasets": grain_programs.program,
    "more datasets": partial(grain_programs.program, kind=grain_programs.More),
    "wider datasets": grain_wider_programs.wider_program,
    "packings": grain_wider_programs.packing_program,
    "loaders": grain_programs.loader_program,
    "wider loaders": grain_wider_programs.wider_loader_program,
}


def run_all(kind, numbers):
    """Run several of a kind."""
    with both.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            runs_as_grain(PROGRAMS[kind](number), number)


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("share", range(2))
@pytest.mark.one_in(12)
def test_random_programs_run_as_with_grain(kind, share):
    """Datasets in datasets, mixes, zips, interleaves, packings, loaders; states at a random step,
    and at one after that.
    """
    run_all(kind, range(share * 6, share * 6 + 6))


DIFFERED = {
    "a strict zip whose packed input fails where it should end": ("datasets", 3722),
    "a part of a dataset that has no elements": ("datasets", 4048),
    "a window shuffle after a random map of batches": ("datasets", 100818),
    "a batch of an interleave that fails in the middle of it": ("datasets", 101296),
    "a number in a document that is cut": ("packings", 100),
}


@pytest.mark.parametrize("program", DIFFERED)
def test_programs_that_differed_run_as_with_grain(program):
    """Each of them once gave other elements, or ended otherwise."""
    kind, number = DIFFERED[program]
    run_all(kind, [number])


@pytest.mark.long
@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("share", range(SHARES))
def test_thousands_of_random_programs_run_as_with_grain(kind, share):
    """The same, many."""
    each = LONG // SHARES
    run_all(kind, itertools.islice(itertools.count(1000 + share * each), each))
