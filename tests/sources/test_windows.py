"""Windows of time series and episodes: which frames they have, never over an end, however frames
are stored.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries
from support.source_conformance import COUNT, SourceConformance

import headrace
from headrace import MapDataset, MemorySource, Subset, TokenWriter, Windows
from headrace.errors import LengthsError
from headrace.sources import reader_of


class TestWindowsOfEpisodes(SourceConformance):
    def open(self, folder, count):
        return Windows(
            [{"x": np.arange(5) + 100 * key, "label": f"{key}"} for key in range(count)],
            3,
            3,
            lengths="x",
        )

    def expected_record(self, key):
        return {"x": np.arange(3) + 100 * key, "label": f"{key}"}


class TestWindowsOfColumns(SourceConformance):
    def open(self, folder, count):
        return Windows({"x": np.arange(2 * count + 3)}, 4, 2, episodes=0)

    def expected_record(self, key):
        return {"x": np.arange(4) + 2 * key}


class TestWindowsOfRecords(SourceConformance):
    def open(self, folder, count):
        return Windows([{"x": np.int64(number)} for number in range(count + 3)], 4, 1, episodes=0)

    def expected_record(self, key):
        return {"x": np.arange(4) + key}


def expected_windows(lengths, length, stride):
    """The first frame in its episode, and the episode, by trying all."""
    return [
        (episode, start)
        for episode, frames in enumerate(lengths)
        for start in range(0, frames, stride)
        if start + length <= frames
    ]


@tries(200)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(1, 7),
    st.data(),
)
def test_windows_are_those_that_fit(lengths, length, stride, data):
    """In every way of storing frames, by index and many at once."""
    expected = expected_windows(lengths, length, stride)
    ids = np.repeat(np.arange(len(lengths)), lengths)
    frames = np.arange(len(ids))
    episodes = np.split(frames, np.cumsum(lengths)[:-1])
    kinds = [
        lambda: Windows(episodes, length, stride),
        lambda: Windows(MemorySource(episodes), length, stride, lengths=lengths),
        lambda: Windows(frames, length, stride, episodes=ids),
        lambda: Windows(
            [np.int64(frame) for frame in frames],
            length,
            stride,
            episodes=[f"e{each}" for each in ids],
        ),
    ]
    for kind in kinds:
        if not expected:
            with pytest.raises(ValueError, match="no episode is as long"):
                kind()
            continue
        windows = kind()
        assert len(windows) == len(expected)
        found = [episodes[episode][start : start + length].tolist() for episode, start in expected]
        assert [windows[number].tolist() for number in range(len(windows))] == found
        keys = data.draw(st.lists(st.integers(0, len(found) - 1), max_size=9))
        assert [window.tolist() for window in windows.__getitems__(keys)] == [
            found[key] for key in keys
        ]


SOURCES = {
    "columns": lambda: Windows(
        {"x": np.arange(60), "y": np.ones((60, 2))}, 5, 3, episodes=np.arange(60) // 20
    ),
    "records": lambda: Windows(
        [{"x": np.int64(x), "y": np.ones(2)} for x in range(60)], 5, 3, episodes=np.arange(60) // 20
    ),
    "episodes": lambda: Windows(
        [{"x": np.arange(20) + 20 * each, "y": np.ones((20, 2))} for each in range(3)],
        5,
        3,
        lengths="x",
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("worker_count", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_of_windows_are_the_same_however_frames_are_stored(name, worker_count):
    """Shuffled, with workers, from any step."""
    loader = headrace.load(
        SOURCES[name](), shuffle=True, seed=0, num_epochs=2, batch_size=4, worker_count=worker_count
    )
    plain = headrace.load(SOURCES["episodes"](), shuffle=True, seed=0, num_epochs=2, batch_size=4)
    for batch, other in zip(loader, plain, strict=True):
        assert batch["x"].tolist() == other["x"].tolist()
        assert batch["x"].shape == (len(batch["x"]), 5)
        assert batch["y"].shape == (len(batch["x"]), 5, 2)
    headrace.check_resume(loader, steps=4, worker_counts=[worker_count])


def test_columns_are_sliced_without_a_copy():
    """A window is a view of the frames."""
    frames = np.arange(1000).reshape(100, 10)
    window = Windows({"x": frames}, 32, 1, episodes=0)[7]["x"]
    assert np.shares_memory(window, frames)
    assert (window == frames[7:39]).all()


def test_a_record_is_read_once_for_all_windows_that_are_asked_for():
    """Frames that windows share, and episodes."""

    class Counted(MemorySource):
        def __getitems__(self, keys):
            read.append(list(keys))
            return super().__getitems__(keys)

    for source, more, expected in (
        ([np.int64(x) for x in range(20)], {"episodes": 0}, list(range(2, 9))),
        ([np.arange(9), np.arange(9)], {}, [0]),
    ):
        read = []
        reader_of(Windows(Counted(source), 4, 1, **more))(np.array([3, 2, 5]))
        assert read == [expected]


def test_windows_over_datasets_tokens_and_subsets(tmp_path):
    """Whatever is a source; frames are decoded before they are put together."""
    decoded = MapDataset.source([b"1", b"2", b"3", b"4"]).map(
        lambda x: {"frame": np.full(2, int(x))}
    )
    windows = MapDataset.source(Windows(decoded, 2, 1, episodes=0)).map(
        lambda window: window["frame"].sum()
    )
    assert list(windows) == [6, 10, 14]
    with TokenWriter(tmp_path / "tokens.npy", np.uint16) as writer:
        for count in (5, 1, 4):
            writer.append(np.arange(count))
    tokens = Windows(headrace.TokenSource(tmp_path / "tokens.npy"), 3, 1)
    assert [window["tokens"].tolist() for window in tokens] == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [0, 1, 2],
        [1, 2, 3],
    ]
    assert [
        window.tolist() for window in Windows(Subset([np.arange(4), np.arange(9)], [0]), 2)
    ] == [[0, 1], [2, 3]]


def test_frames_that_are_bytes_or_text_come_as_objects():
    """None is cut."""
    frames = [{"image": b"a\0", "text": "é", "none": None} for _ in range(3)]
    window = Windows(frames, 3, episodes=0)[0]
    assert window["image"].tolist() == [b"a\0"] * 3
    assert window["text"].tolist() == ["é"] * 3
    assert window["none"].tolist() == [None] * 3


def test_a_trace_tells_the_frames():
    """Their records, or the span of the episode."""
    for name, expected in (("records", [3, 4, 5, 6, 7]), ("episodes", [0])):
        found = headrace.trace(headrace.load(SOURCES[name](), num_epochs=1), 1)
        assert [record.key for record in found.records] == expected
        if name == "episodes":
            assert found.records[0].tokens[0] == (3, 8, 20)


def test_other_windows_are_another_source():
    """To a state."""
    frames = np.arange(30)
    one = Windows(frames, 4, 2, episodes=0)
    others = [
        Windows(frames, 4, 1, episodes=0),
        Windows(frames, 3, 2, episodes=0),
        Windows(frames, 4, 2, episodes=frames // 10),
    ]
    assert one.fingerprint == Windows(frames, 4, 2, episodes=["a"] * 30).fingerprint
    assert all(other.fingerprint != one.fingerprint for other in others)


def test_an_episode_of_another_length_than_was_said_is_named():
    """When it is read."""
    windows = Windows([np.arange(5), np.arange(7)], 4, lengths=[5, 6])
    assert windows[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(
        LengthsError, match=r"record 1 has arrays of \[7\] frames, but its length should be 6"
    ):
        windows[1]


@pytest.mark.parametrize(
    ("arguments", "more", "error", "match"),
    [
        ((0,), {}, ValueError, "length=0"),
        ((2, 0), {}, ValueError, "stride=0"),
        ((2.5,), {}, TypeError, "length"),
        ((11,), {}, ValueError, "longest of 1 has 10"),
        ((2,), {"episodes": [0] * 9}, ValueError, r"\(9,\), but there are 10 frames"),
        ((2,), {"episodes": [0.5] * 10}, TypeError, "integers or strings"),
        ((2,), {"episodes": [0, 1] * 5}, ValueError, "episode 0"),
        ((2,), {"episodes": 0, "lengths": [10]}, TypeError, "cannot be combined"),
    ],
)
def test_what_makes_no_windows_is_refused(arguments, more, error, match):
    """Value, limit and remedy."""
    with pytest.raises(error, match=match):
        Windows(np.arange(10), *arguments, **{"episodes": 0, **more})


def test_sources_without_lengths_need_them():
    """A list of numbers has none; so have frames without episodes."""
    with pytest.raises(LengthsError, match="lengths="):
        Windows(range(COUNT), 2)
