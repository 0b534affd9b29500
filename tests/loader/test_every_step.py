"""A state saved to a file at every step is always whole, and no record is lost or repeated by a
kill.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import headrace
from headrace.checkpoint import StateFile


def _loader(shard=(0, 1), size=1000, **more):
    options = headrace.ShardOptions(*shard)
    return headrace.load(
        range(size), shuffle=True, seed=1, num_epochs=1, batch_size=2, shard_options=options, **more
    )


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_iterator_goes_on_where_the_file_says_at_every_step(workers, tmp_path):
    """Also on another number of workers."""
    expected = [batch.tolist() for batch in _loader(size=20)]
    with StateFile(tmp_path / "folder" / "state.json") as file, iter(_loader(size=20)) as batches:
        assert file.restore(batches) is False
        for step, _ in enumerate(batches, start=1):
            file.save(batches)
            if step % 3 == 0:
                with iter(_loader(size=20, worker_count=workers)) as again:
                    assert file.restore(again) is True
                    assert [batch.tolist() for batch in again] == expected[step:]


def test_the_file_is_the_state_that_get_state_gives(tmp_path):
    """It is JSON, and whatever reads states can read it."""
    path, batches = tmp_path / "state.json", iter(_loader())
    next(batches)
    StateFile(path).save(batches)
    assert json.loads(path.read_bytes()) == json.loads(batches.get_state())


def test_a_file_goes_on_after_the_program_that_wrote_it(tmp_path):
    """Another `StateFile` of the same path takes over; nothing lies beside the file."""
    batches = iter(_loader())
    for _ in range(3):
        next(batches)
        with StateFile(tmp_path / "state.json") as file:
            file.save(batches)
    again = iter(_loader())
    assert StateFile(tmp_path / "state.json").restore(again)
    assert next(again).tolist() == next(batches).tolist()
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.long
def test_states_longer_and_shorter_than_a_page_take_turns(tmp_path):
    """A run on other shards remembers where the former ones stood: with 2,000 of them at steps of
    their own that is long.
    """
    shards = [iter(_loader((shard, 2000), 10**5)) for shard in range(2000)]
    for shard in shards[::3]:
        next(shard)
    long, short = (iter(_loader(size=10**5)) for _ in range(2))
    long.set_states([shard.get_state() for shard in shards])
    assert len(short.get_state()) < 4096 < len(long.get_state())
    with StateFile(tmp_path / "state.json") as file:
        for one in (short, long, long, short, short, long):
            next(one)
            file.save(one)
            again = iter(_loader(size=10**5))
            assert file.restore(again)
            assert again.get_state() == one.get_state()
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_feeder_saves_the_place_of_its_user(tmp_path):
    """And not that of its buffers."""
    jax = pytest.importorskip("jax")
    with (
        StateFile(tmp_path / "state.json") as file,
        iter(_loader().to_device(jax.devices()[0])) as feeder,
    ):
        next(feeder), next(feeder)
        file.save(feeder)
        with iter(_loader()) as again:
            assert file.restore(again)
            assert next(again).tolist() == next(feeder).tolist()


@pytest.mark.parametrize("content", [b"", b"no state", b"{}"])
def test_a_file_that_holds_no_state_is_named_and_the_iterator_unharmed(content, tmp_path):
    """An empty file is none either."""
    path, batches = tmp_path / "state.json", iter(_loader())
    path.write_bytes(content)
    first = next(batches).tolist()
    with pytest.raises(headrace.errors.CheckpointError, match=r"state\.json"):
        StateFile(path).restore(batches)
    assert [first, next(batches).tolist()] == [
        batch.tolist() for _, batch in zip(range(2), _loader())
    ]


def test_a_folder_and_a_closed_file_are_refused(tmp_path):
    """The errors say what to do."""
    with pytest.raises(headrace.errors.CheckpointError, match="Pass the path of a file in it"):
        StateFile(tmp_path)
    file = StateFile(tmp_path / "state.json")
    file.close()
    file.close()
    with pytest.raises(headrace.errors.ClosedError, match="Make a new one"):
        file.save(iter(_loader()))


def test_a_file_that_was_deleted_is_written_again(tmp_path):
    """With its folder, too; a look is taken at every 64th save."""
    path, batches = tmp_path / "folder" / "state.json", iter(_loader())
    with StateFile(path) as file:
        for remove in (path.unlink, lambda: shutil.rmtree(path.parent)):
            next(batches)
            file.save(batches)
            remove()
            for _ in range(64):
                file.save(batches)
            assert json.loads(path.read_bytes()) == json.loads(batches.get_state())


def test_a_second_writer_is_told_and_harms_nothing(tmp_path):
    """The one that wrote last goes on, and the other one gets an error that names the file."""
    path, batches = tmp_path / "state.json", iter(_loader())
    with StateFile(path) as first, StateFile(path) as second:
        first.save(batches)
        next(batches)
        second.save(batches)
        with pytest.raises(headrace.errors.CheckpointError, match="another file has"):
            for _ in range(64):
                first.save(batches)
        next(batches)
        second.save(batches)
        assert json.loads(path.read_bytes())["step"] == 2


def test_a_file_behind_a_link_stays_behind_it(tmp_path):
    """And a path is that of the folder in which the program stood."""
    target, link, batches = (
        tmp_path / "disk" / "state.json",
        tmp_path / "state.json",
        iter(_loader()),
    )
    target.parent.mkdir()
    link.symlink_to(target)
    with contextlib.chdir(tmp_path):
        file = StateFile("state.json")
    with file:
        file.save(batches)
    assert link.is_symlink()
    assert StateFile(target).restore(iter(_loader()))


def test_a_save_that_fails_leaves_the_state_of_before_and_nothing_else(tmp_path):
    """Long states are written beside the file: here there is no room for them, and the short ones
    after them go in place.
    """
    state = iter(_loader()).get_state()

    class Named:
        def __init__(self, size):
            self.size = size

        def get_state(self):
            return state.ljust(self.size)

    with StateFile(tmp_path / "state.json") as file:
        file.save(Named(0))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
        try:
            with pytest.raises(OSError, match=r"a part of the state.*state\.json"):
                file.save(Named(9000))
            file.save(Named(0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, former)
    assert os.listdir(tmp_path) == ["state.json"]
    assert StateFile(tmp_path / "state.json").restore(iter(_loader()))


PROGRAM = textwrap.dedent("""
    import json, sys
    import headrace

    state, log = sys.argv[1:]
    batches = iter(headrace.load(range(10**6), shuffle=True, seed=1, batch_size=2, num_epochs=1))
    with headrace.checkpoint.StateFile(state) as file, open(log, "a") as lines:
        file.restore(batches)
        print("ready", flush=True)
        for batch in batches:
            file.save(batches)
            lines.write(json.dumps(batch.tolist()) + "\\n")
            lines.flush()
