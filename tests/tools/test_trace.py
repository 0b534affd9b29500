"""`headrace.trace` tells what was in a step: it is what was delivered, wherever one asks from."""

import json
import random

import numpy as np
import pytest

import headrace
from headrace import (
    Batch,
    DataLoader,
    Filter,
    FlatMap,
    IndexSampler,
    IterDataset,
    MapDataset,
    MixSampler,
    Pack,
    RandomMapTransform,
    ShardOptions,
    WindowShuffle,
)
from headrace.errors import CheckpointError, TraceError

DOCUMENTS = [1000 * key + np.arange(1 + key * 7 % 11) for key in range(60)]
"""Each token tells its document, and its place in that."""

OTHERS = [100_000 + document for document in DOCUMENTS[:23]]


def _tokens(element):
    """All tokens of an element, each as often as it is there."""
    if isinstance(element, dict):
        if "tokens_segment_ids" in element:
            return element["tokens"][element["tokens_segment_ids"] > 0].ravel().tolist()
        return [token for value in element.values() for token in _tokens(value)]
    if isinstance(element, (list, tuple)):
        return [token for value in element for token in _tokens(value)]
    return (
        [element]
        if np.ndim(element) == 0
        else [token for value in element for token in _tokens(value)]
    )


def _expected(found, whole=True):
    """The tokens of the records of a trace, in its order."""
    tokens = []
    for record in found.records:
        document = (OTHERS if "other" in record.dataset else DOCUMENTS)[record.key]
        spans = record.tokens or [(0, len(document), 0)]
        tokens += document[spans[0][0] : spans[0][1]].tolist()
    return tokens


def _listed(rows):
    return list(rows)


def _documents():
    return MapDataset.source(DOCUMENTS).shuffle(seed=1)


def _others():
    return MapDataset.source(OTHERS).shuffle(seed=2)


def _long(document):
    return len(document) > 3


def _loader(*operations, **options):
    sampler = IndexSampler(60, shuffle=True, seed=4, num_epochs=3)
    return DataLoader(
        data_source=DOCUMENTS, sampler=sampler, operations=list(operations), **options
    )


def _mix_loader(**options):
    parts = {"mine": DOCUMENTS, "other": OTHERS}
    sampler = MixSampler(
        parts, {"mine": 0.7, "other": 0.3}, shuffle=True, seed=3, when_exhausted="repeat"
    )
    return DataLoader(
        data_source=parts, sampler=sampler, operations=[Batch(4, batch_fn=_listed)], **options
    )


def _streams():
    mine = _documents().to_iter_dataset().filter(_long)
    return {"mine": mine, "other": _others().to_iter_dataset()}


def _plain():
    return {
        "mine": _documents().batch(2, batch_fn=_listed).to_iter_dataset(),
        "other": _others().to_iter_dataset(),
    }


def _shuffled():
    return {name: stream.window_shuffle(4, seed=3) for name, stream in _plain().items()}


