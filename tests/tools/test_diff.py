"""`headrace.diff` tells the first step at which two streams differ, and why."""

import json
from itertools import islice

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    ShardOptions,
)
from headrace.errors import CheckpointError

WEB, BOOKS = np.arange(5000), 100_000 + np.arange(700)
BEFORE = {"web": 0.75, "books": 0.25}


def _mix(
    weights=BEFORE,
    *operations,
    batch=4,
    when_exhausted="repeat",
    shuffle=True,
    shard=(0, 1),
    **parts,
):
    parts = {"web": WEB, "books": BOOKS, **parts}
    sampler = MixSampler(
        parts, weights, shuffle=shuffle, seed=1 if shuffle else None, when_exhausted=when_exhausted
    )
    return DataLoader(
        data_source=parts,
        sampler=sampler,
        operations=[*operations, Batch(batch)],
        shard_options=ShardOptions(*shard),
    )


def _load(records=100, batch=4, *operations, **options):
    options = {"shuffle": True, "seed": 1, **options}
    source = np.arange(10_000)
    sampler = IndexSampler(records, **options)
    return DataLoader(data_source=source, sampler=sampler, operations=[*operations, Batch(batch)])


def _stream(weights, *, filtered=False):
    parts = [MapDataset.source(array).to_iter_dataset() for array in (WEB, BOOKS)]
    if filtered:
        parts[0] = parts[0].filter(lambda x: x % 3)
    mixed = IterDataset.mix(dict(zip(("web", "books"), parts)), weights, when_exhausted="repeat")
    return mixed.batch(4)


def _chain(*, seed=1, weights=BEFORE, batch=4):
    parts = {"web": MapDataset.source(WEB).shuffle(seed=seed), "books": MapDataset.source(BOOKS)}
    return MapDataset.mix(parts, weights, when_exhausted="repeat").map(lambda x: x).batch(batch)


AT_403 = [(0, BEFORE), (403, {"web": 0.25, "books": 0.75})]

PAIRS = {
    "seed": (lambda: _load(), lambda: _load(seed=2), "seed"),
    "shuffle": (lambda: _load(), lambda: _load(shuffle=False), "order"),
    "records": (
        lambda: _load(shuffle=False, seed=None),
        lambda: _load(103, shuffle=False, seed=None),
        "order",
    ),
    "epochs": (lambda: _load(num_epochs=2), lambda: _load(num_epochs=3), "epochs"),
    "batch size": (lambda: _load(), lambda: _load(batch=8), "batch size"),
    "weights": (lambda: _mix(), lambda: _mix({"web": 0.7, "books": 0.3}), "weights"),
    "schedule": (lambda: _mix(), lambda: _mix(AT_403), "weights"),
    "end of a part": (
        lambda: _mix(when_exhausted="first"),
        lambda: _mix(when_exhausted="all"),
        "epochs",
    ),
    "weights of a chain": (lambda: _chain(), lambda: _chain(weights=AT_403), "weights"),
    "seed in a chain": (lambda: _chain(), lambda: _chain(seed=5), "order"),
    "weights of streams": (lambda: _stream(BEFORE), lambda: _stream(AT_403), "weights"),
    "with a filter before the mix": (
        lambda: _stream(BEFORE, filtered=True),
        lambda: _stream(AT_403, filtered=True),
        "weights",
    ),
    "a part more": (lambda: _mix(), lambda: _mix({**BEFORE, "more": 1}, more=WEB), "source"),
    "left out": (lambda: _load(), lambda: _load().skip([(7, 9)]), "left out"),
    "left out elsewhere": (
        lambda: _load().skip([(3, 5)]),
        lambda: _load().skip([(3, 5), (7, 9)]),
        "left out",
    ),
}


def _first(one, two):
    """The first step at which what is delivered differs, by looking at it."""
    pairs = enumerate(zip(islice(one, 1500), islice(two, 1500)))
    return next((step for step, pair in pairs if not np.array_equal(*pair)), None)


@pytest.mark.parametrize("name", PAIRS)
def test_the_first_step_is_the_first_one_delivered_that_differs(name):
    """Found without reading; with the reason."""
    make_one, make_two, what = PAIRS[name]
    one, two = make_one(), make_two()
    found = headrace.diff(one, two)
    assert found.reasons[0].what == what
    known = {"source": 0, "left out": 7, "epochs": 50}
    assert found.step == (
        known[what] if what in known and name != "end of a part" else _first(one, two)
    )
    assert headrace.diff(two, one).step == found.step
    assert not headrace.diff(one, make_one())


