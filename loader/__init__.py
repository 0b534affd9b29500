"""The loader: it runs a source, a sampler and operations, and knows the position in the stream."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .data_loader import DataLoader
    from .device import DeviceLoader, HostLoader, RemoteLoader, device_put, shard_options_for
    from .iterator import DataLoaderIterator
    from .options import Auto, ReadOptions
    from .short_form import load

__all__ = [
    "Auto",
    "DataLoader",
    "DataLoaderIterator",
    "DeviceLoader",
    "HostLoader",
    "ReadOptions",
    "RemoteLoader",
    "device_put",
    "load",
    "shard_options_for",
]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "DataLoader": "data_loader",
            "DataLoaderIterator": "iterator",
            "DeviceLoader": "device",
            "HostLoader": "device",
            "RemoteLoader": "device",
            "Auto": "options",
            "ReadOptions": "options",
            "device_put": "device",
            "load": "short_form",
            "shard_options_for": "device",
        },
    )
