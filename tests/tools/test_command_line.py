"""`headrace checkpoint …` tells a person what a checkpoint says."""

import json
import re
import subprocess
import sys
from importlib import metadata
from itertools import islice
from pathlib import Path

import orbax.checkpoint as ocp
import pytest
from support.damage import sealed, with_value

import headrace
from headrace import Batch, DataLoader, IndexSampler, ShardOptions
from headrace.checkpoint import CheckpointSave
from headrace.tools.command_line import main

COMMANDS = Path(__file__).parent.parent.parent / "docs" / "api" / "command-line.md"


def _iterator(steps, shard=(0, 1), batch=5, seed=1):
    sampler = IndexSampler(100, ShardOptions(*shard), shuffle=True, seed=seed)
    iterator = iter(DataLoader(data_source=range(100), sampler=sampler, operations=[Batch(batch)]))
    list(islice(iterator, steps))
    return iterator


def _saved(folder, *states):
    folder.mkdir(parents=True)
    for index, state in enumerate(states):
        (folder / f"process_{index}-of-{len(states)}.json").write_bytes(state)
    return folder


def _run(capsys, *arguments):
    status = main(["checkpoint", *map(str, arguments)])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_a_checkpoint_of_orbax_is_printed_in_words(tmp_path, capsys):
    """Every step under the folder of a manager, in order: epoch, step, records, shards,
    fingerprint.
    """
    with ocp.CheckpointManager(tmp_path) as manager:
        for step in (9, 30):
            manager.save(step, args=ocp.args.Composite(loader=CheckpointSave(_iterator(step))))
        manager.wait_until_finished()
    status, out, _ = _run(capsys, "inspect", tmp_path)
    assert status == 0
    first, second = out.split("\n\n")
    assert first.startswith(f"{tmp_path / '9' / 'loader'}:")
    _saved(tmp_path / "²", _iterator(1).get_state())  # a digit for Python, but no number
    assert _run(capsys, "inspect", tmp_path)[0] == 0
    for text in (
        "step: 30",
        "epoch: 1 (at 50.0 %)",
        "records seen: 150",
        "shards: 1",
        "seed 1",
        "batch sizes [5]",
    ):
        assert text in second


def test_shards_and_their_history_are_printed(tmp_path, capsys):
    """The shard map, and on how many shards the run went before; steps that are left out."""
    before = [_iterator(3 + shard, (shard, 2)).get_state() for shard in range(2)]
    after = [_iterator(0, (shard, 3)) for shard in range(3)]
    for iterator in after:
        iterator.set_states(before)
        next(iterator)
    folder = _saved(tmp_path / "a", *(iterator.get_state() for iterator in after))
    _, out, _ = _run(capsys, "inspect", folder)
    assert "order: what 2 shards left" in out
    assert "records seen: 50" in out
    assert "shard 2 of 3: step 5, local position 5" in out
    skipping = iter(headrace.load(range(9)).skip([(2, 5)]))
    _, out, _ = _run(capsys, "inspect", _saved(tmp_path / "b", skipping.get_state()))
    assert "left out: steps 2 to 4" in out


def test_two_checkpoints_are_compared(tmp_path, capsys):
    """Each difference is a line, and the exit status tells whether there is one, as with diff."""
    one = _saved(tmp_path / "one", _iterator(3).get_state())
    two = _saved(tmp_path / "two", _iterator(7, seed=2).get_state())
    assert _run(capsys, "diff", one, one) == (0, "The checkpoints are the same.\n", "")
    status, out, _ = _run(capsys, "diff", one, two)
    assert status == 1
    assert "step: 3 → 7" in out
    assert "sampler: seed 1 → 2" in out


@pytest.mark.slow
def test_half_a_checkpoint_is_refused_by_the_names_of_what_it_lacks(tmp_path, capsys):
    """By all that read one; `inspect` tells what is there, and that the rest is not. One file alone
    is one state.
    """
    folder = _saved(
        tmp_path / "half", *(_iterator(3, (shard, 3)).get_state() for shard in range(3))
    )
    whole = _saved(tmp_path / "whole", _iterator(3).get_state())
    (tmp_path / "train.py").write_text(
        "import headrace\nloader = headrace.load(range(100), batch_size=5)"
    )
    (folder / "process_1-of-3.json").unlink()
    for command in (
        ["checkpoint", "inspect", folder],
        ["checkpoint", "inspect", tmp_path],
        ["checkpoint", "diff", folder, whole],
        ["checkpoint", "diff", whole, folder],
        ["diff", folder, folder],
        ["trace", folder, tmp_path / "train.py", "--step", "4"],
    ):
        assert main(list(map(str, command))) == 2
        assert f"{folder} has no process_1-of-3.json, " in capsys.readouterr().err
    _, out, _ = _run(capsys, "inspect", folder)
    assert "missing: process_1-of-3.json" in out
    assert "shard 2 of 3: step 3" in out
    assert _run(capsys, "inspect", folder / "process_2-of-3.json")[0] == 0
    (folder / "process_0-of-3.json").rename(folder / "process_0-of-999999999.json")
    assert _run(capsys, "inspect", folder)[0] == 2


