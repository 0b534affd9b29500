"""Make `import grain` import `headrace.compat.grain`, in this process and in its workers.

In: a block of code, or a whole program. Out: its imports of Grain find headrace's modules.
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
    """Make `import grain` and `from grain import …` find headrace's modules from now on.

    It also has this effect in workers, and if Grain is installed. Call it before any module imports
    Grain: modules that have imported Grain before keep Grain's names.

    Returns:
        the package `headrace.compat.grain`.

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
    """Context manager in which `import grain` and `from grain import …` find headrace's modules.

    Its value is the package `headrace.compat.grain`. Afterwards, imports find Grain again, if it is
    installed.

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
    """Return all modules of `headrace.compat.grain`, by Grain's names."""
    package = import_module(_PACKAGE)
    for found in walk_packages(package.__path__, f"{_PACKAGE}."):
        import_module(found.name)
    modules = {
        name: module
        for name, module in sys.modules.items()
        if f"{name}.".startswith(f"{_PACKAGE}.")
    }
    return {f"grain{name.removeprefix(_PACKAGE)}": module for name, module in modules.items()}


def _theirs() -> dict[str, ModuleType]:
    return {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] == "grain"
    }
