"""`headrace bench PROGRAM.py[:name]`: what the steps of a program wait for."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading

import pytest

from headrace.tools.command_line import main

TRAINS = """
import time, headrace

def decode(x):
    time.sleep(0.004)
    return x

def make(**more):
    return headrace.load(range(100_000), transformations=[decode], batch_size=2, **more)

if __name__ == "__main__":
    print("the program prints this")
    for batch in make({more}):
        time.sleep(0.002)
"""


def _bench(folder, text, *options, name=""):
    path = folder / "train.py"
    path.write_text(text)
    return main(["bench", f"{path}{name}", *options])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("more", ["", "worker_count=1"])
def test_a_program_is_run_with_its_own_step_until_enough_was_seen(more, tmp_path, capsys):
    """The first line says what its step waits for; what it prints itself is left out; Ctrl-C is
    what it was.
    """
    before = signal.getsignal(signal.SIGINT), threading.active_count()
    assert _bench(tmp_path, TRAINS.replace("{more}", more), "--steps", "10") == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("Your step waits ")
    assert "`decode` takes" in first
    assert second.startswith("Measured: ")
    if not more:  # on a busy machine, a second worker would change nothing
        assert any("What would change it" in line for line in rest)
    assert (signal.getsignal(signal.SIGINT), threading.active_count()) == before


@pytest.mark.slow
def test_a_named_loader_is_measured_alone(tmp_path, capsys):
    """By its name or that of a function; as fast as it goes, or beside a step of some length.
    Numbers come as JSON too.
    """
    text = TRAINS.replace("{more}", "")
    assert _bench(tmp_path, text, "--steps", "5", name=":make") == 0
    assert capsys.readouterr().out.startswith("Batches come ")
    assert (
        _bench(tmp_path, text, "--steps", "5", "--step-seconds", "0.002", "--json", name=":make")
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["finding"]["stage"] == "decode"
    assert told["sentence"].startswith("Your step waits ")


@pytest.mark.slow
def test_a_feeders_loop_is_measured_as_the_users(tmp_path, capsys):
    """What is waited for is told of the loop over devices, not of the feeder's own."""
    pytest.importorskip("jax")
    text = TRAINS.replace("make({more})", "make().to_device(__import__('jax').devices()[0])")
    assert _bench(tmp_path, text, "--steps", "5") == 0
    out = capsys.readouterr().out
    assert "`decode` takes" in out
    assert "for the transfer" in out


