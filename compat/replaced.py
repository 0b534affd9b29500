"""Grain's names in `sys.modules`, so that a program's `import grain` takes ours.

In: a block of code. Out: what it imports under these names is `headrace.compat.grain`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType


@contextmanager
def grain_replaced() -> Iterator[ModuleType]:
    """While it lasts, `import grain` and `from grain import …` find ours.

    >>> with grain_replaced():
    ...     from grain.python import MapTransform
    >>> MapTransform.__module__
    'headrace.compat.adapters.transforms'
    """
    package = import_module("headrace.compat.grain")
    below = [import_module(found.name) for found in walk_packages(package.__path__, f"{package.__name__}.")]
    ours = {f"grain{module.__name__.removeprefix(package.__name__)}": module for module in (package, *below)}
    before = {name: module for name, module in sys.modules.items() if name == "grain" or name.startswith("grain.")}
    for name in before:
        del sys.modules[name]
    sys.modules.update(ours)
    try:
        yield package
    finally:
        for name in ours:
            sys.modules.pop(name, None)
        sys.modules.update(before)
