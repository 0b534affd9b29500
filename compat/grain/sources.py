"""`grain.sources`."""

from ...sources import ArrayRecordDataSource as ArrayRecordDataSource
from ...sources import DataSource as _DataSource
from ...sources import RangeDataSource as RangeDataSource
from ..adapters.sources import SharedMemoryDataSource as SharedMemoryDataSource

RandomAccessDataSource = _DataSource
