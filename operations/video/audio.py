"""Decode seconds of sound files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...common.lazy_exports import optional_library
from ...common.messages import short_repr, shorten
from ...common.validation import NUMBERS, whole_number
from ...errors import VideoError
from ..transforms import MapTransform
from .opened import file_of, path_of, value_in

Sound = NDArray[np.float32]
"""Array `float32[samples, channels]`."""

_MARGIN_SECONDS = 1.0
"""Sound decoded before the wanted start: decoders of MP3 and AAC need some packets to begin."""


class DecodeAudio(MapTransform):
    """Decode a sound file, or the sound of a video, to an array `float32[samples, channels]`.

    Its values are from -1 to 1.

    A file is a path (a string, also a URL in a store, or a `pathlib.Path`), or its bytes. Only the
    wanted part is decoded, except in files with ADPCM sound, which are decoded from their
    beginning.

    Args:
        rate: samples per second of the result. Default: those of the file.
        channels: 1 (the mean of all channels) or 2 (this mean twice, if there are not two).
            Default: those of the file.
        start: time in seconds at which to begin, or the key of the time in the element. Default 0.
            If the sound begins later, the result begins with its first sample.
        seconds: length in seconds, or the key of the length in the element. Default: up to the end.
            Sound that ends earlier is shorter; it is not filled up.
        key: key of the sound in elements that are dicts, default "audio". Other elements are files
            themselves.
        rate_key: key of the result for the samples per second. Default: they are left out.

    Raises:
        ValueError: an argument is out of range.

    >>> # for elements such as {"audio": "a.flac", "label": 3}
    >>> decode = DecodeAudio(rate=16_000, channels=1, seconds=5.0)
    """

    def __init__(
        self,
        rate: int | None = None,
        channels: int | None = None,
        *,
        start: float | str = 0.0,
        seconds: float | str | None = None,
        key: str = "audio",
        rate_key: str | None = None,
    ) -> None:
        super().__init__()
        self._rate = (
            rate
            if rate is None
            else whole_number("rate", rate, 1, 1 << 24, "samples per second, such as 16000")
        )
        self._channels = (
            channels if channels is None else whole_number("channels", channels, 1, 2, "1 or 2")
        )
        self._start, self._seconds, self._key, self._rate_key = start, seconds, key, rate_key
        for name, value in (("start", start), ("seconds", seconds)):
            is_time = (
                isinstance(value, NUMBERS)
                and 0 <= value < np.inf
                and (value > 0 or name == "start")
            )
            if not is_time and not isinstance(value, str) and value is not None:
                least = "0 or more" if name == "start" else "above 0"
                raise ValueError(
                    f"{name}={short_repr(value)} is not a time. Pass seconds, {least}, or the name "
                    "of the field that contains them in each record."
                )

    def map(self, element: Any) -> Any:
        """Return the element with its file replaced by the sound.

        Raises:
            VideoError: the file has no sound or cannot be decoded, it ends before `start`, a dict
                has no such key, or a time in it is not a number of at least 0.
            SourceError: the file cannot be read.
            MissingExtraError: PyAV is not installed.
        """
        given = value_in(element, self._key, "sound") if isinstance(element, Mapping) else element
        start, seconds = (self._time_in(element, value) for value in (self._start, self._seconds))
        sound, rate = self._decoded(given, start or 0.0, seconds)
        if not isinstance(element, Mapping):
            return sound
        return {
            **element,
            self._key: sound,
            **({self._rate_key: rate} if self._rate_key is not None else {}),
        }

    def _time_in(self, element: Any, given: Any) -> float | None:
        if not isinstance(given, str):
            return None if given is None else float(given)
        found = value_in(element, given, "time in seconds")
        try:
            time = None if found is None else float(found)
        except (TypeError, ValueError):
            time = np.nan
        if time is not None and not 0 <= time < np.inf:
            raise VideoError(
                f"the element has {short_repr(found)} as {short_repr(given)}, which is not a time. "
                "Change it to seconds, 0 or more."
            )
        return time

    def _decoded(self, given: Any, start: float, seconds: float | None) -> tuple[Sound, int]:
        av = optional_library("av", "DecodeAudio needs PyAV", "video")
        is_bytes = isinstance(given, (bytes, bytearray, memoryview, np.ndarray))
        name = f"a sound file of {len(given)} bytes" if is_bytes else path_of(given)
        source = io.BytesIO(bytes(given)) if is_bytes else file_of(name)
        try:
            with av.open(source) as container:
                if not container.streams.audio:
                    raise VideoError(
                        f"{shorten(name)} has no sound. Leave it out, or pass another file."
                    )
                sound, rate = self._part(av, container, start, seconds, name)
        except VideoError:
            raise
        except Exception as error:  # PyAV has an error for each number of FFmpeg
            raise VideoError(
                f"the sound of {shorten(name)} from {start:g} s on cannot be decoded: "
                f"{shorten(error)}. If the file is damaged, leave it out, or write it again."
            ) from error
        if not len(sound):
            if seconds is not None and seconds * rate < 1:
                raise VideoError(
                    f"seconds={seconds:g} is less than one sample of {shorten(name)}. Pass a "
                    "larger number."
                )
            until = "on" if seconds is None else f"to {start + seconds:g} s"
            raise VideoError(
                f"{shorten(name)} has no sound from {start:g} s {until}. Pass start= (and "
                "seconds=) of a time at which the file has sound, or leave the file out."
            )
        return sound, rate

    def _part(
        self, av: Any, container: Any, start: float, seconds: float | None, name: str
    ) -> tuple[Sound, int]:
        stream = container.streams.audio[0]
        rate = self._rate or stream.rate
        resampler = av.AudioResampler(format="flt", layout=stream.layout.name, rate=rate)
        # Of ADPCM, times after a seek are estimates, and decoders need all sound before, so it is
        # read from its beginning.
        is_exact = stream.time_base and not stream.codec_context.name.startswith("adpcm_")
        if start > _MARGIN_SECONDS and is_exact:
            container.seek(
                int((start - _MARGIN_SECONDS) / stream.time_base), stream=stream, backward=True
            )
        stop, first, pieces = np.inf if seconds is None else start + seconds, None, []
        for frame in _frames_of(container, stream, name):
            if frame.time >= stop:
                break
            first = frame.time if first is None else first
            pieces += [_samples_of(each) for each in resampler.resample(frame)]
        pieces += [_samples_of(each) for each in resampler.resample(None)] if pieces else []
        if not pieces or first is None:
            return np.empty((0, 1), np.float32), rate
        sound = np.concatenate(pieces)
        begin = max(0, round((start - first) * rate))
        end = len(sound) if seconds is None else begin + round(seconds * rate)
        return self._in_channels(sound[begin:end]), rate

    def _in_channels(self, sound: Sound) -> Sound:
        if self._channels is None or sound.shape[1] == self._channels:
            return sound
        mean = sound.mean(axis=1, keepdims=True, dtype=np.float32)
        return np.repeat(mean, self._channels, axis=1)


def _frames_of(container: Any, stream: Any, name: str) -> Iterator[Any]:
    """Yield the decoded frames from the present place on.

    VideoError names the file and the time of damage.
    """
    end: float | None = None
    try:
        for packet in container.demux(stream):
            has_time = False
            for frame in packet.decode():
                # some packets, such as of ADPCM, have several frames but one time
                if frame.time is None and has_time:
                    frame.pts = round(end / frame.time_base)
                if frame.time is None:  # the decoder goes on after damage, but frames are missing
                    raise ValueError("the samples after it have no time")
                yield frame
                end, has_time = frame.time + frame.samples / frame.sample_rate, True
    except Exception as error:
        place = "at its beginning" if end is None else f"at {end:.3f} s"
        raise VideoError(
            f"the sound of {shorten(name)} cannot be decoded {place}: {shorten(error)}. If the "
            "file is damaged, leave it out, or write it again."
        ) from error


def _samples_of(frame: Any) -> Sound:
    """Return the samples `float32[samples, channels]` of a resampled frame."""
    values: Sound = frame.to_ndarray().reshape(-1, frame.layout.nb_channels)
    return values
