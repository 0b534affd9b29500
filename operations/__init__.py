"""Operations: transform records, and combine records into batches."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from
from .batch import Batch
from .padding import batch_and_pad, pad_batch
from .protocol import Operation
from .several import FlatMap, WindowShuffle, ZipRows
from .transforms import Filter, MapTransform, MapWithIndexTransform, RandomMapTransform

if TYPE_CHECKING:
    from .budget_batch import BudgetBatch
    from .images.colours import ColorJitter, GaussianBlur
    from .images.decode import DecodeImage
    from .images.erasing import RandomErasing
    from .images.frames import CenterCrop, Normalize, Pad
    from .images.mixing import CutMix, MixUp
    from .images.rand_augment import RandAugment
    from .images.random import RandomFlip, RandomResizedCrop
    from .images.sizes import Resize
    from .pack import Pack
    from .video.audio import DecodeAudio
    from .video.decode import DecodeVideo, RandomClip

__all__ = [
    "Batch",
    "BudgetBatch",
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "DecodeAudio",
    "DecodeImage",
    "DecodeVideo",
    "Filter",
    "FlatMap",
    "GaussianBlur",
    "MapTransform",
    "MapWithIndexTransform",
    "MixUp",
    "Normalize",
    "Operation",
    "Pack",
    "Pad",
    "RandAugment",
    "RandomClip",
    "RandomErasing",
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
            "CenterCrop": "images.frames",
            "ColorJitter": "images.colours",
            "CutMix": "images.mixing",
            "DecodeAudio": "video.audio",
            "DecodeImage": "images.decode",
            "DecodeVideo": "video.decode",
            "GaussianBlur": "images.colours",
            "MixUp": "images.mixing",
            "Normalize": "images.frames",
            "Pack": "pack",
            "Pad": "images.frames",
            "RandAugment": "images.rand_augment",
            "RandomClip": "video.decode",
            "RandomErasing": "images.erasing",
            "RandomFlip": "images.random",
            "RandomResizedCrop": "images.random",
            "Resize": "images.sizes",
        },
        entry_points="headrace.operations",
    )