def test_hosts_that_load_the_same_shard_lack_nothing(tmp_path, capsys):
    """Where two processes hold the same rows, both save the state of one shard."""
    state = _iterator(3).get_state()
    status, out, _ = _run(capsys, "inspect", _saved(tmp_path / "both", state, state))
    assert status == 0
    assert "missing" not in out


def test_checkpoints_are_told_as_json(tmp_path, capsys):
    """With keys that stay; a script reads what a person is told."""
    one = _saved(tmp_path / "one", *(_iterator(3, (shard, 2)).get_state() for shard in range(2)))
    two = _saved(tmp_path / "two", *(_iterator(4, (shard, 2)).get_state() for shard in range(2)))
    status, out, _ = _run(capsys, "inspect", one, "--json")
    assert status == 0
    (told,) = json.loads(out)
    assert set(told) == set(_keys_in_the_docs("checkpoint inspect"))
    assert (told["path"], told["step"], told["records_seen"], told["missing"]) == (
        str(one),
        3,
        30,
        [],
    )
    assert told["states"][1] == {"shard": 1, "shards": 2, "step": 3, "local_position": 15}
    assert told["sampler"]["seed"] == 1
    assert json.loads(_run(capsys, "diff", one, one, "--json")[1]) == {
        "same": True,
        "differences": [],
    }
    status, out, _ = _run(capsys, "diff", one, two, "--json")
    assert status == 1
    assert set(json.loads(out)) == set(_keys_in_the_docs("checkpoint diff"))
    assert json.loads(out)["differences"][0] == "step: 3 → 4"
    (one / "process_0-of-2.json").unlink()
    status, out, _ = _run(capsys, "inspect", one, "--json")
    assert (status, json.loads(out)[0]["missing"]) == (2, ["process_0-of-2.json"])


def _keys_in_the_docs(command):
    (line,) = (
        line
        for line in COMMANDS.read_text().splitlines()
        if line.startswith(f"| `{command} --json`")
    )
    return re.findall(r"`(\w+)`", line.split("|")[2])


def test_small_differences_are_told_too(tmp_path, capsys):
    """A step in an epoch of a million records, or another shard, is a difference."""
    states = []
    for steps in (3, 4):
        iterator = iter(headrace.load(range(10**6), batch_size=2))
        list(islice(iterator, steps))
        states.append(sealed({**json.loads(iterator.get_state()), "step": 3}))
    one, two = (_saved(tmp_path / str(number), state) for number, state in enumerate(states))
    assert _run(capsys, "diff", one, two)[0] == 1
    (one / "process_0-of-2.json").write_bytes(states[0])
    assert _run(capsys, "inspect", one)[1].count("step: 3") == 2  # two sets of files, not one
    strange = sealed(
        with_value(json.loads(states[0]), ("identity", "sources", 0, "kind"), "\ud800")
    )
    assert _run(capsys, "inspect", _saved(tmp_path / "strange", strange))[0] == 0


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\x00"])
def test_what_is_no_checkpoint_is_named(content, tmp_path, capsys):
    """The path and the reason on standard error, and exit status 2."""
    if content is not None:
        _saved(tmp_path / "bad", content)
    status, _, errors = _run(capsys, "inspect", tmp_path)
    assert status == 2
    assert errors.startswith("headrace: ")
    assert str(tmp_path) in errors


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "command", [[str(Path(sys.executable).parent / "headrace")], [sys.executable, "-m", "headrace"]]
)
def test_the_command_is_installed(tmp_path, command):
    """`headrace` stands beside the interpreter, and `python -m headrace` is the same."""
    folder = _saved(tmp_path / "one", _iterator(3).get_state())
    done = subprocess.run(
        [*command, "checkpoint", "inspect", str(folder)], capture_output=True, text=True, check=True
    )
    assert "step: 3" in done.stdout
    assert subprocess.run([*command, "checkpoint"], capture_output=True).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "named"), [([], "convert,verify,"), (["checkpoint"], "{inspect,diff}")]
)
def test_the_usage_names_the_commands(capsys, arguments, named):
    """What is missing is told by the names of the commands that there are."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    usage = capsys.readouterr().err
    assert usage.startswith("usage: headrace")
    assert named in usage


def test_the_version_is_told(capsys):
    """`headrace --version` and `headrace.__version__` give that of the installed package."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"headrace {headrace.__version__}\n"
    assert headrace.__version__ == metadata.version("headrace")


def test_a_folder_in_the_place_of_a_state_is_named(tmp_path, capsys):
    """And not a traceback."""
    (tmp_path / "process_0-of-1.json").mkdir()
    status, _, errors = _run(capsys, "inspect", tmp_path)
    assert status == 2
    assert "process_0-of-1.json cannot be read: Is a directory" in errors
