"""Operations: what becomes of records."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import optree
import pytest
from support.pipelines import plain

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    MapTransform,
    RandomMapTransform,
    load,
)
from headrace.common.generators.keyed_random import KeyedGenerator
from headrace.errors import BatchError, FanOutError, SeedError
from headrace.operations.protocol import fingerprint


def run(operations, records=8, **sampler):
    """All elements of a pipeline over the numbers below `records`."""
    return list(
        DataLoader(
            data_source=list(range(records)),
            sampler=IndexSampler(records, num_epochs=1, **sampler),
            operations=operations,
        )
    )


@pytest.mark.slow
def test_a_filter_before_a_batch_fills_the_batches():
    """[1..8] → keep even → Batch(2) gives [2, 4], [6, 8], with workers too."""
    for workers in (0, 2):
        loader = DataLoader(
            data_source=list(range(1, 9)),
            sampler=IndexSampler(8, num_epochs=1),
            operations=[Filter(lambda x: x % 2 == 0), Batch(2)],
            worker_count=workers,
        )
        assert [batch.tolist() for batch in loader] == [[2, 4], [6, 8]]


def test_operations_may_be_subclasses_instances_with_functions_or_bare_functions():
    """The three ways to write a map give the same."""

    class Double(MapTransform):
        def map(self, element):
            return 2 * element

    @dataclasses.dataclass(frozen=True)
    class Times(MapTransform):
        factor: int

        def map(self, element):
            return self.factor * element

    for operation in (Double(), Times(2), MapTransform(lambda x: 2 * x), lambda x: 2 * x):
        assert run([operation], 3) == [0, 2, 4]


def test_every_transform_can_be_subclassed():
    """random_map, map_with_index, filter and flat_map are the methods to override."""

    class Jitter(headrace.RandomMapTransform):
        def random_map(self, element, rng):
            return element + int(rng.integers(10, 20))

    class Index(headrace.MapWithIndexTransform):
        def map_with_index(self, index, element):
            return index, element

    class Small(Filter):
        def filter(self, element):
            return element < 3

    class Twice(FlatMap):
        max_fan_out = 2

        def flat_map(self, element):
            return [element, element]

    assert all(10 + i <= x < 20 + i for i, x in enumerate(run([Jitter()], 5, seed=0)))
    assert run([Index()], 2) == [(0, 0), (1, 1)]
    assert run([Small()]) == [0, 1, 2]
    assert run([Twice()], 2) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("operations", "error", "message"),
    [
        ([MapTransform()], TypeError, r"map\(\) in a"),
        ([MapTransform], TypeError, r"MapTransform\(…\)"),
        ([3], TypeError, "int"),
        (lambda x: x, TypeError, r"operations=\[…\]"),
        ([RandomMapTransform(lambda x, rng: x)], SeedError, "seed="),
    ],
)
def test_what_is_no_operation_is_refused_when_the_loader_is_made(operations, error, message):
    """A mistake in the list of operations is an error before anything runs."""
    with pytest.raises(error, match=message):
        DataLoader(data_source=[1], sampler=IndexSampler(1), operations=operations)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Batch(0), ValueError, "batch_size=0"),
        (lambda: Batch(2.5), TypeError, "float"),
        (lambda: Batch(2, batch_fn=3), TypeError, "batch_fn=3"),
        (lambda: MapTransform(3), TypeError, "Pass a function"),
        (lambda: headrace.pad_batch(length=-1), ValueError, "length=-1"),
    ],
)
def test_bad_arguments_of_operations_are_refused(make, error, message):
    """An operation with an impossible argument is never made."""
    with pytest.raises(error, match=message):
        make()


def test_random_numbers_depend_on_seed_position_and_operation_alone():
    """Another seed, epoch or operation gives other numbers; sharding and batching do not."""

    def draw(x, rng):
        return rng.random()

    def numbers(operations, seed=1, **more):
        sampler = IndexSampler(6, num_epochs=2, seed=seed)
        return list(
            DataLoader(data_source=range(6), sampler=sampler, operations=operations, **more)
        )

    plain_run = numbers([RandomMapTransform(draw)])
    assert len(set(plain_run)) == 12
    assert numbers([RandomMapTransform(draw)]) == plain_run
    assert not set(numbers([RandomMapTransform(draw)], seed=2)) & set(plain_run)
    assert not set(numbers([lambda x: x, RandomMapTransform(draw)])) & set(plain_run)
    assert np.concatenate(numbers([RandomMapTransform(draw), Batch(5)])).tolist() == plain_run
    for shard in range(3):
        some = numbers([RandomMapTransform(draw)], shard_options=headrace.ShardOptions(shard, 3))
        assert some == plain_run[shard::3]


def test_rows_of_a_flat_map_draw_different_numbers():
    """Two rows of one record are two random elements."""
    rows = run(
        [FlatMap(lambda x: [x, x]), RandomMapTransform(lambda x, rng: rng.random())], 3, seed=0
    )
    assert len(set(rows)) == 6


def test_a_keyed_generator_is_the_generator_of_that_key():
    """Re-keying gives the numbers of a fresh Philox with this key and counter, whatever was drawn
    before.
    """
    keyed = KeyedGenerator(operation=3)
    keyed.at(1, 2).integers(5, dtype=np.uint32)
    key, counter = np.array([7, 3], np.uint64), np.array([0, 2, 5, 0], np.uint64)
    fresh = np.random.Generator(np.random.Philox(key=key, counter=counter))
    moved = keyed.at(seed=7, position=5, row=2)
    assert moved.normal(size=4).tolist() == fresh.normal(size=4).tolist()
    assert (
        moved.integers(100, size=3, dtype=np.uint32).tolist()
        == fresh.integers(100, size=3, dtype=np.uint32).tolist()
    )


def test_a_users_sampler_seeds_random_operations_by_its_own_generators():
    """A sampler of the user's that gives rng in its metadata decides the random numbers."""

    class Own:
        def __init__(self, seed):
            self.root = seed

        def __len__(self):
            return 4

        def __getitem__(self, i):
            return headrace.RecordMetadata(
                i, i, np.random.Generator(np.random.Philox(key=self.root + i))
            )

    def numbers(seed):
        draw = RandomMapTransform(lambda x, rng: rng.random())
        return list(DataLoader(data_source=range(4), sampler=Own(seed), operations=[draw]))

    assert numbers(1) == numbers(1)
    assert len({*numbers(1), *numbers(100)}) == 8


