"""Grain's names, run by headrace: `import headrace.compat.grain as grain`.

Most programs run with only the import changed. Orders and random numbers are the same as Grain's.
"""

from ..adapters.chains.iter_dataset import IterDataset as IterDataset
from ..adapters.chains.iterators import DatasetIterator as DatasetIterator
from ..adapters.chains.map_dataset import MapDataset as MapDataset
from ..adapters.loader.data_loader import DataLoader as DataLoader
from ..adapters.loader.data_loader import DataLoaderIterator as DataLoaderIterator
from ..adapters.loader.data_loader import load as load
from ..adapters.loader.records import Record as Record
from ..adapters.loader.records import RecordMetadata as RecordMetadata
from ..adapters.options import MultiprocessingOptions as MultiprocessingOptions
from ..adapters.options import ReadOptions as ReadOptions
from ..adapters.options import config as config
from . import _src as _src
from . import checkpoint as checkpoint
from . import constants as constants
from . import experimental as experimental
from . import multiprocessing as multiprocessing
from . import python as python
from . import samplers as samplers
from . import sharding as sharding
from . import sources as sources
from . import transforms as transforms
