"""Files in fsspec's store in memory, `memory://`."""

from __future__ import annotations

from pathlib import Path

import fsspec


def uploaded(path: Path) -> str:
    """The URL of a copy of a file, or of a folder with all files in it, which replaces an earlier
    copy.
    """
    memory = fsspec.filesystem("memory")
    if memory.exists(str(path)):
        memory.rm(str(path), recursive=True)
    for file in [path] if path.is_file() else filter(Path.is_file, path.rglob("*")):
        memory.pipe(str(file), file.read_bytes())
    return f"memory:/{path}"
