"""Sources: record keys in, records out.

Importing this room imports none of the file formats' libraries; each is imported where a source of its kind is made.
"""

from typing import TYPE_CHECKING

from ..lazy import names_from
from .memory import MemorySource
from .mixed import MixedSource
from .protocol import DataSource, as_source, fingerprint_of, reader_of

if TYPE_CHECKING:
    from .array_record import ArrayRecordDataSource
    from .arrow.hugging_face import HuggingFaceDataSource
    from .arrow.parquet import ParquetDataSource
    from .range import RangeDataSource
    from .tfds import TfdsDataSource
    from .tokens.source import TokenSource
    from .tokens.writer import TokenWriter

__all__ = [
    "ArrayRecordDataSource",
    "DataSource",
    "HuggingFaceDataSource",
    "MemorySource",
    "MixedSource",
    "ParquetDataSource",
    "RangeDataSource",
    "TfdsDataSource",
    "TokenSource",
    "TokenWriter",
    "as_source",
    "fingerprint_of",
    "reader_of",
]

__getattr__ = names_from(
    __name__,
    {
        "ArrayRecordDataSource": "array_record",
        "HuggingFaceDataSource": "arrow.hugging_face",
        "ParquetDataSource": "arrow.parquet",
        "RangeDataSource": "range",
        "TfdsDataSource": "tfds",
        "TokenSource": "tokens.source",
        "TokenWriter": "tokens.writer",
    },
)
