"""Iterators are saved and restored with the real Orbax."""

import json

import orbax.checkpoint as ocp
import pytest
from support.pipelines import loader, stream

import headrace
from headrace.checkpoint import CheckpointRestore, CheckpointSave
from headrace.errors import CheckpointError
from headrace.loader.state.files import restore, state_file

KINDS = ["batch", "filter, batch", "flat map, random, batch, random"]


def _advanced(name: str, steps: int, **more):
    """A loader's iterator after some steps, and what was to come then."""
    iterator = iter(loader(name, **more))
    for _ in range(steps):
        next(iterator)
    copy = iter(loader(name))
    copy.set_state(iterator.get_state())
    return iterator, stream(copy)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.one_in(6)
def test_a_checkpoint_manager_saves_and_restores_an_iterator(name, asynchronous, tmp_path):
    """What was to come at the moment of the save comes after the restore, in an iterator with other
    workers.
    """
    iterator, rest = _advanced(name, 3)
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=asynchronous)
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        manager.save(7, args=ocp.args.Composite(loader=CheckpointSave(iterator)))
        next(iterator)  # the save is of the moment of the call
        manager.wait_until_finished()
    (file,) = (tmp_path / "7" / "loader").glob("process_*")
    assert file.name == "process_0-of-1.json"
    assert json.loads(file.read_bytes())["step"] == 3
    with ocp.CheckpointManager(tmp_path) as manager, iter(loader(name, worker_count=2)) as again:
        manager.restore(7, args=ocp.args.Composite(loader=CheckpointRestore(again)))
        assert stream(again) == rest


@pytest.mark.parametrize("name", KINDS)
def test_an_iterator_saves_and_loads_itself_with_the_newer_orbax(name, tmp_path):
    """`save_checkpointables` and `load_checkpointables` know what to do with an iterator."""
    iterator, rest = _advanced(name, 2)
    # older versions of Orbax have none
    v1 = pytest.importorskip("orbax.checkpoint.experimental.v1")
    v1.save_checkpointables(tmp_path / "one", {"loader": iterator})
    again = iter(loader(name))
    v1.load_checkpointables(tmp_path / "one", {"loader": again})
    assert stream(again) == rest


def test_an_asynchronous_save_of_the_newer_orbax_is_of_the_moment_of_the_call(tmp_path):
    """Steps that are taken while the save goes on are not in it."""
    iterator, rest = _advanced("batch", 2)
    v1 = pytest.importorskip("orbax.checkpoint.experimental.v1")
    response = v1.save_checkpointables_async(tmp_path / "one", {"loader": iterator})
    for _ in range(3):
        next(iterator)
    response.result()
    again = iter(loader("batch"))
    v1.load_checkpointables(tmp_path / "one", {"loader": again})
    assert stream(again) == rest


def test_a_checkpoint_of_several_processes_is_restored_by_one(tmp_path):
    """A single process finds the files of four, and goes on with what none of them delivered."""
    folder = tmp_path / "loader"
    folder.mkdir()
    seen = []
    for shard in range(4):
        iterator = iter(
            headrace.load(
                range(50), batch_size=3, num_epochs=1, shard_options=headrace.ShardOptions(shard, 4)
            )
        )
        for _ in range(shard):
            seen += next(iterator).tolist()
        (folder / f"process_{shard}-of-4.json").write_bytes(iterator.get_state())
    again = iter(headrace.load(range(50), batch_size=3, num_epochs=1))
    restore(folder, again)
    assert sorted([*seen, *(number for batch in again for number in batch.tolist())]) == list(
        range(50)
    )


@pytest.mark.parametrize(
    "names", [[], ["process_0-of-4.json"], ["process_0-of-1x.json"], ["process_0-of-²2.json"]]
)
def test_a_checkpoint_that_is_not_whole_is_named(names, tmp_path):
    """The error lists the states that are there."""
    for name in names:
        (tmp_path / name).write_bytes(iter(loader("batch")).get_state())
    with pytest.raises(CheckpointError, match=names[0] if names else "no state"):
        restore(tmp_path, iter(loader("batch")))


def test_a_loader_in_place_of_its_iterator_is_refused(tmp_path):
    """It stands nowhere; the message says what to pass."""
    with (
        ocp.CheckpointManager(tmp_path) as manager,
        pytest.raises(TypeError, match=r"iter\(loader\)"),
    ):
        manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(loader("batch"))))


def test_other_names_of_the_module_are_refused():
    """An AttributeError that says what there is."""
    with pytest.raises(AttributeError, match="CheckpointSave"):
        _ = headrace.checkpoint.Checkpointer


