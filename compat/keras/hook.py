"""Keras takes our loaders and datasets: a finder that waits for Keras to be imported.

In: an `import keras`, of now or of later. Out: its `fit`, `evaluate` and `predict` know what is ours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ADAPTERS = "keras.src.trainers.data_adapters"
"""The module in which Keras chooses who reads the data."""


def hook_keras() -> None:
    """Have Keras take our loaders and datasets, from when it is imported. Imports nothing of it; may be called twice."""
    if (adapters := sys.modules.get(_ADAPTERS)) is not None:
        _hook(adapters)
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported(MetaPathFinder):
    """Finds one module as the others do, and hooks it when it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _ADAPTERS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run: Any = spec.loader.exec_module

            def run_and_hook(module: ModuleType) -> None:
                run(module)
                _hook(module)

            spec.loader.exec_module = run_and_hook  # type: ignore[method-assign]
        return spec


def _hook(adapters: ModuleType) -> None:
    choose = getattr(adapters, "get_data_adapter", None)  # an older Keras goes without
    if choose is None or hasattr(choose, "__wrapped__"):
        return

    @wraps(choose)
    def get_data_adapter(x: Any, *arguments: Any, **options: Any) -> Any:
        from .adapter import chosen  # needs all of Keras

        return chosen(choose, x, *arguments, **options)

    adapters.get_data_adapter = get_data_adapter  # type: ignore[attr-defined]
