"""What every test is held to: it leaves no process, thread, descriptor, temporary file or shared
memory behind.
"""

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

# `python -m pytest` puts the folder that it is called in first. From the root, `datasets` would be
# ours, not Hugging Face's.
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]

# The tests start hundreds of interpreters. Without bytecode each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ["KERAS_BACKEND"] = "jax"  # read when Keras is imported

# Who starts the tests in the background of a shell has Ctrl-C ignored, here and in all programs
# that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile(
    "same every time", derandomize=True, database=None, deadline=None
)
hypothesis.settings.load_profile("same every time")


def pytest_addoption(parser):
    """The options that add the long tests, and tests of a release."""
    parser.addoption(
        "--long", action="store_true", help="run the tests marked `long` or `slow` too"
    )
    parser.addoption(
        "--share", default="1/1", metavar="K/N", help="of the long tests, run the K-th of N shares"
    )


class RootIsNoPackage:
    """The folder of a clone is the package `headrace`: pytest must not import it once more, under
    the name of the folder.
    """

    @staticmethod
    def pytest_collect_directory(path, parent):
        """For the root, a folder of plain files; for others, what pytest finds."""
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config):
    """Property tests try more with the option; see `pipelines.tries`."""
    # Tests that name no kind of worker mean processes, in a Python without GIL too.
    # test_worker_kind.py tests the choice.
    options.has_gil = lambda: True
    # hooks of this file are not asked about folders above it
    config.pluginmanager.register(RootIsNoPackage())
    if config.getoption("--long"):
        os.environ["HEADRACE_LONG_TESTS"] = "1"


LEFT_OUT = ("long", "slow", "library", "docs")
"""Marks of tests that only the option `--long` runs."""

OF_FILES = {
    "library": (
        "tests/bench/test_bench_loaders",
        "tests/bench/test_bench_resume",
        "tests/chains/test_hugging_face_streams",
        "tests/compat/",
        "tests/conversion/test_convert_beam",
        "tests/conversion/test_convert_hugging_face",
        "tests/conversion/test_convert_remote",
        "tests/files/test_remote_files",
        "tests/operations/test_augment",
        "tests/operations/test_images",
        "tests/operations/test_video",
        "tests/reporting/test_report",
        "tests/sources/test_hdf5_rows",
        "tests/sources/test_remote_",
        "tests/sources/test_rlds",
        "tests/sources/test_sources_arrays",
        "tests/sources/test_sources_hugging_face",
        "tests/sources/test_sources_lance",
        "tests/sources/test_sources_lerobot",
        "tests/sources/test_sources_tables",
        "tests/sources/test_sources_tfds",
        "tests/sources/test_sources_xarray",
    ),
    "docs": (
        "tests/test_docs",
        "tests/test_examples",
        "tests/test_messages",
        "tests/test_notebooks",
        "tests/test_recipes",
        "tests/test_structure",
        "tests/test_types",
        "tests/test_wheel",
    ),
}
"""Files whose tests all have a mark: those of other libraries, and of docs and style. Plain pytest
imports none of them.
"""


def _marks(path):
    """The marks of all tests of a file."""
    place = os.path.relpath(path, ROOT)
    return [mark for mark, files in OF_FILES.items() if place.startswith(files)]


def _is_named(path, config):
    """Whether the command line names this file, or a test of it."""
    return any(Path(name.split("::")[0]).resolve() == path for name in config.args)


def pytest_ignore_collect(collection_path, config):
    """Files of which plain pytest runs no test are not imported: their libraries take seconds in
    each process.
    """
    if config.getoption("--long") or not _marks(collection_path) or collection_path.is_dir():
        return None
    return None if _is_named(collection_path, config) else True


def pytest_collection_modifyitems(config, items):
    """Without the options, tests with one of the marks are left out, but for those of a file that
    is named.

    What runs in actors is long, and needs a cluster. A share is one of the long tests. The others
    are in each share.
    """
    for item in items:
        for mark in _marks(item.path):
            item.add_marker(mark)
        parameters = getattr(item, "callspec", item).__dict__.get("params", {}).values()
        if "actors" in [one for one in parameters if isinstance(one, str)]:
            item.add_marker("long")
            item.add_marker("ray")
    _mark_thinned(items)
    number, shares = map(int, config.getoption("--share").split("/"))
    assert 1 <= number <= shares, "--share K/N: K from 1 to N"
    chosen, left_out = [], []
    for item in items:
        in_share = (
            not item.get_closest_marker("long")
            or crc32(item.nodeid.encode()) % shares == number - 1
        )
        marks = {mark for mark in LEFT_OUT if item.get_closest_marker(mark)}
        always = not (marks - {*OF_FILES} if _is_named(item.path, config) else marks)
        (chosen if always or (config.getoption("--long") and in_share) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


def _mark_thinned(items):
    """Of the cases of a test marked `one_in(n)` one n-th, spread over its parameters, runs always;
    the others are long.
    """
    cases = defaultdict(list)
    for item in items:
        if thinned := item.get_closest_marker("one_in"):
            cases[item.path, item.originalname, thinned.args[0]].append(item)
    for (*_, n), of_test in cases.items():
        of_test.sort(key=lambda item: crc32(item.name.encode()))
        for item in of_test[-(-len(of_test) // n) :]:
            item.add_marker("long")


def pytest_collection_finish():
    """What libraries and thousands of tests hold lives as long as the process: looking for garbage
    passes it over.

    Hypothesis runs once before: it looks at who holds NumPy's generator, and finds nobody in what
    is passed over.
    """
    hypothesis.find(hypothesis.strategies.none(), lambda _: True)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def temporary(tmp_path_factory):
    """A folder of this process takes the place of the system's, so that nobody else puts files
    there.
    """
    folder = tmp_path_factory.mktemp("temporary")
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    # not the one of who runs the tests
    os.environ["HEADRACE_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    return folder


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of this machine, in which tests marked `ray` do their work."""
    import ray

    from headrace.loader.executors.ray.cluster import start

    # others use the memory of CI, too
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_memory_monitor_refresh_ms": "0"}
    folder = tempfile.mkdtemp(dir="/tmp")  # Ray's sockets need a short path
    start(num_cpus=4, object_store_memory=500 << 20, _temp_dir=folder)
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_left(temporary, request):
    """Fails a test that leaves something behind, names it, and clears it away before
    the next test.
    """
    if request.node.get_closest_marker("ray"):
        request.getfixturevalue("ray_cluster")
    before = leaks.present(temporary)
    yield
    request.node.funcargs.clear()  # pytest still holds what fixtures gave to the test
    left = leaks.more_than(before, temporary)
    leaks.clear(left)
    assert not left, left_over.described(left)
