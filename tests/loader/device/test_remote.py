"""`RemoteLoader`: one process controls the loaders of several hosts, here groups of eight CPU devices."""

from __future__ import annotations

import pytest
from support import device_programs

pytest.importorskip("jax.experimental.colocated_python")

PRELUDE = """
import jax, numpy as np
import headrace
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = np.array(jax.devices())
assert len(devices) == 8
mesh = Mesh(devices, ("data",))
whole = np.arange(200)

def remote(make_loader, hosts, on_uneven="pad", sharding=(mesh, "data"), **options):
    return headrace.RemoteLoader(make_loader, sharding, on_uneven, host_of=lambda device: device.id * hosts // 8, **options)

def real(iterator):
    return [np.asarray(batch)[np.asarray(iterator.mask)].tolist() for batch in iterator]
"""


@pytest.fixture(scope="module")
def interpreter():
    """One with eight devices."""
    own = device_programs.Interpreter(**device_programs.EIGHT)
    yield own
    own.close()


@pytest.fixture
def run(interpreter):
    """Runs a program, and returns what it prints."""
    return lambda program: interpreter.run(PRELUDE + device_programs.textwrap.dedent(program))


def test_batches_are_those_of_one_loader(run):
    """Two hosts of four devices: each loads its rows, of all leaves, and the global batch has them on the sharding."""
    run(
        """
        records = {"x": np.arange(600, dtype=np.float32).reshape(200, 3), "y": np.arange(200, dtype=np.int32)}
        def make(shard):
            return headrace.load(records, shuffle=True, seed=1, batch_size=16 // shard.shard_count, num_epochs=1,
                                 drop_remainder=True, shard_options=shard)
        plain = list(headrace.load(records, shuffle=True, seed=1, batch_size=16, num_epochs=1, drop_remainder=True))
        for hosts in (1, 2, 4):
            with iter(remote(make, hosts, "error")) as batches:
                got = list(batches)
            assert len(got) == len(plain) == 12, (hosts, len(got), len(plain))
            for one, other in zip(got, plain):
                assert one["x"].sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
                assert one["x"].shape == (16, 3)
                for leaf in ("x", "y"):
                    striped = np.concatenate([other[leaf][shard::hosts] for shard in range(hosts)])
                    assert np.asarray(one[leaf]).tolist() == striped.tolist()
        """
    )


def test_hosts_with_the_same_rows_load_the_same_data(run):
    """On a mesh of data × model, devices of the model axis hold the same rows."""
    run(
        """
        grid = Mesh(devices.reshape(2, 4), ("data", "model"))
        def make(shard):
            assert shard.shard_count == 2
            return headrace.load(whole, batch_size=8, num_epochs=1, shard_options=shard, drop_remainder=True)
        with iter(remote(make, 4, "error", (grid, "data"))) as batches:
            first = next(batches)
        assert first.shape == (16,)
        assert np.asarray(first).tolist() == [*range(0, 16, 2), *range(1, 16, 2)]
        """
    )


def test_states_resume_on_any_number_of_hosts(run):
    """After filters, packs and mixes: each record comes once, whatever was prefetched, and the tree is small."""
    run(
        """
        def make(shard):
            thirds = headrace.Filter(lambda x: x % 3 != 0)
            return headrace.load(whole, shuffle=True, seed=3, transformations=[thirds], batch_size=8, num_epochs=1,
                                 shard_options=shard)
        kept = [x for x in range(200) if x % 3]
        for before, after in ((2, 2), (2, 4), (4, 1), (1, 8)):
            for steps in (0, 1, 3):
                with iter(remote(make, before)) as batches:
                    seen = [x for _ in range(steps) for x in np.asarray(next(batches))[np.asarray(batches.mask)].tolist()]
                    state = batches.get_state()
                    assert batches.step == steps and len(state) < 2000 * before
                with iter(remote(make, after)) as batches:
                    batches.set_state(state)
                    assert batches.step == steps
                    seen += [x for rows in real(batches) for x in rows]
                assert sorted(seen) == kept, (before, after, steps)
        """
    )


def test_mixes_and_packs_run_on_hosts(run):
    """Killed in the middle and resumed, the packed rows of a mix are those of a run without a stop."""
    run(
        """
        def documents(start):
            return [{"tokens": np.full(1 + number % 7, start + number, np.int32)} for number in range(60)]
        def make(shard):
            parts = [headrace.MapDataset.source(documents(start)).shuffle(seed=start) for start in (100, 1000)]
            mix = headrace.MapDataset.mix(parts, [0.5, 0.5], when_exhausted="all").to_iter_dataset(shard_options=shard)
            return mix.pack(16, window=32).batch(4)
        def rows(batches):
            return [np.asarray(batch["tokens"])[np.asarray(batches.mask)].tolist() for batch in batches]
        with iter(remote(make, 2)) as batches:
            whole_run = rows(batches)
        with iter(remote(make, 2)) as batches:
            head = [np.asarray(next(batches)["tokens"])[np.asarray(batches.mask)].tolist() for _ in range(2)]
            state = batches.get_state()
        with iter(remote(make, 2)) as batches:
            batches.set_state(state)
            assert head + rows(batches) == whole_run
        """
    )


