"""Other libraries' names and states over ours; nothing else knows them. Keras takes what is ours once this is imported."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from
from .keras.hook import hook_keras

if TYPE_CHECKING:
    from .replaced import grain_replaced, install

__all__ = ["grain_replaced", "install"]

if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {"grain_replaced": "replaced", "install": "replaced"})

hook_keras()