def test_stacking_gives_what_np_stack_gives():
    """Dtypes and values of a batch are those of np.stack over its elements."""
    cases = [
        [1, 2, 3],
        [1.5, 2, 3],
        [True, False, True],
        [True, 2, 3.5],
        [np.float32(1), np.float32(2), np.float64(3)],
        [np.arange(3, dtype=np.int16), np.arange(3, dtype=np.int32), np.arange(3.0)],
        [np.array("ab"), np.array("abcd"), np.array("c")],
        [1j, 2, 3],
        [np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0))],
    ]
    for case in cases:
        (batch,) = DataLoader(
            data_source=case, sampler=IndexSampler(3, num_epochs=1), operations=[Batch(3)]
        )
        assert plain(batch) == plain(np.stack(case)), case


def test_a_late_wider_dtype_widens_the_whole_batch():
    """One float among many ints makes a float batch, wherever it comes."""
    numbers = [*range(50), 0.5, *range(50)]
    (batch,) = load(numbers, batch_size=101, num_epochs=1)
    assert batch.dtype == np.float64
    assert batch.tolist() == [float(number) for number in numbers]
    for wide in (2, 70, 160):
        (batch,) = load(
            [np.full(2, x, np.float64 if x == wide else np.float32) for x in range(200)],
            batch_size=200,
            num_epochs=1,
        )
        assert batch.dtype == np.float64
        assert batch.tolist() == [[x, x] for x in range(200)]


def test_integers_beyond_64_bits_are_kept():
    """Numbers that no integer dtype holds are kept as Python objects."""
    (batch,) = load([2**71, 2**70, -(2**80)], batch_size=3, num_epochs=1)
    assert batch.tolist() == [2**71, 2**70, -(2**80)]


def test_strings_and_bytes_are_kept_whole():
    """Strings and bytes become object arrays: no truncation, no lost trailing zero bytes."""
    (batch,) = load([b"a\0", b"\0\0", b""], batch_size=3, num_epochs=1)
    assert batch.dtype == object
    assert batch.tolist() == [b"a\0", b"\0\0", b""]


