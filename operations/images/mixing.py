"""Mix the images of a batch with one another, and their labels in the same shares.

In: batches, dicts with images `[batch, height, width, channels]` and labels. Out: batches of the
same shapes, whose labels are shares of classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.messages import short_repr
from ...common.validation import NUMBERS, array_of, whole_number
from ...errors import ImageError
from ..transforms import RandomMapTransform
from .library import Images


class _MixedBatches(RandomMapTransform):
    """Base of operations that mix each image of a batch with the one before it."""

    def __init__(self, alpha: float, num_classes: int | None, key: str, label: str) -> None:
        super().__init__()
        if not isinstance(alpha, NUMBERS) or not 0 < alpha < np.inf:
            raise ValueError(
                f"alpha={short_repr(alpha)} must be a finite number above 0. Pass 0.2 or 1, for "
                "example."
            )
        self._alpha, self._key, self._label = float(alpha), key, label
        if num_classes is not None:
            num_classes = whole_number(
                "num_classes", num_classes, 1, 1 << 30, "the number of classes"
            )
        self._classes = num_classes

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the batch with mixed images, and labels `float32[batch, classes]`.

        Args:
            element: the batch, a dict.
            rng: generator of the batch, which draws the shares.

        Raises:
            ImageError: the element is not a batch of images and labels.
        """
        images, labels = self._parts(element)
        share = float(rng.beta(self._alpha, self._alpha))
        mixed, share = self._mixed(images, np.roll(images, 1, axis=0), share, rng)
        other = np.roll(labels, 1, axis=0)
        shares = np.float32(share) * labels + np.float32(1 - share) * other
        return {**element, self._key: mixed, self._label: shares.astype(np.float32)}

    def _parts(self, element: Any) -> tuple[Images, NDArray[np.float32]]:
        name, keys = type(self).__name__, (self._key, self._label)
        if not isinstance(element, Mapping) or not all(key in element for key in keys):
            raise ImageError(
                f"{name} takes batches that are dicts with the keys {short_repr(self._key)} and "
                f"{short_repr(self._label)}, not {short_repr(element)}. Pass the names of these "
                f"keys, {name}(…, key=…, label=…), and use it after Batch."
            )
        images, labels = element[self._key], array_of(element[self._label])
        if (
            not isinstance(images, np.ndarray)
            or images.ndim < 4
            or labels.shape[:1] != images.shape[:1]
        ):
            raise ImageError(
                f"{name} takes batches, images [batch, height, width, channels] with as many "
                f"labels, not images {getattr(images, 'shape', type(images).__name__)} with labels "
                f"{labels.shape}. Use it after Batch."
            )
        if labels.ndim == 2 and self._classes in (None, labels.shape[1]):
            return images, labels.astype(np.float32)
        if self._classes is None or labels.dtype.kind not in "iu" or labels.ndim != 1:
            raise ImageError(
                f"{name} takes integer labels [batch] with num_classes=, or shares of classes "
                f"[batch, classes], not {labels.dtype}{list(labels.shape)} with "
                f"num_classes={self._classes}. Pass integers and num_classes=, or map each label "
                "to its shares before Batch."
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < self._classes:
            raise ImageError(
                f"the labels are from {labels.min()} to {labels.max()}, but "
                f"num_classes={self._classes} allows only 0 to {self._classes - 1}. Pass a larger "
                "num_classes, and no negative labels."
            )
        return images, (labels[:, np.newaxis] == np.arange(self._classes)).astype(np.float32)

    @abstractmethod
    def _mixed(
        self, images: Images, others: Images, share: float, rng: np.random.Generator
    ) -> tuple[Images, float]:
        """Return the mixed images, and the share of `images` in them."""


class MixUp(_MixedBatches):
    """Replace each image of a batch by a weighted mean of it and the image before it.

    Labels are replaced by the same mean.

    Zhang et al., "mixup: Beyond empirical risk minimization", ICLR 2018. Use it after `Batch`. One
    share is drawn for the whole batch. The first image is mixed with the last one.

    Args:
        alpha: both parameters of the beta distribution of the share, default 1 (uniform); 0.2 is
            usual for images.
        num_classes: number of classes, for labels `int[batch]`. Default: labels are shares `[batch,
            classes]` already.
        key: key of the images `[batch, …, height, width, channels]`, default "image". They keep
            their dtype.
        label: key of the labels, default "label".

    Raises:
        ValueError: `alpha` is not above 0, or `num_classes` is less than 1.

    >>> batch = {"image": np.zeros((2, 4, 4, 3), np.uint8), "label": np.array([0, 1])}
    >>> mixed = MixUp(num_classes=2).random_map(batch, np.random.default_rng(0))
    >>> mixed["label"].sum(axis=1).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        alpha: float = 1.0,
        num_classes: int | None = None,
        *,
        key: str = "image",
        label: str = "label",
    ) -> None:
        super().__init__(alpha, num_classes, key, label)

    def _mixed(
        self, images: Images, others: Images, share: float, rng: np.random.Generator
    ) -> tuple[Images, float]:
        dtype = images.dtype if images.dtype.kind == "f" else np.dtype(np.float32)
        found = images * dtype.type(share) + others * dtype.type(1 - share)
        return (found if images.dtype == dtype else np.rint(found).astype(images.dtype)), share


class CutMix(_MixedBatches):
    """Replace a random rectangle of each image of a batch by the image before it.

    Labels are mixed by the shares of the area.

    Yun et al., "CutMix: Regularization strategy to train strong classifiers", ICCV 2019. Use it
    after `Batch`. One rectangle is drawn for the whole batch. The first image gets the rectangle of
    the last one.

    Args:
        alpha: both parameters of the beta distribution of the area that is kept, default 1
            (uniform). More is kept if the rectangle crosses the border of the image.
        num_classes: number of classes, for labels `int[batch]`. Default: labels are shares `[batch,
            classes]` already.
        key: key of the images `[batch, …, height, width, channels]`, default "image".
        label: key of the labels, default "label".

    Raises:
        ValueError: `alpha` is not above 0, or `num_classes` is less than 1.

    >>> batch = {"image": np.zeros((2, 4, 4, 3), np.uint8), "label": np.array([0, 1])}
    >>> CutMix(num_classes=2).random_map(batch, np.random.default_rng(0))["image"].shape
    (2, 4, 4, 3)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        num_classes: int | None = None,
        *,
        key: str = "image",
        label: str = "label",
    ) -> None:
        super().__init__(alpha, num_classes, key, label)

    def _mixed(
        self, images: Images, others: Images, share: float, rng: np.random.Generator
    ) -> tuple[Images, float]:
        rows, columns = images.shape[-3:-1]
        y, x = int(rng.integers(rows)), int(rng.integers(columns))
        half = 0.5 * (1 - share) ** 0.5
        down, across = int(half * rows), int(half * columns)
        top, bottom, left, right = (
            max(0, y - down),
            min(rows, y + down),
            max(0, x - across),
            min(columns, x + across),
        )
        found = images.copy()
        found[..., top:bottom, left:right, :] = others[..., top:bottom, left:right, :]
        return found, 1 - (bottom - top) * (right - left) / (rows * columns)
