"""`grain.multiprocessing`."""

from ..adapters.options import MultiprocessingOptions as MultiprocessingOptions
