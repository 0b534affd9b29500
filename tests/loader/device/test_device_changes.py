"""Changes of a run by a feeder, which has read ahead: weights of a mix, omitted records, the batch
size.
"""

from __future__ import annotations

from itertools import islice

import jax
import numpy as np
import pytest

import headrace
from headrace import Batch, DataLoader, IndexSampler, MixSampler, ShardOptions
from headrace.loader.device.upstream import Upstream
from headrace.loader.state.live.changes import WeightsChange

CPU = jax.devices("cpu")[0]
PARTS = {"a": np.arange(1000), "b": np.arange(1000, 2000)}
ONLY_A, ONLY_B = {"a": 1, "b": 0}, {"a": 0, "b": 1}
AHEAD = 2 + 1 + 2  # host_buffer, device_buffer, and 2


def _loader(weights=ONLY_A):
    return DataLoader(data_source=PARTS, sampler=MixSampler(PARTS, weights), operations=[Batch(4)])


def _feeder():
    return iter(_loader().to_device(CPU, host_buffer=2, device_buffer=1))


def _values(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def _schedule(step, count):
    """The batches of a mix that says so from the start."""
    return _values(islice(_loader([(0, ONLY_A), (4 * step, ONLY_B)]), count))


@pytest.mark.parametrize("read", [0, 1, 3])
def test_a_change_holds_from_its_step_on_although_batches_were_read_ahead(read):
    """Whatever the feeder's threads had read when it came."""
    with _feeder() as feeder:
        seen = _values(islice(feeder, read))
        feeder.change(weights=ONLY_B, at_step=read + AHEAD)
        seen += _values(islice(feeder, AHEAD + 3))
        assert seen == _schedule(read + AHEAD, read + AHEAD + 3)


@pytest.mark.parametrize("read", [0, 2])
@pytest.mark.parametrize("more", [0, 3, AHEAD, AHEAD + 2])
def test_every_state_after_the_call_tells_the_change(read, more):
    """Also states of batches that were read before it; a feeder and an iterator resume
    from them.
    """
    with _feeder() as feeder:
        seen = _values(islice(feeder, read))
        feeder.change(weights=ONLY_B)
        seen += _values(islice(feeder, more))
        state = feeder.get_state()
    expected = _schedule(read + AHEAD, read + AHEAD + 6)
    host = iter(_loader())
    host.set_state(state)
    assert [*seen, *_values(islice(host, 3))] == expected[: len(seen) + 3]
    with _feeder() as other:
        other.set_state(state)
        assert _values(islice(other, 3)) == expected[len(seen) : len(seen) + 3]


def test_an_iterator_that_a_feeder_gives_back_knows_the_change():
    """It stands at the user's place."""
    iterator = iter(_loader())
    with iter(
        headrace.device_put(iterator, CPU, cpu_buffer_size=2, device_buffer_size=1)
    ) as feeder:
        seen = _values(islice(feeder, 2))
        feeder.change(weights=ONLY_B)
    assert [*seen, *_values(islice(iterator, AHEAD + 2))] == _schedule(2 + AHEAD, AHEAD + 4)


def test_a_state_from_before_the_change_ends_it():
    """What a state tells is what holds."""
    with _feeder() as feeder:
        state = feeder.get_state()
        feeder.change(weights=ONLY_B)
        next(feeder)
        feeder.set_state(state)
        assert _values(islice(feeder, AHEAD + 3)) == _values(islice(_loader(), AHEAD + 3))


def test_a_step_that_may_have_been_read_is_refused():
    """The error names the first one that is possible."""
    with _feeder() as feeder:
        next(feeder)
        with pytest.raises(
            ValueError, match=f"reads up to {AHEAD} steps ahead. Pass {AHEAD + 1} or more"
        ):
            feeder.change(weights=ONLY_B, at_step=AHEAD)
        with pytest.raises(ValueError, match="has no weight for the parts 'b'"):
            feeder.change(weights={"a": 1})
        assert _values(islice(feeder, 2)) == _values(islice(_loader(), 3))[1:]


CHANGES = {"omit": [1, 50, 90, 130], "batch_size": 6}


def _program(name=None, shard=(0, 1)):
    """A loader of the program, or of the program that a change describes."""
    return DataLoader(
        shard_options=ShardOptions(*shard),
        data_source=range(200),
        sampler=IndexSampler(200, shuffle=True, seed=4),
        operations=[Batch(CHANGES["batch_size"] if name == "batch_size" else 4)],
        omit=CHANGES["omit"] if name == "omit" else None,
    )


def _restored(name, step, count, shard=(0, 1)):
    """The batches of a run that stops at a step, as all shards do, and is restored in the changed
    program.
    """
    run, changed = iter(_program(shard=shard)), iter(_program(name, shard))
    before = _values(islice(run, step))
    changed.set_states([run.get_state()], strict=False, equal_steps=True)
    return [*before, *_values(islice(changed, count - step))]


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("read", [0, 3])
def test_other_changes_begin_with_their_step_too(name, read):
    """States before it are those of the program, and states after it those of the changed one."""
    with iter(_program().to_device(CPU, host_buffer=2, device_buffer=1)) as feeder:
        seen = _values(islice(feeder, read))
        feeder.change(**{name: CHANGES[name]})
        seen += _values(islice(feeder, AHEAD))
        before = feeder.get_state()
        seen += _values(islice(feeder, 3))
        after = feeder.get_state()
        assert seen == _restored(name, read + AHEAD, read + AHEAD + 3)
        rest = _values(islice(feeder, 4))
    changed = iter(_program(name))
    changed.set_state(after)
    assert _values(islice(changed, 4)) == rest
    plain = iter(_program())
    plain.set_state(before)
    assert _values(islice(plain, 4)) == _values(islice(iter(_program()), read + AHEAD + 4))[-4:]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("more", [0, AHEAD - 1, AHEAD, AHEAD + 2])
def test_an_iterator_that_a_feeder_gives_back_makes_the_change_at_its_step(name, more):
    """Whether the feeder had read beyond it or not."""
    iterator = iter(_program(shard=(1, 2)))
    with iter(
        headrace.device_put(iterator, CPU, cpu_buffer_size=2, device_buffer_size=1)
    ) as feeder:
        seen = _values(islice(feeder, 2))
        feeder.change(**{name: CHANGES[name]})
        seen += _values(islice(feeder, more))
    seen += _values(islice(iterator, 12 - len(seen)))
    assert seen == _restored(name, 2 + AHEAD, 12, (1, 2))


def test_two_changes_of_one_step_are_both_made():
    """In the order of the calls."""
    with iter(_program().to_device(CPU, host_buffer=2, device_buffer=1)) as feeder:
        feeder.change(omit=list(range(50)))
        feeder.change(batch_size=6)
        batches = _values(islice(feeder, AHEAD + 5))
    assert [len(batch) for batch in batches] == [4] * AHEAD + [6] * 5
    assert min(min(batch) for batch in batches[AHEAD:]) >= 50


@pytest.mark.parametrize("name", CHANGES)
def test_a_state_that_is_set_before_the_step_of_a_change_drops_it(name):
    """Also if the feeder's thread had read beyond the step."""
    with iter(_program().to_device(CPU, host_buffer=2, device_buffer=1)) as feeder:
        state = feeder.get_state()
        feeder.change(**{name: CHANGES[name]})
        _values(islice(feeder, AHEAD - 1))
        feeder.set_state(state)
        assert _values(islice(feeder, AHEAD + 3)) == _values(islice(iter(_program()), AHEAD + 3))


def test_a_change_that_replaces_one_while_the_iterator_takes_it_up_is_made(monkeypatch):
    """The feeder's thread takes up a change for some time, in which the user may give another one
    for an earlier step.
    """
    upstream = Upstream(iter(_loader()), owned=True)
    host, first, second = (
        upstream.host_iterator,
        WeightsChange(40, ONLY_B, 10),
        WeightsChange(8, ONLY_B, 2),
    )
    take_up = host.take_up

    def slowly(change):
        take_up(change)
        if change is first:
            upstream.add(second)

    monkeypatch.setattr(host, "take_up", slowly)
    upstream.add(first)
    assert _values(upstream.read() for _ in range(4)) == _schedule(2, 4)
    upstream.leave()


def test_of_the_changes_of_weights_at_one_step_only_the_last_is_kept():
    """And of those at later steps; one at an earlier step holds until then."""
    upstream = Upstream(iter(_loader()), owned=True)
    for position in (4, 40, 8, 8):
        upstream.add(WeightsChange(position, ONLY_B, position // 4))
    assert [change.position for change in upstream.changes] == [4, 8]
    upstream.leave()
