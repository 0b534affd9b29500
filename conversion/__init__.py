"""Data in one form → shards in another, on one machine or as a pipeline of Beam; and checks of what was written."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .conversion import convert
    from .manifest import Manifest, verify

__all__ = ["Manifest", "convert", "verify"]

__getattr__ = names_from(__name__, {"Manifest": "manifest", "convert": "conversion", "verify": "manifest"})
