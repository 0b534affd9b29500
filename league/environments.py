"""Make the environments of the loaders, outside of the repository.

    python league/environments.py [NAME …]

`requirements/NAME.txt` lists the packages of a loader. The result is a Python interpreter for each
loader. `LEAGUE_CACHE` names the folder of the environments, `UV_FIND_LINKS` a folder with wheels.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("LEAGUE_CACHE", Path.home() / ".cache" / "headrace-league"))


@dataclass(frozen=True)
class Loader:
    """A loader that takes part.

    Attributes:
        title: what the tables call it.
        adapter: the module in `adapters/` for the resume league; empty for a loader that has no state.
        requirements: the file in `requirements/`, and the folder of its environment.
        stateless: why it takes no part in the resume league; the page says so.
    """

    title: str
    adapter: str
    requirements: str
    stateless: str = ""


LOADERS = {
    "headrace": Loader("headrace", "with_headrace", "headrace"),
    "headrace_array_record": Loader(
        "headrace, ArrayRecord", "", "headrace", "it is headrace, with another format of files in the table of speeds"
    ),
    "grain": Loader("Grain", "with_grain", "grain"),
    "torch": Loader("PyTorch, torchdata", "with_torch", "torchdata"),
    "streaming": Loader("MosaicML Streaming", "with_streaming", "streaming"),
    "litdata": Loader("LitData", "with_litdata", "litdata"),
    "hf_map": Loader("Hugging Face, on disk", "with_hf_map", "datasets"),
    "hf_stream": Loader("Hugging Face, streaming", "with_hf_stream", "datasets"),
    "webdataset": Loader("webdataset", "with_webdataset", "webdataset"),
    "spdl": Loader("SPDL", "", "spdl", "its pipelines have no state that could be saved and loaded"),
}


def python_of(loader: Loader) -> str | None:
    """The Python that has it: of its own environment, else this one if it has the package; None if neither is there."""
    own = CACHE / loader.requirements / "bin" / "python"
    if own.exists():
        return str(own)
    if importlib.util.find_spec(loader.requirements) is not None:
        return sys.executable
    return None


def make(loader: Loader) -> None:
    """Makes an environment, or brings it to what the file asks for; `uv` does both in seconds where it has the wheels."""
    folder = CACHE / loader.requirements
    uv = [sys.executable, "-m", "uv"]
    if not (folder / "bin" / "python").exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    file = HERE / "requirements" / f"{loader.requirements}.txt"
    command = [*uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), "--requirement", str(file)]
    command += ["--compile-bytecode", "--reinstall-package", "headrace"]  # what the clone has now
    subprocess.run(command, check=True, cwd=HERE.parent)


def main() -> int:
    """Makes the environments that the command line names; without names, all."""
    for name in sys.argv[1:] or LOADERS:
        loader = LOADERS[name]
        try:
            make(loader)
            print(f"{name}: {CACHE / loader.requirements}")
        except subprocess.CalledProcessError as error:
            print(f"{name}: cannot be installed here ({error}); its row will say so")
    return 0


if __name__ == "__main__":
    sys.exit(main())