PIPELINES = {
    "single": lambda: _loader(),
    "batch": lambda: _loader(Batch(7, batch_fn=_listed)),
    "batch of batches": lambda: _loader(Batch(3, batch_fn=_listed), Batch(2, batch_fn=_listed)),
    "random map": lambda: _loader(RandomMapTransform(lambda x, rng: x), Batch(4, batch_fn=_listed)),
    "mix": _mix_loader,
    "filter": lambda: _loader(Filter(_long), Batch(4, batch_fn=_listed)),
    "flat map": lambda: _loader(
        FlatMap(lambda x: list(x.reshape(-1, 1)) if len(x) < 4 else []), Batch(4)
    ),
    "window": lambda: _loader(WindowShuffle(8), Batch(3, batch_fn=_listed)),
    "shuffled batches": lambda: _loader(
        Batch(3, batch_fn=_listed), WindowShuffle(4), Batch(2, batch_fn=_listed)
    ),
    "filtered batches": lambda: _loader(
        Batch(3, batch_fn=_listed), Filter(lambda rows: len(rows[0]) > 4)
    ),
    "pack": lambda: _loader(Pack(16, window=8), Batch(2)),
    "pack of some": lambda: _loader(
        Filter(_long), Pack(8, "concat_then_split", window=10), Batch(3)
    ),
    "packs of a part": lambda: _loader(
        Pack(16, window=8), Filter(lambda row: row["tokens"][0] % 3 > 0), Batch(2)
    ),
    "chain": lambda: _documents().map(lambda x: x).repeat(3).batch(5, batch_fn=_listed),
    "chain mix": lambda: MapDataset.mix({"mine": _documents(), "other": _others()}, [3, 1]).batch(
        4, batch_fn=_listed
    ),
    "chain pack": lambda: _documents().pack(16).shuffle(seed=5).repeat(3).batch(2),
    "mixed packs": lambda: MapDataset.mix(
        {"mine": _documents().pack(16), "other": _others().pack(16)}
    ).batch(2),
    "zip": lambda: MapDataset.zip({"mine": _documents(), "other": _others().repeat()[:60]}).filter(
        lambda pair: _long(pair["mine"])
    ),
    "one after the other": lambda: MapDataset.concatenate(
        {"mine": _documents(), "other": _others()}
    ).shuffle(seed=3),
    "map flat map": lambda: (
        MapDataset.source(DOCUMENTS)
        .flat_map(lambda x: [x[:1], x[:1]] if _long(x) else [], max_fan_out=2)
        .to_iter_dataset()
    ),
    "mix of streams": lambda: IterDataset.mix(_streams(), [2, 1], when_exhausted="repeat").batch(
        4, batch_fn=_listed
    ),
    "mixed and packed": lambda: IterDataset.mix(_streams(), [2, 1]).pack(16, window=9).batch(2),
    "mix of plain streams": lambda: IterDataset.mix(
        _plain(), [2, 1], when_exhausted="repeat"
    ).batch(4, batch_fn=_listed),
    "zip of plain streams": lambda: (
        IterDataset.zip(_plain(), strict=False).limit(9).batch(2, batch_fn=_listed)
    ),
    "shuffled streams": lambda: IterDataset.mix(_shuffled(), [2, 1], when_exhausted="repeat").batch(
        3, batch_fn=_listed
    ),
    "zip of streams": lambda: IterDataset.zip(_streams(), strict=False).batch(2, batch_fn=_listed),
    "interleaved": lambda: IterDataset.interleave(_streams(), cycle_length=2),
    "repeated": lambda: (
        _documents().to_iter_dataset().filter(_long).repeat(2).batch(4, batch_fn=_listed)
    ),
}
INDIRECT = {"flat map", "map flat map"}
"""A record is not all in what is made of it."""


def _agrees(name, found, element):
    told = _tokens(element)
    if name in INDIRECT:
        return set(told) <= set(_expected(found)) and len(found.records) == len(told)
    return sorted(told) == sorted(_expected(found))


def _run(iterator, most):
    """Elements, each after the state before it."""
    state = iterator.get_state()
    for element, _ in zip(iterator, range(most)):
        yield state, element
        state = iterator.get_state()


