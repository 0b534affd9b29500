"""Random scripts, beside the real Grain: what each step gives, of iterators by turns and of looks
at any index.

The programs of `test_grain_random_programs.py` take an iterator to its end; here several go on from
one another's states, back and forth, also after their ends, over elements, datasets and sources of
all kinds. The plain command runs a few, `--long` 900 more.
"""

import itertools
import warnings

import pytest
from support import both, grain_scripts

import headrace.compat.grain as grain

# of its arithmetic, at negative indices and in empty datasets
BEYOND_GRAIN = (OverflowError, TypeError, ZeroDivisionError)
LONG, SHARES = 900, 12


def drops_a_rest(number):
    """Whether the script is of a loader that drops what does not fill a batch: ours does not make
    that, so it cannot fail.
    """
    operations = getattr(grain_scripts.beginning(grain, number)[0], "_operations", ())
    return any(getattr(operation, "drop_remainder", False) for operation in operations)


def runs_as_grain(number):
    """Each step gives the same; an error of ours is one of Grain's type, too."""
    steps = itertools.zip_longest(
        grain_scripts.script(both.real, number), grain_scripts.script(grain, number)
    )
    for step, (theirs, ours) in enumerate(steps):
        fails = isinstance(theirs, Exception)
        if isinstance(theirs, BEYOND_GRAIN) or (fails and ours == "end" and drops_a_rest(number)):
            return
        same = type(theirs) in type(ours).__mro__ if fails else theirs == ours
        assert same, f"script {number}, step {step}: {theirs!r}, {ours!r}"


def run_all(numbers):
    """Run several."""
    with both.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            runs_as_grain(number)


def test_scripts_of_several_iterators_give_at_each_step_what_grain_gives():
    """Next elements, states, other iterators, elements and lengths by index."""
    run_all(range(12))


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_hundreds_of_scripts_give_at_each_step_what_grain_gives(share):
    """The same, many."""
    each = LONG // SHARES
    run_all(range(1000 + share * each, 1000 + (share + 1) * each))
