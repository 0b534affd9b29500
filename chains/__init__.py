"""Datasets made by a chain of method calls, which the engine of `DataLoader` runs."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .hugging_face_stream import HuggingFaceStream
    from .iter_dataset import IterDataset
    from .map_dataset import MapDataset
    from .splits import kfold, sample, split

__all__ = ["HuggingFaceStream", "IterDataset", "MapDataset", "kfold", "sample", "split"]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "HuggingFaceStream": "hugging_face_stream",
            "IterDataset": "iter_dataset",
            "MapDataset": "map_dataset",
            "kfold": "splits",
            "sample": "splits",
            "split": "splits",
        },
    )
