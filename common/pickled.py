"""Pickle a pipeline for workers.

Large contiguous arrays are kept outside the pickle, and are not copied.
"""

from __future__ import annotations

import io
import linecache
import marshal
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import cloudpickle

from ..errors import PicklingError
from .messages import a_kind_of, short_repr, shorten

OUT_OF_BAND = 64 << 10
"""Least size in bytes of a buffer that is kept outside the pickle, in memory that workers share."""

CALLED_FIRST: list[Callable[[], object]] = []
"""Functions that a worker calls before it unpickles a pipeline."""

_MAX_DEPTH = 20  # of what is named as the reason why pickling failed


def pickled(value: Any, parts: Iterable[tuple[str, Any]] = ()) -> tuple[bytes, list[memoryview]]:
    """Pickle a pipeline, and return the pickle and the buffers of 64 kB or more kept outside it.

    Args:
        value: the pipeline, alone or with other objects.
        parts: objects in the pipeline that the user passed, each after a name for it.

    Raises:
        PicklingError: if an object in the pipeline cannot be pickled. The message says where it is,
            beginning with the name of the first of `parts` that contains it, or "the pipeline".
    """
    buffers: list[memoryview] = []

    def stays_inline(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < OUT_OF_BAND:
            return True
        buffers.append(buffer.raw())
        return False

    try:
        whole = _AfterCalls(value) if CALLED_FIRST else value
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=stays_inline).dump(whole)
        return stream.getvalue(), buffers
    except Exception as error:
        reason = f"{type(error).__name__}: {shorten(error, 150)}"
        name, part = next(
            (named for named in parts if not _can_be_pickled(named[1])), ("the pipeline", value)
        )
        raise PicklingError(
            f"{_culprit(part, name)} ({reason}), but worker processes receive the pipeline by "
            "pickle. Create the object inside the function that uses it, or leave it out in "
            "__getstate__."
        ) from error


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler like cloudpickle's that also keeps `__slots__` of classes, which cloudpickle drops.

    It matters for classes that are pickled by value, e.g. of a notebook.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Pickle a class with its slots, and everything else as cloudpickle does."""
        reduced = super().reducer_override(obj)
        if not isinstance(obj, type) or type(reduced) is not tuple or "__slots__" not in vars(obj):
            return reduced
        build, arguments, *state = reduced
        if getattr(build, "__name__", "") != "_make_skeleton_class":
            return reduced
        kind, name, bases, namespace, *identity = arguments
        slots = {"__slots__": obj.__slots__}  # type: ignore[attr-defined]
        return build, (kind, name, bases, {**namespace, **slots}, *identity), *state


class _Pickler(Pickler):
    """A pickler that also keeps file names and lines of functions, for tracebacks."""

    # cloudpickle leaves out the names of files.

    def reducer_override(self, obj: Any) -> Any:
        """Pickle code objects with their file names (for notebooks, also the text).

        All else as cloudpickle does.
        """
        if type(obj) is not CodeType:
            return super().reducer_override(obj)
        name = obj.co_filename
        # of a notebook, only this process knows it
        text = None if os.path.exists(name) else linecache.cache.get(name)
        try:
            return _code, (
                marshal.dumps(obj),
                name,
                text[2] if text is not None and len(text) > 2 else None,
            )
        except ValueError:  # a library has put an object among its constants
            return super().reducer_override(obj)


def _code(data: bytes, name: str, lines: list[str] | None) -> CodeType:
    """Build a code object.

    Args:
        data: the code object, as `marshal` writes it.
        name: name of its source file.
        lines: the source text, for tracebacks, if the file does not exist; else None.
    """
    if lines is not None and name not in linecache.cache:
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    code: CodeType = marshal.loads(data)
    return code


class _AfterCalls:
    """Wrapper of a value that calls the functions in `CALLED_FIRST` before it is unpickled."""

    # Pickle loads the arguments of a call in their order.

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, tuple[Any, Any]]:
        return _second, (_Calls(), self.value)


class _Calls:
    def __reduce__(self) -> tuple[Any, tuple[list[Callable[[], object]]]]:
        return _call_all, (list(CALLED_FIRST),)


def _second(first: None, second: Any) -> Any:
    return second


def _call_all(functions: list[Callable[[], object]]) -> None:
    for function in functions:
        function()


def _culprit(value: Any, name: str, depth: int = 0) -> str:
    """Return a text that names the innermost part of `value` that cannot be pickled.

    Args:
        value: a value that cannot be pickled.
        name: text that names `value`; the path to the part follows.
        depth: number of values that contain it; at 20, the search ends.
    """
    for label, part in _parts(value) if depth < _MAX_DEPTH else ():
        if not _can_be_pickled(part):
            return _culprit(part, f"{name}{label}", depth + 1)
    return f"{shorten(name, 150)} is {a_kind_of(value)}, which cannot be pickled"


def _can_be_pickled(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield pairs of a label and a part of a value, for the parts that pickle would visit."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    if isinstance(value, dict):
        yield from ((f"[{short_repr(key)}]", item) for key, item in value.items())
    yield from _parts_of_function(value)
    if not isinstance(value, type):
        yield from (
            (f".{attribute}", item) for attribute, item in getattr(value, "__dict__", {}).items()
        )


def _parts_of_function(value: Any) -> Iterator[tuple[str, Any]]:
    function = value.__func__ if isinstance(value, MethodType) else value
    if not isinstance(function, FunctionType):
        return
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        yield f", variable {variable!r},", cell.cell_contents
    variables = function.__globals__
    for variable in function.__code__.co_names:
        if variable in variables and not callable(variables[variable]):
            yield f", global {variable!r},", variables[variable]
