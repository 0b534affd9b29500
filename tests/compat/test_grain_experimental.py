"""The experimental names of `headrace.compat.grain` beside the real ones."""

import contextlib
import os
import struct
import threading

import grain as real
import numpy as np
import pytest
from grain._src.core.tree_lib import spec_like
from support import both
from support.pipelines import chosen

import headrace
import headrace.compat.grain as grain
from headrace.compat.grain import experimental

PROGRAMS = []


def program(function):
    """One that both run; its streams are also gone on with from every state."""
    PROGRAMS.append(function)
    return function


def documents(g, count=60):
    """Dicts of token arrays of unequal length."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 9, count)
    made = [
        {"x": np.arange(1, n + 1) + 10 * i, "y": np.ones((n // 2, 2), np.float32) * i, "id": i}
        for i, n in enumerate(lengths)
    ]
    return g.MapDataset.source(made).to_iter_dataset()


def empty_and_full(g):
    """Documents without a token, and as long as a row, among others."""
    lengths = [0, 3, 33, 0, 0, 7, 12, 0, 33, 1, 0, 0, 0, 5]
    return g.MapDataset.source([{"x": np.arange(1, n + 1)} for n in lengths]).to_iter_dataset()


@program
def bins(g):
    """Packings into bins."""
    lengths = {"x": 12, "y": 8}
    for kind in (g.experimental.FirstFitPackIterDataset, g.experimental.BestFitPackIterDataset):
        yield kind(documents(g), length_struct=lengths, num_packing_bins=3)
        yield kind(
            documents(g),
            length_struct={"x": 9},
            num_packing_bins=4,
            shuffle_bins=False,
            max_sequences_per_bin=2,
        )
        yield kind(
            documents(g),
            length_struct={"x": 9},
            num_packing_bins=5,
            seed=8,
            padding_struct={"x": -1},
        )
        yield kind(
            documents(g),
            length_struct=lengths,
            num_packing_bins=4,
            pack_alignment_struct={"x": 4, "y": 1},
        )
        yield kind(
            documents(g),
            length_struct=lengths,
            num_packing_bins=4,
            shuffle_bins_group_by_feature="x",
        )
        yield kind(
            documents(g), length_struct={"x": 9, "id": 9}, num_packing_bins=2, meta_features=["id"]
        )
        yield kind(documents(g), length_struct={"x": 9}, num_packing_bins=2, meta_features=["id"])
        yield kind(
            empty_and_full(g), length_struct={"x": 33}, num_packing_bins=3, max_sequences_per_bin=1
        )
        yield kind(
            documents(g),
            length_struct={"x": 16},
            num_packing_bins=3,
            meta_features=["id"],
            shuffle_bins_group_by_feature="id",
        )


@program
def bins_of_trees(g):
    """Features that are trees, with lengths, alignments and fillings of each leaf."""

    def nested(x):
        tokens = x["x"]
        return {
            "x": tokens,
            "inner": {"a": tokens[::2], "b": [tokens.astype(np.float32), x["id"]]},
            "id": x["id"],
        }

    lengths = {"x": 14, "inner": {"a": 8, "b": [12, 5]}}
    for kind in (g.experimental.FirstFitPackIterDataset, g.experimental.BestFitPackIterDataset):
        arguments = {
            "length_struct": lengths,
            "num_packing_bins": 3,
            "meta_features": ["inner", "id"],
        }
        yield kind(documents(g).map(nested), **arguments)
        filled = {"x": -1, "inner": {"a": -2, "b": [0.5, -3]}}
        yield kind(documents(g).map(nested), **arguments, padding_struct=filled)
        aligned = {"x": 4, "inner": {"a": 1, "b": [2, 1]}}
        yield kind(
            documents(g).map(nested),
            **arguments,
            padding_struct=filled,
            pack_alignment_struct=aligned,
        )


def test_a_feature_that_is_a_tree_is_a_meta_feature():
    """Else it would get segment ids, which have no place; Grain's words. A document without it is a
    KeyError.
    """
    for package in (real, grain):
        trees = package.MapDataset.source([{"x": {"a": np.arange(3)}}]).to_iter_dataset()
        kind = package.experimental.FirstFitPackIterDataset
        with pytest.raises(
            ValueError, match="Failed to extract segment ids for 'x', which has type <class 'dict'>"
        ):
            next(iter(kind(trees, length_struct={"x": {"a": 4}}, num_packing_bins=1)))
        with pytest.raises(KeyError):
            next(
                iter(
                    kind(
                        trees,
                        length_struct={"x": {"b": 4}},
                        num_packing_bins=1,
                        meta_features=["x"],
                    )
                )
            )


@program
def end_to_end(g):
    """Packings end to end."""
    kind, bos = g.experimental.ConcatThenSplitIterDataset, g.experimental.BOSHandling
    numbers = documents(g).map(lambda x: {"x": x["x"]})
    yield kind(numbers, length_struct={"x": 7})
    yield kind(numbers, length_struct={"x": 8}, split_full_length_features=False)
    replaced = bos.REPLACE_FIRST_TOKEN_WITH_BOS
    yield kind(
        numbers, length_struct={"x": 3}, bos_handling=replaced, bos_features=["x"], bos_token_id=-5
    )
    yield kind(
        empty_and_full(g),
        length_struct={"x": 40},
        bos_handling=replaced,
        bos_features=["x"],
        bos_token_id=77,
    )
    yield kind(
        documents(g).map(lambda x: {"x": x["x"], "id": x["id"]}),
        length_struct={"x": 16, "id": 3},
        meta_features=["id"],
    ).batch(2)


@program
def windows(g):
    """Shuffles in windows."""
    numbers = g.MapDataset.range(20)
    yield g.experimental.WindowShuffleMapDataset(numbers, window_size=6, seed=4).to_iter_dataset()
    yield (
        g.experimental.WindowShuffleMapDataset(numbers, window_size=6, seed=4)
        .repeat(2)
        .to_iter_dataset()
    )
    yield g.experimental.WindowShuffleIterDataset(numbers.to_iter_dataset(), window_size=6, seed=4)
    yield g.experimental.WindowShuffleIterDataset(
        numbers.to_iter_dataset(), window_size=50, seed=4
    ).batch(3)


@program
def interleaves(g):
    """Streams in turn."""
    streams = [
        g.MapDataset.range(10 * i, 10 * i + n).to_iter_dataset()
        for i, n in enumerate((3, 1, 5, 0, 2, 4))
    ]
    for cycle in (1, 2, 3, 10):
        yield g.experimental.InterleaveIterDataset(streams, cycle_length=cycle)
    files = g.MapDataset.range(4).map(lambda i: g.MapDataset.range(10 * i, 10 * i + 3))
    yield (
        g.experimental.InterleaveIterDataset(files, cycle_length=2).filter(lambda x: x % 2).batch(2)
    )


@program
def zips(g):
    """Streams side by side."""
    one, other = g.MapDataset.range(6).shuffle(seed=1), g.MapDataset.range(10, 16)
    yield g.experimental.ZipMapDataset([one, other]).shuffle(seed=2).to_iter_dataset()
    yield g.experimental.ZipIterDataset([one.to_iter_dataset(), other.to_iter_dataset()])
    yield g.experimental.ZipIterDataset(
        [one.to_iter_dataset(), other[:4].to_iter_dataset()], strict=False
    )


@program
def the_rest(g):
    """What takes elements as they are."""
    e, numbers = g.experimental, g.MapDataset.range(20).seed(7).shuffle()
    odd = numbers.to_iter_dataset().filter(lambda x: x % 2)
    yield e.LimitIterDataset(odd, 5).random_map(lambda x, rng: (x, rng.random()))
    yield e.RepeatIterDataset(odd, 3)
    yield e.RepeatIterDataset(e.CacheIterDataset(odd), 2)
    yield e.RebatchIterDataset(odd.batch(3), 4).map(lambda x: x + 1)
    yield e.RebatchIterDataset(odd.batch(3), 4, drop_remainder=True)
    yield e.ThreadPrefetchIterDataset(odd, prefetch_buffer_size=3).random_map(
        lambda x, rng: (x, rng.random())
    )
    yield e.WithOptionsIterDataset(odd, e.DatasetOptions(filter_raise_threshold_ratio=0.9)).batch(2)
    yield e.multithread_prefetch(numbers.to_iter_dataset(), 0, 3)

    class Copies(e.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element):
            return [element] * (element % 4)

    yield e.FlatMapMapDataset(numbers, Copies()).shuffle(seed=3).to_iter_dataset()
    yield e.FlatMapIterDataset(numbers.to_iter_dataset(), Copies())


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
@pytest.mark.one_in(3)
def test_streams_give_grains_elements(function):
    """The same elements, of the same types, in the same order."""
    with both.quiet():
        expected = [_elements(stream) for stream in function(real)]
    for number, (stream, elements) in enumerate(zip(function(grain), expected, strict=True)):
        assert _elements(stream) == elements, number


def _elements(stream):
    try:
        return both.told(list(stream))
    except ValueError:
        return "an error"


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "function",
    chosen(PROGRAMS, *(one for one in PROGRAMS if one is not bins)),
    ids=lambda function: function.__name__,
)
def test_streams_go_on_from_every_state(function):
    """On another iterator; states are plain values."""
    for stream in function(grain):
        if _elements(stream) != "an error":
            experimental.assert_equal_output_after_checkpoint(stream)


WALKED = {
    "filtered": lambda e, few, odd: odd.batch(3),
    "flat": lambda e, few, odd: e.FlatMapIterDataset(odd, Copies()).batch(2),
    "flat, at indices": lambda e, few, odd: (
        e.FlatMapMapDataset(few, Copies()).to_iter_dataset().batch(2)
    ),
    "mix": lambda e, few, odd: grain.IterDataset.mix(
        [grain.IterDataset.mix([odd, odd.map(abs)]), odd], [1, 2]
    ).batch(2),
    "zip": lambda e, few, odd: e.ZipIterDataset([odd, few.to_iter_dataset()], strict=False),
    "cache": lambda e, few, odd: e.RepeatIterDataset(e.CacheIterDataset(odd), 2),
    "windows": lambda e, few, odd: e.WindowShuffleIterDataset(odd, window_size=4, seed=1),
    "rebatched": lambda e, few, odd: e.RebatchIterDataset(odd.batch(3), 4),
    "limit": lambda e, few, odd: e.LimitIterDataset(odd, 5),
    "interleave": lambda e, few, odd: e.InterleaveIterDataset(
        [few[:4].to_iter_dataset(), few[:2], odd], cycle_length=2
    ),
    "interleave of one": lambda e, few, odd: e.InterleaveIterDataset([odd], cycle_length=3),
    "interleave of interleaves": lambda e, few, odd: e.InterleaveIterDataset(
        [e.InterleaveIterDataset([few[:3], few[:1], few[:2]], cycle_length=2), odd], cycle_length=2
    ),
    "interleave, mapped": lambda e, few, odd: (
        e.InterleaveIterDataset([few, odd], cycle_length=2).filter(bool).batch(2)
    ),
    "bins": lambda e, few, odd: e.FirstFitPackIterDataset(
        odd.map(of_length), length_struct={"x": 7}, num_packing_bins=2
    ),
    "best fit": lambda e, few, odd: e.BestFitPackIterDataset(
        odd.map(of_length), length_struct={"x": 7}, num_packing_bins=2
    ),
    "end to end": lambda e, few, odd: e.ConcatThenSplitIterDataset(
        odd.map(of_length), length_struct={"x": 7}
    ),
    "end to end, cut": lambda e, few, odd: e.ConcatThenSplitIterDataset(
        odd.map(of_length), length_struct={"x": 3}
    ),
    "workers": lambda e, few, odd: odd.batch(2).mp_prefetch(grain.MultiprocessingOptions(1)),
    "thread": lambda e, few, odd: e.ThreadPrefetchIterDataset(odd, prefetch_buffer_size=2),
    "elastic": lambda e, few, odd: e.ElasticIterator(few, 4, grain.sharding.NoSharding()),
    "elastic interleave": lambda e, few, odd: e.ElasticIterator(
        e.InterleaveIterDataset([few[:3].to_iter_dataset(), odd], cycle_length=2),
        2,
        grain.sharding.NoSharding(),
    ),
}


class Copies(experimental.FlatMapTransform):
    """An element some times."""

    max_fan_out = 3

    def flat_map(self, element):
        return [element] * (element % 4)


def of_length(x):
    """A document."""
    return {"x": np.arange(1, x % 5 + 2)}


@pytest.mark.parametrize("name", WALKED)
def test_states_keep_one_structure_over_a_run(name):
    """Of every kind of iterator, from before the first element to after the last: Grain's own check
    of states says so.
    """
    few = grain.MapDataset.range(14).seed(1).shuffle()
    stream = WALKED[name](experimental, few, few.to_iter_dataset().filter(lambda x: x % 2 or x > 9))
    iterator, structures = iter(stream), []
    for _ in range(100):
        structures.append(spec_like(iterator.get_state()))
        if next(iterator, None) is None:
            break
    iterator.close()
    assert len(structures) > 3
    assert [each for each in structures if each != structures[0]] == []


def test_an_index_can_be_asked_for_and_set():
    """Counted in elements, after a batch in batches; where filters decide, it is a
    NotImplementedError.
    """

    def elements(g):
        iterator = iter(
            g.MapDataset.range(20).shuffle(seed=1).to_iter_dataset().map(lambda x: x).batch(3)
        )
        next(iterator)
        before = g.experimental.get_next_index(iterator)
        g.experimental.set_next_index(iterator, 4)
        return before, g.experimental.get_next_index(iterator), list(iterator)

    both.runs_alike(elements)
    with pytest.raises(NotImplementedError):
        grain.experimental.get_next_index(
            iter(grain.MapDataset.range(4).to_iter_dataset().filter(bool))
        )
    iterator = iter(grain.MapDataset.range(4).to_iter_dataset())
    with pytest.raises(IndexError, match="Checkpoint `next_index` 5 is out of range"):
        grain.experimental.set_next_index(iterator, 5)
    with pytest.raises(IndexError, match="index -1 is negative"):
        grain.experimental.set_next_index(iterator, -1)
    with pytest.raises(ValueError, match="has no files"):
        iter(grain.experimental.ParquetIterDataset([]))


def test_functions_give_what_grains_give():
    """index_shuffle, batch_and_pad, generators, specs."""

    def results(g):
        e = g.experimental
        rows = [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3, 4]}]
        padded = [e.batch_and_pad(rows, batch_size=n, pad_value=-1) for n in (2, 4)]
        shuffled = [
            e.index_shuffle(i, max_index=n, seed=n, rounds=4)
            for n in (0, 9, 70000)
            for i in range(n % 20 + 1)
        ]
        draws = [e.RngPool(3).acquire_rng(5, op_seed=2).random(3)]
        spec = e.get_element_spec(
            g.MapDataset.range(6).batch(2, drop_remainder=True).to_iter_dataset()
        )
        return padded, shuffled, draws, spec.shape, str(np.dtype(spec.dtype))

    both.runs_alike(results)


def test_files_are_streamed_in_grains_order(tmp_path):
    """Parquet row by row, several files interleaved; TFRecord as bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    paths = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    for number, path in enumerate(paths):
        parquet.write_table(
            pa.table({"n": np.arange(5) + 10 * number, "s": list("abcde")}), path, row_group_size=2
        )
    records = tmp_path / "records"
    with records.open("wb") as file:
        for data in (b"one", b"", b"three"):
            file.write(struct.pack("<QI", len(data), 0) + data + struct.pack("<I", 0))

    def streams(g):
        yield g.experimental.ParquetIterDataset(paths[0])
        yield g.experimental.ParquetIterDataset(paths).map(lambda row: row["n"])
        yield g.experimental.TFRecordIterDataset(str(records))

    for theirs, ours in zip(streams(real), streams(grain)):
        assert _elements(ours) == _elements(theirs)
        experimental.assert_equal_output_after_checkpoint(ours)


