"""Operations that draw from the global generators of a process: NumPy's, that of `random`, and
torch's.
"""

from __future__ import annotations

import os
import random
import sys
import types
import warnings

import numpy as np
import pytest
from support.global_generators import OPERATIONS, SEEN, both, numpys, seeded
from support.pipelines import chosen

from headrace import Batch, DataLoader, Filter, IndexSampler, MapDataset, RandomMapTransform, load
from headrace.common.generators import global_random
from headrace.errors import SeedError


def pythons(record):
    """That of `random`."""
    return random.random()


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.filterwarnings(SEEN)
@pytest.mark.parametrize("draw", [numpys, pythons])
def test_no_two_workers_have_the_same_numbers(draw):
    """Four workers that draw from a global generator draw 400 numbers, all of them different."""
    loader = load(range(400), transformations=[draw], batch_size=4, num_epochs=1, worker_count=4)
    assert len(set(np.concatenate(list(loader)).tolist())) == 400


@pytest.mark.filterwarnings(SEEN)
def test_the_users_own_generator_is_as_it_was_though_numpys_was_loaded_for_it(monkeypatch):
    """Where `numpy.random` is not loaded, work that seeds and loads it leaves a state behind that
    no key gives.
    """
    monkeypatch.setattr(global_random, "_numpy", iter([None, np.random]).__next__)
    with global_random.restoring_global_generators():
        global_random.seed_all(1, 2, 3, 4)
        seeded = np.random.get_state(legacy=False)["state"]["key"]
    assert not np.array_equal(np.random.get_state(legacy=False)["state"]["key"], seeded)


@pytest.mark.slow
@pytest.mark.filterwarnings(SEEN)
def test_a_worker_that_takes_the_place_of_another_draws_other_numbers(tmp_path):
    """A worker that ends is replaced by one with a state of its own."""

    def ends_once(record):
        if record == 50 and not (tmp_path / "ended").exists():
            (tmp_path / "ended").touch()
            os._exit(1)
        return os.getpid(), np.random.rand()

    drawn = list(load(range(100), transformations=[ends_once], num_epochs=1, worker_count=1))
    assert len({process for process, _ in drawn}) == 2
    assert len({number for _, number in drawn}) == 100


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", chosen(OPERATIONS, "filter, batch", "of batches of rows", "lazy flat map")
)
@pytest.mark.slow
def test_with_seed_globals_the_stream_is_the_same_for_every_worker_count(name):
    """Maps, filters, flat maps, batch functions and what comes after batches: bytes do not depend
    on workers.
    """
    operations = OPERATIONS[name]
    expected = [str(element) for element in seeded(operations)]
    for more in ({"worker_count": 1}, {"worker_count": 3}, {"worker_count": 2, "observe": False}):
        assert [str(element) for element in seeded(operations, **more)] == expected
    assert [str(element) for element in seeded(operations, observe=False)] == expected
    assert [str(element) for element in seeded(operations, seed=2)] != expected


@pytest.mark.parametrize("after", [[], [Filter(bool)]], ids=["a map", "a map and a filter"])
def test_with_seed_globals_each_record_and_operation_has_numbers_of_its_own(after):
    """Records, epochs and operations draw different numbers; NumPy's differ from those
    of `random`.
    """
    drawn = [number for _, *numbers in seeded([both, *after], num_epochs=2) for number in numbers]
    twice = seeded([lambda record: (np.random.rand(),), lambda drawn: (*drawn, np.random.rand())])
    assert len(set(drawn)) == 240
    assert len({number for pair in twice for number in pair}) == 120


@pytest.mark.slow
def test_with_seed_globals_a_stream_goes_on_from_a_state_as_it_was():
    """In the middle, with another number of workers, the rest is the same."""
    operations = OPERATIONS["filter, batch"]
    with iter(seeded(operations)) as iterator:
        for _ in range(3):
            next(iterator)
        state = iterator.get_state()
        rest = [str(batch) for batch in iterator]
    with iter(seeded(operations, worker_count=2)) as iterator:
        iterator.set_state(state)
        assert [str(batch) for batch in iterator] == rest


@pytest.mark.slow
def test_with_seed_globals_a_record_left_out_changes_no_other():
    """With "skip", the records around one that fails draw what they draw without it."""

    def fails(element):
        if element[0] == 7:
            raise ValueError("7")
        return element

    whole = [element for element in seeded([both]) if element[0] != 7]
    assert list(seeded([both, fails], on_error="skip")) == whole
    assert list(seeded([both, fails], worker_count=2, on_error="skip")) == whole


def test_the_users_own_generators_are_as_they_were():
    """Inline, what the program draws between batches does not depend on the loader, also after an
    error.
    """

    def fails(element):
        raise ValueError("no")

    np.random.seed(5), random.seed(5)
    expected = [(np.random.rand(), np.random.normal(), random.random()) for _ in range(6)]
    np.random.seed(5), random.seed(5)
    got = []
    for _ in zip(range(5), seeded([both])):
        got.append((np.random.rand(), np.random.normal(), random.random()))
    with pytest.raises(ValueError, match="no"):
        next(iter(seeded([both, fails])))
    assert [*got, (np.random.rand(), np.random.normal(), random.random())] == expected


