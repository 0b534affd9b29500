"""Several processes under jax.distributed make global arrays together, and agree on how many there
are.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import device_programs
from support.pipelines import chosen

import headrace

PRELUDE = """
import json
import numpy as np
import headrace
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = np.array(sorted(jax.devices(), key=lambda device: (device.process_index, device.id)))
mesh = Mesh(devices, ("data",))
data = NamedSharding(mesh, P("data"))
records = {"x": np.arange(1000, dtype=np.float32).reshape(100, 10), "y": np.arange(100, dtype=np.int32)}

def parts(array):
    # what this process holds of a global array: where each piece begins, and its bytes
    return [[[part.indices(size)[0] for part, size in zip(shard.index, array.shape)], np.asarray(shard.data).tolist()]
            for shard in array.addressable_shards]

def say(*values):
    print("said " + json.dumps(values), flush=True)

def outcome(feeder):
    # the rows of each batch, and the error at the end
    seen = []
    try:
        for batch in feeder:
            seen.append([np.asarray(shard.data).tolist() for shard in batch.addressable_shards])
    except Exception as error:
        return seen, f"{type(error).__name__}: {error}"
    return seen, ""
"""


def together(program, count, *arguments, devices=1):
    """What each of `count` processes said: one list for each time."""
    program = PRELUDE + device_programs.textwrap.dedent(program)
    outputs = device_programs.run_together(program, count, *arguments, devices=devices)
    said = [
        [line[5:] for line in output.splitlines() if line.startswith("said ")] for output in outputs
    ]
    return [[json.loads(line) for line in lines] for lines in said]


def assembled(parts_of_all, shape):
    """The global array whose parts the processes hold; replicas must be equal."""
    whole = np.full(shape, np.nan)
    for parts in parts_of_all:
        for begin, values in parts:
            values = np.array(values)
            place = tuple(slice(start, start + size) for start, size in zip(begin, values.shape))
            known = whole[place]
            assert (np.isnan(known) | (known == values)).all()
            whole[place] = values
    assert not np.isnan(whole).any()
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(("count", "devices"), chosen([(2, 4), (4, 2)], (2, 4)))
def test_global_batches_are_those_of_one_process(count, devices):
    """All processes' shards together are the unsharded loader's batches; a sum over the devices is
    the same to the bit.
    """
    said = together(
        """
        sampler = headrace.IndexSampler(100, headrace.ShardByJaxProcess(), shuffle=True, seed=4, num_epochs=2)
        loader = headrace.DataLoader(data_source=records, sampler=sampler, operations=[headrace.Batch(32 // count, True)])
        total = jax.jit(lambda x: x.sum(axis=0), out_shardings=NamedSharding(mesh, P()))
        with iter(loader.to_device({"x": data, "y": (mesh, "data")})) as feeder:
            for batch in feeder:
                assert batch["x"].sharding == data and batch["x"].shape == (32, 10)
                say(parts(batch["x"]), parts(batch["y"]), np.asarray(total(batch["x"]).addressable_data(0)).tolist())
        """,
        count,
        devices=devices,
    )
    records = np.arange(1000, dtype=np.float32).reshape(100, 10)
    sampler = headrace.IndexSampler(100, shuffle=True, seed=4, num_epochs=2)
    whole = headrace.DataLoader(
        data_source={"x": records, "y": np.arange(100)},
        sampler=sampler,
        operations=[headrace.Batch(32, True)],
    )
    steps = list(zip(*said, strict=True))
    for step, batch in zip(steps, whole, strict=True):
        x = assembled([parts for parts, _, _ in step], (32, 10))
        y = assembled([parts for _, parts, _ in step], (32,))
        # shard s holds the positions s, s + count, …; the arrays of the shards stand one after the
        # other
        assert (
            x.tobytes()
            == np.concatenate([batch["x"][shard::count] for shard in range(count)])
            .astype(float)
            .tobytes()
        )
        assert (
            y.tolist()
            == np.concatenate([batch["y"][shard::count] for shard in range(count)]).tolist()
        )
        assert all(total == batch["x"].sum(axis=0).tolist() for _, _, total in step)


@pytest.mark.long
def test_processes_that_hold_the_same_rows_load_the_same_data():
    """On a mesh of data × model over four processes, `shard_options_for` gives the batches of one
    process.
    """
    said = together(
        """
        for axes in ("data", "model", "both"):
            grid = Mesh(devices.reshape(4, 2) if axes == "model" else devices.reshape(2, 4), ("data", "model"))
            sharding = NamedSharding(grid, P(("data", "model") if axes == "both" else axes))
            options = headrace.shard_options_for(sharding, drop_remainder=True)
            loader = headrace.load(records, shard_options=options, batch_size=16 // options.shard_count, shuffle=True, seed=1,
                                   num_epochs=1, drop_remainder=True)
            say(axes, options.shard_index, options.shard_count, [parts(batch["x"]) for batch in loader.to_device(sharding)])
        """,
        4,
        devices=2,
    )
    records = np.arange(1000, dtype=np.float32).reshape(100, 10)
    whole = list(
        headrace.load(
            records, batch_size=16, shuffle=True, seed=1, num_epochs=1, drop_remainder=True
        )
    )
    expected = {"data": [0, 0, 1, 1], "model": [0, 0, 0, 0], "both": [0, 1, 2, 3]}
    for cases in zip(*said, strict=True):
        axes, count = cases[0][0], cases[0][2]
        assert [shard for _, shard, _, _ in cases] == expected[axes]
        for step, batch in zip(
            zip(*(steps for *_, steps in cases), strict=True), whole, strict=True
        ):
            striped = np.concatenate([batch[shard::count] for shard in range(count)])
            assert (assembled(step, (16, 10)) == striped).all()


@pytest.mark.long
def test_columns_may_be_divided_over_processes_that_load_whole_records():
    """Rows over one axis of the mesh and columns over the other; every process holds its columns of
    its rows.
    """
    said = together(
        """
        grid = Mesh(devices.reshape(2, 4), ("data", "model"))
        sharding = NamedSharding(grid, P("data", "model"))
        table = np.arange(800, dtype=np.float32).reshape(100, 8)
        loader = headrace.load(table, shard_options=headrace.shard_options_for(sharding), batch_size=8, num_epochs=1)
        say([[batch.shape, parts(batch)] for batch in loader.to_device(sharding, on_uneven="pad")][:2])
        say(outcome(iter(headrace.load(np.zeros((8, 6)), batch_size=4).to_device(sharding)))[1])
        """,
        4,
        devices=2,
    )
    table = np.arange(800, dtype=np.float32).reshape(100, 8)
    for step, batches in enumerate(zip(*(steps for (steps,), _ in said), strict=True)):
        expected = np.concatenate([table[shard::2][8 * step : 8 * step + 8] for shard in range(2)])
        assert all(shape == [16, 8] for shape, _ in batches)
        assert (assembled([pieces for _, pieces in batches], (16, 8)) == expected).all()
    assert all(
        "axis 1 of size 6 cannot be divided over the 4 parts of axis model" in error
        for _, (error,) in said
    )


@pytest.mark.long
def test_leaves_without_rows_are_the_same_on_a_host_that_has_ended():
    """They keep their value while others go on; where it changes from batch to batch, filling up is
    refused.
    """
    said = together(
        """
        def fed(scale):
            batches = [{"x": np.full(4, step + 1.0), "scale": scale(step)} for step in range(3 if index == 0 else 1)]
            return iter(headrace.device_put(batches, {"x": data, "scale": (mesh, P())}, on_uneven="pad"))
        say([np.asarray(batch["scale"].addressable_data(0)).item() for batch in fed(lambda step: np.float32(0.5))])
        try:
            list(fed(lambda step: np.float32(step)))
        except Exception as error:
            say(f"{type(error).__name__}: {error}")
        """,
        2,
    )
    assert [lines[0] for lines in said] == [[[0.5] * 3]] * 2
    assert "ShardingError: the batch's leaf ['scale'] has no rows and changes" in said[0][1][0]
    assert "HostsError: process 0 failed: ShardingError" in said[1][1][0]


@pytest.mark.long
def test_processes_without_a_device_of_a_sharding_are_told():
    """And some of the processes may have had feeders of their own before all have one together."""
    said = together(
        """
        def fed(target):
            return [np.asarray(batch.addressable_data(0)).tolist() for batch in
                    headrace.load(np.arange(4.0), batch_size=2, num_epochs=1).to_device(target)]
        for target in (devices[0], (Mesh(devices[:2], ("data",)), "data"), data):
            try:
                say(fed(target), "")
            except headrace.errors.ShardingError as error:
                say([], str(error))
        """,
        3,
    )
    whole = [[0, 1], [2, 3]]
    for process, cases in enumerate(said):
        for (rows, error), has_part in zip(cases, (process < 1, process < 2, True), strict=True):
            assert rows == (whole if has_part else [])
            assert (
                has_part
                or f"and this is process {process}. Pass a device of jax.local_devices()" in error
            )


@pytest.mark.long
def test_an_interrupt_in_next_does_not_leave_hosts_a_batch_apart():
    """The batch, or the end, that the user was about to receive comes again, without the others
    being asked anew.
    """
    said = together(
        """
        def next_interrupted(owner, name):
            def interrupted(*arguments):
                setattr(owner, name, method)
                method(*arguments)
                raise KeyboardInterrupt

            method = getattr(owner, name)
            setattr(owner, name, interrupted)
            try:
                next(feeder)
            except KeyboardInterrupt:
                say("interrupted")

        with iter(headrace.load(range(40), batch_size=4, num_epochs=1).to_device(data)) as feeder:
            next(feeder)
            if index == 0:
                next_interrupted(feeder._watch, "note")
            for _ in range(9):
                say(*map(int, next(feeder).addressable_data(0)))
            if index == 0:
                next_interrupted(feeder, "_leave_run")
            say(*outcome(feeder))
        """,
        2,
    )
    rest = [list(range(start, start + 4)) for start in range(4, 40, 4)]
    assert said == [[["interrupted"], *rest, ["interrupted"], [[], ""]], [*rest, [[], ""]]]


UNEVEN = """
# process 0 has 5 batches of 4, process 1 has 3 and one of 2 rows, process 2 (if there is one) has none at all
own = [range(20), range(100, 114), range(0), range(300, 316)][index]
kind = sys.argv[4]
operations = [headrace.Batch(4)] if kind == "aligned" else [headrace.Filter(lambda x: True), headrace.Batch(4)]
sampler = headrace.IndexSampler(max(len(own), 1), num_epochs=1)
loader = headrace.DataLoader(data_source=list(own) or [0], sampler=sampler, operations=operations)
if not own:
    loader = headrace.load([0], transformations=[headrace.Filter(lambda x: False)], batch_size=4, num_epochs=1)
for policy in ("drop", "error", "pad"):
    with iter(loader.to_device(data, on_uneven=policy)) as feeder:
        if policy != "pad":
            say(policy, *outcome(feeder))
            continue
        rows = []
        for batch in feeder:
            assert feeder.mask.sharding == data
            own_mask = np.concatenate([np.asarray(shard.data) for shard in feeder.mask.addressable_shards])
            own_rows = np.concatenate([np.asarray(shard.data) for shard in batch.addressable_shards])
            assert not own_rows[~own_mask].any()
            rows.append([own_rows[own_mask].tolist(), len(own_rows), feeder.mask.shape[0]])
        say("pad", rows, "")
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", chosen(["aligned", "ragged"], "ragged"))
@pytest.mark.parametrize("count", chosen([2, 4], 2))
def test_uneven_hosts_stop_fill_up_or_fail_together(count, kind):
    """The same number of batches on all, by each policy, in one program after another, with no
    deadlock.
    """
    said = together(UNEVEN, count, kind)
    full = 3 if count == 2 else 0  # batches that all have whole
    for policy in ("drop", "error"):
        for lines in said:
            (seen, error) = next(line[1:] for line in lines if line[0] == policy)
            assert len(seen) == full
            assert bool(error) == (policy == "error")
            if error:
                assert "HostsError" in error
                assert f"for batch {full} of this run" in error
                assert (
                    "process 1: 2 rows" if count == 2 else "process 2: none, its stream has ended"
                ) in error
                assert "num_epochs=None" in error
    rows = {
        index: next(line[1] for line in lines if line[0] == "pad")
        for index, lines in enumerate(said)
    }
    assert all(len(batches) == 5 for batches in rows.values())
    own = [range(20), range(100, 114), range(0), range(300, 316)]
    for index, batches in rows.items():
        assert all((here, everywhere) == (4, 4 * count) for _, here, everywhere in batches)
        assert sum((real for real, _, _ in batches), []) == list(own[index])  # noqa: RUF017


@pytest.mark.long
def test_an_error_on_one_host_is_one_on_all_and_all_can_try_again():
    """The others are told which process failed, with what; the step can be tried again, and an
    early end is an error, too.
    """
    said = together(
        """
        failures = []
        def check(x):
            if index == 1 and x == 9 and not failures:
                failures.append(x)
                raise OSError("the disk is gone")
            return x
        loader = headrace.load(range(20), transformations=[check, headrace.Filter(lambda x: True)], batch_size=4, num_epochs=1)
        with iter(loader.to_device(data)) as feeder:
            seen, error = outcome(feeder)
            say(len(seen), error)
            seen, error = outcome(feeder)
            say(len(seen), error)
        feeder = iter(loader.to_device(data, device_buffer=1, host_buffer=1))
        next(feeder)
        if index == 0:
            feeder.close()
            say(0, "")
        else:
            seen, error = outcome(feeder)
            say(0, error)
        """,
        2,
    )
    assert said[0][:2] == [[2, said[0][0][1]], [3, ""]]
    assert said[1][:2] == [[2, "OSError: the disk is gone"], [3, ""]]
    assert "process 1 failed: OSError: the disk is gone" in said[0][0][1]
    assert "process 0 closed its feeder" in said[1][2][1]


@pytest.mark.long
def test_a_batch_that_fails_where_all_had_agreed_is_not_tried_again():
    """Its hosts could be a batch apart: HostsError, until a state is set on all."""
    said = together(
        """
        loader = headrace.load(np.zeros((16, 3)), batch_size=5, num_epochs=1)  # 5 rows do not divide over 2 devices
        with iter(loader.to_device(data)) as feeder:
            start = feeder.get_state()
            for _ in range(2):
                say(*outcome(feeder))
            feeder.set_state(start)
            say(*outcome(feeder))
        """,
        2,
        devices=2,
    )
    for first, second, third in said:
        assert "ShardingError" in first[1]
        assert "2 parts of this process of axis data" in first[1]
        assert "Restore the last checkpoint with set_state" in second[1]
        assert third == first


@pytest.mark.long
def test_without_the_coordination_service_the_error_says_what_to_do():
    """Nobody to agree with: HostsError names jax.distributed.initialize."""
    program = """
        from headrace.loader.device.hosts.store import KeyValueStore
        try:
            KeyValueStore()
        except headrace.errors.HostsError as error:
            print(error)
    """
    out = device_programs.run("import headrace" + device_programs.textwrap.dedent(program))
    assert "Call jax.distributed.initialize() first" in out
