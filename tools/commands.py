"""The commands of the command line, with their options and examples."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..files.streams import MAX_EXPANSION

_Option: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]


def _whole(least: int, text: str) -> int:
    """Parse a text as an integer, for argparse.

    Args:
        least: smallest allowed integer.
        text: the text.

    Raises:
        argparse.ArgumentTypeError: the text is no integer, or a smaller one.
    """
    try:
        count = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number. Pass {least} or more."
        ) from None
    if count < least:
        raise argparse.ArgumentTypeError(f"{text} is too small. Pass {least} or more.")
    return count


def _positive(what: str, text: str) -> float:
    """Parse a text as a positive, finite number, for argparse.

    Args:
        what: unit of the number, for the error.
        text: the text.

    Raises:
        argparse.ArgumentTypeError: the text is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a finite number above 0. Pass a number of {what}."
        )
    return value


def _command(help_: str, run: str, *options: _Option, epilog: str | None = None) -> Any:
    """Return an entry of the table of commands.

    Args:
        help_: a line about the command.
        run: "module:function" that runs it.
        *options: its arguments.
        epilog: text after the list of arguments; None for no text.
    """
    return help_, run, options, epilog


def _option(*flags: str, **settings: Any) -> _Option:
    return flags, settings


def _count(flag: str, least: int, help: str, **settings: Any) -> _Option:
    return _option(flag, type=partial(_whole, least), metavar="N", help=help, **settings)


def _number(flag: str, help: str, what: str = "seconds, such as 0.05", **settings: Any) -> _Option:
    read: Callable[[str], float] = partial(_positive, what)
    return _option(flag, type=read, help=help, **settings)


WITH_MORE = ("bench", "convert", "diff", "find", "plan", "report", "trace")
"""Commands that accept arguments of another program after two dashes."""


_JSON = _option("--json", action="store_true", help="print the result as JSON")


_NUMBERS = _option(
    "--json", action="store_true", help="print the numbers as JSON, for other programs"
)


_OF_PROGRAM = (
    "PROGRAM.py, or PROGRAM.py:name, the name of a loader in it or of a function that returns one"
)


_PROGRAM = _option("program", help=_OF_PROGRAM)


_SECONDS = _number("--seconds", "seconds to measure for at most (default 60)", default=60.0)


_RUN = _option(
    "--run",
    action="store_true",
    dest="runs",
    help="run a program as python PROGRAM.py would, and stop at its first loop over a loader",
)


FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""Mark for arguments that are files, so that shells complete file names; equal to `shtab.FILE`."""


_OPTIONS: dict[str, Any] = {"action": "append", "default": []}


_EXPANSION: dict[str, Any] = {"type": int, "default": MAX_EXPANSION, "metavar": "N"}


_FORMATS = (
    "tfrecord, tar, json_lines, csv, parquet, array_record, npy, images, huggingface or tfds; "
    "default: found from the file names"
)


COMMANDS = {
    "demo": _command(
        "train on digits, kill workers and the training, resume, and check that no bit of the "
        "result differs",
        "demo.demo:run_demo",
    ),
    "bench": _command(
        "PROGRAM.py[:name]: find what the steps of a training program wait for",
        "bench:bench",
        _PROGRAM,
        _count("--steps", 3, "number of steps to measure (default 100)", default=100),
        _SECONDS,
        _number(
            "--step-seconds",
            "seconds that a training step takes, for a program that only makes a loader",
            metavar="S",
        ),
        _NUMBERS,
        _option(
            "--html", type=Path, metavar="FILE", help="write a page with charts, for a browser"
        ),
        _option(
            "--timeline",
            type=Path,
            metavar="FILE",
            help="write a timeline that ui.perfetto.dev can show",
        ),
        _option("--show-output", action="store_true", help="show what the program prints"),
        epilog="""examples:
  headrace bench train.py                       run the program, and see what its steps wait for
  headrace bench train.py -- --data /data       the same, for a program with arguments
  headrace bench train.py --html report.html    the same, and write a page with charts
  headrace bench train.py:loader                take batches as fast as they come
  headrace bench train.py:make_loader --step-seconds 0.05""",
    ),
    "plan": _command(
        "PROGRAM.py[:name] --step-seconds S: how many workers and nodes make batches as fast as "
        "steps use them",
        "plan:plan",
        _PROGRAM,
        _number(
            "--step-seconds",
            "seconds that a step on the accelerator takes",
            required=True,
            metavar="S",
        ),
        _count("--cores", 1, "cores of this machine for workers; default: all but one"),
        _count("--cores-per-node", 1, "cores of each node of a cluster (default 16)", default=16),
        _number(
            "--bandwidth",
            "speed of the network, in Gbit/s (default 10)",
            "Gbit/s, such as 10",
            default=10.0,
            metavar="GBIT",
        ),
        _count("--steps", 3, "number of batches to measure (default 20)", default=20),
        _SECONDS,
        _NUMBERS,
    ),
    "convert": _command(
        "SOURCE TARGET: convert data to files whose records can be read in any order",
        "conversions:convert_files",
        _option(
            "source", nargs="+", help="files, globs, folders or URLs; or the name of a TFDS dataset"
        ),
        _option("target", help="the folder to write to"),
        _option(
            "--to", choices=["array_record", "bytes", "parquet", "tokens"], default="array_record"
        ),
        _option("--from", dest="source_format", metavar="FORMAT", help=_FORMATS),
        _option("--split", help="split of a TFDS or Hugging Face dataset, such as train"),
        _option(
            "--shards",
            type=int,
            metavar="N",
            help="number of files to write; default: one for each input file",
        ),
        _option(
            "--workers",
            type=int,
            metavar="N",
            help="number of processes; default: one for each core",
        ),
        _option(
            "--on-error",
            choices=["fail", "skip"],
            default="fail",
            help="skip: leave out damaged records",
        ),
        _option(
            "--decode",
            choices=["bytes", "example", "json"],
            help="how to decode records that are bytes",
        ),
        _option(
            "--encode",
            choices=["example", "json"],
            help="how to turn other records into bytes, for --to array_record and --to bytes",
        ),
        _option(
            "--tokenizer",
            metavar="FILE",
            help="tokenizer file of the library tokenizers, for --to tokens",
        ),
        _option(
            "--column", metavar="NAME", help="column or field that has the text, for --to tokens"
        ),
        _option(
            "--option",
            **_OPTIONS,
            metavar="NAME=VALUE",
            help="option of the writer, such as group_size=4; may be repeated",
        ),
        _option(
            "--max-expansion",
            **_EXPANSION,
            help="largest size of an unpacked file of more than 1 GiB, as a multiple of its "
            "compressed size (default 200)",
        ),
        _option(
            "--omit",
            metavar="FILE",
            help="keys of records to leave out: a text file with one key on each line, or .npy",
        ),
        _option(
            "--lengths",
            metavar="FIELD",
            help="also write the lengths of this field's values; bytes: of whole records",
        ),
        _option(
            "--runner",
            help="runner of Apache Beam that does the work; give Beam's own options last, after --",
        ),
        epilog="""examples:
  headrace convert 'data/train.tfrecord*' out              write an ArrayRecord file for each file
  headrace convert data/text.jsonl.gz out --to tokens --tokenizer tokenizer.json --column text
  headrace convert data out --from csv --to parquet --shards 16
  headrace convert data out --runner DataflowRunner -- --project my-project --region europe-west1