SHORT = (
    "batch",
    "mix",
    "mix of plain streams",
    "pack of some",
    "shuffled batches",
    "chain pack",
    "mixed and packed",
)
"""Pipelines that stand for all others."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SHORT else pytest.mark.long) for name in PIPELINES],
)
def test_a_trace_is_what_was_delivered(name):
    """Any step, from the beginning and from any checkpoint, of every kind of pipeline."""
    loader, chosen = PIPELINES[name](), random.Random(name)
    states, delivered = zip(*_run(iter(loader), 14))
    for _ in range(3):
        step, at = chosen.randrange(len(delivered)), chosen.randrange(len(delivered))
        assert _agrees(name, headrace.trace(loader, step), delivered[step])
        found = headrace.trace(loader, step, states[at])
        assert _agrees(name, found, delivered[step])
        assert found.ran_from in (None, 0, at)


@pytest.mark.parametrize("name", ["batch", "mix", "filter", "pack", "mixed and packed"])
def test_rows_and_segments_are_those_of_the_batch(name):
    """Each record stands in the row, and of a packed row in the segment, that the trace says."""
    loader = PIPELINES[name]()
    element = [batch for batch, _ in zip(loader, range(4))][3]
    for record in headrace.trace(loader, 3).records:
        document = (OTHERS if record.dataset == "other" else DOCUMENTS)[record.key]
        if record.segment is None:
            assert element[record.row].tolist() == document.tolist()
        else:
            (span,) = record.tokens
            row = element["tokens"][record.row][
                element["tokens_segment_ids"][record.row] == record.segment
            ]
            assert row.tolist() == document[span.start : span.stop].tolist()
            assert span.length == len(document)


@pytest.mark.parametrize(
    "name", ["batch", "mix", "chain", "chain mix", "chain pack", "mix of streams"]
)
def test_a_step_far_away_is_told_without_reading(name):
    """At step 10^9 of what has random access, keys are those of the order, and the source is not
    asked.
    """
    endless = {
        "batch": headrace.load(
            DOCUMENTS, shuffle=True, seed=4, transformations=[_never], batch_size=7
        ),
        "mix": _mix_loader(),
        "chain": _documents().map(_never).repeat().batch(5),
        "chain mix": MapDataset.mix(
            {"mine": _documents().map(_never), "other": _others()}, when_exhausted="repeat"
        ),
        "chain pack": _documents().pack(16).shuffle(seed=5).repeat().batch(2),
        "mix of streams": IterDataset.mix(
            [_documents().map(_never).to_iter_dataset()] * 2, [2, 1], when_exhausted="repeat"
        ),
    }
    found = headrace.trace(endless[name], 10**9)
    assert found.ran_from is None
    assert found.records
    if name == "batch":
        assert [record.key for record in found.records] == endless[name].records_at(10**9).tolist()
    if name == "chain pack":
        assert sorted(_tokens(endless[name][10**9])) == sorted(_expected(found))
    if name == "mix":
        expected = endless[name].records_at(10**9)
        for part, keys in expected.items():
            assert [
                record.key for record in found.records if record.dataset == part
            ] == keys.tolist()


def _never(record):
    raise AssertionError("nothing is run")


@pytest.mark.slow
def test_all_shards_of_a_checkpoint_are_told(tmp_path):
    """Of a folder with the states of all shards, with each record's shard; and after other shards
    went on from it.
    """

    def loader(index, count):
        return _mix_loader(shard_options=ShardOptions(index, count))

    iterators = [iter(loader(index, 2)) for index in range(2)]
    for index, iterator in enumerate(iterators):
        for _ in range(3 + index):
            next(iterator)
        (tmp_path / f"process_{index}-of-2.json").write_bytes(iterator.get_state())
    found = headrace.trace(_mix_loader(), 6, tmp_path)
    for index, iterator in enumerate(iterators):
        batch = [next(iterator) for _ in range(4 - index)][-1]
        mine = [record for record in found.records if record.shard == index]
        assert [_key_of(row) for row in batch] == [record.key for record in mine]
    states = [(tmp_path / f"process_{index}-of-2.json").read_bytes() for index in range(2)]
    found = headrace.trace(loader(0, 1), 5, tmp_path, shards=3)
    later = []
    for index in range(3):
        iterator = iter(loader(index, 3))
        iterator.set_states(states)
        batch = [next(iterator) for _ in range(2)][-1]
        assert iterator.step == 6
        assert [_key_of(row) for row in batch] == [
            record.key for record in found.records if record.shard == index
        ]
        later.append(iterator.get_state())
    again = headrace.trace(loader(0, 1), 5, later)
    assert again.records == found.records
    with pytest.raises(
        TraceError, match="step 2 is before the checkpoint, at step 6, and the number of shards"
    ):
        headrace.trace(loader(0, 1), 2, later)


def test_of_several_checkpoints_the_last_one_before_the_step_is_taken(tmp_path):
    """In the folder of a manager; the first one for a step before all of them."""
    loader = _loader(Filter(_long), Batch(3, batch_fn=_listed))
    iterator = iter(loader)
    for _ in range(12):
        next(iterator)
        if iterator.step in (4, 9):
            (tmp_path / str(iterator.step) / "loader").mkdir(parents=True)
            (tmp_path / str(iterator.step) / "loader" / "process_0-of-1.json").write_bytes(
                iterator.get_state()
            )
    assert [headrace.trace(loader, step, tmp_path).ran_from for step in (2, 4, 8, 9, 11)] == [
        0,
        4,
        4,
        9,
        9,
    ]
    (tmp_path / "9" / "other").mkdir()
    (tmp_path / "9" / "other" / "process_0-of-1.json").write_bytes(
        (tmp_path / "9/loader/process_0-of-1.json").read_bytes()
    )
    with pytest.raises(CheckpointError, match=r"2 checkpoints .*Pass the path of one"):
        headrace.trace(loader, 10, tmp_path)


def _key_of(document):
    return int(document[0]) % 100_000 // 1000


@pytest.mark.slow
def test_elastic_resumes_in_the_middle_of_windows_are_told():
    """What a former shard had begun is traced as the shard that finishes it delivers it."""

    def loader(index, count):
        return _loader(
            Filter(_long), Pack(16, window=8), Batch(2), shard_options=ShardOptions(index, count)
        )

    states = []
    for index in range(2):
        iterator = iter(loader(index, 2))
        for _ in range(2 + index):
            next(iterator)
        states.append(iterator.get_state())
    for index in range(3):
        iterator = iter(loader(index, 3))
        iterator.set_states(states)
        for step in range(3, 6):
            batch = next(iterator)
            found = headrace.trace(loader(index, 3), step, states, shards=3)
            mine = [record for record in found.records if record.shard == index]
            assert sorted(_tokens(batch)) == sorted(_expected(found_of(found, mine)))


def found_of(found, records):
    """A trace with some records."""
    return headrace.tools.Trace(
        found.step, found.shards, found.shard_count, found.epochs, found.ran_from, tuple(records)
    )


@pytest.mark.slow
@pytest.mark.parametrize("filtered", [False, True])
def test_steps_of_a_loop_per_epoch(filtered):
    """Counted over all epochs, from the beginning and from a state of any of them."""
    operations = [Filter(_long)] if filtered else []
    loader = _loader(*operations, Batch(11, batch_fn=_listed))
    delivered, states = [], []
    epochs = loader.epochs(3)
    for epoch in epochs:
        for batch in epoch:
            delivered.append((batch, epoch.epoch))
            states.append(epochs.get_state())
    for step in (0, 4, 8, len(delivered) - 1):
        batch, epoch = delivered[step]
        for found in [
            headrace.trace(loader, step, epochs=True),
            *(headrace.trace(loader, step, states[at]) for at in (1, 6, len(states) - 2)),
        ]:
            assert _expected(found) == _tokens(batch)
            assert found.epochs == {"": epoch}
    with pytest.raises(TraceError, match="after the end of the stream"):
        headrace.trace(loader, len(delivered), epochs=True)


class Numbers(IterDataset):
    """A dataset of a user's that can only be run through."""

    def __iter__(self):
        return NumbersIterator()