def test_a_stream_on_devices_has_the_state_of_what_was_received():
    """Whatever the feeder has read ahead; it goes on with other methods after it."""
    import jax

    numbers = grain.MapDataset.range(40).shuffle(seed=1).map(np.float32).batch(4).to_iter_dataset()
    stream = experimental.device_put(numbers, jax.devices()[0])
    iterator = iter(stream)
    first = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    iterator.close()
    again = iter(stream)
    again.set_state(state)
    assert both.told([np.asarray(each) for each in [*first, *again]]) == both.told(list(numbers))
    again.close()
    assert isinstance(next(iter(stream.map(lambda x: x + 1))), jax.Array)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["bins", "end to end"])
def test_workers_make_what_a_packing_puts_together(kind):
    """The functions before it run there, and the packing here; the stream and its states are the
    same.
    """

    def stream(workers):
        parts = (
            grain.MapDataset.range(60)
            .shuffle(seed=1)
            .map(lambda x: {"x": np.full(1 + x % 7, os.getpid())})
        )
        pack = (
            experimental.FirstFitPackIterDataset
            if kind == "bins"
            else experimental.ConcatThenSplitIterDataset
        )
        more = {"num_packing_bins": 3} if kind == "bins" else {}
        rows = pack(parts.to_iter_dataset(), length_struct={"x": 16}, **more)
        told = rows.map(
            lambda row: ({os.getpid()}, set(row["x"].tolist()) - {0}, (row["x"] > 0).tolist())
        )
        return told.mp_prefetch(grain.MultiprocessingOptions(workers))

    expected = [row for *_, row in stream(0)]
    iterator = iter(stream(2))
    first = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    rest = list(iterator)
    iterator.close()
    again = iter(stream(0))
    again.set_state(state)
    assert [row for *_, row in (*first, *rest)] == expected
    assert [row for *_, row in again] == expected[3:]
    for packed_in, made_in, _ in (*first, *rest):
        assert packed_in == {os.getpid()}
        assert made_in.isdisjoint(packed_in)


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("kind", ["interleave", "bins", "end to end"])
def test_what_fails_once_is_tried_again(kind, restores):
    """The stream goes on with the element that failed, in the middle of a row, too; also from its
    state.
    """
    left = []

    def document(x):
        if x in left:
            left.remove(x)
            raise OSError("not now")
        return {"x": np.full(1 + x % 5, x)}

    def stream():
        parts = [
            grain.MapDataset.range(8 * n, 8 * n + 8).map(document).to_iter_dataset()
            for n in range(2)
        ]
        if kind == "interleave":
            return experimental.InterleaveIterDataset(parts, cycle_length=2)
        if kind == "bins":
            return experimental.FirstFitPackIterDataset(
                parts[0], length_struct={"x": 8}, num_packing_bins=2
            )
        return experimental.ConcatThenSplitIterDataset(parts[0], length_struct={"x": 8})

    expected = list(stream())
    left += [0, 3, 6]
    iterator, found = iter(stream()), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except OSError:
            if restores:
                iterator.set_state(iterator.get_state())
    assert both.told(found) == both.told(expected)
    assert not left


