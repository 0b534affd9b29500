"""Trees of arrays, taken apart and put together."""

import dataclasses
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from headrace.operations.trees import flatten


def test_threads_that_meet_a_dataclass_at_once_all_take_it_apart():
    """Its first sight, in several threads, is no error in any of them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(100):
                kind = dataclasses.make_dataclass("Kind", ["x"])
                together = threading.Barrier(8)

                def leaves(kind=kind, together=together):
                    together.wait()
                    return flatten(kind(1))[0]

                assert [one.result() for one in [threads.submit(leaves) for _ in range(8)]] == [[1]] * 8
    finally:
        sys.setswitchinterval(interval)
