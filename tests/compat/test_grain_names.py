"""Every public name of Grain is there, or has a reason."""

import importlib
import inspect

import grain
import grain.python
import grain_names
import pytest

import headrace.compat.grain
from headrace.compat.grain import MapDataset
from headrace.compat.grain import python as pygrain
from headrace.compat.grain.checkpoint import CheckpointHandler
from headrace.compat.grain.experimental import index_shuffle
from headrace.compat.grain.python.experimental import FirstFitPackIterDataset

OURS = "headrace.compat.grain"


@pytest.mark.parametrize("module", grain_names.MODULES)
def test_every_name_of_grain_is_there_or_has_a_reason(module):
    """Modules, classes, functions and constants, in the same modules."""
    ours = importlib.import_module(f"{OURS}.{module}" if module else OURS)
    missing = {
        name for name in grain_names.public_names("grain", module) if not hasattr(ours, name)
    }
    assert missing == {
        name for name in missing if grain_names.REMARKS.get(name, ("",))[0] == grain_names.ABSENT
    }
    assert not {
        name
        for name, (kind, _) in grain_names.REMARKS.items()
        if kind == grain_names.ABSENT and hasattr(ours, name)
    }


@pytest.mark.parametrize("module", grain_names.MODULES)
def test_names_take_grains_arguments(module):
    """By the same names, in the same order; there may be more of them."""
    ours = importlib.import_module(f"{OURS}.{module}" if module else OURS)
    for name, theirs in grain_names.public_names("grain", module).items():
        expected = grain_names.arguments_of(theirs)
        made_by_others = name in ("DataLoaderIterator", "PyGrainDatasetIterator")
        if (
            expected
            and hasattr(ours, name)
            and not made_by_others
            and not inspect.isabstract(theirs)
            and not _is_protocol(theirs)
        ):
            found = grain_names.arguments_of(getattr(ours, name))
            assert [each for each in found if each in expected] == expected, (name, found, expected)


def _is_protocol(thing):
    return getattr(thing, "_is_protocol", False)


@pytest.mark.parametrize("kind", ["MapDataset", "IterDataset"])
def test_datasets_have_grains_methods_and_arguments(kind):
    """All public methods of both kinds of datasets."""
    ours = getattr(headrace.compat.grain, kind)
    for name, theirs in inspect.getmembers(getattr(grain, kind)):
        if not name.startswith("_"):
            expected, found = (
                grain_names.arguments_of(theirs),
                grain_names.arguments_of(getattr(ours, name)),
            )
            assert name == "pipe" or not expected or set(expected) <= set(found), (
                name,
                expected,
                found,
            )


PROTOCOLS = [
    "__len__",
    "__getitem__",
    "__iter__",
    "__next__",
    "__contains__",
    "__reversed__",
    "__call__",
    "__array__",
]


@pytest.mark.parametrize("module", grain_names.MODULES)
def test_classes_fulfil_the_protocols_that_grains_do(module):
    """Programs ask `isinstance(x, Sized)`: no class here has a special method that Grain's does not
    have.
    """
    ours = importlib.import_module(f"{OURS}.{module}" if module else OURS)
    for name, theirs in grain_names.public_names("grain", module).items():
        if inspect.isclass(theirs) and inspect.isclass(found := getattr(ours, name, None)):
            # progress bars ask
            more = (
                {"__len__"} if name in ("DataLoaderIterator", "PyGrainDatasetIterator") else set()
            )
            here = {
                each for each in PROTOCOLS if inspect.getattr_static(found, each, None) is not None
            }
            there = {
                each for each in PROTOCOLS if inspect.getattr_static(theirs, each, None) is not None
            }
            assert here <= there | more, name


def test_names_are_imported_as_programs_do():
    """As a package, by modules, and by names of modules of modules."""
    assert pygrain.MapDataset is MapDataset is headrace.compat.grain.MapDataset
    assert pygrain.experimental.FirstFitPackIterDataset is FirstFitPackIterDataset
    assert (
        pygrain.PyGrainCheckpointHandler
        is CheckpointHandler
        is headrace.compat.grain.checkpoint.CheckpointHandler
    )
    assert headrace.compat.grain.experimental.index_shuffle is index_shuffle


def test_flags_can_be_set():
    """They are kept; others are an error, as in Grain."""
    headrace.compat.grain.config.update("py_debug_mode", True)
    assert pygrain.config.get_or_default("py_debug_mode") is True
    pygrain.config.update("py_debug_mode", False)
    for config in (grain.config, pygrain.config):
        with pytest.raises(ValueError, match="Unrecognized config option: nothing"):
            config.update("nothing", 1)
        with pytest.raises(ValueError, match="Please use update"):
            config.nothing = 1


def test_the_table_of_names_is_that_of_this_grain():
    """Where it is not, `python tests/grain_names.py` writes it anew."""
    assert grain_names.PAGE.read_text() == grain_names.written()
