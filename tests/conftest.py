"""What every test is held to: it leaves no process, thread, descriptor, temporary file or shared memory behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import hypothesis
import pytest
from support import leaks

from headrace.loader import options
from headrace.testing import left_over

ROOT = Path(__file__).resolve().parent.parent

# `python -m pytest` puts the folder that it is called in first. From the root, `datasets` would be ours, not Hugging Face's.
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]

# The tests start hundreds of interpreters. Without bytecode each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ["KERAS_BACKEND"] = "jax"  # read when Keras is imported

# Who starts the tests in the background of a shell has Ctrl-C ignored, here and in all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("same every time", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("same every time")


def pytest_addoption(parser):
    """The options that add the long tests, and tests of a release."""
    parser.addoption("--long", action="store_true", help="run the tests marked `long` or `slow` too")
    parser.addoption("--share", default="1/1", metavar="K/N", help="of the long tests, run the K-th of N shares")


class RootIsNoPackage:
    """The folder of a clone is the package `headrace`: pytest must not import it once more, under the name of the folder."""

    @staticmethod
    def pytest_collect_directory(path, parent):
        """For the root, a folder of plain files; for others, what pytest finds."""
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config):
    """Property tests try more with the option; see `pipelines.tries`."""
    # Tests that name no kind of worker mean processes, in a Python without GIL too. test_worker_kind.py tests the choice.
    options.has_gil = lambda: True
    config.pluginmanager.register(RootIsNoPackage())  # hooks of this file are not asked about folders above it
    if config.getoption("--long"):
        os.environ["HEADRACE_LONG_TESTS"] = "1"


OF_LIBRARIES = (
    "tests/compat/test_clients",
    "tests/compat/test_grain_",
    "tests/compat/test_guides",
    "tests/compat/test_keras",
    "tests/conversion/test_convert_beam",
    "tests/bench/test_bench_loaders",
    "tests/bench/test_bench_resume",
    "tests/sources/test_sources_lance",
    "tests/sources/test_sources_tfds",
)
"""Tests that compare headrace with Grain and others, or need what few users have. Their mark is `library`; they are slow."""


def pytest_collection_modifyitems(config, items):
    """Without the options, long and slow tests are left out. What runs in actors is long, and needs a cluster.

    A share is one of the long tests. Slow tests are in each share.
    """
    for item in items:
        if item.location[0].startswith(OF_LIBRARIES):
            item.add_marker("library")
            item.add_marker("slow")
        parameters = getattr(item, "callspec", item).__dict__.get("params", {}).values()
        if "actors" in [one for one in parameters if isinstance(one, str)]:
            item.add_marker("long")
            item.add_marker("ray")
    _mark_thinned(items)
    number, shares = map(int, config.getoption("--share").split("/"))
    assert 1 <= number <= shares, "--share K/N: K from 1 to N"
    chosen, left_out = [], []
    for item in items:
        in_share = not item.get_closest_marker("long") or crc32(item.nodeid.encode()) % shares == number - 1
        always = not item.get_closest_marker("long") and not item.get_closest_marker("slow")
        (chosen if always or (config.getoption("--long") and in_share) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def _mark_thinned(items):
    """Of the cases of a test marked `one_in(n)` one n-th, spread over its parameters, runs always; the others are long."""
    cases = defaultdict(list)
    for item in items:
        if thinned := item.get_closest_marker("one_in"):
            cases[item.location[0], item.originalname, thinned.args[0]].append(item)
    for (*_, n), of_test in cases.items():
        of_test.sort(key=lambda item: crc32(item.name.encode()))
        for item in of_test[-(-len(of_test) // n) :]:
            item.add_marker("long")


def pytest_collection_finish():
    """What libraries and thousands of tests hold lives as long as the process: looking for garbage passes it over.

    Hypothesis runs once before: it looks at who holds NumPy's generator, and finds nobody in what is passed over.
    """
    hypothesis.find(hypothesis.strategies.none(), lambda _: True)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def temporary(tmp_path_factory):
    """A folder of this process takes the place of the system's, so that nobody else puts files there."""
    folder = tmp_path_factory.mktemp("temporary")
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ["HEADRACE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))  # not the one of who runs the tests
    return folder


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of this machine, in which tests marked `ray` do their work."""
    import ray

    from headrace.loader.executors.ray.cluster import start

    os.environ |= {
        "RAY_AUTH_MODE": "disabled",
        "RAY_memory_monitor_refresh_ms": "0",
    }  # others use the memory of CI, too
    folder = tempfile.mkdtemp(dir="/tmp")  # Ray's sockets need a short path
    start(num_cpus=4, object_store_memory=500 << 20, _temp_dir=folder)
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_left(temporary, request):
    """Fails a test that leaves something behind, names it, and clears it away before the next test."""
    if request.node.get_closest_marker("ray"):
        request.getfixturevalue("ray_cluster")
    before = leaks.present(temporary)
    yield
    request.node.funcargs.clear()  # pytest still holds what fixtures gave to the test
    left = leaks.more_than(before, temporary)
    leaks.clear(left)
    assert not left, left_over.described(left)
