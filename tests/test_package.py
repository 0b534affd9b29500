"""The package: what it imports, what it lists, what it promises."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from setuptools import find_packages

import headrace

ROOT = Path(headrace.__file__).parent
CHECKOUT = Path(__file__).parent.parent


def test_importing_headrace_imports_no_heavy_library():
    """`import headrace` leaves jax, tensorflow, pyarrow, array_record, torch and grain alone."""
    heavy = {
        "jax",
        "jaxlib",
        "tensorflow",
        "tensorflow_datasets",
        "pyarrow",
        "array_record",
        "torch",
        "grain",
        "orbax",
        "cv2",
        "simplejpeg",
        "google_crc32c",
    }
    code = f"import sys, headrace; print(sorted({heavy!r} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_worker_process_imports_nothing_that_few_pipelines_need():
    """What a worker process imports before it knows its pipeline has no mix, no temporary files, no
    generator of NumPy's.
    """
    seldom = {
        "headrace.samplers.mix.sampler",
        "headrace.samplers.weighted.sampler",
        "headrace.samplers.changing.sampler",
        "headrace.sources.lengths",
        "headrace.loader.stream.flow",
        "headrace.loader.state.resume",
        "concurrent.futures",
        "fractions",
        "numpy.random",
        "subprocess",
        "tempfile",
    }
    code = (
        f"import sys, headrace.loader.executors.processes.zygote; print(sorted({seldom!r} & "
        "set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


@pytest.fixture
def clone(tmp_path):
    """A clone in a folder whose name is no name of Python's, with one test that reads the name of
    its own package.
    """
    clone = tmp_path / "a-clone.of mine"
    (clone / "tests" / "support").mkdir(parents=True)
    for name in (
        "__init__.py",
        "pyproject.toml",
        *(f"tests/{name}.py" for name in ("conftest", "support/__init__", "support/leaks")),
    ):
        shutil.copy(CHECKOUT / name, clone / name)
    (clone / "lone").mkdir()
    (clone / "lone" / "__init__.py").write_text('"""A room."""\n')
    (clone / "tests" / "test_one.py").write_text(
        "import sys\n\n\ndef test_one():\n    assert not [name for name in sys.modules if 'clone' "
        "in name]\n"
    )
    return clone


@pytest.mark.parametrize(
    ("arguments", "folder"), [((), "."), (("test_one.py", "-n", "0"), "tests")]
)
@pytest.mark.one_in(2)
@pytest.mark.slow
def test_the_tests_run_in_a_clone_of_any_name(clone, tmp_path, arguments, folder):
    """Pytest does not take the folder for a package of that name: all tests with workers, or one
    file without.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        *arguments,
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        tmp_path / "t",
    ]
    found = subprocess.run(command, cwd=clone / folder, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    assert "1 passed" in found.stdout


def test_ruff_has_nothing_against_the_name_of_a_clone(clone):
    """Its folder is not what the package is called."""
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "__init__.py", "lone"]
    found = subprocess.run(ruff, cwd=clone, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_every_file_of_data_is_listed():
    """Files that are no code, beside the code that reads them, are a part of the package."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = {
        (package, name) for package, names in settings["package-data"].items() for name in names
    }
    packages = ["headrace", *(f"headrace.{name}" for name in find_packages(CHECKOUT))]
    folders = {package: CHECKOUT.joinpath(*package.split(".")[1:]) for package in packages}
    kinds = {".json", ".html", ".typed"}
    found = {
        (package, file.name)
        for package, folder in folders.items()
        for file in folder.iterdir()
        if file.suffix in kinds
    }
    assert listed == found


def test_no_two_files_of_tests_have_one_name():
    """As pytest imports them by their names alone, wherever they are: the second one would be an
    error.
    """
    names = Counter(path.name for path in CHECKOUT.joinpath("tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_public_names_exist_and_have_docstrings():
    """Everything in __all__ is there and documented."""
    for name in headrace.__all__:
        assert getattr(headrace, name).__doc__, name


def _modules(*left_out):
    """Files of the checkout, without those of hidden folders, such as environments."""
    folders = [path for path in CHECKOUT.iterdir() if path.is_dir() and path.name not in left_out]
    shown = [folder for folder in folders if not folder.name.startswith(".")]
    return [*CHECKOUT.glob("*.py"), *(path for folder in shown for path in folder.rglob("*.py"))]


def test_no_file_of_the_library_is_over_400_lines():
    """A file over 400 lines is two modules. The methods of datasets are longer."""
    # lower a bound when the file becomes shorter
    longer = {"chains/map_dataset.py": 444, "chains/iter_dataset.py": 442}
    for path in _modules("tests", "examples", "build"):
        most = longer.get(path.relative_to(CHECKOUT).as_posix(), 400)
        assert len(path.read_text().splitlines()) <= most, path


def test_no_folder_of_the_library_holds_more_than_14_modules():
    """A folder over a dozen files is two storeys."""
    files = _modules("tests", "examples", "build")
    modules = Counter(
        path.parent.relative_to(CHECKOUT) for path in files if path.name != "__init__.py"
    )
    for folder, count in modules.items():
        assert not folder.parts or count <= 14, folder


def test_names_of_grain_say_where_they_are():
    """A public name of Grain that headrace has not is an AttributeError that says where it is."""
    import grain
    import grain.experimental
    import grain.python

    names = {
        name
        for module in (grain, grain.python, grain.experimental, grain.transforms)
        for name in dir(module)
    }
    for name in names:
        if not name.startswith("_") and not hasattr(headrace, name):
            with pytest.raises(AttributeError, match="; "):
                getattr(headrace, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ZipMapDataset", "a method of headrace.MapDataset"),
        ("transforms", "headrace.MapTransform"),
        ("FilterTransform", "use headrace.Filter"),
        ("DistributedSampler", "ShardOptions"),
        ("CheckpointSave", "headrace.checkpoint.CheckpointSave"),
        ("StatefulDataLoader", "state_dict"),
        ("WeightedRandomSampler", "headrace.WeightedSampler"),
        ("unheard_of", r"no attribute 'unheard_of'\. Use one of the names in dir\(headrace\)\.$"),
    ],
)
def test_a_name_that_is_elsewhere_says_where(name, message):
    """headrace.ZipMapDataset and other names that people bring along get a remark;
    others do not.
    """
    with pytest.raises(AttributeError, match=message):
        getattr(headrace, name)
