"""The cluster: joins it or starts one, says what is there, and notices when it is gone.

In: an address, and what a worker needs. Out: nodes, how many workers there is room for; `ClusterLostError` once the head, or
Ray's process on this machine, is gone. Ray itself would end the user's process a minute after the head is lost.
"""

from __future__ import annotations

import os
import re
import socket
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

from ....common.messages import short_repr, shorten
from ....errors import ClusterLostError, ClusterNotFoundError
from ...interrupts import Uninterrupted

CONNECT_SECONDS = 1.0
"""How long a machine may take to answer. Chosen."""

SILENT_SECONDS = 5.0
"""How long a node may be silent. Chosen: one answers in 1 ms (measured), and work of a lost one is only done again."""

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC begins (RFC 9113, section 3.4): a server answers with its settings, or, with TLS, with an alert."""

LOOK_SECONDS = 1.0
"""Between two looks at the head of the cluster and at nodes. Chosen; a look takes 0.1 ms on one machine (measured)."""

HEAD_SILENT_SECONDS = 20.0
"""How long the head may be silent, or Ray's process on this machine. Chosen: the run ends then. Ray waits for 60 s."""

LEAVE_SECONDS = 8.0
"""How long leaving a cluster may take. Chosen: 5 s where the head is gone (measured), for ever where it does not answer."""

GRACE_SECONDS = 1.5
"""How long the head may be unreachable. Chosen: to leave a cluster without a head takes Ray 5 s, and 10 s are promised."""

_STARTING = threading.Lock()

_NODE_DIED = re.compile(r"its node has died\. Node Id: (\w+)|(?:its|actor's) node (?:has died|was terminated)")


def join(address: str | None, workers: int) -> None:
    """Join a cluster, if this process has not joined one yet.

    Args:
        address: of its head, "host:port"; "auto" for the one that runs on this machine; None for the one that the
            environment variable RAY_ADDRESS names, or else one that is started here, and ends with this process.
        workers: one that is started has room for so many, at least as many as there are CPUs.

    Raises:
        ClusterNotFoundError: there is none at the address, or this process is in another one.
    """
    with _STARTING:
        if not ray.is_initialized():
            _join(address, workers)
            return
    joined_one = ray.get_runtime_context().gcs_address
    if address is not None and ":" in address and address != joined_one:
        raise ClusterNotFoundError(
            f"address={short_repr(address)}, but this process has joined the Ray cluster at {joined_one}; leave address= out, "
            "or call ray.shutdown() before."
        )


def _join(address: str | None, workers: int) -> None:
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if "://" in address:
        raise ClusterNotFoundError(
            f"RAY_ADDRESS={short_repr(address)} is no cluster that this machine can be a node of; set it to the address that "
            "`ray start --head` printed, or pass address=."
        )
    if ":" in address and not reachable(address):
        raise ClusterNotFoundError(
            f"no Ray cluster answers at address={short_repr(address)}; pass the address that `ray start --head` printed, or "
            "None to start a cluster on this machine."
        )
    if address == "local":
        _lasting(lambda: start(num_cpus=max(os.cpu_count() or 1, workers)))
        return
    try:
        ray.init(address=address, logging_level=WARNING)
    except ConnectionError as error:
        raise ClusterNotFoundError(
            f"no Ray cluster was found at address={short_repr(address)} ({shorten(error, 150)}); start one by `ray start "
            "--head`, or pass None to start a cluster on this machine."
        ) from error


def start(**options: Any) -> None:
    """Start a cluster of this machine alone, whose workers find the modules that this process finds.

    Args:
        **options: of `ray.init`.
    """
    before, as_uv_does = os.environ.get("PYTHONPATH"), ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = (
        False  # under `uv run`, it copies the folder and installs all packages anew
    )
    try:
        with warnings.catch_warnings():  # JAX's: a fork is no danger where another program begins in it at once
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(address="local", include_dashboard=False, logging_level=WARNING, **options)
    finally:
        ray_constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = as_uv_does
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _lasting(begin: Callable[[], None]) -> None:
    """Start processes in a thread that lasts: the kernel ends them with the thread that started them."""
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


def reachable(address: str) -> bool:
    """True if somebody listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def answers(address: str) -> bool:
    """True if somebody at "host:port" says something at once; waits `CONNECT_SECONDS` twice at most."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
            connection.sendall(HELLO)
            connection.recv(1)
    except ConnectionResetError:
        return True
    except (OSError, ValueError):
        return False
    return True


