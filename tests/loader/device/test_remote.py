"""`RemoteLoader`: one process controls the loaders of several hosts, here groups of eight CPU
devices.
"""

from __future__ import annotations

import jax
import pytest

from headrace.loader.device.remote.caller import Caller

pytest.importorskip("jax.experimental.colocated_python")


class Host:
    """Notes the length of each call's argument."""

    def __init__(self):
        self.lengths = []

    def next(self, call):
        self.lengths.append(len(call))
        return [], call

    def take(self, call):
        self.lengths.append(len(call))
        return []


def test_each_layout_and_number_of_rows_has_calls_of_a_length_of_its_own():
    """Also none: jax compiles a method once for each length, and its results must be alike."""
    host, cpus = Host(), jax.devices("cpu")[:1]
    caller = Caller(cpus, cpus, 0, 1, host)
    for layout, rows in ((0, 8), (1, 8), (0, 4), (0, 8)):
        caller.ask(0)  # as the last one
        caller.take(0, layout, rows)
    none, first, again, second, same, third, other, back = host.lengths
    assert [again, same, other, back] == [first, second, third, first]
    assert len({none, first, second, third}) == 4


def test_batches_are_those_of_one_loader(run):
    """Two hosts of four devices: each loads its rows, of all leaves, and the global batch has them
    on the sharding.
    """
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_states_resume_on_any_number_of_hosts(run):
    """After filters, packs and mixes: each record comes once, whatever was prefetched, and the tree
    is small.
    """
    run(
        """
        def make(shard):
            thirds = headrace.Filter(lambda x: x % 3 != 0)
            return headrace.load(whole, shuffle=True, seed=3, transformations=[thirds], batch_size=8, num_epochs=1,
                                 shard_options=shard)
        kept = [x for x in range(200) if x % 3]
        for before, after in ((2, 2), (2, 4), (4, 1)):
            for steps in (0, 3):
                with iter(remote(make, before)) as batches:
                    seen = [x for _ in range(steps) for x in np.asarray(next(batches))[np.asarray(batches.mask)].tolist()]
                    batches.set_extra_state({"seen": len(seen)})
                    state = batches.get_state()
                    assert batches.step == steps and len(state) < 2000 * before
                with iter(remote(make, after)) as batches:
                    batches.set_state(state)
                    assert batches.step == steps and batches.get_extra_state() == {"seen": len(seen)}
                    seen += [x for rows in real(batches) for x in rows]
                assert sorted(seen) == kept, (before, after, steps)
        """
    )


@pytest.mark.slow
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
    """With the host's message; the state before it can still be saved. Each host tells once of
    integers that lose bits on the devices.
    """
    run(
        """
        import warnings
        large = np.arange(200) + 2**40
        def check(x):
            if x == large[51]:
                raise OSError("the disk is gone")
            return x
        def make(shard):
            return headrace.load(large, transformations=[check], batch_size=8, num_epochs=1, shard_options=shard)
        with warnings.catch_warnings(record=True) as found, iter(remote(make, 2, "error")) as batches:
            warnings.simplefilter("always")
            for _ in range(2):
                try:
                    while True:
                        next(batches)
                except headrace.errors.HostsError as error:
                    assert "process 1 failed: OSError: the disk is gone" in str(error), error
            assert batches.step == 3
            state = batches.get_state()
        assert ["outside of [-2147483648, 2147483647]" in str(each.message) for each in found] == [True] * 2
        with iter(remote(lambda shard: make(shard), 2, "error")) as batches:
            batches.set_state(state)
            assert batches.step == 3
        """
    )


