"""MapDataset and IterDataset of `headrace.compat.grain` beside the real ones."""

import re

import numpy as np
import pytest
from support import both

import headrace.compat.grain as grain
from headrace.errors import CheckpointError, SeedError

PROGRAMS = []


def program(function):
    """One that both run."""
    PROGRAMS.append(function)
    return function


@program
def indices_past_the_end(g):
    """Indices past the end."""
    dataset = (
        g.MapDataset.range(10)
        .seed(3)
        .shuffle()
        .random_map(lambda x, rng: x + rng.random())
        .repeat(2)
    )
    return [dataset[i] for i in range(25)], list(dataset), list(dataset.to_iter_dataset())


@program
def random_maps_and_shuffles_anywhere(g):
    """Random maps and shuffles anywhere."""
    dataset = (
        g.MapDataset.source(list(range(20)))
        .seed(5)
        .map(lambda x: x)
        .filter(lambda x: x % 3)
        .shuffle()[2:18:3]
    )
    dataset = (
        dataset.random_map(lambda x, rng: (x, rng.normal()))
        .shuffle()
        .map_with_index(lambda i, x: (i, x))
    )
    return [dataset[i] for i in range(20)], list(dataset)


@program
def random_maps_of_streams(g):
    """Random maps of streams."""
    dataset = g.MapDataset.range(20).seed(1).shuffle().to_iter_dataset().map(lambda x: x)
    dataset = dataset.random_map(lambda x, rng: x + rng.random())
    batches = (
        dataset.batch(3)
        .random_map(lambda x, rng: x + rng.random())
        .map_with_index(lambda i, x: (i, x))
    )
    return list(dataset), list(batches)


@program
def random_maps_after_filters(g):
    """Random maps after filters."""
    stream = (
        g.MapDataset.range(20)
        .seed(1)
        .filter(lambda x: x % 4)
        .shuffle()
        .to_iter_dataset()
        .filter(lambda x: x % 3)
    )
    stream = stream.random_map(lambda x, rng: x + rng.random()).map_with_index(lambda i, x: (i, x))
    return list(stream.seed(4).random_map(lambda x, rng: (x, rng.random())))


@program
def mixes_of_datasets(g):
    """Mixes of datasets."""
    one = g.MapDataset.range(10).seed(1).shuffle().repeat()
    other = g.MapDataset.range(100, 130).seed(2).shuffle()
    mixed = g.MapDataset.mix([one, other], [0.7, 0.3]).random_map(lambda x, rng: x + rng.random())
    return len(mixed), list(mixed)[:60], [mixed[i] for i in range(90, 200, 7)]


@program
def mixes_of_streams(g):
    """Mixes of streams."""
    one = g.MapDataset.range(10).seed(1).shuffle().to_iter_dataset()
    other = g.MapDataset.range(100, 130).seed(2).shuffle().to_iter_dataset().filter(lambda x: x % 2)
    mixed = g.IterDataset.mix([one, other], [0.7, 0.3]).random_map(lambda x, rng: x + rng.random())
    return list(mixed), list(g.IterDataset.mix({"z": one, "c": other}, {"z": 0.3, "c": 0.7}))


@program
def batches(g):
    """Batches."""
    dataset = g.MapDataset.range(10).batch(4)
    whole = g.MapDataset.range(10).repeat(3).batch(4, drop_remainder=True).shuffle(seed=3)
    dropped = g.MapDataset.range(10).batch(4, drop_remainder=True)
    past = [[each[i] for i in range(8)] for each in (dataset, whole, dropped)]
    return past, list(dataset), list(whole)


@program
def concatenations(g):
    """Concatenations."""
    one, other = (
        g.MapDataset.range(4).shuffle(seed=3),
        g.MapDataset.range(10, 13).map(lambda x: x * 2),
    )
    both_of_them = g.MapDataset.concatenate([one, other])
    repeated = both_of_them.seed(3).shuffle().repeat(2, reseed_each_epoch=False)
    return len(both_of_them), [both_of_them[i] for i in range(20)], list(repeated)


@program
def empty_sources(g):
    """Empty sources."""
    nothing, no_numbers = g.MapDataset.source([]), g.MapDataset.range(0)
    stream = nothing.map(lambda x: x).to_iter_dataset().batch(2)
    return len(nothing), list(nothing), list(stream), list(no_numbers.filter(bool))