def test_another_bit_generator_of_the_users_is_seeded_and_kept():
    """np.random may stand on another bit generator: it is seeded likewise, and is as before
    afterwards.
    """
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        first = np.random.get_state(legacy=False)["state"]
        assert list(seeded([numpys])) == list(seeded([numpys]))
        assert np.random.get_state(legacy=False)["state"] == first
        global_random.reseed()
        assert np.random.get_state(legacy=False)["state"] != first
    finally:
        np.random.set_bit_generator(before)


def test_what_seed_globals_needs_is_told():
    """A seed of the sampler's, and no threads: they share the generators."""
    with pytest.raises(SeedError, match="seed_globals=True uses the seed"):
        load(range(3), seed_globals=True)
    with pytest.raises(ValueError, match='with worker_kind="thread"'):
        load(range(3), seed=0, seed_globals=True, worker_kind="thread", worker_count=2)
    with pytest.raises(TypeError, match=r"seed_globals=1 is an int\. Pass True or False"):
        load(range(3), seed=0, seed_globals=1)


@pytest.mark.slow
def test_chains_seed_the_globals_by_position():
    """with_options(seed_globals=True): the same stream with any number of workers."""
    stream = (
        MapDataset.range(40)
        .shuffle(seed=1)
        .to_iter_dataset()
        .map(both)
        .with_options(seed_globals=True)
    )
    assert list(stream) == list(stream.with_options(worker_count=2))


@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("operations", "named"),
    [
        ([abs, numpys, Batch(4)], r"operation 1, MapTransform\(numpys\), .* of `np\.random`"),
        ([pythons], r"operation 0, MapTransform\(pythons\), .* of Python's `random`"),
        (
            [Batch(4), lambda batch: np.random.permutation(batch)],
            r"operation 1, .* of `np\.random`",
        ),
        ([Filter(lambda record: random.random() < 2), Batch(4)], r"operation 0, Filter"),
        ([abs, Batch(4, batch_fn=lambda rows: np.random.rand())], r"operation 1, Batch"),
        (
            [RandomMapTransform(lambda record, rng: np.random.rand())],
            r"operation 0, RandomMapTransform",
        ),
    ],
)
@pytest.mark.one_in(3)
def test_an_operation_that_draws_from_a_global_generator_is_told_once(
    worker_count, operations, named
):
    """One warning, which names the operation, the generator, and RandomMapTransform."""
    sampler = IndexSampler(200, seed=0, num_epochs=1)
    loader = DataLoader(
        data_source=range(200), sampler=sampler, operations=operations, worker_count=worker_count
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        list(loader)
    (one,) = [str(each.message) for each in told if "draws from" in str(each.message)]
    with pytest.raises(AssertionError, match=named + ".*RandomMapTransform.*seed_globals"):
        raise AssertionError(one)
    assert len(one) < 500


@pytest.mark.slow
def test_operations_that_draw_from_their_own_generators_are_not_told():
    """The generator that is passed, generators of the user's own in this process, and
    seed_globals=True: no warning.
    """
    own = np.random.default_rng(0)
    operations = [
        RandomMapTransform(lambda record, rng: rng.random()),
        lambda number: number + own.random(),
        Batch(2),
    ]
    for more in ({}, {"seed_globals": True}):
        for worker_count in (0, 1) if more else (0,):
            sampler = IndexSampler(20, seed=0, num_epochs=1)
            arguments = {
                "sampler": sampler,
                "operations": operations,
                "worker_count": worker_count,
                **more,
            }
            assert len(list(DataLoader(data_source=range(20), **arguments))) == 10


class PlayedTorch:
    """As much as is used here of what torch documents of `torch.Generator`; torch is no dependency
    of the tests.
    """

    def __init__(self):
        self.draws = random.Random(0)

    def seed(self):
        """A seed that nobody has."""
        self.draws.seed()

    def manual_seed(self, seed):
        """Torch takes 64 bits."""
        assert 0 <= seed < 1 << 64
        self.draws.seed(seed)

    def get_state(self):
        """A tensor of bytes, which NumPy takes as an array."""
        return np.frombuffer(repr(self.draws.getstate()).encode(), np.uint8)

    def set_state(self, state):
        """Likewise."""
        version, words, gauss = eval(state.tobytes())
        self.draws.setstate((version, tuple(words), gauss))


def test_torchs_generator_is_seeded_and_kept_where_torch_is_loaded(monkeypatch):
    """As NumPy's: by record, restored afterwards, told where it is drawn from; without torch it is
    not asked for.
    """
    assert "torch" not in sys.modules
    played = types.ModuleType("torch")
    played.default_generator = generator = PlayedTorch()
    monkeypatch.setitem(sys.modules, "torch", played)
    before = generator.get_state().tobytes()

    def draw(record):
        return sys.modules["torch"].default_generator.draws.random()

    assert list(seeded([draw])) == list(seeded([draw]))
    assert generator.get_state().tobytes() == before
    with pytest.warns(UserWarning, match="global generator of `torch`"):
        next(iter(load(range(3), transformations=[draw])))
    global_random.reseed()
    assert generator.get_state().tobytes() != before


def loads_torch(record):
    """Loads torch if it is not there, as an import in a function does; each process begins with the
    same state.
    """
    if "torch" not in sys.modules:
        played = types.ModuleType("torch")
        played.default_generator = PlayedTorch()
        sys.modules["torch"] = played


def loads_and_draws(record):
    """Both at once."""
    loads_torch(record)
    return sys.modules["torch"].default_generator.draws.random()


@pytest.fixture
def no_torch(monkeypatch):
    """Torch is not loaded before the test, nor after it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    del sys.modules["torch"]


@pytest.mark.slow
@pytest.mark.filterwarnings(SEEN)
def test_workers_that_load_torch_and_draw_from_it_at_once_have_different_numbers(no_torch):
    """The task in which torch is loaded is done again, with a state that no other worker has."""
    numbers = [
        list(load(range(40), transformations=[loads_and_draws], num_epochs=1, worker_count=2))
        for _ in range(2)
    ]
    assert len(set(numbers[0] + numbers[1])) == 80


@pytest.mark.slow
def test_with_seed_globals_torch_that_an_operation_loads_is_seeded_from_the_first_record_on(
    no_torch,
):
    """The first record of a process has the numbers of its position, too."""
    expected = list(seeded([loads_and_draws]))
    assert list(seeded([loads_and_draws])) == expected
    assert list(seeded([loads_and_draws], worker_count=2)) == expected


@pytest.mark.parametrize("worker_count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_operation_that_only_loads_torch_is_not_told_to_draw(no_torch, worker_count):
    """What was not there before has not changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            len(
                list(
                    load(
                        range(40),
                        transformations=[str, lambda x: loads_torch(x) or 1],
                        num_epochs=1,
                        worker_count=worker_count,
                    )
                )
            )
            == 40
        )


