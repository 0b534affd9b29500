"""ElasticIterator, and the places in the streams of an interleave: other shards go on, from Grain's
states, too.
"""

import json

import grain as real
import pytest
from support import both

import headrace.checkpoint
import headrace.compat.grain as grain
from headrace.compat.grain import experimental
from headrace.errors import CheckpointError


def test_an_elastic_iterator_goes_on_on_other_shards():
    """The state of any shard is that of all; the elements are Grain's."""

    def shards(g, count, state=None):
        dataset = g.MapDataset.range(40).shuffle(seed=1).map(lambda x: x * 2)
        iterators = [
            g.experimental.ElasticIterator(dataset, 12, g.sharding.ShardOptions(index, count))
            for index in range(count)
        ]
        for iterator in iterators:
            if state:
                iterator.set_state(state)
        return iterators

    def elements(g):
        first = shards(g, 3)
        begun = [next(iterator) for iterator in first]
        (state,) = {str(iterator.get_state()) for iterator in first}
        then = shards(g, 2, first[0].get_state())
        return begun, state, [list(iter(iterator)) for iterator in then]

    both.runs_alike(elements)


def interleaved(kept=lambda x: x % 3):
    """A stream of seven datasets of unequal length, with a function and a filter; and all of its
    elements.
    """
    each = [
        grain.MapDataset.range(100 * n, 100 * n + 3 * n + 2).shuffle(seed=n).to_iter_dataset()
        for n in range(7)
    ]
    stream = (
        experimental.InterleaveIterDataset(each, cycle_length=2).filter(kept).map(lambda x: x + 1)
    )
    return stream, sorted(x + 1 for dataset in each for x in dataset if kept(x))


def elastic(count, batch=12):
    """An iterator for each shard."""
    stream, _ = interleaved()
    return [
        experimental.ElasticIterator(stream, batch, grain.sharding.ShardOptions(index, count))
        for index in range(count)
    ]


def flat(iterators):
    """All that comes out of them."""
    return [int(x) for iterator in iterators for batch in iterator for x in batch]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_streams_go_on_on_other_shards(steps):
    """From three shards to two, to four: each element comes once, wherever the shards stood. States
    go through JSON.
    """
    seen, states = [], {}
    for count in (3, 2, 12, 4):  # some of twelve have no dataset
        shards = elastic(count)
        for number, shard in enumerate(shards):
            if states:
                shard.set_shard_states(states)
            seen += [int(x) for _ in range(max(steps - number, 0)) for x in next(shard, [])]
        states = json.loads(
            json.dumps({n: s for shard in shards for n, s in shard.get_shard_states().items()})
        )
        assert sorted(states, key=int) == list("0123456")
    rest = elastic(1)[0]
    rest.set_shard_states(states)
    assert sorted(seen + flat([rest])) == interleaved()[1]


def test_a_shard_of_a_stream_goes_on_in_the_same_order():
    """From its own state, before and after a change of shards; another shard's is refused."""
    first = elastic(3)
    for shard in first:
        next(shard)
    states = {
        number: state for shard in first for number, state in shard.get_shard_states().items()
    }
    shard, again = elastic(2)[0], elastic(2)[0]
    shard.set_shard_states(states)
    next(shard)
    again.set_state(shard.get_state())
    assert flat([again]) == flat([shard]) != []
    with pytest.raises(CheckpointError, match="this shard has 1, 3, 5"):
        elastic(2)[1].set_state(again.get_state())
    other = elastic(2)
    for each in other:
        each.set_states([json.dumps(one.get_state()).encode() for one in first])
    assert sorted(flat(other)) == sorted(flat(first))
    with pytest.raises(
        CheckpointError, match="state that an ElasticIterator over a stream returned"
    ):
        other[0].set_states([{"x": 1}])
    with pytest.raises(CheckpointError, match="states of the datasets 1, 3, 5 are missing"):
        elastic(2)[1].set_shard_states({"0": None})


def test_orbax_takes_the_shards_of_another_run(tmp_path):
    """A stream of two processes goes on in one."""
    first = elastic(2)
    for number, shard in enumerate(first):
        next(shard)
        headrace.checkpoint.CheckpointHandler().save(tmp_path, shard)
        (tmp_path / "process_0-of-1.json").rename(tmp_path / f"process_{number}-of-2.json")
    whole = headrace.checkpoint.CheckpointHandler().restore(tmp_path, elastic(1)[0])
    assert sorted(flat([whole])) == sorted(flat(first))


def test_the_states_of_all_shards_of_a_map_dataset_are_one():
    """Orbax's handler passes all of them, after a run on more or fewer processes."""
    shards = [
        experimental.ElasticIterator(
            grain.MapDataset.range(40), 4, grain.sharding.ShardOptions(n, 2)
        )
        for n in (0, 1)
    ]
    for shard in shards:
        next(shard)
    whole = experimental.ElasticIterator(grain.MapDataset.range(40), 4, grain.sharding.NoSharding())
    whole.set_states([shard.get_state() for shard in shards])
    assert next(whole).tolist() == [4, 5, 6, 7]
    next(shards[1])
    with pytest.raises(CheckpointError, match="2 states were not saved at the same step"):
        whole.set_states([shard.get_state() for shard in shards])


