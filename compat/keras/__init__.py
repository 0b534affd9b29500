"""`SaveAndResume` keeps a run of Keras's `model.fit`, which takes loaders and datasets. The extra `keras` brings Keras."""

from typing import TYPE_CHECKING

from ...common.lazy_exports import names_from

if TYPE_CHECKING:
    from .callback import SaveAndResume

__all__ = ["SaveAndResume"]

if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {"SaveAndResume": "callback"})
