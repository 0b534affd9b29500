"""What is built for a release, installed as users install it: in an environment that holds nothing
else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
BESIDE = {"tests", "examples", "bench", "docs", "build", "dist", "setup.py"}

ON_DEVICE = (
    "import jax; next(iter(headrace.load(range(8), batch_size=4).to_device(jax.devices()[0])))"
)

USES = {
    "jax": ON_DEVICE,
    "array-record": "headrace.convert([b'x'], 'records', workers=0); headrace.ArrayRecordDataSource('records')[0]",
    "parquet": "headrace.convert([{'x': 1}], 'table', to='parquet', workers=0); headrace.ParquetDataSource('table')[0]",
    "lance": "import lance; lance.write_dataset([{'x': 1}], 'table'); headrace.LanceSource('table')[0]",
    "hdf5": "import h5py; file = h5py.File('x.h5', 'w'); file['x'] = [1, 2]; file.close(); headrace.HDF5Source('x.h5', 'x')[0]",
    "zarr": "import zarr, numpy; zarr.save_array('x.zarr', numpy.arange(3)); headrace.ZarrSource('x.zarr')[0]",
    "xarray": "import xarray, numpy; headrace.XarraySource(xarray.DataArray(numpy.arange(3)))[0]",
    "mds": "import brotli, snappy; headrace.MdsSource",
    "tfrecord": "import google_crc32c as crc, struct; size = struct.pack('<Q', 1); "
    "sums = [crc.value(part) for part in (size, b'x')]; "
    "first, last = (struct.pack('<I', ((it >> 15 | it << 17) + 0xA282EAD8) & 0xFFFFFFFF) for it in sums); "
    "open('x.tfrecord', 'wb').write(size + first + b'x' + last); headrace.TFRecordDataSource('x.tfrecord')[0]",
    "video": "import av; headrace.DecodeVideo(frames=0), headrace.DecodeAudio()",
    "images": "import cv2, simplejpeg, numpy; jpeg = simplejpeg.encode_jpeg(numpy.zeros((8, 8, 3), 'uint8')); "
    "next(iter(headrace.load([jpeg], transformations=[headrace.DecodeImage()], batch_size=1)))",
    "huggingface": "import datasets; headrace.HuggingFaceDataSource(datasets.Dataset.from_dict({'x': [1]}))[0]",
    "zstd": "from headrace.files.streams import open_stream, zstd_library; "
    "open('x.zst', 'wb').write(zstd_library().compress(b'x')); open_stream('x.zst', 'auto').read()",
    "remote": "open('x.jsonl', 'w').write('{}'); import os, fsspec, obstore; "
    "headrace.JsonLinesDataSource('file://' + os.path.abspath('x.jsonl'))[0]",
    "tfds": "import tensorflow_datasets; headrace.TfdsDataSource",
    "tokenizers": "from tokenizers import Tokenizer, models; Tokenizer(models.WordLevel({'a': 0}, 'a')).save('t.json'); "
    "open('x.jsonl', 'w').write('{\"text\": \"a\"}'); from headrace.tools.command_line import main; "
    "given = 'convert x.jsonl out --to tokens --tokenizer t.json --column text --workers 0'; assert main(given.split()) == 0",
    "beam": "import apache_beam; import headrace.conversion.beam",
    "ray": "import ray; import headrace.loader.executors.ray.transport",
    "keras": "import os; os.environ['KERAS_BACKEND'] = 'jax'; import keras; import headrace.compat.keras",
    "metrics": "headrace.metrics.serve(0).close()",
    "otel": "headrace.metrics.export().close()",
    "completion": "from headrace.tools.command_line import main; assert main(['completion', 'zsh']) == 0",
    "pictures": "import matplotlib; headrace.write_report",
    "all": f"headrace.convert([b'x'], 'records', workers=0); {ON_DEVICE}",
}
"""For each extra, a line that uses it."""

pytestmark = pytest.mark.long


def uv(folder: Path, *arguments: object) -> None:
    """Run uv, as the README has it; its temporary files are in a folder."""
    python = Path(sys.base_prefix) / "bin" / "python3"
    settings = {"capture_output": True, "text": True, "env": {**os.environ, "TMPDIR": str(folder)}}
    done = subprocess.run([python, "-m", "uv", "--quiet", *map(str, arguments)], **settings)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a wheel and an archive of the sources."""
    folder = tmp_path_factory.mktemp("built")
    passed_by = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist")
    # two builds of one tree at a time disturb one another
    shutil.copytree(CHECKOUT, folder / "tree", ignore=passed_by)
    uv(folder, "build", "--out-dir", folder, folder / "tree")
    return folder


def installed(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Python of a new environment that holds the wheel, and an extra."""
    uv(folder, "venv", "--python", sys.executable, folder / "environment")
    python = folder / "environment" / "bin" / "python"
    uv(folder, "pip", "install", "--python", python, f"{wheel}{extra}")
    return python


def run(*command: object, folder: Path) -> str:
    """What it prints."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_is_pure_and_small_and_holds_every_module(built):
    """It runs on any system, has at most 1.6 MB, and nothing in it is of the tests or tools beside
    the package.
    """
    (wheel,) = built.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size <= 1_600_000
    inside = {
        name.removeprefix("headrace/")
        for name in zipfile.ZipFile(wheel).namelist()
        if name.endswith(".py")
    }
    tree = {path.relative_to(CHECKOUT) for path in CHECKOUT.rglob("*.py")}
    assert inside == {
        str(path)
        for path in tree
        if path.parts[0] not in BESIDE and not path.parts[0].startswith(".")
    }


def test_a_wheel_can_be_built_from_the_archive_of_the_sources(built, tmp_path):
    """It is the same as the one from the clone."""
    (sources,) = built.glob("*.tar.gz")
    uv(tmp_path, "build", "--wheel", "--out-dir", tmp_path, sources)
    (wheel,), (again,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(again).namelist())


def test_the_wheel_alone_runs_the_first_program(built, tmp_path):
    """With no extra: the README's first program, and the command line."""
    python = installed(next(built.glob("*.whl")), tmp_path)
    program = re.search(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "first.py").write_text(program[1])
    assert run(python, "first.py", folder=tmp_path)
    assert (
        run(python.parent / "headrace", "--version", folder=tmp_path)
        == f"headrace {PROJECT['version']}\n"
    )


def test_every_extra_has_a_line_that_uses_it():
    """A new extra is tested below."""
    assert set(USES) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("extra", USES)
def test_each_extra_installs_alone_and_is_enough(built, tmp_path, extra):
    """What it is for can be used with nothing else installed."""
    python = installed(next(built.glob("*.whl")), tmp_path, f"[{extra}]")
    run(python, "-c", f"import headrace\n{USES[extra]}", folder=tmp_path)
