"""The loader: runs source, sampler and operations, and knows where the stream stands."""

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
