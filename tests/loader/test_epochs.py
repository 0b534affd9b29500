"""`loader.epochs(n)`: a loop per epoch, and one state over all of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import pathlib
from collections import Counter

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    RandomMapTransform,
    RecordMetadata,
    ShardOptions,
)
from headrace.checkpoint import CheckpointRestore, CheckpointSave, StateFile
from headrace.errors import CheckpointError, ClosedError
from headrace.tools.command_line import main

DEVICE = jax.devices()[0]
OPERATIONS = {
    "batch": [Batch(4)],
    "whole batches": [Batch(4, drop_remainder=True)],
    "random": [RandomMapTransform(lambda x, rng: x + rng.random()), Batch(3)],
    "filter": [Filter(lambda x: x % 3 > 0), Batch(2)],
    "flat map": [FlatMap(lambda x: [x, x]), Batch(3)],
    "records": [],
}
pipelines = pytest.mark.parametrize("name", OPERATIONS)
places = pytest.mark.parametrize("on_devices", [False, True])


def _epochs(name="batch", count=3, on_devices=False, **options):
    sampler = IndexSampler(10, options.pop("shard", ShardOptions(0, 1)), shuffle=True, seed=5)
    loader = DataLoader(
        data_source=np.arange(10), sampler=sampler, operations=OPERATIONS[name], **options
    )
    return (loader.to_device(DEVICE) if on_devices else loader).epochs(count)


def _flat(lists):
    return list(itertools.chain.from_iterable(lists))


def _taken(epochs):
    """Each epoch's batches, and all states on the way: inside the loops, and after each."""
    taken, states = [], [(epochs.get_state(), 0, 0)]
    for number, epoch in enumerate(epochs):
        taken.append([])
        for batch in epoch:
            taken[-1].append(np.asarray(batch).tolist())
            states.append((epochs.get_state(), number, len(taken[-1])))
        states.append((epochs.get_state(), number + 1, 0))
    return taken, states


def test_each_epoch_gives_every_record_once_in_an_order_of_its_own():
    """The last batch of an epoch is short, as in PyTorch, and none holds records of two epochs."""
    taken, _ = _taken(_epochs())
    assert [list(map(len, epoch)) for epoch in taken] == [[4, 4, 2]] * 3
    orders = [_flat(epoch) for epoch in taken]
    assert [sorted(order) for order in orders] == [list(range(10))] * 3
    assert len(set(map(tuple, orders))) == 3
    whole, _ = _taken(_epochs("whole batches"))
    assert whole == [epoch[:2] for epoch in taken]


@pytest.mark.long
@pytest.mark.one_in(6)
@places
@pipelines
def test_the_state_goes_on_from_any_batch_of_any_epoch(name, on_devices):
    """Inside a loop with the rest of it, be it nothing; after a loop with the next epoch."""
    taken, states = _taken(_epochs(name, on_devices=on_devices))
    for state, number, batch in states:
        again = _epochs(name, on_devices=on_devices)
        again.set_state(state)
        assert again.get_state() == state
        rest, _ = _taken(again)
        assert rest == [taken[number][batch:], *taken[number + 1 :]] if number < 3 else rest == []


def test_random_operations_draw_anew_in_each_epoch():
    """A record's random numbers are others in each epoch."""
    taken, _ = _taken(_epochs("random"))
    assert len({value for epoch in taken for batch in epoch for value in batch}) == 30


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("algorithm", ["headrace", "grain"])
def test_shards_divide_each_epoch(algorithm, drop):
    """Together they read each record once an epoch; equal shards, as Grain's are, leave out what
    cannot be shared.
    """
    epochs = []
    for shard in range(3):
        sampler = IndexSampler(
            10, ShardOptions(shard, 3, drop), shuffle=True, seed=5, algorithm=algorithm
        )
        epochs.append(_taken(DataLoader(data_source=np.arange(10), sampler=sampler).epochs(3))[0])
    for shards in zip(*epochs):
        assert list(map(len, shards)) == ([3, 3, 3] if drop or algorithm == "grain" else [4, 3, 3])
        assert max(Counter(_flat(shards)).values()) == 1


@pytest.mark.parametrize("drop", [False, True])
def test_grains_order_has_all_its_epochs_on_each_shard(drop):
    """`num_epochs=10` are ten epochs, although `drop_remainder` makes each of them shorter."""
    for shard in range(3):
        sampler = IndexSampler(10, ShardOptions(shard, 3, drop), num_epochs=10, algorithm="grain")
        loader = DataLoader(data_source=np.arange(10), sampler=sampler)
        assert sampler.epoch_count == len(list(loader.epochs())) == 10
        if drop:
            assert loader.find(sampler[81 + shard].record_key, epoch=9).step == 27