def test_columns_of_text_beside_numbers_are_what_was_put_in():
    """Batches of rows with texts, bytes and numbers hold the same objects, in their order, also
    where a kind is a subclass.
    """
    rows = [
        {"text": f"text {n}", "raw": b"%d" % n, "number": n, "nested": (f"{n}",)}
        for n in range(300)
    ]
    rows[150]["text"] = np.str_("a subclass")
    for batch, first in zip(
        load(rows, batch_size=100, num_epochs=1), range(0, 300, 100), strict=True
    ):
        some = rows[first : first + 100]
        assert all(value is row["text"] for value, row in zip(batch["text"], some))
        assert all(value is row["raw"] for value, row in zip(batch["raw"], some))
        assert batch["number"].tolist() == [row["number"] for row in some]
        assert batch["nested"][0].tolist() == [row["nested"][0] for row in some]


@pytest.mark.parametrize("position", [1, 64, 99])
@pytest.mark.parametrize("texts", [("a", b"b"), (b"a", "b"), ("a", 1), (b"a", np.zeros(2))])
def test_what_is_no_text_among_texts_is_refused(position, texts):
    """A batch of texts with one leaf of another kind is an error that names the record, wherever
    the leaf stands.
    """
    most, other = texts
    with pytest.raises(BatchError) as caught:
        run([lambda x: other if x == position else most, Batch(100)], 100)
    assert f"record key {position} at position {position}" in caught.value.__notes__[0]


@pytest.mark.parametrize("position", [1, 5, 40, 99])
def test_unequal_shapes_name_leaf_shapes_remedy_and_record(position):
    """The error of a batch that does not stack says which leaf, which shapes, which record, and
    what to do.
    """

    def shaped(x):
        return {"image": np.zeros((2, 3) if x == position else (2, 2)), "label": x}

    with pytest.raises(BatchError) as caught:
        run([shaped, Batch(100)], 100)
    message = str(caught.value)
    assert "['image']" in message
    assert "(2, 2)" in message
    assert "(2, 3)" in message
    assert "batch_fn" in message
    assert f"record key {position} at position {position}" in caught.value.__notes__[0]
    assert "operation 1, Batch(100)" in caught.value.__notes__[0]


def test_shapes_that_would_broadcast_are_refused_too():
    """(1,) is not stacked with (3,), nor () with (1,)."""
    for other in (np.zeros(1), np.zeros((1, 3)), 0.0):
        with pytest.raises(BatchError, match="shape"):
            run([lambda x, other=other: other if x == 6 else np.zeros(3), Batch(8)])


@pytest.mark.parametrize("late", [1, 6])
def test_unequal_structures_are_refused(late):
    """Elements with other keys or another nesting are not put into one batch."""
    for other in (
        {"a": 1, "c": 2},
        {"a": 1},
        {"a": 1, "b": 2, "c": 3},
        {"a": 1, "b": {"c": 2}},
        [1, 2],
        3,
    ):
        with pytest.raises(BatchError, match=r"structure|shape|dtype"):
            run([lambda x, other=other: other if x == late else {"a": 1, "b": 2}, Batch(8)])


def test_the_order_of_keys_does_not_matter():
    """Dicts are compared by their keys, not by the order in which these were set."""
    (batch,) = run([lambda x: {"a": x, "b": -x} if x % 2 else {"b": -x, "a": x}, Batch(8)])
    assert batch["a"].tolist() == list(range(8))
    assert batch["b"].tolist() == [-x for x in range(8)]


