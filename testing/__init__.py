"""Test your own sources, samplers, operations and transports by classes for pytest.

The classes check what headrace expects of such objects.

Subclass one of them in a test file, and say how to make the object. pytest runs the tests of the
class. Needs pytest. `simulate` runs a loader with workers that die and come late, without
processes.

>>> import headrace
>>> from headrace.testing import OperationConformance
>>> class TestDouble(OperationConformance):
...     def operations(self):
...         return [headrace.MapTransform(lambda record: record * 2)]
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in ("comparing", "sources", "streams", "transports", "transport_runs")
    )
)

# Before the lines above, pytest would not show values.
from .fake_transport import FakeTransport  # noqa: E402
from .faults import (  # noqa: E402
    FakeWorkerDeath,
    Faults,
    SimulationError,
    StuckError,
    TransportMisuseError,
)
from .operations import OperationConformance  # noqa: E402
from .samplers import SamplerConformance  # noqa: E402
from .simulation import simulate  # noqa: E402
from .sources import SourceConformance  # noqa: E402
from .transports import TransportConformance  # noqa: E402

__all__ = [
    "FakeTransport",
    "FakeWorkerDeath",
    "Faults",
    "OperationConformance",
    "SamplerConformance",
    "SimulationError",
    "SourceConformance",
    "StuckError",
    "TransportConformance",
    "TransportMisuseError",
    "simulate",
]