class NumbersIterator:
    """Counts."""

    def __init__(self):
        self.number = 0

    def __next__(self):
        self.number += 1
        return self.number - 1

    def get_state(self):
        return self.number

    def set_state(self, state):
        self.number = state


def test_what_can_only_be_run_through_is_told_by_number():
    """The number of each element that it gave, from a checkpoint on."""
    stream = Numbers().filter(lambda x: x % 3).batch(4)
    iterator = iter(stream)
    batches, states = [], []
    for _ in range(5):
        states.append(iterator.get_state())
        batches.append(next(iterator).tolist())
    iterator.close()
    for state in (None, states[2]):
        found = headrace.trace(stream, 4, state)
        assert [record.key for record in found.records] == batches[4]
        assert found.epochs == {}


def test_records_that_failed_are_left_out_as_they_were():
    """With on_error="skip" the pipeline is run, whatever its operations are."""

    def fails(document):
        if len(document) == 3:
            raise ValueError(document)
        return document

    loader = _loader(fails, Batch(4, batch_fn=_listed), on_error="skip")
    batches = [batch for batch, _ in zip(loader, range(5))]
    assert _expected(headrace.trace(loader, 4)) == _tokens(batches[4])


def test_steps_that_are_left_out_have_no_records():
    """Others keep their numbers."""
    loader = _loader(Batch(7, batch_fn=_listed)).skip([(2, 4)])
    batches = list(loader)
    assert _expected(headrace.trace(loader, 4)) == _tokens(batches[2])
    with pytest.raises(TraceError, match=r"step 3 is skipped by skip\(\)"):
        headrace.trace(loader, 3)


