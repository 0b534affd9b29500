"""Statistics of a `RemoteLoader`: of the controlling process, of all hosts together, and of each
host.
"""

from __future__ import annotations

import json

import pytest

from headrace.loader.device.remote.stats import LoaderOfHost, RemoteStats, together
from headrace.loader.device.remote.texts import (
    LAST_BYTES,
    last_stats,
    named_stats,
    part_of,
    stats_as_bytes,
)
from headrace.loader.device.stats import FeederStats
from headrace.loader.stats import IteratorStats
from headrace.loader.timing.quantiles import quantiles_of
from headrace.loader.timing.snapshot import OperationStats, StageStats, StepTimes
from headrace.loader.timing.workers import WorkerStats
from headrace.reporting.hosts import HostsStats

pytest.importorskip("jax.experimental.colocated_python")


@pytest.mark.slow
def test_statistics_are_those_of_a_feeder_of_the_same_records(run):
    """Steps, records, bytes, stages and operations; the loaders of all hosts count as one."""
    run(
        """
        from headrace.loader.device.stats import FeederStats
        def make(shard):
            third = headrace.Filter(lambda x: x % 3 != 0)
            return headrace.load(whole, transformations=[third, lambda x: x + 1], batch_size=16 // shard.shard_count,
                                 num_epochs=1, shard_options=shard)
        with iter(make(headrace.ShardOptions(0, 1)).to_device(devices[0])) as feeder:
            steps = len(list(feeder))
            one = feeder.stats()
        for hosts in (1, 2, 4):
            with iter(remote(make, hosts)) as batches:
                assert batches.host_count == hosts
                assert batches.stats().hosts == () and batches.stats().loader is None
                count = len(list(batches))
                inside = batches.stats()
            found = batches.stats()  # also when it is closed
            assert isinstance(found, FeederStats) and found == inside
            assert found.steps == count == batches.snapshot().steps and len(found.hosts) == hosts
            assert len(found.last) == count and 0 < found.total.reading <= found.total.waited <= found.elapsed
            assert batches.snapshot().feeding == found.total
            assert found.loader.records == one.loader.records == 200
            assert found.loader.nbytes == one.loader.nbytes and found.loader.worker_count == 0
            assert [stage.inputs for stage in found.loader.stages] == [stage.inputs for stage in one.loader.stages]
            own, other = found.loader.stages[0], one.loader.stages[0]
            assert [each.name for each in own.operations] == [each.name for each in other.operations]
            assert "reading" in str(found) and "records/s" in str(found)
            assert len(found.quantiles) == len(one.quantiles) and "reading" in found.quantiles
            assert found.to_dict().keys() == one.to_dict().keys()
        assert (hosts, steps) == (4, 9)
        """
    )


@pytest.mark.long
def test_a_slow_host_is_named_with_its_slow_operation(run, tmp_path):
    """By `watch_hosts`, which the log, the page, and the metrics use, as for feeders; the program
    can go on meanwhile.
    """
    run(
        f"""
        import time
        page = {str(tmp_path / "report.html")!r}
        def make(shard):
            def decode(x):
                if shard.shard_index == 2 and x < 112:
                    time.sleep(0.08)  # 320 ms a batch for seven batches, which take others less than a millisecond each
                return x
            return headrace.load(whole, transformations=[decode], batch_size=4, num_epochs=1, shard_options=shard)
        with iter(remote(make, 4)) as batches, headrace.watch_hosts(batches) as hosts:
            assert hosts.stats().hosts == () and hosts.stats().count == 4
            for _ in range(6):
                next(batches)
            found = hosts.stats()
            assert [host.process for host in found.hosts] == [0, 1, 2, 3]
            assert found.slowest.process == 2 and "decode" in found.slowest.cause, str(found)
            assert "rocess 2 (" in str(found) and "is the slowest of 4" in found.verdict()
            numbers = headrace.metrics.as_dict(batches, hosts)
            assert numbers["headrace/slowest_host"] == 2
            assert numbers["headrace/steps_total"] == 6 and numbers["headrace/records_total"] >= 96
            assert numbers["headrace/fed_waited_seconds_total/reading"] > 0.3
            assert "headrace/busy_seconds_total/0" in numbers and "headrace/host_wait_seconds/3/0.99" in numbers
            with headrace.metrics.serve(0, {{"train": batches}}, hosts=hosts) as server:
                import urllib.request
                served = urllib.request.urlopen(server.url, timeout=30).read().decode()
            assert 'headrace_slowest_host_wait_seconds{{cause="' in served and ',host="2",name="' in served
            headrace.write_report(batches, page, hosts=hosts)
            assert len(list(headrace.progress(batches, disable=True))) == 7
        import pathlib
        text = pathlib.Path(page).read_text()
        assert "is the slowest of 4" in text and "waited for batches" in text
        del batches
        assert hosts.stats().slowest.process == 2  # as it was known last
        """
    )


