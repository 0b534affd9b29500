"""What people pass by habit of another library, or by mistake: each error says what to write
instead.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import re
import threading
import time

import grain
import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, IndexSampler, ReadOptions, ShardOptions, load
from headrace.errors import CheckpointError, PicklingError
from headrace.loader.arguments import LoaderOptions
from headrace.loader.executors.reading import read_pace


def make(**arguments):
    """A loader of three numbers, with these arguments besides."""
    return DataLoader(
        **{"data_source": [1, 2, 3], "sampler": IndexSampler(3, num_epochs=1), **arguments}
    )


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"pin_memory": True}, "to_device"),
        ({"persistent_workers": True}, "num_epochs=n"),
        ({"worker_init_fn": print}, "RandomMapTransform"),
        ({"generator": None}, "seed="),
        ({"dataset": [1]}, "data_source="),
        ({"transformations": [abs]}, "operations="),
        ({"batch_size": 3}, "headrace.Batch"),
        ({"operations": abs}, re.escape("operations=[…]")),
    ],
)
def test_arguments_of_other_libraries_are_told_as_ours(arguments, remedy):
    """Names of PyTorch get the name here, or the reason why nothing is needed."""
    with pytest.raises(TypeError, match=remedy):
        make(**arguments)


def test_positional_arguments_as_in_pytorch_say_how_to_name_them():
    """DataLoader(dataset, 32) and load(dataset, 32) show the call with names."""
    with pytest.raises(
        TypeError, match=r"by name only\. Write DataLoader\(data_source=…, sampler=…"
    ):
        DataLoader([1, 2, 3], 32)
    with pytest.raises(TypeError, match=r"by name only\. Write load\(source"):
        load([1, 2, 3], 32)


def test_load_takes_every_option_of_the_loader():
    """What DataLoader takes besides source, sampler and operations, load takes too."""
    options = set(inspect.signature(DataLoader).parameters) - {
        "unnamed",
        "unknown",
        "data_source",
        "sampler",
        "operations",
    }
    assert options == {*LoaderOptions.__annotations__, "shard_options"}
    loader = load(
        [1, 2, 3],
        num_epochs=1,
        batch_size=2,
        worker_count=1,
        worker_kind="thread",
        worker_buffer_size=2,
        read_options=ReadOptions(0),
        on_error="skip",
        max_errors=2,
        transformations=(lambda x: 6 // (x - 1),),
    )
    assert [batch.tolist() for batch in loader] == [[6, 3]]


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"transformations": abs}, re.escape("transformations=[…]")),
        ({"operations": [abs]}, "use transformations="),
        ({"num_workers": 2}, "worker_count="),
    ],
)
def test_load_says_what_it_calls_things(arguments, remedy):
    """Names that only DataLoader has, and a function in place of a list, are told as
    load has them.
    """
    with pytest.raises(TypeError, match=remedy):
        load([1, 2, 3], **arguments)


def test_a_maker_of_batch_functions_must_be_called():
    """batch_fn=pad_batch without () says so when the Batch is made."""
    with pytest.raises(TypeError, match=r"headrace\.pad_batch\(\)"):
        Batch(2, batch_fn=headrace.pad_batch)
    with pytest.raises(TypeError, match=r"headrace\.batch_and_pad\(batch_size=…\)"):
        Batch(2, batch_fn=headrace.batch_and_pad)


class Split:
    """A dataset as libraries have them."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("data/train.parquet", "headrace.ParquetDataSource"),
        (pathlib.Path("data/train.parquet"), "headrace.ParquetDataSource"),
        ("train.array_record-00000-of-00002", "headrace.ArrayRecordDataSource"),
        ("train.tfrecord", r"Pass headrace\.TFRecordDataSource\(path\)"),
        ("some/folder", "such as headrace.ParquetDataSource"),
        ({"train": Split(), "test": Split()}, r"data\['train'\]"),
    ],
)
def test_a_path_or_a_dict_of_datasets_is_no_source(source, remedy):
    """What stands for records, and holds none itself, is refused with what to pass."""
    with pytest.raises(TypeError, match=remedy):
        load(source)


def test_a_dict_of_hugging_face_datasets_is_no_source():
    """A DatasetDict, as load_dataset gives without split=, is refused with the split to pass; so is
    a stream.
    """
    import datasets

    train = datasets.Dataset.from_dict({"x": [1, 2, 3]})
    with pytest.raises(TypeError, match=r"Pass one of them, data\['train'\]"):
        load(datasets.DatasetDict({"train": train, "test": train}))
    with pytest.raises(TypeError, match="streaming=True"):
        load(train.to_iterable_dataset())
    assert next(iter(load(train))) == {"x": 1}


def test_samplers_that_can_only_be_run_through_are_refused():
    """A sampler as PyTorch has them, with __iter__ and no __getitem__, is told what to write
    instead.
    """

    class Mine:
        def __iter__(self):
            return iter([2, 0, 1])

        def __len__(self):
            return 3

    class DistributedSampler(Mine):
        pass

    with pytest.raises(TypeError, match=r"any position\. Pass"):
        make(sampler=Mine())
    with pytest.raises(TypeError, match=r"ShardOptions\(rank, world_size\)"):
        make(sampler=DistributedSampler())


def test_a_timeout_that_can_do_nothing_warns():
    """Only a worker process can be stopped: a timeout without one is a warning at the user's own
    line.
    """
    with pytest.warns(UserWarning, match="does nothing with worker_count=0") as caught:
        make(timeout=5)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match='does nothing with worker_kind="thread"') as caught:
        load([1], timeout=5, worker_count=1, worker_kind="thread")
    assert caught[0].filename == __file__
    make(timeout=5, worker_count=1)


