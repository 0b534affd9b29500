"""Hosts without devices take the same number of batches, and agree by jax's service or
by a folder.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
from support import device_programs
from support.pipelines import chosen

import headrace
from headrace.errors import HostsError

PRELUDE = """
import json, os, signal
from pathlib import Path
import numpy as np
import headrace

kept = {"some": lambda x: x % 2 == 0 or x < 30, "none": lambda x: x % 2 == 0}

def loader(which="some", workers=0, epochs=1):
    # host 0 has the even numbers, host 1 the odd ones below 30: 13 batches and 4, or none
    return headrace.load(np.arange(98), transformations=[headrace.Filter(kept[which])], batch_size=4, num_epochs=epochs,
                         shard_options=headrace.ShardOptions(index, count), worker_count=workers)

def say(*values):
    print("said " + json.dumps(values), flush=True)

def rows(iterator):
    # the rows of each batch and, of these, the real ones
    return [[batch.tolist(), batch[iterator.mask].tolist()] for batch in iterator]
"""
EVEN = list(range(0, 98, 2))
ODD = list(range(1, 30, 2))


def together(program, *arguments, by, **options):
    """What each of two processes said: one list for each time."""
    join = device_programs.JOIN if by == "jax" else device_programs.ALONE
    program = PRELUDE + device_programs.textwrap.dedent(program)
    outputs = device_programs.run_together(program, 2, *arguments, join=join, **options)
    return [
        [json.loads(line[5:]) for line in text.splitlines() if line.startswith("said ")]
        for text in outputs
    ]


def folder_for(by, tmp_path):
    """The folder as an argument of the program; empty for jax."""
    return str(tmp_path / "meeting") if by == "folder" else ""


def cut(numbers):
    """Batches of four."""
    return [numbers[start : start + 4] for start in range(0, len(numbers), 4)]


POLICIES = """
folder, workers = sys.argv[4] or None, int(sys.argv[5])
for policy in ("drop", "pad", "repeat"):
    with iter(loader("some", workers).across_hosts(policy, folder=folder)) as iterator:
        say(policy, rows(iterator) if policy != "drop" else [batch.tolist() for batch in iterator], iterator.step)
for which in ("some", "none"):
    for policy in ("error", "repeat", "drop", "pad"):
        if which == "some" and policy != "error":
            continue
        with iter(loader(which, workers).across_hosts(policy, folder=folder)) as iterator:
            seen = []
            try:
                for batch in iterator:
                    seen.append(batch[getattr(iterator, "mask", ...) if policy == "pad" else ...].tolist())
                say(which + policy, seen, "")
            except headrace.errors.HostsError as error:
                say(which + policy, seen, str(error))
say("jax" in sys.modules)
"""


@pytest.mark.parametrize(
    ("by", "workers"), chosen([("folder", 0), ("folder", 2), ("jax", 0), ("jax", 2)], ("folder", 0))
)
def test_hosts_make_the_same_number_of_batches(by, workers, tmp_path):
    """Dropped, filled up, repeated or refused, also if a host has no batch at all, with every kind
    of agreement.
    """
    said = together(POLICIES, folder_for(by, tmp_path), workers, by=by)
    for host, own in enumerate((EVEN, ODD)):
        told = {words[0]: words[1:] for words in said[host]}
        assert told["drop"] == [cut(own)[:4] if host == 0 else cut(own), 4]
        padded, step = told["pad"]
        assert (len(padded), step) == (13, 13)
        assert all(len(batch) == 4 for batch, _ in padded)
        assert [real for _, real in padded] == (cut(own) + [[]] * 13)[:13]
        assert all(sum(batch) == sum(real) for batch, real in padded)
        repeated, step = told["repeat"]
        assert (len(repeated), step) == (13, 13)
        assert [real for _, real in repeated] == [real for _, real in padded]
        again = [[*batch, *batch, *batch, *batch][:4] for batch in cut(own)]
        assert [batch for batch, _ in repeated] == (again * 4)[:13]
        assert len(told["someerror"][0]) == 4
        assert "(process 0: a batch, process 1: none, its stream has ended)" in told["someerror"][1]
        assert told["nonerepeat"][0] == []
        assert "process 1 has no batch at all" in told["nonerepeat"][1]
        assert told["nonedrop"] == [[], ""]
        assert told["nonepad"] == [cut(own) if host == 0 else [[]] * 13, ""]
        assert "none, its stream has ended" in told["noneerror"][1]
        assert told[by == "jax"] == []
    if by == "folder":
        assert [path for path in (tmp_path / "meeting").rglob("*") if path.is_file()] == []


STATES = """
folder = sys.argv[4] or None
for policy in ("drop", "pad", "repeat"):
    with iter(loader().across_hosts(policy, folder=folder)) as iterator:
        states, seen = [iterator.get_state()], []
        for batch in iterator:
            states.append(iterator.get_state())
            seen.append(batch.tolist())
        states.append(iterator.get_state())
    with iter(loader().across_hosts(policy, folder=folder)) as iterator:
        for step, state in enumerate(states):
            iterator.set_state(state)
            rest = [batch.tolist() for batch in iterator]
            assert rest == seen[step:], (policy, step, rest, seen[step:])
    say(policy, [state.decode() for state in states])
