"""Decode frames of videos: frames with given numbers or times, or a random clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...common.messages import short_repr
from ...common.validation import array_of, whole_number
from ...errors import VideoError
from ..images.sizes import Size, size_of
from ..transforms import MapTransform, RandomMapTransform
from .opened import Frames, OpenVideo, OpenVideos, value_in

Which: TypeAlias = str | int | Sequence[int] | slice | None
When: TypeAlias = str | float | Sequence[float] | None


class _OnVideos:
    """Base of operations that replace a video by frames of it."""

    def __init__(self, size: Size | None, key: str, max_open: int) -> None:
        super().__init__()
        self._size = None if size is None else size_of(size)
        self._key = key
        self._videos = OpenVideos(
            whole_number("max_open", max_open, 1, 1 << 16, "a number of files, such as 8")
        )

    def _video_of(self, element: Any) -> Any:
        return value_in(element, self._key, "video") if isinstance(element, Mapping) else element

    def _with_frames(self, element: Any, frames: Frames) -> Any:
        return {**element, self._key: frames} if isinstance(element, Mapping) else frames

    def _array_of(self, frame: Any) -> Frames:
        size = {} if self._size is None else {"height": self._size[0], "width": self._size[1]}
        found: Frames = frame.to_ndarray(format="rgb24", **size)
        return found

    def identity_parameters(self) -> dict[str, Any]:
        """Return the attributes that tell two operations apart: all but the open files."""
        return {name: value for name, value in vars(self).items() if name != "_videos"}


class DecodeVideo(_OnVideos, MapTransform):
    """Decode frames of a video to an array `uint8[frames, height, width, 3]` (red, green, blue).

    A video is the path of a file (a string, also a URL in a store, or a `pathlib.Path`), or its
    bytes. Frames are exact, also between keyframes. Each thread keeps some files open, so frames of
    one file after another are decoded without seeking.

    A video of `LeRobotSource` names its own times: it is a dict `{"path": file, "times": seconds}`.
    If `times` is one number, the result is one frame, `uint8[height, width, 3]`.

    Args:
        frames: which frames: a number from 0, a sequence of numbers, a `slice`, or the key of one
            of these in the element. Negative numbers count from the end. None (default): all
            frames, unless `times` is passed.
        times: times in seconds in place of numbers, or the key of these in the element: each gives
            the frame that is shown at that time.
        size: (height, width) of the frames, or one integer for both. Default: the size in the file.
        key: key of the video in elements that are dicts, default "video". Other elements are videos
            themselves.
        max_open: maximum number of files that a thread keeps open, default 8.

    Raises:
        ValueError: both `frames` and `times` are passed, or an argument is out of range.

    >>> # for elements such as {"video": "a.mp4", "label": 3}
    >>> decode = DecodeVideo(frames=[0, 10, 20], size=(112, 112))
    """

    def __init__(
        self,
        frames: Which = None,
        *,
        times: When = None,
        size: Size | None = None,
        key: str = "video",
        max_open: int = 8,
    ) -> None:
        super().__init__(size, key, max_open)
        if frames is not None and times is not None:
            raise ValueError(
                "DecodeVideo takes frames= or times=, not both. Leave one of them out."
            )
        self._frames, self._times = frames, times

    def map(self, element: Any) -> Any:
        """Return the element with its video replaced by the frames.

        Raises:
            VideoError: the video cannot be decoded, or has no such frame; or the element is a dict
                without the key; or the video is a dict with "times", although `frames` or `times`
                was passed to `DecodeVideo`, too.
            SourceError: the file cannot be read.
            MissingExtraError: PyAV is not installed.
        """
        video = self._video_of(element)
        if isinstance(video, Mapping):
            return self._with_frames(element, self._of_times(video))
        frames, times = (_chosen(element, each) for each in (self._frames, self._times))

        def decoded(video: OpenVideo) -> Frames:
            numbers = (
                _numbers(frames, len(video.seconds)) if times is None else _at_times(times, video)
            )
            return video.frames(numbers, self._array_of)

        return self._with_frames(element, self._videos.use(video, decoded))

    def _of_times(self, video: Mapping[str, Any]) -> Frames:
        if self._frames is not None or self._times is not None:
            raise VideoError(
                "the video is a dict with times of its own. Leave out frames= and times= of "
                "DecodeVideo."
            )
        times = value_in(video, "times", "times in seconds")
        found: Frames = self._videos.use(
            value_in(video, "path", "path of the video"),
            lambda opened: opened.frames(_at_times(times, opened), self._array_of),
        )
        return found if np.ndim(times) else found[0]


class RandomClip(_OnVideos, RandomMapTransform):
    """Decode a clip at a random place of a video to an array `uint8[frames, height, width, 3]`.

    Args:
        frames: number of frames of the clip.
        stride: number of frames of the file from one frame of the clip to the next, default 1.
        size: (height, width) of the frames, or one integer for both. Default: the size in the file.
        key: key of the video in elements that are dicts, default "video". Other elements are videos
            themselves.
        max_open: maximum number of files that a thread keeps open, default 8.

    Raises:
        ValueError: an argument is out of range.

    A video that is shorter than the clip repeats its last frame.

    >>> clips = RandomClip(8, stride=4, size=112)
    """

    def __init__(
        self,
        frames: int,
        stride: int = 1,
        *,
        size: Size | None = None,
        key: str = "video",
        max_open: int = 8,
    ) -> None:
        super().__init__(size, key, max_open)
        self._count = whole_number("frames", frames, 1, 1 << 24, "a number of frames, such as 8")
        self._stride = whole_number("stride", stride, 1, 1 << 24, "a number of frames, such as 1")

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element with its video replaced by a clip.

        Args:
            element: the video, or a dict with it.
            rng: generator that draws the place.

        Raises:
            VideoError: the video cannot be decoded, or a dict has no such key.
            SourceError: the file cannot be read.
            MissingExtraError: PyAV is not installed.
        """

        def decoded(video: OpenVideo) -> Frames:
            count, span = len(video.seconds), (self._count - 1) * self._stride + 1
            first = int(rng.integers(max(1, count - span + 1)))
            numbers = [min(first + place * self._stride, count - 1) for place in range(self._count)]
            return video.frames(numbers, self._array_of)

        return self._with_frames(element, self._videos.use(self._video_of(element), decoded))


def _chosen(element: Any, given: Any) -> Any:
    """Return an argument, or the value in the element that it names."""
    return (
        value_in(element, given, "numbers or times of frames") if isinstance(given, str) else given
    )


def _numbers(frames: Any, count: int) -> list[int]:
    if frames is None:
        return list(range(count))
    if isinstance(frames, slice):
        return list(range(count))[frames]
    numbers = np.atleast_1d(array_of(frames))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise VideoError(
            f"frames={short_repr(frames)} are not numbers of frames. Pass integers, at least one."
        )
    return [int(number) for number in numbers]


def _at_times(times: Any, video: OpenVideo) -> list[int]:
    seconds = np.atleast_1d(array_of(times))
    if seconds.ndim != 1 or seconds.dtype.kind not in "iuf" or not len(seconds):
        raise VideoError(
            f"times={short_repr(times)} are not times in seconds. Pass numbers, at least one."
        )
    return [video.number_at(float(each)) for each in seconds]