def test_a_timeout_is_a_number():
    """A timeout of another type is refused when the loader is made."""
    with pytest.raises(TypeError, match="timeout='5' is a str"):
        make(timeout="5", worker_count=1)


def test_more_reading_threads_than_records_to_read_warn():
    """A buffer below the number of threads is a warning at the user's own line; a buffer of 0
    switches reading ahead off.
    """
    with pytest.warns(
        UserWarning, match="prefetch_buffer_size=4 is below num_threads=16"
    ) as caught:
        ReadOptions(prefetch_buffer_size=4)
    assert caught[0].filename == __file__
    ReadOptions(prefetch_buffer_size=0)
    ReadOptions(4, 4)


class Watched(Split):
    """Remembers on which threads it was read."""

    def __init__(self):
        self.threads = set()

    def __getitem__(self, index):
        time.sleep(1e-3)  # records that are there at once are read by whoever needs them
        self.threads.add(threading.current_thread().name.rpartition("_")[0])
        return index


@pytest.mark.parametrize(
    ("options", "threads"), [(None, "headrace-read"), (ReadOptions(0), "headrace-worker")]
)
def test_read_options_hold_for_worker_threads(options, threads, monkeypatch):
    """Records are read ahead of worker threads too, unless read_options say not to; the stream is
    the same.
    """
    # now and then one is left to the thread that needs it
    monkeypatch.setattr(read_pace, "TRIAL_SHARE", 0)
    source = Watched()
    loader = load(
        source,
        num_epochs=2,
        batch_size=2,
        worker_count=2,
        worker_kind="thread",
        read_options=options,
    )
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 0], [1, 2]]
    assert source.threads == {threads}


@pytest.mark.slow
def test_the_text_of_what_cannot_be_pickled_is_in_the_message():
    """A user's own refusal to be pickled is told; it is a ValueError, as in Grain, and a TypeError,
    as it was.
    """

    class Connection:
        def __getstate__(self):
            raise RuntimeError("open a connection in each worker" + " or in none" * 1000)

        def __call__(self, element):
            return element

    for kind in (PicklingError, ValueError, TypeError):
        with pytest.raises(kind, match="RuntimeError: open a connection in each worker") as caught:
            next(iter(make(operations=[Connection()], worker_count=1)))
        assert len(str(caught.value)) < 500


def test_the_state_of_a_grain_loader_is_told_as_such():
    """Grain's state given to set_state says what goes on with it, as bytes and as a dict."""
    state = {"version": 2, "last_seen_indices": {"0": 2}, "last_worker_index": 0, "worker_count": 0}
    for given in (state, json.dumps(state).encode()):
        with pytest.raises(CheckpointError, match="from_grain_state"):
            iter(make()).set_state(given)


def test_the_state_of_a_grain_dataset_is_told_with_what_leaves_as_much_out():
    """Which takes it up where the order is the same."""
    theirs = iter(grain.MapDataset.range(9).batch(2).to_iter_dataset())
    for _ in range(3):
        next(theirs)
    loader = load(range(9), batch_size=2, num_epochs=1)
    for given in (theirs.get_state(), json.dumps(theirs.get_state()).encode()):
        with pytest.raises(CheckpointError, match=r"loader\.skip\(\[\(0, 3\)\]\)"):
            iter(loader).set_state(given)
    assert [batch.tolist() for batch in loader.skip([(0, 3)])] == [
        batch.tolist() for batch in theirs
    ]


def test_a_state_as_a_dict_is_told_how_to_be_given():
    """To set_state and set_states."""
    iterator = iter(make())
    for act in (
        lambda: iterator.set_state(iterator.state_dict()),
        lambda: iterator.set_states([iterator.state_dict()]),
    ):
        with pytest.raises(CheckpointError, match=r"json\.dumps\(state\)\.encode\(\)"):
            act()


def test_metadata_prints_no_address():
    """Two equal positions print the same, with and without a generator."""
    sampler = IndexSampler(3, shuffle=True, seed=1)
    assert repr(sampler[1]) == repr(sampler[1])
    assert " at 0x" not in repr(sampler[1])
    assert repr(IndexSampler(3)[1]) == "RecordMetadata(index=1, record_key=1, rng=None)"


@pytest.mark.parametrize("function", [headrace.pad_batch(), headrace.batch_and_pad(batch_size=2)])
def test_a_batch_of_nothing_is_refused(function):
    """batch_and_pad([]) and pad_batch()([]) say that there is no element, also for an array without
    rows.
    """
    for nothing in ([], np.zeros((0, 2))):
        with pytest.raises(ValueError, match=r"elements\. Pass at"):
            function(nothing)


def test_load_takes_a_sampler():
    """In place of what says the order; with both, the error names the argument."""
    sampler = IndexSampler(6, shuffle=True, seed=3, num_epochs=1)
    batches = list(
        load(range(6), sampler=sampler, transformations=[lambda x: x * 10], batch_size=4)
    )
    assert np.concatenate(batches).tolist() == [
        sampler[place].record_key * 10 for place in range(6)
    ]
    parts = [
        list(load(range(6), sampler=sampler, shard_options=ShardOptions(shard, 2)))
        for shard in range(2)
    ]
    assert sorted(parts[0] + parts[1]) == list(range(6))
    for other in (
        {"shuffle": True},
        {"seed": 0},
        {"num_epochs": 2},
        {"balance": True},
        {"lengths": [1] * 6},
    ):
        with pytest.raises(
            TypeError, match=f"sampler= and {next(iter(other))}=.* cannot be combined"
        ):
            load(range(6), sampler=sampler, **other)
