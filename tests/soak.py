"""Play random programs with fresh seeds for a number of minutes: `soak.py --minutes 60`.

Even numbers are simulations of workers that die, hang and come back (`simulate.py`). Odd numbers
are histories of runs that are stopped, changed and resumed (`support/histories.py`). Each failure
is one number, which plays it again:

    python tests/soak.py --minutes 60   plays numbers from a random one on, and prints failures
    python tests/soak.py 8215           plays one number, and shows what went wrong
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

import simulate
from support.histories import drawn, played, told


def play(number: int) -> None:
    """Play the program with a number; raise an AssertionError with the history as a note if an
    invariant is broken.
    """
    if number % 2 == 0:
        simulate.play(number // 2)
        return
    history = drawn(number // 2)
    try:
        played(history)
    except BaseException as error:
        error.add_note(told(history))
        raise


def failures(first: int, seconds: float) -> tuple[list[int], int]:
    """Play programs from the number `first` on until `seconds` have passed; return those that fail,
    and how many ran.
    """
    found, number, end = [], first, time.monotonic() + seconds
    while number == first or time.monotonic() < end:
        try:
            play(number)
        except Exception as error:
            found.append(number)
            print(f"{number}: {type(error).__name__}: {error}", flush=True)
        number += 1
    return found, number - first


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and play. The result is 1 if a program failed, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", type=int, nargs="?", help="the only program to play")
    parser.add_argument("--minutes", type=float, default=10, help="how long to play (default: 10)")
    parser.add_argument(
        "--first", type=int, help="number of the first program (default: a random one)"
    )
    options = parser.parse_args(arguments)
    if options.number is not None:
        try:
            play(options.number)
        except Exception:
            traceback.print_exc()
            return 1
        print("nothing is wrong")
        return 0
    first = random.SystemRandom().randrange(1 << 40) if options.first is None else options.first
    found, count = failures(first, 60 * options.minutes)
    print(
        f"{count} programs from {first} on, {len(found)} of them "
        f"wrong{': ' if found else ''}{str(found)[1:-1]}"
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
