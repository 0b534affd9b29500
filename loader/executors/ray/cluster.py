"""The Ray cluster: join or start it, describe its nodes, and notice when it is gone.

In: an address, and the resources that a worker needs. Out: nodes, and the number of workers for
which there is room. A `ClusterLostError` is raised if the head (the node that manages the cluster)
or Ray's process on this machine is gone. Without this check, Ray would end the user's process a
minute later.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import Any, NoReturn

import ray
from ray._private import ray_constants
from ray.autoscaler.sdk import request_resources
from ray.exceptions import RayError

from ....common.messages import short_repr, shorten
from ....common.pings import Pings, answers, reachable
from ....errors import ClusterLostError, ClusterNotFoundError
from ...interrupts import Uninterrupted

# Chosen: a node answers in 1 ms (measured), and a mistake costs only the repetition of its work.
SILENT_SECONDS = 5.0
"""Seconds after which a node that does not answer counts as lost."""


# Chosen; a check takes 0.1 ms on one machine (measured).
LOOK_SECONDS = 1.0
"""Seconds between two checks of the cluster's nodes, and of its head (the node that manages it)."""

# Chosen: the run then ends. Ray itself waits for 60 s.
HEAD_SILENT_SECONDS = 20.0
"""Seconds after which the head, or Ray's process here, counts as lost if it does not answer."""

# Chosen: 5 s if the head is gone (measured), for ever if it does not answer.
LEAVE_SECONDS = 8.0
"""Seconds that leaving a cluster may take."""

# Chosen: leaving a cluster without a head takes 5 s, and the documentation promises 10 s in all.
GRACE_SECONDS = 1.5
"""If no connection to the head is possible for this number of seconds, it counts as lost."""

_STARTING = threading.Lock()

_NODE_DIED = re.compile(
    r"its node has died\. Node Id: (\w+)|(?:its|actor's) node (?:has died|was terminated)"
)


def join(address: str | None, workers: int) -> None:
    """Join a Ray cluster, if this process has not joined one yet.

    Args:
        address: "host:port" of the cluster's head; "auto" for a cluster on this machine; None for
            the address in the environment variable RAY_ADDRESS. If the address is None and the
            variable is not set, a new cluster is started on this machine. It ends with this
            process.
        workers: number of workers for which a new cluster has room. If there are more CPUs, it has
            room for as many workers as CPUs.

    Raises:
        ClusterNotFoundError: there is no cluster at the address; or this process has already joined
            a cluster with another "host:port" than that in `address`.
    """
    with _STARTING:
        if not ray.is_initialized():
            _join(address, workers)
            return
    joined_one = ray.get_runtime_context().gcs_address
    if address is not None and ":" in address and address != joined_one:
        raise ClusterNotFoundError(
            f"address={short_repr(address)} is not the address of the Ray cluster that this "
            f"process already uses, {joined_one}. Leave address= out; or, to use another cluster, "
            "call ray.shutdown() first."
        )


def _join(given: str | None, workers: int) -> None:
    address = given or os.environ.get("RAY_ADDRESS") or "local"
    where, remedy = _described(address, is_argument=bool(given))
    if "://" in address:
        raise ClusterNotFoundError(f"this machine cannot join the Ray cluster at {where}. {remedy}")
    if ":" in address and not reachable(address):
        raise ClusterNotFoundError(f"no Ray cluster answers at {where}. {remedy}")
    if address == "local":
        _lasting(lambda: start(num_cpus=max(os.cpu_count() or 1, workers)))
        return
    try:
        ray.init(address=address, logging_level=WARNING)
    except ConnectionError as error:
        raise ClusterNotFoundError(
            f"no Ray cluster was found at {where} ({shorten(error, 150)}). {remedy}"
        ) from error


def _described(address: str, is_argument: bool) -> tuple[str, str]:
    """Return two texts about an address: where it comes from; what to do if no cluster is there.

    Args:
        address: the address. It is a part of the first text.
        is_argument: True if it comes from the argument `address=`; False if from RAY_ADDRESS.
    """
    if is_argument:
        return f"address={short_repr(address)}", (
            "Pass the address that `ray start --head` printed. To start a cluster on this "
            "machine, leave address= out, and unset the environment variable RAY_ADDRESS."
        )
    return f"RAY_ADDRESS={short_repr(address)}", (
        "Set this environment variable to the address that `ray start --head` printed. "
        "To start a cluster on this machine, unset it."
    )


