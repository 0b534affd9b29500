"""Messages are short, whatever was passed: values in them are cut."""

from __future__ import annotations

import errno
import inspect

import numpy as np
import pytest

import headrace
from headrace.common.messages import first_few, short_repr, shorten

LIMIT = 500


class Talkative:
    """Its repr is what large containers of users look like."""

    def __repr__(self):
        return "word " * 100_000


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr today")


HUGE = {
    "list": list(range(100_000)),
    "nested": [["x" * 1000] * 100] * 100,
    "str": "x" * 100_000,
    "bytes": b"x" * 100_000,
    "dict": {f"name {number}": number for number in range(1_000)},
    "arrays": {"x" * 100_000: np.zeros(3), "y" * 100_000: np.zeros(4)},
    "tuple": ("x" * 100_000, "y" * 100_000),
    "int": 10**10_000,
    "array": np.arange(10_000.0).reshape(100, 100),
    "talkative": Talkative(),
    "unprintable": Unprintable(),
}

GOOD = {
    headrace.ArrayRecordDataSource: {"paths": "none.array_record"},
    headrace.Batch: {"batch_size": 2},
    headrace.DecodeImage: {},
    headrace.decode_example: {"data": b""},
    headrace.encode_example: {"record": {}},
    headrace.ImageFolderDataSource: {"paths": "none"},
    headrace.JsonLinesDataSource: {"paths": "none.jsonl"},
    headrace.RaggedFeature: {"dtype": int, "values": "v", "row_lengths": "n"},
    headrace.RandomFlip: {},
    headrace.RandomResizedCrop: {"size": 8},
    headrace.Resize: {"size": 8},
    headrace.TFRecordDataSource: {"paths": "none.tfrecord"},
    headrace.TarDataSource: {"paths": "none.tar"},
    headrace.TextLinesSource: {"paths": "none.txt"},
    headrace.DataLoader: {
        "data_source": [1, 2, 3],
        "sampler": headrace.IndexSampler(3, num_epochs=1),
    },
    headrace.Filter: {"function": bool},
    headrace.FlatMap: {"function": list},
    headrace.IndexSampler: {"num_records": 3},
    headrace.MapTransform: {"function": abs},
    headrace.MapWithIndexTransform: {"function": max},
    headrace.MemorySource: {"data": [1]},
    headrace.MixedSource: {"parts": {"a": [1], "b": [2]}},
    headrace.MixSampler: {"parts": {"a": 1, "b": 2}},
    headrace.ParquetDataSource: {"paths": "none.parquet"},
    headrace.RandomMapTransform: {"function": max},
    headrace.RangeDataSource: {"start": 3},
    headrace.ReadOptions: {},
    headrace.SparseFeature: {"dtype": int, "indices": "i", "values": "v", "shape": 3},
    headrace.SequentialSampler: {"num_records": 3},
    headrace.ShardOptions: {"shard_index": 0, "shard_count": 1},
    headrace.checkpoint.StateFile: {"path": "none"},
    headrace.batch_and_pad: {"elements": [1], "batch_size": 2},
    headrace.load: {"source": [1, 2, 3]},
    headrace.pad_batch: {},
}
"""What the rest of the arguments are while one is huge."""

EXPECTED = (
    TypeError,
    ValueError,
    LookupError,
    OSError,
    OverflowError,
    AttributeError,
    UserWarning,
    headrace.errors.HeadraceError,
)


def told(act, *given):
    """What an action says when it fails; nothing if it does not."""
    try:
        act(*given)
    except EXPECTED as error:
        return str(error)
    return ""


@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
def test_no_message_is_long_whatever_is_passed(make):
    """An argument that is refused is named in less than 500 characters, however large
    or odd it is.
    """
    for name in inspect.signature(make).parameters:
        for kind, value in HUGE.items():
            assert len(told(lambda given: make(**GOOD[make] | given), {name: value})) <= LIMIT, (
                name,
                kind,
            )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", ["str", "tuple", "dict", "int", "array", "talkative"])
