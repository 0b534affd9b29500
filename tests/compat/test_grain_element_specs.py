"""Specs of elements, beside those of the real Grain: shapes, dtypes, and the errors where nobody
tells them.
"""

import numpy as np
import pytest
from support import both, grain_programs, grain_wider_programs

import headrace.compat.grain as grain


def numbers(g):
    """Five of them."""
    return g.MapDataset.range(5)


def stream(g):
    """The same, one after the other."""
    return numbers(g).to_iter_dataset()


def doubling(g):
    """A transform that tells its spec."""

    class Doubled(g.transforms.Map):
        def map(self, element):
            return {"x": np.full(2, element, np.int32)}

        def output_spec(self, input_spec):
            assert input_spec.shape == ()
            return {"x": g.experimental.ShapeDtypeStruct((2,), np.int32)}

    return Doubled()


KNOWN = {
    "numbers": numbers,
    "what keeps elements": lambda g: (
        numbers(g).shuffle(seed=1).repeat(2)[1:].filter(bool).to_iter_dataset().filter(bool)
    ),
    "a batch that may be short": lambda g: numbers(g).batch(2),
    "batches of batches": lambda g: (
        numbers(g).batch(2, drop_remainder=True).to_iter_dataset().batch(3)
    ),
    "a transform that tells": lambda g: numbers(g).map(doubling(g)).to_iter_dataset().batch(4),
    "a zip": lambda g: g.experimental.ZipIterDataset(
        [stream(g), numbers(g).batch(2).to_iter_dataset()]
    ),
    "a zip by index": lambda g: g.experimental.ZipMapDataset([numbers(g), numbers(g)]).batch(2),
    "a mix": lambda g: g.MapDataset.mix([numbers(g), numbers(g)]),
    "a mix as a stream": lambda g: (
        g.MapDataset.mix([numbers(g), numbers(g)]).to_iter_dataset().batch(2)
    ),
    "options over an interleave": lambda g: g.experimental.WithOptionsIterDataset(
        g.experimental.InterleaveIterDataset([stream(g)], cycle_length=1),
        g.experimental.DatasetOptions(),
    ),
    "a mix of streams": lambda g: g.IterDataset.mix([stream(g), stream(g)]).batch(4),
    "batches of another size": lambda g: g.experimental.RebatchIterDataset(
        numbers(g).batch(2).to_iter_dataset(), 3
    ).filter(bool),
    "an interleave": lambda g: g.experimental.InterleaveIterDataset(
        [stream(g)], cycle_length=1
    ).batch(2),
    "workers": lambda g: stream(g).mp_prefetch(g.MultiprocessingOptions(2)).batch(2),
    "windows of epochs": lambda g: g.experimental.WindowShuffleIterDataset(
        g.experimental.RepeatIterDataset(g.experimental.CacheIterDataset(stream(g)), 2),
        window_size=2,
        seed=1,
    ),
}
UNKNOWN = {
    "a function": lambda g: numbers(g).map(str),
    "a function of a stream": lambda g: stream(g).random_map(lambda x, rng: x, seed=1),
    "a source": lambda g: g.MapDataset.source([1, 2]),
    "a function for batches": lambda g: numbers(g).batch(2, batch_fn=list),
    "a spec that fails": lambda g: numbers(g).batch(2).map(doubling(g)),
    "a function after a flat map": lambda g: g.experimental.FlatMapIterDataset(
        stream(g), grain_programs.flat_map(g, 2)
    ).map(str),
    "a flat map after a function": lambda g: g.experimental.FlatMapIterDataset(
        stream(g).map(str), grain_programs.flat_map(g, 2)
    ),
    "a packing": lambda g: g.experimental.FirstFitPackIterDataset(
        stream(g), length_struct={"x": 2}, num_packing_bins=1
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_specs_are_those_of_grain(name):
    """The same text, whatever the class is called in."""
    both.runs_alike(lambda g: str(g.experimental.get_element_spec(KNOWN[name](g))))


@pytest.mark.parametrize("name", UNKNOWN)
def test_specs_that_nobody_tells_are_errors_of_grains_kind(name):
    """Nothing is read to find them out."""
    with pytest.raises((ValueError, NotImplementedError, AssertionError)) as theirs:
        both.real.experimental.get_element_spec(UNKNOWN[name](both.real))
    with pytest.raises(theirs.type):
        grain.experimental.get_element_spec(UNKNOWN[name](grain))


def told_of(g, program):
    """The spec of a random program's elements, or its error."""
    try:
        return str(g.experimental.get_element_spec(program(g)))
    except Exception as error:
        return error


@pytest.mark.parametrize("kind", [grain_programs.program, grain_wider_programs.wider_program])
def test_specs_of_random_programs_are_those_of_grain(kind):
    """Or errors of the same kind."""
    for number in range(40):
        with both.quiet():
            expected = told_of(both.real, kind(number))
        found = told_of(grain, kind(number))
        same = (
            isinstance(found, type(expected))
            if isinstance(expected, Exception)
            else found == expected
        )
        assert same, f"program {number}: {expected!r}, {found!r}"
