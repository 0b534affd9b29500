"""Make the environments of the libraries, outside of the repository.

    python3 bench/environments.py [NAME …]

`requirements/NAME.txt` lists the packages of a library. The result is a Python interpreter for each
library. `BENCH_ENVIRONMENTS` names the folder of the environments, `UV_FIND_LINKS` a folder with
wheels.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from libraries import ENVIRONMENTS, LIBRARIES, Library

HERE = Path(__file__).parent


def make(library: Library) -> None:
    """Make an environment, or bring it to what the file asks for; `uv` does both in seconds where
    it has the wheels.
    """
    folder = ENVIRONMENTS / library.requirements
    uv = [sys.executable, "-m", "uv"]
    if not (folder / "bin" / "python").exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    file = HERE / "requirements" / f"{library.requirements}.txt"
    command = [
        *uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        str(folder / "bin" / "python"),
        "--requirement",
        str(file),
    ]
    command += ["--compile-bytecode", "--reinstall-package", "headrace"]  # what the clone has now
    subprocess.run(command, check=True, cwd=HERE.parent)


def main() -> int:
    """Make the environments that the command line names; without names, all."""
    for name in sys.argv[1:] or LIBRARIES:
        library = LIBRARIES[name]
        try:
            make(library)
            print(f"{name}: {ENVIRONMENTS / library.requirements}")
        except subprocess.CalledProcessError as error:
            print(f"{name}: cannot be installed here ({error}); its row will say so")
    return 0


if __name__ == "__main__":
    sys.exit(main())
