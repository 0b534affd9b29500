"""Operations: transform records, and combine records into batches."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from
from .batch import Batch
from .padding import batch_and_pad, pad_batch
from .protocol import Operation
from .several import WindowShuffle, ZipRows
from .transforms import Filter, FlatMap, MapTransform, MapWithIndexTransform, RandomMapTransform

if TYPE_CHECKING:
    from .budget_batch import BudgetBatch
    from .images.decode import DecodeImage
    from .images.random import RandomFlip, RandomResizedCrop
    from .images.sizes import Resize
    from .pack import Pack

__all__ = [
    "Batch",
    "BudgetBatch",
    "DecodeImage",
    "Filter",
    "FlatMap",
    "MapTransform",
    "MapWithIndexTransform",
    "Operation",
    "Pack",
    "RandomFlip",
    "RandomMapTransform",
    "RandomResizedCrop",
    "Resize",
    "WindowShuffle",
    "ZipRows",
    "batch_and_pad",
    "pad_batch",
]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "BudgetBatch": "budget_batch",
            "DecodeImage": "images.decode",
            "Pack": "pack",
            "RandomFlip": "images.random",
            "RandomResizedCrop": "images.random",
            "Resize": "images.sizes",
        },
        entry_points="headrace.operations",
    )
