"""Find out whether a user's function uses Pillow, without calling it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

_PILLOW = "PIL"


def uses_pillow(function: Callable[..., Any] | None) -> bool:
    """Return True if the code of a function refers to Pillow.

    It may name its import, or one of its modules or objects.

    >>> def decoded(path):
    ...     from PIL import Image
    ...     return Image.open(path)
    >>> uses_pillow(decoded), uses_pillow(len), uses_pillow(None)
    (True, False, False)
    """
    while isinstance(function, functools.partial):
        function = function.func
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(plain, types.FunctionType):
        plain = vars(type(plain)).get("__call__")
    if not isinstance(plain, types.FunctionType):
        return False
    names = {name for code in _codes(plain.__code__) for name in code.co_names}
    return _PILLOW in names or any(_is_of_pillow(plain.__globals__.get(name)) for name in names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object, and the code objects of all functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_of_pillow(value: Any) -> bool:
    module = (
        value.__name__
        if isinstance(value, types.ModuleType)
        else getattr(value, "__module__", None)
    )
    return str(module).partition(".")[0] == _PILLOW
