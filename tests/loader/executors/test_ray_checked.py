"""What workers on other nodes tell of themselves when they begin: other code, or another pipeline,
is an error. Without Ray.
"""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
from support.pipelines import loader

import headrace
from headrace.common.pickled import pickled
from headrace.errors import ClusterMismatchError
from headrace.loader.executors.ray.agreement import (
    Begun,
    Checked,
    Release,
    identity_of,
    release_here,
    source_digest,
)
from headrace.loader.options import ExecutionOptions


def _pipeline(*operations):
    sampler = headrace.IndexSampler(40, num_epochs=1)
    return iter(
        headrace.DataLoader(data_source=range(40), sampler=sampler, operations=operations)
    )._pipeline


def _checked(pipeline):
    return Checked(pipeline, *_packed(pipeline))


def _begun(pipeline, release=None, identity=None, error=None):
    identity = identity_of(pipeline) if identity is None else identity
    return Begun("abc", 0.0, error, tuple(release or release_here()), identity)


def test_a_worker_that_has_the_same_is_welcome():
    """Whatever the pipeline is."""
    for name in ("random", "flat map, batch", "pack"):
        pipeline = iter(loader(name))._pipeline
        _checked(pipeline).check(_begun(pipeline), "10.0.0.7")


@pytest.mark.parametrize("error", [None, b"an error"])
def test_a_node_with_another_version_is_refused(error):
    """With both versions, the node, and what to do; also where it could not even unpickle the
    pipeline.
    """
    pipeline, here = _pipeline(), release_here()
    with pytest.raises(
        ClusterMismatchError, match=rf"node 10\.0\.0\.7 .*runs 9\.9 of headrace.*{here.version}"
    ) as told:
        _checked(pipeline).check(
            _begun(pipeline, here._replace(version="9.9"), "", error), "10.0.0.7"
        )
    assert f"Install headrace {here.version} there" in str(told.value)
    assert len(str(told.value)) < 500


def test_a_node_with_other_files_of_the_same_version_is_refused():
    """As two working copies may have; not where one of them has no files at all."""
    pipeline, here = _pipeline(), release_here()
    with pytest.raises(
        ClusterMismatchError, match=rf"other files of headrace {here.version} \(abcd\)"
    ):
        _checked(pipeline).check(_begun(pipeline, here._replace(source="abcd")), "10.0.0.7")
    _checked(pipeline).check(_begun(pipeline, here._replace(source="")), "10.0.0.7")


def test_the_digest_tells_any_change_of_the_package_and_no_other(tmp_path):
    """A byte, a name, a file more; but not ends of lines, nor what stands beside the package."""
    package = tmp_path / "package"
    (package / "room").mkdir(parents=True)
    for name in ("__init__.py", "room/__init__.py", "room/one.py"):
        (package / name).write_text(f"name = '{name}'\nnumber = 1\n")
    found = source_digest(package)
    (package / "tests").mkdir()
    (package / "tests" / "test_one.py").write_text("assert True\n")
    (package / "data.txt").write_text("data")
    (package / "room" / "one.py").write_bytes(b"name = 'room/one.py'\r\nnumber = 1\r\n")
    assert source_digest(package) == found
    others = set()
    for name, text in [
        ("room/one.py", "name = 'room/one.py'\nnumber = 2\n"),
        ("room/two.py", ""),
        ("three.py", "x"),
    ]:
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(package, copy)
        (copy / name).write_text(text)
        others.add(source_digest(copy))
    assert len(others - {found}) == 3
    (tmp_path / "nothing").mkdir()
    assert source_digest(tmp_path / "nothing") == ""


def test_this_package_has_a_digest():
    """Of the files that are imported here."""
    here = release_here()
    assert here.source == source_digest(Path(headrace.__file__).parent) != ""
    assert here.version == headrace.__version__


class _Times:
    """An operation with a number, which it may take for another one where it is unpickled."""

    def __init__(self, factor):
        self.factor = factor
        self.cache = [1, 2, 3]

    def __call__(self, x):
        return x * self.factor

    def __setstate__(self, state):
        self.__dict__ = {**state, "cache": []}


def test_a_node_that_unpickles_another_operation_is_refused():
    """As its module there is another one; the operation is named."""
    here, there = (_pipeline(abs, _Times(factor)) for factor in (2, 3))
    _checked(here).check(_begun(_unpickled(here)), "10.0.0.7")
    with pytest.raises(
        ClusterMismatchError,
        match=r"10\.0\.0\.7 .*another pipeline.*operation 1, .*_Times.* differs",
    ) as told:
        _checked(here).check(_begun(_unpickled(there)), "10.0.0.7")
    assert "identity_parameters()" in str(told.value)
    assert len(str(told.value)) < 500


def test_an_operation_that_pickle_changes_by_intent_is_none_of_it():
    """It becomes the same in this process; and a source that cannot tell what it is on a node is
    let pass.
    """
    here = _pipeline(_Times(2))
    assert identity_of(_unpickled(here)) != identity_of(here)
    _checked(here).check(_begun(_unpickled(here)), "10.0.0.7")
    _checked(here).check(_begun(here, identity=""), "10.0.0.7")


def _unpickled(pipeline):
    """The pipeline that an actor makes of the bytes that it gets."""
    data, buffers = _packed(pipeline)
    return pickle.loads(data, buffers=buffers)[1]


def _packed(pipeline):
    """What actors get: the options, then the pipeline."""
    return pickled((ExecutionOptions(1), pipeline))


def test_another_numpy_is_one_warning(caplog):
    """For a node, and not for a release that only repairs: generators keep their
    numbers in those.
    """
    pipeline, here = _pipeline(), release_here()
    checked = _checked(pipeline)
    major, minor, *_ = here.numpy.split(".")
    for numpy in [f"{major}.{minor}.99", f"{major}.99.0", f"{major}.99.0"]:
        checked.check(_begun(pipeline, here._replace(numpy=numpy)), "10.0.0.7")
    (text,) = caplog.messages
    assert f"NumPy {major}.99.0" in text
    assert "10.0.0.7" in text


def test_what_crosses_from_a_node_is_plain():
    """Other versions have to understand it."""
    assert json.loads(json.dumps(Release(*release_here()))) == list(release_here())
