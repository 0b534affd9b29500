"""The state of a feeder is that of the last batch the user received, whatever is in the buffers."""

from __future__ import annotations

import json
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint.experimental import v1
from support.pipelines import PIPELINES, loader, plain

import headrace
from headrace.checkpoint import CheckpointRestore, CheckpointSave
from headrace.errors import CheckpointError

CPU = jax.devices("cpu")[0]
KINDS = ["batch", "filter, batch", "flat map, random, batch, random"]


def feeder_of(name, **more):
    """A feeder whose unusual leaves stay on the host."""
    return iter(loader(name, **more).to_device(CPU, on_unsupported="keep", host_buffer=2))


def stream(iterator):
    """All that comes, comparable."""
    return [plain(jax.tree.map(np.asarray, element)) for element in iterator]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.one_in(8)
def test_the_state_is_that_of_the_host_iterator_at_each_step(name):
    """Byte for byte, before the first batch, after each, and at the end; the records after each
    batch, too.
    """
    with feeder_of(name) as feeder:
        host = iter(loader(name))
        assert feeder.get_state() == host.get_state()
        feeder.start_prefetch()
        assert feeder.get_state() == host.get_state()
        for _ in host:
            next(feeder)
            assert feeder.get_state() == host.get_state()
            assert feeder.last_records().tolist() == host.last_records().tolist()
        assert list(feeder) == []
        feeder.start_prefetch()
        assert feeder.get_state() == host.get_state()


def test_states_go_from_feeders_to_host_iterators_and_back():
    """They are the same bytes; so are the dicts."""
    feeder, host = feeder_of("filter, batch"), iter(loader("filter, batch"))
    for _ in range(3):
        next(feeder)
    host.load_state_dict(feeder.state_dict())
    assert [batch.tolist() for batch in host] == [batch.tolist() for batch in feeder]
    again = feeder_of("filter, batch")
    host.set_state(iter(loader("filter, batch")).get_state())
    next(host)
    again.load_state_dict(host.state_dict())
    assert again.state_dict() == host.state_dict() == json.loads(again.get_state())
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in host]


def test_a_state_of_another_pipeline_leaves_the_feeder_where_it_was():
    """The error is the host iterator's, and the next batch is the one that was due; `strict=False`
    goes there.
    """

    def shuffled(records):
        return headrace.load(range(records), batch_size=9, shuffle=True, seed=1, num_epochs=1)

    expected, theirs = ([batch.tolist() for batch in shuffled(records)] for records in (40, 30))
    with iter(shuffled(40).to_device(CPU)) as feeder:
        next(feeder)
        with pytest.raises(CheckpointError, match="belongs to another pipeline"):
            feeder.set_state(iter(shuffled(30)).get_state())
        assert next(feeder).tolist() == expected[1] != theirs[0]
        feeder.set_state(iter(shuffled(30)).get_state(), strict=False)
        assert next(feeder).tolist() == expected[0]


def test_an_iterator_of_another_library_keeps_its_state():
    """Grain's states go through as they are: that of the last batch received."""
    grain = pytest.importorskip("grain")
    dataset = grain.MapDataset.range(20).to_iter_dataset()
    with iter(headrace.device_put(dataset, CPU)) as feeder:
        for _ in range(4):
            next(feeder)
        time.sleep(0.05)  # the reader is far ahead
        theirs = iter(dataset)
        theirs.set_state(feeder.get_state())
        rest = list(theirs)
        assert rest == list(range(4, 20))
        start = feeder.get_state()
        assert [int(x) for x in feeder] == rest
        feeder.set_state(start)
        assert [int(x) for x in feeder] == rest


class Counting:
    """An iterator with a state, of 3 batches; at its end it may have none."""

    def __init__(self, fails):
        self.place = 0
        self.fails = fails

    def __iter__(self):
        return self

    def __next__(self):
        if self.place >= 3:
            self.place = 4
            raise StopIteration
        self.place += 1
        return np.full(2, self.place)

    def get_state(self):
        if self.place == 4 and self.fails:
            raise ValueError("exhausted")
        return {"place": self.place}

    def set_state(self, state):
        self.place = state["place"]


