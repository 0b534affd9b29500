"""`headrace.metrics`: numbers of the loops of this process, for Prometheus."""

from __future__ import annotations

import gc
import socket
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, Filter, MapDataset, MixSampler, load
from headrace.errors import PortError

prometheus = pytest.importorskip("prometheus_client")


def _numbers(server):
    """What the page tells, by the text before each number."""
    page = urllib.request.urlopen(server.url, timeout=30).read().decode()
    pairs = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_a_loop_that_begins_is_told_of():
    """Steps, records, bytes, place, stages and operations; without a name it is numbered; once
    dropped it is gone.
    """
    with headrace.metrics.serve(0) as server:
        iterator = iter(
            load(
                np.arange(8), transformations=[Filter(lambda x: x < 6)], batch_size=2, num_epochs=1
            )
        )
        assert _numbers(server) == {}
        assert len(list(iterator)) == 3
        told = _numbers(server)
        assert told['headrace_steps_total{loop="0"}'] == told['headrace_step{loop="0"}'] == 3
        assert told['headrace_records_total{loop="0"}'] == 8
        assert told['headrace_bytes_total{loop="0"}'] == 64
        assert (
            0
            < told['headrace_waited_seconds_total{loop="0"}']
            <= told['headrace_seconds_total{loop="0"}']
        )
        assert told['headrace_tasks_total{loop="0",stage="1"}'] > 0
        assert any(
            name.startswith('headrace_operation_seconds{loop="0",operation="0 Filter')
            for name in told
        )
        del iterator
        gc.collect()
        assert _numbers(server) == {}


def test_parts_of_a_mix_have_records_tokens_and_epochs():
    """Of all shards, exactly; tokens by the average length of a part's records."""
    parts = {"web": [np.zeros(3), np.zeros(5)], "books": np.zeros((10, 7))}
    sampler = MixSampler(parts, weights={"web": 0.5, "books": 0.5}, when_exhausted="repeat")
    iterator = iter(DataLoader(data_source=parts, sampler=sampler, operations=[len, Batch(8)]))
    with headrace.metrics.serve(0, {"train": iterator}) as server:
        next(iterator)
        told = _numbers(server)
    of = {part: f'{{loop="train",part="{part}"}}' for part in parts}
    assert [told[f"headrace_part_records_total{of[part]}"] for part in parts] == [4, 4]
    assert [told[f"headrace_part_epoch{of[part]}"] for part in parts] == [1, 0]
    assert [
        told[f'headrace_part_tokens{{leaf="",loop="train",part="{part}"}}'] for part in parts
    ] == [16, 28]


def test_datasets_that_come_together_are_parts():
    """Chains that are mixed as streams, with filters before."""
    even = MapDataset.range(0, 100, 2).filter(lambda x: True)
    odd = MapDataset.range(1, 100, 2).filter(lambda x: True)
    mixed = headrace.IterDataset.mix(
        [even.to_iter_dataset(), odd.to_iter_dataset()], weights=[0.75, 0.25]
    )
    with iter(mixed) as iterator, headrace.metrics.serve(0, {"mix": iterator}) as server:
        assert len([next(iterator) for _ in range(8)]) == 8
        told = _numbers(server)
    assert (
        sum(value for name, value in told.items() if name.startswith("headrace_part_records_total"))
        == 8
    )


def test_a_feeder_is_one_loop():
    """What it reads from is not told of a second time; waits are told by what was waited for."""
    jax = pytest.importorskip("jax")
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with headrace.metrics.serve(0) as server:
        with iter(load(range(8), batch_size=2, num_epochs=1).to_device(sharding)) as feeder:
            assert sum(1 for _ in feeder) == 4
            told = _numbers(server)
        with iter(headrace.device_put(iter([np.zeros(2)]), sharding)) as other:  # of no loader
            next(other)
            assert _numbers(server)['headrace_steps_total{loop="1"}'] == 1
    assert [name for name in told if "steps" in name] == ['headrace_steps_total{loop="0"}']
    assert told['headrace_records_total{loop="0"}'] == 8
    assert 'headrace_fed_waited_seconds_total{loop="0",part="transfer"}' in told


def test_the_page_is_for_this_machine_and_ends_with_close():
    """The default address is the loopback; nothing listens after close, which may be
    called twice.
    """
    server = headrace.metrics.serve(0)
    assert server.url.startswith("http://127.0.0.1:")
    server.close()
    server.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.url, timeout=30)
    with headrace.metrics.serve(server.port) as again:
        assert again.port == server.port


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="needs IPv6")
def test_the_url_of_an_ipv6_address_has_brackets():
    """So that it can be opened."""
    with headrace.metrics.serve(0, address="::1") as server:
        assert server.url == f"http://[::1]:{server.port}/metrics"
        assert urllib.request.urlopen(server.url, timeout=30).status == 200


def test_a_port_in_use_is_one_clear_error():
    """It names port, address and remedy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            PortError, match=rf"port={port} of address='127.0.0.1': .*in use. Pass another port"
        ):
            headrace.metrics.serve(port)
    with pytest.raises(TypeError, match=r"of headrace\. Pass iter\(loader\)"):
        headrace.metrics.serve(0, {"train": load(range(3))})
    with pytest.raises(ValueError, match="port=70000 must be in"):
        headrace.metrics.serve(70000)
    with pytest.raises(PortError, match="address='no such machine'"):
        headrace.metrics.serve(0, address="no such machine")
