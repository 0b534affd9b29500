"""Names that a package imports when they are first used: a worker process needs few of them, and starts sooner.

In: names, and the modules that have them. Out: the package's `__getattr__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError


def names_from(package: str, homes: Mapping[str, str], entry_points: str = "") -> Callable[[str], Any]:
    """The `__getattr__` of a package whose module `homes[name]` has `name`; others may have it in a group of entry points.

    Stands after `if not TYPE_CHECKING:`; a type checker would else believe that the package has every name.
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if entry_points and not name.startswith("_") and (found := installed(entry_points, name)) is not None:
            return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def optional_library(module: str, user: str, extra: str) -> Any:
    """A module of a package that is not always installed. `user` says who needs what.

    Raises:
        MissingExtraError: it is not installed.

    >>> optional_library("no_such.thing", "tests need nothing", "tests")
    Traceback (most recent call last):
    headrace.errors.MissingExtraError: tests need nothing: pip install "headrace[tests]"
    """
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f'{user}: pip install "headrace[{extra}]"') from error


def installed(group: str, name: str) -> Any:
    """The object that an installed package offers under this name, by an entry point; None if none does."""
    point = _entry_points(group).get(name)
    return None if point is None else point.load()


@cache
def _entry_points(group: str) -> dict[str, Any]:
    from importlib.metadata import entry_points  # which takes some milliseconds

    return {point.name: point for point in entry_points(group=group)}
