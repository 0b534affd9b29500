"""`grain.python.experimental`: the same as `grain.experimental`."""

from ..experimental import *  # noqa: F403
