"""What must be the same on all nodes, as it decides the stream: the code of this package, and the pipeline that was unpickled.

In: the files of the package; a pipeline. Out: plain values, which cross from a node; and why two of them cannot work together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...plan.identity import Identity
from ...plan.pipeline import Pipeline

PACKAGE = __name__.partition(".")[0]


class Release(NamedTuple):
    """The code that a process runs. Releases before this one tell nothing of theirs."""

    version: str = "an older version"
    source: str = ""  # a digest of the package's own files; "" where there are none
    numpy: str = ""  # random operations draw from its generators


@cache
def release_here() -> Release:
    """That of this process, as it was when this was asked first."""
    return Release(metadata.version(PACKAGE), source_digest(Path(__file__).parents[3]), np.__version__)


def source_digest(folder: Path) -> str:
    """A digest of the Python files of a package and of the packages in it, whatever ends their lines; "" if there are none."""
    found = hashlib.sha256()
    files = list(_sources(folder, ""))
    for name, path in files:
        text = path.read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{name} {len(text)}\n".encode() + text)
    return found.hexdigest()[:16] if files else ""


def _sources(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            yield f"{name}{path.name}", path
        elif (path / "__init__.py").is_file():
            yield from _sources(path, f"{name}{path.name}/")


def mismatch(here: Release, there: Release) -> str | None:
    """What two processes differ in, so that they might make different streams; None: in nothing."""
    if here.version != there.version:
        return f"it runs {there.version} of headrace, and this process {here.version}"
    if here.source and there.source and here.source != there.source:
        return f"it runs other files of headrace {here.version} ({there.source}) than this process ({here.source})"
    return None


def numpy_mismatch(here: Release, there: Release) -> str | None:
    """What is worth a warning: NumPy's generators may give other numbers after a release that is no bug fix."""
    if not there.numpy or _feature_release(here.numpy) == _feature_release(there.numpy):
        return None
    return f"it runs NumPy {there.numpy}, and this process {here.numpy}"


def _feature_release(version: str) -> list[str]:
    return version.split(".")[:2]


def identity_of(pipeline: Pipeline) -> str:
    """What identifies source and operations now, as text; "" if they do not tell it here."""
    try:
        now = Identity.of([leaf.source for leaf in pipeline.leaves], pipeline.operations)
        return json.dumps([now.source, now.operations], sort_keys=True)
    except Exception:  # of a user's own source, which may need what only the user's process has
        return ""
