"""Import the libraries for images: simplejpeg (libjpeg-turbo) and OpenCV. Both release Python's lock.

They are imported with the first image, OpenCV also when an operation that uses it is unpickled. So code that only
describes a pipeline does not import them.
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
"""Array `[height, width, channels]`."""

Images = npt.NDArray[Any]
"""Image or clip: array `[…, height, width, channels]`."""


def check_libraries(operation: str) -> None:
    """Raise MissingExtraError if OpenCV or simplejpeg is not installed. Neither is imported.

    `operation` is the name of the operation that needs them.
    """
    packages = {"cv2": "opencv-python-headless", "simplejpeg": "simplejpeg"}
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if missing:
        raise MissingExtraError(f'{operation} needs {" and ".join(missing)}: pip install "headrace[images]"')


@cache
def opencv() -> Any:
    """Return the module `cv2` (OpenCV), which is set to use only the calling thread."""
    import cv2

    cv2.setNumThreads(1)  # the loader has threads and worker processes of its own
    return cv2


class OnImages:
    """Base class of operations on images that need NumPy alone.

    Attributes:
        _key: key of the image in elements that are dicts.
    """

    _key: str  # key of the image in elements that are dicts

    def with_image(self, element: Any, change: Callable[[Any], Any]) -> Any:
        """Return an element with its image replaced by `change(image)`.

        The image is the item `key` of a dict, or the element itself if it is not a dict.

        Args:
            element: the element.
            change: function that takes the image and returns the new one.

        Raises:
            ImageError: the dict has no such item.
        """
        if not isinstance(element, Mapping):
            return change(element)
        if self._key not in element:
            raise ImageError(
                f"the element has no key {short_repr(self._key)}, only {short_repr(list(element))}. "
                "Pass key=, the name of the key that contains the image."
            )
        return {**element, self._key: change(element[self._key])}


class OnImagesWithOpenCV(OnImages):
    """Base class of operations that use OpenCV. Unpickling imports it, so that it is imported before workers are forked."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_libraries(type(self).__name__)  # the machine may be another one than the program's
        self.__dict__.update(state)
        opencv()


def with_channels(image: Image) -> Image:
    """Return an image `[height, width, channels]`; one without the last axis gets one channel.

    OpenCV drops that axis if there is only one channel.
    """
    return image if image.ndim == 3 else image[:, :, np.newaxis]


def checked(image: Any, operation: str) -> Images:
    """Return the input of an operation after a check that it is an image or a clip.

    Args:
        image: the input.
        operation: name of the operation, for the error message.

    Raises:
        ImageError: it is neither.
    """
    if isinstance(image, np.ndarray) and image.ndim >= 3 and image.size:
        return image
    given = f"shape {image.shape}" if isinstance(image, np.ndarray) else f"{type(image).__name__} {short_repr(image)}"
    raise ImageError(
        f"{operation} takes arrays of height × width × channels, or frames × height × width × channels, "
        f"not {given}. Use DecodeImage first to decode bytes. If an array has no axis of channels, add it: "
        "image[..., None]. No axis may have the length 0."
    )


def on_frames(images: Images, change: Callable[[Image], Image]) -> Images:
    """Return `change(image)` for an image; for a clip, an array of the results for each of its frames.

    Args:
        images: the image `[height, width, channels]`, or the clip `[…, height, width, channels]`.
        change: function that takes an image and returns an image.
    """
    if images.ndim == 3:
        return change(images)
    frames = [change(frame) for frame in images.reshape(-1, *images.shape[-3:])]
    return np.stack(frames).reshape(*images.shape[:-3], *frames[0].shape)
