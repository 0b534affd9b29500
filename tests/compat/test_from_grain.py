"""A run that Grain began goes on here."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, NoSharding, ShardOptions
from headrace.checkpoint import from_grain_state
from headrace.errors import CheckpointError

RECORDS = 61  # in two epochs more than three shards can share evenly


CASES = [
    # Grain's workers, shard ("loader": not of the sampler), filter, steps before the state is taken
    (0, (0, 1), False, 5),
    (0, (1, 3), True, 2),
    (1, (0, 1), True, 4),
    (2, (1, 2), False, 3),
    (2, (0, 1), False, 0),
    (3, (0, 1), True, 8),
    (3, (1, 2), True, 4),
    (0, (1, 3, "loader"), False, 3),
    (2, (2, 3, "loader"), False, 3),
]

PROGRAM = """
import json, sys
import grain
from absl import flags


class NotThirds(grain.transforms.Filter):
    def filter(self, element):
        return element % 3 != 0


def run(records, worker_count, shard, filters, steps):
    shards = grain.sharding.ShardOptions(*shard[:2])
    own, loaders = (grain.sharding.NoSharding(), shards) if shard[2:] else (shards, None)
    sampler = grain.samplers.IndexSampler(records, own, shuffle=True, num_epochs=2, seed=5)
    operations = [*([NotThirds()] if filters else []), grain.transforms.Batch(4)]
    source = list(range(records))
    options = {"worker_count": worker_count, "shard_options": loaders}
    loader = grain.DataLoader(data_source=source, sampler=sampler, operations=operations, **options)
    iterator = iter(loader)
    for _ in range(steps):
        next(iterator)
    return iterator.get_state().decode(), [batch.tolist() for batch in iterator]


if __name__ == "__main__":
    flags.FLAGS.mark_as_parsed()
    print(json.dumps([run(*case) for case in json.loads(sys.argv[1])]))
"""


RECORDED = Path(__file__).parent.parent / "grain_runs.json"


def runs_of_grain(folder):
    """For each case Grain's state at some step, and the batches that it would have delivered after
    it.
    """
    program = folder / "program.py"
    # a process of its own: Grain's workers need a main, and leave threads behind
    program.write_text(PROGRAM)
    cases = json.dumps([[RECORDS, *case] for case in CASES])
    done = subprocess.run(
        [sys.executable, str(program), cases], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def grain_runs():
    """What `runs_of_grain` gave when it was recorded: Grain's workers take seconds to start."""
    return json.loads(RECORDED.read_text())


@pytest.mark.long
def test_what_was_recorded_is_what_grain_gives(tmp_path, grain_runs):
    """To record anew, after Grain has changed: write `runs_of_grain` to the file."""
    assert runs_of_grain(tmp_path) == grain_runs


def _ours(shard, filters=False, batch=4, **changes):
    arguments = {"num_epochs": 2, "seed": 5, "shuffle": True, "algorithm": "grain", **changes}
    shards = ShardOptions(*shard[:2])
    own, loaders = (NoSharding(), shards) if shard[2:] else (shards, None)
    sampler = IndexSampler(RECORDS, own, **arguments)
    operations = [*([Filter(lambda x: x % 3 != 0)] if filters else []), Batch(batch)]
    return DataLoader(
        data_source=range(RECORDS), sampler=sampler, operations=operations, shard_options=loaders
    )


@pytest.mark.parametrize("number", range(len(CASES)), ids=map(str, CASES))
def test_the_records_that_grain_had_not_delivered_come_exactly_once(number, grain_runs):
    """From the real Grain's state, taken at several worker counts, shards and steps; our own states
    go on from there.
    """
    _, shard, filters, _ = CASES[number]
    state, rest = grain_runs[number]
    iterator = from_grain_state(state, _ours(shard, filters))
    got = [number for batch in islice(iterator, 3) for number in batch.tolist()]
    again = iter(_ours(shard, filters))
    again.set_state(iterator.get_state())
    got += [number for batch in again for number in batch.tolist()]
    assert sorted(got) == sorted(number for batch in rest for number in batch)


def test_without_workers_the_batches_are_grains(grain_runs):
    """With one worker, or none, the batches are those that Grain would have delivered next."""
    for (workers, shard, filters, steps), (state, rest) in zip(CASES, grain_runs):
        if workers <= 1:
            ours = from_grain_state(state.encode(), _ours(shard, filters))
            assert json.loads(ours.get_state())["step"] == (0 if filters else steps)
            assert [batch.tolist() for batch in ours] == rest


@pytest.mark.parametrize(
    ("state", "loader", "message"),
    [
        (b"\xff", _ours((0, 1)), "not JSON"),
        (b"[]", _ours((0, 1)), "last_seen_indices"),
        ({"next_index": 3}, _ours((0, 1)), "last_seen_indices"),
        (b'{"version": 3, "last_seen_indices": {}}', _ours((0, 1)), "version 3"),
        (b'{"version": 2, "last_seen_indices": {}, "worker_count": 1}', _ours((0, 1)), "damaged"),
        (
            b'{"version": 2, "last_seen_indices": {"0": 3}, "worker_count": 0}',
            _ours((1, 3)),
            "another shard",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": Infinity}, "worker_count": 0}',
            _ours((0, 1)),
            "damaged",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": 3}, "worker_count": Infinity}',
            _ours((0, 1)),
            "damaged",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": 2.9}, "worker_count": 0}',
            _ours((0, 1)),
            "damaged",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": 999}, "worker_count": 0}',
            _ours((0, 1)),
            "the end",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": 1}, "worker_count": 0, '
            b'"sampler": "IndexSampler(num_records=62, shuffle=True, seed=6)"}',
            _ours((0, 1)),
            "num_records 62 → 61, seed 6 → 5",
        ),
        (
            b'{"version": 2, "last_seen_indices": {"0": 1}, "worker_count": 0}',
            headrace.load(range(RECORDS), shuffle=True, seed=5),
            'algorithm="grain"',
        ),
    ],
)
def test_a_state_that_cannot_be_gone_on_from_is_refused(state, loader, message):
    """Foreign or damaged bytes, another shard, another sampler: the error says which."""
    with pytest.raises(CheckpointError, match=message):
        from_grain_state(state, loader)
