"""Methods that join datasets, and are called of the class alone.

In: a method. Out: the same; called of one dataset it is an AttributeError with the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class _Join(staticmethod):  # type: ignore[type-arg]  # it takes none at run time
    """A static method that joins datasets: called of one of them, it would leave that one out."""

    def __get__(self, dataset: Any, kind: Any = None) -> Any:
        if dataset is None:
            return super().__get__(dataset, kind)
        join = self.__func__
        raise AttributeError(
            f"{join.__name__} joins the datasets in its list, and not the one that it is called of; write "
            f"{join.__qualname__}([dataset, …])."
        )


def joins(method: F) -> F:
    """A static method that is only called of the class."""
    return _Join(method)  # type: ignore[return-value]
