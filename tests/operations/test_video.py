"""Videos and sound: frames and samples are those of PyAV's own decoder, and damage is named."""

from __future__ import annotations

import gc
import pickle
import re
import threading
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import av
import numpy as np
import pytest

import headrace
from headrace import Batch, DecodeAudio, DecodeVideo, RandomClip
from headrace.errors import CheckpointError, SourceNotFoundError, VideoError
from headrace.files.opened import open_file
from headrace.files.remote.store import close_stores
from headrace.operations.video.opened import OpenVideo, OpenVideos
from headrace.testing import left_over

COUNT = 120


def frame_of(number, height=48, width=64):
    """The picture of a frame: a square that moves over a slope, so that no two are the same."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[...] = np.linspace(0, 200, width, dtype=np.uint8)[:, None]
    picture[number % 40 : number % 40 + 8, (3 * number) % 50 : (3 * number) % 50 + 10] = (
        255,
        2 * number % 256,
        0,
    )
    return picture


def write_video(path, codec="libx264", count=COUNT, pts=None, **options):
    """Write a video of `count` frames at 25 frames a second, or with the time stamps `pts` in
    milliseconds.
    """
    with av.open(str(path), "w") as out:
        stream = out.add_stream(
            codec, rate=25, options={name: str(value) for name, value in options.items()}
        )
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        if pts is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(frame_of(number), format="rgb24")
            if pts is not None:
                frame.pts, frame.time_base = pts[number], Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def decoded(path):
    """All frames of a file, decoded from its beginning to its end."""
    with av.open(str(path)) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])


KINDS = {
    "h264 with B-frames": ("a.mp4", {"g": 30, "bf": 3}),
    "h264 without": ("a.mkv", {"g": 12, "bf": 0}),
    "one keyframe": ("a.mov", {"g": 1000}),
    "mpeg4": ("a.avi", {"codec": "mpeg4", "g": 15}),
    "vp9": ("a.webm", {"codec": "libvpx-vp9", "g": 20, "deadline": "realtime", "cpu-used": 8}),
    "keyframes alone": ("a.mkv", {"codec": "mjpeg", "strict": "unofficial"}),
}


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """A file of each kind."""
    folder, made = tmp_path_factory.mktemp("videos"), {}
    for number, (kind, (name, options)) in enumerate(KINDS.items()):
        made[kind] = write_video(folder / f"{number}-{name}", **options)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_frames_in_any_order_are_those_of_a_whole_decode(videos, kind):
    """Also between keyframes, backwards, twice, and from the end."""
    expected, decode = decoded(videos[kind]), DecodeVideo(frames="frames")
    assert len(expected) == COUNT
    np.testing.assert_array_equal(DecodeVideo().map(videos[kind]), expected)
    rng = np.random.default_rng(0)
    orders = [
        [0],
        [119],
        [5, 4, 3],
        [7, 7, -1, -120],
        range(29, 33),
        *(rng.integers(0, COUNT, 4) for _ in range(8)),
    ]
    for numbers in orders:
        found = decode.map({"video": str(videos[kind]), "frames": numbers, "label": 3})
        np.testing.assert_array_equal(found["video"], expected[list(numbers)])
        assert found["label"] == 3


@pytest.mark.parametrize(
    ("numbers", "seeks"), [(range(25, 35), 1), (range(20, 70, 4), 1), ([0, 11], 1), ([0, 17], 2)]
)
def test_a_keyframe_that_comes_soon_is_reached_without_a_seek(videos, numbers, seeks, monkeypatch):
    """Decoding the few frames before it is faster. Keyframes are 12 frames apart."""
    done, seek = [], OpenVideo._go_to
    monkeypatch.setattr(OpenVideo, "_go_to", lambda self, key: done.append(key) or seek(self, key))
    path = videos["h264 without"]
    np.testing.assert_array_equal(
        DecodeVideo(frames=list(numbers)).map(path), decoded(path)[list(numbers)]
    )
    assert len(done) == seeks


def test_frames_are_chosen_by_number_slice_or_time(videos):
    """At a time, the frame that is shown then."""
    path = videos["h264 with B-frames"]
    expected = decoded(path)
    chosen = [(3, [3]), (slice(10, 40, 7), slice(10, 40, 7)), ((5, -2), [5, -2])]
    for frames, wanted in chosen:
        np.testing.assert_array_equal(DecodeVideo(frames=frames).map(path), expected[wanted])
    for times, numbers in ({0.0: [0], (0.04, 0.0799, 4.76): [1, 1, 119], 1: [25]}).items():
        np.testing.assert_array_equal(DecodeVideo(times=times).map(path), expected[numbers])
    record = {"video": path, "at": np.array([0.2, 0.1])}
    np.testing.assert_array_equal(DecodeVideo(times="at").map(record)["video"], expected[[5, 2]])


def test_frames_of_a_variable_rate_are_found_by_time(tmp_path):
    """Each is shown until the next one."""
    pts = np.cumsum([0, *([10, 90, 40] * 40)][:COUNT]).tolist()
    path = write_video(tmp_path / "a.mkv", pts=pts, g=25, bf=0)
    expected = decoded(path)
    times = [0.0, 0.0095, 0.0101, 0.099, 0.1, 0.139, 0.141]
    np.testing.assert_array_equal(
        DecodeVideo(times=times).map(path), expected[[0, 0, 1, 1, 2, 2, 3]]
    )


@pytest.fixture(scope="module")
def served(videos):
    """The URL of a video on a server with ranges."""
    data = videos["h264 without"].read_bytes()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self._answer(200, data, body=False)

        def do_GET(self):
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked is None:
                self._answer(200, data)
                return
            start, stop = int(asked[1]), min(len(data), int(asked[2] or len(data) - 1) + 1)
            self._answer(206, data[start:stop], f"bytes {start}-{stop - 1}/{len(data)}")

        def _answer(self, status, content, part=None, body=True):
            self.send_response(status)
            headers = {
                "Content-Length": len(content),
                "Accept-Ranges": "bytes",
                "ETag": '"1"',
                "Content-Range": part,
            }
            for name, value in headers.items():
                if value is not None:
                    self.send_header(name, str(value))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        open_file(
            f"http://127.0.0.1:{server.server_port}/a.mkv"
        ).close()  # the threads of the store are there from now on
        yield f"http://127.0.0.1:{server.server_port}/a.mkv"
        close_stores()
        server.shutdown()
        thread.join()


def test_bytes_paths_and_urls_are_videos(videos, served):
    """And frames may have another size."""
    path = videos["h264 without"]
    expected, decode = decoded(path)[[40]], DecodeVideo(frames=40)
    for video in (path, str(path), path.read_bytes(), np.fromfile(path, np.uint8), served):
        np.testing.assert_array_equal(decode.map({"video": video})["video"], expected)
    small = DecodeVideo(frames=[1, 2], size=(24, 20), key="clip").map({"clip": path})["clip"]
    assert (small.shape, small.dtype) == ((2, 24, 20, 3), np.uint8)


def test_a_clip_begins_at_a_random_place(videos):
    """Anywhere that it fits; a video that is shorter repeats its last frame."""
    path = videos["keyframes alone"]
    expected = decoded(path)
    firsts = set()
    for seed in range(60):
        clip = RandomClip(4, stride=30).random_map(path, np.random.default_rng(seed))
        (first,) = (number for number in range(COUNT) if (expected[number] == clip[0]).all())
        np.testing.assert_array_equal(clip, expected[first : first + 120 : 30])
        firsts.add(first)
    assert max(firsts) < 30
    assert len(firsts) > 15
    long = RandomClip(5, stride=100, size=8).random_map({"video": path}, np.random.default_rng(0))[
        "video"
    ]
    np.testing.assert_array_equal(long[2], long[4])


@pytest.mark.parametrize("worker_count", [0, 2])
def test_a_pipeline_decodes_the_same_in_workers_and_after_a_resume(videos, worker_count):
    """The places of random clips belong to the records."""
    source = [
        {"video": str(path), "kind": number} for number, path in enumerate(videos.values())
    ] * 3
    options = {
        "transformations": [RandomClip(3, size=16), Batch(4)],
        "seed": 1,
        "shuffle": True,
        "num_epochs": 1,
    }
    expected = list(headrace.load(source, **options))
    iterator = iter(headrace.load(source, **options, worker_count=worker_count))
    found, state = [next(iterator)], iterator.get_state()
    again = iter(headrace.load(source, **options))
    again.set_state(state)
    for one, other in zip([*found, *again], expected, strict=True):
        np.testing.assert_array_equal(one["video"], other["video"])
    options["transformations"] = [RandomClip(3, size=17), Batch(4)]
    with pytest.raises(CheckpointError):
        iter(headrace.load(source, **options)).set_state(state)


def test_open_files_are_bounded(videos):
    """The one that was used least recently is closed; a pickled operation has none open."""
    decode = DecodeVideo(frames=0, max_open=2)
    for path in [*videos.values(), *videos.values()]:
        decode.map(path)
    assert [*decode._videos._local.videos] == [str(path) for path in [*videos.values()][-2:]]
    other = pickle.loads(pickle.dumps(decode))
    assert not other._videos._local.videos
    assert other._videos._limit == 2
    assert isinstance(other._videos, OpenVideos)


def test_files_are_closed_with_the_operation(videos):
    """At once, without the garbage collector."""
    path = str(videos["mpeg4"])
    decode = DecodeVideo(frames=0)
    decode.map(path)
    assert _is_open(path)
    gc.disable()
    try:
        del decode
        assert not _is_open(path)
    finally:
        gc.enable()


def _is_open(path):
    return any(path in text for text in left_over.descriptors())


def test_damage_is_named_with_file_and_time(videos, tmp_path):
    """Empty files, cut files, other files, and files without a picture."""
    data, path = videos["h264 without"].read_bytes(), tmp_path / "a.mkv"
    whole = decoded(videos["h264 without"])
    path.write_bytes(data[: len(data) // 2])
    try:
        found = DecodeVideo().map(path)
        assert len(found) < COUNT
        np.testing.assert_array_equal(found, whole[: len(found)])
    except VideoError as error:
        assert "a.mkv" in str(error)  # noqa: PT017  either is right, as the file was cut somewhere
    for content, text in (
        (b"", "cannot be opened as a video"),
        (b"no video" * 100, "cannot be opened as a video"),
    ):
        path.write_bytes(content)
        with pytest.raises(VideoError, match=rf"a\.mkv {text}: .*leave it out"):
            DecodeVideo().map(path)
    path.write_bytes(b"")
    with pytest.raises(SourceNotFoundError, match=r"nowhere\.mp4"):
        DecodeVideo().map(tmp_path / "nowhere.mp4")


def test_a_frame_that_cannot_be_decoded_is_named_with_its_time(tmp_path):
    """The others are decoded all the same."""
    whole = write_video(tmp_path / "whole.mov", "mjpeg", 20, strict="unofficial")
    with av.open(str(whole)) as file:
        places = [(packet.pos, packet.size) for packet in file.demux(video=0) if packet.size]
    data = bytearray(whole.read_bytes())
    data[places[7][0] : sum(places[7])] = bytes(places[7][1])
    (tmp_path / "a.mov").write_bytes(data)
    expected, decode = decoded(whole), DecodeVideo(frames="n")
    for _ in range(2):
        with pytest.raises(
            VideoError, match=r"a\.mov cannot be decoded at 0\.280 s \(frame 7\): .*leave it out"
        ):
            decode.map({"video": tmp_path / "a.mov", "n": [6, 7, 8]})
        np.testing.assert_array_equal(
            decode.map({"video": tmp_path / "a.mov", "n": [6, 8]})["video"], expected[[6, 8]]
        )


@pytest.mark.parametrize(
    ("make", "element", "text"),
    [
        (lambda: DecodeVideo(frames=120), {}, "has 120 frames, but frame 120 was asked for"),
        (lambda: DecodeVideo(frames=-121), {}, "Pass numbers from -120 to 119"),
        (lambda: DecodeVideo(frames=[1.5]), {}, r"frames=\[1.5\] are not numbers of frames"),
        (lambda: DecodeVideo(frames=[]), {}, "at least one"),
        (
            lambda: DecodeVideo(frames=[[1], [2, 3]]),
            {},
            r"frames=\[\[1\], \[2, 3\]\] are not numbers of frames",
        ),
        (
            lambda: DecodeVideo(times=[[0.1], [0.2, 0.3]]),
            {},
            r"times=\[\[0.1\], \[0.2, 0.3\]\] are not times",
        ),
        (
            lambda: DecodeVideo(frames=slice(120, 130)),
            {},
            "has 120 frames, but a slice has none of them",
        ),
        (lambda: DecodeVideo(times=4.9), {}, r"from 0.000 s to 4.800 s, but the frame at 4.9 s"),
        (lambda: DecodeVideo(times=-0.1), {}, "but the frame at -0.1 s"),
        (lambda: DecodeVideo(times=["a"]), {}, "are not times"),
        (lambda: DecodeVideo(times=[[0], [0, 1]]), {}, "are not times"),
        (lambda: DecodeVideo(frames=[[0], [0, 1]]), {}, "are not numbers of frames"),
        (lambda: DecodeVideo(frames="n"), {}, "no key 'n', only"),
        (lambda: DecodeVideo(key="clip"), {}, "no key 'clip', only"),
        (lambda: DecodeVideo(), {"video": 3}, "not an int"),
    ],
)
def test_wrong_elements_are_named(videos, make, element, text):
    """With what was given and what there is."""
    with pytest.raises(VideoError, match=text):
        make().map({"video": videos["h264 without"], **element})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DecodeVideo(frames=1, times=1.0), "frames= or times=, not both"),
        (lambda: DecodeVideo(size=0), "size"),
        (lambda: DecodeVideo(max_open=0), "max_open=0"),
        (lambda: RandomClip(0), "frames=0"),
        (lambda: RandomClip(1, stride=0), "stride=0"),
        (lambda: DecodeAudio(channels=3), "channels=3"),
        (lambda: DecodeAudio(rate=0), "rate=0"),
        (lambda: DecodeAudio(start=-1.0), "start=-1.0 is not a time"),
        (lambda: DecodeAudio(start=np.float32(-1)), "start=.* is not a time"),
        (lambda: DecodeAudio(seconds=[1.0]), r"seconds=\[1.0\] is not a time"),
    ],
)
def test_arguments_are_checked(make, text):
    """When the operation is made."""
    with pytest.raises(ValueError, match=text):
        make()


RATE = 8000
SOUND = np.stack(
    [np.sin(np.arange(4 * RATE) * step / RATE * 2 * np.pi) / 2 for step in (440, 220)], 1
).astype(np.float32)


def write_sound(path, codec, channels=2):
    """Write four seconds of two tones."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=RATE, layout="stereo" if channels == 2 else "mono")
        resampler = av.AudioResampler(
            format=stream.codec_context.format or "s16", layout=stream.layout, rate=RATE
        )
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(SOUND[:, :channels]).reshape(1, -1), "flt", stream.layout.name
        )
        frame.sample_rate = RATE
        for each in [*resampler.resample(frame), *resampler.resample(None)]:
            out.mux(stream.encode(each))
        out.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """A file without loss, and one with."""
    folder = tmp_path_factory.mktemp("sounds")
    return {
        "wav": write_sound(folder / "a.wav", "pcm_s16le"),
        "flac": write_sound(folder / "a.flac", "flac"),
        "m4a": write_sound(folder / "a.m4a", "aac"),
    }


