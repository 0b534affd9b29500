"""Runs of Grain's datasets go on with ours, from the states that Grain's iterators gave."""

import both
import grain as real
import numpy as np
import pytest

import millrace.compat.grain as grain
from millrace.errors import CheckpointError


def numbers(g):
    """Thirty numbers in Grain's order."""
    return g.MapDataset.range(30).seed(1).shuffle()


def noisy(x, rng):
    """A random map."""
    return x, rng.random()


CHAINS = {
    "plain": lambda g: numbers(g).to_iter_dataset(),
    "left out before": lambda g: numbers(g).filter(lambda x: x % 2).to_iter_dataset(),
    "map and batch": lambda g: numbers(g).to_iter_dataset().map(lambda x: x * 2).batch(4),
    "batches of a MapDataset": lambda g: numbers(g).repeat(2).batch(4).to_iter_dataset().map(lambda x: x + 1),
    "filter and batch": lambda g: numbers(g).to_iter_dataset().filter(lambda x: x % 3).batch(2),
    "random map": lambda g: numbers(g).to_iter_dataset().random_map(noisy).map_with_index(lambda i, x: (i, x)),
    "random map after a filter": lambda g: numbers(g).to_iter_dataset().filter(lambda x: x % 3).random_map(noisy),
    "map after that": lambda g: CHAINS["random map after a filter"](g).map(str).batch(2, batch_fn=list),
    "mix": lambda g: g.IterDataset.mix([CHAINS["map and batch"](g), CHAINS["filter and batch"](g)], [0.4, 0.6]),
    "mix by name": lambda g: g.IterDataset.mix({"b": CHAINS["plain"](g), "a": CHAINS["left out before"](g)}).map(str),
    "bins": lambda g: g.experimental.FirstFitPackIterDataset(
        numbers(g).to_iter_dataset().map(lambda x: {"x": np.arange(1 + x % 5)}),
        length_struct={"x": 8},
        num_packing_bins=3,
    ),
    "whole epochs": lambda g: numbers(g).repeat(3).map(lambda x: x)[3:].to_iter_dataset().batch(7, drop_remainder=True),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_run_of_grain_goes_on_with_the_elements_not_yet_seen(name):
    """From the state of any step, the same ones as with Grain."""
    iterator = iter(CHAINS[name](real))
    states, elements = [], []
    while True:
        states.append(iterator.get_state())
        element = next(iterator, None)
        if element is None:
            break
        elements.append(element)
    for step in (0, 1, 2, len(elements) - 1):
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
        ("plain", {"next_index": 31}, "after the end"),
        ("plain", {"next_index": -1}, "no state that this dataset goes on from"),
        ("plain", {"parents": []}, "no state that this dataset goes on from"),
        ("batches of a MapDataset", workers({"next_index": 2}, {"next_index": 1}), "unequal places"),
        ("map after that", workers({"next_index": 2}, {"next_index": 1}), "2 workers"),
        ("plain", {**workers({"next_index": 2}), "iterators_in_use_indices": [3]}, "not one of workers"),
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
