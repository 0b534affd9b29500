"""`headrace.watch_hosts`: every host sees the waits of all, and which of them the
others wait for.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.request

import numpy as np
import pytest
from support import device_programs
from support.pipelines import chosen

import headrace
from headrace.errors import HostsError
from headrace.loader.timing.quantiles import Quantiles, quantiles_of
from headrace.reporting import hosts as hosts_module
from headrace.reporting.hosts import HostsStats, HostStats

HOSTS = 8
SLOW = 3

PROGRAM = """
import json, time
import headrace

folder = sys.argv[4] or None

def slow(x):
    if index == 3:
        time.sleep(0.05)  # 100 ms a batch, which takes others some hundred microseconds
    return x

# after a filter, hosts agree on each batch, so that they make their steps together as in a training
operations = [slow, headrace.Filter(lambda x: True)]
loader = headrace.load(range(1600), transformations=operations, batch_size=2, num_epochs=1,
                       shard_options=headrace.ShardOptions(index, count))
named, found = [], None
with iter(loader.across_hosts("drop", folder=folder)) as iterator:
    with headrace.watch_hosts(iterator, folder=folder, seconds=0.1) as hosts:
        for batch in iterator:
            if index == 0 and iterator.step > 20:
                found = hosts.stats()
                if len(found.hosts) == count:
                    named.append(found.slowest and found.slowest.process)
            if iterator.step == 100:
                break
if index == 0:
    print("said " + json.dumps([named, found.to_dict(), found.verdict(), str(found)]))
