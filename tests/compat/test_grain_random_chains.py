"""Random chains, beside the real Grain: the same elements at indices and in streams, and states that go on."""

import itertools
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given
from support import both
from support.pipelines import tries

import headrace.compat.grain as grain
from headrace.compat.grain import experimental


def noisy(x, rng):
    """Draws twice."""
    return (x, rng.random(), int(rng.integers(1000)))


def number_of(x):
    """A whole number of any element."""
    return x if isinstance(x, int) else number_of(x[0])


MAP_STEPS = {
    "seed": lambda g, d, n: d.seed(n),
    "shuffle": lambda g, d, n: d.seed(n).shuffle() if n % 2 else d.shuffle(seed=n),
    "map": lambda g, d, n: d.map(lambda x: (x, n)),
    "random_map": lambda g, d, n: d.random_map(noisy, seed=n),
    "map_with_index": lambda g, d, n: d.map_with_index(lambda i, x: (x, i)),
    "filter": lambda g, d, n: d.filter(lambda x: number_of(x) % (n % 3 + 2)),
    "repeat": lambda g, d, n: d.repeat(n % 3 + 1, reseed_each_epoch=n % 2 == 0),
    "slice": lambda g, d, n: d[n % 3 :: n % 2 + 1],
    "window": lambda g, d, n: g.experimental.WindowShuffleMapDataset(d, window_size=n % 5 + 1, seed=n),
    "mix": lambda g, d, n: g.MapDataset.mix([d, g.MapDataset.range(100, 107)], [1, n % 4 + 0.3]),
    "concatenate": lambda g, d, n: g.MapDataset.concatenate([d, g.MapDataset.range(100, 103)]),
    "zip": lambda g, d, n: g.experimental.ZipMapDataset([d, d.shuffle(seed=n)]).map(lambda pair: pair[n % 2]),
}

ITER_STEPS = {
    "map": lambda g, d, n: d.map(lambda x: (x, n)),
    "random_map": lambda g, d, n: d.seed(n).random_map(noisy),
    "map_with_index": lambda g, d, n: d.map_with_index(lambda i, x: (x, i)),
    "filter": lambda g, d, n: d.filter(lambda x: number_of(x) % (n % 3 + 2)),
    "window": lambda g, d, n: g.experimental.WindowShuffleIterDataset(d, window_size=n % 5 + 1, seed=n),
    "mix": lambda g, d, n: g.IterDataset.mix([d, g.MapDataset.range(100, 107).to_iter_dataset()], [1, n % 4 + 0.3]),
    "interleave": lambda g, d, n: g.experimental.InterleaveIterDataset(
        [d, g.MapDataset.range(n % 7 + 1).to_iter_dataset(), d], cycle_length=n % 3 + 1
    ),
    "limit": lambda g, d, n: g.experimental.LimitIterDataset(d, n % 9 + 3),
    "repeat": lambda g, d, n: g.experimental.RepeatIterDataset(d, 2),
    "batch": lambda g, d, n: d.batch(n % 4 + 1, drop_remainder=n % 2 == 0, batch_fn=list),
}

numbers = st.integers(0, 20)


@given(
    st.integers(3, 20),
    st.lists(st.tuples(st.sampled_from([*MAP_STEPS]), numbers), max_size=4),
    st.lists(st.tuples(st.sampled_from([*ITER_STEPS]), numbers), max_size=3),
)
@tries(100)
@pytest.mark.slow
def test_random_chains_give_grains_elements(length, map_steps, iter_steps):
    """Of up to seven methods."""

    def chain(g):
        dataset = g.MapDataset.range(length)
        for name, n in map_steps:
            dataset = MAP_STEPS[name](g, dataset, n)
        stream = dataset.to_iter_dataset()
        for name, n in iter_steps:
            stream = ITER_STEPS[name](g, stream, n)
        return dataset, stream

    def elements(g):
        dataset, stream = chain(g)
        return [dataset[i] for i in range(len(dataset) + 5)] if len(dataset) else [], list(stream)

    both.runs_alike(elements)
    stream = chain(grain)[1]
    if next(iter(stream), None) is not None:
        experimental.assert_equal_output_after_checkpoint(stream)