@program
def slices(g):
    """Slices."""
    dataset = g.MapDataset.range(10).shuffle(seed=1).repeat()[1::3]
    return [dataset[i] for i in range(10)], list(g.MapDataset.range(10)[::2])


@program
def filters_leave_none(g):
    """Filters leave none."""
    dataset = g.MapDataset.range(10).filter(lambda x: x % 2)
    stream = (
        dataset.shuffle(seed=1)
        .to_iter_dataset(g.ReadOptions(num_threads=0))
        .batch(2, drop_remainder=True)
    )
    return list(dataset), list(dataset.to_iter_dataset(allow_nones=True)), list(stream)


def of_ones_own(g):
    """Datasets of both kinds."""

    class Pairs(g.DatasetIterator):
        def __init__(self, parent):
            super().__init__(parent)
            self.count = 0

        def __next__(self):
            self.count += 1
            return next(self._parent), self.count

        def get_state(self):
            return {"parent": self._parent.get_state(), "count": self.count}

        def set_state(self, state):
            self._parent.set_state(state["parent"])
            self.count = state["count"]

    class Counted(g.IterDataset):
        def __init__(self, parent):
            super().__init__(parent)

        def __iter__(self):
            return Pairs(self._parent.__iter__())

    class Even(g.MapDataset):
        def __init__(self, parent):
            super().__init__(parent)

        def __len__(self):
            return len(self._parent) // 2

        def __getitem__(self, index):
            return self.slice(index) if isinstance(index, slice) else self._parent[2 * index]

    dataset = (
        Even(g.MapDataset.range(20).seed(4).shuffle())
        .shuffle()
        .random_map(lambda x, rng: x + rng.random())
    )
    return dataset, Counted(dataset.to_iter_dataset().map(lambda x: x))


@program
def datasets_of_ones_own(g):
    """Datasets of one's own."""
    dataset, stream = of_ones_own(g)
    iterator = iter(stream.filter(lambda x: True))
    first = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    rest = list(iterator)
    iterator.set_state(state)
    assert list(iterator) == rest
    return (
        list(dataset),
        list(stream),
        list(stream.random_map(lambda x, rng: (x, rng.random()))),
        first,
        rest,
    )


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.one_in(4)
def test_chains_give_grains_elements(function):
    """The same elements, of the same types, in the same order."""
    both.runs_alike(function)


def streams():
    """Streams whose states are not alike."""
    numbers = grain.MapDataset.range(23).seed(1).shuffle()
    odd = numbers.to_iter_dataset().filter(lambda x: x % 2)
    yield numbers.to_iter_dataset().batch(4)
    yield odd.random_map(lambda x, rng: (x, rng.random())).batch(2)
    yield grain.IterDataset.mix([numbers.to_iter_dataset(), odd], [0.5, 0.5]).map(str)
    yield of_ones_own(grain)[1]


@pytest.mark.parametrize("number", range(len(list(streams()))))
def test_states_of_chains_are_dicts_that_go_on_anywhere(number):
    """At every step, on the same iterator and on another one."""
    stream = list(streams())[number]
    whole = list(stream)
    iterator, states = iter(stream), []
    for _ in whole:
        states.append(iterator.get_state())
        next(iterator)
    assert isinstance(iterator, grain.DatasetIterator)
    for step, state in enumerate(states):
        assert isinstance(state, dict)
        for other in (iterator, iter(stream)):
            other.set_state(state)
            assert both.told(list(other)) == both.told(whole[step:])


def test_a_mix_goes_on_with_other_weights_and_datasets():
    """As with Grain: each dataset goes on where it stood, a new one begins."""

    def mixed(g, weights):
        parts = {
            name: g.MapDataset.range(100 * i, 100 * i + 40).to_iter_dataset()
            for i, name in enumerate("abc")
        }
        return g.IterDataset.mix(
            {name: parts[name].filter(lambda x: x % 3) for name in weights}, weights
        ).map(str)

    def program(g):
        iterator = iter(mixed(g, {"a": 0.7, "b": 0.3}))
        first = [next(iterator) for _ in range(8)]
        other = iter(mixed(g, {"a": 0.2, "b": 0.8}))
        other.set_state(iterator.get_state())
        return [*first, *other]

    both.runs_alike(program)
    iterator, other = (
        iter(mixed(grain, {"a": 0.7, "b": 0.3})),
        iter(mixed(grain, {"a": 0.5, "c": 0.5})),
    )
    first = [next(iterator) for _ in range(8)]
    other.set_state(iterator.get_state())
    rest = list(other)
    assert set(first).isdisjoint(rest)
    assert min(map(int, rest)) > min(map(int, first))
    assert "200" in rest