def test_weights_of_the_same_shares_are_the_same():
    """3 and 1 are 0.75 and 0.25."""
    assert not headrace.diff(_mix(), _mix({"web": 3, "books": 1}))
    assert str(headrace.diff(_mix(), _mix({"web": 3, "books": 1}))) == "The streams are the same."


def test_operations_and_sources_are_named():
    """By their place and what they are; both reasons are told."""

    def double(x):
        return 2 * x

    def triple(x):
        return 3 * x

    found = headrace.diff(_load(100, 4, double), _load(100, 4, triple))
    assert [(reason.what, reason.step) for reason in found.reasons] == [("operation", 0)]
    assert "double) → MapTransform(" in found.reasons[0].told
    found = headrace.diff(_load(100, 4, double), _load(100, 4))
    assert found.reasons[0].told.endswith("→ Batch(4)")
    found = headrace.diff(headrace.load(range(10)), headrace.load(range(20)))
    assert [reason.what for reason in found.reasons] == ["source", "order"]
    assert "source: stop 10 → 20" in str(found) or "source: records 10 → 20" in str(found)


def test_where_an_operation_decides_the_steps_the_position_is_told():
    """No step, as that would take a run to find."""
    keeps = Filter(lambda x: x % 2)
    found = headrace.diff(_mix(BEFORE, keeps), _mix(AT_403, keeps))
    assert found.step is None
    assert "position 40" in found.reasons[0].told
    assert "from some step on" in str(found)


@pytest.mark.slow
def test_two_checkpoints_tell_where_weights_changed():
    """Of a run before and after: the step is that at which it went on with others."""
    iterator = iter(_mix())
    list(islice(iterator, 250))
    before = iterator.get_state()
    changed = _mix({"web": 0.25, "books": 0.75})
    after = iter(changed)
    after.set_state(before, strict=False)
    list(islice(after, 30))
    found = headrace.diff(before, after.get_state())
    assert [reason.what for reason in found.reasons] == ["weights"]
    assert 250 <= found.step <= 252
    assert found.step == _first(_mix(), _both(iter(_mix()), 250, changed, before))
    assert not headrace.diff(before, iterator.get_state())
    assert headrace.diff(_mix(), after.get_state()).step == found.step


def _both(iterator, steps, changed, state):
    yield from islice(iterator, steps)
    other = iter(changed)
    other.set_state(state, strict=False)
    yield from other


@pytest.mark.slow
def test_checkpoints_tell_of_seeds_batch_sizes_and_shards(tmp_path):
    """Also where no program is at hand."""
    one, two = iter(_load()), iter(_load(seed=2))
    assert headrace.diff(one.get_state(), two.get_state()).step == _first(_load(), _load(seed=2))
    small, large = iter(_load()), iter(_load(batch=8))
    list(islice(small, 10))
    large.set_state(small.get_state())
    list(islice(large, 3))
    found = headrace.diff(small.get_state(), large.get_state())
    assert ("batch size", 10) in [(reason.what, reason.step) for reason in found.reasons]
    shards = [iter(_mix(shard=(index, 2))) for index in range(2)]
    for iterator in shards:
        list(islice(iterator, 6))
    states = [iterator.get_state() for iterator in shards]
    whole = iter(_mix())
    whole.set_states(states)
    next(whole)
    found = headrace.diff(states, whole.get_state())
    assert [reason.what for reason in found.reasons] == ["shards", "shards"]
    assert "shards: 2 → 1" in str(found)
    assert "nothing → up to position 48 (from step 6 on)" in str(found)
    next(shards[1])
    for iterator, state in zip(
        [iter(_mix()), iter(_mix())], ([*states], [shard.get_state() for shard in shards])
    ):
        iterator.set_states(state)
        next(iterator)
        states = [*states, iterator.get_state()]
    found = headrace.diff(*states[2:])
    assert "up to position 48 → 2 shards up to local position 24" in str(found)
    found = headrace.diff(_mix(shard=(0, 2)), _mix(batch=2, shard=(0, 4)))
    assert "the batches of all together are the same" in str(found)


def test_two_states_of_a_loop_per_epoch_are_of_one_stream():
    """However many epochs are between them; a run without such a loop is another from the end of
    the first epoch on.
    """
    epochs = _load(batch=8, num_epochs=None).epochs(3)
    first = next(epochs)
    next(first)
    states = [epochs.get_state()]
    list(first)
    next(next(epochs))
    states.append(epochs.get_state())
    assert not headrace.diff(*states)
    assert not headrace.diff(_load(batch=8), states[1])
    other = iter(_load(batch=8))
    found = headrace.diff(states[0], other.get_state())
    assert [(reason.what, reason.step) for reason in found.reasons] == [("epochs", 12)]


