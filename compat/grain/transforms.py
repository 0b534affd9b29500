"""`grain.transforms`: headrace's versions of the names in this module of Grain."""

from ..adapters.transforms import Batch as Batch
from ..adapters.transforms import DatasetSelectionMap as DatasetSelectionMap
from ..adapters.transforms import Filter as Filter
from ..adapters.transforms import FlatMap as FlatMap
from ..adapters.transforms import Map as Map
from ..adapters.transforms import MapWithIndex as MapWithIndex
from ..adapters.transforms import RandomMap as RandomMap
from ..adapters.transforms import TfRandomMap as TfRandomMap
from ..adapters.transforms import Transformation as Transformation
from ..adapters.transforms import Transformations as Transformations
