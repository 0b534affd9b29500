"""Runs of Grain's datasets go on with ours, from the states that Grain's iterators gave."""

import grain as real
import numpy as np
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.errors import CheckpointError


def numbers(g):
    """Thirty numbers in Grain's order."""
    return g.MapDataset.range(30).seed(1).shuffle()


def odd(g):
    """Those that a filter of a stream leaves."""
    return numbers(g).to_iter_dataset().filter(lambda x: x % 3)


def documents(g):
    """Token arrays of unequal length."""
    return odd(g).map(lambda x: {"x": np.arange(1 + x % 5)})


def files(g):
    """Streams of unequal length, one of them empty."""
    return [numbers(g)[:count].to_iter_dataset().map(lambda x: x) for count in (3, 1, 0, 7, 2)]


def thrice(g):
    """A flat map."""

    class Thrice(g.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element):
            return [element] * (element % 4)

    return Thrice()


def flat_mapped(g):
    """Up to three of each number, by index."""
    return g.experimental.FlatMapMapDataset(numbers(g), thrice(g))


def noisy(x, rng):
    """A random map."""
    return x, rng.random()


CHAINS = {
    "plain": lambda g: numbers(g).to_iter_dataset(),
    "left out before": lambda g: numbers(g).filter(lambda x: x % 2).to_iter_dataset(),
    "map and batch": lambda g: numbers(g).to_iter_dataset().map(lambda x: x * 2).batch(4),
    "batches of a MapDataset": lambda g: (
        numbers(g).repeat(2).batch(4).to_iter_dataset().map(lambda x: x + 1)
    ),
    "batches of batches": lambda g: numbers(g).batch(2).to_iter_dataset().batch(3),
    "filter and batch": lambda g: numbers(g).to_iter_dataset().filter(lambda x: x % 3).batch(2),
    "random map": lambda g: (
        numbers(g).to_iter_dataset().random_map(noisy).map_with_index(lambda i, x: (i, x))
    ),
    "random map after a filter": lambda g: (
        numbers(g).to_iter_dataset().filter(lambda x: x % 3).random_map(noisy)
    ),
    "map after that": lambda g: (
        CHAINS["random map after a filter"](g).map(str).batch(2, batch_fn=list)
    ),
    "mix": lambda g: g.IterDataset.mix(
        [CHAINS["map and batch"](g), CHAINS["filter and batch"](g)], [0.4, 0.6]
    ),
    "mix by name": lambda g: g.IterDataset.mix(
        {"b": CHAINS["plain"](g), "a": CHAINS["left out before"](g)}
    ).map(str),
    "bins": lambda g: g.experimental.FirstFitPackIterDataset(
        numbers(g).to_iter_dataset().map(lambda x: {"x": np.arange(1 + x % 5)}),
        length_struct={"x": 8},
        num_packing_bins=3,
    ),
    "best bins": lambda g: g.experimental.BestFitPackIterDataset(
        documents(g).mp_prefetch(g.MultiprocessingOptions(0)),
        length_struct={"x": 8},
        num_packing_bins=3,
    ).batch(2),
    "end to end": lambda g: g.experimental.ConcatThenSplitIterDataset(
        documents(g), length_struct={"x": 7}
    ).map(str),
    "full rows": lambda g: g.experimental.ConcatThenSplitIterDataset(
        documents(g), length_struct={"x": 4}, split_full_length_features=False
    ),
    "rows of numbered documents": lambda g: g.experimental.ConcatThenSplitIterDataset(
        odd(g).map(lambda x: {"x": np.arange(1 + x % 5), "id": x}),
        length_struct={"x": 7, "id": 9},
        meta_features=["id"],
    ),
    "repeated bins": lambda g: g.experimental.RepeatIterDataset(CHAINS["bins"](g), 2),
    "windows": lambda g: g.experimental.WindowShuffleIterDataset(
        numbers(g).to_iter_dataset(), window_size=7, seed=5
    ),
    "windows after a filter": lambda g: (
        g.experimental.WindowShuffleIterDataset(odd(g), window_size=4, seed=5)
        .filter(lambda x: x % 2)
        .batch(2)
    ),
    "windows of batches": lambda g: g.experimental.WindowShuffleIterDataset(
        numbers(g).batch(3).to_iter_dataset().map(lambda x: x), window_size=2, seed=5
    ).random_map(noisy, seed=3),
    "interleave": lambda g: g.experimental.InterleaveIterDataset(files(g), cycle_length=2).filter(
        lambda x: x % 5
    ),
    "windows of an interleave": lambda g: g.experimental.WindowShuffleIterDataset(
        g.experimental.InterleaveIterDataset(files(g), cycle_length=3), window_size=4, seed=2
    ).batch(2),
    "zip": lambda g: g.experimental.ZipIterDataset(
        [odd(g), numbers(g).to_iter_dataset()], strict=False
    ),
    "random map of a zip": lambda g: (
        g.experimental.ZipIterDataset([odd(g), odd(g)]).seed(2).random_map(noisy)
    ),
    "rebatch": lambda g: g.experimental.RebatchIterDataset(odd(g).batch(3), 2).map(lambda x: x),
    "larger batches": lambda g: g.experimental.RebatchIterDataset(
        numbers(g).batch(2).to_iter_dataset(), 5
    ),
    "flat map": lambda g: (
        g.experimental.FlatMapIterDataset(odd(g), thrice(g)).filter(lambda x: x % 5).batch(2)
    ),
    "limit": lambda g: g.experimental.LimitIterDataset(odd(g), 9).random_map(noisy, seed=1),
    "repeat": lambda g: g.experimental.RepeatIterDataset(odd(g), 2).batch(3),
    "random map of a repeat": lambda g: g.experimental.RepeatIterDataset(odd(g), 2).random_map(
        noisy, seed=1
    ),
    "cache": lambda g: g.experimental.CacheIterDataset(odd(g)),
    "epochs of a cache": lambda g: g.experimental.RepeatIterDataset(
        g.experimental.CacheIterDataset(numbers(g)[:5].to_iter_dataset().map(lambda x: x + 1)), 2
    ),
    "mix of everything": lambda g: g.IterDataset.mix(
        [
            CHAINS[name](g)
            for name in ("windows of an interleave", "rebatch", "mix by name", "bins")
        ],
        [1, 2, 3, 1],
    ).map(str),
    "flat map by index": lambda g: flat_mapped(g).to_iter_dataset(),
    "flat map by index, filtered": lambda g: (
        flat_mapped(g).filter(lambda x: x % 5).to_iter_dataset().filter(lambda x: x % 7)
    ),
    "flat map of a flat map": lambda g: g.experimental.FlatMapMapDataset(
        flat_mapped(g), thrice(g)
    ).to_iter_dataset(),
    "flat map of batches": lambda g: g.experimental.FlatMapMapDataset(
        numbers(g).batch(4).map(lambda x: int(x.sum())), thrice(g)
    ).to_iter_dataset(),
    "epochs of a filtered cache": lambda g: g.experimental.RepeatIterDataset(
        g.experimental.CacheIterDataset(odd(g)), 3
    ).batch(4),
    "interleave of interleaves": lambda g: g.experimental.InterleaveIterDataset(
        [g.experimental.InterleaveIterDataset(files(g), cycle_length=2)] * 2, cycle_length=1
    ),
    "whole epochs": lambda g: (
        numbers(g).repeat(3).map(lambda x: x)[3:].to_iter_dataset().batch(7, drop_remainder=True)
    ),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CHAINS)
