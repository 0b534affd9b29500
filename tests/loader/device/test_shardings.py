"""Every leaf goes where the sharding says, on eight host devices, and what cannot be divided is
explained.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import device_programs

import headrace
from headrace.errors import ShardingError
from headrace.loader.device.hosts.shard_options import shard_of
from headrace.loader.device.hosts.verdict import Go, Offer, Refuse, Stop, decide

CPU = jax.devices("cpu")[0]

PRELUDE = """
import gc, re
import jax, numpy as np, headrace
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from headrace.errors import ShardingError

devices = np.array(jax.devices())
assert len(devices) == 8
records = {"x": np.arange(64 * 6000, dtype=np.float32).reshape(64, 6000), "y": np.arange(64, dtype=np.int32)}
loader = headrace.load(records, shuffle=True, seed=0, batch_size=16, num_epochs=2)
"""


@pytest.fixture(scope="module")
def with_eight_devices():
    """Runs a program on eight host devices."""
    interpreter = device_programs.Interpreter(**device_programs.EIGHT)
    dedent = device_programs.textwrap.dedent
    yield lambda program: interpreter.run(dedent(PRELUDE) + dedent(program))
    interpreter.close()


@pytest.mark.slow
def test_batches_on_any_mesh_are_those_of_the_host_bit_for_bit(with_eight_devices):
    """The data axis in any place, several axes, replicated leaves, a single device, a tree, the
    shorthand; and no copy.
    """
    with_eight_devices("""
        flat, grid = Mesh(devices, ("data",)), Mesh(devices.reshape(4, 2), ("data", "model"))
        turned, cube = Mesh(devices.reshape(2, 4), ("model", "data")), Mesh(devices.reshape(2, 2, 2), ("a", "b", "c"))
        batch_rows = {"x": NamedSharding(grid, P("data")), "y": NamedSharding(grid, P("data"))}
        targets = {
            "flat": NamedSharding(flat, P("data")),
            "data first": batch_rows["x"],
            "data last": NamedSharding(turned, P("data")),
            "two axes": NamedSharding(grid, P(("data", "model"))),
            "three axes": NamedSharding(cube, P(("c", "a"))),
            "columns too": NamedSharding(grid, P("data", "model")),
            "columns alone": NamedSharding(grid, P(None, "model")),
            "replicated": NamedSharding(grid, P()),
            "one device": devices[3],
            "tree": {"x": batch_rows["x"], "y": NamedSharding(grid, P())},
            "tree with a device": {"x": devices[1], "y": (grid, "data")},
            "shorthand": (grid, "data"),
            "shorthand of two": (grid, ("data", "model")),
            "shorthand of a spec, columns too": (grid, P("data", "model")),
        }
        for name, target in targets.items():
            addresses = []
            look = lambda batch: addresses.append((batch["x"].ctypes.data, batch["x"].nbytes)) or batch
            with iter(loader.to_device(target, transform=look)) as feeder:
                for batch, expected in zip(feeder, loader, strict=True):
                    for leaf in ("x", "y"):
                        given = np.asarray(batch[leaf])
                        assert (given.dtype, given.tobytes()) == (expected[leaf].dtype, expected[leaf].tobytes()), name
                    start, size = addresses.pop(0)
                    pieces = [shard.data.unsafe_buffer_pointer() for shard in batch["x"].addressable_shards]
                    if "columns" not in name:
                        assert all(start <= piece < start + size for piece in pieces), name
            if isinstance(target, NamedSharding):
                assert batch["x"].sharding == target, name
        assert batch["x"].sharding.spec == P("data", "model") and batch["y"].sharding.spec == P("data")
    """)


def test_slabs_of_sharded_arrays_are_not_filled_again_while_these_live(with_eight_devices):
    """Old arrays on eight devices keep their values while later batches are made; donated ones harm
    nobody.
    """
    with_eight_devices("""
        mesh = Mesh(devices, ("data",))
        source = headrace.load(records, batch_size=16, num_epochs=20)
        addresses, kept = [], []
        look = lambda batch: addresses.append(batch["x"].ctypes.data) or batch
        step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
        with iter(source.to_device((mesh, "data"), transform=look)) as feeder:
            for number, batch in enumerate(feeder):
                if number % 7 == 0:
                    kept.append((number, batch["x"]))
                elif number % 2:
                    assert (np.asarray(step(batch["x"])) == -1).all() and batch["x"].is_deleted()
                del batch
        assert len(set(addresses)) < len(addresses)
        for number, array in kept:
            assert (np.asarray(array) == records["x"][np.arange(16) + number % 4 * 16]).all()
    """)


def test_what_cannot_be_divided_is_explained(with_eight_devices):
    """The leaf, its shape, the mesh and the nearest sizes; a wrong tree; an axis that the mesh has
    not.
    """
    out = with_eight_devices("""
        grid = Mesh(devices.reshape(4, 2), ("data", "model"))
        small = {"x": np.zeros((30, 7), np.float32), "y": np.zeros(30, np.int32)}
        def fails(target, source=small, batch_size=6):
            try:
                next(iter(headrace.load(source, batch_size=batch_size).to_device(target)))
            except Exception as error:
                print(type(error).__name__, error)
        fails((grid, "data"))
        fails((grid, ("data", "model")))
        fails((grid, P("data", "model")), batch_size=8)
        fails({"x": (grid, "data"), "z": (grid, "data")})
        fails((grid, "rows"))
        fails(grid)
        fails("cpu")
        fails({"x": grid, "y": devices[0]})
    """).splitlines()
    assert out[0].startswith(
        "ShardingError the batch's leaf ['x'] has shape (6, 7), whose axis 0 of size 6"
    )
    assert (
        "the 4 parts of axis data of the mesh ('data': 4, 'model': 2); the nearest sizes that can "
        "are 4 and 8" in out[0]
    )
    assert "the 8 parts of axis data × model" in out[1]
    assert "the nearest sizes that can are 8." in out[1]
    assert (
        "shape (8, 7), whose axis 1 of size 7 cannot be divided over the 2 parts of axis model"
        in out[2]
    )
    assert out[3].startswith("ShardingError the tree of shardings does not fit this batch")
    assert (
        out[4]
        == "ValueError the mesh has no axis 'rows'. Name one of its axes: 'data': 4, 'model': 2."
    )
    assert 'Name the axes over which batches are divided, (mesh, "data")' in out[5]
    assert out[6].startswith(
        "TypeError 'cpu' is a str, to which batches cannot be sent. Pass a device, a Sharding"
    )
    assert out[7].startswith("TypeError Mesh")


def test_a_short_last_batch_is_dropped_or_filled_up_or_refused(with_eight_devices):
    """With one process, too: "drop" ends before it, "pad" fills it with zeros and tells rows from
    padding by a mask.
    """
    with_eight_devices("""
        grid = Mesh(devices.reshape(4, 2), ("data", "model"))
        source = headrace.load(records, batch_size=12, num_epochs=1)  # 5 whole batches, and one of 4 rows
        odd = headrace.load({leaf: array[:61] for leaf, array in records.items()}, batch_size=12, num_epochs=1)
        assert [len(batch["y"]) for batch in source.to_device((grid, "data"), on_uneven="drop")] == [12] * 5 + [4]
        assert [len(batch["y"]) for batch in odd.to_device((grid, "data"), on_uneven="drop")] == [12] * 5
        with iter(odd.to_device((grid, "data"), on_uneven="pad")) as feeder:
            rows = []
            for batch in feeder:
                assert batch["x"].shape == (12, 6000) and feeder.mask.sharding.spec == P("data")
                rows += np.asarray(batch["y"])[np.asarray(feeder.mask)].tolist()
            assert rows == list(range(61))
            assert feeder.mask.tolist() == [True] + [False] * 11
            assert not np.asarray(batch["x"])[1:].any()
        whole = [len(batch["y"]) for batch in odd.to_device(devices[0])]
        assert whole == [12] * 5 + [1]
        try:
            list(odd.to_device((grid, "data")))
        except ShardingError as error:
            assert "size 1 cannot be divided over the 4 parts" in str(error) and "can are 4." in str(error)
        else:
            raise AssertionError("no error")
    """)


def test_leaves_that_are_whole_on_all_devices_are_no_part_of_the_rows(with_eight_devices):
    """Beside a divided leaf they decide nothing about short batches, are not filled up, and the
    mask is not theirs.
    """
    with_eight_devices("""
        mesh = Mesh(devices, ("data",))
        tree = {"classes": NamedSharding(mesh, P()), "image": NamedSharding(mesh, P("data"))}
        batches = [{"classes": np.arange(3.0), "image": np.arange(rows) + 1.0} for rows in (16, 16, 3)]
        for uneven in ("drop", "pad"):
            feeder = iter(headrace.device_put(batches, tree, on_uneven=uneven))
            got = list(feeder)
            assert len(got) == {"drop": 2, "pad": 3}[uneven], len(got)
            assert all(batch["classes"].tolist() == [0, 1, 2] for batch in got)
            assert got[1]["image"].tolist() == batches[1]["image"].tolist()
        assert got[2]["image"].tolist() == [1, 2, 3] + [0] * 13
        assert feeder.mask.tolist() == [True] * 3 + [False] * 13
        assert feeder.mask.sharding.spec == P("data")
    """)


def test_filling_up_needs_to_know_which_leaves_have_the_rows():
    """Leading axes that differ are refused, with the remedy, which works."""
    batches = [{"classes": np.arange(3.0), "image": np.arange(rows) + 1.0} for rows in (16, 5)]
    with pytest.raises(ShardingError, match=r"classes.*: 3, .*image.*: 16\)"):
        next(iter(headrace.device_put(batches, CPU, on_uneven="pad")))
    mesh = jax.sharding.Mesh(np.array([CPU]), ("data",))
    tree = {"classes": (mesh, jax.sharding.PartitionSpec()), "image": (mesh, "data")}
    with iter(headrace.device_put(batches, tree, on_uneven="pad")) as feeder:
        assert [batch["image"].tolist()[-1] for batch in feeder] == [16, 0]
        assert feeder.mask.tolist() == [True] * 5 + [False] * 11


def test_rows_that_a_function_removed_from_a_whole_batch_are_not_made_up_for():
    """Only a batch that had too few records is filled up."""
    operations = [headrace.Batch(4), lambda batch: batch[:3]]
    loader = headrace.load(range(9), transformations=operations, num_epochs=1)
    with iter(loader.to_device(CPU, on_uneven="pad")) as feeder:
        assert [batch.tolist() for batch in feeder] == [[0, 1, 2], [4, 5, 6], [8, 0, 0, 0]]


def test_what_was_filled_up_is_as_large_when_it_is_made_again():
    """After an error in the transform, too, though nothing says beforehand how many rows batches
    have.
    """
    failures = []

    def fails_once(batch):
        if len(batch) == 1 and not failures:
            failures.append(batch)
            raise OSError("the disk is gone")
        return batch

    loader = headrace.load(range(25), batch_size=12, num_epochs=1)
    with iter(loader.to_device(CPU, on_uneven="pad", transform=fails_once)) as feeder:
        assert [len(next(feeder)) for _ in range(2)] == [12, 12]
        with pytest.raises(OSError, match="disk"):
            next(feeder)
        assert next(feeder).tolist() == [24] + [0] * 11


def test_numbers_go_to_all_devices(with_eight_devices):
    """A leaf without axes is replicated, whatever the sharding; leaves with fewer axes take its
    first entries.
    """
    with_eight_devices("""
        grid = Mesh(devices.reshape(4, 2), ("data", "model"))
        tree = {"x": np.ones((8, 2, 3)), "n": 3, "z": np.float32(1)}
        (batch,) = iter(headrace.device_put([tree], (grid, P("data", "model"))))
        assert batch["n"].is_fully_replicated and batch["z"].item() == 1
        assert batch["x"].sharding.spec == P("data", "model")
    """)


def test_what_is_no_sharding_is_refused_with_the_right_words():
    """When the feeder is described: None, a list of devices, a keyword of another function."""
    for target in (None, [CPU], [CPU, CPU]):
        with pytest.raises(TypeError, match=r'pass \(Mesh\(devices, \("data",\)\), "data"\)'):
            headrace.device_put([1], target)
    with pytest.raises(
        TypeError, match=r"no argument host_buffer=\. Use cpu_buffer_size, device_buffer_size"
    ):
        headrace.device_put([1], CPU, host_buffer=3)


def test_arrays_of_random_keys_are_filled_up():
    """Their rows stay, and the mask tells them."""
    batches = [jax.random.split(jax.random.key(0), rows) for rows in (4, 3)]
    with iter(headrace.device_put(batches, CPU, on_uneven="pad")) as feeder:
        next(feeder)
        filled = next(feeder)
        assert feeder.mask.tolist() == [True, True, True, False]
    assert (jax.random.key_data(filled)[:3] == jax.random.key_data(batches[1])).all()


def test_leaves_without_a_sharding_stay_when_leaves_may_stay():
    """None, or a key that is missing, at any depth; without "keep" the error says so."""
    name, more = np.array(["a", "b"]), (np.ones(2), np.zeros(2))
    batch = {"x": np.ones(2), "name": name, "deep": {"y": np.ones(2), "z": more[0]}, "more": more}
    tree = {"x": CPU, "deep": {"y": CPU}, "more": (CPU, None)}
    for shardings in (tree, {**tree, "name": None}):
        got = next(iter(headrace.device_put([batch], shardings, on_unsupported="keep")))
        assert all(
            isinstance(leaf, jax.Array) for leaf in (got["x"], got["deep"]["y"], got["more"][0])
        )
        assert got["name"] is name
        assert got["deep"]["z"] is more[0]
        assert got["more"][1] is more[1]
    with pytest.raises(ShardingError, match='on_unsupported="keep"'):
        next(iter(headrace.device_put([batch], tree)))
    inputs, labels = next(
        iter(headrace.device_put([(batch, np.ones(2))], (tree, CPU), on_unsupported="keep"))
    )
    assert inputs["name"] is name
    assert isinstance(labels, jax.Array)


def test_mask_needs_filling():
    """A ValueError that says by what."""
    feeder = iter(headrace.load(range(4), batch_size=2).to_device(CPU))
    next(feeder)
    with pytest.raises(ValueError, match='on_uneven="pad"'):
        _ = feeder.mask


def test_page_locked_memory_changes_no_value():
    """`pinned_host=True` gives the same batches."""
    batches = headrace.load(np.arange(12.0), batch_size=4, num_epochs=1).to_device(
        CPU, pinned_host=True
    )
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


# ---- Which process loads what


def _held(grid, axis):
    """For processes laid out on a grid, one device each, the parts that they hold of an axis
    divided over `axis`.
    """
    return {int(grid[place]): frozenset([place[axis]]) for place in np.ndindex(grid.shape)}


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1))
def test_replicas_get_the_same_shard_and_all_shards_are_taken(rows, columns, axis):
    """Processes with the same rows get one shard; the shards are numbered as the rows are, and none
    is left out.
    """
    grid = np.arange(rows * columns).reshape(rows, columns)
    held = _held(grid, axis)
    shards = {process: shard_of(process, held) for process in held}
    assert {count for _, count in shards.values()} == {grid.shape[axis]}
    assert {index for index, _ in shards.values()} == set(range(grid.shape[axis]))
    for process, (index, _) in shards.items():
        assert held[process] == {index}


@pytest.mark.parametrize("held", [{0: {0, 1}, 1: {1, 2}}, {0: {0}, 1: {1, 2}}, {0: {0, 1}, 1: {0}}])
def test_parts_that_overlap_or_differ_in_size_are_refused(held):
    """The error shows who holds what."""
    with pytest.raises(ShardingError, match=r"process 0: parts \[0"):
        shard_of(0, {process: frozenset(parts) for process, parts in held.items()})


def test_a_process_without_a_device_has_no_shard():
    """The error names those that have one, and what has no mesh is refused."""
    with pytest.raises(
        ShardingError, match=r"process 5 has no device in the sharding, but the processes 0, 1 have"
    ):
        shard_of(5, {0: frozenset([0]), 1: frozenset([1])})
    with pytest.raises(ShardingError, match="has no mesh"):
        headrace.shard_options_for(CPU)
    one = jax.sharding.Mesh([CPU], ("data",)), "data"
    assert headrace.shard_options_for(one, drop_remainder=True) == headrace.ShardOptions(0, 1, True)


# ---- What hosts decide


OFFERS = st.builds(
    Offer,
    kind=st.sampled_from(["batch", "batch", "batch", "end", "failed", "closed"]),
    policy=st.sampled_from(["error", "drop", "pad"]),
    rows=st.integers(1, 9),
    usual=st.integers(0, 9),
    divisor=st.integers(1, 3),
    layout=st.sampled_from(["a", "a", "b"]),
    steady=st.integers(1, 5),
)


@given(st.dictionaries(st.integers(0, 5), OFFERS, min_size=1))
def test_a_verdict_is_one_that_all_can_follow(offers):
    """Who goes on has as many rows as the others, or is filled up to a number that divides
    everywhere.
    """
    verdict = decide(offers, 3)
    batches = [offer for offer in offers.values() if offer.kind == "batch"]
    if isinstance(verdict, Stop):
        assert not batches or batches[0].policy == "drop"
    elif isinstance(verdict, Go):
        assert all(offer.kind in ("batch", "end") for offer in offers.values())
        assert len({offer.layout for offer in batches}) == 1
        if verdict.rows is None:
            assert len(batches) == len(offers)
            assert len({offer.rows for offer in batches}) == 1
        else:
            assert all(
                verdict.rows >= offer.rows and verdict.rows % offer.divisor == 0
                for offer in offers.values()
                if offer.kind == "batch"
            )
        assert 0 <= verdict.certain < min(offer.steady for offer in batches)
    else:
        assert isinstance(verdict, Refuse)


@pytest.mark.long
def test_a_refusal_names_counts_and_remedies():
    """Who has how many rows, and what to pass."""
    verdict = decide({0: Offer("batch", rows=8), 1: Offer("batch", rows=5), 2: Offer("end")}, 12)
    assert isinstance(verdict, Refuse)
    assert "batch 12" in verdict.message
    assert (
        "process 0: 8 rows, process 1: 5 rows, process 2: none, its stream has ended"
        in verdict.message
    )
    assert 'on_uneven="drop"' in verdict.message
