"""`grain.sources`."""

from ...sources import ArrayRecordDataSource, RangeDataSource
from ...sources import DataSource as RandomAccessDataSource
from ..adapters.sources import SharedMemoryDataSource

__all__ = ["ArrayRecordDataSource", "RandomAccessDataSource", "RangeDataSource", "SharedMemoryDataSource"]
