"""`grain._src`: names in Grain's private modules that programs import.

Importing this module makes all its submodules importable.
"""

import sys as _sys
from functools import partial as _partial
from types import ModuleType as _ModuleType

from ...adapters.inner import names as _names


def _module(name: str) -> _ModuleType:
    made = _ModuleType(f"{__name__}.{name}", f"`grain._src.{name}`, as far as programs import it.")
    made.__path__ = []  # what is below it is found
    made.__getattr__ = _partial(_names.name_in, name)  # type: ignore[method-assign]
    return made


for _name in dict.fromkeys(_names.modules()):
    _made = _sys.modules.setdefault(f"{__name__}.{_name}", _module(_name))
    _above, _, _last = _made.__name__.rpartition(".")
    setattr(_sys.modules[_above], _last, _made)