def test_an_elastic_iterator_refuses_what_it_cannot_divide():
    """A stream without an interleave, or with something after it that keeps elements; places by
    shard of what has indices.
    """
    stream, _ = interleaved()
    shard = grain.sharding.NoSharding()
    with pytest.raises(ValueError, match="requires an InterleaveIterDataset"):
        experimental.ElasticIterator(grain.MapDataset.range(9).to_iter_dataset(), 4, shard)
    with pytest.raises(ValueError, match="does not support Batch after the interleave"):
        experimental.ElasticIterator(stream.batch(2), 4, shard)
    with pytest.raises(NotImplementedError, match="no workers"):
        experimental.ElasticIterator(
            stream, 4, shard, multiprocessing_options=grain.MultiprocessingOptions(1)
        )
    with pytest.raises(NotImplementedError, match="get_shard_states is only for streams"):
        experimental.ElasticIterator(grain.MapDataset.range(9), 4, shard).get_shard_states()
    with pytest.raises(TypeError, match="takes a MapDataset or an IterDataset, not a list"):
        experimental.ElasticIterator([1], 4, shard)


def shard_of_grain(index, count):
    """What Grain after 0.2.18 makes of the same: the interleave has every count-th dataset, and its
    batches may be short.
    """
    each = [
        real.MapDataset.range(100 * n, 100 * n + 3 * n + 2).shuffle(seed=n).to_iter_dataset()
        for n in range(7)
    ]
    stream = real.experimental.InterleaveIterDataset(each[index::count], cycle_length=2)
    return iter(stream.filter(lambda x: x % 3).map(lambda x: x + 1).batch(12 // count))


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.one_in(3)
def test_a_checkpoint_of_grains_elastic_streams_goes_on(tmp_path, steps):
    """On as many shards in Grain's order; on more or fewer with each element once. Grain writes a
    file for each process.
    """
    with both.quiet():
        theirs = [shard_of_grain(number, 3) for number in range(3)]
        seen = [int(x) for shard in theirs for _ in range(steps) for x in next(shard, [])]
        for number, shard in enumerate(theirs):
            (tmp_path / f"process_{number}-of-3.json").write_text(json.dumps(shard.get_state()))
            again = elastic(3)[number]
            again.set_state(json.loads(json.dumps(shard.get_state())))
            assert flat([again]) == flat([shard])
    for count in (1, 2, 4):
        shards = elastic(count)
        for shard in shards:
            shard.set_states([path.read_bytes() for path in sorted(tmp_path.iterdir())])
        assert sorted(seen + flat(shards)) == interleaved()[1]
    whole = headrace.checkpoint.CheckpointHandler().restore(tmp_path, elastic(1)[0])
    assert sorted(seen + flat([whole])) == interleaved()[1]


def streams_of(g, count, cycle_length):
    """An interleave of ranges of unequal length."""
    each = [g.MapDataset.range(10 * n, 11 * n + 1).to_iter_dataset() for n in range(count)]
    return g.experimental.InterleaveIterDataset(each, cycle_length=cycle_length)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("taken", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("cycle_length", [1, 2, 4])
def test_an_interleave_tells_the_place_in_each_stream(taken, cycle_length):
    """Another one goes on from these in Grain's order, and its own states do; streams that are not
    open yet keep theirs.
    """

    def places(g):
        stream = streams_of(g, 5, cycle_length)
        iterator, other, last = iter(stream), iter(stream), iter(stream)
        begun = [next(iterator) for _ in range(taken)]
        states = iterator.get_shard_states()
        other.set_shard_states(states)
        again = other.get_shard_states()
        found = next(other)
        last.set_state(json.loads(json.dumps(other.get_state())))
        have_ended = [[each["exhausted"] for each in told] for told in (states, again)]
        return begun, have_ended, found, list(other), list(last)

    both.runs_alike(places)


def test_places_of_grain_are_those_of_shards():
    """What Grain's `get_shard_states` says of a dataset, that has ended or not, is taken."""
    with both.quiet():
        iterator = iter(streams_of(real, 5, 2))
        seen = [next(iterator) for _ in range(4)]
        places = {str(number): each for number, each in enumerate(iterator.get_shard_states())}
    shards = [
        experimental.ElasticIterator(streams_of(grain, 5, 2), 2, grain.sharding.ShardOptions(n, 2))
        for n in (0, 1)
    ]
    for shard in shards:
        shard.set_shard_states(json.loads(json.dumps(places)))
    assert sorted(seen + flat(shards)) == sorted(streams_of(grain, 5, 2))