def test_a_folder_in_the_place_of_a_state_is_a_checkpoint_error(tmp_path):
    """What the file system says comes with the path."""
    (tmp_path / "process_0-of-1.json").mkdir()
    with pytest.raises(
        CheckpointError, match=r"process_0-of-1\.json cannot be read: Is a directory"
    ):
        restore(tmp_path, iter(loader("batch")))


def test_the_handler_has_every_method_of_grains(tmp_path):
    """Programs that call Grain's handler, `structure` too, find the same methods with the same
    answers.
    """
    from grain.checkpoint import CheckpointHandler as Grains

    ours, theirs = headrace.checkpoint.CheckpointHandler(), Grains()
    assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))
    for name in ("structure", "metadata", "finalize"):
        assert getattr(ours, name)(tmp_path) == getattr(theirs, name)(tmp_path)


def test_a_restore_that_is_not_strict_goes_on_with_a_changed_pipeline(tmp_path):
    """`CheckpointRestore(iterator, strict=False)`, and so does a `StateFile`; strict is the
    default, and refuses it.
    """
    before = iter(headrace.load(range(8), transformations=[abs], num_epochs=1))
    changed = headrace.load(range(8), transformations=[float, str], num_epochs=1)
    with (
        ocp.CheckpointManager(tmp_path / "orbax") as manager,
        headrace.checkpoint.StateFile(tmp_path / "file") as file,
    ):
        next(before), next(before)
        manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(before)))
        file.save(before)
        manager.wait_until_finished()
        again = iter(changed)
        for restore_it in (
            lambda **more: manager.restore(
                1, args=ocp.args.Composite(loader=CheckpointRestore(again, **more))
            ),
            lambda **more: file.restore(again, **more),
        ):
            again.set_state(iter(changed).get_state())
            with pytest.raises(CheckpointError, match="operations"):
                restore_it()
            assert next(again) == "0.0"
            restore_it(strict=False)
            assert list(again) == [str(float(number)) for number in range(2, 8)]


def test_a_restore_that_is_not_strict_goes_on_with_other_processes(tmp_path):
    """States of two shards with other operations are joined by one."""
    for index in range(2):
        shard = headrace.ShardOptions(index, 2)
        one = iter(
            headrace.load(range(8), transformations=[abs], num_epochs=1, shard_options=shard)
        )
        next(one)
        (tmp_path / f"process_{index}-of-2.json").write_bytes(one.get_state())
    whole = iter(headrace.load(range(8), transformations=[float, str], num_epochs=1))
    with pytest.raises(CheckpointError, match="operations"):
        restore(tmp_path, whole)
    restore(tmp_path, whole, strict=False)
    assert list(whole) == [str(float(number)) for number in range(2, 8)]


def test_what_has_no_state_is_told_how_to_get_one(tmp_path):
    """A loader in the place of its iterator, to save and to restore."""
    loader_of_numbers = headrace.load(range(8))
    with ocp.CheckpointManager(tmp_path) as manager:
        for wrong in (loader_of_numbers, loader_of_numbers.to_device):
            with pytest.raises(TypeError, match=r"no state. .*iter\(loader\)"):
                manager.save(1, args=ocp.args.Composite(loader=CheckpointSave(wrong)))


def test_each_process_restores_a_changed_order_from_the_files_of_all(tmp_path, monkeypatch):
    """Its own file does not tell where the others stood; if a file is missing, the error says what
    to pass.
    """

    def shard(index, omit=()):
        options = headrace.ShardOptions(index, 2)
        return iter(headrace.load(range(12), num_epochs=1, omit=omit, shard_options=options))

    def as_process(index):
        monkeypatch.setattr("headrace.loader.state.files._process", lambda: (index, 2))

    seen = []
    for index, steps in enumerate((1, 3)):
        as_process(index)
        iterator = shard(index)
        seen += [next(iterator) for _ in range(steps)]
        state_file(tmp_path).write_bytes(iterator.get_state())
    for index in range(2):
        as_process(index)
        again = shard(index, [11])
        restore(tmp_path, again)
        seen += list(again)
    assert sorted(seen) == list(range(11))
    state_file(tmp_path).unlink()
    as_process(0)
    with pytest.raises(CheckpointError, match="equal_steps=True"):
        restore(tmp_path, shard(0, [11]))


def test_a_path_that_leads_nowhere_is_an_error_of_the_checkpoint(tmp_path):
    """Of a user who does not exist, or a link to itself."""
    (tmp_path / "link").symlink_to(tmp_path / "link")
    for path in ("~nobody-of-this-name/state.json", tmp_path / "link" / "state.json"):
        with pytest.raises(CheckpointError, match="cannot be used as a path"):
            headrace.checkpoint.StateFile(path)