def test_a_step_of_a_mix_of_streams_is_traced():
    """The elements of step 3, by dataset and key."""
    streams = [
        grain.MapDataset.range(10 * n, 10 * n + 6).to_iter_dataset().map(lambda x: x)
        for n in range(2)
    ]
    mixed = grain.IterDataset.mix(streams, [1, 2])
    element = list(mixed)[3]
    assert [
        10 * int(record.dataset) + record.key for record in headrace.trace(mixed, 3).records
    ] == [element]


def test_an_endless_repetition_of_no_elements_ends():
    """Grain's would look for one for ever; that of others goes on."""
    none = grain.MapDataset.range(5).filter(lambda x: x > 7).to_iter_dataset()
    both_kinds = grain.IterDataset.mix(
        [grain.MapDataset.range(3).to_iter_dataset(), none], [1, 0.5]
    )
    assert list(experimental.RepeatIterDataset(none)) == []
    repeated = experimental.LimitIterDataset(experimental.RepeatIterDataset(both_kinds), 5)
    assert len(list(repeated)) == 5


def test_a_thread_prefetch_makes_elements_while_the_user_is_busy():
    """As many as the buffer holds, with `prefetch_buffer_size=0` none."""
    made = {size: threading.Event() for size in (0, 3)}

    def stream(size):
        def tell(x):
            if x == 3:
                made[size].set()
            return x

        dataset = grain.MapDataset.range(10).to_iter_dataset().map(tell)
        return iter(experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=size))

    for size in (0, 3):
        with contextlib.closing(stream(size)) as iterator:
            assert next(iterator) == 0
            assert made[size].wait(30 if size else 0) == bool(size)
            assert list(iterator) == [*range(1, 10)]


