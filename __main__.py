"""Command line: `python -m headrace …` is the same as `headrace …`."""

import sys

from .tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
