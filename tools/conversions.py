"""`headrace convert SOURCE TARGET` and `headrace verify TARGET`. In: parsed arguments. Out: lines, and an exit status."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..errors import ConversionError
from ..files.streams import MAX_EXPANSION

_EXAMPLE = """examples:
  headrace convert 'data/train.tfrecord*' out                        a file of ArrayRecord for each file, of its name
  headrace convert data/text.jsonl.gz out --to tokens --tokenizer tokenizer.json --column text
  headrace convert data out --from csv --to parquet --shards 16
  headrace convert data out --runner DataflowRunner -- --project my-project --region europe-west1
A conversion that was stopped goes on when it is run again."""

_FORMATS = (
    "tfrecord, tar, json_lines, csv, parquet, array_record, npy, images, huggingface or tfds; default: by the names of the "
    "files"
)


def add_convert(tools: Any) -> None:
    """Add the command `convert`."""
    parser = tools.add_parser(
        "convert",
        help="SOURCE TARGET: make files that can be read at random",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", nargs="+", help="files, globs, folders or URLs; or the name of a TFDS dataset")
    parser.add_argument("target", help="the folder to write to")
    parser.add_argument("--to", choices=["array_record", "parquet", "tokens"], default="array_record")
    parser.add_argument("--from", dest="source_format", metavar="FORMAT", help=_FORMATS)
    parser.add_argument("--split", help="of a TFDS or Hugging Face dataset")
    parser.add_argument("--shards", type=int, metavar="N", help="so many files; default one for each input file")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; default one for each core")
    parser.add_argument("--on-error", choices=["fail", "skip"], default="fail", help="skip: leave damaged records out")
    parser.add_argument("--decode", choices=["bytes", "example", "json"], help="what records of bytes are")
    parser.add_argument("--encode", choices=["example", "json"], help="how other records become bytes for ArrayRecord")
    parser.add_argument("--tokenizer", metavar="FILE", help="of the library tokenizers, for --to tokens")
    parser.add_argument("--column", metavar="NAME", help="of the text, for --to tokens")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the writer, such as group_size=4; many times",
    )
    parser.add_argument(
        "--max-expansion",
        type=int,
        default=MAX_EXPANSION,
        metavar="N",
        help="how many times its size a compressed file may unpack to",
    )
    parser.add_argument("--runner", help="of Apache Beam, whose options come last, after --")
    parser.set_defaults(run=_convert)


def add_verify(tools: Any) -> None:
    """Add the command `verify`."""
    parser = tools.add_parser("verify", help="TARGET: hold converted files against their manifest.json")
    parser.add_argument("target", help="a folder that convert wrote to")
    parser.set_defaults(run=_verify)


def _convert(options: argparse.Namespace) -> int:
    from ..conversion import convert

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
    "max_expansion",
    "runner",
)
"""Options that are arguments of `convert` by the same name."""


def _option(text: str) -> tuple[str, Any]:
    """A number as such, all else as text.

    >>> _option("group_size=4"), _option("compression=zstd"), _option("zstd")
    (('group_size', 4), ('compression', 'zstd'), ('zstd', ''))
    """
    name, _, value = text.partition("=")
    return name, int(value) if value.lstrip("-").isdigit() else value


def _verify(options: argparse.Namespace) -> int:
    from ..conversion import verify

    wrong = verify(options.target)
    for text in wrong:
        print(text)
    if wrong:
        print(
            "Remove what is wrong, and run the same headrace convert again: it makes what is missing.", file=sys.stderr
        )
    else:
        print("All files are as manifest.json says.")
    return 1 if wrong else 0