def test_workers_do_not_change_the_stream():
    """mp_prefetch gives the stream of no workers, whatever their number; a state goes
    on with any.
    """
    stream = list(streams())[1]
    iterator = iter(stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
    first = [next(iterator) for _ in range(2)]
    again = iter(stream)
    again.set_state(iterator.get_state())
    rest = list(iterator)
    iterator.close()
    assert both.told(first + rest) == both.told(list(stream))
    assert both.told(list(again)) == both.told(rest)


def test_a_closed_iterator_stays_closed_until_it_gets_a_state():
    """The next `next` is a ValueError."""
    iterator = iter(grain.MapDataset.range(4).to_iter_dataset())
    next(iterator)
    state = iterator.get_state()
    iterator.close()
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    iterator.set_state(state)
    assert list(iterator) == [1, 2, 3]


def test_random_methods_need_a_seed():
    """Without one anywhere it is a ValueError."""
    for method in ("shuffle", "random_map"):
        arguments = () if method == "shuffle" else (lambda x, rng: x,)
        with pytest.raises(SeedError, match=method):
            getattr(grain.MapDataset.range(3), method)(*arguments)
    with pytest.raises(ValueError, match="seed"):
        grain.MapDataset.range(3).shuffle(seed=1 << 32)


def test_a_state_of_another_dataset_is_refused():
    """As those of loaders."""
    state = iter(grain.MapDataset.range(4).to_iter_dataset()).get_state()
    with pytest.raises(CheckpointError):
        iter(grain.MapDataset.range(5).to_iter_dataset()).set_state(state)


def test_several_workers_over_what_cannot_be_sliced_are_refused():
    """A dataset of a class of the user's without parents: as in Grain, when it is iterated; one
    worker is enough.
    """

    class Endless(grain.IterDataset):
        def __iter__(self):
            return Ones()

    class Ones(grain.DatasetIterator):
        def __next__(self):
            return 1

        def get_state(self):
            return {}

        def set_state(self, state):
            pass

    class Over(grain.IterDataset):
        def __iter__(self):
            return iter(self._parent)

    for source in (Endless(), Over(Endless()), Over(Over(Endless().map(abs)))):
        several = source.map(abs).mp_prefetch(grain.MultiprocessingOptions(2))
        with pytest.raises(ValueError, match="Cannot slice `IterDataset` source"):
            list(several)
        with pytest.raises(ValueError, match="Cannot slice `IterDataset` source"):
            grain.experimental.multithread_prefetch(source.map(abs), num_threads=2, buffer_size=1)
    iterator = iter(Endless().mp_prefetch(grain.MultiprocessingOptions(1)))
    assert next(iterator) == 1
    iterator.close()
    rest = Over(grain.MapDataset.range(5).to_iter_dataset()).mp_prefetch(
        grain.MultiprocessingOptions(2)
    )
    assert list(rest) == list(range(5))


def test_a_loader_takes_a_sampler_of_more_records_than_there_are():
    """As in Grain it is built; a record that is not there is an error when it is read."""
    for sampler in (
        grain.samplers.IndexSampler(5, num_epochs=1, seed=0),
        grain.samplers.SequentialSampler(5),
    ):
        loader = grain.DataLoader(data_source=[10, 20, 30], sampler=sampler, operations=[])
        iterator = iter(loader)
        assert [next(iterator) for _ in range(3)] == [10, 20, 30]
        with pytest.raises(IndexError, match="record key 3, outside") as caught:
            next(iterator)
        assert any("position 3" in note for note in caught.value.__notes__)
        iterator.close()


def test_negative_options_are_refused_in_grains_words():
    """Programs match them."""
    with pytest.raises(ValueError, match="num_threads must be non-negative"):
        grain.ReadOptions(num_threads=-1)


def test_a_stream_is_true_whatever_its_length():
    """Also an endless one, whose length is an error, and an empty one."""
    assert grain.MapDataset.range(3).repeat().to_iter_dataset()
    assert grain.MapDataset.source([]).to_iter_dataset()


UNLIKE = {
    "structure": lambda x: {"a": x} if x % 2 else {"b": x},
    "shape": lambda x: {"a": np.zeros(x)},
}

REFUSED = {
    "batch of a stream": lambda g, unlike: list(
        g.MapDataset.range(4).map(unlike).to_iter_dataset().batch(2)
    ),
    "batch of a dataset": lambda g, unlike: g.MapDataset.range(4).map(unlike).batch(2)[0],
    "zip with a shorter stream": lambda g, _: list(
        g.experimental.ZipIterDataset([numbers_of(g, 3), numbers_of(g, 2)])
    ),
    "zip with a longer stream": lambda g, _: list(
        g.experimental.ZipIterDataset([numbers_of(g, 3), numbers_of(g, 4)])
    ),
    "zip of no streams": lambda g, _: g.experimental.ZipIterDataset([]),
    "zip of no datasets": lambda g, _: g.experimental.ZipMapDataset([]),
    "zip of unequal datasets": lambda g, _: g.experimental.ZipMapDataset(
        [g.MapDataset.range(2), g.MapDataset.range(3)]
    ),
    "batch after a filter": lambda g, _: g.MapDataset.range(4).filter(bool).batch(2),
    "shuffle without a seed": lambda g, _: g.MapDataset.range(4).shuffle(),
    "concatenation of what never ends": lambda g, _: g.MapDataset.concatenate(
        [g.MapDataset.range(4).repeat()]
    ),
    "mix with an empty dataset": lambda g, _: g.MapDataset.mix(
        [g.MapDataset.range(4), g.MapDataset.range(0)]
    ),
    "document longer than a row": lambda g, _: list(
        g.experimental.FirstFitPackIterDataset(
            numbers_of(g, 2).map(lambda x: {"x": np.zeros(9)}),
            length_struct={"x": 8},
            num_packing_bins=1,
        )
    ),
}


def numbers_of(g, count):
    """A short stream."""
    return g.MapDataset.range(count).to_iter_dataset()


@pytest.mark.parametrize("name", REFUSED)
def test_errors_that_programs_match_on_have_grains_words(name):
    """They begin as Grain's do, and are of the same kind."""
    for unlike in UNLIKE.values():
        with pytest.raises(ValueError, match=r".") as theirs:
            REFUSED[name](both.real, unlike)
        with pytest.raises(ValueError, match=r".") as ours:
            REFUSED[name](grain, unlike)
        first = (
            str(theirs.value).partition("\n")[0][:64].partition(". ")[0].partition(" because")[0]
        )
        assert str(ours.value).startswith(first.rstrip("."))
        assert len(str(ours.value)) < 500


def test_records_of_unequal_structure_are_a_type_error_in_a_loader():
    """As in Grain, where a BatchOperation makes the batches."""

    def loader(g):
        from importlib import import_module

        module = import_module(f"{g.__name__}.python")
        return module.DataLoader(
            data_source=range(4),
            sampler=module.IndexSampler(4, module.NoSharding(), num_epochs=1),
            operations=[module.MapOperation(UNLIKE["structure"]), module.BatchOperation(2)],
        )

    for g in (both.real, grain):
        with both.quiet(), pytest.raises(TypeError, match="structure"):
            list(loader(g))


class Unpicklable:
    """Something that no worker can have."""

    def __getstate__(self):
        raise LookupError("it is bound to this process")


@pytest.mark.parametrize("kind", ["map dataset", "iter dataset", "loader"])
@pytest.mark.one_in(3)
def test_what_cannot_be_pickled_is_the_users_error_with_grains_note(kind):
    """The exception that pickling raised, with a note "Dataset: … cannot be pickled!" and one with
    the path to the culprit.
    """
    bound = Unpicklable()

    def function(element):
        return bound and element

    class Mapped(grain.transforms.Map):
        def map(self, element):
            return function(element)

    def stream(kind):
        chain = grain.MapDataset.range(4)
        if kind == "loader":
            sampler = grain.samplers.IndexSampler(4, num_epochs=1)
            return grain.DataLoader(
                data_source=range(4), sampler=sampler, operations=[Mapped()], worker_count=1
            )
        chain = (
            chain.map(Mapped()).to_iter_dataset()
            if kind == "map dataset"
            else chain.to_iter_dataset().map(function)
        )
        return chain.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))

    iterator = iter(stream(kind))
    for begin in (iterator.start_prefetch, iterator.__next__):
        with pytest.raises(LookupError, match="bound to this process") as caught:
            begin()
        noted = "".join(caught.value.__notes__)
        assert re.search(r"Dataset: Map.* cannot be pickled!", noted)
        assert "which cannot be pickled" in noted
    iterator.close()
