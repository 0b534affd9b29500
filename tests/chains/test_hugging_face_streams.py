"""Streams of Hugging Face, read from local files by the real `datasets`: where they stand is kept
by them.
"""

import gc
import json
import warnings
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.pipelines import chosen, stream

from headrace import HuggingFaceStream, IterDataset, MapDataset, ShardOptions, load
from headrace.errors import CheckpointError, ShardingError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # What datasets and what it imports say at import is not ours.
    import datasets
    from datasets.distributed import split_dataset_by_node

datasets.disable_progress_bars()


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """A stream of four Parquet files, of 5, 9, 13 and 17 rows in small row groups."""
    folder, first = tmp_path_factory.mktemp("parquet"), 0
    for number, rows in enumerate((5, 9, 13, 17)):
        table = pa.table(
            {
                "n": range(first, first + rows),
                "text": [f"row {n}" for n in range(first, first + rows)],
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=4)
        first += rows
    return loaded("parquet", folder)


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """A stream of three files of JSON lines, of 7 rows each."""
    folder = tmp_path_factory.mktemp("lines")
    for number in range(3):
        text = [json.dumps({"n": 100 + 7 * number + n}) + "\n" for n in range(7)]
        (folder / f"{number}.jsonl").write_text("".join(text))
    return loaded("json", folder)


def loaded(kind, folder):
    """What `load_dataset` gives, streaming."""
    files = sorted(map(str, folder.iterdir()))
    return datasets.load_dataset(
        kind, data_files=files, split="train", streaming=True, cache_dir=str(folder / "cache")
    )


def by_generator():
    """Made of shards of its own."""
    return datasets.IterableDataset.from_generator(numbered, gen_kwargs={"firsts": [0, 10, 20]})


def numbered(firsts):
    """Ten rows for each shard."""
    for first in firsts:
        for n in range(first, first + 10):
            yield {"n": n}


KINDS = {
    "parquet": lambda p, _: p,
    "json": lambda _, j: j,
    "generator": lambda *_: by_generator(),
    "numpy": lambda p, _: p.with_format("numpy"),
    "saved rows": lambda *_: datasets.Dataset.from_dict({"n": range(23)}).to_iterable_dataset(
        num_shards=3
    ),
    "mapped": lambda p, _: p.map(lambda row: {"n": row["n"] * 2}),
    "mapped in batches": lambda p, _: p.map(
        lambda rows: {"n": [n for n in rows["n"] if n % 3]},
        batched=True,
        batch_size=4,
        remove_columns=["text"],
    ),
    "filtered": lambda p, _: p.filter(lambda row: row["n"] % 3 == 0),
    "batches": lambda p, _: p.batch(4),
    "interleaved": lambda p, j: datasets.interleave_datasets(
        [by_generator(), j], probabilities=[0.6, 0.4], seed=3, stopping_strategy="all_exhausted"
    ),
    "in turn": lambda p, j: datasets.interleave_datasets([by_generator(), j]),
    "concatenated": lambda p, j: datasets.concatenate_datasets([p.select_columns(["n"]), j]),
    "skipped and taken": lambda p, _: p.skip(3).take(30),
    "repeated": lambda _, j: j.repeat(2),
    "files shuffled": lambda p, _: p.shuffle(seed=1, buffer_size=1, max_buffer_input_shards=1),
    "shards in turn": lambda *_: by_generator().shuffle(seed=1, buffer_size=1),
    "files of a node": lambda p, _: split_dataset_by_node(p, 1, 2),
    "rows of a node": lambda p, _: split_dataset_by_node(p, 1, 3),
}


SOME = chosen([*KINDS], "parquet", "interleaved", "mapped in batches", "rows of a node")


@pytest.fixture
def of_kind(request, parquet, lines):
    """The dataset of this kind."""
    return KINDS[request.param](parquet, lines)


@pytest.mark.parametrize("of_kind", SOME, indirect=True)
def test_its_rows_are_those_of_the_dataset(of_kind):
    """In its order, and in each epoch as `set_epoch` makes them."""
    expected = list(of_kind)
    of_kind.set_epoch(1)
    second = list(of_kind)
    of_kind.set_epoch(0)
    assert stream(HuggingFaceStream(of_kind, num_epochs=2)) == stream(expected + second)
    assert len(expected) > 10


@pytest.mark.parametrize("of_kind", SOME, indirect=True)
@pytest.mark.one_in(4)
def test_a_state_at_every_step_goes_on_exactly(of_kind):
    """Of two epochs, in a fresh iterator: the next rows, and at some steps all that follow."""
    rows = HuggingFaceStream(of_kind, num_epochs=2)
    expected = stream(rows)
    iterator = iter(rows)
    for step in range(len(expected) + 1):
        with iter(rows) as other:
            other.set_state(iterator.get_state())
            following = stream(other) if step % 11 == 0 else stream(islice(other, 2))
            assert following == expected[step:][: len(following)]
            assert len(following) >= min(2, len(expected) - step)
        next(iterator, None)


@pytest.mark.parametrize("worker_count", chosen([1, 2], 2))
@pytest.mark.long
def test_any_number_of_workers_gives_and_goes_on_with_the_same(parquet, worker_count):
    """Functions of `datasets` and ours run there."""
    rows = HuggingFaceStream(parquet.map(lambda row: {"n": row["n"] + 1}), num_epochs=3)
    batches = rows.map(lambda row: np.int64(row["n"])).window_shuffle(10, seed=1).batch(4)
    expected = stream(batches)
    assert stream(batches.mp_prefetch(worker_count)) == expected
    with iter(batches.mp_prefetch(worker_count)) as iterator:
        for _ in range(14):  # in the second epoch
            next(iterator)
        state = iterator.get_state()
    for workers in (0, 1, 2):
        again = iter(batches.mp_prefetch(workers))
        again.set_state(state)
        assert stream(again) == expected[14:]


def test_two_loops_at_a_time_do_not_meet(parquet):
    """The dataset would keep one place for both."""
    rows = HuggingFaceStream(parquet)
    expected, one, other = stream(rows), iter(rows), iter(rows)
    for _ in range(7):
        next(one)
    next(other)
    state = one.get_state()
    assert stream(other) == expected[1:]
    one.set_state(state)
    assert stream(one) == expected[7:]


def test_it_joins_other_streams(parquet, lines):
    """Mixed, zipped and interleaved, with states."""
    both = [
        HuggingFaceStream(parquet, num_epochs=None),
        HuggingFaceStream(lines).map(lambda row: row),
    ]
    mixed = IterDataset.mix(both, [0.5, 0.5]).map(lambda row: row["n"]).batch(3)
    expected = stream(mixed)
    iterator = iter(mixed)
    for step in range(len(expected)):
        other = iter(mixed)
        other.set_state(iterator.get_state())
        assert stream(other) == expected[step:]
        next(iterator)


def test_shards_are_the_datasets_own(parquet):
    """All rows, each in one of them; a state of a shard goes on with that shard."""
    shards = [
        HuggingFaceStream(parquet, shard_options=ShardOptions(index, 3)) for index in range(3)
    ]
    found = [[row["n"] for row in shard] for shard in shards]
    assert sorted(chain.from_iterable(found)) == list(range(44))
    assert found[1] == list(range(5, 14))
    iterator = iter(shards[0])
    for _ in range(8):
        next(iterator)
    again = iter(shards[0])
    again.set_state(iterator.get_state())
    assert [row["n"] for row in again] == found[0][8:]
    with pytest.raises(CheckpointError):
        iter(shards[1]).set_state(iterator.get_state())


def test_more_processes_than_shards_take_every_other_row_instead(parquet):
    """The error says how; and that parts are not equally long."""
    with pytest.raises(
        ShardingError,
        match=(
            r"has 4 shards, but shard_count=5\. Pass a dataset of more files, or "
            r"dataset\.reshard\(\) if its"
        ),
    ):
        HuggingFaceStream(parquet, shard_options=ShardOptions(0, 5))
    parts = [
        [row["n"] for row in HuggingFaceStream(parquet).shard(ShardOptions(index, 5))]
        for index in range(5)
    ]
    assert parts == [list(range(index, 44, 5)) for index in range(5)]


def test_shards_of_files_cannot_be_made_equally_long(parquet):
    """What the error says instead can be done: endless shards, or every n-th row."""
    equal = ShardOptions(0, 2, drop_remainder=True)
    for epochs in (1, None):
        with pytest.raises(
            ShardingError,
            match=r"equal length.* Leave drop_remainder out, and pass num_epochs=None",
        ):
            HuggingFaceStream(parquet, num_epochs=epochs, shard_options=equal)
    with iter(
        HuggingFaceStream(parquet, num_epochs=None, shard_options=ShardOptions(0, 2))
    ) as endless:
        assert len([next(endless) for _ in range(100)]) == 100
    parts = [
        HuggingFaceStream(parquet).shard(ShardOptions(index, 3, drop_remainder=True))
        for index in range(3)
    ]
    assert [len(stream(part)) for part in parts] == [14, 14, 14]


def test_the_length_of_a_stream_is_unknown_unless_it_never_ends(parquet):
    """The error does not say that a stream of one epoch never ends."""
    rows = HuggingFaceStream(parquet)
    for finite in (rows, rows.map(len).batch(3), rows.limit(5), rows.repeat(2)):
        with pytest.raises(
            TypeError,
            match="is unknown before they are read, because of a source without random access",
        ):
            len(finite)
    for endless in (HuggingFaceStream(parquet, num_epochs=None), rows.repeat().batch(3)):
        with pytest.raises(TypeError, match="this stream never ends"):
            len(endless)


def test_for_ever_stops_where_nothing_comes(parquet):
    """An epoch without rows would never end."""
    assert stream(HuggingFaceStream(parquet.filter(lambda row: False), num_epochs=None)) == []
    endless = iter(HuggingFaceStream(parquet, num_epochs=None))
    assert [next(endless)["n"] for _ in range(90)] == [
        n for epoch in second_epochs(parquet, 3) for n in epoch
    ][:90]


def second_epochs(dataset, count):
    """The rows of some epochs."""
    for epoch in range(count):
        dataset.set_epoch(epoch)
        yield [row["n"] for row in dataset]
    dataset.set_epoch(0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda p: datasets.Dataset.from_dict({"n": [1]}), "use headrace.load"),
        (lambda p: datasets.IterableDatasetDict({"train": p}), "Pass a split"),
        (lambda p: p.with_format("arrow"), "gives tables, not rows"),
        (lambda p: [1, 2], "datasets.IterableDataset, not a list"),
    ],
)
def test_what_is_no_stream_of_rows_is_refused(parquet, wrong, words):
    """With what to pass."""
    with pytest.raises(TypeError, match=words):
        HuggingFaceStream(wrong(parquet))


