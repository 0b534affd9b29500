"""What dies in a Ray cluster of three nodes on this machine while a loader works there: a program
that prints what came.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import ray
from ray.cluster_utils import Cluster

from headrace import Batch, DataLoader, Filter, IndexSampler, IterDataset, MapDataset
from headrace.errors import ClusterLostError
from headrace.loader.executors.ray.cluster import start

SETTINGS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 3,
}
STORE = 150 << 20
HEAVY_STORE = 90 << 20


class Texts(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.texts.append(record.getMessage())

    def take(self) -> list[str]:
        """All since the last call."""
        taken, self.texts = self.texts, []
        return taken


def _row(x: Any) -> Any:
    """A record of 200 kB, so that rows lie in the store of the node that made them."""
    return np.full(25_000, int(x))


def _kept(row: Any) -> bool:
    return bool(row[0] % 3)


def _slow(batch: Any) -> Any:
    time.sleep(0.1)
    return batch


def _loader(*operations: Any, **more: Any) -> DataLoader:
    sampler = IndexSampler(300, shuffle=True, seed=1, num_epochs=1)
    return DataLoader(
        data_source=range(300),
        sampler=sampler,
        operations=[_row, Filter(_kept), Batch(4), *operations],
        **more,
    )


WHOLE = [batch[:, 0].tolist() for batch in _loader()]


def _actor() -> psutil.Process:
    """One that is alive."""
    mine = psutil.Process().children(recursive=True)
    return next(one for one in mine if "".join(one.cmdline()).startswith("ray::RayWorker"))


def _stop_node() -> list[psutil.Process]:
    """All processes of a node stand still, as those of a machine that hangs."""
    raylet = _actor().parent()
    processes = [raylet, *raylet.children(recursive=True)]
    for process in processes:
        process.suspend()
    return processes


def _workers(iterator: Any) -> int:
    """How many did the latest tasks."""
    return len({task.times.worker for task in iterator.stats().tasks})


def during(
    what: Callable[[], None], until: Callable[[int], bool] | None = None, **more: Any
) -> Iterator[Any]:
    """The batches of a loader, in the middle of which something happens; and last, how many workers
    made them.
    """
    with iter(_loader(_slow, worker_kind="ray", **more)) as iterator:
        for number, batch in enumerate(iterator):
            if number == 10:
                what()
            yield batch[:, 0].tolist()
            if number > 10 and until is not None and not until(_workers(iterator)):
                time.sleep(1)  # of the user's own work, while others begin to work
        yield _workers(iterator)


def heavy() -> None:
    """Rows of 20 MB in stores of 90 MB: alone, and above a mix."""
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": HEAVY_STORE})
    for _ in range(2):
        cluster.add_node(num_cpus=2, object_store_memory=HEAVY_STORE)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)

    def row(x: Any) -> Any:
        return np.full(2_500_000, x)

    def half(start: int) -> IterDataset:
        return (
            MapDataset.range(start, 40, 2)
            .map(row)
            .to_iter_dataset()
            .filter(lambda row: row[0] < 100)
        )

    mixed = IterDataset.mix([half(0), half(1)]).map(lambda row: row + 0)
    for what, chain in [
        ("alone", MapDataset.range(40).map(row).to_iter_dataset()),
        ("mixed", mixed),
    ]:
        began = time.monotonic()
        rows = [
            (int(row[0]), int(row[-1]))
            for row in chain.with_options(worker_kind="ray", worker_count=3)
        ]
        same = rows == [(x, x) for x in range(40)]
        print(
            json.dumps({"what": what, "same": same, "seconds": time.monotonic() - began}),
            flush=True,
        )
    ray.shutdown()
    cluster.shutdown()


def before() -> None:
    """The head, before a loop begins, and after another one: Ray's own threads ask the head
    something when they begin.
    """
    start(num_cpus=1, object_store_memory=STORE)
    with iter(_loader(worker_kind="ray", worker_count=1)) as iterator:
        next(iterator)
    time.sleep(1)
    head = next(
        one for one in psutil.Process().children(recursive=True) if one.name() == "gcs_server"
    )
    head.kill()
    head.wait()
    began = time.monotonic()
    try:
        next(iter(_loader(worker_kind="ray", worker_count=1)))
    except ClusterLostError as error:
        print(
            json.dumps(
                {"what": "before", "seconds": time.monotonic() - began, "error": str(error)}
            ),
            flush=True,
        )


def main() -> None:
    """All of it, one after the other."""
    if "before" in sys.argv or "heavy" in sys.argv:
        before() if "before" in sys.argv else heavy()
        return
    settings = {} if "stop" in sys.argv else SETTINGS  # Ray's own, which take a minute
    cluster = Cluster(
        True,
        head_node_args={"num_cpus": 0, "object_store_memory": STORE, "_system_config": settings},
    )
    for _ in range(2):
        cluster.add_node(num_cpus=2, object_store_memory=STORE)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    texts = Texts()
    logging.getLogger("headrace").addHandler(texts)

    def tell(what: str, **found: Any) -> None:
        print(json.dumps({"what": what, **found, "warnings": texts.take()}), flush=True)

    def ran(what: str, kill: Callable[[], None], **more: Any) -> None:
        began = time.monotonic()
        *batches, workers = during(kill, **more)
        tell(what, same=batches == WHOLE, seconds=time.monotonic() - began, workers=workers)

    def add_node() -> None:
        cluster.add_node(num_cpus=2, object_store_memory=STORE)

    which = sys.argv[1:] or ["worker", "node", "grow", "head"]
    if "worker" in which:
        ran("worker", lambda: _actor().kill(), worker_count=2)
    if "node" in which:
        ran("node", lambda: _actor().parent().kill(), worker_count=4)
    if "stop" in which:
        stopped: list[psutil.Process] = []
        ran("stop", lambda: stopped.extend(_stop_node()), worker_count=4, timeout=4.0)
        for process in stopped:
            process.kill()
    if "grow" in which:
        ran("grow", add_node, worker_count="cluster", until=lambda workers: workers > 2)
    if "head" in which or "hang" in which:
        iterator = iter(_loader(_slow, worker_kind="ray", worker_count=2))
        got = [next(iterator)[:, 0].tolist() for _ in range(5)]
        head = psutil.Process(cluster.head_node.all_processes["gcs_server"][0].process.pid)
        head.kill() if "head" in which else head.suspend()
        began = time.monotonic()
        try:
            for batch in iterator:
                got.append(batch[:, 0].tolist())
                # so that the loop does not end before anybody notices
                time.sleep(0.2 if "head" in which else 0.8)
        except ClusterLostError as error:
            seconds = time.monotonic() - began
            state = iterator.get_state()
            with iter(_loader(lambda batch: batch)) as rest:
                rest.set_state(state, strict=False)  # which was taken with another function
                got += [batch[:, 0].tolist() for batch in rest]
            tell(
                "head" if "head" in which else "hang",
                same=got == WHOLE,
                seconds=seconds,
                error=str(error),
            )
        if "hang" in which:
            head.resume()
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