def test_what_is_neither_is_an_error():
    """A number is no loader, and a file that is not there no checkpoint."""
    with pytest.raises(TypeError, match="an int"):
        headrace.diff(7, _load())
    with pytest.raises(CheckpointError, match=r"no file or folder nothing\.json\. Pass"):
        headrace.diff("nothing.json", _load())


def test_the_command_compares_programs_and_checkpoints(tmp_path, capsys):
    """The status is 0, 1 or 2, as that of diff."""
    from headrace.tools.command_line import main

    program = tmp_path / "train.py"
    program.write_text(
        "import headrace\nprint('the program prints this')\n"
        "def a(): return headrace.load(range(20), shuffle=True, seed=0, batch_size=4)\n"
        "def b(): return headrace.load(range(20), shuffle=True, seed=0, batch_size=5)\n"
    )
    state = tmp_path / "state.json"
    state.write_bytes(
        iter(headrace.load(range(20), shuffle=True, seed=0, batch_size=4)).get_state()
    )
    assert main(["diff", f"{program}:a", str(state)]) == 0
    assert capsys.readouterr().out == "The streams are the same.\n"
    assert main(["diff", f"{program}:a", f"{program}:b"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "The streams differ from step 0 on: batch size.",
        "  batch sizes: [4] → [5] (from step 0 on)",
    ]
    assert main(["diff", "--json", str(state), f"{program}:b"]) == 1
    assert json.loads(capsys.readouterr().out)["step"] == 0
    other = tmp_path / "other.py"
    other.write_text(
        f"{program.read_text()}import sys\nfor batch in vars()[sys.argv[1]]():\n    raise "
        "AssertionError\n"
    )
    assert main(["diff", "--run", str(other), str(state), "--", "a"]) == 0
    assert main(["diff", "--run", str(other), str(state), "--", "b"]) == 1
    capsys.readouterr()
    assert main(["diff", f"{program}:none", str(state)]) == 2
    assert "train.py has no name none" in capsys.readouterr().err


def test_of_orders_of_two_kinds_only_that_is_told():
    """A loader that mixes nothing does not differ from a mix by its weights."""
    found = headrace.diff(_mix(), _load())
    assert [reason.what for reason in found.reasons] == ["source", "order"]
    assert "kind 'MixedSource' → " in found.reasons[0].told
    assert "kind 'MixSampler' → 'IndexSampler'" in found.reasons[1].told
    assert "None" not in str(found)


def _packed(*, seed=0, shuffled=True, length=16, documents=300):
    parts = {
        "web": [np.arange(4 + number % 7) for number in range(documents)],
        "books": [np.arange(5)] * 50,
    }
    whole = {name: MapDataset.source(part) for name, part in parts.items()}
    ordered = {name: part.shuffle(seed=seed) if shuffled else part for name, part in whole.items()}
    packed = {name: part.pack(length).repeat() for name, part in ordered.items()}
    return MapDataset.mix(packed, {"web": 0.7, "books": 0.3}).batch(4)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("change", "what", "told"),
    [
        ({"seed": 1}, "seed", "part 'web': Shuffle(length=300, seed=0"),
        (
            {"shuffled": False},
            "order",
            "part 'books': Shuffle(length=50, seed=0, reseeds=True) → none",
        ),
        ({"length": 32}, "operation", "part 'web': Pack(16"),
        ({"documents": 200}, "source", "part 'web': MemorySource"),
    ],
)
def test_what_differs_below_a_mix_is_named(change, what, told):
    """Descriptions know such datasets by a digest; of two programs it is told what stands behind
    that.
    """
    found = headrace.diff(_packed(), _packed(**change))
    assert what in [reason.what for reason in found.reasons]
    assert told in str(found)
    assert "chain '" not in str(found)
    assert found.step == 0
    assert not headrace.diff(_packed(), _packed())


