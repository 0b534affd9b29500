"""Videos that are open for decoding: chosen frames of a file, exactly, also between keyframes.

In: the path or bytes of a video file, and numbers or times of frames. Out: an array of frames. Each
thread keeps some files open, so that neighbouring frames of a file are decoded one after another.
"""

from __future__ import annotations

import io
import os
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from ...common.lazy_exports import optional_library
from ...common.messages import a_kind_of, short_repr, shorten
from ...errors import VideoError
from ...files.opened import open_file
from ...files.urls import is_remote, local_path

Frames = NDArray[np.uint8]
"""Array `uint8[frames, height, width, 3]`."""

_SKIPPED = 4
"""Maximum number of frames that are decoded to reach a keyframe.

After a seek, decoders decode about as many for nothing.
"""


class OpenVideo:
    """A video file that is open for decoding. Only one thread may use it.

    Args:
        name: name of the file, for messages.
        source: a local path, or a file object.

    Raises:
        VideoError: the file has no video, or cannot be decoded.

    Attributes:
        seconds: time of each frame, `float64[frames]`, ascending; the first frame is at 0 in most
            files.
    """

    def __init__(self, name: str, source: Any) -> None:
        self._name, self._av = name, optional_library("av", "Videos need PyAV", "video")
        try:
            self._container = self._av.open(source)
        except Exception as error:  # PyAV has an error for each number of FFmpeg
            raise self._failed("cannot be opened as a video", error) from error
        # A container of PyAV is in a reference cycle, which would keep its file open.
        self._close = finalize(self, _close, self._container)
        self._close.atexit = False
        try:
            if not self._container.streams.video:
                raise VideoError(
                    f"{shorten(name)} has no video stream. Leave it out, or pass another file."
                )
            self._stream = self._container.streams.video[0]
            self._stream.thread_type = "NONE"  # the loader has threads and processes of its own
            self._index()
        except BaseException:
            self.close()
            raise

    def _index(self) -> None:
        """Read the file's packets, without decoding, and note times of frames and keyframes."""
        stamps, unstamped = [], 0
        keys: dict[int, Any] = {}
        try:
            for packet in self._container.demux(self._stream):
                if not packet.size or packet.is_discard:
                    continue
                if packet.pts is None:
                    unstamped += 1
                    continue
                stamps.append(packet.pts)
                if packet.is_keyframe:
                    keys[packet.pts] = packet.dts
        except Exception as error:
            raise self._failed(
                f"is damaged after {self._seconds_of(max(stamps, default=0)):.3f} s", error
            ) from error
        self._stamps, self._keys, self._sent = sorted(set(stamps)), sorted(keys), keys
        if not self._stamps and unstamped:
            raise VideoError(
                f"{shorten(self._name)} has frames without time stamps ({unstamped}), so it cannot "
                "be searched. Put them into another container, such as by ffmpeg -framerate 25 -i "
                "video.h264 -c copy video.mp4."
            )
        if not self._stamps or not self._keys:
            raise VideoError(
                f"{shorten(self._name)} has no frames. It may be cut or empty: leave it out."
            )
        if len(self._stamps) < len(stamps):
            raise VideoError(
                f"{shorten(self._name)} has {len(stamps)} frames, but only {len(self._stamps)} "
                "different time stamps, so it cannot be searched. It may be two videos in one "
                "file: divide it, or write it again, such as by ffmpeg -i a.ts a.mp4."
            )
        self._begin = min([self._stamps[0], *(time for time in keys.values() if time is not None)])
        self.seconds = np.array([self._seconds_of(stamp) for stamp in self._stamps])
        self._left: Any = None  # frames from the current place on; None: the place is unknown
        self._at = self._stamps[0]  # stamp of the frame that was decoded last

    def _seconds_of(self, stamp: int) -> float:
        return float(stamp * (self._stream.time_base or 0))

    def frames(self, numbers: Sequence[int], shape: Callable[[Any], Frames]) -> Frames:
        """Return the frames with some numbers, in the order of the numbers, which may repeat.

        Args:
            numbers: numbers of frames, from 0; a negative number counts from the end.
            shape: function that makes an array of a decoded frame.

        Raises:
            VideoError: there is no such frame, or it cannot be decoded.
        """
        count = len(self._stamps)
        for number in numbers:
            if not -count <= number < count:
                raise VideoError(
                    f"{shorten(self._name)} has {count} frames, but frame {number} was asked for. "
                    f"Pass numbers from {-count} to {count - 1}; negative ones count from the end."
                )
        wanted = [number % count for number in numbers]
        if not wanted:
            raise VideoError(
                f"{shorten(self._name)} has {count} frames, but a slice has none of them. Pass a "
                "slice with at least one frame."
            )
        places: dict[int, list[int]] = {}
        for place, number in enumerate(wanted):
            places.setdefault(number, []).append(place)
        found: Frames | None = None
        for number in sorted(places):
            frame = shape(self._decoded(number))
            if found is None:
                found = np.empty((len(wanted), *frame.shape), np.uint8)
            # at once: a stack of all frames at the end would copy cold memory
            for place in places[number]:
                found[place] = frame
        assert found is not None
        return found

    def number_at(self, seconds: float) -> int:
        """Return the number of the frame that is shown at a time.

        Raise VideoError if the time is outside of the video.
        """
        number = int(np.searchsorted(self.seconds, seconds + 1e-6, side="right")) - 1
        end = self.seconds[-1] + (
            float(np.diff(self.seconds).max()) if len(self.seconds) > 1 else np.inf
        )
        if number < 0 or not seconds < end:
            raise VideoError(
                f"{shorten(self._name)} has frames from {self.seconds[0]:.3f} s to {end:.3f} s, "
                f"but the frame at {seconds} s was asked for. Pass a time from "
                f"{self.seconds[0]:.3f} to less than {end:.3f} seconds."
            )
        return number

    def _decoded(self, number: int) -> Any:
        stamp = self._stamps[number]
        key = self._keys[max(0, bisect_right(self._keys, stamp) - 1)]
        if self._left is not None and self._at < stamp and self._frames_before(key) <= _SKIPPED:
            with suppress(Exception):  # of a frame on the way that nobody wants: a seek may pass it
                if (frame := self._following(stamp)) is not None:
                    return frame
        self._left = None
        try:
            self._go_to(key)
            frame = self._following(stamp)
        except Exception as error:
            self._left = None
            raise self._failed(
                f"cannot be decoded at {self._seconds_of(stamp):.3f} s (frame {number})", error
            ) from error
        if frame is None:
            self._left = None
            raise VideoError(
                f"{shorten(self._name)} cannot be decoded at {self._seconds_of(stamp):.3f} s "
                f"(frame {number}): the decoder left it out. The file may be damaged: leave it out."
            )
        return frame

    def _following(self, stamp: int) -> Any:
        """Decode frames from the current place on.

        Return the one with a time stamp, or None if it does not come.
        """
        for frame in self._left:
            self._at = frame.pts if frame.pts is not None else self._at
            if self._at == stamp:
                return frame
            if self._at > stamp:
                break
        return None

    def _frames_before(self, key: int) -> int:
        """Return the number of frames after the last decoded one and before a keyframe."""
        return bisect_left(self._stamps, key) - bisect_right(self._stamps, self._at)

    def _go_to(self, key: int) -> None:
        """Seek to a keyframe, or to an earlier place if a seek ends after it.

        This is so in streams of MPEG without an index.
        """
        sent, back = self._sent[key], 0
        while True:
            place = max(key - back, self._begin)  # AVI refuses earlier ones
            self._container.seek(place, stream=self._stream, backward=True)
            packets = self._container.demux(self._stream)
            first = next(packets, None)
            is_late = first is not None and None not in (first.dts, sent) and first.dts > sent
            if not is_late or place == self._begin:
                break
            back = 2 * back or max(1, int(1 / (self._stream.time_base or 1)))  # a second
        rest = packets if first is None else chain([first], packets)
        self._left, self._at = (frame for packet in rest for frame in packet.decode()), key - 1

    def _failed(self, what: str, error: Exception) -> VideoError:
        return VideoError(
            f"{shorten(self._name)} {what}: {shorten(error)}. If the file is damaged, leave it "
            "out, or write it again."
        )

    def close(self) -> None:
        """Close the file."""
        self._close()


