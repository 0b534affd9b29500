"""Sources: record keys in, records out.

Importing this room imports none of the file formats' libraries; each is imported where a source of its kind is made.
"""

from .array_record import ArrayRecordDataSource
from .memory import MemorySource
from .parquet import ParquetDataSource
from .protocol import DataSource, as_source, fingerprint_of, reader_of
from .range import RangeDataSource
from .tfds import TfdsDataSource

__all__ = [
    "ArrayRecordDataSource",
    "DataSource",
    "MemorySource",
    "ParquetDataSource",
    "RangeDataSource",
    "TfdsDataSource",
    "as_source",
    "fingerprint_of",
    "reader_of",
]
