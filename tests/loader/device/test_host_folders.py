"""The messages of processes as files in a folder: who has come, who is dead, and what former runs
have left.
"""

from __future__ import annotations

import json
import queue
import threading
import time

import pytest

from headrace.errors import HostsError
from headrace.loader.device.hosts import folder as folders
from headrace.loader.device.hosts.folder import FolderStore, Meeting


@pytest.fixture
def meet(tmp_path):
    """Makes meetings of two processes in one folder, which meet; they leave at the end."""
    made = []

    def meeting(me, waits=True):
        made.append(Meeting(tmp_path / "shared", me, range(2)))
        if waits:
            thread = threading.Thread(target=made[-1].meet, args=(lambda: False,))
            thread.start()
            return made[-1], thread
        return made[-1]

    yield meeting
    for each in made:
        each.leave()


@pytest.fixture
def both(meet):
    """The stores of two processes that have met."""
    (one, first), (other, second) = meet(0), meet(1)
    first.join()
    second.join()
    return FolderStore(one), FolderStore(other)


def test_messages_are_texts_by_key(both):
    """Each process reads what the other has set; folders are listed and deleted; what is missing is
    None.
    """
    one, other = both
    assert one.open(lambda: True)
    one.set("headrace/run/0/1/0", "a text")
    assert other.get("headrace/run/0/1/0") == "a text"
    assert other.get("headrace/run/0/1/1", wait_ms=1) is None
    assert other.there("headrace/run/0/1/") == {"0": "a text"}
    one.replace("headrace/run/0/1/0", "another")
    assert other.there("headrace/run/0/1/") == {"0": "another"}
    assert [one.count("headrace/run/left"), other.count("headrace/run/left")] == [1, 2]
    one.delete("headrace/run/")
    assert other.there("headrace/run/0/1/") == {}


def test_files_of_a_killed_run_are_no_messages(both, meet, tmp_path):
    """The same processes, started again, meet anew; the folder of the former run is removed."""
    one, _ = both
    one.set("headrace/run/0/1/0", "of the former run")
    former = list((tmp_path / "shared").glob("run-*"))
    (again, first), (_, second) = meet(0), meet(1)
    first.join()
    second.join()
    assert FolderStore(again).there("headrace/run/0/1/") == {}
    assert list((tmp_path / "shared").glob("run-*")) in ([], [again.run])
    assert again.run not in former


def test_a_process_that_was_started_again_is_an_error_on_the_others(both, meet, monkeypatch):
    """And so is another program with the same folder."""
    one, _ = both
    monkeypatch.setattr(folders, "BEAT_SECONDS", 0.0)
    meet(1, waits=False).meet(iter([False, True]).__next__)
    with pytest.raises(
        HostsError, match="process 1 was started again, or another program uses the folder"
    ):
        one.get("headrace/run/0/1/1", wait_ms=1)


def test_a_process_without_a_sign_of_life_is_an_error_on_the_others(both, monkeypatch):
    """After a minute; here at once."""
    one, other = both
    other._meeting.leave()
    monkeypatch.setattr(folders, "BEAT_SECONDS", 0.0)
    one.get("headrace/run/0/1/1", wait_ms=1)
    monkeypatch.setattr(folders, "DEAD_SECONDS", -1.0)
    with pytest.raises(HostsError, match="process 1 has given no sign of life"):
        one.get("headrace/run/0/1/1", wait_ms=1)


def test_a_process_gives_signs_of_life_until_it_leaves(meet, monkeypatch):
    """Every 10 seconds; here without a pause."""
    monkeypatch.setattr(folders, "BEAT_SECONDS", 0.0)
    said, write = queue.SimpleQueue(), folders._write

    def noted(path, text):
        write(path, text)
        if path.parent.name == "hello":
            said.put(json.loads(text)["beats"])

    monkeypatch.setattr(folders, "_write", noted)
    for _, meeting in (meet(0), meet(1)):
        meeting.join()
    while said.get(timeout=60) < 2:
        pass


def test_a_process_that_has_left_gives_no_more_signs_of_life(meet, monkeypatch, tmp_path):
    """Also if one is written while it leaves: its file is gone, and the folder of the run."""
    monkeypatch.setattr(folders, "BEAT_SECONDS", 1e-3)
    (one, first), (other, second) = meet(0), meet(1)
    first.join()
    second.join()
    begun, write = threading.Event(), folders._write

    def slow_write(path, text):
        begun.set()
        for _ in range(50):  # until the file is removed, as it must not be meanwhile
            time.sleep(1e-3 if path.exists() else 0)
        write(path, text)

    other.leave()
    monkeypatch.setattr(folders, "_write", slow_write)
    begun.wait()
    one.leave()
    for thread in threading.enumerate():
        if thread.name == "headrace-sign-of-life":
            thread.join()
    assert not [*(tmp_path / "shared").glob("*/*")]


def test_a_process_that_does_not_come_is_named(meet, monkeypatch, tmp_path):
    """After five minutes; and a process that shall stop waits no longer."""
    alone = meet(0, waits=False)
    assert not FolderStore(alone).open(lambda: True)
    monkeypatch.setattr(folders, "MEET_SECONDS", -1.0)
    with pytest.raises(HostsError, match=r"process 1 has not come to the folder .*shared"):
        alone.meet(lambda: False)


def test_two_processes_with_one_index_are_told_at_once(meet):
    """The one that came first finds the other one in its place, while both wait for the rest."""
    one, other = meet(0, waits=False), meet(0, waits=False)
    assert not one.meet(iter([False, True]).__next__)
    assert not other.meet(iter([False, True]).__next__)
    with pytest.raises(
        HostsError,
        match=r"two processes have the index 0 .* Pass ShardOptions\(0, 2\) in one process only",
    ):
        one.meet(lambda: False)
    assert not other.meet(iter([False, True]).__next__)


def test_several_processes_that_do_not_come_are_named(monkeypatch, tmp_path):
    """All in one message."""
    monkeypatch.setattr(folders, "MEET_SECONDS", -1.0)
    with pytest.raises(
        HostsError, match=r"these processes have not come to the folder .*: 1, 2\. Start all"
    ):
        folders.Meeting(tmp_path, 0, [0, 1, 2]).meet(lambda: False)


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"number": 1})])
def test_a_damaged_file_is_not_a_process(text, meet, monkeypatch, tmp_path):
    """Such as one that is just being written on a network file system."""
    (tmp_path / "shared" / "hello").mkdir(parents=True)
    (tmp_path / "shared" / "hello" / "1").write_text(text)
    monkeypatch.setattr(folders, "MEET_SECONDS", -1.0)
    with pytest.raises(HostsError, match="process 1 has not come"):
        meet(0, waits=False).meet(lambda: False)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    """With its path, and what to pass."""
    (tmp_path / "file").write_text("")
    with pytest.raises(
        HostsError,
        match=r"cannot write to the folder .*Pass a folder that all processes can read and write",
    ):
        Meeting(tmp_path / "file", 0, range(2)).meet(lambda: False)
