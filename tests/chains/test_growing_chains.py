"""Chains of datasets on sources that grow: they take in what is appended as a loader does, or say
that they do not.
"""

from __future__ import annotations

import pytest
from support.growing_source import GrowingKeys, append, begin_writing

from headrace import GrowthOptions, MapDataset, load
from headrace.compat import grain
from headrace.errors import CheckpointError


@pytest.fixture
def path(tmp_path):
    """The file of a source of ten records."""
    append(tmp_path / "sizes.json", 10)
    return tmp_path / "sizes.json"


def _take(iterator, steps):
    return [key for _ in range(steps) for key in next(iterator).tolist()]


def _chain(path, seed=None, epochs=None, generation=None):
    dataset = MapDataset.source(GrowingKeys(path, generation))
    return (dataset if seed is None else dataset.shuffle(seed)).repeat(epochs)


@pytest.mark.parametrize("growth", [None, GrowthOptions("now", every=4)], ids=["epoch", "now"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_chain_takes_in_what_a_loader_does(path, seed, growth):
    """In the same order, with operations before and after the shuffle; its states go on with the
    same changes.
    """
    sizes = path.read_text()

    def run(stream):
        path.write_text(sizes)
        with iter(stream()) as iterator:
            keys = _take(iterator, 2)
            append(path, 5)
            keys += _take(iterator, 2)
            state = iterator.get_state()
            keys += _take(iterator, 8)
        with iter(stream()) as iterator:
            iterator.set_state(state)
            assert _take(iterator, 8) == keys[16:]
        return keys

    def chain():
        dataset = _chain(path, seed).map(lambda key: key + 1).map(lambda key: key - 1)
        return dataset.to_iter_dataset(growth=growth).filter(lambda key: key >= 0).batch(4)

    def loader():
        return load(
            GrowingKeys(path), batch_size=4, shuffle=seed is not None, seed=seed, growth=growth
        )

    keys = run(chain)
    assert keys == run(loader)
    assert {*range(15)} == {*keys}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("omit", [(), (3,)], ids=["all", "omit"])
@pytest.mark.parametrize("epochs", [None, 4, "one"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_state_of_a_chain_that_did_not_grow_goes_on(path, seed, epochs, omit):
    """At each step, with what was appended from the next epoch on, as a loader goes on from such
    states.
    """

    def chain(generation, omit=omit):
        dataset = MapDataset.source(GrowingKeys(path, generation))
        dataset = dataset if seed is None else dataset.shuffle(seed)
        dataset = dataset if epochs == "one" else dataset.repeat(epochs)
        return iter((dataset.omit(omit) if omit else dataset).to_iter_dataset().batch(2))

    with chain(0) as iterator:
        states = [iterator.get_state()]
        keys = []
        while len(states) < 10 and (batch := next(iterator, None)) is not None:
            keys += batch.tolist()
            states.append(iterator.get_state())
    append(path, 5)
    first, whole = 10 - len(omit), {*range(15)} - {*omit}
    for step, state in enumerate(states[1:5], 1):
        with chain(None) as iterator:
            iterator.set_state(state)
            rest = (
                [key for batch in iterator for key in batch.tolist()]
                if epochs == "one"
                else _take(iterator, 12)
            )
        assert rest[: first - 2 * step] == keys[2 * step : first]
        if epochs != "one":
            assert {*rest[first - 2 * step :][: len(whole)]} == whole
    with chain(None, (3, 7)) as iterator:
        iterator.set_state(states[2])
        rest = (
            [key for batch in iterator for key in batch.tolist()]
            if epochs == "one"
            else _take(iterator, 2)
        )
        assert rest[:3] == [key for key in keys[4:first] if key not in (3, 7)][:3]


@pytest.mark.slow
def test_a_state_of_another_order_than_that_of_a_growing_chain_is_refused(path):
    """Another seed, another number of epochs, an order that is not one of whole epochs."""
    whole = MapDataset.source(GrowingKeys(path, 0))
    others = [
        whole.shuffle(4),
        whole,
        whole[:8].shuffle(3),
        whole.shuffle(3, reseed_each_epoch=False),
    ]
    for other in [
        *(other.repeat() for other in others),
        whole.shuffle(3).repeat(2),
        whole.shuffle(3),
    ]:
        with iter(other.to_iter_dataset().batch(2)) as iterator:
            next(iterator)
            state = iterator.get_state()
        with (
            iter(_chain(path, 3).to_iter_dataset().batch(2)) as iterator,
            pytest.raises(CheckpointError),
        ):
            iterator.set_state(state)


def test_a_chain_waits_for_a_writer(path):
    """What comes while it is at work belongs to the only epoch; `iter(dataset)` is
    `iter(dataset.to_iter_dataset())`.
    """
    begin_writing(path)
    iterator = iter(MapDataset.source(GrowingKeys(path)).map(lambda key: key * 2))
    keys = [next(iterator) for _ in range(10)]
    append(path, 3)
    assert [*keys, *iterator] == [key * 2 for key in range(13)]


REFUSED = {
    "slice": lambda dataset: dataset[:5],
    "repeated batches": lambda dataset: dataset.batch(5).repeat(),
    "two shuffles": lambda dataset: dataset.shuffle(1).shuffle(2),
    "shuffled alike": lambda dataset: dataset.shuffle(1, reseed_each_epoch=False),
    "evaluated": lambda dataset: dataset.random_map(lambda key, rng: key, seed=1).shuffle(1),
    "mix": lambda dataset: MapDataset.mix([dataset, MapDataset.range(5)]),
    "zip": lambda dataset: MapDataset.zip([dataset, dataset]),
    "concatenate": lambda dataset: MapDataset.concatenate([dataset, dataset]),
}


@pytest.mark.long
@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", REFUSED)
def test_other_chains_say_that_they_have_the_records_that_there_are(path, name):
    """With growth="hand" they do; else an error says so when the stream is made."""
    dataset = REFUSED[name](MapDataset.source(GrowingKeys(path)))
    for growth in (None, "now"):
        with pytest.raises(ValueError, match='Pass growth="hand" to read') as raised:
            dataset.to_iter_dataset(growth=growth)
        assert len(str(raised.value)) < 500
    iterator = iter(dataset.to_iter_dataset(growth="hand"))
    next(iterator)


def test_grains_names_say_it_too(path):
    """Their shuffles draw otherwise, and keep the records that there are."""
    dataset = grain.MapDataset.source(GrowingKeys(path))
    assert list(dataset.to_iter_dataset()) == list(range(10))
    with pytest.raises(ValueError, match='Pass growth="hand"'):
        iter(dataset.shuffle(seed=1))
    assert sorted(dataset.shuffle(seed=1).to_iter_dataset(growth="hand")) == list(range(10))


def test_a_stream_of_the_records_that_there_are_repeats_in_a_mix(path):
    """With its next epochs, shuffled anew each time, as a stream of a source that does not grow."""

    def mix(generation, growth):
        chain = (
            MapDataset.source(GrowingKeys(path, generation))
            .shuffle(1)
            .to_iter_dataset(growth=growth)
        )
        other = MapDataset.range(100, 103).to_iter_dataset()
        return list(type(chain).mix([chain, other], when_exhausted="repeat").limit(60))

    assert mix(None, "hand") == mix(0, None)


def test_streams_that_take_in_records_are_not_joined(path):
    """Limits, repeats and joins count the elements of a stream that has a fixed end."""
    stream, other = _chain(path, 1, 2).to_iter_dataset(), MapDataset.range(5).to_iter_dataset()
    for join in (
        lambda: stream.limit(3),
        lambda: stream.repeat(2),
        lambda: type(stream).zip([other, stream]),
    ):
        with pytest.raises(ValueError, match=r"repeat\(\) before to_iter_dataset\(\)"):
            join()
    assert len(list(_chain(path).to_iter_dataset(growth="hand").limit(3))) == 3
    with pytest.raises(ValueError, match="needs a growing source"):
        MapDataset.range(5).to_iter_dataset(growth="now")