@pytest.mark.slow
def test_a_loader_that_cannot_be_made_is_an_error_of_its_host(run):
    """At each step, also after a restore, as the state is right; the iterator can be closed."""
    printed = run(
        """
        def make(shard, fails=True):
            if shard.shard_index == 1 and fails:
                raise OSError("no such folder")
            return headrace.load(whole, batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make, 2)) as batches:
            for _ in range(2):
                try:
                    next(batches)
                except headrace.errors.HostsError as error:
                    print(error)
        with iter(remote(lambda shard: make(shard, False), 2)) as batches:
            state = batches.get_state()
        with iter(remote(make, 2)) as batches:
            batches.set_state(state)
            try:
                next(batches)
            except headrace.errors.HostsError as error:
                print(error)
        """
    ).splitlines()
    assert len(printed) == 3
    assert all("process 1 failed: OSError: no such folder" in line for line in printed)


@pytest.mark.slow
def test_wrong_arguments_are_refused(run):
    """With the value, and what to pass."""
    printed = run(
        """
        def make(shard):
            return headrace.load(whole, batch_size=8, shard_options=shard)
        columns = NamedSharding(Mesh(devices.reshape(2, 4), ("a", "b")), P("a", "b"))
        for arguments in ((3, 2), (make, 2, "fill"), (make, 2, "pad", columns)):
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
    assert "on_uneven='fill'" in printed[1]
    assert "divides other axes than the rows" in printed[2]
    assert "is not a state of a RemoteLoader" in printed[3]
    assert len(printed) == 7
    assert all("was closed" in line for line in printed[4:])


@pytest.mark.long
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
    assert [line.split(",")[0] for line in printed[1:]] == [
        "with ShardByJaxProcess",
        "with to_device",
    ]
    assert all("Use headrace.RemoteLoader" in line for line in printed[1:])


@pytest.mark.slow
def test_batches_by_budget_come_in_several_shapes(run):
    """The global batches are those of the shards, side by side; killed and resumed on other counts,
    each record comes once.
    """
    run(
        """
        lengths = np.random.default_rng(0).integers(1, 64, 200)
        records = [{"tokens": np.full(length, number, np.int32)} for number, length in enumerate(lengths)]
        def make(shard):
            budget = headrace.BudgetBatch(512, pad_to=(16, 32, 64), multiple_of=8, lengths=lengths)
            return headrace.load(records, transformations=[budget], shuffle=True, seed=0, num_epochs=1, shard_options=shard)
        def numbers(batch):
            held = np.asarray(batch["lengths"]) > 0
            assert (np.asarray(batch["mask"]).sum(1) == np.asarray(batch["lengths"])).all()
            return np.asarray(batch["tokens"])[held, 0].tolist()
        for hosts in (1, 4):
            shards = [headrace.ShardOptions(index, hosts) for index in range(hosts)]
            plain = [
                {name: np.concatenate([batch[name] for batch in step]) for name in step[0]}
                for step in zip(*map(make, shards), strict=True)
            ]
            with iter(remote(make, hosts, "error")) as batches:
                got = list(batches)
            assert len({batch["tokens"].shape for batch in got}) == 3
            assert len(got) == len(plain)
            for one, other in zip(got, plain):
                assert one["tokens"].sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
                for name in other:
                    assert (np.asarray(one[name]) == other[name]).all()
        for before, after, last in ((2, 4, 1), (4, 1, 2)):
            seen, state = [], None
            for hosts, steps in ((before, 2), (after, 1), (last, 100)):
                with iter(remote(make, hosts, "error")) as batches:
                    if state is not None:
                        batches.set_state(state)
                    seen += [x for _, batch in zip(range(steps), batches) for x in numbers(batch)]
                    state = batches.get_state()
            assert sorted(seen) == list(range(200)), (before, after, last)
        """
    )


@pytest.mark.long
def test_mixes_filters_and_packs_resume_on_other_numbers_of_hosts(run):
    """Killed twice, with batches made ahead: each document comes once, with its tokens together."""
    run(
        """
        def documents(start):
            return [{"tokens": np.full(1 + number % 7, start + number, np.int32)} for number in range(60)]
        def make(shard):
            parts = [headrace.MapDataset.source(documents(start)).shuffle(seed=start) for start in (100, 1000)]
            mix = headrace.MapDataset.mix(parts, [0.7, 0.3], when_exhausted="all").to_iter_dataset(shard_options=shard)
            return mix.filter(lambda record: record["tokens"][0] % 5 != 0).pack(16, window=32).batch(4)
        kept = {start + number: 1 + number % 7 for start in (100, 1000) for number in range(60) if (start + number) % 5}
        for counts in ((2, 4, 1), (1, 8, 2)):
            seen, state = {}, None
            for hosts, steps in zip(counts, (1, 2, 100)):
                with iter(remote(make, hosts, buffer_size=3)) as batches:
                    if state is not None:
                        batches.set_state(state)
                    for _, batch in zip(range(steps), batches):
                        tokens = np.asarray(batch["tokens"])[np.asarray(batches.mask)]
                        for number, count in zip(*np.unique(tokens[tokens > 0], return_counts=True)):
                            assert int(number) not in seen, (counts, number)
                            seen[int(number)] = int(count)
                    state = batches.get_state()
            assert seen == kept, counts
        """
    )


def test_missing_rows_are_repeated(run):
    """As in the feeders: rows of the same batch, then batches from the first one on, also after a
    resume in the middle.
    """
    run(
        """
        def make(shard):  # host 0 has 45 numbers, host 1 has 19
            kept = headrace.Filter(lambda x: x < 90 if x % 2 == 0 else x < 39)
            return headrace.load(whole, transformations=[kept], batch_size=8, num_epochs=1, shard_options=shard)
        own = [[x for x in range(200) if x % 2 == index and x < limit] for index, limit in ((0, 90), (1, 39))]
        parts = [[numbers[start : start + 8] for start in range(0, len(numbers), 8)] for numbers in own]
        expected, masks = [], []
        for step in range(6):
            rows, real = [], []
            for each in parts:
                batch = each[step] if step < len(each) else each[(step - len(each)) % len(each)]
                rows += [batch[row % len(batch)] for row in range(8)]
                real += [step < len(each) and row < len(batch) for row in range(8)]
            expected.append(rows)
            masks.append(real)
        for stop in (0, 2, 4, 5, 6):
            with iter(remote(make, 2, "repeat")) as batches:
                seen = [(np.asarray(next(batches)).tolist(), np.asarray(batches.mask).tolist()) for _ in range(stop)]
                state = batches.get_state()
            with iter(remote(make, 2, "repeat")) as batches:
                batches.set_state(state)
                seen += [(np.asarray(batch).tolist(), np.asarray(batches.mask).tolist()) for batch in batches]
            assert seen == list(zip(expected, masks)), stop
        def none(shard):
            return headrace.load(whole, transformations=[headrace.Filter(lambda x: x % 2 == 0)], batch_size=8, num_epochs=1,
                                 shard_options=shard)
        try:
            next(iter(remote(none, 2, "repeat")))
        except headrace.errors.HostsError as error:
            assert "process 1 has no batch at all" in str(error)
        else:
            raise AssertionError("no error")
        """
    )


@pytest.mark.long
def test_hosts_with_batches_of_different_shapes_are_refused(run):
    """With the shapes of each; as are rows that the devices of a host cannot divide."""
    printed = run(
        """
        def lengths(shard):
            return headrace.load([np.zeros(1 + shard.shard_index)] * 32, batch_size=8, num_epochs=1, shard_options=shard)
        def rows(shard):
            return headrace.load(whole, batch_size=6, num_epochs=1, shard_options=shard)
        for make in (lengths, rows):
            for _ in range(2):
                try:
                    next(iter(remote(make, 2, "error")))
                except headrace.errors.HostsError as error:
                    print(error)
        """
    ).splitlines()
    assert (
        "different batches at batch 0 of this run (process 0: itself float64[rows, 1]" in printed[0]
    )
    assert printed[1] == printed[0]
    assert (
        "batch 0 of this run has 6 rows of each host, which its devices cannot divide into 4 equal "
        "parts" in printed[2]
    )
    assert len(printed) == 4


@pytest.mark.long
def test_numbers_come_as_from_other_feeders(run):
    """Those of jax's own types, too."""
    run(
        """
        import jax.numpy as jnp
        narrow = np.arange(64).astype(jnp.bfloat16)
        with iter(remote(lambda shard: headrace.load(narrow, batch_size=8, num_epochs=1, shard_options=shard), 2)) as batches:
            first = next(batches)
        assert first.dtype == jnp.bfloat16
        assert np.asarray(first).astype(int).tolist() == [*range(0, 16, 2), *range(1, 16, 2)]
        """
    )


@pytest.mark.long
def test_batches_may_have_many_leaves(run):
    """Their description, which is longer than one array of text, comes in parts; the state is that
    of all leaves.
    """
    run(
        """
        def make(shard):
            records = {f"a_leaf_of_number_{number}": np.arange(64) + number for number in range(100)}
            return headrace.load(records, batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make, 2)) as batches:
            first = next(batches)
            assert len(headrace.loader.device.hosts.template.to_text(first)) > headrace.loader.device.remote.texts.PART_BYTES
            for number in range(100):
                got = np.asarray(first[f"a_leaf_of_number_{number}"]).tolist()
                assert got == [x + number for x in [*range(0, 16, 2), *range(1, 16, 2)]]
        """
    )


@pytest.mark.long
def test_a_state_of_another_loader_is_refused(run):
    """With the host's reason."""
    printed = run(
        """
        def make(count):
            return lambda shard: headrace.load(whole[:count], batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make(200), 2)) as batches:
            next(batches)
            state = batches.get_state()
        with iter(remote(make(100), 2)) as batches:
            batches.set_state(state)
            for _ in range(2):
                try:
                    next(batches)
                except headrace.errors.CheckpointError as error:
                    print(error)
            batches.set_state(state, strict=False)
            assert np.asarray(next(batches)).tolist() == [*range(16, 32, 2), *range(17, 32, 2)]
        """
    ).splitlines()
    assert len(printed) == 2
    assert all("the state does not fit the loader of a host: " in line for line in printed)


@pytest.mark.slow
def test_a_preempted_run_is_saved_and_resumed_on_another_number_of_hosts(run):
    """By `on_preemption`, as other iterators."""
    run(
        """
        import os, signal
        def make(shard):
            return headrace.load(whole, shuffle=True, seed=1, batch_size=16 // shard.shard_count, num_epochs=1,
                                 shard_options=shard)
        saved, seen = [], []
        with iter(remote(make, 4)) as iterator:
            with headrace.on_preemption(iterator, lambda it: saved.append(it.get_state())) as batches:
                for batch in batches:
                    seen += np.asarray(batch)[np.asarray(iterator.mask)].tolist()
                    if iterator.step == 3:
                        os.kill(os.getpid(), signal.SIGTERM)
            assert batches.preempted and iterator.step == 3
        with iter(remote(make, 2)) as iterator:
            iterator.set_state(saved[0])
            seen += [x for rows in real(iterator) for x in rows]
        assert sorted(seen) == list(range(200))
        """
    )


@pytest.mark.slow
def test_states_are_saved_in_files(run):
    """By `StateFile`, which may also restore at once on another number of hosts."""
    run(
        """
        import tempfile
        from headrace.checkpoint import StateFile
        def make(shard):
            return headrace.load(whole, batch_size=8, num_epochs=1, shard_options=shard)
        path = tempfile.mkdtemp() + "/state.json"
        with iter(remote(make, 2)) as batches, StateFile(path) as file:
            assert not file.restore(batches)
            seen = np.asarray(next(batches)).tolist()
            file.save(batches)
        with iter(remote(make, 4)) as batches, StateFile(path) as file:
            assert file.restore(batches) and batches.step == 1
            seen += [x for rows in real(batches) for x in rows]
        assert sorted(seen) == list(range(200))
        """
    )
