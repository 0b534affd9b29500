"""`RemoteLoader.epochs`: loops over epochs on all hosts, with one state."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import headrace
from headrace.loader.device.remote.epochs import OfEpoch

pytest.importorskip("jax.experimental.colocated_python")

EPOCHS = """
def make(shard):
    thirds = headrace.Filter(lambda x: x % 3 != 0)
    return headrace.load(np.arange(60), shuffle=True, seed=3, transformations=[thirds], batch_size=16 // shard.shard_count,
                         shard_options=shard)
kept = [x for x in range(60) if x % 3]

def rows(batches, limit=None):
    found = []
    for batch in batches:
        found.append(np.asarray(batch)[np.asarray(batches.mask)].tolist())
        if len(found) == limit:
            break
    return found
"""


@pytest.fixture
def loops(run):
    """Runs a program that loops over epochs."""
    return lambda program: run(EPOCHS + textwrap.dedent(program))


def test_the_loader_of_an_epoch_on_a_host_is_that_of_its_loader():
    """What is not a `DataLoader` has no epochs."""

    def make(shard):
        return headrace.load(np.arange(8), shuffle=True, seed=3, batch_size=2, shard_options=shard)

    shard = headrace.ShardOptions(1, 2)
    epochs = [[batch.tolist() for batch in epoch] for epoch in make(shard).epochs(2)]
    assert [batch.tolist() for batch in OfEpoch(make, 2, 1)(shard)] == epochs[1] != epochs[0]
    with pytest.raises(TypeError, match="returns a DataLoader, but this one returns a list"):
        OfEpoch(lambda shard: [], 2, 1)(shard)


@pytest.mark.slow
def test_each_epoch_is_that_of_the_loaders(loops):
    """The rows of each host are those of its loader's epoch; steps are counted over all epochs."""
    loops(
        """
        for hosts in (1, 2):
            plain = [[[batch.tolist() for batch in epoch] for epoch in make(headrace.ShardOptions(index, hosts)).epochs(2)]
                     for index in range(hosts)]
            steps = 0
            with remote(make, hosts).epochs(2) as epochs:
                for number, epoch in enumerate(epochs):
                    assert (epochs.epoch, epochs.step) == (number, steps)
                    found = rows(epoch)
                    steps += len(found)
                    assert epochs.epoch == number + 1 and epoch.step == epochs.step == steps
                    longest = max(len(plain[index][number]) for index in range(hosts))
                    own = [plain[index][number] + [[]] * longest for index in range(hosts)]
                    assert found == [[x for index in range(hosts) for x in own[index][step]] for step in range(longest)]
                    assert sorted(x for batch in found for x in batch) == kept
                assert number == 1 and epoch.stats().steps == len(found)
        """
    )


@pytest.mark.slow
def test_epochs_resume_on_other_numbers_of_hosts(loops):
    """Killed in the second epoch, and after a loop: each record comes once in each epoch."""
    loops(
        """
        for (before, after), stop in (((2, 4), 2), ((4, 1), 1), ((1, 2), None)):
            seen = {0: [], 1: [], 2: []}
            def take(epochs, epoch, limit):
                found = rows(epoch, limit)
                seen[number].extend(x for batch in found for x in batch)
            with remote(make, before).epochs(3) as epochs:
                for number, epoch in enumerate(epochs):
                    take(epochs, epoch, stop if number == 1 else None)
                    epochs.set_extra_state({"epoch": number})
                    if number == 1:
                        state, step = epochs.get_state(), epochs.step
                        break
            with remote(make, after).epochs(3) as epochs:
                epochs.set_state(state)
                assert epochs.step == step and epochs.epoch == (1 if stop else 2)
                for epoch in epochs:
                    assert epoch.get_extra_state() == {"epoch": 1}
                    number = epochs.epoch
                    take(epochs, epoch, None)
            assert {number: sorted(found) for number, found in seen.items()} == {0: kept, 1: kept, 2: kept}, (before, after)
        """
    )