def test_each_batch_may_have_a_shape_of_its_own():
    """Shapes must agree within a batch, not between batches."""
    batches = run([lambda x: np.zeros(1 + x // 4), Batch(4)])
    assert [batch.shape for batch in batches] == [(4, 1), (4, 2)]


def test_pad_batch_pads_to_the_longest_or_to_a_length():
    """Ragged leaves are padded at the end; scalars are stacked."""
    elements = [{"tokens": np.arange(n), "n": n} for n in (3, 1, 2)]
    longest = headrace.pad_batch(value=-1)(elements)
    assert longest["tokens"].tolist() == [[0, 1, 2], [0, -1, -1], [0, 1, -1]]
    assert longest["n"].tolist() == [3, 1, 2]
    assert headrace.pad_batch(length=4)(elements)["tokens"].shape == (3, 4)
    pictures = [{"tokens": np.arange(n), "image": np.zeros((2, 2))} for n in (3, 1)]
    some = headrace.pad_batch(length={"tokens": 4})(pictures)
    assert (some["tokens"].shape, some["image"].shape) == ((2, 4), (2, 2, 2))
    with pytest.raises(BatchError, match="length 3"):
        headrace.pad_batch(length=2)(elements)
    with pytest.raises(BatchError, match="shape"):
        headrace.pad_batch()([np.zeros((2, 2)), np.zeros((2, 3))])
    with pytest.raises(BatchError, match="structure"):
        headrace.pad_batch()([{"a": 1}, {"b": 1}])


def test_one_length_pads_only_what_is_ragged():
    """Leaves of a fixed shape stay; where nothing shows which leaf is meant, the user is asked, and
    no shape is guessed.
    """
    pad = headrace.pad_batch(length=4)
    elements = [{"tokens": np.arange(n), "image": np.zeros((3, 2)), "n": n} for n in (3, 1)]
    batch = pad(elements)
    assert [batch[name].shape for name in ("tokens", "image", "n")] == [(2, 4), (2, 3, 2), (2,)]
    with pytest.raises(BatchError, match=r"length=\{'tokens': 4\}"):
        pad(elements[:1])
    full = [{"tokens": np.arange(4), "image": np.zeros((3, 2))}]
    assert pad(full)["image"].shape == (1, 3, 2)
    assert pad([{"tokens": np.arange(2), "n": 1}] * 2)["tokens"].shape == (2, 4)
    assert headrace.pad_batch(length=3)([1, 2]).tolist() == [1, 2]
    with pytest.raises(BatchError, match="shape"):
        pad([np.arange(3), np.array(1)])


def test_pad_batch_gives_a_mask_if_asked():
    """True where nothing was filled in; one for each leaf whose lengths are its own."""
    elements = [{"a": np.arange(1, n + 1), "b": np.ones(n), "c": np.ones(5 - n)} for n in (3, 1)]
    two = [{name: element[name] for name in "ab"} for element in elements]
    for options in ({}, {"length": 4}, {"length": {"a": 3}}):
        batch = headrace.pad_batch(**options, mask_key="mask")(two)
        assert (batch["mask"] == (batch["a"] > 0)).all()
        assert batch["mask"].dtype == bool
    several = headrace.pad_batch(mask_key={"a": "a_mask", "c": "c_mask"})(elements)
    assert (several["a_mask"].sum(axis=1) == [3, 1]).all()
    assert (several["c_mask"].sum(axis=1) == [2, 4]).all()
    assert headrace.pad_batch(mask_key="mask")(two[:1])["mask"].tolist() == [[True] * 3]
    with pytest.raises(BatchError, match=r"\['b'\], \['c'\]"):
        headrace.pad_batch(mask_key="mask")(elements)
    with pytest.raises(BatchError, match="elements have that key already"):
        headrace.pad_batch(mask_key="a")(two)
    with pytest.raises(BatchError, match="is a ndarray, not a dict"):
        headrace.pad_batch(mask_key="mask")([np.ones(1), np.ones(2)])
    with pytest.raises(BatchError, match="single numbers or texts"):
        headrace.pad_batch(mask_key="mask")([{"x": 1}])


def test_padding_keeps_the_fingerprint_that_it_had():
    """States of pipelines without masks, written before there were masks, are read."""
    assert fingerprint(Batch(3, batch_fn=headrace.pad_batch(5, -1))) == "e4bbffd2"
    with_mask = Batch(3, batch_fn=headrace.pad_batch(5, -1, mask_key="mask"))
    assert fingerprint(with_mask) != fingerprint(Batch(3, batch_fn=headrace.pad_batch(5, -1)))


def test_batch_and_pad_fills_the_last_batch_and_masks_it():
    """All batches have one size; the mask tells real rows."""
    pad = headrace.batch_and_pad(batch_size=3, pad_value=-1)
    batches = run([lambda x: {"x": x}, Batch(3, batch_fn=pad)], 4)
    assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2], [3, -1, -1]]
    assert [batch["mask"].tolist() for batch in batches] == [[True] * 3, [True, False, False]]
    assert headrace.batch_and_pad([1, 2], batch_size=3, mask_key=None).tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="mask_key"):
        headrace.batch_and_pad([1, 2], batch_size=3)
    with pytest.raises(ValueError, match="batch_size=1"):
        headrace.batch_and_pad([{"x": 1}, {"x": 2}], batch_size=1)


