"""Videos and sound in files without an index: streams of MPEG, frames without time stamps, damage
in the middle.
"""

from __future__ import annotations

import av
import numpy as np
import pytest

from headrace import DecodeAudio, DecodeVideo
from headrace.errors import VideoError

COUNT = 60


def write_video(path, codec, **options):
    """Write a video with a keyframe every ten frames, in which no two frames are the same."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=25, options={"g": "10", "bf": "2", **options})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(COUNT):
            frame = av.VideoFrame.from_ndarray(
                np.full((48, 64, 3), 4 * number, np.uint8), format="rgb24"
            )
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.ts", "libx264"),
        ("a.ts", "mpeg2video"),
        ("a.mpg", "mpeg2video"),
        ("a.m2v", "mpeg2video"),
        ("a.avi", "mpeg4"),
    ],
)
def test_frames_of_streams_of_mpeg_are_exact(tmp_path, name, codec):
    """A seek in them ends after the keyframe that was asked for, as they have no index."""
    path = write_video(tmp_path / name, codec)
    with av.open(str(path)) as file:
        expected = np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])
    assert len(expected) == COUNT
    np.testing.assert_array_equal(DecodeVideo().map(path), expected)
    numbers = np.random.default_rng(0).permutation(COUNT)
    decode = DecodeVideo(frames="frames")
    for number in numbers.tolist():
        np.testing.assert_array_equal(
            decode.map({"video": path, "frames": [number]})["video"][0],
            expected[number],
            str(number),
        )
    np.testing.assert_array_equal(DecodeVideo(frames=numbers).map(path), expected[numbers])


def test_a_file_without_time_stamps_is_an_error_that_says_so(tmp_path):
    """A bare stream of H.264 has frames, but no times, and cannot be searched."""
    path = write_video(tmp_path / "a.h264", "libx264")
    with pytest.raises(VideoError, match=r"a\.h264 has frames without time stamps.*ffmpeg"):
        DecodeVideo().map(path)


def test_frames_with_equal_time_stamps_are_an_error_that_says_so(tmp_path):
    """Two streams of MPEG in one file, whose times begin again: no frame is left out in silence."""
    path = tmp_path / "two.ts"
    path.write_bytes(2 * write_video(tmp_path / "a.ts", "libx264").read_bytes())
    with pytest.raises(
        VideoError,
        match=rf"two\.ts has {2 * COUNT} frames, but only {COUNT} different time stamps.*ffmpeg",
    ):
        DecodeVideo(frames=[0]).map(path)


def test_damage_in_the_middle_of_a_sound_is_named_with_its_time(tmp_path):
    """The decoder goes on without an error, but frames are missing: the sound is not cut off in
    silence.
    """
    path, times = tmp_path / "a.flac", np.arange(16_000)[:, None] / 9 + np.array([0, np.pi / 2])
    tone = (np.sin(times) * 20_000).astype(np.int16)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("flac", rate=8000, layout="stereo")
        frame = av.AudioFrame.from_ndarray(tone.reshape(1, -1), format="s16", layout="stereo")
        frame.rate = 8000
        out.mux(stream.encode(frame))
        out.mux(stream.encode())
    whole, data = DecodeAudio().map(path), bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(300)
    path.write_bytes(data)
    with pytest.raises(
        VideoError, match=r"a\.flac cannot be decoded at [01]\.\d{3} s.*leave it out"
    ):
        DecodeAudio().map(path)
    np.testing.assert_array_equal(DecodeAudio(seconds=0.1).map(path), whole[:800])


def test_sound_with_one_time_for_several_frames_is_whole(tmp_path):
    """ADPCM in WAV files: only the first frame of a packet has a time."""
    path, tone = tmp_path / "a.wav", (np.sin(np.arange(96_000) / 9) * 20_000).astype(np.int16)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("adpcm_ima_wav", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone[None], format="s16", layout="mono")
        frame.rate = 48_000
        for each in av.AudioResampler(
            "s16p", "mono", 48_000, stream.codec_context.frame_size
        ).resample(frame):
            out.mux(stream.encode(each))
        out.mux(stream.encode())
    with av.open(str(path)) as file:
        frames = list(file.decode(audio=0))
    assert any(frame.time is None for frame in frames)
    whole = np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.float32) / 32768
    np.testing.assert_allclose(DecodeAudio().map(path)[:, 0], whole, atol=1e-4)
    np.testing.assert_allclose(
        DecodeAudio(start=0.5, seconds=0.5).map(path)[:, 0], whole[24_000:48_000], atol=1e-4
    )


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.wav", "adpcm_ms"), ("a.wav", "adpcm_yamaha"), ("a.wav", "pcm_s16le"), ("a.flac", "flac")],
)
def test_a_part_of_a_sound_is_exact(tmp_path, name, codec):
    """Also where the times after a seek are estimates, or a packet cannot be decoded without those
    before it.
    """
    path, tone = tmp_path / name, (np.sin(np.arange(40_000) ** 1.2 / 90) * 20_000).astype(np.int16)
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=8_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone[None], format="s16", layout="mono")
        frame.rate, format_, size = (
            8_000,
            stream.codec_context.format.name,
            stream.codec_context.frame_size or 1024,
        )
        for each in av.AudioResampler(format_, "mono", 8_000, size).resample(frame):
            out.mux(stream.encode(each))
        out.mux(stream.encode())
    whole = DecodeAudio().map(path)
    for start in (0, 1.5, 3.7):
        part = DecodeAudio(start=start, seconds=0.5).map(path)
        np.testing.assert_array_equal(part, whole[round(start * 8_000) :][:4_000])


def test_no_seconds_of_sound_are_refused():
    """When the operation is made."""
    with pytest.raises(ValueError, match=r"seconds=0 is not a time. Pass seconds, above 0"):
        DecodeAudio(seconds=0)