def test_a_run_of_grain_goes_on_with_the_elements_not_yet_seen(name):
    """From the state of any step, the last one too, the same ones as with Grain."""
    with both.quiet():
        iterator = iter(CHAINS[name](real))
    states, elements = [], []
    while True:
        states.append(iterator.get_state())
        element = next(iterator, None)
        if element is None:
            break
        elements.append(element)
    for step in {0, 1, 2, len(elements) // 2, len(elements) - 1, len(elements)}:
        ours = iter(CHAINS[name](grain))
        ours.set_state(states[step])
        assert both.told(list(ours)) == both.told(elements[step:])


def workers(*states):
    """The state of Grain's mp_prefetch."""
    count = len(states)
    return {
        "next_index_in_cycle": 1 % count,
        "next_index_in_datasets": count,
        "iterators_in_use_indices": list(range(count)),
        "iterators_in_use_states": list(states),
        "exhausted": [0] * count,
        "future_states": {},
    }


def test_what_workers_of_grain_left_comes_once():
    """Each had every so manieth record, in batches of its own; they stood at different places."""
    iterator = iter(CHAINS["map and batch"](grain).mp_prefetch(grain.MultiprocessingOptions(1)))
    iterator.set_state(workers({"next_index": 8}, {"next_index": 4}))
    order = list(numbers(real))
    left = sorted(2 * x for x in set(order) - set(order[:16:2]) - set(order[1:9:2]))
    assert sorted(np.concatenate(list(iterator)).tolist()) == left
    iterator.close()


def test_whole_batches_that_workers_of_grain_left_come_once():
    """Worker w of three had every third batch from the w-th on; they delivered 4, 2 and
    3 of them.
    """
    chain = CHAINS["batches of a MapDataset"]
    whole = list(chain(grain))
    iterator = iter(chain(grain))
    iterator.set_state(workers({"next_index": 4}, {"next_index": 2}, {"next_index": 3}))
    first = next(iterator)
    again = iter(chain(grain))
    again.set_state(iterator.get_state())
    seen = {0, 3, 6, 9, 1, 4, 2, 5, 8}
    left = [batch for number, batch in enumerate(whole) if number not in seen]
    assert both.told([first, *iterator]) == both.told(left)
    assert both.told(list(again)) == both.told(left[1:])


def test_one_worker_of_grain_is_as_none():
    """Also of what is run through in order."""
    for name, state in (
        ("batches of a MapDataset", {"next_index": 5}),
        ("map after that", {"parent": {"next_index": 4}, "index_for_rng": 2}),
    ):
        one, none = iter(CHAINS[name](grain)), iter(CHAINS[name](grain))
        one.set_state(workers(state))
        none.set_state(state)
        assert both.told(list(one)) == both.told(list(none)) != []


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("plain", {"next_index": 31}, "out of range for dataset of length"),
        ("plain", {"next_index": -1}, "out of range for dataset of length"),
        ("plain", {"parents": []}, "that Grain returned for a dataset"),
        (
            "batches of batches",
            workers({"next_index": 2}, {"next_index": 1}),
            r"numbers of batches of a MapDataset \(\[2, 1\]\)",
        ),
        ("map after that", workers({"next_index": 2}, {"next_index": 1}), "2 Grain workers"),
        (
            "plain",
            {**workers({"next_index": 2}), "iterators_in_use_indices": [3]},
            "workers cannot be",
        ),
    ],
)
def test_states_that_cannot_be_gone_on_with_are_refused(name, state, message):
    """With the reason; the iterator stays where it was."""
    iterator = iter(CHAINS[name](grain))
    next(iterator)
    before = iterator.get_state()
    with pytest.raises(CheckpointError, match=message):
        iterator.set_state(state)
    assert iterator.get_state() == before


@pytest.mark.parametrize("kind", ["dataset", "loader"])
def test_a_checkpoint_that_grain_wrote_with_orbax_is_restored(kind, tmp_path):
    """Its file as it is, in the middle of an epoch."""
    import grain.checkpoint as real_checkpoint
    import orbax.checkpoint as ocp

    def source(g):
        if kind == "dataset":
            return CHAINS["filter and batch"](g)
        return g.load(list(range(30)), num_epochs=1, shuffle=True, seed=3, batch_size=4)

    theirs, ours = iter(source(real)), iter(source(grain))
    for _ in range(3):
        next(theirs)
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=ocp.args.Composite(data=real_checkpoint.CheckpointSave(theirs)))
        manager.wait_until_finished()
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.restore(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(ours)))
    assert both.told(list(ours)) == both.told(list(theirs))