@pytest.mark.parametrize(
    "below", [lambda d: d, lambda d: d.map(lambda row: row), lambda d: d.with_format("numpy")]
)
def test_a_shuffle_buffer_is_refused_with_what_to_write(parquet, below):
    """Wherever it stands: `datasets` would lose its rows."""
    with pytest.raises(ValueError, match=r"\.window_shuffle\(100, seed=0\)"):
        HuggingFaceStream(below(parquet.shuffle(seed=1, buffer_size=100)))
    with pytest.raises(ValueError, match="in a buffer"):
        HuggingFaceStream(datasets.interleave_datasets([parquet, parquet.shuffle(buffer_size=9)]))


def test_a_state_of_other_steps_or_epochs_is_refused(parquet):
    """`datasets` would begin anew, or fail in its own way."""
    iterator = iter(HuggingFaceStream(parquet))
    next(iterator)
    state = iterator.get_state()
    with pytest.raises(CheckpointError):
        iter(HuggingFaceStream(parquet.map(lambda row: row))).set_state(state)
    with pytest.raises(CheckpointError):
        iter(HuggingFaceStream(parquet, num_epochs=2)).set_state(state)
    other = iter(HuggingFaceStream(parquet.filter(lambda row: True)))
    other.set_state(state, strict=False)
    with pytest.raises(
        CheckpointError,
        match=(
            "Make the dataset with the same maps, filters and shards as in the run that was saved"
        ),
    ):
        next(other)


