"""Test your own sources, samplers and operations: classes for pytest that check what headrace expects of them.

Subclass one of them in a test file, and say how to make the object. pytest runs the tests of the class. Needs pytest.

>>> import headrace
>>> from headrace.testing import OperationConformance
>>> class TestDouble(OperationConformance):
...     def operations(self):
...         return [headrace.MapTransform(lambda record: record * 2)]
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(f"{__name__}.comparing", f"{__name__}.sources", f"{__name__}.streams")

from .operations import OperationConformance  # noqa: E402  before the line above, pytest would not show values
from .samplers import SamplerConformance  # noqa: E402
from .sources import SourceConformance  # noqa: E402

__all__ = ["OperationConformance", "SamplerConformance", "SourceConformance"]