def test_uneven_hosts_are_refused_dropped_or_filled_up(run):
    """One has no batch at all; a short last batch that all have comes as it is."""
    run(
        """
        def make(shard):  # host 0 has 100 even numbers, host 1 none
            return headrace.load(whole, transformations=[headrace.Filter(lambda x: x % 2 == 0)], batch_size=8, num_epochs=1,
                                 shard_options=shard)
        with iter(remote(make, 2)) as batches:
            seen = real(batches)
        assert len(seen) == 13 and sum(map(len, seen)) == 100
        with iter(remote(make, 2, "drop")) as batches:
            assert list(batches) == []
        try:
            next(iter(remote(make, 2, "error")))
        except headrace.errors.HostsError as error:
            assert "process 1: none, its stream has ended" in str(error)
        else:
            raise AssertionError("no error")
        def even(shard):
            return headrace.load(whole[:48], batch_size=16, num_epochs=1, shard_options=shard)
        with iter(remote(even, 2, "error")) as batches:
            shapes = [batch.shape for batch in batches]
        assert shapes == [(32,), (16,)]
        with iter(remote(even, 2, "error")) as batches:
            assert np.asarray(list(batches)[1]).tolist() == [*range(32, 48, 2), *range(33, 48, 2)]
        """
    )


def test_an_error_on_a_host_is_raised_here(run):
    """With the host's message; the state before it can still be saved."""
    run(
        """
        def check(x):
            if x == 51:
                raise OSError("the disk is gone")
            return x
        def make(shard):
            return headrace.load(whole, transformations=[check], batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make, 2, "error")) as batches:
            for _ in range(2):
                try:
                    while True:
                        next(batches)
                except headrace.errors.HostsError as error:
                    assert "process 1 failed: OSError: the disk is gone" in str(error), error
            assert batches.step == 3
            state = batches.get_state()
        with iter(remote(lambda shard: make(shard), 2, "error")) as batches:
            batches.set_state(state)
            assert batches.step == 3
        """
    )


def test_wrong_arguments_are_refused(run):
    """With the value, and what to pass."""
    printed = run(
        """
        def make(shard):
            return headrace.load(whole, batch_size=8, shard_options=shard)
        columns = NamedSharding(Mesh(devices.reshape(2, 4), ("a", "b")), P("a", "b"))
        for arguments in ((3, 2), (make, 2, "repeat"), (make, 2, "pad", columns)):
            try:
                remote(*arguments)
            except (TypeError, ValueError, headrace.errors.ShardingError) as error:
                print(type(error).__name__, error)
        try:
            iter(remote(make, 2)).set_state(b"{}")
        except headrace.errors.CheckpointError as error:
            print(error)
        closed = iter(remote(make, 2))
        state = closed.get_state()
        closed.close()
        for call in (closed.get_state, lambda: next(closed), lambda: closed.set_state(state)):
            try:
                call()
            except headrace.errors.ClosedError as error:
                print(error)
        """
    ).splitlines()
    assert "TypeError make_loader=3 is an int" in printed[0]
    assert "on_uneven='repeat'" in printed[1]
    assert "divides other axes than the rows" in printed[2]
    assert "is not a state of a RemoteLoader" in printed[3]
    assert len(printed) == 7
    assert all("was closed" in line for line in printed[4:])


def test_a_process_that_controls_all_hosts_is_warned(run):
    """What would read the data of all hosts names `RemoteLoader`; elsewhere nothing is said."""
    printed = run(
        """
        import warnings
        def said():
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                headrace.ShardByJaxProcess()
                headrace.load(whole, batch_size=8).to_device(devices[0])
                remote(lambda shard: None, 2)
            return [str(each.message) for each in found]
        print(said())
        platforms = jax.config.jax_platforms
        jax.config.update("jax_platforms", "proxy,cpu")
        print(*said(), sep="\\n")
        jax.config.update("jax_platforms", platforms)
        """
    ).splitlines()
    assert printed[0] == "[]"
    assert [line.split(",")[0] for line in printed[1:]] == ["with ShardByJaxProcess", "with to_device"]
    assert all("Use headrace.RemoteLoader" in line for line in printed[1:])
