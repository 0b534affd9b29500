"""Arguments of `MapDataset.select_from_datasets`.

In: an index. Out: the number of a dataset, and an index in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class DatasetSelectionMap(ABC):
    """Says which element of which dataset stands at an index; define both methods."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of elements in an epoch."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """The number of the dataset, and the index in it; for indices past the end, too."""