""")


@pytest.mark.long
def test_a_program_that_is_killed_at_any_moment_leaves_a_whole_state(tmp_path):
    """It saves, then works: so a kill loses at most the work on one batch, and repeats none."""
    state, log, chance = tmp_path / "state.json", tmp_path / "log", random.Random(2)
    for _ in range(8):
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, state, log], stdout=subprocess.PIPE, text=True
        )
        assert program.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.0, 0.1))
        program.send_signal(signal.SIGKILL)
        program.communicate()
    batches = iter(headrace.load(range(10**6), shuffle=True, seed=1, batch_size=2, num_epochs=1))
    assert StateFile(state).restore(batches)
    step = json.loads(state.read_bytes())["step"]
    done = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("]")]
    fresh = headrace.load(range(10**6), shuffle=True, seed=1, batch_size=2, num_epochs=1)
    *expected, following = [batch.tolist() for _, batch in zip(range(step + 1), fresh)]
    assert next(batches).tolist() == following
    assert step - 8 <= len(done) <= step
    missing = iter(expected)
    assert all(batch in missing for batch in done), (
        "the work was done in the order of the stream, nothing twice"
    )


def test_what_is_written_beside_the_file_is_new_and_private(tmp_path, monkeypatch):
    """A link that somebody planted under the name is not followed, and only the owner may read the
    file.
    """
    path, victim, batches = tmp_path / "state.json", tmp_path / "victim", iter(_loader())
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    for name in ("guessed.unfinished", str(os.getpid())):
        (tmp_path / f"state.json.{name}").symlink_to(victim)
    with pytest.raises(FileExistsError), StateFile(path) as file:
        file.save(batches)
    assert victim.read_text() == "precious"
    monkeypatch.undo()
    with StateFile(path) as file:
        file.save(batches)
    assert victim.read_text() == "precious"
    assert path.stat().st_mode & 0o777 == 0o600
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "state.json",
        "victim",
        "state.json.guessed.unfinished",
        f"state.json.{os.getpid()}",
    }


def test_a_path_that_cannot_be_read_is_a_checkpoint_error(tmp_path):
    """A folder in the file's place, or a current folder that was deleted."""
    path = tmp_path / "state.json"
    file = StateFile(path)
    path.mkdir()
    with pytest.raises(
        headrace.errors.CheckpointError, match=r"state\.json cannot be read: Is a directory"
    ):
        file.restore(iter(_loader()))
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        gone.rmdir()
        with pytest.raises(headrace.errors.CheckpointError, match="the current folder was deleted"):
            StateFile("state.json")
