"""Sources: they return records by key.

Importing this package does not import the library of any file format. It is imported when a source
on such files is made or read.
"""

from typing import TYPE_CHECKING

from ..common.costs import attention
from ..common.lazy_exports import names_from
from .facts import SourceFacts
from .protocol import DataSource, fingerprint_of, reader_of

if TYPE_CHECKING:
    from .accepted import as_source
    from .array_record.source import ArrayRecordDataSource
    from .arrays.hdf5 import HDF5Source
    from .arrays.npz import NpzSource
    from .arrays.xarray import XarraySource
    from .arrays.zarr import ZarrSource
    from .arrow.hugging_face import HuggingFaceDataSource
    from .arrow.lance import LanceSource
    from .arrow.parquet import ParquetDataSource
    from .derived.offset_windows import OffsetWindows
    from .derived.subset import Subset
    from .derived.windows import Windows
    from .image_folder import ImageFolderDataSource
    from .indexed.json_lines import JsonLinesDataSource
    from .indexed.tar import TarDataSource
    from .indexed.text_lines import TextLinesSource
    from .indexed.tfrecord import TFRecordDataSource
    from .joined.source import JoinedByKey
    from .lengths import lengths_of
    from .lerobot.source import LeRobotSource
    from .memory import MemorySource
    from .mixed.source import MixedSource
    from .omission.rewritten import FormerKeys
    from .range import RangeDataSource
    from .sharded.litdata import LitDataSource
    from .sharded.mds import MdsSource
    from .tfds import TfdsDataSource
    from .tokens.byte_records import BytesSource
    from .tokens.megatron import MegatronSource
    from .tokens.source import TokenSource
    from .tokens.writer import TokenWriter

__all__ = [
    "ArrayRecordDataSource",
    "BytesSource",
    "DataSource",
    "FormerKeys",
    "HDF5Source",
    "HuggingFaceDataSource",
    "ImageFolderDataSource",
    "JoinedByKey",
    "JsonLinesDataSource",
    "LanceSource",
    "LeRobotSource",
    "LitDataSource",
    "MdsSource",
    "MegatronSource",
    "MemorySource",
    "MixedSource",
    "NpzSource",
    "OffsetWindows",
    "ParquetDataSource",
    "RangeDataSource",
    "SourceFacts",
    "Subset",
    "TFRecordDataSource",
    "TarDataSource",
    "TextLinesSource",
    "TfdsDataSource",
    "TokenSource",
    "TokenWriter",
    "Windows",
    "XarraySource",
    "ZarrSource",
    "as_source",
    "attention",
    "fingerprint_of",
    "lengths_of",
    "reader_of",
]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "ArrayRecordDataSource": "array_record.source",
            "BytesSource": "tokens.byte_records",
            "FormerKeys": "omission.rewritten",
            "HDF5Source": "arrays.hdf5",
            "HuggingFaceDataSource": "arrow.hugging_face",
            "ImageFolderDataSource": "image_folder",
            "JoinedByKey": "joined.source",
            "JsonLinesDataSource": "indexed.json_lines",
            "LanceSource": "arrow.lance",
            "LeRobotSource": "lerobot.source",
            "LitDataSource": "sharded.litdata",
            "MdsSource": "sharded.mds",
            "MegatronSource": "tokens.megatron",
            "MemorySource": "memory",
            "MixedSource": "mixed.source",
            "NpzSource": "arrays.npz",
            "OffsetWindows": "derived.offset_windows",
            "ParquetDataSource": "arrow.parquet",
            "lengths_of": "lengths",
            "RangeDataSource": "range",
            "Subset": "derived.subset",
            "TFRecordDataSource": "indexed.tfrecord",
            "TarDataSource": "indexed.tar",
            "TextLinesSource": "indexed.text_lines",
            "TfdsDataSource": "tfds",
            "TokenSource": "tokens.source",
            "TokenWriter": "tokens.writer",
            "Windows": "derived.windows",
            "XarraySource": "arrays.xarray",
            "ZarrSource": "arrays.zarr",
            "as_source": "accepted",
        },
        entry_points="headrace.sources",
    )
