"""`grain.python`: older names of Grain.

Names that need Orbax import it when they are first used.
"""

from typing import TYPE_CHECKING, Any

from .... import checkpoint as _checkpoint
from ....samplers import NoSharding as NoSharding
from ....samplers import Sampler as Sampler
from ....samplers import ShardByJaxProcess as ShardByJaxProcess
from ....samplers import ShardOptions as ShardOptions
from ....sources import ArrayRecordDataSource as ArrayRecordDataSource
from ....sources import DataSource as _DataSource
from ...adapters import sources as _sources
from ...adapters import transforms as _transforms
from ...adapters.chains.iter_dataset import IterDataset as IterDataset
from ...adapters.chains.iterators import DatasetIterator as DatasetIterator
from ...adapters.chains.map_dataset import MapDataset as MapDataset
from ...adapters.inner.by_method import SharedMemoryArray as SharedMemoryArray
from ...adapters.loader import data_loader as _loader
from ...adapters.loader import operations as _operations
from ...adapters.loader.data_loader import DataLoader as DataLoader
from ...adapters.loader.data_loader import load as load
from ...adapters.loader.operations import BatchOperation as BatchOperation
from ...adapters.loader.operations import FilterOperation as FilterOperation
from ...adapters.loader.operations import MapOperation as MapOperation
from ...adapters.loader.operations import RandomMapOperation as RandomMapOperation
from ...adapters.loader.records import IndexSampler as IndexSampler
from ...adapters.loader.records import Record as Record
from ...adapters.loader.records import RecordMetadata as RecordMetadata
from ...adapters.loader.records import SequentialSampler as SequentialSampler
from ...adapters.options import MultiprocessingOptions as MultiprocessingOptions
from ...adapters.options import ReadOptions as ReadOptions
from ...adapters.options import config as config
from ...adapters.sources import BagDataSource as BagDataSource
from ...adapters.sources import RangeDataSource as RangeDataSource
from ...adapters.transforms import Batch as Batch
from ...adapters.transforms import DatasetSelectionMap as DatasetSelectionMap
from ...adapters.transforms import Transformation as Transformation
from ...adapters.transforms import Transformations as Transformations
from ..constants import DATASET_INDEX as DATASET_INDEX
from ..constants import EPOCH as EPOCH
from ..constants import INDEX as INDEX
from ..constants import META_FEATURES as META_FEATURES
from ..constants import RECORD as RECORD
from ..constants import RECORD_KEY as RECORD_KEY
from ..constants import SEED as SEED
from . import experimental as experimental

InMemoryDataSource = _sources.SharedMemoryDataSource
RandomAccessDataSource = _DataSource
PyGrainDatasetIterator = _loader.DataLoaderIterator
Operation = _operations.IteratorOperation
FilterTransform = _transforms.Filter
MapTransform = _transforms.Map
MapWithIndexTransform = _transforms.MapWithIndex
RandomMapTransform = _transforms.RandomMap

if TYPE_CHECKING:
    from ....checkpoint import orbax as _orbax

    PyGrainCheckpointHandler = _orbax.CheckpointHandler
    PyGrainCheckpointRestore = _orbax.CheckpointRestore
    PyGrainCheckpointSave = _orbax.CheckpointSave


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if not name.startswith("PyGrainCheckpoint"):
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}. Use a name that "
                "docs/grain-names.md lists for grain.python."
            )
        return getattr(_checkpoint, name.removeprefix("PyGrain"))
