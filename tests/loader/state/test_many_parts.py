"""States of mixes of many parts: what they say of each part is packed."""

from __future__ import annotations

import json
from base64 import b64encode
from zlib import compress

import numpy as np
import pytest

import headrace
from headrace.errors import CheckpointError
from headrace.loader.state.schema import sealed

NAMES = [f"part-{number:04}" for number in range(1000)]


def _loader(changed=None, weights=None):
    parts = {name: np.arange(3 + place % 50) + 1000 * place for place, name in enumerate(NAMES)}
    if changed is not None:
        parts[changed] = parts[changed] + 1
    sampler = headrace.MixSampler(parts, weights, when_exhausted="repeat", shuffle=True, seed=0)
    return headrace.DataLoader(data_source=parts, sampler=sampler, operations=[headrace.Batch(5)])


@pytest.fixture(scope="module")
def state():
    """A state after three batches, and the two that come next."""
    with iter(_loader()) as iterator:
        for _ in range(3):
            next(iterator)
        return iterator.get_state(), [next(iterator).tolist() for _ in range(2)]


@pytest.mark.long
def test_a_state_of_a_thousand_parts_is_small_and_goes_on(state):
    """Some 40 bytes a part; also with other weights."""
    saved, following = state
    assert len(saved) < 40_000
    with iter(_loader()) as iterator:
        iterator.set_state(saved)
        assert iterator.get_state() == saved
        assert [next(iterator).tolist() for _ in range(2)] == following
    with iter(_loader(weights={name: 1 + (name == NAMES[7]) for name in NAMES})) as iterator:
        iterator.set_state(saved, strict=False)
        assert next(iterator).shape == (5,)


def test_the_part_that_is_another_one_is_named(state):
    """Though all of them are packed."""
    with (
        iter(_loader(changed=NAMES[17])) as iterator,
        pytest.raises(CheckpointError, match="part 'part-0017'"),
    ):
        iterator.set_state(state[0])


PACKED = (
    "no base64",
    3,
    b64encode(b"nothing").decode(),
    b64encode(compress(b"[1]")).decode(),
    b64encode(compress(b"{}")[:-3]).decode(),
    b64encode(compress(b"[" * 100_000)).decode(),
)


@pytest.mark.slow
def test_what_cannot_be_unpacked_is_a_damaged_state(state):
    """Whatever it holds."""
    values = json.loads(state[0])
    del values["checksum"]
    with iter(_loader()) as iterator:
        for packed in PACKED:
            values["identity"] = {"packed": packed}
            with pytest.raises(CheckpointError, match="the state is damaged: identity="):
                iterator.set_state(
                    sealed(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())
                )
