"""Names and checkpoint formats of other libraries (Grain, Keras), built on headrace.

Importing this package makes Keras's `fit`, `evaluate` and `predict` accept headrace's loaders and
datasets. Of the other parts of headrace, only `checkpoint.from_grain_state` uses it.
"""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from
from .keras.hook import hook_keras

if TYPE_CHECKING:
    from .replaced import grain_replaced, install

__all__ = ["grain_replaced", "install"]

if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {"grain_replaced": "replaced", "install": "replaced"})

hook_keras()
