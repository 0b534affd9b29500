"""`grain.multiprocessing`."""

from ..adapters.inner.by_method import SharedMemoryArray as SharedMemoryArray
from ..adapters.inner.by_method import SharedMemoryArrayMetadata as SharedMemoryArrayMetadata
from ..adapters.options import MultiprocessingOptions as MultiprocessingOptions