def test_steps_of_a_loop_per_epoch_of_planned_batches():
    """Their records and epochs are those that were delivered, whatever epoch the loop is in."""
    arrays = [np.full(3, key) for key in range(8)]
    sampler = IndexSampler(8, shuffle=True, seed=1, num_epochs=3)
    planned = headrace.BudgetBatch(6, lengths=[3] * 8)
    epochs = DataLoader(data_source=arrays, sampler=sampler, operations=[planned]).epochs()
    delivered = [
        (batch["tokens"][:, 0].tolist(), epoch.epoch) for epoch in epochs for batch in epoch
    ]
    loader = DataLoader(data_source=arrays, sampler=sampler, operations=[planned])
    found = [headrace.trace(loader.epochs(), step) for step in range(len(delivered))]
    assert [([record.key for record in one.records], one.epochs[""]) for one in found] == delivered


def test_epochs_of_a_mix_are_told_by_part():
    """The epoch of each part at its last record."""
    loader = _mix_loader()
    iterator = iter(loader)
    for _ in range(60):
        next(iterator)
    assert headrace.trace(loader, 59).epochs == iterator.part_epochs


@pytest.mark.parametrize(
    ("step", "checkpoint", "message"),
    [
        (26, None, "step 26 is after the end of the stream, which has 26 elements"),
        (10**30, None, "is after the end of the stream, which has 26 elements"),
        (0, "nothing/here.json", r"no file or folder nothing/here\.json\. Pass"),
        (0, b"{}", "state of a headrace loader"),
        (0, 7, r"an int is not a checkpoint\. Pass its path"),
    ],
)
def test_what_cannot_be_told_is_one_error(step, checkpoint, message):
    """With what was asked for, and what there is."""
    with pytest.raises((TraceError, CheckpointError), match=message):
        headrace.trace(_loader(Batch(7, batch_fn=_listed)), step, checkpoint)


def test_states_of_other_pipelines_are_refused_unless_told_otherwise():
    """As set_state does."""
    state = iter(headrace.load(DOCUMENTS, shuffle=True, seed=5, num_epochs=3)).get_state()
    with pytest.raises(CheckpointError, match="seed 5 → 4"):
        headrace.trace(_loader(), 0, state)
    assert headrace.trace(_loader(), 0, state, strict=False).records


def test_a_changed_batch_size_is_noticed():
    """Steps of before it are not told from a checkpoint that came after it."""
    small, large = _loader(Batch(2, batch_fn=_listed)), _loader(Batch(5, batch_fn=_listed))
    iterator = iter(small)
    next(iterator)
    after = iter(large)
    after.set_state(iterator.get_state())
    next(after)
    batch = next(after)
    with pytest.raises(TraceError, match="step 0 is before the checkpoint"):
        headrace.trace(large, 0, after.get_state())
    assert _expected(headrace.trace(large, 2, iterator.get_state())) == _tokens(batch)


@pytest.mark.parametrize(
    "option", [("--step", "-1"), ("--step", "x"), ("--step", "1", "--shards", "0")]
)
def test_numbers_that_are_none_are_usage_errors(option, capsys):
    """Of the command, not of the program."""
    from headrace.tools.command_line import main

    with pytest.raises(SystemExit, match="2"):
        main(["trace", "train.py", *option])
    assert "usage: headrace trace" in capsys.readouterr().err


