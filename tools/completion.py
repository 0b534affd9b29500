"""Shell completion: print a shell's script, which shtab makes from the command line parser."""

from __future__ import annotations

import argparse
from importlib import import_module

from ..errors import MissingExtraError


def print_script(options: argparse.Namespace) -> int:
    """Run the command `headrace completion`: print the script. Return the exit status, 0.

    Args:
        options: parsed arguments of the command line.

    Raises:
        MissingExtraError: shtab is not installed.
    """
    from .command_line import _parser

    try:
        shtab = import_module("shtab")
    except ImportError as error:
        raise MissingExtraError(
            'headrace completion needs shtab: pip install "headrace[completion]"'
        ) from error
    print(shtab.complete(_parser(), shell=options.shell))
    return 0