def test_balanced_streams_differ_by_what_shards_get():
    """From the first step at which a shard has other records; on one shard, and of checkpoints, it
    is said in words.
    """
    lengths = np.array([1] * 64 + [*range(1, 65)])

    def loader(balance, shard, shards=2, **more):
        options = headrace.ShardOptions(shard, shards)
        return headrace.load(
            range(128),
            batch_size=8 // shards,
            num_epochs=1,
            shard_options=options,
            balance=balance,
            **more,
        )

    balanced, plain = loader(True, 1, lengths=lengths), loader(None, 1)
    found = headrace.diff(plain, balanced)
    steps = [
        step
        for step in range(16)
        if plain.records_at(step).tolist() != balanced.records_at(step).tolist()
    ]
    assert [(reason.what, reason.step) for reason in found.reasons] == [("balance", steps[0])]
    assert "balance: none → costs" in str(found)
    assert "the order is compared before, and each shard has other records of it" in str(found)
    iterator = iter(balanced)
    next(iterator)
    assert [reason.what for reason in headrace.diff(plain, iterator.get_state()).reasons] == [
        "balance"
    ]
    assert not headrace.diff(balanced, iterator.get_state())
    alone = headrace.diff(loader(None, 0, 1), loader(True, 0, 1, lengths=lengths))
    assert "the same on one shard, and on several each has other records" in str(alone)
    several = headrace.load(
        range(128),
        batch_size=4,
        num_epochs=1,
        shard_options=headrace.ShardOptions(1, 2),
        balance=headrace.Balance(lengths, batches=2),
    )
    assert "in blocks of 8 → costs" in str(headrace.diff(balanced, several))


def _omitting(gone=None, **options):
    return headrace.load(
        range(40), **{"shuffle": True, "seed": 0, "batch_size": 4, "omit": gone, **options}
    )


def _state_after(loader, steps, state=None):
    with iter(loader) as iterator:
        if state is not None:
            iterator.set_state(state)
        for _ in range(steps):
            next(iterator)
        return iterator.get_state()


@pytest.mark.slow
def test_records_that_are_left_out_differ_where_they_would_come():
    """Of loaders, chains and mixes the step is the first one delivered that differs; a run that
    left out later is the same.
    """
    keys = [int(key) for step in range(10) for key in _omitting().records_at(step)]
    chain = headrace.MapDataset.source(range(40)).shuffle(seed=1).repeat()
    for one, two, what in (
        (_omitting(), _omitting([keys[9]]), "left out 0 → 1; position 9"),
        (_omitting([keys[21]]), _omitting([keys[30]]), "left out 1 → 1 others; position 21"),
        (chain.batch(4), chain.omit([3, 8]).batch(4), "left out 0 → 2"),
        (
            chain.to_iter_dataset().batch(4),
            chain.to_iter_dataset().batch(4).omit([8]),
            "left out 0 → 1",
        ),
    ):
        found = headrace.diff(one, two)
        pairs = zip(*(map(np.ndarray.tolist, each) for each in (one, two)))
        first = next(step for step, (batch, other) in enumerate(pairs) if batch != other)
        assert (found.step, [reason.what for reason in found.reasons]) == (first, ["records"])
        assert what in found.reasons[0].told
    before = _state_after(_omitting(), 3)
    after = _state_after(_omitting([keys[30]]), 2, before)
    assert not headrace.diff(after, _omitting([keys[30]]))
    assert headrace.diff(before, after).step == 3
    early = _state_after(_omitting([keys[2]]), 2, before)
    assert headrace.diff(early, _omitting([keys[2]])).step == 0


@pytest.mark.slow
def test_records_that_are_left_out_of_a_part_are_told_by_its_name():
    """Of a mix; of streams that are joined the step is not known."""
    parts = {"a": range(20), "b": range(30)}

    def mix(gone=None):
        sampler = headrace.MixSampler(
            parts, {"a": 1, "b": 2}, when_exhausted="repeat", shuffle=True, seed=0
        )
        return headrace.DataLoader(
            data_source=parts, sampler=sampler, operations=[headrace.Batch(5)], omit=gone
        )

    found = headrace.diff(mix(), mix({"a": [3]}))
    first = next(
        step
        for step in range(99)
        if mix().records_at(step)["a"].tolist() != mix({"a": [3]}).records_at(step)["a"].tolist()
    )
    assert found.step == first
    assert "part 'a': left out 0 → 1; position" in found.reasons[0].told
    one, other = (headrace.MapDataset.range(count).to_iter_dataset() for count in (9, 8))
    joined = headrace.diff(
        headrace.IterDataset.mix([one, other]), headrace.IterDataset.mix([one.omit([3]), other])
    )
    assert (joined.step, [reason.told for reason in joined.reasons]) == (
        None,
        ["stream 0: left out 0 → 1"],
    )