MORE_STEPS = ITER_STEPS | {
    "zip": lambda g, d, n: g.experimental.ZipIterDataset([d, d], strict=n % 2 == 0).map(lambda pair: pair[n % 2]),
    "rebatch": lambda g, d, n: g.experimental.RebatchIterDataset(d.map(number_of).batch(n % 4 + 1), n % 3 + 1).map(
        lambda rows: int(rows[0])
    ),
}


def stream_of(g, length, steps):
    """A stream of numbers that were shuffled."""
    stream = g.MapDataset.range(length).shuffle(seed=length).map(lambda x: x).to_iter_dataset()
    for name, n in steps:
        stream = MORE_STEPS[name](g, stream, n)
    return stream


@given(st.integers(3, 20), st.lists(st.tuples(st.sampled_from([*MORE_STEPS]), numbers), max_size=3), numbers)
@tries(60)
def test_random_streams_go_on_from_states_of_grain(length, steps, taken):
    """With the elements that Grain had not delivered."""
    with both.quiet():
        theirs = iter(stream_of(both.real, length, steps))
        list(itertools.islice(theirs, taken))
        state = json.loads(json.dumps(theirs.get_state()))
        expected = both.told(list(theirs))
    ours = iter(stream_of(grain, length, steps))
    ours.set_state(state)
    assert both.told(list(ours)) == expected


class Threefold(grain.experimental.FlatMapTransform):
    """Three elements of each."""

    max_fan_out = 3

    def flat_map(self, element):
        return [element] * 3


SLICES = [
    slice(2, None),
    slice(None, None, 3),
    slice(2, 9),
    slice(-3),
    slice(-5, None),
    slice(5, 2**61),
    slice(1, None, 2),
]

LENGTH_STEPS = {
    "map": lambda g, d, n: d.map(str),
    "filter": lambda g, d, n: d.filter(bool),
    "repeat": lambda g, d, n: d.repeat() if n % 2 else d.repeat(n + 1),
    "batch": lambda g, d, n: d.batch(n % 7 + 2, drop_remainder=n % 2 == 0),
    "slice": lambda g, d, n: d[SLICES[n % len(SLICES)]],
    "flat_map": lambda g, d, n: g.experimental.FlatMapMapDataset(d, Threefold()),
    "window": lambda g, d, n: g.experimental.WindowShuffleMapDataset(d, window_size=n + 1, seed=n),
    "zip": lambda g, d, n: g.experimental.ZipMapDataset([d, d]),
    "concatenate": lambda g, d, n: g.MapDataset.concatenate([d, g.MapDataset.range(3)]),
    "mix": lambda g, d, n: g.MapDataset.mix(
        [d, [g.MapDataset.range(5).repeat(), g.MapDataset.range(5).repeat().batch(2), g.MapDataset.range(7)][n % 3]],
        [1, n % 3 + 1],
    ),
}


def length_of(g, steps):
    """The length of a chain, or the kind of the error; None where it is too large for `len`."""
    dataset = g.MapDataset.range(10).repeat()
    try:
        for name, n in steps:
            dataset = LENGTH_STEPS[name](g, dataset, n)
        return len(dataset)
    except OverflowError:
        return None
    except ValueError:
        return ValueError


@given(st.lists(st.tuples(st.sampled_from([*LENGTH_STEPS]), numbers), max_size=5))
@tries(150)
def test_lengths_of_endless_chains_are_grains(steps):
    """A batch, a slice, a mix of what never ends has the length that Grain computes."""
    expected = length_of(both.real, steps)
    if expected is not None:
        assert length_of(grain, steps) == expected
