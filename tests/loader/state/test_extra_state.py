"""Values of the user in the state: they are restored with the position to which they belong."""

import itertools
import json

import jax
import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, ShardOptions
from headrace.errors import CheckpointError
from headrace.loader.state.schema import LoaderState, sealed
from headrace.tools.command_line import main

CPU = jax.devices("cpu")[0]


def loader(index=0, count=1, operations=()):
    """A shard of a shuffled loader of two epochs."""
    sampler = IndexSampler(60, ShardOptions(index, count), shuffle=True, seed=3, num_epochs=2)
    return DataLoader(data_source=range(60), sampler=sampler, operations=[*operations, Batch(2)])


def resealed(state):
    """The bytes of a state whose values were changed on purpose."""
    content = {name: state[name] for name in sorted(state) if name != "checksum"}
    return sealed(json.dumps(content, separators=(",", ":"), sort_keys=True).encode())


def at_step(step, extra, *args, **more):
    """An iterator at a step with an extra state."""
    iterator = iter(loader(*args, **more))
    list(itertools.islice(iterator, step))
    iterator.set_extra_state(extra)
    return iterator


@pytest.mark.parametrize("operations", [[], [Filter(lambda x: x % 3 != 1)]])
def test_each_state_has_the_extra_state_of_its_step(operations):
    """The values are those set last; a state without any has the bytes that it had before there
    were extra states.
    """
    iterator, plain = (iter(loader(operations=operations)) for _ in range(2))
    saved = []
    for step in range(1, 6):
        np.testing.assert_array_equal(next(iterator), next(plain))
        iterator.set_extra_state({"tokens": step * 10})
        saved.append((step, iterator.get_state()))
    iterator.set_extra_state(None)
    assert iterator.get_extra_state() is None
    assert iterator.get_state() == plain.get_state()
    for step, state in saved:
        iterator.set_state(state)
        assert (iterator.step, iterator.get_extra_state()) == (step, {"tokens": step * 10})
        assert iterator.get_state() == state
    iterator.set_state(plain.get_state())
    assert iterator.get_extra_state() is None
    np.testing.assert_array_equal(next(iterator), next(plain))


def test_an_extra_state_is_restored_from_a_dict_too():
    """`state_dict` and `load_state_dict` have it."""
    again = iter(loader())
    again.load_state_dict(json.loads(json.dumps(at_step(3, {"stage": "cooldown"}).state_dict())))
    assert again.get_extra_state() == {"stage": "cooldown"}


def test_a_state_that_is_refused_leaves_the_extra_state():
    """The iterator keeps its position, and the values with it."""
    iterator = at_step(3, {"tokens": 7})
    state = json.loads(iterator.get_state())
    with pytest.raises(CheckpointError, match="damaged"):
        iterator.load_state_dict({**state, "extra": {"tokens": 8}})
    with pytest.raises(CheckpointError, match="the state is damaged: extra=3"):
        iterator.set_state(resealed({**state, "extra": 3}))
    assert iterator.get_extra_state() == {"tokens": 7}


def test_what_the_user_does_with_the_values_afterwards_changes_no_state():
    """The state has a copy, and `get_extra_state` returns another one."""
    values = {"seen": [1, 2]}
    iterator = at_step(2, values)
    state = iterator.get_state()
    values["seen"].append(3)
    iterator.get_extra_state()["seen"].append(4)
    assert iterator.get_state() == state
    assert iterator.get_extra_state() == {"seen": [1, 2]}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_other_shards_get_the_extra_state_of_the_shard_that_was_farthest(order):
    """The order of the states does not matter; of several shards at this step it is the
    first one.
    """
    shards = [
        at_step(step, {"shard": index}, index, 3).get_state()
        for index, step in enumerate((2, 4, 4))
    ]
    for index in range(2):
        again = iter(loader(index, 2))
        again.set_states([shards[number] for number in order])
        assert again.get_extra_state() == {"shard": 1}
        assert again.step == 4


def test_as_many_shards_get_their_own_extra_states():
    """Each shard gets the values of its own state. If one shard's state is enough, all get the
    values of this one.
    """
    shards = [at_step(2, {"shard": index}, index, 2).get_state() for index in range(2)]
    again = iter(loader(1, 2))
    again.set_states(shards)
    assert again.get_extra_state() == {"shard": 1}
    whole = iter(loader())
    whole.set_states(shards[:1], equal_steps=True)
    assert whole.get_extra_state() == {"shard": 0}


def test_the_next_epochs_keep_the_extra_state():
    """In a loop for each epoch, also in the states between two epochs, and after a restore."""
    epochs = headrace.load(range(8), batch_size=2).epochs(3)
    for number, epoch in enumerate(epochs):
        for _ in epoch:
            expected = {"step": epoch.step} if number < 2 else {"step": 8}
            if number < 2:
                epoch.set_extra_state(expected)
            assert epoch.get_extra_state() == expected
            again = headrace.load(range(8), batch_size=2).epochs(3)
            again.set_state(epochs.get_state())
            assert again.get_extra_state() == expected
            assert next(again).get_extra_state() == expected
    epochs.set_extra_state({"step": 12})
    assert LoaderState.from_json(epochs.get_state()).kept.extra == '{"step":12}'


