"""The loader: runs source, sampler and operations, and knows where the stream stands."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data_loader import DataLoader, load
    from .device import DeviceLoader, device_put, shard_options_for
    from .iterator import DataLoaderIterator
    from .options import ReadOptions
    from .resume_check import check_resume

__all__ = [
    "DataLoader",
    "DataLoaderIterator",
    "DeviceLoader",
    "ReadOptions",
    "check_resume",
    "device_put",
    "load",
    "shard_options_for",
]

_HOMES = {
    "DataLoader": "data_loader",
    "DataLoaderIterator": "iterator",
    "DeviceLoader": "device",
    "ReadOptions": "options",
    "check_resume": "resume_check",
    "device_put": "device",
    "load": "data_loader",
    "shard_options_for": "device",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a worker process runs pipelines, and needs none of them."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