@pytest.mark.parametrize("algorithm", ["headrace", "grain"])
def test_epochs_go_on_with_another_number_of_shards(algorithm):
    """What the former shards left of their epoch comes once, and whole epochs after it."""

    def shard(index, count):
        options = ShardOptions(index, count)
        sampler = IndexSampler(10, options, shuffle=True, seed=5, algorithm=algorithm)
        return DataLoader(data_source=np.arange(10), sampler=sampler, operations=[Batch(2)]).epochs(
            3
        )

    before = [shard(index, 3) for index in range(3)]
    seen = [next(next(one)).tolist() for one in before for _ in range(2)]
    after = [shard(index, 2) for index in range(2)]
    for one in after:
        one.set_states([former.get_state() for former in before])
        assert (one.epoch, one.step) == (1, 2)
    rest = [_taken(one)[0] for one in after]
    second = _flat([*seen[1::2], *(_flat(epochs[0]) for epochs in rest)])
    assert sorted(second) == list(range(10))
    third = _flat(_flat(epochs[1]) for epochs in rest)
    assert sorted(third) == list(range(10))
    assert [len(epochs) for epochs in rest] == [2, 2]


def test_leaving_a_loop_leaves_out_the_rest_of_its_epoch():
    """The next epoch follows, as with a loop over `iter(loader)` for each; steps count what was
    received.
    """
    epochs = _epochs()
    for epoch in epochs:
        next(epoch)
        assert len(epoch) == 3
        assert (epochs.epoch, epochs.step) == (epoch.epoch, epoch.epoch + 1)
    assert epochs.step == 3


def test_without_a_count_there_are_the_epochs_of_the_sampler():
    """As many as it has, or without end; more than it has are refused."""
    assert len(list(headrace.load(range(4), num_epochs=2).epochs())) == 2
    endless = headrace.load(range(4)).epochs()
    assert [list(next(endless)) for _ in range(5)] == [[0, 1, 2, 3]] * 5
    with pytest.raises(ValueError, match=r"this one has 2\. Pass num_epochs=3 or more to it"):
        headrace.load(range(4), num_epochs=2).epochs(3)
    with pytest.raises(ValueError, match="count=0"):
        headrace.load(range(4)).epochs(0)
    with pytest.raises(ValueError, match="skip"):
        headrace.load(range(4)).skip([(0, 1)]).epochs(2)
    with pytest.raises(TypeError, match="needs a DataLoader"):
        headrace.device_put([np.ones(1)], DEVICE).epochs(2)


class Backwards:
    """An endless sampler of a user's, which has no epochs of its own."""

    def __getitem__(self, index):
        return RecordMetadata(index, 3 - index % 4)

    def __len__(self):
        return 2**63 - 1


def test_a_sampler_of_ones_own_has_epochs_too():
    """An endless one has one for each len(source) positions."""
    loader = DataLoader(data_source=range(4), sampler=Backwards())
    assert [list(epoch) for epoch in loader.epochs(2)] == [[3, 2, 1, 0]] * 2


@places
def test_epochs_are_saved_by_whatever_saves_iterators(tmp_path, on_devices):
    """Orbax, old and new, a state file, a dict; and the command line reads the epoch."""
    epochs = _epochs(on_devices=on_devices)
    next(epochs), next(next(epochs))
    expected = epochs.get_state()

    def restored(restore):
        again = _epochs(on_devices=on_devices)
        restore(again)
        with again:
            assert again.get_state() == expected

    with ocp.CheckpointManager(tmp_path / "orbax") as manager:
        manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(epochs)))
        manager.wait_until_finished()
        restored(
            lambda again: manager.restore(
                1, args=ocp.args.Composite(loader=CheckpointRestore(again))
            )
        )
    with StateFile(tmp_path / "file.json") as file:
        file.save(epochs)
        restored(file.restore)
    restored(lambda again: again.load_state_dict(epochs.state_dict()))

    async def through_the_protocol(again):
        folder = pathlib.Path(tmp_path)
        await (await epochs.save(_Future(folder)))
        await (await again.load(_Future(folder)))

    restored(lambda again: asyncio.run(through_the_protocol(again)))
    assert main(["checkpoint", "inspect", str(tmp_path / "file.json")]) == 0
    epochs.close()