A conversion that was stopped continues when the same command is run again.""",
    ),
    "verify": _command(
        "TARGET: check converted files against their manifest.json",
        "conversions:verify_files",
        _option("target", help="a folder that headrace convert has written"),
    ),
    "trace": _command(
        "[CHECKPOINT] PROGRAM.py[:name]: print the records of a step's batch, with their files",
        "provenance.commands:print_trace",
        _option(
            "checkpoint",
            nargs="?",
            help="a state file, or a folder of these; default: the beginning of a run",
        ),
        _PROGRAM,
        _count("--step", 0, "number of the step, counted from 0", required=True),
        _count(
            "--shards", 1, "number of shards that resume; default: as many as saved the checkpoint"
        ),
        _option("--epochs", action="store_true", help="the training loop is over loader.epochs()"),
        _option(
            "--no-strict",
            action="store_true",
            help="accept a program that differs from the one that saved the checkpoint",
        ),
        _RUN,
        _JSON,
        epilog="""examples:
  headrace trace checkpoints/1200/loader train.py --step 1234
  headrace trace train.py:make_loader --step 1000000000 --json          without a checkpoint
  headrace trace checkpoints/1200/loader train.py --step 1234 --shards 8    8 shards resume
  headrace trace --run checkpoints/1200/loader train.py --step 1234 -- --data /data
                                                           a loader inside main()""",
    ),
    "find": _command(
        "[CHECKPOINT] PROGRAM.py[:name] --omitted: check that no omitted record was or will be "
        "read since a step",
        "provenance.commands:print_omitted",
        _option(
            "checkpoint",
            nargs="?",
            help="a state file, or a folder of these; default: the beginning of a run",
        ),
        _PROGRAM,
        _option("--omitted", action="store_true", required=True, help="look for omitted records"),
        _option(
            "--keys",
            metavar="FILE",
            help="file with the keys to look for; default: those that the program omits",
        ),
        _count("--since", 0, "number of the first step to check (default 0)", default=0),
        _count(
            "--shards", 1, "number of shards that resume; default: as many as saved the checkpoint"
        ),
        _option(
            "--no-strict",
            action="store_true",
            help="accept a program that differs from the one that saved the checkpoint",
        ),
        _RUN,
        _JSON,
        epilog="The exit status is 1 if such a record was or will be read.",
    ),
    "report": _command(
        "[PROGRAM.py[:name]]: print what a bug report needs: versions, platform and pipeline; no "
        "data, no paths",
        "report:print_report",
        _option("program", nargs="?", help=_OF_PROGRAM),
        _RUN,
    ),
    "diff": _command(
        "ONE TWO: find the first step at which two programs or checkpoints differ; the exit "
        "status is 1 if they do",
        "provenance.commands:print_diff",
        *(
            _option(name, help="PROGRAM.py[:name], a state file, or a folder of state files")
            for name in ("one", "two")
        ),
        _RUN,
        _JSON,
    ),
    "completion": _command(
        "SHELL: print a script with which a shell completes commands, options and file names",
        "completion:print_script",
        _option("shell", choices=["bash", "zsh", "tcsh"]),
        epilog="""examples:
  headrace completion bash > ~/.local/share/bash-completion/completions/headrace
  headrace completion zsh > ~/.zfunc/_headrace        with fpath+=~/.zfunc before compinit""",
    ),
    "checkpoint inspect": _command(
        "PATH: print the checkpoints under a path in words",
        "checkpoints:inspect",
        _option(
            "path", type=Path, help="a state file, or a folder with files process_<i>-of-<n>.json"
        ),
        _JSON,
    ),
    "checkpoint diff": _command(
        "ONE TWO: print the differences of two checkpoints; the exit status is 1 if there are any",
        "checkpoints:print_differences",
        *(
            _option(
                name, type=Path, help="a state file, or a folder with files process_<i>-of-<n>.json"
            )
            for name in ("one", "two")
        ),
        _JSON,
    ),
}
