"""A loader that is run a second time begins again: where that is likely a mistake, a warning says
so.
"""

from __future__ import annotations

import pickle
import warnings

import pytest

from headrace import BlockShuffle, DataLoader, IndexSampler, RandomMapTransform, load


def noisy(record, rng):
    """A record with noise."""
    return record + rng.random()


def one_epoch(**arguments):
    """Twenty records, once, shuffled."""
    return load(range(20), **{"shuffle": True, "seed": 1, "num_epochs": 1, **arguments})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"batch_size": 4},
        {"shuffle": BlockShuffle(4)},
        {"shuffle": False, "transformations": [RandomMapTransform(noisy)]},
        {"worker_count": 1},
    ],
)
def test_a_loop_over_the_same_shuffled_epoch_again_warns_once(arguments):
    """`for batch in loader`, again and again: the second loop gives the first epoch, and a warning
    names epochs().
    """
    loader = one_epoch(**arguments)
    first = [str(batch) for batch in loader]
    with pytest.warns(
        UserWarning, match=r"the same epoch.*leave out num_epochs=.*loader\.epochs\(n\)"
    ) as told:
        second = [str(batch) for batch in loader]
    assert second == first, "the warning is of something that happens"
    assert told[0].filename == __file__
    assert len(str(told[0].message)) < 500
    assert [str(batch) for batch in loader] == first


def test_the_remedy_that_the_warning_names_works():
    """Without num_epochs=, a loop over epochs() gives two orders, and no warning."""
    loader = one_epoch(num_epochs=None)
    one, two = (list(epoch) for epoch in loader.epochs(2))
    assert one != two
    assert sorted(one) == sorted(two) == list(range(20))
    assert [len(list(epoch)) for epoch in loader.epochs(2)] == [20, 20]


@pytest.mark.parametrize(
    "loader",
    [
        one_epoch(shuffle=False),
        one_epoch(num_epochs=2),
        DataLoader(data_source=range(20), sampler=IndexSampler(20, num_epochs=1), operations=[str]),
    ],
)
def test_where_a_second_pass_is_what_was_meant_there_is_no_warning(loader):
    """Evaluation in order, and streams of several epochs, are run again in silence."""
    assert list(loader) == list(loader) == list(loader)


def test_iterators_side_by_side_are_no_mistake():
    """Runs that begin before one has ended, and one that was left early, are
    independent by design.
    """
    loader = one_epoch()
    one, two = iter(loader), iter(loader)
    assert next(one) == next(two)
    assert list(one) == list(two)
    early = one_epoch()
    for _ in early:
        break
    assert len(list(early)) == 20


def test_what_is_made_of_a_loader_has_passes_of_its_own():
    """A loader with another batch size, or one that comes back from pickle, was not run before."""
    loader = one_epoch(batch_size=4)
    list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(loader.with_batch_size(5))) == 4
        assert len(list(loader.skip([(0, 2)]))) == 3
    fresh = pickle.loads(pickle.dumps(one_epoch()))
    list(fresh)
    with pytest.warns(UserWarning, match="epochs"):
        next(iter(fresh))


def test_a_run_that_goes_on_from_a_state_is_no_second_pass():
    """`iter(loader)` and then `set_state` is how a run is taken up again."""
    loader = one_epoch(batch_size=4)
    iterator = iter(loader)
    next(iterator)
    state = iterator.get_state()
    rest = [batch.tolist() for batch in iterator]
    again = iter(loader)
    again.set_state(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [batch.tolist() for batch in again] == rest
