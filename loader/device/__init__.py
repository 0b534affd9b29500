"""The device feeder: it transfers batches to accelerators before the training step asks for them.

In: a loader or any iterable, and a sharding. Out: trees of `jax.Array`. jax is imported when a
feeder is described.
"""

from .description import DeviceLoader, device_put
from .hosts.across import HostLoader
from .hosts.shard_options import shard_options_for
from .remote.description import RemoteLoader

__all__ = ["DeviceLoader", "HostLoader", "RemoteLoader", "device_put", "shard_options_for"]
