"""Sources: record keys in, records out.

Importing this room imports none of the file formats' libraries; each is imported where a source of its kind is made.
"""

from .array_record import ArrayRecordDataSource
from .memory import MemorySource
from .protocol import DataSource, as_source, fingerprint_of, reader_of
from .range import RangeDataSource

__all__ = [
    "ArrayRecordDataSource",
    "DataSource",
    "MemorySource",
    "RangeDataSource",
    "as_source",
    "fingerprint_of",
    "reader_of",
]
