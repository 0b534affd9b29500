"""The commands `headrace convert SOURCE TARGET` and `headrace verify TARGET`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..conversion import convert, verify
from ..conversion.lengths import measure_converted
from ..errors import ConversionError


def convert_files(options: argparse.Namespace) -> int:
    """Run the command `headrace convert`: convert files, and print how many records were written.

    Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        ConversionError: an argument has a wrong value, or files cannot be converted.
    """
    try:
        made = convert(
            options.source[0] if len(options.source) == 1 else options.source,
            options.target,
            options.to,
            on_error="raise" if options.on_error == "fail" else "skip",
            options=dict(_option(text) for text in options.option),
            runner_options=options.after_dashes,
            **{name: getattr(options, name) for name in _SAME},
        )
    except ValueError as error:  # of a number that is none
        raise ConversionError(str(error)) from error
    left_out = f", damaged and left out: {made.left_out:,}" if made.left_out else ""
    if options.lengths is not None:
        measure_converted(options.target, options.to, options.lengths, options.workers)
    if made.omitted:
        left_out += f", omitted: {made.omitted[0]['keys']:,}"
    print(f"{made.records:,} records in {len(made.shards)} shards, {made.bytes:,} bytes{left_out}")
    for text in made.damage:
        print(f"left out: {text}", file=sys.stderr)
    return 0


_SAME = (
    "source_format",
    "split",
    "shards",
    "workers",
    "decode",
    "encode",
    "tokenizer",
    "column",
    "omit",
    "max_expansion",
    "runner",
)
"""Options of the command line that have the same names as arguments of `headrace.convert`."""


def _option(text: str) -> tuple[str, Any]:
    """Parse an option of a file writer, NAME=VALUE, into name and value.

    The value is an int if it looks like one; "" if there is no "=".

    >>> _option("group_size=4"), _option("compression=zstd"), _option("zstd")
    (('group_size', 4), ('compression', 'zstd'), ('zstd', ''))
    """
    name, _, value = text.partition("=")
    return name, int(value) if value.lstrip("-").isdigit() else value


def verify_files(options: argparse.Namespace) -> int:
    """Run the command `headrace verify`.

    Return its exit status: 1 if a file is wrong or missing, else 0.
    """
    wrong = verify(options.target)
    for text in wrong:
        print(text)
    if wrong:
        print(
            "Remove what is wrong, and run the same headrace convert again: it makes what is "
            "missing.",
            file=sys.stderr,
        )
    else:
        print("All files are as manifest.json says.")
    return 1 if wrong else 0