"""


@pytest.mark.long
@pytest.mark.parametrize("by", chosen(["folder", "jax"], "folder"))
def test_a_slow_host_is_named_within_100_steps(by, tmp_path):
    """One of eight, with the operation that takes its time; nobody waits for anybody to find that
    out.
    """
    join = device_programs.JOIN if by == "jax" else device_programs.ALONE
    folder = str(tmp_path / "meeting") if by == "folder" else ""
    outputs = device_programs.run_together(PROGRAM, HOSTS, folder, join=join)
    line = next(line for line in outputs[0].splitlines() if line.startswith("said "))
    named, found, verdict, table = json.loads(line[5:])
    assert SLOW in named
    assert named[-1] == found["slowest"] == SLOW
    assert found["count"] == len(found["hosts"]) == HOSTS
    assert f"process {SLOW} (" in verdict
    assert "for `MapTransform(slow)`" in verdict
    assert len(table.splitlines()) == HOSTS + 2


def host(process, own_wait, step_seconds=0.1, cause="decode"):
    """Statistics of a host that waits so long for its data."""
    waits = Quantiles(own_wait, own_wait, 2 * own_wait, 3 * own_wait, 100)
    return HostStats(
        process, f"node-{process}", 100, step_seconds, own_wait, cause, {"next": waits}
    )


@pytest.mark.parametrize(
    ("waits", "slowest"),
    [
        ([], None),
        ([0.0, 0.0], None),
        ([0.001, 0.004], None),
        ([0.05, 0.06], None),
        ([0.01, 0.06, 0.01], 1),
        ([0.06], None),
    ],
)
def test_the_slowest_host_waits_much_and_more_than_the_others(waits, slowest):
    """Over 5 % of its steps, and clearly longer than the median of the others; else nobody is
    named.
    """
    found = HostsStats(tuple(host(process, wait) for process, wait in enumerate(waits)), len(waits))
    assert (found.slowest and found.slowest.process) == slowest
    assert found.to_dict()["slowest"] == slowest
    if slowest is not None:
        assert (
            f"process {slowest} (node-{slowest}) is the slowest of {len(waits)}" in found.verdict()
        )
        assert "it waits 60.0 ms of each step of 100 ms for `decode`" in str(found)
    else:
        assert "is clearly slower" in str(found)


def test_hosts_whose_statistics_have_not_come_are_counted():
    """The verdict says of how many it is."""
    assert "of 2 known of 4: it" in HostsStats((host(0, 0.0), host(2, 0.05)), 4).verdict()


def test_statistics_travel_as_text():
    """They are the same afterwards; a text of another version is refused."""
    one = host(1, 0.25)
    assert HostStats.from_json(one.to_json()) == one
    for wrong in ("[]", "{", '{"process": 1}', '{"quantiles": {}}'):
        with pytest.raises((TypeError, ValueError, KeyError)):
            HostStats.from_json(wrong)


class Stored:
    """A store in which another host has its statistics."""

    is_open = True

    def __init__(self, **texts):
        self.texts = texts

    def open(self, stopped):
        return True

    def replace(self, key, value):
        self.texts[key.rpartition("/")[2]] = value

    def there(self, folder):
        return dict(self.texts)


@pytest.fixture
def watch():
    """Makes a watch of process 0 of 2, with texts of others."""
    watches = []

    def make(loop, log=False, **texts):
        watches.append(
            hosts_module.HostWatch(loop, 0, 2, Stored(**texts), "headrace/stats/1/", 1000.0, log)
        )
        return watches[-1]

    yield make
    for each in watches:
        each.close()


def loop_of(batches=30):
    """An iterator that has run to its end."""
    iterator = iter(
        headrace.load(range(2 * batches), transformations=[lambda x: x], batch_size=2, num_epochs=1)
    )
    assert len(list(iterator)) == batches
    return iterator


def test_damaged_texts_of_other_hosts_are_left_out(watch):
    """A host with another version does not end the watching."""
    loop = loop_of()
    found = watch(loop, **{"1": "{", "2": '{"process": 2}'}).stats()
    assert [each.process for each in found.hosts] == [0]


def test_statistics_of_a_loop_that_is_gone_are_kept(watch):
    """The watch does not keep the loop alive."""
    loop = loop_of()
    seen = watch(loop)
    assert seen.stats().hosts[0].steps == 30
    del loop
    assert seen.stats().hosts[0].steps == 30


def test_hosts_are_served_exported_and_logged(watch, monkeypatch, caplog):
    """The same numbers: Prometheus, OpenTelemetry, a dict for Weights & Biases, a page, the log."""
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    loop = loop_of()
    hosts = watch(loop, **{"1": host(1, 5.0, 10.0).to_json()})
    with headrace.metrics.serve(0, {"train": loop}, hosts=hosts) as server:
        page = urllib.request.urlopen(server.url, timeout=30).read().decode()
    assert 'headrace_slowest_host_wait_seconds{cause="decode",host="1",name="node-1"} 5.0' in page
    assert 'headrace_host_wait_seconds{host="1",name="node-1",quantile="0.99"} 10.0' in page
    assert 'headrace_last_seconds{loop="train",part="next",quantile="0.5"}' in page
    assert 'part="hand-over",quantile="1"' in page
    plain = headrace.metrics.as_dict(loop, hosts)
    assert plain["headrace/slowest_host"] == 1
    assert plain["headrace/host_own_wait_seconds/1"] == 5.0
    assert plain["headrace/last_seconds/next/0.5"] <= plain["headrace/last_seconds/next/1"]
    assert plain["headrace/steps_total"] == 30
    pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = metrics.export.InMemoryMetricReader()
    meter = metrics.MeterProvider([reader]).get_meter("test")
    with headrace.metrics.export({"train": loop}, hosts=hosts, meter=meter):
        scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
    points = {metric.name: metric.data.data_points for metric in scope.metrics}
    assert points["headrace.steps_total"][0].value == 30
    assert dict(points["headrace.steps_total"][0].attributes) == {"loop": "train"}
    slowest = points["headrace.slowest_host_wait_seconds"][0]
    assert (slowest.value, slowest.attributes["cause"]) == (5.0, "decode")
    # nothing is exported any more: None, or metrics without values in older releases
    after = reader.get_metrics_data()
    assert not after or not any(
        each.data.data_points for each in after.resource_metrics[0].scope_metrics[0].metrics
    )
    monkeypatch.setattr(hosts_module, "LOG_SECONDS", 0.0)
    texts = {"1": host(1, 5.0, 10.0).to_json()}
    with caplog.at_level(logging.INFO, logger="headrace"):
        logged = hosts_module.HostWatch(
            loop, 0, 2, Stored(**texts), "headrace/stats/1/", 0.01, True
        )
        until = time.monotonic() + 30
        while not caplog.messages and time.monotonic() < until:
            time.sleep(0.01)
        logged.close()
    assert "rocess 1 (node-1) is the slowest of 2" in caplog.messages[0]


@pytest.mark.slow
def test_a_page_names_the_slowest_host(watch, tmp_path):
    """With `hosts=`, the report has a section about them."""
    pytest.importorskip("matplotlib")
    loop = loop_of()
    hosts = watch(loop, **{"1": host(1, 5.0, 10.0).to_json()})
    page = headrace.write_report(loop, tmp_path / "report.html", hosts=hosts).read_text()
    assert "Process 1 (node-1) is the slowest of 2" in page
    assert "<h2>Hosts</h2>" not in headrace.write_report(loop, tmp_path / "report.html").read_text()


def test_wrong_arguments_are_refused():
    """With the value, and what to pass."""
    with pytest.raises(TypeError, match="is not an iterator of headrace"):
        headrace.watch_hosts([1])
    with pytest.raises(ValueError, match="seconds=0 is not positive"):
        headrace.watch_hosts(loop_of(), seconds=0)
    with pytest.raises(TypeError, match="seconds='x' is not a number"):
        headrace.watch_hosts(loop_of(), seconds="x")
    shard = headrace.ShardOptions(0, 2)
    with pytest.raises(HostsError, match="Without jax, pass a folder"):
        headrace.watch_hosts(iter(headrace.load(range(4), shard_options=shard)))


@pytest.mark.parametrize("seconds", [[], [1.0], [3.0, 1.0, 2.0], list(range(200))])
def test_quantiles_are_those_of_sorted_times(seconds):
    """Each is one of the times: the smallest that so many do not exceed."""
    found = quantiles_of(seconds)
    ordered = sorted(seconds)
    for share, value in zip((0.5, 0.95, 0.99, 1.0), found):
        expected = next(
            (each for number, each in enumerate(ordered, 1) if number >= share * len(ordered)), 0.0
        )
        assert value == expected
    assert found.number == len(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_the_window_forgets_what_is_long_ago(workers):
    """The last 1,000 waits count, one for each element that came; tasks and hand-overs have
    quantiles, too.
    """
    loader = headrace.load(
        np.arange(6000),
        transformations=[lambda x: x],
        batch_size=4,
        num_epochs=1,
        worker_count=workers,
    )
    with iter(loader) as iterator:
        counts = {}
        for _ in iterator:
            if iterator.step in (10, 1000, 1500):
                counts[iterator.step] = iterator.stats().quantiles["next"].number
        stats = iterator.stats()
    at_ten = counts.pop(10)
    # workers may send some elements together
    assert at_ten == 10 if workers == 0 else 10 <= at_ten < 100
    assert counts == {1000: 1000, 1500: 1000}
    assert {"next", "hand-over"} < set(stats.quantiles)
    stage = next(
        found for name, found in stats.quantiles.items() if name.startswith("stage 0: MapTransform")
    )
    assert 0 < stage.p50 <= stage.p95 <= stage.p99 <= stage.longest
    assert len(stats.last_waits) == 1000
    plain = json.loads(json.dumps(stats.to_dict()))
    assert plain["quantiles"]["next"]["number"] == 1000
    assert "last 1,000 waits: median" in str(stats)
