"""Frames with the frames around them: which ones, what stands beyond the ends of an episode,
however frames are stored.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines import tries
from support.source_conformance import SourceConformance, assert_same

import headrace
from headrace import MapDataset, OffsetWindows
from headrace.errors import SourceError
from headrace.sources.facts import used_records


class TestOffsetWindows(SourceConformance):
    def open(self, folder, count):
        frames = {"x": np.arange(count), "label": np.arange(count) * 10}
        return OffsetWindows(frames, {"x": [-1, 0, 2]}, episodes=[0] * (count - 3) + [1] * 3)

    def expected_record(self, key):
        first, last = (
            (0, self.count - 4) if key < self.count - 3 else (self.count - 3, self.count - 1)
        )
        wanted = np.array([key - 1, key, key + 2])
        inside = np.clip(wanted, first, last)
        return {"x": inside, "label": np.int64(key * 10), "x_is_pad": inside != wanted}


def expected_windows(lengths, offsets, pad):
    """All windows, frame by frame."""
    windows, first = [], 0
    for length in lengths:
        for place in range(length):
            wanted = {field: [place + offset for offset in each] for field, each in offsets.items()}
            if pad is False and not all(
                0 <= each < length for some in wanted.values() for each in some
            ):
                continue
            window = {"a": 2 * (first + place), "b": str(first + place)}
            for field, places in wanted.items():
                inside = [first + min(max(each, 0), length - 1) for each in places]
                is_pad = [not 0 <= each < length for each in places]
                values = [2 * each if field == "a" else str(each) for each in inside]
                empty = 0 if field == "a" else None
                window[field] = [
                    empty if pad == "zero" and padded else v for v, padded in zip(values, is_pad)
                ]
                window[f"{field}_is_pad"] = is_pad
            windows.append(window)
        first += length
    return windows


OFFSETS = st.lists(st.integers(-4, 4), min_size=1, max_size=4)


@tries(150)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from(["a", "b"]), OFFSETS, min_size=1),
    st.sampled_from(["edge", "zero", False]),
    st.booleans(),
)
def test_windows_have_the_frames_at_their_offsets(lengths, offsets, pad, in_chain):
    """For any episodes, offsets and padding, frame by frame and many at once."""
    frames = [{"a": np.int64(2 * number), "b": str(number)} for number in range(sum(lengths))]
    episodes = np.repeat(np.arange(len(lengths)), lengths)
    expected = expected_windows(lengths, offsets, pad)
    source = MapDataset.source(frames) if in_chain else frames
    if not expected:
        with pytest.raises(ValueError, match="no episode is long enough for offsets"):
            OffsetWindows(source, offsets, episodes=episodes, pad=pad)
        return
    windows = OffsetWindows(source, offsets, episodes=episodes, pad=pad)
    found = [windows[key] for key in range(len(windows))]
    plain = [
        {n: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for n, v in w.items()}
        for w in found
    ]
    assert plain == expected
    keys = np.arange(len(windows))[::-1]
    assert_same(list(windows.__getitems__(keys)), found[::-1])


def test_a_window_is_made_of_its_frames():
    """Provenance names each frame once; the fingerprint changes with the offsets, the padding and
    the episodes.
    """
    frames = {"x": np.arange(6)}
    windows = OffsetWindows(frames, {"x": [-1, 1]}, episodes=[0, 0, 0, 0, 1, 1])
    assert [used.key for used in windows.made_of(1)] == [0, 1, 2]
    assert [used.key for used in used_records(windows, 5)] == [4, 5]
    variants = [
        windows,
        OffsetWindows(frames, {"x": [-1, 2]}, episodes=[0, 0, 0, 0, 1, 1]),
        OffsetWindows(frames, {"x": [-1, 1]}, episodes=[0, 0, 0, 1, 1, 1]),
        OffsetWindows(frames, {"x": [-1, 1]}, episodes=[0, 0, 0, 0, 1, 1], pad="zero"),
    ]
    assert len({str(each.fingerprint) for each in variants}) == 4


@pytest.mark.slow
def test_batches_have_masks():
    """Stacked by `Batch`, with two workers as without."""
    frames = {"state": np.arange(20.0), "action": np.arange(40).reshape(20, 2)}
    windows = OffsetWindows(frames, {"action": range(3)}, episodes=[0] * 12 + [1] * 8)
    batches = list(headrace.load(windows, batch_size=5, num_epochs=1))
    assert batches[2]["action"].shape == (5, 3, 2)
    assert batches[2]["action_is_pad"].tolist()[:2] == [[False, False, True], [False, True, True]]
    assert_same(batches, list(headrace.load(windows, batch_size=5, num_epochs=1, worker_count=2)))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"offsets": [0, 1]}, TypeError, r"offsets=\[0, 1\] is a list. Pass a dict"),
        ({"offsets": {}}, ValueError, "offsets is empty"),
        ({"offsets": {"x": []}}, ValueError, r"offsets\['x'\] is empty"),
        (
            {"offsets": {"x": [0.5]}},
            TypeError,
            r"offsets\['x'\]=\[0\.5\] is not a list of integers",
        ),
        ({"offsets": {"x": 1}}, TypeError, r"offsets\['x'\]=1 is not a list of integers"),
        ({"pad": True}, ValueError, r'pad=True is not supported. Pass "edge", "zero" or False'),
        ({"episodes": [0, 1, 0]}, ValueError, "the frames of episode 0 are not next to each other"),
    ],
)
def test_a_wrong_argument_is_named_with_what_to_pass(options, error, text):
    """Each wrong offset, padding or episode."""
    given = {"offsets": {"x": [0]}, "episodes": 0, "pad": "edge", **options}
    with pytest.raises(error, match=text):
        OffsetWindows({"x": np.arange(3)}, **given)


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([{"y": 1}], r"has no field 'x', only y"),
        ([1, 2], r"is an int"),
        ([{"x": 1, "x_is_pad": 0}], r"has a field 'x_is_pad'"),
    ],
)
def test_a_frame_without_the_field_is_named(frames, text):
    """With the fields that it has."""
    with pytest.raises(SourceError, match=rf"record 0, a frame of an episode, {text}"):
        OffsetWindows(frames, {"x": [0]}, episodes=0)[0]
