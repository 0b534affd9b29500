"""`grain.python.experimental`: the same as `grain.experimental`."""

from ..experimental import *  # noqa: F403
from ..experimental import __all__ as __all__
