"""`grain.sources`: headrace's versions of the names in this module of Grain."""

from ...sources import ArrayRecordDataSource as ArrayRecordDataSource
from ...sources import DataSource as _DataSource
from ..adapters.sources import BagDataSource as BagDataSource
from ..adapters.sources import RangeDataSource as RangeDataSource
from ..adapters.sources import SharedMemoryDataSource as SharedMemoryDataSource

RandomAccessDataSource = _DataSource