def test_fan_out_beyond_the_limit_is_an_error():
    """max_fan_out bounds what one record may become; without it there is no bound."""
    assert len(run([FlatMap(lambda x: [x] * 50)], 2)) == 100
    assert run([FlatMap(lambda x: [x] * 2, max_fan_out=2)], 1) == [0, 0]
    with pytest.raises(FanOutError, match="max_fan_out=2"):
        run([FlatMap(lambda x: [x] * 3, max_fan_out=2)], 1)


def test_fingerprints_tell_operations_apart_and_survive_a_restart():
    """Kind, name and plain parameters count; an object's address does not."""

    class Crop(MapTransform):
        def __init__(self, size, table=None):
            self.size, self.table, self.helper = size, table, object()

        def map(self, element):
            return element

    assert fingerprint(Crop(3)) == fingerprint(Crop(3))
    assert fingerprint(Crop(3)) != fingerprint(Crop(4))
    assert fingerprint(Crop(3, np.arange(3))) != fingerprint(Crop(3, np.arange(4)))
    assert fingerprint(Batch(3)) != fingerprint(Batch(3, drop_remainder=True))
    assert fingerprint(Batch(3, batch_fn=headrace.pad_batch(3))) != fingerprint(
        Batch(3, batch_fn=headrace.pad_batch(4))
    )


