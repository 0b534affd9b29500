"""Make Keras accept headrace's loaders and datasets, also if Keras is imported later.

In: an `import keras`, before or after this module is imported. Out: `fit`, `evaluate` and `predict`
accept headrace's data.
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
"""The Keras module that chooses the data adapter for what a user passes."""


def hook_keras() -> None:
    """Make Keras accept headrace's loaders and datasets as soon as Keras is imported.

    It does not import Keras. A second call does nothing.
    """
    if (adapters := sys.modules.get(_ADAPTERS)) is not None:
        _hook(adapters)
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported(MetaPathFinder):
    """Import hook that waits for one module of Keras, and changes it after it has run."""

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
