"""Workers that are actors in a Ray cluster: what goes through its object store, and what the user
is told.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import headrace
from headrace import Batch, DataLoader, Filter, IndexSampler, MapDataset
from headrace.errors import (
    ClusterMismatchError,
    ClusterNotFoundError,
    MissingExtraError,
    WorkerCrashedError,
)
from headrace.loader.executors.ray import agreement
from headrace.loader.interrupts import wait_until
from headrace.loader.options import ExecutionOptions

ON_RAY = {"worker_count": 2, "worker_kind": "ray"}

BUSY_SECONDS = 30
"""In which the loss of the head is told on a machine that is busy with other tests; on a quiet one,
8 s (measured). Ray ends
the process after 60."""


def _loader(operations, records=40, **more):
    sampler = IndexSampler(records, num_epochs=1)
    return DataLoader(
        data_source=range(records), sampler=sampler, operations=operations, **{**ON_RAY, **more}
    )


def _address(array):
    return array.__array_interface__["data"][0]


def _bytes_in_store():
    """What the object store of this machine holds."""
    import ray

    return ray.cluster_resources()["object_store_memory"] - ray.available_resources().get(
        "object_store_memory", 0
    )


@pytest.mark.ray
@pytest.mark.long
def test_a_batch_that_is_here_is_not_copied(monkeypatch):
    """Its arrays stand, read-only, at the address that the object store tells of what the worker
    put there.
    """
    import ray

    from headrace.loader.executors.ray.worker import RayRows

    row = np.arange(77_000_000 // 8 // 4, dtype=np.float64)
    blocks = []
    monkeypatch.setattr(RayRows, "load", _noting(RayRows.load, blocks))
    with iter(_loader([lambda x: row + x, Batch(4)], 8)) as iterator:
        first = next(iterator)
        assert first.nbytes == row.nbytes * 4
        assert not first.flags.writeable
        _, [memory] = ray.get(blocks[0])
        assert _address(first) == _address(np.frombuffer(memory, np.uint8))


def _noting(load, references):
    """The method, which keeps the reference to what is in the store."""

    def noted(rows):
        references.append(rows.reference)
        return load(rows)

    return noted


@pytest.mark.ray
@pytest.mark.long
def test_a_batch_is_what_it_was_as_long_as_it_is_looked_at():
    """However many come after it, and after the iterator is closed."""
    with iter(_loader([lambda x: np.full(50_000, x), Batch(4)], 400)) as iterator:
        kept = [(number, next(iterator)[1]) for number in range(3)]
        for _ in iterator:
            pass
    assert all((row == 4 * number + 1).all() for number, row in kept)


@pytest.mark.ray
@pytest.mark.long
def test_the_object_store_does_not_grow_over_epochs():
    """Twenty epochs: what is dropped is free, rows that became batches too; and after the end
    nothing is left.
    """
    before = _bytes_in_store()
    operations = [lambda x: np.full(100_000, x), Filter(lambda row: row[0] % 3), Batch(4)]
    one = DataLoader(
        data_source=range(40),
        sampler=IndexSampler(40, num_epochs=20),
        operations=operations,
        **ON_RAY,
    )
    used = []
    for number, batch in enumerate(one):
        del batch
        if number % 7 == 0:
            used.append(_bytes_in_store())
    assert number == 26 * 20 // 4 - 1
    assert max(used[len(used) // 2 :]) <= 2 * max(used[: len(used) // 2])
    # Ray counts some time later
    assert wait_until(lambda: gc.collect() >= 0 and _bytes_in_store() < before + (1 << 20), 20)


@pytest.mark.ray
@pytest.mark.long
def test_a_source_in_memory_is_read_where_it_lies_in_the_store():
    """The workers of a node have it once, and cannot write to it."""
    columns = {"x": np.arange(1_000_000)}

    def where(row):
        return {
            "address": _address(row["x"]) // (1 << 40),
            "writable": row["x"].flags.writeable,
            "x": int(row["x"]),
        }

    rows = list(
        DataLoader(
            data_source=columns,
            sampler=IndexSampler(50, num_epochs=1),
            operations=[where],
            **ON_RAY,
        )
    )
    assert [row["x"] for row in rows] == list(range(50))
    assert not any(row["writable"] for row in rows)


@pytest.mark.ray
@pytest.mark.long
def test_rows_of_a_mix_may_be_changed_in_place():
    """By an operation that works on them after they were in the object store, as
    without workers.
    """

    def doubled(row):
        row *= 2
        return row

    def chain():
        parts = [
            MapDataset.range(40)
            .map(lambda x, at=at: np.full(300, x + at))
            .to_iter_dataset()
            .filter(lambda row: row[0] % 3)
            for at in (0, 100)
        ]
        return headrace.IterDataset.mix(parts, [1, 1]).map(doubled)

    rows = list(chain().with_options(**ON_RAY))
    assert [row.tolist() for row in rows] == [row.tolist() for row in chain()]


@pytest.mark.ray
@pytest.mark.long
def test_a_record_that_interrupts_its_actors_is_named_or_left_out():
    """After three tries, as one that ends them."""

    def deadly(x):
        if x == 9:
            raise KeyboardInterrupt
        return x

    with pytest.raises(WorkerCrashedError, match=r"record key 9 at position 9: .*3 times"):
        list(_loader([deadly, Batch(4)], 20))
    with iter(_loader([deadly], 20, on_error="skip")) as iterator:
        assert list(iterator) == [x for x in range(20) if x != 9]
        assert iterator.skipped_count == 1


@pytest.mark.ray
@pytest.mark.long
def test_a_node_with_another_version_ends_the_run(monkeypatch):
    """Before any element comes from there."""
    here = agreement.release_here()
    monkeypatch.setattr(agreement, "release_here", lambda: here._replace(version="9.9"))
    with pytest.raises(
        ClusterMismatchError, match=rf"runs {here.version} of headrace, and this process 9\.9"
    ):
        next(iter(_loader([Batch(4)])))


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:os.fork:RuntimeWarning"
)  # JAX's, if it was imported: the child does not use it
def test_a_forked_child_gives_nothing_back_that_its_parent_uses():
    """It is told that the iterator is its parent's; what it drops stays as it is in the parent."""
    with iter(_loader([lambda x: np.full(50_000, x), Batch(4)], 80)) as iterator:
        batch = next(iterator)
        child = os.fork()
        if child == 0:
            try:
                next(iterator)
            except RuntimeError as error:
                del iterator, batch
                gc.collect()
                os._exit(7 if "another process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        rest = [int(batch[0, 0]) for batch in iterator]
        assert rest == list(range(4, 80, 4))
        assert (batch == np.arange(4)[:, None]).all()


@pytest.mark.ray
@pytest.mark.long
def test_an_interrupted_loop_goes_on_where_it_was():
    """Ctrl-C while somebody waits for an actor: the state is that of the last batch."""

    def slow(batch):
        time.sleep(0.3)
        return batch

    with iter(_loader([Batch(4), slow])) as iterator:
        first = next(iterator)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        got = [first]
        with pytest.raises(KeyboardInterrupt):
            got += iterator
        got += iterator
    assert np.concatenate(got).tolist() == list(range(40))


STARTS_ONE = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import only_on_the_path
import headrace

sampler = headrace.IndexSampler(40, num_epochs=1)
operations = [only_on_the_path.doubled, lambda x: x + 1, headrace.Batch(8)]
loader = headrace.DataLoader(data_source=range(40), sampler=sampler, operations=operations, worker_count=1, worker_kind="ray")
got = []
feeding = threading.Thread(target=lambda: got.extend(loader))
feeding.start()
feeding.join()
got.extend(loader)
print([int(batch[1]) for batch in got])
left_open = iter(loader)
next(left_open)
"""


@pytest.mark.long
def test_a_cluster_is_started_where_there_is_none_and_ends_with_the_process(tmp_path):
    """By a thread that ends, too. Functions of modules that only this process finds are found;
    nothing is left.
    """
    (tmp_path / "only_on_the_path.py").write_text("def doubled(x):\n    return 2 * x\n")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # Ray's sockets need a short path
        ran = _program("-c", STARTS_ONE, str(tmp_path), folder=folder)
        assert ran.stdout.splitlines()[-1] == str(2 * list(range(3, 80, 16))), ran.stderr[-2000:]
        assert wait_until(
            lambda: (
                not [one for one in psutil.process_iter(["cmdline"]) if folder in str(one.info)]
            ),
            20,
        )


def _program(*arguments, folder):
    """What a program with its own Ray cluster printed."""
    environment = {
        **os.environ,
        "RAY_TMPDIR": folder,
        "RAY_AUTH_MODE": "disabled",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run`, it would install all packages anew
        "RAY_memory_monitor_refresh_ms": "0",
    }
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.long
def test_what_dies_in_a_cluster_leaves_the_stream_as_it_is():
    """An actor, a node: the same batches, and a warning each. The head: one error soon, and the
    state is right.
    """
    program = Path(__file__).parents[2] / "support" / "ray_deaths.py"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # Ray's sockets need a short path
        ran = _program(program, "worker", "node", "grow", "head", folder=folder)
    told = {
        one["what"]: one
        for line in ran.stdout.splitlines()
        if line.startswith("{")
        for one in [json.loads(line)]
    }
    assert list(told) == ["worker", "node", "grow", "head"], ran.stderr[-2000:]
    assert all(one["same"] for one in told.values())
    deaths = {
        what: [text for text in one["warnings"] if "its work is done again" in text]
        for what, one in told.items()
    }
    # on a busy machine, workers also wait for a place
    assert [len(texts) for texts in deaths.values()] == [1, 1, 0, 0], told
    assert "node" in deaths["node"][0]
    assert told["grow"]["workers"] > 2
    assert told["head"]["seconds"] < BUSY_SECONDS
    assert "its head" in told["head"]["error"]


def _told_by(*what):
    """What `ray_deaths.py` printed, each by its name."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # Ray's sockets need a short path
        ran = _program(
            Path(__file__).parents[2] / "support" / "ray_deaths.py", *what, folder=folder
        )
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {one["what"]: one for one in told}, ran.stderr[-2000:]


@pytest.mark.long
def test_a_node_that_stops_answering_is_lost_before_ray_says_so():
    """The batches are the same, and no record is blamed, though tasks have a timeout: one warning
    names the node.
    """
    told, printed = _told_by("stop")
    assert list(told) == ["stop"], printed
    assert told["stop"]["same"]
    again = [text for text in told["stop"]["warnings"] if "its work is done again" in text]
    assert len(again) == 1, again
    assert again[0].startswith("node ")
    assert "has been marked dead" not in printed, "Ray's own look at the nodes was faster"


@pytest.mark.long
def test_a_head_that_stops_answering_is_an_error():
    """Before Ray would end the process; the state is that of the last batch."""
    told, printed = _told_by("hang")
    assert list(told) == ["hang"], printed
    assert told["hang"]["same"]
    assert "its head" in told["hang"]["error"]


@pytest.mark.long
def test_rows_that_are_large_beside_the_object_stores_flow():
    """Rows of 20 MB with stores of 90 MB, also through a mix: a task has no more of them than there
    is room for.
    """
    told, printed = _told_by("heavy")
    assert list(told) == ["alone", "mixed"], printed
    assert all(one["same"] for one in told.values())


@pytest.mark.long
def test_a_head_that_died_before_the_loop_began_is_an_error():
    """Soon, where Ray would end the process."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # Ray's sockets need a short path
        ran = _program(
            Path(__file__).parents[2] / "support" / "ray_deaths.py", "before", folder=folder
        )
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert [one["what"] for one in told] == ["before"], ran.stderr[-2000:]
    assert told[0]["seconds"] < BUSY_SECONDS
    assert "its head" in told[0]["error"]


def test_options_of_ray_go_with_its_workers():
    """What is not passed on is refused before anything begins."""
    assert ExecutionOptions(2, "ray", ray_options={"num_cpus": 2}).ray_options == {"num_cpus": 2}
    for wrong, error, told in [
        ({"ray_options": {"num_cpus": 1}}, ValueError, 'worker_kind="ray"'),
        ({"address": "auto"}, ValueError, 'worker_kind="ray"'),
        ({"worker_count": "cluster"}, ValueError, 'worker_kind="ray"'),
        ({"worker_kind": "ray", "ray_options": [1]}, TypeError, "Pass a dict"),
        (
            {"worker_kind": "ray", "ray_options": {"max_restarts": 1}},
            ValueError,
            "headrace sets itself",
        ),
        ({"worker_kind": "ray", "address": 6379}, TypeError, "host:port"),
        ({"worker_kind": "ray", "address": "nonsense"}, ValueError, "host:port"),
        ({"worker_kind": "ray", "address": "host:x"}, ValueError, "host:port"),
        (
            {"worker_kind": "ray", "address": "ray://127.0.0.1:10001"},
            ValueError,
            r"can join\. Pass",
        ),
    ]:
        with pytest.raises(error, match=told):
            ExecutionOptions(**wrong)


def test_options_that_ray_refuses_are_named_before_a_cluster_is_joined():
    """Whatever is wrong with them, in a short message."""
    for wrong in [{"num_cpu": 1}, {"num_cpus": -1}, {"num_cpus": "a"}, {"resources": 3}, {1: 2}]:
        with pytest.raises(ValueError, match=r"ray_options=.*are not accepted by Ray") as told:
            next(iter(_loader([], ray_options=wrong, address="127.0.0.1:1")))
        assert len(str(told.value)) < 500


def test_the_environment_may_name_a_cluster_of_nodes_only(monkeypatch):
    """A Ray client has no object store on its machine, so that blocks could not be read there."""
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    with pytest.raises(
        ClusterNotFoundError, match=r"at RAY_ADDRESS='ray://127\.0\.0\.1:10001'\. Set"
    ):
        next(iter(_loader([])))


def test_an_address_without_a_cluster_is_named_with_where_it_comes_from(monkeypatch):
    """Without the variable, as the error says, a cluster is started on this machine."""
    import ray

    from headrace.loader.executors.ray import cluster

    started = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_lasting", lambda action: started.append(action))
    with pytest.raises(
        ClusterNotFoundError, match=r"at address='127\.0\.0\.1:1'\. Pass .*leave address= out"
    ):
        cluster.join("127.0.0.1:1", 1)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(
        ClusterNotFoundError, match=r"at RAY_ADDRESS='127\.0\.0\.1:1'\. Set .*, unset it\."
    ):
        cluster.join(None, 1)
    monkeypatch.delenv("RAY_ADDRESS")
    cluster.join(None, 1)
    assert len(started) == 1


def test_without_ray_the_user_is_told_what_to_install(monkeypatch):
    """When the first element is asked for."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"headrace\[ray\]"):
        next(iter(_loader([])))