@pytest.mark.parametrize(("kind", "limit"), [("wav", 1e-4), ("flac", 1e-4), ("m4a", 0.2)])
def test_sound_is_what_was_written(sounds, kind, limit):
    """As a whole and from any time on, by path and by bytes."""
    whole = DecodeAudio().map(sounds[kind])
    assert (whole.dtype, whole.shape[1]) == (np.float32, 2)
    delay = 1024 if kind == "m4a" else 0  # of its encoder, which the file does not note
    assert np.abs(whole[1000 + delay : 31000 + delay] - SOUND[1000:31000]).max() < limit
    np.testing.assert_array_equal(DecodeAudio().map(sounds[kind].read_bytes()), whole)
    for start, seconds in ((0.0, 0.5), (0.7, 0.25), (2.5, 1.0), (3.9, 5.0)):
        found = DecodeAudio(start=start, seconds=seconds).map({"audio": str(sounds[kind])})["audio"]
        begin = round(start * RATE)
        expected = whole[begin : begin + round(seconds * RATE)]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 1e-3


def test_rate_and_channels_are_converted(sounds):
    """To the mean of the channels, and by a resampler; times come from the element."""
    record = {"audio": sounds["flac"], "start": 1.0, "length": 0.5}
    mono = DecodeAudio(channels=1, rate_key="rate").map(record)
    assert np.abs(mono["audio"][:, 0] - SOUND.mean(1)).max() < 0.01
    assert mono["rate"] == RATE
    part = DecodeAudio(16_000, start="start", seconds="length", rate_key="rate").map(record)
    assert (part["audio"].shape, part["rate"]) == ((8000, 2), 16_000)
    times = 1 + np.arange(8000) / 16_000
    assert (
        np.abs(part["audio"][200:-200, 0] - np.sin(times * 440 * 2 * np.pi)[200:-200] / 2).max()
        < 0.02
    )


