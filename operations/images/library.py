"""The libraries whose kernels work on images: simplejpeg (libjpeg-turbo) and OpenCV. Both let go of Python's lock.

In: nothing, or an array and a function of OpenCV. Out: the modules, imported when the first image comes, and arrays that keep
their axis of channels. Whoever only describes a pipeline imports neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr
from ...errors import ImageError, MissingExtraError

Image = npt.NDArray[Any]
"""`[height, width, channels]`."""

Images = npt.NDArray[Any]
"""An image, or a clip: `[…, height, width, channels]`, with axes of frames before those of an image."""


def check_libraries(operation: str) -> None:
    """See that what works on images is installed, without importing it.

    Raises:
        MissingExtraError: it is not.
    """
    packages = {"cv2": "opencv-python-headless", "simplejpeg": "simplejpeg"}
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if missing:
        raise MissingExtraError(f'{operation} needs {" and ".join(missing)}: pip install "headrace[images]"')


@cache
def opencv() -> Any:
    """OpenCV, without threads of its own: the loader has some, and worker processes besides."""
    import cv2

    cv2.setNumThreads(1)
    return cv2


class OnImages:
    """An operation that uses the libraries. They are imported where it is unpickled, before workers are forked there."""

    _key: str  # of the image, in an element that is a dict

    def with_image(self, element: Any, change: Callable[[Any], Any]) -> Any:
        """An element with its image changed: that under the key of a dict, or the element itself.

        Raises:
            ImageError: the dict has no such key.
        """
        if not isinstance(element, Mapping):
            return change(element)
        if self._key not in element:
            raise ImageError(f"the element has no {short_repr(self._key)}, but {short_repr(list(element))}; pass key=.")
        return {**element, self._key: change(element[self._key])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        opencv()


def with_channels(image: Image) -> Image:
    """An image of OpenCV, which leaves out the axis of a single channel."""
    return image if image.ndim == 3 else image[:, :, np.newaxis]


def checked(image: Any, operation: str) -> Images:
    """An operation's input, if it is an image or a clip.

    Raises:
        ImageError: it is none.
    """
    if isinstance(image, np.ndarray) and image.ndim >= 3 and image.size:
        return image
    told = f"shape {image.shape}" if isinstance(image, np.ndarray) else f"{type(image).__name__} {short_repr(image)}"
    raise ImageError(
        f"{operation} takes arrays of height × width × channels, or frames × height × width × channels, not {told}; "
        "DecodeImage makes one of bytes."
    )


def on_frames(images: Images, change: Callable[[Image], Image]) -> Images:
    """An image changed, or each frame of a clip."""
    if images.ndim == 3:
        return change(images)
    frames = [change(frame) for frame in images.reshape(-1, *images.shape[-3:])]
    return np.stack(frames).reshape(*images.shape[:-3], *frames[0].shape)