def of_host(records: int, each: float, tag: int = 1) -> IteratorStats:
    """Statistics of a loader that has made a batch of these records, each in the same time."""
    slow = OperationStats(1, "decode", records * each, each, records, each, tag)
    stage = StageStats(
        0,
        1,
        records,
        1,
        8 * records,
        True,
        True,
        records * each,
        0.0,
        0.0,
        0.0,
        each,
        0.0,
        each,
        0.5,
        (slow,),
    )
    workers = WorkerStats(2, each, 1.0 - each, 0.0, 2, 1, 100, 200, 10 * records)
    waits = (0.0, *[each] * 9)
    return IteratorStats(
        *(10, 2.0 + each, 1.0, 2, 3, (stage,), records, 8 * records, 100, None, workers),
        quantiles={"next": quantiles_of([each] * 10)},
        last_waits=waits,
    )


def test_statistics_of_hosts_are_added_up():
    """Counts and seconds; shares are means, times of the loop and quantiles are the largest;
    another stage may be missing.
    """
    one, other = of_host(30, 0.5, 7), of_host(10, 0.25, 9)
    found = together([other, one])
    assert (found.steps, found.elapsed, found.waited) == (10, 2.5, 1.0)
    assert (found.records, found.nbytes, found.skipped, found.worker_count, found.shared_bytes) == (
        40,
        320,
        6,
        4,
        200,
    )
    (stage,) = found.stages
    assert (stage.number, stage.tasks, stage.inputs, stage.rows, stage.busy) == (0, 2, 40, 2, 17.5)
    assert (stage.cpu_share, stage.queued, stage.ahead, stage.reads) == (0.375, 0.375, 1.0, True)
    (operation,) = stage.operations
    assert operation == OperationStats(1, "decode", 17.5, 17.5 / 40, 40, 0.5, 7)
    assert found.workers == WorkerStats(4, 0.375, 0.625, 0.0, 4, 2, 200, 400, 300)
    assert found.quantiles["next"].p50 == 0.5
    nothing = IteratorStats(0, 0.0, 0.0)
    assert together([nothing, one]).stages == one.stages
    assert together([nothing]) == nothing
    assert json.loads(json.dumps(found.to_dict()))["records"] == 40


def test_statistics_travel_as_bytes():
    """They are the same afterwards, without what grows with the run; at the end, those that are too
    long are left out.
    """
    sent = of_host(30, 0.5)
    name, stats = named_stats(stats_as_bytes(sent))
    assert name
    assert stats == sent
    assert last_stats(part_of(stats_as_bytes(sent), 0, LAST_BYTES)) == [(name, sent)]
    assert last_stats(part_of(bytes(LAST_BYTES - 7), 0, LAST_BYTES)) == []


@pytest.mark.parametrize(
    ("waited", "hosts", "slowest"),
    [
        (0.5, (0.1, 0.5, 0.1), 1),  # the loop waits for it
        (0.0, (0.1, 0.5, 0.1), None),  # made while the program works
        (0.5, (0.4, 0.5, 0.4), None),  # all alike
        (0.5, (0.001, 0.002, 0.001), None),  # the calls take the time
        (0.5, (), None),
    ],
)
def test_a_host_is_named_if_the_loop_waits_for_it(waited, hosts, slowest):
    """Its waits for its own loader count as far as the program waits, too."""
    last = tuple(StepTimes(waited, waited, 0.0, 0.0, 0.0, 0.0) for _ in range(10))
    own = FeederStats(10, 10.0, StepTimes(*(10 * seconds for seconds in last[0])), last)
    fed = RemoteStats.of(
        own, [LoaderOfHost(f"node-{number}", of_host(8, each)) for number, each in enumerate(hosts)]
    )
    found = HostsStats.of_remote(fed, len(hosts))
    assert [host.name for host in found.hosts] == [f"node-{number}" for number in range(len(hosts))]
    assert (found.slowest and found.slowest.process) == slowest
    if slowest is not None:
        assert (found.slowest.own_wait, found.slowest.cause) == (waited, "decode")
        assert "watch_hosts" in str(fed)