def test_a_change_of_the_run_keeps_the_extra_state():
    """Another batch size from a step on, other omitted records, and other weights of a mix."""
    iterator = at_step(2, {"tokens": 1})
    iterator.change(batch_size=3, at_step=4)
    iterator.change(omit=[5], at_step=5)
    list(itertools.islice(iterator, 4))
    assert iterator.get_extra_state() == {"tokens": 1}
    parts = {"web": range(50), "books": range(50)}
    mix = iter(
        DataLoader(
            data_source=parts,
            sampler=headrace.MixSampler(parts, when_exhausted="repeat"),
            operations=[Batch(2)],
        )
    )
    mix.set_extra_state({"tokens": 2})
    mix.change(weights={"web": 1, "books": 0}, at_step=3)
    list(itertools.islice(mix, 5))
    assert mix.get_extra_state() == {"tokens": 2}


def test_a_feeder_has_the_extra_state_of_the_batch_received_last():
    """Whatever was read ahead; and so has the iterator from which it reads, when the feeder is
    closed.
    """
    iterator, plain = iter(loader()), iter(loader())
    feeder = iter(headrace.device_put(iterator, CPU, cpu_buffer_size=3, device_buffer_size=2))
    for step in range(1, 6):
        next(feeder), next(plain)
        assert feeder.get_extra_state() == ({"step": step - 1} if step > 1 else None)
        feeder.set_extra_state({"step": step})
        plain.set_extra_state({"step": step})
        assert feeder.get_state() == plain.get_state()
    feeder.close()
    assert feeder.get_state() == iterator.get_state() == plain.get_state()


def test_a_feeder_that_goes_back_keeps_the_extra_state():
    """After an error, and a change of the mix, the feeder reads again from the user's position."""
    failing = [True]

    def fails(batch):
        if failing and batch[0] == 6:
            failing.clear()
            raise ValueError("broken")
        return batch

    parts = {"a": range(100)}
    sampler = headrace.MixSampler(parts, when_exhausted="repeat")
    batches = DataLoader(data_source=parts, sampler=sampler, operations=[Batch(2)])
    with iter(batches.to_device(CPU, transform=fails)) as feeder:
        for _ in range(3):
            next(feeder)
        feeder.set_extra_state({"step": 3})
        with pytest.raises(ValueError, match="broken"):
            next(feeder)
        assert feeder.get_extra_state() == {"step": 3}
        assert np.asarray(next(feeder)).tolist() == [6, 7]
        assert feeder.get_extra_state() == {"step": 3}
        feeder.change(weights=[2], at_step=20)
        state = feeder.get_state()
        assert json.loads(state)["extra"] == {"step": 3}
        next(feeder)
        feeder.set_state(state)
        assert feeder.get_extra_state() == {"step": 3}


NO_JSON = [
    [1],
    "v2",
    3,
    {1: "one"},
    {"a": (1, 2)},
    {"a": np.float32(1)},
    {"a": np.zeros(2)},
    {"a": {3}},
]


@pytest.mark.parametrize("values", [*NO_JSON, {"a": float("nan")}, {"a": float("inf")}])
def test_what_json_does_not_give_back_is_refused(values):
    """The values would be others after a restore. The former values stay."""
    iterator = at_step(1, {"tokens": 1})
    with pytest.raises(TypeError, match="Pass a dict of plain values"):
        iterator.set_extra_state(values)
    assert iterator.get_extra_state() == {"tokens": 1}


def test_an_extra_state_is_small():
    """At most 10,000 characters as JSON, because states are taken at each step."""
    iterator = iter(loader())
    iterator.set_extra_state({"a": "x" * 9_992})
    with pytest.raises(ValueError, match="has 10,001 characters as JSON, but at most 10,000"):
        iterator.set_extra_state({"a": "x" * 9_993})
    assert iterator.get_extra_state() == {"a": "x" * 9_992}


def test_other_iterators_have_no_extra_state():
    """The error names the method."""
    with iter(headrace.device_put(iter([np.zeros(2)]), CPU)) as feeder:
        with pytest.raises(TypeError, match=r"^set_extra_state needs the iterator of a DataLoader"):
            feeder.set_extra_state({"tokens": 1})
        with pytest.raises(TypeError, match=r"^get_extra_state needs the iterator of a DataLoader"):
            feeder.get_extra_state()


def test_tools_tell_the_extra_state(tmp_path, capsys):
    """`checkpoint inspect` prints it, `checkpoint diff` the difference; the streams, which `diff`
    compares, are the same.
    """
    for name, extra in (("a", None), ("b", {"tokens": 5})):
        (tmp_path / name).write_bytes(at_step(3, extra).get_state())
    assert main(["checkpoint", "inspect", str(tmp_path / "b")]) == 0
    assert 'extra state: {"tokens":5}' in capsys.readouterr().out
    assert main(["checkpoint", "inspect", "--json", str(tmp_path / "b")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["extra_state"] == {"tokens": 5}
    assert main(["checkpoint", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert capsys.readouterr().out == 'extra state: nothing → {"tokens":5}\n'
    assert not headrace.diff(tmp_path / "a", tmp_path / "b")


def test_tools_tell_the_extra_states_of_all_shards(tmp_path, capsys):
    """`inspect` as JSON has the values with which another number of shards resumes."""
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        for shard, extra in enumerate((None, {"tokens": value})):
            state = at_step(2 + shard, extra, shard, 2).get_state()
            (tmp_path / name / f"process_{shard}-of-2.json").write_bytes(state)
    assert main(["checkpoint", "inspect", str(tmp_path / "a")]) == 0
    assert 'extra state: nothing, {"tokens":1}' in capsys.readouterr().out
    assert main(["checkpoint", "inspect", "--json", str(tmp_path / "a")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["extra_state"] == {"tokens": 1}
    assert main(["checkpoint", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert 'extra state: nothing, {"tokens":1} → nothing, {"tokens":2}' in capsys.readouterr().out