def test_a_batch_does_not_depend_on_the_batch_before_it():
    """Dtype, container and order of keys of a batch are those of its own elements, so that resuming
    changes nothing.
    """
    import collections

    cases = [
        [1.5, 2, 3, 4],
        [np.float64(1), np.float64(1), np.float32(2), np.float32(2)],
        [{"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 1, "a": 2}, {"b": 1, "a": 2}],
        [{"a": 1}, {"a": 1}, collections.OrderedDict(a=1), collections.OrderedDict(a=1)],
        ["x", "y", 1, 2],
        [True, True, 1, 1],
    ]
    for case in cases:
        running = [plain(batch) for batch in load(case, batch_size=2, num_epochs=1)]
        assert running[1] == plain(next(iter(load(case[2:], batch_size=2, num_epochs=1))))
        first, second = (
            [list(b) if isinstance(b, dict) else None for b in load(c, batch_size=2, num_epochs=1)]
            for c in (case, case[2:])
        )
        assert first[1:] == second


class _CannotBeRead:
    """A leaf of a kind that NumPy asks for an array, which fails."""

    dtype = np.dtype(np.float64)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise KeyError("no such array")


@pytest.mark.parametrize("position", [0, 4, 5, 70, 130, 199])
def test_a_leaf_that_cannot_be_read_is_named_by_its_record(position):
    """Whatever it raises, and wherever in a batch it stands."""
    with pytest.raises(KeyError) as caught:
        list(
            load(
                [_CannotBeRead() if x == position else 1.0 for x in range(200)],
                batch_size=100,
                num_epochs=1,
            )
        )
    assert f"record key {position} at position {position}" in caught.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("observe", [False, True, "each"])
@pytest.mark.one_in(12)
def test_of_two_faults_in_a_batch_the_earlier_record_is_named(restored, workers, observe):
    """Whether rows are copied many at a time or few, where the run began, and whether operations
    are timed.
    """

    def faulty(x):
        if x == 192:
            raise ValueError("a later fault")
        return np.zeros(2 if x == 138 else 3)

    options = {"batch_size": 128, "num_epochs": 1, "transformations": [faulty], "observe": observe}

    def opened(worker_count):
        return iter(load(range(256), **options, worker_count=worker_count))

    with opened(workers) as iterator, opened(0) as other:
        next(other)
        if restored:
            iterator.set_state(other.get_state())
        else:
            next(iterator)
        with pytest.raises(BatchError) as caught:
            next(iterator)
    assert "record key 138 at position 138" in caught.value.__notes__[0]


def test_a_fault_before_a_record_that_cannot_be_read_comes_first():
    """Its row waits to be copied with others when the source fails."""

    class Source:
        def __len__(self):
            return 64

        def __getitem__(self, key):
            if key == 40:
                raise OSError("unreadable")
            return np.zeros(2 if key == 20 else 3)

    with pytest.raises(BatchError) as caught:
        next(iter(load(Source(), batch_size=64, num_epochs=1)))
    assert "record key 20 at position 20" in caught.value.__notes__[0]


LARGE = np.zeros(40_000)
"""A row that is too large to wait for others: it is copied before the next one is made."""


@pytest.mark.parametrize(
    "element",
    [
        lambda i: LARGE + i,
        lambda i: {"image": LARGE + i, "label": i},
        lambda i: {"image": LARGE + i, "label": i} if i % 2 else {"label": i, "image": LARGE + i},
        lambda i: (LARGE + i, np.float32(i)),
        lambda i: [LARGE + i, np.array(i), i > 3],
        lambda i: {"a": {"b": LARGE + i}, "c": i},
        lambda i: {"image": LARGE + i, "label": i if i != 4 else 0.5},
        lambda i: {"image": (LARGE + i)[::-1], "label": i if i != 4 else True},
        lambda i: {"image": LARGE.astype(">f8") + i, "label": str(i)},
        lambda i: {"image": LARGE.astype(np.float32 if i < 4 else np.float64), "label": i},
    ],
)
def test_large_rows_are_batched_as_small_ones_are(element):
    """Whatever is in them, and where they stop being alike."""

    def small(i: int) -> Any:
        return optree.tree_map(lambda leaf: leaf[:3] if np.shape(leaf) else leaf, element(i))

    large_batches, small_batches = run([element, Batch(3)]), run([small, Batch(3)])
    assert len(large_batches) == 3
    for large, expected in zip(large_batches, small_batches):
        large = optree.tree_map(lambda leaf: leaf[:, :3] if np.ndim(leaf) > 1 else leaf, large)
        assert plain(large) == plain(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": LARGE, "label": np.array([4])},
        {"image": LARGE[:1], "label": np.int64(4)},
        {"image": LARGE[None], "label": np.int64(4)},
        {"image": LARGE, "other": np.int64(4)},
        {"image": LARGE, "label": np.int64(4), "more": 1},
        {"image": {"a": LARGE}, "label": np.int64(4)},
        (LARGE, np.int64(4)),
        None,
    ],
)
def test_a_large_row_that_does_not_fit_is_named(wrong):
    """The batches before it come, and it is the one that the error is about."""
    fine = {"image": LARGE, "label": np.int64(0)}
    iterator = iter(
        load(
            range(8),
            transformations=[lambda i: wrong if i == 4 else fine],
            batch_size=3,
            num_epochs=1,
        )
    )
    next(iterator)
    with pytest.raises(BatchError) as caught:
        next(iterator)
    assert "record key 4 at position 4" in caught.value.__notes__[0]


def test_a_map_that_raises_stop_iteration_does_not_shorten_a_batch():
    """It would look like the end of the records."""

    def stops(x):
        if x == 20:
            raise StopIteration
        return x

    batches = iter(load(range(32), batch_size=8, num_epochs=1, transformations=[stops]))
    assert [len(next(batches)) for _ in range(2)] == [8, 8]
    with pytest.raises(RuntimeError, match="StopIteration"):
        next(batches)


def test_values_are_never_cut_to_the_first_ones_dtype():
    """Jax scalars of several dtypes, dates and durations of several units keep their values."""
    import jax.numpy as jnp

    (batch,) = load([jnp.int32(1), jnp.float32(1.5), jnp.float32(2.5)], batch_size=3, num_epochs=1)
    assert batch.tolist() == [1, 1.5, 2.5]
    dates = [np.datetime64("2020-01-01"), np.datetime64("2020-01-02T12:34:56")]
    (batch,) = load(dates, batch_size=2, num_epochs=1)
    assert batch[1] == dates[1]
    (batch,) = load(
        [np.timedelta64(1, "s"), np.timedelta64(1500, "ms")], batch_size=2, num_epochs=1
    )
    assert batch[1] == np.timedelta64(1500, "ms")


def test_a_subclass_of_list_is_refused_not_boxed():
    """Elements that look like trees but are none do not become arrays of objects in silence."""

    class Record(list):
        pass

    with pytest.raises(BatchError, match="plain"):
        list(load([Record([1]), Record([2])], batch_size=2, num_epochs=1))


def test_any_callable_has_a_fingerprint():
    """Callables without names or attributes, and ones that refer to themselves, can be
    checkpointed.
    """
    import operator

    class Own(MapTransform):
        def __init__(self):
            self.me = self

        def map(self, element):
            return element

    for operation in (operator.itemgetter("x"), Own(), functools.partial(max, 3)):
        iterator = iter(load([{"x": 1}], transformations=[operation], num_epochs=1))
        assert len(iterator.get_state()) < 1000


def test_numpy_integers_are_integers_everywhere():
    """Counts and seeds may be NumPy integers; states stay JSON."""
    one = np.int64(1)
    sampler = IndexSampler(
        np.int64(5), headrace.ShardOptions(np.int64(0), one), num_epochs=one, seed=np.uint32(3)
    )
    iterator = iter(
        DataLoader(data_source=range(5), sampler=sampler, operations=[Batch(np.int32(2))])
    )
    next(iterator)
    assert b'"records":5' in iterator.get_state()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Batch(2, lambda elements: elements), "batch_fn="),
        (lambda: FlatMap(lambda x: [x], max_fan_out="2"), "max_fan_out='2'"),
        (lambda: headrace.ShardOptions(0.5, 2), "shard_index=0.5"),
        (lambda: headrace.ShardOptions("0", 2), "shard_index='0'"),
        (lambda: headrace.ReadOptions("4"), "num_threads='4'"),
        (lambda: headrace.pad_batch(length=2.5), "length=2.5"),
        (lambda: IndexSampler(5, num_epochs=1.0), "None for an endless stream"),
    ],
)
def test_numbers_of_the_wrong_kind_are_refused(make, message):
    """Strings and floats where whole numbers are meant are a TypeError with the argument's name."""
    with pytest.raises(TypeError, match=message):
        make()


