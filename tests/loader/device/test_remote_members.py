"""Members that the iterator of a `RemoteLoader` has in common with other iterators."""

from __future__ import annotations

import pytest

pytest.importorskip("jax.experimental.colocated_python")


@pytest.mark.slow
def test_it_has_the_members_of_a_feeder(run):
    """Except the iterator of this process, from which a feeder reads."""
    run(
        """
        from headrace.loader.device.device_feeder import DeviceFeeder
        from headrace.loader.device.remote.iterator import RemoteIterator
        def public(kind):
            return {name for name in dir(kind) if not name.startswith("_")}
        assert public(DeviceFeeder) - public(RemoteIterator) - {"mask"} == {"host_iterator"}
        """
    )


@pytest.mark.slow
def test_lengths_and_records_are_those_of_all_hosts(run):
    """As those of the loaders of the shards at the same step, whatever was made ahead; also after a
    resume.
    """
    run(
        """
        parts = {"web": range(100), "books": range(20)}
        def make(shard):
            sampler = headrace.MixSampler(parts, weights={"web": 0.7, "books": 0.3}, shard_options=shard)
            return headrace.DataLoader(data_source=parts, sampler=sampler, operations=[headrace.Batch(8)])
        shards = [iter(make(headrace.ShardOptions(index, 2))) for index in range(2)]
        with iter(remote(make, 2)) as batches:
            assert len(batches) == max(map(len, shards)) and batches.passed == 0 and bool(batches)
            for _ in range(3):
                next(batches)
                list(map(next, shards))
            assert len(batches) == max(map(len, shards)) and batches.passed == batches.step == 3
            assert batches.part_records == {
                part: max(shard.part_records[part] for shard in shards) for part in parts
            }
            assert batches.part_epochs == {"web": 0, "books": 0}
            for found, own in (
                (batches.last_records(), [shard.last_records() for shard in shards]),
                (batches.records_at(4), [shard.records_at(4) for shard in shards]),
            ):
                assert {part: each.tolist() for part, each in found.items()} == {
                    part: [key for shard in own if part in shard for key in shard[part].tolist()] for part in found
                }
                assert set(found) == {part for shard in own for part in shard}
            assert batches.skipped_count == 0
            state = batches.state_dict()
            assert "step=3, host_count=2" in repr(batches)
        with iter(remote(make, 2)) as batches:
            batches.load_state_dict(state)
            assert batches.step == batches.passed == 3
        with iter(remote(lambda shard: headrace.load(whole, batch_size=8, num_epochs=1), 1)) as batches:
            next(batches)
            assert batches.last_records().tolist() == list(range(8)) and not hasattr(batches, "part_records")
        """
    )


@pytest.mark.long
def test_what_the_hosts_do_not_know_is_refused(run):
    """With what to do instead; closed iterators say so, and metrics leave the values out."""
    printed = run(
        """
        def make(shard):
            kept = headrace.Filter(lambda x: x % 3 != 0)
            return headrace.load(whole, transformations=[kept], batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make, 2)) as batches:
            next(batches)
            for call in (lambda: len(batches), lambda: batches.epoch, lambda: batches.change(weights=[1])):
                try:
                    call()
                except TypeError as error:
                    print(error)
            assert headrace.metrics.as_dict(batches)["headrace/skipped_total"] == 0
        try:
            batches.last_records()
        except headrace.errors.ClosedError as error:
            print(error)
        numbers = headrace.metrics.as_dict(batches)
        assert numbers["headrace/steps_total"] == 1 and "headrace/skipped_total" not in numbers
        """
    ).splitlines()
    assert len(printed) == 4
    assert "Filter" in printed[0]
    assert "does not know its epoch" in printed[1]
    assert "change(weights=) on several shards needs" in printed[2]
    assert "Call this method before close()" in printed[3]


