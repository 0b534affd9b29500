"""`grain.multiprocessing`."""

from ..adapters.options import MultiprocessingOptions

__all__ = ["MultiprocessingOptions"]