PROGRAM = """
import headrace

def make():
    return headrace.load(range(20), shuffle=True, seed=0, batch_size=4, num_epochs=2)

def failing():
    return headrace.load(range(20), transformations=[headrace.Filter(lambda x: 1 / 0)])
"""


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    """Of a checkpoint and a program, or of a program alone; what cannot be told is one line and the
    status 2.
    """
    from headrace.tools.command_line import main

    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    loader = headrace.load(range(20), shuffle=True, seed=0, batch_size=4, num_epochs=2)
    state = tmp_path / "state.json"
    state.write_bytes(iter(loader).get_state())
    assert main(["trace", str(state), f"{program}:make", "--step", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["Step 7: 4 records", "Epoch 1", "Found by arithmetic; nothing was read."]
    assert lines[4].split() == ["row", "key", "position"]
    assert main(["trace", f"{program}:make", "--step", "7", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [record["key"] for record in told["records"]] == loader.records_at(7).tolist()
    for arguments, message in {
        (
            f"{program}:make",
            "--step",
            "99",
        ): "step 99 is after the end of the stream, which has 10 elements.",
        (
            f"{program}:failing",
            "--step",
            "1",
        ): "train.py by itself first, because it fails at line 8: ZeroDivisionError",
        (
            str(tmp_path / "none.json"),
            f"{program}:make",
            "--step",
            "1",
        ): "there is no file or folder",
    }.items():
        assert main(["trace", *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert message in told.err


def test_an_iterator_is_traced_from_where_it_stands():
    """What it delivered, and what it will; of a loop per epoch, too."""
    loader = _loader(Filter(_long), Batch(4, batch_fn=_listed))
    iterator = iter(loader)
    batches = [next(iterator) for _ in range(5)]
    assert _expected(headrace.trace(iterator, 3)) == _tokens(batches[3])
    found = headrace.trace(iterator, 6)
    assert found.ran_from == 5
    assert headrace.trace(headrace.progress(iterator, disable=True), 6) == found
    next(iterator)
    assert _expected(found) == _tokens(next(iterator))
    epochs = _loader(Batch(11, batch_fn=_listed)).epochs(2)
    list(next(epochs))
    second = next(epochs)
    batch = next(second)
    assert _expected(headrace.trace(second, 6)) == _tokens(batch)
    assert headrace.trace(epochs, 6) == headrace.trace(second, 6)
    assert _expected(headrace.trace(second, 1)) == _tokens(
        list(_loader(Batch(11, batch_fn=_listed)))[1]
    )


TRAINING = """
import sys
import jax
import headrace

def main(records):
    loader = headrace.load(range(records), shuffle=True, seed=0, batch_size=4)
    print("training")
    batches = loader.to_device(jax.devices()[0]) if "device" in sys.argv else loader
    for batch in batches:
        raise AssertionError("no step is made")

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_program_is_run_up_to_its_first_loop(where, tmp_path, capsys):
    """With its arguments; the loader inside its main() is found, and what it prints is not among
    what is found.
    """
    from headrace.tools.command_line import main

    program = tmp_path / "train.py"
    program.write_text(TRAINING)
    expected = headrace.load(range(30), shuffle=True, seed=0, batch_size=4).records_at(9).tolist()
    assert main(["trace", "--run", str(program), "--step", "9", "--json", "--", "30", where]) == 0
    told = capsys.readouterr()
    assert [record["key"] for record in json.loads(told.out)["records"]] == expected
    assert told.err == "training\n"
    program.write_text("x = 1")
    assert main(["trace", "--run", str(program), "--step", "9"]) == 2
    assert "ended without taking a batch from a loader" in capsys.readouterr().err


def test_a_mix_of_streams_in_grains_order_is_traced():
    """By running to the step."""
    import headrace.compat.grain as grain

    parts = [
        grain.MapDataset.source(range(start, start + 50)).to_iter_dataset() for start in (0, 100)
    ]
    mixed = grain.IterDataset.mix(parts, weights=[1, 2])
    expected = [element for _, element in zip(range(12), mixed)]
    found = headrace.trace(mixed, step=11)
    assert [100 * int(record.dataset or 0) + record.key for record in found.records] == [
        expected[11]
    ]
