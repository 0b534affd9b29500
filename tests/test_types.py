"""What type checkers say of a program of a user: nothing while it is right; its faults, all of
them, and nothing else.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).parent.parent

RIGHT = '''
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import headrace
from headrace import Batch, DataLoader, IndexSampler, IterDataset, MapDataset, MapTransform
from headrace.compat import grain


class Squares:
    """A source."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, NDArray[np.int64]]:
        return {"x": np.array([index**2])}


class Double(MapTransform):
    def map(self, record: dict[str, Any]) -> dict[str, Any]:
        return {"x": record["x"] * 2}


class Noise(headrace.RandomMapTransform):
    def random_map(self, record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"x": record["x"] + rng.normal()}


class Even(headrace.Filter):
    def filter(self, record: dict[str, Any]) -> bool:
        return bool(record["x"][0] % 2 == 0)


class Words(headrace.FlatMap):
    max_fan_out = 4

    def flat_map(self, record: Any) -> list[Any]:
        return [record]


sampler = IndexSampler(100, shuffle=True, seed=0, num_epochs=1)
loader = DataLoader(
    data_source=Squares(), sampler=sampler, operations=[Double(), Noise(), Even(), Words(), Batch(10)], worker_count=2
)
iterator = iter(loader)
state = iterator.get_state()
iterator.set_state(state)
for batch in loader:
    print(batch["x"].mean())

chain = MapDataset.source(Squares()).shuffle(seed=1).map(Double()).repeat(2)
stream = chain.filter(lambda record: True).to_iter_dataset(headrace.ReadOptions(num_threads=2)).batch(10)
mixed = IterDataset.mix([stream, stream.map(lambda x: x)], np.array([0.5, 0.5]))
with headrace.checkpoint.StateFile("state") as kept:
    kept.save(iterator)
print(headrace.__version__, headrace.samplers.IndexSampler is IndexSampler, headrace.errors.CheckpointError)
for source in ([1, 2], (1, 2), {"x": np.arange(3)}, np.arange(3), range(3), "a b".split()):
    print(len(headrace.load(source, num_epochs=1)), len(MapDataset.source(source)), headrace.sample(source, 2))
fractions = MapDataset.mix({"one": chain, "two": chain}, [(0, {"one": 1, "two": 0.5}), (100, {"one": 0.5, "two": 1})])
balanced = headrace.load([np.ones(i) for i in range(1, 9)], batch_size=2, balance=headrace.attention(1, 2), lengths=len)
devices = jax.devices()
mesh = jax.sharding.Mesh(np.array(devices[:1]), ("data",))
placed = [
    loader.to_device(devices[0]),
    loader.to_device((mesh, "data")),
    loader.to_device({"x": (mesh, "data")}),
    stream.mp_prefetch(0).to_device(jax.sharding.SingleDeviceSharding(devices[0])),
]
stream.mp_prefetch("auto")
stream.mp_prefetch(headrace.Auto(most=2))
stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
print(len(chain), chain[0]["x"], next(iter(mixed)))


class Scaled(grain.transforms.Map):
    def map(self, features: dict[str, Any]) -> dict[str, Any]:
        return features


theirs = grain.MapDataset.range(10).map(Scaled())
'''

FAULTS = """
headrace.DataLodaer  # planted
headrace.samplers.IndexSampler(100, shufle=True)  # planted
IndexSampler("a hundred")  # planted
DataLoader(data_source=Squares(), sampler=sampler, operations=[Double()], worker_count="2")  # planted
DataLoader(data_source=Squares(), sampler=sampler, opperations=[])  # planted
iterator.get_stat()  # planted
iterator.set_state()  # planted
MapDataset.source(Squares()).shufle()  # planted
MapDataset.source(Squares()).batch("10")  # planted
Batch(10, drop_remaindr=True)  # planted
headrace.checkpoint.StateFle("x")  # planted
sampler + 1  # planted
headrace.load(5)  # planted
headrace.load(Squares(), balance="lengths")  # planted
headrace.load(Squares(), balance=True, lengths=object())  # planted
DataLoader(data_source=Squares(), sampler=100)  # planted
DataLoader(data_source=(x for x in "ab"), sampler=sampler)  # planted
MapDataset.source(iter("ab"))  # planted
stream.mp_prefetch("2")  # planted
IterDataset.mix([stream, stream], "ab")  # planted
MapDataset.mix([chain, chain], weights=0.5)  # planted
loader.to_device(3)  # planted
stream.to_device(None)  # planted
headrace.split({1, 2}, [0.5, 0.5])  # planted
chain.to_iter_dataset(headrace.ReadOptions(threads=2))  # planted
class Wrong(MapTransform):
    def map(self) -> int:  # planted
        return 1
from headrace import IndexSampel  # planted
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the program, and the package by its name."""
    folder = tmp_path_factory.mktemp("typed")
    folder.joinpath("headrace").symlink_to(CHECKOUT)
    folder.joinpath("program.py").write_text(RIGHT + FAULTS)
    return folder


def test_mypy_finds_the_faults_of_a_program_alone(folder):
    """Strict, as its users run it; of the package they see its types, not its own faults."""
    settings = (
        "[mypy]\nstrict = true\nfollow_untyped_imports = true\n[mypy-headrace.*]\nignore_errors = "
        "true\n"
    )
    folder.joinpath("mypy.ini").write_text(settings)
    command = [
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--python-executable",
        sys.executable,
        "program.py",
    ]
    told = _run([*command, "--output", "json"], folder)
    said = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    _check({each["line"] for each in said if each["severity"] == "error"}, told)


def test_pyright_finds_the_faults_of_a_program_alone(folder):
    """By pyright's own standard rules."""
    folder.joinpath("pyrightconfig.json").write_text(
        '{"typeCheckingMode": "standard", "include": ["program.py"]}'
    )
    told = _run(["-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson"], folder)
    said = json.loads(told)["generalDiagnostics"]
    _check(
        {each["range"]["start"]["line"] + 1 for each in said if each["severity"] == "error"}, told
    )


def test_the_right_part_of_the_program_runs(tmp_path):
    """Else what checkers think of it would tell little."""
    tmp_path.joinpath("program.py").write_text(RIGHT)
    _run(["program.py"], tmp_path, expected=0)


def _run(arguments, folder, expected=1):
    told = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert told.returncode == expected, told.stdout + told.stderr
    return told.stdout


def _check(found, told):
    lines = (RIGHT + FAULTS).splitlines()
    planted = {number for number, line in enumerate(lines, 1) if line.endswith("# planted")}
    assert len(planted) > 10
    assert found == planted, told
