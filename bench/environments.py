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

from libraries import ENVIRONMENTS, LIBRARIES

HERE = Path(__file__).parent


def make(name: str) -> None:
    """Make an environment, or bring it to what the file of its requirements asks for."""
    python = ENVIRONMENTS / name / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    if not python.exists():
        command = [*uv, "venv", "--quiet", "--python", "3.11", str(ENVIRONMENTS / name)]
        subprocess.run(command, check=True)
    packages = ["--requirement", str(HERE / "requirements" / f"{name}.txt"), "--compile-bytecode"]
    packages += ["--reinstall-package", "headrace"]  # what the clone has now
    command = [*uv, "pip", "install", "--quiet", "--python", str(python), *packages]
    subprocess.run(command, check=True, cwd=HERE.parent)


if __name__ == "__main__":
    for each in sys.argv[1:] or LIBRARIES:
        requirements = LIBRARIES[each].requirements
        try:
            make(requirements)
            print(f"{each}: {ENVIRONMENTS / requirements}")
        except subprocess.CalledProcessError as error:
            print(f"{each}: cannot be installed here ({error}); its row will say so")