class _Future:
    """What Orbax passes for a folder that may still be being made."""

    def __init__(self, path):
        self.path = path

    async def await_creation(self):
        return self.path

    def __truediv__(self, name):
        return self.path / name


def test_states_of_epochs_and_of_iterators_are_told_apart(capsys, tmp_path):
    """Their batches are not the same: each refuses the other's, and says why."""
    loader = headrace.load(range(10), batch_size=4)
    epochs = loader.epochs(3)
    next(epochs), next(epochs)
    with pytest.raises(CheckpointError, match=r"loader\.epochs"):
        epochs.set_state(iter(loader).get_state())
    with pytest.raises(CheckpointError, match="sampler: epoch 1 → None"):
        iter(loader).set_state(epochs.get_state())
    (tmp_path / "process_0-of-1.json").write_bytes(epochs.get_state())
    main(["checkpoint", "inspect", str(tmp_path)])
    assert "epoch: 1 (at 0.0 %)" in capsys.readouterr().out


@pytest.mark.parametrize("epoch", [-1, None, "2", 1.5, True, 1 << 70, (1 << 31) - 1])
def test_an_impossible_epoch_is_refused(epoch):
    """A damaged state is a CheckpointError at once, and one stays where one was."""
    epochs = headrace.load(range(1 << 40), batch_size=4).epochs(3)
    assert next(next(epochs)).tolist() == [0, 1, 2, 3]
    state = epochs.state_dict()
    state["identity"]["orders"][0]["epoch"] = epoch
    for restore in (epochs.load_state_dict, lambda state: epochs.set_states([json.dumps(state)])):
        with pytest.raises(CheckpointError):
            restore(state)
    for states in (3, []):
        with pytest.raises(CheckpointError):
            epochs.set_states(states)
    assert (epochs.step, epochs.epoch) == (1, 0)


def test_closed_epochs_stay_closed():
    """The state can be read, and the next epoch cannot."""
    with _epochs() as epochs:
        next(next(epochs))
        assert repr(epochs).startswith("Epochs(count=3, DataLoaderIterator(step=1, epoch=0")
    assert epochs.get_state()
    with pytest.raises(ClosedError, match="new ones"):
        next(epochs)


@pytest.mark.parametrize("kind", ["a mix", "weights of records"])
def test_weights_change_between_epochs_but_not_inside_one(kind):
    """Inside, records would double and others be lost: an error says what to do, and
    nothing moves.
    """
    parts = {"web": list(range(100)), "books": list(range(1000, 1100))}

    def epochs(weight):
        if kind == "a mix":
            weights = {"web": 1, "books": weight}
            source, sampler = parts, headrace.MixSampler(parts, weights, when_exhausted="repeat")
        else:
            source, sampler = (
                parts["web"],
                headrace.WeightedSampler([1.0, weight] * 50, num_epochs=2, seed=1),
            )
        return headrace.DataLoader(
            data_source=source, sampler=sampler, operations=[headrace.Batch(4)]
        ).epochs(2)

    run = epochs(1.0)
    batches = next(run)
    next(batches)
    inside = run.get_state()
    list(batches)
    between = run.get_state()
    changed, same = epochs(3.0), epochs(1.0)
    with pytest.raises(
        CheckpointError, match=r"since the state was saved inside an epoch.* iter\(loader\)"
    ):
        changed.set_state(inside, strict=False)
    assert changed.step == 0
    same.set_state(inside, strict=False)
    assert same.step == 1
    changed.set_state(between, strict=False)
    assert next(changed).epoch == 1
    assert len(list(changed.open_epoch)) > 0


def test_an_epoch_that_other_shards_have_begun_is_not_changed():
    """A state right after the number of shards has changed is inside the epoch, though its shard
    has read nothing.
    """
    parts = {"web": list(range(100)), "books": list(range(1000, 1100))}

    def epochs(weight, index, count):
        sampler = headrace.MixSampler(
            parts,
            {"web": 1, "books": weight},
            when_exhausted="repeat",
            shard_options=ShardOptions(index, count),
        )
        return headrace.DataLoader(
            data_source=parts, sampler=sampler, operations=[headrace.Batch(4)]
        ).epochs(2)

    run = epochs(1, 0, 1)
    next(next(run))
    shards = [epochs(1, index, 2) for index in range(2)]
    for shard in shards:
        shard.set_states([run.get_state()])
    states = [shard.get_state() for shard in shards]
    with pytest.raises(CheckpointError, match="saved inside an epoch"):
        epochs(3, 0, 2).set_states(states, strict=False)
    epochs(1, 0, 2).set_states(states, strict=False)