@pytest.mark.long
def test_uneven_epochs_follow_the_rule_of_the_loader(loops):
    """With "drop", each epoch ends with its shortest host, and the next begins from its start; with
    "error", it is refused.
    """
    loops(
        """
        def uneven(shard):  # host 0 has 20 numbers in each epoch, host 1 has 10
            kept = headrace.Filter(lambda x: x < 40 if x % 2 == 0 else x < 20)
            return headrace.load(whole, transformations=[kept], batch_size=8, shard_options=shard)
        with remote(uneven, 2, "drop").epochs(2) as epochs:
            found = [[np.asarray(batch).tolist() for batch in epoch] for epoch in epochs]
        first = [*range(0, 16, 2), *range(1, 17, 2)]
        assert [epoch[0] for epoch in found] == [first, first] and {len(epoch) for epoch in found} == {1}, found
        with remote(uneven, 2, "error").epochs(2) as epochs:
            try:
                for epoch in epochs:
                    list(epoch)
            except headrace.errors.HostsError as error:
                assert "process 1" in str(error)
            else:
                raise AssertionError("no error")
        """
    )


@pytest.mark.slow
def test_wrong_epochs_are_refused(loops):
    """Numbers of epochs, states of one loop, and what is not a `DataLoader`, with what to do."""
    printed = loops(
        """
        for count in (0, 1.5):
            try:
                remote(make, 2).epochs(count)
            except (TypeError, ValueError) as error:
                print(error)
        with iter(remote(make, 2)) as batches, remote(make, 2).epochs(2) as epochs:
            for state in (batches.get_state(), b"{}"):
                try:
                    epochs.set_state(state)
                except headrace.errors.CheckpointError as error:
                    print(error)
        def dataset(shard):
            return headrace.MapDataset.range(32).to_iter_dataset(shard_options=shard).batch(8)
        with remote(dataset, 1).epochs(2) as epochs:
            try:
                next(next(epochs))
            except headrace.errors.HostsError as error:
                print(error)
        """
    ).splitlines()
    assert "count=0" in printed[0]
    assert "count=1.5" in printed[1]
    assert "this state was saved by iter(loader)" in printed[2]
    assert "is not a state of a RemoteLoader" in printed[3]
    assert "needs a make_loader that returns a DataLoader" in printed[4]


@pytest.mark.long
def test_states_of_shards_with_processes_of_their_own_are_restored(loops):
    """A run whose hosts had a process each goes on in one process that controls all hosts."""
    loops(
        """
        seen, states = [], []
        for index in (1, 0):
            iterator = iter(headrace.load(whole, batch_size=8, num_epochs=1, shard_options=headrace.ShardOptions(index, 2)))
            seen += [x for _ in range(3) for x in next(iterator).tolist()]
            states.append(iterator.get_state())
        def plain(shard):
            return headrace.load(whole, batch_size=8, num_epochs=1, shard_options=shard)
        for hosts, given, equal in ((2, states, False), (4, states, False), (4, states[:1], True)):
            with iter(remote(plain, hosts)) as batches:
                batches.set_states(given, equal_steps=equal)
                assert batches.step == 3
                rest = [x for batch in rows(batches) for x in batch]
                assert batches.ended
            assert sorted(seen + rest) == list(range(200)), (hosts, equal)
        """
    )


@pytest.mark.slow
def test_epochs_of_shards_with_processes_of_their_own_are_restored(loops):
    """In the middle of the second epoch, on another number of hosts."""
    loops(
        """
        seen, states = [], []
        for index in range(2):
            epochs = make(headrace.ShardOptions(index, 2)).epochs(2)
            list(next(epochs))
            seen += next(next(epochs)).tolist()
            states.append(epochs.get_state())
        with remote(make, 1).epochs(2) as epochs:
            epochs.set_states(states)
            assert epochs.epoch == 1
            for epoch in epochs:
                seen += [x for batch in rows(epoch) for x in batch]
        assert sorted(seen) == kept
        """
    )