def test_what_arises_later_is_short_too(kind):
    """Errors of next(), of states and of batches show the start of a value."""
    value = HUGE[kind]
    iterator = iter(headrace.load([1, 2, 3]))
    loader = headrace.load([1, 2, 3], batch_size=2)
    for act in (
        lambda: iterator.set_state(value),
        lambda: iterator.set_states([value]),
        lambda: iterator.load_state_dict({"version": value}),
        lambda: iterator.records_at(value),
        lambda: loader.find(value, 0),
        lambda: loader.find(0, value),
        lambda: loader.skip(value),
        lambda: loader.skip([value]),
        lambda: loader.with_batch_size(value),
        lambda: (
            headrace.check_resume(loader, steps=value, worker_counts=[]) if kind != "int" else None
        ),
        lambda: headrace.pad_batch()([{"x": value}, {"y": value}]),
        lambda: next(iter(headrace.load([{"x": value}, {"y": np.zeros(2)}], batch_size=2))),
        lambda: next(
            iter(
                headrace.load(
                    [{"x" * 100_000: value}, {"x" * 100_000: np.zeros((2, 3))}], batch_size=2
                )
            )
        ),
        lambda: headrace.IndexSampler(3)[value],
        lambda: headrace.MemorySource([1])[value],
        lambda: getattr(headrace, "x" * 100_000),
        lambda: getattr(headrace.checkpoint, "x" * 100_000),
        lambda: headrace.load([1], **{"x" * 100_000: 1}),
    ):
        assert len(told(act)) <= LIMIT
    iterator.close()


def test_a_state_file_that_cannot_be_written_is_told_briefly(tmp_path):
    """By an OSError of its kind, however long the path is."""
    path = tmp_path.joinpath(*["a" * 200] * 4, "b" * 250)
    with pytest.raises(OSError, match="File name too long") as caught:
        headrace.checkpoint.StateFile(path).save(iter(headrace.load([1, 2, 3])))
    assert (caught.value.errno, len(str(caught.value)) <= LIMIT) == (errno.ENAMETOOLONG, True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["str", "tuple", "list", "dict", "int", "array", "talkative"])
def test_messages_about_devices_are_short(kind):
    """Arguments of to_device and device_put, and trees of shardings that do not fit, are shown
    briefly.
    """
    import jax

    value, device = HUGE[kind], jax.devices()[0]
    loader = headrace.load([{"x": 1}], batch_size=1)
    for act in (
        lambda: loader.to_device(value),
        lambda: loader.to_device({"x": value}),
        lambda: loader.to_device(device, transform=value),
        lambda: loader.to_device(device, on_uneven=value),
        lambda: loader.to_device(device, on_unsupported=value),
        lambda: loader.to_device(device, host_buffer=value),
        lambda: headrace.device_put(value, device),
        lambda: headrace.device_put(loader, device, **{"x" * 100_000: value}),
        lambda: headrace.shard_options_for(value),
        lambda: headrace.checkpoint.CheckpointHandler().save(None, value),
        lambda: headrace.checkpoint.from_grain_state(value, loader),
    ):
        assert len(told(act)) <= LIMIT


def test_the_note_of_a_failure_is_short():
    """An operation with a long repr is shown briefly in the note at the user's own exception."""

    class Wordy(headrace.MapTransform):
        def map(self, element):
            raise ValueError("mine")

        def __repr__(self):
            return "word " * 10_000

    with pytest.raises(ValueError, match="mine") as caught:
        next(iter(headrace.load([1], transformations=[Wordy()], num_epochs=1)))
    assert len(caught.value.__notes__[0]) <= LIMIT


def test_differences_of_many_operations_are_counted():
    """A state of a pipeline with a thousand other operations names a few of them."""
    state = iter(headrace.load([1], transformations=[abs] * 1000)).get_state()
    with pytest.raises(headrace.errors.CheckpointError, match="and 997 more") as caught:
        iter(headrace.load([1], transformations=[str] * 1000)).set_state(state)
    assert len(str(caught.value)) <= LIMIT


def test_texts_keep_their_beginning_and_their_end():
    """Both ends of a path matter, and a text that is short enough stays."""
    assert (
        shorten("/data/" + "x" * 1000 + "/train.parquet", 40)
        == "/data/xxxxxxxxxxxxxx…xxxxx/train.parquet"
    )
    assert (shorten("short"), short_repr([1, "a"]), short_repr("it's")) == (
        "short",
        "[1, 'a']",
        '"it\'s"',
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1], "1"),
        ("abc", "a, b, c"),
        (range(4), "0, 1, 2 and 1 more"),
        (range(9), "0, 1, 2 and 6 more"),
    ],
)
def test_long_lists_are_told_by_their_first_three(values, text):
    """A message names three values and counts the others."""
    assert first_few(values) == text