def test_large_limits_are_written_as_powers():
    """A person reads 2^55, not its digits."""
    with pytest.raises(ValueError, match=r"\[1, 2\^55\]"):
        IndexSampler(0)


RAGGED = [
    {"tokens": np.arange(1, length + 1), "weights": np.ones(length), "label": np.int64(length)}
    for length in (3, 1)
]


@pytest.mark.parametrize(
    "element",
    [{"tokens": np.arange(3)}, {"tokens": np.arange(3), "x": None}],
    ids=["missing", "None"],
)
@pytest.mark.parametrize(
    "arguments", [{"length": {"x": 9}}, {"value": {"x": 1}}, {"mask_key": {"x": "mask"}}], ids=str
)
def test_pad_batch_names_only_keys_of_the_elements(arguments, element):
    """A missing key is an error that names the argument, the key and those that there are."""
    (name,) = arguments
    words = (
        rf"pad_batch\({name}=…\) names 'x', but elements have no such key, or only None under "
        rf"it.*\['tokens'\]"
    )
    with pytest.raises(BatchError, match=words):
        headrace.pad_batch(**arguments)([element, element])


def test_pad_batch_pads_each_leaf_with_its_own_value():
    """By key; what is not named gets 0, and what is not padded stays."""
    batch = headrace.pad_batch(value={"tokens": -1})(RAGGED)
    assert batch["tokens"].tolist() == [[1, 2, 3], [1, -1, -1]]
    assert batch["weights"].tolist() == [[1, 1, 1], [1, 0, 0]]
    batch = headrace.pad_batch(
        {"tokens": 4, "weights": 5}, {"tokens": 9, "weights": np.nan}, mask_key={"tokens": "mask"}
    )(RAGGED)
    assert batch["tokens"].tolist() == [[1, 2, 3, 9], [1, 9, 9, 9]]
    assert np.isnan(batch["weights"]).sum() == 6
    assert batch["mask"].sum() == 4
    assert batch["label"].tolist() == [3, 1]


def test_a_value_for_all_below_a_key_is_for_each_leaf_there():
    """A key of the elements may lead to several leaves."""
    nested = [
        {"in": {"a": np.ones(length), "b": np.ones(length)}, "out": np.ones(length)}
        for length in (2, 1)
    ]
    batch = headrace.pad_batch(value={"in": 7})(nested)
    assert [
        batch["in"]["a"][1].tolist(),
        batch["in"]["b"][1].tolist(),
        batch["out"][1].tolist(),
    ] == [[1, 7], [1, 7], [1, 0]]


def test_a_value_for_a_key_that_is_not_there_is_refused():
    """A slip would pad with 0 without a word."""
    with pytest.raises(
        BatchError,
        match=(
            r"names 'token', but elements have no such key, .*\. Name only keys .*: \['label'\], "
            r"\['tokens'\]"
        ),
    ):
        headrace.pad_batch(value={"token": -1})(RAGGED)


def test_values_by_leaf_are_part_of_the_fingerprint():
    """Another value is another pipeline."""
    one, other, same = (
        fingerprint(Batch(2, batch_fn=headrace.pad_batch(value={"tokens": value})))
        for value in (1, 2, 1)
    )
    assert one == same != other