def test_states_that_are_dicts_go_through_dicts_and_checkpoints(tmp_path):
    """As those of Grain's datasets are: `load_state_dict`, and both protocols of Orbax, which write
    them as JSON.
    """

    def after_one():
        feeder = iter(headrace.device_put(Counting(fails=False), CPU))
        next(feeder)
        return feeder

    def rest(feeder):
        with feeder:
            return [int(batch[0]) for batch in feeder]

    with after_one() as feeder, iter(headrace.device_put(Counting(fails=False), CPU)) as again:
        again.load_state_dict(feeder.state_dict())
        assert again.get_state() == {"place": 1}
        assert rest(again) == [2, 3]
    with after_one() as feeder, ocp.CheckpointManager(tmp_path / "manager") as manager:
        manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(feeder)))
        manager.wait_until_finished()
        again = iter(headrace.device_put(Counting(fails=False), CPU))
        manager.restore(1, args=ocp.args.Composite(loader=CheckpointRestore(again)))
        assert rest(again) == [2, 3]
    with after_one() as feeder, iter(headrace.device_put(Counting(fails=False), CPU)) as again:
        v1.save_checkpointables(tmp_path / "newer", {"loader": feeder})
        v1.load_checkpointables(tmp_path / "newer", {"loader": again})
        assert rest(again) == [2, 3]


def test_an_iterator_that_has_no_state_at_its_end_is_an_error_there():
    """Its own error comes after the last batch, in place of the end, and nothing waits for ever."""
    with iter(headrace.device_put(Counting(fails=True), CPU)) as feeder:
        assert [int(next(feeder)[0]) for _ in range(3)] == [1, 2, 3]
        with pytest.raises(ValueError, match="exhausted"):
            next(feeder)


def test_a_plain_iterable_has_no_state():
    """A TypeError that says what has one."""
    with iter(headrace.device_put([np.ones(2)] * 3, CPU)) as feeder:
        next(feeder)
        for call in (
            feeder.get_state,
            lambda: feeder.set_state(b""),
            feeder.last_records,
            lambda: feeder.set_states([]),
        ):
            with pytest.raises(TypeError, match="DataLoader"):
                call()
        assert len(list(feeder)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.one_in(6)
def test_a_checkpoint_manager_saves_and_restores_a_feeder(name, asynchronous, tmp_path):
    """What was to come at the moment of the save comes after the restore, in another feeder."""
    feeder = feeder_of(name)
    for _ in range(3):
        next(feeder)
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=asynchronous)
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        manager.save(7, args=ocp.args.Composite(loader=CheckpointSave(feeder)))
        rest = stream(feeder)  # the save is of the moment of the call
        manager.wait_until_finished()
    (file,) = (tmp_path / "7" / "loader").glob("process_*")
    assert json.loads(file.read_bytes())["step"] == 3
    with ocp.CheckpointManager(tmp_path) as manager, feeder_of(name, worker_count=1) as again:
        manager.restore(7, args=ocp.args.Composite(loader=CheckpointRestore(again)))
        assert stream(again) == rest


def test_a_feeder_saves_and_loads_itself_with_the_newer_orbax(tmp_path):
    """`save_checkpointables` and `load_checkpointables` know what to do with a feeder; a save in
    the background, too.
    """
    with feeder_of("filter, batch") as feeder, feeder_of("filter, batch") as again:
        next(feeder)
        response = v1.save_checkpointables_async(tmp_path / "one", {"loader": feeder})
        rest = stream(feeder)
        response.result()
        v1.load_checkpointables(tmp_path / "one", {"loader": again})
        assert stream(again) == rest


def test_records_of_later_steps_are_told_from_where_the_user_stands():
    """However far ahead the feeder is; those that were received are past."""
    source = headrace.load(range(40), batch_size=4, shuffle=True, seed=2, num_epochs=1)
    with iter(source.to_device(CPU)) as feeder:
        told = [feeder.records_at(step).tolist() for step in range(10)]
        assert told == [source.records_at(step).tolist() for step in range(10)]
        next(feeder)
        assert feeder.records_at(1).tolist() == told[1]
        with pytest.raises(IndexError, match="step 0 was already"):
            feeder.records_at(0)
    with (
        iter(headrace.device_put([1], CPU)) as plain,
        pytest.raises(TypeError, match="records_at needs"),
    ):
        plain.records_at(0)