def test_wrong_sounds_are_named(sounds, videos, tmp_path):
    """No sound, no file of sound, and a time after the end."""
    with pytest.raises(VideoError, match=r"has no sound\. Leave it out"):
        DecodeAudio().map(videos["vp9"])
    with pytest.raises(VideoError, match=r"has no sound from 9 s on\. Pass start="):
        DecodeAudio(start=9.0).map(sounds["wav"])
    with pytest.raises(
        VideoError, match=r"has no sound from 9 s to 9\.5 s\. Pass start= \(and seconds=\)"
    ):
        DecodeAudio(start=9.0, seconds=0.5).map(sounds["wav"])
    (tmp_path / "a.wav").write_bytes(b"no sound")
    with pytest.raises(VideoError, match=r"a\.wav from 0 s on cannot be decoded"):
        DecodeAudio().map(tmp_path / "a.wav")
    with pytest.raises(VideoError, match="no key 'audio', only"):
        DecodeAudio().map({"video": 1})
    with pytest.raises(VideoError, match="no key 'start'"):
        DecodeAudio(start="start").map({"audio": sounds["wav"]})
    for wrong in (-1.0, float("nan"), "soon", [1.0, 2.0]):
        with pytest.raises(
            VideoError,
            match=r"the element has .* as 'start', which is not a time\. Change it to seconds",
        ):
            DecodeAudio(start="start").map({"audio": sounds["wav"], "start": wrong})
