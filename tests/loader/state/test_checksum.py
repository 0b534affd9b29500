"""States have a checksum: one of which a part was changed or lost is refused, wherever
it was kept.
"""

import asyncio
import json

import jax
import pytest
from support.damage import ODD_VALUES, paths_in, sealed, with_value
from support.pipelines import loader, stream

import headrace
from headrace import IterDataset, MapDataset, ShardOptions
from headrace.checkpoint import StateFile
from headrace.compat import grain
from headrace.errors import CheckpointError
from headrace.loader.state.files import restore

DAMAGED = "checksum|not JSON|not a state|version"


def limited():
    """A limit of a mix: two numbers in the cursor count the same rows."""
    parts = [
        MapDataset.range(first, first + 30).to_iter_dataset().filter(lambda x: x % 3)
        for first in (0, 100)
    ]
    return IterDataset.mix(parts).limit(20)


def mixed():
    """What is made of that is taken apart, and put together."""
    return limited().flat_map(lambda x: [x] * (x % 3)).batch(3)


def several():
    """Of one shard after three."""
    shards = [
        iter(headrace.load(range(90), batch_size=4, shard_options=ShardOptions(index, 3)))
        for index in range(3)
    ]
    for steps, shard in enumerate(shards, start=1):
        assert [next(shard) for _ in range(steps)]
    whole = iter(headrace.load(range(90), batch_size=4))
    whole.set_states([shard.get_state() for shard in shards])
    return whole


ITERATORS = {
    "batches": lambda: iter(headrace.load(range(90), batch_size=4, shuffle=True, seed=1)),
    "taken apart": lambda: iter(loader("flat map, random, batch, random")),
    "mix": lambda: iter(mixed()),
    "elastic": several,
    "epochs": lambda: headrace.load(range(90), batch_size=4, num_epochs=3).epochs(3),
    "feeder": lambda: iter(headrace.load(range(90), batch_size=4).to_device(jax.devices("cpu")[0])),
}


def moved(name):
    """An iterator that has given something."""
    iterator = ITERATORS[name]()
    next(next(iterator)) if name == "epochs" else next(iterator)
    return iterator


@pytest.mark.parametrize("name", ITERATORS)
def test_a_state_of_which_any_byte_was_changed_or_lost_is_refused(name):
    """Each third byte in turn, other ones of each iterator; the iterator stays where it was."""
    with moved(name) as iterator:
        state = iterator.get_state()
        for place in range(len(name) % 3, len(state), 3):
            rest = state[place + 1 :]
            for damaged in (
                state[:place],
                state[:place] + rest,
                state[:place] + bytes([state[place] ^ 1]) + rest,
            ):
                with pytest.raises(CheckpointError, match=DAMAGED):
                    iterator.set_state(damaged)
        assert iterator.get_state() == state


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", [*ITERATORS, "grain"])
def test_a_dict_of_which_any_value_was_changed_is_refused(name):
    """Each value in turn, by each of many others; the message tells both checksums where there are
    such.
    """
    chain = grain.MapDataset.range(90).shuffle(seed=1).to_iter_dataset().batch(4)
    iterator = iter(chain) if name == "grain" else moved(name)
    if name == "grain":
        next(iterator)
    state = iterator.get_state() if name == "grain" else iterator.state_dict()
    take = iterator.set_state if name == "grain" else iterator.load_state_dict
    for path in list(paths_in(state))[1:]:
        for value in ODD_VALUES:
            damaged = with_value(state, path, value)
            if json.dumps(damaged) != json.dumps(state):
                with pytest.raises(CheckpointError, match=DAMAGED):
                    take(damaged)
    take(state)
    iterator.close()


def test_numbers_that_contradict_one_another_are_refused():
    """A limit that has counted more rows than its mix has given; the message says what to pass."""
    iterator = iter(limited())
    assert len([next(iterator) for _ in range(4)]) == 4
    state, place = json.loads(iterator.get_state()), ("cursor", 2, 1, 0)
    assert 0 < state["cursor"][2][1][0] < 15
    with pytest.raises(
        CheckpointError, match=r"is damaged: its checksum is '[0-9a-f]{8}'.*Pass what get_state"
    ):
        iter(limited()).set_state(json.dumps(with_value(state, place, 15)).encode())


@pytest.mark.parametrize("name", ["batch", "filter, batch", "flat map, random, batch, random"])
def test_a_state_may_be_written_in_another_way(name):
    """With spaces, in another order, and as text: what it says is the same."""
    iterator = iter(loader(name))
    next(iterator)
    values = json.loads(iterator.get_state())
    expected = stream(iterator)
    for text in (
        json.dumps(values, indent=2),
        json.dumps(dict(reversed(values.items())), ensure_ascii=False),
    ):
        iterator.set_state(text)
        assert stream(iterator) == expected


def test_a_state_without_a_checksum_is_refused():
    """It is none that get_state() returned."""
    iterator = iter(loader("batch"))
    values = json.loads(iterator.get_state())
    del values["checksum"]
    with pytest.raises(CheckpointError, match=r"is not a state of a headrace loader\. It must be"):
        iterator.set_state(json.dumps(values).encode())


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_a_state_of_another_version_is_refused(version):
    """The error names both versions, and what to do."""
    iterator = iter(loader("batch"))
    state = sealed({**json.loads(iterator.get_state()), "version": version})
    with pytest.raises(
        CheckpointError,
        match=r"has version .*, but this headrace reads version 1\. Install the version",
    ):
        iterator.set_state(state)


def test_the_states_of_all_shards_are_each_checked():
    """The message says which it was."""
    shards = [
        iter(headrace.load(range(9), shard_options=ShardOptions(index, 2))) for index in range(2)
    ]
    states = [shard.get_state() for shard in shards]
    states[1] = states[1].replace(b'"step":0', b'"step":1')
    with pytest.raises(
        CheckpointError, match=r"states\[1\] of 2: the state is damaged: its checksum"
    ):
        iter(headrace.load(range(9))).set_states(states)


def test_files_of_states_are_checked(tmp_path):
    """A state file, and the file of a checkpoint of Orbax: the error names the place, and the
    iterator stays where it was.
    """
    iterator = moved("batches")
    (tmp_path / "folder").mkdir()
    with StateFile(tmp_path / "state.json") as file:
        file.save(iterator)

    async def saved():
        class Folder:
            async def await_creation(self):
                return tmp_path / "folder"

        await (await iterator.save(Folder()))

    asyncio.run(saved())
    state = iterator.get_state()
    for path in (tmp_path / "state.json", tmp_path / "folder" / "process_0-of-1.json"):
        path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":2'))
    with pytest.raises(CheckpointError, match=r"state\.json: the state is damaged: its checksum"):
        StateFile(tmp_path / "state.json").restore(iterator)
    with pytest.raises(CheckpointError, match=r"folder: the state is damaged: its checksum"):
        restore(tmp_path / "folder", iterator)
    assert iterator.get_state() == state
