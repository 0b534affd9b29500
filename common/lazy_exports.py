"""Lazy imports: public names are imported when first used, so that workers start faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ..errors import MissingExtraError
from .messages import shorten


def names_from(
    package: str, homes: Mapping[str, str], entry_points: str = ""
) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a public name when it is first used.

    It raises AttributeError for other names. Call this after `if not TYPE_CHECKING:`; otherwise a
    type checker believes that the package has every name.

    Args:
        package: name of the package.
        homes: for each public name, the module of the package that defines it.
        entry_points: group of entry points, by which other packages may offer further names; "":
            none.
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if (
            entry_points
            and not name.startswith("_")
            and (found := installed(entry_points, name)) is not None
        ):
            return found
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}. Use one of the names in "
            f"{package}.__all__."
        )

    return get


def optional_library(module: str, user: str, extra: str) -> Any:
    """Import and return a module of a package that may not be installed.

    Args:
        module: name of the module.
        user: what needs the module, for the error message.
        extra: the extra of headrace that installs it.

    Raises:
        MissingExtraError: if the module is not installed, or is installed and cannot be imported.

    >>> optional_library("no_such.thing", "tests need nothing", "tests")
    Traceback (most recent call last):
    headrace.errors.MissingExtraError: tests need nothing: pip install "headrace[tests]"
    """
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f'{user}: pip install "headrace[{extra}]"') from error
    except ImportError as error:  # such as a library of the system that is missing
        raise MissingExtraError(
            f"{user}. The module {module} is installed, but cannot be imported: {shorten(error)}. "
            "Install its package again."
        ) from error


def installed(group: str, name: str) -> Any:
    """Return the object that an installed package offers as entry point `name` of `group`.

    Return None if none does.
    """
    point = _entry_points(group).get(name)
    return None if point is None else point.load()


@cache
def _entry_points(group: str) -> dict[str, Any]:
    from importlib.metadata import entry_points  # which takes some milliseconds

    return {point.name: point for point in entry_points(group=group)}
