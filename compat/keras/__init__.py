"""`SaveAndResume`: a Keras callback that saves and resumes `model.fit`.

The extra `keras` installs Keras.
"""

from typing import TYPE_CHECKING

from ...common.lazy_exports import names_from

if TYPE_CHECKING:
    from .callback import SaveAndResume

__all__ = ["SaveAndResume"]

if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {"SaveAndResume": "callback"})