"""


@pytest.mark.parametrize("by", chosen(["folder", "jax"], "folder"))
@pytest.mark.long
def test_states_of_uneven_hosts_are_exact(by, tmp_path):
    """From each step the same batches follow; on one host, each record that no host delivered
    follows once.
    """
    said = together(STATES, folder_for(by, tmp_path), by=by)
    for (policy, first), (_, second) in zip(*said, strict=True):
        keep = headrace.Filter(lambda x: x % 2 == 0 or x < 30)
        for step in (0, 3, 4, len(first) - 1):
            whole = iter(
                headrace.load(np.arange(98), transformations=[keep], batch_size=4, num_epochs=1)
            )
            # its lambda is another one
            whole.set_states([first[step].encode(), second[step].encode()], strict=False)
            with whole:
                rest = sorted(int(x) for batch in whole for x in batch)
            taken = min(step, 4 if policy == "drop" else 13)
            assert rest == sorted(EVEN[4 * taken :] + ODD[4 * taken :]), (policy, step)


EPOCHS = """
folder = sys.argv[4] or None
shuffled = headrace.load(np.arange(98), transformations=[headrace.Filter(kept["some"])], batch_size=4, shuffle=True, seed=index,
                         shard_options=headrace.ShardOptions(index, count))
for policy in ("drop", "pad", "repeat"):
    with shuffled.across_hosts(policy, folder=folder).epochs(3) as epochs:
        seen, states = [], []
        for epoch in epochs:
            for batch in epoch:
                seen.append([epoch.epoch, epoch.step, len(batch), batch.tolist()])
                states.append(epochs.get_state())
            states.append(epochs.get_state())
    say([line[:3] for line in seen])
    with shuffled.across_hosts(policy, folder=folder).epochs(3) as epochs:
        for number in (3, len(states) // 2, len(states) - 3):
            epochs.set_state(states[number])
            rest = [batch.tolist() for epoch in epochs for batch in epoch]
            assert rest == [line[3] for line in seen][len(seen) - len(rest):], (policy, number)
chain = headrace.MapDataset.range(98).shuffle(seed=1).to_iter_dataset(shard_options=headrace.ShardOptions(index, count))
chain = chain.filter(kept["some"]).batch(4)
with iter(chain.across_hosts("pad", folder=folder)) as iterator:
    say(rows(iterator))
"""


@pytest.mark.parametrize("by", chosen(["folder", "jax"], "folder"))
@pytest.mark.long
def test_epochs_and_chains_have_the_same_number_of_batches_on_all_hosts(by, tmp_path):
    """Steps are counted alike on all hosts, over all epochs, and each state resumes in
    its epoch.
    """
    said = together(EPOCHS, folder_for(by, tmp_path), by=by)
    for first, second in zip(said[0][:3], said[1][:3], strict=True):
        assert [line[:2] for line in first[0]] == [line[:2] for line in second[0]]
        assert [step for _, step, _ in first[0]] == list(range(1, len(first[0]) + 1))
        assert {epoch for epoch, _, _ in first[0]} == {0, 1, 2}
    first, second = (lines[3][0] for lines in said)
    assert len(first) == len(second)
    assert sorted(x for _, real in first + second for x in real) == sorted(EVEN + ODD)


KILLED = """
folder, states, stop = sys.argv[4] or None, Path(sys.argv[5]), int(sys.argv[6])
with iter(loader("some", 2).across_hosts("pad", folder=folder)) as iterator:
    if (states / str(index)).exists():
        iterator.set_state((states / str(index)).read_bytes())
    for batch in iterator:
        say(batch[iterator.mask].tolist())
        (states / str(index)).write_bytes(iterator.get_state())
        if iterator.step == stop:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_hosts_that_are_killed_resume_in_the_same_folder(tmp_path):
    """Files of the killed run are not mistaken for those of the new one; nothing comes twice, and
    nothing is lost.
    """
    seen = [[], []]
    for stop in (3, 6, 0):
        ends = -signal.SIGKILL if stop else 0
        said = together(KILLED, tmp_path / "meeting", tmp_path, stop, by="folder", ends=ends)
        for host in range(2):
            seen[host] += [real for (real,) in said[host]]
    assert seen == [cut(EVEN), (cut(ODD) + [[]] * 13)[:13]]
    assert not list(Path(tmp_path).glob("meeting/run-*"))


DEAD = """
from headrace.loader.device.hosts import folder as folders
folders.DEAD_SECONDS = 3.0
with iter(loader().across_hosts("pad", folder=sys.argv[4])) as iterator:
    next(iterator)
    if index == 1:
        say("dies")
        os.kill(os.getpid(), signal.SIGKILL) if sys.argv[5] == "kill" else os._exit(0)
    try:
        list(iterator)
    except headrace.errors.HostsError as error:
        say(str(error))
"""


@pytest.mark.slow
def test_a_host_that_dies_is_an_error_on_the_others(tmp_path):
    """It gives no sign of life any more."""
    said = together(DEAD, tmp_path / "meeting", "exit", by="folder")
    assert "process 1 has given no sign of life for 3 s" in said[0][0][0]
    assert said[1] == [["dies"]]


PREEMPTED = """
saved, former = [], int(sys.argv[5])
steady = headrace.load(np.arange(4000), batch_size=4, num_epochs=1, shard_options=headrace.ShardOptions(index, count))
for kind in (loader("some"), steady):
    with iter(kind.across_hosts("pad", folder=sys.argv[4])) as iterator:
        with headrace.on_preemption(iterator, lambda it: saved.append(it.step)) as batches:
            for batch in batches:
                if index == 1 and iterator.step == former:
                    os.kill(os.getpid(), signal.SIGTERM)
    say(batches.preempted, iterator.step, saved)
"""


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize("step", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_hosts_end_their_loops_together_if_one_gets_sigterm(step, tmp_path):
    """After the same step, with states saved, also if that host has no records left, or all batches
    are certain.
    """
    said = together(PREEMPTED, tmp_path / "meeting", step, by="folder")
    assert said[0] == said[1]
    uneven, steady = said[0]
    assert uneven[0]
    assert step < uneven[1] <= 13
    assert uneven[2] == [uneven[1]]
    assert steady[0]
    assert step < steady[1] <= step + 20
    assert steady[2] == [uneven[1], steady[1]]


def test_without_an_agreement_the_error_says_what_to_do():
    """Neither jax's service nor a folder: HostsError names both."""
    shard = headrace.ShardOptions(0, 2)
    with pytest.raises(
        HostsError,
        match=r"jax.distributed.initialize\(\) first. .* loader.across_hosts\(folder=…\)",
    ):
        iter(headrace.load(range(8), batch_size=2, shard_options=shard).across_hosts("drop"))


def test_wrong_arguments_are_refused():
    """With the value, and what to pass."""
    loader = headrace.load(range(8), batch_size=2, num_epochs=1)
    with pytest.raises(ValueError, match="on_uneven='skip'"):
        loader.across_hosts("skip")
    with pytest.raises(ValueError, match="buffer_size=0"):
        loader.across_hosts("pad", buffer_size=0)
    with pytest.raises(TypeError, match="folder=3 is an int"):
        loader.across_hosts("pad", folder=3)
    with pytest.raises(TypeError, match="epochs\\(\\) needs a DataLoader"):
        headrace.MapDataset.range(4).to_iter_dataset().across_hosts().epochs()


def test_leaves_of_all_kinds_are_filled_up_on_the_host():
    """Arrays of numbers and of text are; other leaves are passed on as they are, and single numbers
    keep their values.
    """

    def batch_of(numbers):
        numbers = list(map(int, numbers))
        words = np.array([str(number) for number in numbers])
        return {"x": np.array(numbers, np.float32), "word": words, "size": 4, "note": "a"}

    loader = headrace.load(
        range(6), transformations=[headrace.Batch(4, batch_fn=batch_of)], num_epochs=1
    )
    padded = list(loader.across_hosts("pad"))[-1]
    assert padded["x"].tolist() == [4.0, 5.0, 0.0, 0.0]
    assert padded["word"].tolist() == ["4", "5", "", ""]
    assert (padded["size"], padded["note"]) == (4, "a")
    repeated = list(loader.across_hosts("repeat"))[-1]
    assert repeated["word"].tolist() == ["4", "5", "4", "5"]


@pytest.mark.parametrize(
    ("after", "rows"),
    [
        (lambda batch: batch + 1, 4),
        (headrace.Filter(lambda batch: batch[0] > 0), 4),
        (headrace.FlatMap(lambda batch: [batch[1:]], 1), 1),
    ],
    ids=["map", "filter", "flat map"],
)
def test_the_last_batch_is_filled_up_if_no_later_operation_decides_its_rows(after, rows):
    """Maps and filters of batches do not; a FlatMap does."""
    loader = headrace.load(range(6), transformations=[headrace.Batch(4), after], num_epochs=1)
    assert len(list(loader.across_hosts("pad"))[-1]) == rows


def test_one_host_alone_needs_nobody():
    """With one shard, batches come as they are, and nothing is written."""
    loader = headrace.load(range(10), batch_size=4, num_epochs=1)
    for policy in ("error", "drop"):
        assert [batch.tolist() for batch in loader.across_hosts(policy)] == [
            batch.tolist() for batch in loader
        ]
    assert len(loader.across_hosts()) == 3


def test_stats_of_a_host_show_its_operations():
    """Beside the waits for batches."""
    with iter(headrace.load(range(8), batch_size=4, num_epochs=1).across_hosts()) as iterator:
        list(iterator)
        assert "Batch" in str(iterator.stats())


def test_batches_on_devices_can_be_repeated_too():
    """A short last batch is filled up with its own rows; only a stream that can begin again can be
    repeated.
    """
    jax = pytest.importorskip("jax")
    loader = headrace.load(range(6), batch_size=4, num_epochs=1)
    with iter(loader.to_device(jax.devices()[0], on_uneven="repeat")) as feeder:
        seen = [(batch.tolist(), feeder.mask.tolist()) for batch in feeder]
    assert seen[1] == ([4, 5, 4, 5], [True, True, False, False])
    for source in (iter(loader), [np.arange(4)]):
        with pytest.raises(
            ValueError, match=r'on_uneven="repeat" begins the stream again, which .* cannot'
        ):
            iter(headrace.device_put(source, jax.devices()[0], on_uneven="repeat"))


TAIL = """
data = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("data",)), jax.sharding.PartitionSpec("data"))
local = lambda array: np.concatenate([np.asarray(shard.data) for shard in array.addressable_shards]).tolist()
with iter(loader().to_device(data, on_uneven="repeat")) as feeder:
    seen = [[local(batch), local(feeder.mask), feeder.step] for batch in feeder]
say(seen)
with iter(loader("none").to_device(data, on_uneven="repeat")) as feeder:
    try:
        next(feeder)
    except headrace.errors.HostsError as error:
        say(str(error))
"""


@pytest.mark.long
def test_hosts_with_devices_repeat_their_own_batches():
    """As without devices: the global batches have the same rows, and the mask tells which came
    before.
    """
    said = together(TAIL, by="jax")
    for own, (seen, error) in zip(
        (EVEN, ODD), ((lines[0][0], lines[1][0]) for lines in said), strict=True
    ):
        again = [[*batch, *batch, *batch, *batch][:4] for batch in cut(own)]
        assert [batch for batch, _, _ in seen] == (again * 4)[:13]
        assert [sum(mask) for _, mask, _ in seen] == (
            [len(batch) for batch in cut(own)] + [0] * 13
        )[:13]
        assert [step for _, _, step in seen] == list(range(1, 14))
        assert "process 1 has no batch at all" in error


WIDER = """
from jax.sharding import Mesh
mesh = Mesh(np.array(jax.devices()), ("data",))
records = [np.full(1 + number // 4, number) for number in range(16)]  # each batch has one more column
keep = headrace.Filter(lambda row: row[0] % 2 == 0 or row[0] < 8)  # host 0 has four batches, host 1 two
wider = headrace.load(records, transformations=[keep], batch_size=2, num_epochs=1,
                      shard_options=headrace.ShardOptions(index, count))
named = lambda batch: {"x": batch, "width": np.float32(batch.shape[1])}  # the width has no rows, but is of the shape
for policy in ("pad", "repeat"):
    with iter(wider.to_device((mesh, "data"), on_uneven=policy, transform=named)) as iterator:
        seen = []
        try:
            for batch in iterator:
                batch, width = batch["x"], batch["width"]
                assert width.addressable_shards[0].data == batch.shape[1]
                seen.append([batch.shape, np.asarray(batch.addressable_shards[0].data).tolist()])
            say(seen, "")
        except Exception as error:
            say(seen, str(error))
"""


@pytest.mark.long
def test_filled_batches_have_the_shape_of_the_others():
    """Also if shapes change from step to step; a batch of another shape cannot be repeated, which
    is an error.
    """
    (padded, repeated), (others, refused) = together(WIDER, by="jax")
    assert [shape for shape, _ in padded[0]] == [[4, 1], [4, 2], [4, 3], [4, 4]]
    assert [shape for shape, _ in others[0]] == [[4, 1], [4, 2], [4, 3], [4, 4]]
    assert [rows for _, rows in others[0][2:]] == [[[0] * 3] * 2, [[0] * 4] * 2]
    assert len(refused[0]) == 2
    assert "has another shape than the batch of the other processes" in refused[1]
    assert len(repeated[0]) == 3
    assert "process 1 failed: ShardingError" in repeated[1]