class Pings:
    """Asks without waiting. What is asked is looked at by the next call, whenever that comes.

    Who has not answered for `seconds` is silent.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked: dict[str, _Ping] = {}

    def silent(self, addresses: Iterable[str], now: float) -> list[str]:
        """Those of the addresses that are silent. What is known of others that were asked about before is forgotten."""
        wanted = set(addresses)
        for address in self._asked.keys() - wanted:
            self._asked.pop(address).close()
        for address in wanted:
            ping = self._asked.get(address)
            if ping is None or ping.is_answered(now):
                self._asked[address] = _Ping(address, now)
        return [address for address in wanted if now - self._asked[address].since > self._seconds]

    def close(self) -> None:
        self.silent((), 0.0)


class _Ping:
    """One question. `since`: when we last did something for it, so that a pause of ours is not taken for theirs."""

    def __init__(self, address: str, now: float) -> None:
        self._address = address
        self.since = now
        self._connect()

    def _connect(self) -> None:
        self._said = False
        host, _, port = self._address.rpartition(":")
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.connect_ex(where)

    def is_answered(self, now: float) -> bool:
        """True if it is; sends what could not be sent yet. A refusal is no answer: it is asked again."""
        try:
            if not self._said:
                self._socket.sendall(HELLO)  # cannot be done while it connects
                self._said, self.since = True, now
            self._socket.recv(1)
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionResetError:
            pass
        except OSError:
            self.close()
            self._connect()
            return False
        self.close()
        return True

    def close(self) -> None:
        self._socket.close()


class Cluster:
    """The cluster that this process is in."""

    def __init__(self) -> None:
        context = ray.get_runtime_context()
        self._head: str = context.gcs_address
        self.clock = time.time() - time.perf_counter()
        self._addresses: dict[str, str] = {}  # of Ray's processes on nodes, "host:port", by the node's id
        self._here = ""
        self._looked, self._lost_since = float("-inf"), 0.0
        self._pings, self._needed_pings = Pings(SILENT_SECONDS), Pings(HEAD_SILENT_SECONDS)
        self._here = self._address_of(context.get_node_id())
        self._asked = 0

    def look(self) -> None:
        """See whether it is there, if that was not done a moment ago.

        Raises:
            ClusterLostError: it is not.
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
        """Wait for the head: without it, a question may never be answered.

        Raises:
            ClusterLostError: it does not come back.
        """
        while not answers(self._head):
            self.look()
            time.sleep(LOOK_SECONDS / 10)

    @staticmethod
    def check_joined() -> None:
        """Without this Ray would start a cluster whenever something is asked of it.

        Raises:
            ClusterLostError: this process has left the cluster.
        """
        if not ray.is_initialized():
            raise ClusterLostError(
                "this process has left the Ray cluster that does the work (ray.shutdown() was called); take a new iterator, "
                "iter(loader), and give it the state."
            )

    def _needed(self) -> list[tuple[str, str]]:
        needed = [(f"its head at {self._head}", self._head)]
        return [*needed, (f"Ray's process on this machine, {self._here}", self._here)] if self._here else needed

    def _leave(self, lost: list[str]) -> NoReturn:
        with Uninterrupted():
            leaving = threading.Thread(target=ray.shutdown, name="headrace-ray", daemon=True)
            leaving.start()
            leaving.join(LEAVE_SECONDS)  # Ray waits for a head that is there and does not answer
        raise ClusterLostError(
            f"the Ray cluster is gone: {' and '.join(lost)} cannot be reached. The state is that of the last batch that you "
            "received: save it, and go on from it in a cluster that runs, or with worker_count=0."
        )

    @staticmethod
    def lost_by(error: Exception) -> str | None:
        """The node with which a worker ended, "" if Ray does not say which; None if the worker ended alone."""
        found = _NODE_DIED.search(str(error))
        return found and (found[1] or "")

    def has(self, node: str) -> bool:
        """True if a node is there, and answers: Ray notices only after some time that it does not."""
        return any(one["NodeID"] == node for one in self._nodes()) and answers(self._address_of(node))

    def silent(self, nodes: Iterable[str]) -> list[str]:
        """Those of these nodes that have not answered for some seconds. Does not wait; is asked from time to time."""
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

    def told(self, node: str) -> str:
        return self._address_of(node).rpartition(":")[0] or node

    def ask_for(self, workers: int, needs: Mapping[str, float]) -> None:
        """Tell an autoscaler, if there is one, how many workers with these needs there should be room for; 0 for none more."""
        if workers != self._asked and answers(self._head):
            request_resources(bundles=[dict(needs)] * workers)
            self._asked = workers

    def room(self, needs: Mapping[str, float]) -> int:
        """Workers with these needs that the nodes have room for, if nobody else is there. At least one."""
        return max(sum(_room(one["Resources"], needs) for one in self._nodes()), 1)

    def stores(self) -> dict[str, float]:
        """Bytes of the object store of each node."""
        return {one["NodeID"]: one["Resources"].get("object_store_memory", 0.0) for one in self._nodes()}

    def _nodes(self) -> list[dict[str, Any]]:
        """Those that are there. Ray would wait for a head that is gone, and then end the process."""
        self.wait_for_head()
        return [one for one in ray.nodes() if one["Alive"]]


def _room(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return min((int(node.get(name, 0.0) // amount) for name, amount in needs.items() if amount > 0), default=1)


def _address(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


def needs_of(ray_options: Mapping[str, Any]) -> dict[str, float]:
    """The needs of a worker, by the names that nodes have for them.

    >>> needs_of({"num_cpus": 2, "resources": {"decoder": 1}})
    {'CPU': 2, 'decoder': 1}
    """
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    needs = {names[name]: ray_options[name] for name in names if ray_options.get(name)}
    return {**needs, **ray_options.get("resources", {})}
