"""Names that a package imports when they are first used: a worker process needs few of them, and starts sooner.

In: names, and the modules that have them. Out: the package's `__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names_from(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose module `homes[name]` has `name`."""

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