def test_a_function_that_fails_is_told_with_the_element(parquet):
    """The user's own error, once, and the stream goes on at the same place after a repair."""

    def fails(row):
        if row["n"] == 6:
            raise KeyError("broken row")
        return row

    iterator = iter(HuggingFaceStream(parquet.map(fails)))
    assert [next(iterator)["n"] for _ in range(6)] == list(range(6))
    with pytest.raises(KeyError, match="broken row") as raised:
        next(iterator)
    assert "element 6" in "".join(raised.value.__notes__)


def test_a_loader_says_what_to_write(parquet):
    """A stream has no random access."""
    with pytest.raises(TypeError, match=r"headrace\.HuggingFaceStream"):
        load(parquet)
    with pytest.raises(TypeError, match=r"headrace\.HuggingFaceStream"):
        MapDataset.source(parquet)


async def doubled(row):
    """An async function of a `map`."""
    return {"n": 2 * row["n"]}


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # `datasets` closes no event loop
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("worker_count", [0, 1])
@pytest.mark.slow
def test_a_dataset_with_an_async_map_may_have_been_looped_over(parquet, worker_count):
    """The event loops that `datasets` keeps then are in no copy, and the stream resumes."""
    mapped = parquet.map(doubled)
    expected = [row["n"] for row in islice(mapped, 3)] + [row["n"] for row in mapped][3:]
    dataset = HuggingFaceStream(mapped, num_epochs=2).map(lambda row: row["n"])
    dataset = dataset.mp_prefetch(worker_count) if worker_count else dataset
    with iter(dataset) as iterator:
        first = [next(iterator) for _ in range(5)]
        state = iterator.get_state()
        assert first + list(iterator) == 2 * expected
    with iter(dataset) as iterator:
        iterator.set_state(state)
        assert list(iterator) == (2 * expected)[5:]
    del mapped, dataset, iterator
    gc.collect()  # the event loops