@pytest.mark.slow
def test_a_change_of_the_run_holds_from_its_step_on(run):
    """Whatever was made ahead, as for a feeder of the same loader; the state tells it, also on
    another number of hosts.
    """
    printed = run(
        """
        parts = {"a": np.arange(1000), "b": np.arange(1000, 2000)}
        def loader(weights, shard):
            sampler = headrace.MixSampler(parts, weights, shard_options=shard)
            return headrace.DataLoader(data_source=parts, sampler=sampler, operations=[headrace.Batch(16 // shard.shard_count)])
        def make(shard):
            return loader({"a": 1, "b": 0}, shard)
        planned = [(0, {"a": 1, "b": 0}), (16 * 4, {"a": 0, "b": 1})]
        with iter(loader(planned, headrace.ShardOptions(0, 1)).to_device(devices[0])) as feeder:
            expected = [sorted(np.asarray(next(feeder)).tolist()) for _ in range(7)]
        for before, after in ((1, 2), (2, 4)):
            with iter(remote(make, before, "error", buffer_size=3)) as batches:
                seen = [next(batches)]
                batches.change(weights={"a": 0, "b": 1})  # from step 4 on
                seen.append(next(batches))
                state = batches.get_state()
                seen += [next(batches) for _ in range(5)]
            with iter(remote(make, after, "error")) as batches:
                batches.set_state(state)
                others = [*seen[:2], *(next(batches) for _ in range(5))]
            for found in (seen, others):
                assert [sorted(np.asarray(batch).tolist()) for batch in found] == expected, before
        with iter(remote(make, 2, "error")) as batches:
            next(batches)
            batches.change(batch_size=4, at_step=3)
            assert [len(next(batches)) for _ in range(4)] == [16, 16, 8, 8]
            try:
                batches.change(batch_size=8, at_step=batches.step)
            except ValueError as error:
                print(error)
        """
    )
    assert "at_step=5" in printed


@pytest.mark.slow
def test_a_loader_that_cannot_be_made_is_named_by_all_members(run):
    """As by `next`, with the host's error; only statistics, which other threads ask for, have
    nothing of such hosts.
    """
    run(
        """
        class OfHost(Exception):  # a class that the controlling process may not know
            def __init__(self, first, second):
                super().__init__(f"{first} {second}")
        def broken(shard):
            raise OfHost("no", "folder")
        batches = iter(remote(broken, 2))
        assert batches.stats().steps == 0
        calls = [lambda: next(batches), batches.get_state, lambda: len(batches), lambda: batches.skipped_count,
                 lambda: batches.change(batch_size=4)]
        with iter(remote(lambda shard: headrace.load(whole, batch_size=8, shard_options=shard), 2)) as others:
            state = others.get_state()
        for _ in range(2):
            for call in calls:
                try:
                    call()
                except headrace.errors.HostsError as error:
                    assert "OfHost: no folder" in str(error), error
                else:
                    raise AssertionError("no error")
            assert batches.stats().hosts == () and batches.stats().loader is None
            assert headrace.metrics.as_dict(batches)["headrace/steps_total"] == 0
            batches.set_state(state)  # the state is right, so a CheckpointError would mislead
        batches.close()
        assert batches.stats().hosts == ()
        """
    )


@pytest.mark.slow
def test_a_function_that_omits_records_is_sent_to_the_hosts(run, tmp_path):
    """Also one that has no name in a module, as `make_loader`."""
    run(
        f"""
        np.savez({str(tmp_path / "numbers.npz")!r}, x=whole)
        def make(shard):
            source = headrace.NpzSource({str(tmp_path / "numbers.npz")!r}, "x")
            return headrace.load(source, batch_size=8, num_epochs=1, shard_options=shard)
        with iter(remote(make, 2, buffer_size=1)) as batches:
            first = np.asarray(next(batches)).tolist()
            batches.change(omit=lambda file, row: row >= 100)
            rest = [x for batch in real(batches) for x in batch]
        assert sorted(first + rest)[:100] == list(range(100)) and len(first + rest) < 120
        """
    )