def test_a_thread_prefetch_leaves_actors_and_seeded_globals_as_they_are():
    """Options of Ray go with actors, and global generators are not for threads."""
    numbers = grain.MapDataset.range(8).to_iter_dataset()
    ahead = experimental.ThreadPrefetchIterDataset(numbers, prefetch_buffer_size=2)
    actors = numbers.with_options(worker_count=2, worker_kind="ray", ray_options={"num_cpus": 1})
    for parts in (
        [ahead, actors],
        [actors, ahead],
        [actors, numbers.mp_prefetch(grain.MultiprocessingOptions(4))],
    ):
        assert grain.IterDataset.mix(parts).chain_stream.execution.worker_kind == "ray"
    seeded = numbers.with_options(seed_globals=True)
    assert list(experimental.ThreadPrefetchIterDataset(seeded.seed(1), prefetch_buffer_size=2)) == [
        *range(8)
    ]


@pytest.mark.slow
def test_a_thread_prefetch_takes_the_work_from_no_process():
    """Before it, after it, and in a mix with it."""
    numbers = (
        grain.MapDataset.range(8)
        .to_iter_dataset()
        .map(lambda x: (x, threading.current_thread().name, os.getpid()))
    )
    ahead = experimental.ThreadPrefetchIterDataset(numbers, prefetch_buffer_size=2)
    in_processes = []
    for count in (1, 2):
        workers = grain.MultiprocessingOptions(num_workers=count)
        in_processes += [
            ahead.mp_prefetch(workers),
            experimental.ThreadPrefetchIterDataset(
                numbers.mp_prefetch(workers), prefetch_buffer_size=2
            ),
            grain.IterDataset.mix([ahead, numbers.mp_prefetch(workers)]),
            grain.IterDataset.mix([numbers.mp_prefetch(workers), ahead]),
        ]
    for stream in in_processes:
        assert os.getpid() not in {process for _, _, process in stream}
    for stream in (ahead, ahead.mp_prefetch(grain.MultiprocessingOptions(num_workers=0))):
        assert {(thread == "MainThread", process) for _, thread, process in stream} == {
            (False, os.getpid())
        }
