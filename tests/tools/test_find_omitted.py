"""`headrace find --omitted`: that no record that is left out was read, or will be."""

from __future__ import annotations

import json

import numpy as np
import pytest

import headrace
from headrace import ShardOptions
from headrace.errors import TraceError


def _loader(omit=None, shard=(0, 1), **options):
    options = {"shuffle": True, "seed": 0, "batch_size": 4, **options}
    return headrace.load(range(40), omit=omit, shard_options=ShardOptions(*shard), **options)


def _state(loader, steps, state=None):
    with iter(loader) as iterator:
        if state is not None:
            iterator.set_state(state)
        taken = [np.ravel(next(iterator)).tolist() for _ in range(steps)]
        return taken, iterator.get_state()


def test_nothing_that_is_left_out_is_found_since_it_is():
    """Before that step it was read: the records, their steps and positions are told."""
    taken, state = _state(_loader(), 3)
    gone = [taken[1][2], _state(_loader(), 4)[0][3][1]]
    _, after = _state(_loader(gone), 4, state)
    loader = _loader(gone)
    search = headrace.find_omitted(loader, 3, after)
    assert not search
    assert search.keys == 2
    assert search.positions == 4 * 4 + 2 * 38  # of the steps since, and of two epochs
    assert "none is read" in str(search)
    before = headrace.find_omitted(loader, 0, after)
    assert [(found.step, found.key, found.position) for found in before.found] == [(1, gone[0], 6)]
    assert before.count == 1
    assert "1 are read" in str(before)
    assert str(gone[0]) in str(before)


def test_a_record_that_is_read_is_found():
    """A planted one: keys that a loader does not leave out, at each of their places; on shards,
    too.
    """
    steps = _state(_loader(num_epochs=2), 20)[0]
    search = headrace.find_omitted(_loader(num_epochs=2), keys=[7, 30])
    assert search.whole
    assert search.count == 4
    assert [(found.key, found.step) for found in search.found] == [
        (key, step) for step, keys in enumerate(steps) for key in keys if key in (7, 30)
    ]
    states = [_state(_loader([3], (shard, 2)), 2)[1] for shard in range(2)]
    assert not headrace.find_omitted(_loader([3]), 2, states)
    found = headrace.find_omitted(_loader([3], (0, 3)), 2, states, keys=[3, 4], shards=3).found
    assert {record.key for record in found} == {4}
    assert all((step := record.step) is not None and step >= 2 for record in found)


def test_of_mixes_and_of_streams_whose_steps_are_not_known():
    """Records are told by part; with a filter, a record that is dropped counts, and no step is
    told.
    """
    parts = {"a": range(5), "b": range(6)}
    mix = headrace.MixSampler(parts, when_exhausted="repeat", shuffle=True, seed=0)
    loader = headrace.DataLoader(data_source=parts, sampler=mix, omit={"a": [1], "b": {0, 4}})
    search = headrace.find_omitted(loader)
    assert (bool(search), search.keys) == (False, 3)
    assert {
        (found.dataset, found.key)
        for found in headrace.find_omitted(loader, keys={"b": [1, 4]}).found
    } == {("b", 1)}
    filtered = _loader([3], transformations=[headrace.Filter(lambda key: key < 20)])
    assert not headrace.find_omitted(filtered)
    assert {
        (found.key, found.step) for found in headrace.find_omitted(filtered, keys=[30]).found
    } == {(30, None)}


def test_what_has_no_such_order_is_refused():
    """A loader that omits no records, packed rows that are planned, and keys that are
    not a list.
    """
    with pytest.raises(TraceError, match=r"loader omits none, or keys= is empty\. Pass the keys"):
        headrace.find_omitted(_loader())
    planned = headrace.load(
        [np.zeros(3)] * 4, transformations=[headrace.BudgetBatch(8, lengths=[3] * 4)], num_epochs=1
    )
    with pytest.raises(TraceError, match="packed rows that are planned"):
        headrace.find_omitted(planned, keys=[1])
    with pytest.raises(TypeError, match="keys=3 is an int"):
        headrace.find_omitted(_loader(), keys=3)


def test_the_command_says_so_and_its_status_too(tmp_path, capsys):
    """0 if none is read, 1 if one is."""
    from headrace.tools.command_line import main

    program = tmp_path / "train.py"
    program.write_text(
        "import headrace\n\nloader = headrace.load(range(40), shuffle=True, seed=0, batch_size=4, "
        "omit=[3, 8])\n"
    )
    state = tmp_path / "state.json"
    state.write_bytes(_state(_loader([3]), 2)[1])
    assert main(["find", str(state), str(program), "--omitted", "--since", "2"]) == 0
    assert capsys.readouterr().out.startswith(
        "2 records looked for at 76 positions, from step 2 to the end of the next"
    )
    (tmp_path / "keys.txt").write_text("3\n9\n")
    assert (
        main(["find", str(program), "--omitted", "--keys", str(tmp_path / "keys.txt"), "--json"])
        == 1
    )
    assert {found["key"] for found in json.loads(capsys.readouterr().out)["found"]} == {9}


def test_of_streams_that_are_joined():
    """By the names of the streams; of one that is repeated, from its beginning."""
    one = (
        headrace.MapDataset.range(20)
        .shuffle(seed=1)
        .to_iter_dataset()
        .filter(lambda key: key % 2 == 0)
    )
    other = headrace.MapDataset.range(30).to_iter_dataset()
    mix = headrace.IterDataset.mix({"one": one, "other": other.omit([4])}, when_exhausted="repeat")
    assert not headrace.find_omitted(mix)
    found = headrace.find_omitted(mix, keys={"one": [3], "other": [4, 5]})
    assert {(record.dataset, record.key, record.step) for record in found.found} == {
        ("one", 3, None),
        ("other", 5, None),
    }
    again = other.omit([7]).repeat(2)
    _, state = _state(again, 20)
    assert not headrace.find_omitted(again, 20, state)
    assert {
        record.key for record in headrace.find_omitted(again, 20, state, keys={"0": [2, 7]}).found
    } == {2}
    with pytest.raises(TraceError, match=r"joined datasets: one, other\. Pass keys="):
        headrace.find_omitted(mix, keys=[4])


def test_a_function_of_the_program_that_fails_is_told_with_the_program(tmp_path, capsys):
    """The line of the program, not our frames."""
    from headrace.tools.command_line import main

    program = tmp_path / "train.py"
    program.write_text(
        "import headrace\n\n\nclass Sampler(headrace.IndexSampler):\n    def record_keys(self, "
        "positions):\n        raise ArithmeticError('no keys')\n\n\nloader = "
        "headrace.DataLoader(data_source=range(9), sampler=Sampler(9))\n"
    )
    (tmp_path / "keys.txt").write_text("3\n")
    assert main(["find", str(program), "--omitted", "--keys", str(tmp_path / "keys.txt")]) == 2
    assert (
        "train.py by itself first, because it fails at line 6: ArithmeticError: no keys"
        in capsys.readouterr().err
    )
