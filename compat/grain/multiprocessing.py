"""`grain.multiprocessing`: headrace's versions of the names in this module of Grain."""

from ..adapters.inner.by_method import SharedMemoryArray as SharedMemoryArray
from ..adapters.inner.by_method import SharedMemoryArrayMetadata as SharedMemoryArrayMetadata
from ..adapters.options import MultiprocessingOptions as MultiprocessingOptions