def start(**options: Any) -> None:
    """Start a cluster on this machine, with options of `ray.init`.

    Workers in the cluster find the same modules as this process.
    """
    before, as_uv_does = os.environ.get("PYTHONPATH"), ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = (
        False  # under `uv run`, it copies the folder and installs all packages anew
    )
    try:
        # JAX's: a fork is no danger where another program begins in it at once
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(address="local", include_dashboard=False, logging_level=WARNING, **options)
    finally:
        ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = as_uv_does
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _lasting(begin: Callable[[], None]) -> None:
    """Call a function that starts processes, in a thread that lives as long as this process.

    The kernel ends started processes when the thread that started them ends. An exception of the
    function is raised by this call.

    Args:
        begin: the function.
    """
    if threading.current_thread() is threading.main_thread():
        begin()
        return
    failures: list[BaseException] = []
    started = threading.Event()

    def keep() -> None:
        try:
            begin()
        except BaseException as error:
            failures.append(error)
            return
        finally:
            started.set()
        threading.Event().wait()

    threading.Thread(target=keep, name="headrace-ray", daemon=True).start()
    started.wait()
    if failures:
        raise failures[0]


class Cluster:
    """The Ray cluster that this process has joined.

    It checks that the cluster answers, counts the workers that fit, and asks Ray for more nodes.
    """

    def __init__(self) -> None:
        context = ray.get_runtime_context()
        self._head: str = context.gcs_address
        self.clock = time.time() - time.perf_counter()
        self._addresses: dict[
            str, str
        ] = {}  # of Ray's processes on nodes, "host:port", by the node's id
        self._here = ""
        self._looked, self._lost_since = float("-inf"), 0.0
        self._pings, self._needed_pings = Pings(SILENT_SECONDS), Pings(HEAD_SILENT_SECONDS)
        self._here = self._address_of(context.get_node_id())
        self._asked = 0

    def look(self) -> None:
        """Check that the cluster still exists, unless the last check was less than a second ago.

        If the cluster could not be reached in the last check, half a second is enough.

        Raises:
            ClusterLostError: the head (the node that manages the cluster), or Ray's process on this
                machine, is gone.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        silent = self._needed_pings.silent((address for _, address in self._needed()), now)
        if silent:
            self._leave([name for name, address in self._needed() if address in silent])
        if lost := [name for name, address in self._needed() if not reachable(address)]:
            self._lost_since = self._lost_since or now
            if now - self._lost_since >= GRACE_SECONDS:
                self._leave(lost)
        else:
            self._lost_since = 0.0
        self._looked = now if not lost else now - LOOK_SECONDS / 2

    def wait_for_head(self) -> None:
        """Wait until the head (the node that manages the cluster) answers.

        Call this before calls of Ray that would never return without a head. Raises
        ClusterLostError if the head is gone.
        """
        while not answers(self._head):
            self.look()
            time.sleep(LOOK_SECONDS / 10)

    @staticmethod
    def check_joined() -> None:
        """Check that this process is still in the Ray cluster.

        Without this check, Ray would start a new cluster at the next call.

        Raises:
            ClusterLostError: this process has left the cluster, because `ray.shutdown` was called.
        """
        if not ray.is_initialized():
            raise ClusterLostError(
                "this process has left the Ray cluster that ran its workers, because "
                "ray.shutdown() was called. Make a new iterator, iter(loader), and restore the "
                "state in it."
            )

    def _needed(self) -> list[tuple[str, str]]:
        needed = [(f"its head at {self._head}", self._head)]
        return (
            [*needed, (f"Ray's process on this machine, {self._here}", self._here)]
            if self._here
            else needed
        )

    def _leave(self, lost: list[str]) -> NoReturn:
        with Uninterrupted():
            leaving = threading.Thread(target=ray.shutdown, name="headrace-ray", daemon=True)
            leaving.start()
            leaving.join(LEAVE_SECONDS)  # Ray waits for a head that is there and does not answer
        raise ClusterLostError(
            f"the Ray cluster is gone: {' and '.join(lost)} cannot be reached. get_state() still "
            "gives the state of the last batch that you received. Save it, and resume in another "
            "cluster, or with worker_count=0."
        )

    @staticmethod
    def lost_by(error: Exception) -> str | None:
        """Return the id of the node that died, if an error says that a worker ended with its node.

        Return "" if the error does not say which node died, and None if only the worker ended.
        """
        found = _NODE_DIED.search(str(error))
        return found and (found[1] or "")

    def has(self, node: str) -> bool:
        """Return True if a node, given by its id, is in the cluster and answers now.

        The node itself is asked, because Ray notices a lost node only after a while. Before that,
        this call waits until the head (the node that manages the cluster) answers. Raises
        ClusterLostError if the head is gone.
        """
        return any(one["NodeID"] == node for one in self._nodes()) and answers(
            self._address_of(node)
        )

    def silent(self, nodes: Iterable[str]) -> list[str]:
        """Return the ids of those nodes that have not answered for 5 seconds.

        This call does not wait: it considers the answers that have come since earlier calls.

        Args:
            nodes: ids of the nodes.
        """
        addresses = {node: address for node in nodes if (address := self._address_of(node))}
        silent = self._pings.silent(addresses.values(), time.monotonic())
        return [node for node, address in addresses.items() if address in silent]

    def close(self) -> None:
        self._pings.close()
        self._needed_pings.close()

    def _address_of(self, node: str) -> str:
        if node not in self._addresses:
            self._addresses.update((one["NodeID"], _address(one)) for one in self._nodes())
        return self._addresses.get(node, "")

    def describe_node(self, node: str) -> str:
        return self._address_of(node).rpartition(":")[0] or node

    def ask_for(self, workers: int, needs: Mapping[str, float]) -> None:
        """Ask the cluster's autoscaler for room for workers; do nothing if there is no autoscaler.

        Args:
            workers: number of workers. 0 withdraws the request.
            needs: amounts of resources that each worker needs, by name.
        """
        if workers != self._asked and answers(self._head):
            request_resources(bundles=[dict(needs)] * workers)
            self._asked = workers

    def room(self, needs: Mapping[str, float]) -> int:
        """Return how many workers fit on all nodes if no other work runs on them; at least 1.

        Raises ClusterLostError if the cluster is gone.
        """
        return max(sum(_room(one["Resources"], needs) for one in self._nodes()), 1)

    def stores(self) -> dict[str, float]:
        """Return a dict from node id to the bytes of the node's object store; 0 if unknown.

        Waits until the head node answers. Raises ClusterLostError if the head node is gone.
        """
        return {
            one["NodeID"]: one["Resources"].get("object_store_memory", 0.0) for one in self._nodes()
        }

    def _nodes(self) -> list[dict[str, Any]]:
        """Wait until the head node answers, and return Ray's dict about each living node.

        Raise ClusterLostError if the head node is gone.
        """
        self.wait_for_head()
        return [one for one in ray.nodes() if one["Alive"]]


def _room(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return min(
        (int(node.get(name, 0.0) // amount) for name, amount in needs.items() if amount > 0),
        default=1,
    )


def _address(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


def needs_of(ray_options: Mapping[str, Any]) -> dict[str, float]:
    """Return the resources that a worker needs, by their names on nodes, from Ray actor options.

    >>> needs_of({"num_cpus": 2, "resources": {"decoder": 1}})
    {'CPU': 2, 'decoder': 1}
    """
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    needs = {names[name]: ray_options[name] for name in names if ray_options.get(name)}
    return {**needs, **ray_options.get("resources", {})}


def factory_of(
    worker: type, ray_options: Mapping[str, Any], concurrency: int
) -> tuple[Any, dict[str, float]]:
    """Return an object with a method `remote` that starts an actor; and the actor's resources.

    Ray checks most options in this call, before a cluster is joined or started.

    Args:
        worker: class of the actors.
        ray_options: the user's options for actors.
        concurrency: largest number of concurrent calls of an actor.

    Raises:
        ValueError: Ray does not know an option, or refuses its value.
    """
    try:
        return ray.remote(worker).options(**ray_options, max_concurrency=concurrency), needs_of(
            ray_options
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"ray_options={short_repr(dict(ray_options))} are not accepted by Ray "
            f"({shorten(error, 150)}). Pass arguments of its `.options()`, such as num_cpus, "
            "num_gpus, memory or resources."
        ) from error


def described_end(error: RayError) -> str:
    """Return, in parentheses, Ray's text that says how a worker ended."""
    text = str(error)
    _, found, detail = text.partition("Worker exit detail: ")
    return (
        f"(Ray says: {shorten(detail.partition(' Some common causes')[0] if found else text, 200)})"
    )
