"""Grain's names in `sys.modules`, so that a program's `import grain` takes ours, in its workers too.

In: a block of code, or a whole program. Out: what it imports under these names is `headrace.compat.grain`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from ..common.pickled import CALLED_FIRST

_PACKAGE = "headrace.compat.grain"


def install() -> ModuleType:
    """From now on, `import grain` and `from grain import …` find ours, here and in workers, whether Grain is installed or not.

    Call it before anything else imports Grain; what did so keeps what it has. Returns our package.

    >>> import headrace.compat
    >>> headrace.compat.install().__name__  # doctest: +SKIP
    'headrace.compat.grain'
    """
    names = _ours()
    for name in _theirs():
        del sys.modules[name]
    sys.modules.update(names)
    if install not in CALLED_FIRST:
        CALLED_FIRST.append(install)
    return names["grain"]


@contextmanager
def grain_replaced() -> Iterator[ModuleType]:
    """While it lasts, `import grain` and `from grain import …` find ours.

    >>> with grain_replaced():
    ...     from grain.python import MapTransform
    >>> MapTransform.__module__
    'headrace.compat.adapters.transforms'
    """
    before, called_first = _theirs(), list(CALLED_FIRST)
    package = install()
    try:
        yield package
    finally:
        for name in _theirs():
            del sys.modules[name]
        sys.modules.update(before)
        CALLED_FIRST[:] = called_first


def _ours() -> dict[str, ModuleType]:
    """All modules of ours, by Grain's names."""
    package = import_module(_PACKAGE)
    for found in walk_packages(package.__path__, f"{_PACKAGE}."):
        import_module(found.name)
    modules = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{_PACKAGE}.")}
    return {f"grain{name.removeprefix(_PACKAGE)}": module for name, module in modules.items()}


def _theirs() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "grain"}
