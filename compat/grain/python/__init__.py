"""`grain.python`: older names."""

from typing import TYPE_CHECKING, Any

from .... import checkpoint as _checkpoint
from ....samplers import NoSharding, Sampler, ShardByJaxProcess, ShardOptions
from ....sources import ArrayRecordDataSource, RangeDataSource
from ....sources import DataSource as RandomAccessDataSource
from ...adapters.chains.iter_dataset import IterDataset
from ...adapters.chains.iterators import DatasetIterator
from ...adapters.chains.map_dataset import MapDataset
from ...adapters.loader.data_loader import DataLoader, load
from ...adapters.loader.data_loader import DataLoaderIterator as PyGrainDatasetIterator
from ...adapters.loader.operations import BatchOperation, FilterOperation, MapOperation, RandomMapOperation
from ...adapters.loader.operations import IteratorOperation as Operation
from ...adapters.loader.records import Record, RecordMetadata
from ...adapters.loader.samplers import IndexSampler, SequentialSampler
from ...adapters.options import MultiprocessingOptions, ReadOptions, config
from ...adapters.selection import DatasetSelectionMap
from ...adapters.sources import SharedMemoryDataSource as InMemoryDataSource
from ...adapters.transforms import Batch, Transformation, Transformations
from ...adapters.transforms import Filter as FilterTransform
from ...adapters.transforms import Map as MapTransform
from ...adapters.transforms import MapWithIndex as MapWithIndexTransform
from ...adapters.transforms import RandomMap as RandomMapTransform
from ..constants import DATASET_INDEX, EPOCH, INDEX, META_FEATURES, RECORD, RECORD_KEY, SEED
from . import experimental

if TYPE_CHECKING:
    from ....checkpoint.orbax import CheckpointHandler as PyGrainCheckpointHandler
    from ....checkpoint.orbax import CheckpointRestore as PyGrainCheckpointRestore
    from ....checkpoint.orbax import CheckpointSave as PyGrainCheckpointSave

__all__ = [
    "DATASET_INDEX",
    "EPOCH",
    "INDEX",
    "META_FEATURES",
    "RECORD",
    "RECORD_KEY",
    "SEED",
    "ArrayRecordDataSource",
    "Batch",
    "BatchOperation",
    "DataLoader",
    "DatasetIterator",
    "DatasetSelectionMap",
    "FilterOperation",
    "FilterTransform",
    "InMemoryDataSource",
    "IndexSampler",
    "IterDataset",
    "MapDataset",
    "MapOperation",
    "MapTransform",
    "MapWithIndexTransform",
    "MultiprocessingOptions",
    "NoSharding",
    "Operation",
    "PyGrainCheckpointHandler",
    "PyGrainCheckpointRestore",
    "PyGrainCheckpointSave",
    "PyGrainDatasetIterator",
    "RandomAccessDataSource",
    "RandomMapOperation",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "Transformation",
    "Transformations",
    "config",
    "experimental",
    "load",
]


def __getattr__(name: str) -> Any:
    """The names that need Orbax, when they are first used."""
    if not name.startswith("PyGrainCheckpoint"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_checkpoint, name.removeprefix("PyGrain"))
