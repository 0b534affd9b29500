"""`python -m millrace …`: the command line, as `millrace …`."""

import sys

from .tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