def test_a_retry_keeps_the_count_of_what_was_skipped():
    """An error of the transform begins the run anew; the limit of skipped records is
    one for all.
    """

    def check(x):
        if x == 1:
            raise ValueError("bad")
        return x

    failures = [RuntimeError("once")]

    def transform(batch):
        if 8 in batch and failures:
            raise failures.pop()
        return batch

    sampler, operations = headrace.IndexSampler(16, num_epochs=1), [check, headrace.Batch(2)]
    source = headrace.DataLoader(
        data_source=range(16), sampler=sampler, operations=operations, on_error="skip"
    )
    with iter(source.to_device(CPU, transform=transform)) as feeder:
        seen = [next(feeder).tolist()]
        with pytest.raises(RuntimeError, match="once"):
            while True:
                seen.append(next(feeder).tolist())
        assert feeder.skipped_count == 1
        seen += [batch.tolist() for batch in feeder]
        assert feeder.skipped_count == 1
    assert [x for batch in seen for x in batch] == [0, *range(2, 16)]


def test_steps_that_are_left_out_do_not_come():
    """A loader that skips steps feeds the same batches, with the same states, as its iterator
    gives.
    """
    skipping = headrace.load(range(60), batch_size=4, shuffle=True, seed=2, num_epochs=1).skip(
        [(2, 5), (9, 10)]
    )
    with iter(skipping.to_device(CPU)) as feeder:
        host = iter(skipping)
        for batch, expected in zip(feeder, host, strict=True):
            assert batch.tolist() == expected.tolist()
            assert feeder.get_state() == host.get_state()


def shapes_from(loader, step):
    """The shapes of the batches that a padding feeder gives from a step on."""
    with iter(loader) as iterator:
        for _ in range(step):
            next(iterator)
        state = iterator.get_state()
    with iter(loader.to_device(CPU, on_uneven="pad")) as feeder:
        feeder.set_state(state)
        return [shape_of(batch) for batch in feeder]


def shape_of(batch):
    """The shape of the tokens of a batch."""
    return np.shape(batch["tokens"] if isinstance(batch, dict) else batch)


def budget_loader(**more):
    """Batches by budget in two shapes."""
    records = [
        np.ones(length, np.int32) for length in np.random.default_rng(0).integers(1, 31, 300)
    ]
    batches = headrace.BudgetBatch(256, pad_to=(8, 30), multiple_of=8, **more)
    return headrace.load(records, transformations=[batches], num_epochs=1)


PADDED = {
    "budget, planned": lambda: budget_loader(lengths=lambda record: len(record)),
    "budget, stream": lambda: budget_loader(window=64),
    "batch, map": lambda: headrace.load(
        range(21), transformations=[headrace.Batch(8), lambda batch: batch + 1], num_epochs=1
    ),
    "filter, batch, map to fewer rows": lambda: headrace.load(
        range(31),
        transformations=[
            headrace.Filter(lambda x: x != 3),
            headrace.Batch(8),
            lambda batch: batch[::2],
        ],
        num_epochs=1,
    ),
    "batch function": lambda: headrace.load(
        range(21), transformations=[headrace.Batch(8, batch_fn=np.stack)], num_epochs=1
    ),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", PADDED)
def test_the_shape_that_a_batch_is_filled_up_to_does_not_depend_on_earlier_batches(name):
    """A run that is resumed at any step has the shapes of the whole run, and only a short last
    batch is filled up.
    """
    loader = PADDED[name]()
    whole = shapes_from(loader, 0)
    for step in {1, len(whole) // 2, len(whole) - 1}:
        assert shapes_from(loader, step) == whole[step:]
    plain_shapes = [shape_of(batch) for batch in loader]
    assert whole[:-1] == plain_shapes[:-1]
    assert whole[-1] == (plain_shapes[-1] if "budget" in name else (8,))
    if "budget" in name:
        assert {rows * length <= 256 for rows, length in whole} == {True}
        assert len(set(whole)) == 2
