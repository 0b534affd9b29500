"""Runs programs that use `RemoteLoader`, whose hosts are groups of eight CPU devices of one
process.
"""

from __future__ import annotations

import textwrap

import pytest
from support import device_programs

PRELUDE = """
import jax, numpy as np
import headrace
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = np.array(jax.devices())
assert len(devices) == 8
mesh = Mesh(devices, ("data",))
whole = np.arange(200)

def remote(make_loader, hosts, on_uneven="pad", sharding=(mesh, "data"), **options):
    return headrace.RemoteLoader(make_loader, sharding, on_uneven, host_of=lambda device: device.id * hosts // 8, **options)

def real(iterator):
    return [np.asarray(batch)[np.asarray(iterator.mask)].tolist() for batch in iterator]
"""


@pytest.fixture(scope="module")
def interpreter():
    """One with eight devices."""
    own = device_programs.Interpreter(**device_programs.EIGHT)
    yield own
    own.close()


@pytest.fixture
def run(interpreter):
    """Run a program in a new process, and return its standard output."""
    return lambda program: interpreter.run(PRELUDE + textwrap.dedent(program))
