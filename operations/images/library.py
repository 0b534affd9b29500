"""Import the libraries for images: simplejpeg (libjpeg-turbo) and OpenCV.

Both release Python's lock. They are imported with the first image, OpenCV also when an operation
that uses it is unpickled. So code that only describes a pipeline does not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.messages import short_repr
from ...common.validation import NUMBERS, array_of
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
        raise MissingExtraError(
            f'{operation} needs {" and ".join(missing)}: pip install "headrace[images]"'
        )


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
                f"the element has no key {short_repr(self._key)}, only "
                f"{short_repr(list(element))}. Pass key=, the name of the key that contains the "
                "image."
            )
        return {**element, self._key: change(element[self._key])}


class OnImagesWithOpenCV(OnImages):
    """Base class of operations that use OpenCV.

    Unpickling imports it, so that it is imported before workers are forked.
    """

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
    given = (
        f"shape {image.shape}"
        if isinstance(image, np.ndarray)
        else f"{type(image).__name__} {short_repr(image)}"
    )
    raise ImageError(
        f"{operation} takes arrays of height × width × channels, or frames × height × width × "
        f"channels, not {given}. Use DecodeImage first to decode bytes. If an array has no axis of "
        "channels, add it: image[..., None]. No axis may have the length 0."
    )


def fill_of(name: str, given: Any, more: str = "") -> Any:
    """Return the value of new pixels, as one number or a tuple of numbers.

    Args:
        name: name of the argument, for the error message.
        given: its value.
        more: what else the argument may be, for the error message.

    Raises:
        ValueError: it is neither a number nor a list of numbers.
    """
    if isinstance(given, NUMBERS):
        return given
    array = array_of(given)
    if array.ndim > 1 or not array.size or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}={short_repr(given)} must be a number, or a list of one number for each "
            f"channel. Pass such numbers{more}."
        )
    return tuple(given) if array.ndim else array.item()


def check_fill(images: Images, name: str, fill: Any) -> None:
    """Check that new pixels of images can have a value.

    Args:
        images: the images.
        name: name of the argument, for the error message.
        fill: its value, from `fill_of`.

    Raises:
        ImageError: it has too few or too many numbers, or one that the dtype of the images cannot
            hold.
    """
    numbers, channels = fill if isinstance(fill, tuple) else (fill,), images.shape[-1]
    if len(numbers) not in (1, channels):
        raise ImageError(
            f"the image has {channels} channels, but {name}={short_repr(fill)} has {len(numbers)} "
            "numbers. Pass one number for each channel, or one for all of them."
        )
    if images.dtype.kind in "iu":
        limits = np.iinfo(images.dtype)
        if not all(limits.min <= number <= limits.max for number in numbers):
            raise ImageError(
                f"the image has the dtype {images.dtype}, which cannot hold "
                f"{name}={short_repr(fill)}. Pass numbers from {limits.min} to {limits.max}."
            )


def on_frames(images: Images, change: Callable[..., Image], *arguments: Any) -> Images:
    """Return `change(image, *arguments)`; for a clip, an array of the results for its frames.

    Args:
        images: the image `[height, width, channels]`, or the clip `[…, height, width, channels]`.
        change: function that takes an image and the arguments, and returns an image.
        *arguments: further arguments of the function.
    """
    if images.ndim == 3:
        return change(images, *arguments)
    frames = [change(frame, *arguments) for frame in images.reshape(-1, *images.shape[-3:])]
    return np.stack(frames).reshape(*images.shape[:-3], *frames[0].shape)