def test_a_program_that_only_defines_a_loader_has_that_measured(tmp_path, capsys):
    """Nothing else can be meant."""
    assert (
        _bench(
            tmp_path,
            "import headrace\nloader = headrace.load(range(9), batch_size=2)",
            "--steps",
            "5",
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("Batches come ")


@pytest.mark.slow
def test_a_step_of_some_length_has_its_effect_or_is_refused(tmp_path, capsys):
    """A program that only defines a loader is measured beside such a step; one with steps of its
    own says what to do.
    """
    text = TRAINS.replace("{more}", "")
    alone = text.partition("if __name__")[0] + "loader = make()"
    assert _bench(tmp_path, alone, "--steps", "5", "--step-seconds", "0.05", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measured"]["step_known"]
    assert told["measured"]["elapsed"] > 0.05
    assert _bench(tmp_path, text, "--steps", "100000", "--step-seconds", "0.05") == 2
    assert "makes its own steps, so --step-seconds 0.05" in capsys.readouterr().err


def test_programs_get_their_arguments_and_end_by_themselves(tmp_path, capsys):
    """What follows two dashes; a program that makes fewer steps is measured to its end."""
    text = (
        "import sys, headrace\nfor batch in headrace.load(range(int(sys.argv[1])), num_epochs=1): "
        "pass"
    )
    assert _bench(tmp_path, text, "--", "50") == 0
    assert "steps" in capsys.readouterr().out
    assert _bench(tmp_path, text, "--", "2") == 2
    assert "at least 3 are needed" in capsys.readouterr().err


BAD = {
    "no loader": ("x = 1", "took no batch from a loader of headrace; pass the name"),
    "several": (
        "import headrace\na, b = headrace.load([1]), headrace.load([2])",
        "pass the name of a loader",
    ),
    "fails": (
        "import headrace\nfor x in headrace.load([1, 2, 3]):\n    x.y",
        "fails at line 3: AttributeError",
    ),
    "operation fails": (
        "import headrace\nfor x in headrace.load([0], transformations=[lambda x: 1 / x]): pass",
        r"fails at line 2: ZeroDivisionError: .* \(operation 0, .*, failed on record key 0 at position 0\)\.",
    ),
    "never steps": (
        "import time, headrace\niter(headrace.load([1]))\nwhile True: time.sleep(1)",
        "took no batch .* in 0.3 s",
    ),
    "exits": ("raise SystemExit(4)", "exit status 4"),
    "exits with words": (
        "raise SystemExit('no data')",
        r"run .*train\.py by itself first, because it ends with 'no data'\.",
    ),
    "one step": (
        "import headrace\nfor x in headrace.load([1], num_epochs=1): pass",
        "only 1 step was measured",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_program_that_cannot_be_measured_is_one_clear_line(case, tmp_path, capsys):
    """On standard error, with the status 2; nothing is left running."""
    text, message = BAD[case]
    assert _bench(tmp_path, text, "--seconds", "0.3") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert __import__("re").search(message, captured.err)


@pytest.mark.parametrize(
    "options", [["--steps", "2"], ["--steps", "x"], ["--seconds", "0"], ["--step-seconds", "nan"]]
)
def test_options_that_mean_nothing_are_refused_before_the_program_runs(options, tmp_path, capsys):
    """As the command line does."""
    with pytest.raises(SystemExit) as end:
        _bench(tmp_path, "raise SystemExit(4)", *options)
    assert end.value.code == 2


def test_a_program_may_clean_up_and_end_as_it_likes_when_it_is_interrupted(tmp_path, capsys):
    """It is interrupted as by Ctrl-C: what it does then, its exit status too, does not matter."""
    text = (
        "import sys, headrace\ntry:\n  for x in headrace.load(range(9)): pass\nexcept "
        "KeyboardInterrupt:\n  sys.exit(1)"
    )
    assert _bench(tmp_path, text, "--steps", "5") == 0
    assert "Measured: " in capsys.readouterr().out


@pytest.mark.long
def test_a_program_that_goes_on_whatever_comes_is_ended(tmp_path):
    """One line says why; nothing is left running."""
    (tmp_path / "train.py").write_text(
        "import headrace\nloader = headrace.load(range(9))\nwhile True:\n  try:\n    for x in "
        "loader: pass\n  except: pass"
    )
    run = (
        "import sys; from headrace.tools.diagnosis import interrupting; interrupting.AGAIN_SECONDS "
        "= interrupting.PATIENCE_SECONDS = 0.2; from headrace.tools.command_line import main; "
        "sys.exit(main(['bench', 'train.py', '--seconds', '0.5']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "the program still runs 0.2 s after it was interrupted" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_ctrl_c_ends_the_bench(tmp_path, capsys):
    """With the exit status that a shell knows, and without our own frames."""
    text = "import signal\nsignal.raise_signal(signal.SIGINT)"
    assert _bench(tmp_path, text) == 130
    assert capsys.readouterr().err == "headrace: interrupted\n"


@pytest.mark.slow
def test_workers_that_have_just_begun_are_not_taken_for_slow_ones(tmp_path, capsys):
    """Of a short loop, the time in which they begin is told, and left out of what a step takes."""
    text = (
        "import headrace\nfor x in headrace.load(range(30), batch_size=10, num_epochs=1, "
        "worker_count=1): pass"
    )
    assert _bench(tmp_path, text, "--json") == 0
    loop = json.loads(capsys.readouterr().out)["measured"]
    assert loop["steps"] * loop["elapsed"] < loop["start"]
    assert loop["unready"] <= loop["waited"] <= loop["elapsed"]
    assert _bench(tmp_path, text) == 0
    assert "to begin, which is left out." in capsys.readouterr().out.splitlines()[1]


def test_it_is_told_that_a_program_has_several_loops(tmp_path, capsys):
    """What is shown is the one that took most of the time."""
    text = (
        "import time, headrace\nfor number in (3, 40, 5):\n"
        "    for x in headrace.load(range(number), num_epochs=1): time.sleep(0.01)"
    )
    assert _bench(tmp_path, text) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert "in the longest of 3 loops" in second
    assert 5 < int(re.search(r"Measured: (\d+) steps", second)[1]) <= 40


def test_an_operation_that_fails_is_told_in_one_line(tmp_path, capsys):
    """Of a loader that is named too, and by `headrace plan`."""
    text = "import headrace\nloader = headrace.load([0], transformations=[lambda x: 1 / x])"
    assert _bench(tmp_path, text, name=":loader") == 2
    assert main(["plan", str(tmp_path / "train.py"), "--step-seconds", "1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(
        "fails at line 2: ZeroDivisionError" in line and "record key 0" in line for line in lines
    )


def test_the_page_and_the_timeline_are_two_files(tmp_path, capsys):
    """One would take the place of the other."""
    both = str(tmp_path / "both")
    assert _bench(tmp_path, "raise SystemExit(4)", "--html", both, "--timeline", both) == 2
    assert "Pass two different files" in capsys.readouterr().err


@pytest.mark.long
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    """As `head`: nothing is printed on standard error."""
    (tmp_path / "train.py").write_text(
        "import headrace\nloader = headrace.load(range(100_000), batch_size=10_000)"
    )
    command = ["trace", "train.py", "--step", "3"]
    run = [
        sys.executable,
        "-c",
        "import sys; from headrace.tools.command_line import main; sys.exit(main())",
        *command,
    ]
    with subprocess.Popen(
        run, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


LEFT_OPEN = """
import time, headrace

class Store:
    under_way = 0

    def __len__(self):
        return 10_000

    def __getitem__(self, key):
        Store.under_way += 1
        time.sleep(5e-3)
        Store.under_way -= 1
        return key

reading = headrace.ReadOptions(prefetch_buffer_size=5_000)
batches = iter(headrace.load(Store(), batch_size=4, read_options=reading))
for batch in batches:
    time.sleep(20e-3)
"""


@pytest.mark.slow
def test_nobody_reads_on_while_the_source_is_asked_how_fast_it_is(tmp_path, monkeypatch):
    """A loop that the program left open is closed before that: a read would seem slower among those
    that fill its buffer.
    """
    from headrace.tools.diagnosis import measuring

    seen, timed = [], measuring.timed

    def noting(source, pipeline):
        seen.append(pipeline.leaves[0].source.under_way)
        return timed(source, pipeline)

    monkeypatch.setattr(measuring, "timed", noting)
    assert _bench(tmp_path, LEFT_OPEN, "--steps", "5") == 0
    assert seen == [0]