def _close(container: Any) -> None:
    with suppress(Exception):
        container.close()


class _Local(threading.local):
    def __init__(self) -> None:
        self.videos: OrderedDict[Any, OpenVideo] = OrderedDict()


class OpenVideos:
    """The videos that each thread keeps open, at most `limit` of them.

    It may be pickled; the copy has none open.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._local = limit, _Local()

    def use(self, video: Any, of: Callable[[OpenVideo], Any]) -> Any:
        """Return `of(open video)` of a path or bytes. A video of bytes is closed afterwards.

        Raises:
            VideoError: `video` is neither, or cannot be decoded.
            SourceError: the file cannot be read.
        """
        if isinstance(video, (bytes, bytearray, memoryview)) or (
            isinstance(video, np.ndarray) and video.dtype == np.uint8
        ):
            opened = OpenVideo(f"a video of {len(video)} bytes", io.BytesIO(bytes(video)))
            try:
                return of(opened)
            finally:
                opened.close()
        path = path_of(video)
        videos = self._local.videos
        if path not in videos:
            while len(videos) >= self._limit:
                videos.popitem(last=False)[1].close()
            videos[path] = OpenVideo(path, file_of(path))
        videos.move_to_end(path)
        return of(videos[path])

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenVideos, (self._limit,)


def value_in(element: Any, key: str, what: str) -> Any:
    """Return the value of a key of an element; VideoError if it is not a dict with this key.

    `what` names the value in the message, such as "video".
    """
    if isinstance(element, Mapping) and key in element:
        return element[key]
    if not isinstance(element, Mapping):
        raise VideoError(
            f"the element is {a_kind_of(element)}, so it cannot have the key {short_repr(key)} for "
            f"the {what}. Pass a value in place of the key, or elements that are dicts."
        )
    raise VideoError(
        f"the element has no key {short_repr(key)}, only {short_repr(list(element))}. Name the key "
        f"that contains the {what}."
    )


def path_of(video: Any) -> str:
    """Return the path of a video or sound file as a text; VideoError if it is not a path."""
    if not isinstance(video, (str, os.PathLike)):
        raise VideoError(
            f"a video or sound is bytes or the path of a file, not {a_kind_of(video)} "
            f"({short_repr(video)}). Pass one of these. If the element is a dict, pass key=, the "
            "name of the key that contains it."
        )
    return str(os.fspath(video))


def file_of(path: str) -> Any:
    """Return what PyAV opens for a path: a local path, or a file object for a URL.

    Raises:
        SourceError: the file cannot be read.
    """
    file = open_file(path)
    if not is_remote(path):
        file.close()
        return local_path(path)
    return _Reader(file)


class _Reader(io.RawIOBase):
    """A file object that reads an open remote file."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self._place = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = self._file.size - self._place
        data: bytes = (
            self._file.read(self._place, left if size < 0 else min(size, left)) if left > 0 else b""
        )
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = (
            offset
            + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._file.size}[whence]
        )
        return self._place

    def tell(self) -> int:
        return self._place

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