def test_the_users_own_torch_keeps_its_state_where_the_users_process_does_the_work(no_torch):
    """Whoever loads it there, its numbers are those that the user may count on; not so in workers."""
    drawn = []
    for worker_count in (0, 1):
        options = {"num_epochs": 1, "worker_count": worker_count}
        with pytest.warns(UserWarning, match="of `torch`"):
            drawn.append([*load(range(4), transformations=[loads_and_draws], **options)])
    same = random.Random(0)
    first = [same.random() for _ in range(99)]
    assert drawn[0] == first[:4]
    assert not {*first} & {*drawn[1]}


class Holding:
    """An operation with generators of its own."""

    def __init__(self):
        self.generators = [
            np.random.default_rng(0),
            np.random.RandomState(0),
            random.Random(0),
            np.random.Generator(np.random.Philox(0)),
        ]

    def __call__(self, record):
        """The record, and a number of each generator."""
        return np.array([record, *(generator.random() for generator in self.generators)])


def _holding():
    generator = np.random.default_rng(0)
    return {
        "closure": lambda record: np.array([record, generator.random()]),
        "attribute": Holding(),
        "object of a library": Compose([Flip(0)]).apply,
    }


class Flip:
    """As a library has it: transforms that share a generator which is deep inside."""

    def __init__(self, seed):
        self.random_generator = np.random.default_rng(seed)


class Compose:
    """Several of them."""

    def __init__(self, transforms):
        self.transforms = transforms

    def apply(self, record):
        """The record, and a number of each."""
        return np.array([record, *(each.random_generator.random() for each in self.transforms)])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", ["closure", "attribute", "object of a library"])
@pytest.mark.slow
def test_with_seed_globals_generators_that_operations_hold_are_seeded_too(where):
    """Each record has numbers of its own, whatever the number of workers; the generators of the
    program stay as they were.
    """
    operation = _holding()[where]
    expected = [row.tolist() for row in seeded([operation])]
    assert len({number for row in expected for number in row[1:]}) == sum(
        len(row) - 1 for row in expected
    )
    for worker_count in (0, 1, 3):
        assert [row.tolist() for row in seeded([operation], worker_count)] == expected
    batches = [row.tolist() for batch in seeded([operation, Batch(7)], 2) for row in batch]
    assert batches == expected


def test_with_seed_globals_held_generators_are_as_before_after_a_task():
    """What the program itself draws from them does not depend on the loader."""
    generator = np.random.default_rng(0)
    list(seeded([lambda record: record + generator.random()]))
    assert generator.random() == np.random.default_rng(0).random()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("where", ["closure", "attribute", "object of a library"])
def test_a_warning_names_an_operation_that_holds_a_generator(where):
    """Workers would all draw the same numbers. In the program's own process there is one generator,
    and no warning.
    """
    operation = _holding()[where]
    assert len(list(load(range(4), transformations=[operation], num_epochs=1))) == 4
    loader = load(range(4), transformations=[operation], num_epochs=1, worker_count=1)
    with pytest.warns(
        UserWarning, match="operation 0, .* holds a random generator of type .*RandomMapTransform"
    ):
        assert len(list(loader)) == 4
