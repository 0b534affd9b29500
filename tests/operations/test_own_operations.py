"""An operation in one file says all that the loader asks; operations and sources come from other
packages, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.operations import Operation
from headrace.sources.facts import Generations, SourceFacts

ROOT = Path(__file__).parent.parent.parent
HOW_TO = ROOT / "docs" / "how-to"

MODULE = '''
import headrace
from headrace.operations import Operation


class Sums(Operation):
    """Sums of `size` numbers, one after another."""

    one_to_one = True

    def __init__(self, size, scale=1):
        self.size = self.takes = size
        self.scale = scale

    def connect(self, then, context, number):
        group, first = [], []

        def step(element):
            if not group:
                first[:] = context.seed, context.position, context.row
            group.append(element)
            if len(group) == self.size:
                finish()

        def finish():
            taken = group.copy()
            group.clear()
            try:
                if taken:
                    context.seed, context.position, context.row = first
                    then(sum(taken) * self.scale)
            except Exception:
                context.blame(number)
                raise

        context.at_end.append(finish)
        return step


class Squares:
    """The squares below `count` squared."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, key):
        return key * key
'''

PROGRAM = """
import inspect
import headrace

stream = headrace.MapDataset.source(headrace.sources.squares(6)).to_iter_dataset()
print(list(stream.sums(2, scale=10)), list(stream.sums(4).mp_prefetch(1)))
dataset = headrace.MapDataset.range(6)
print(dataset.sums(2)[1], dataset.map(lambda x: x + 1).sums(4)[[0, 1]], headrace.operations.sums.__name__)
print(dataset.sums.__name__, inspect.signature(dataset.sums), dataset.sums.__doc__)
print(hasattr(dataset, "nobodys_operation"), hasattr(headrace.sources, "nobodys_source"))
"""

SUMS = {}
exec(MODULE, SUMS)


@pytest.fixture
def installed(tmp_path):
    """A folder on the path of Python, in which a small distribution is installed."""
    (tmp_path / "their_package.py").write_text(MODULE)
    about = tmp_path / "their_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[headrace.operations]\nsums = their_package:Sums\n\n[headrace.sources]\nsquares = "
        "their_package:Squares\n"
    )
    return tmp_path


@pytest.mark.slow
def test_packages_offer_operations_and_sources_by_entry_points(installed, tmp_path):
    """A method of datasets with signature and docstring, in workers too; a name that nobody offers
    stays an error.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[10, 130, 410] [14, 41]",
        "5 [10, 11] Sums",
        "Sums (size, scale=1) Sums of `size` numbers, one after another.",
        "False False",
    ]


def _loader(**settings):
    return headrace.load(
        range(10), transformations=[SUMS["Sums"](4, **settings)], num_epochs=1, shuffle=True, seed=1
    )


@pytest.mark.slow
def test_the_plan_and_states_know_an_operation_of_ones_own():
    """What it takes is a task's unit; a state resumes at any step, and not after a parameter was
    changed.
    """
    iterator = iter(_loader())
    assert iterator.pipeline.stages[0].unit == 4
    first = next(iterator)
    state = iterator.get_state()
    rest = list(iterator)
    assert len(rest) == 2
    assert first + sum(rest) == sum(range(10))
    again = iter(_loader())
    again.set_state(state)
    assert list(again) == rest
    with pytest.raises(headrace.errors.CheckpointError, match="operation"):
        iter(_loader(scale=2)).set_state(state)
    headrace.check_resume(_loader(), steps=2, worker_counts=[0, 1])


def test_random_access_runs_the_step_of_the_engine():
    """At any index, past the end too; its fingerprint has the class's name."""
    dataset = headrace.MapDataset.range(10).map(lambda x: x + 1).apply(SUMS["Sums"](4))
    assert [dataset[index] for index in range(-1, 4)] == [19, 10, 26, 19, 10]
    assert dataset[[0, 1, 2]] == list(dataset) == list(dataset.to_iter_dataset())
    assert repr(dataset) == "MapDataset(Sums, 3 elements)"
    noisy = dataset.random_map(lambda x, rng: x + rng.random(), seed=1)
    assert noisy[[0, 1, 2]] == list(noisy.to_iter_dataset())


def test_trace_and_stats_name_an_operation_of_ones_own():
    """Its class is its name; the records of a step are those that it took."""
    operation = SUMS["Sums"](3)
    assert operation.name_in_stats == "Sums"
    loader = headrace.load([10, 20, 30, 40, 50, 60], transformations=[operation], num_epochs=1)
    assert [record.key for record in headrace.trace(loader, 1).records] == [3, 4, 5]


def _listed(page: str) -> set[str]:
    """The members in the table of a page."""
    rows = re.findall(r"^\| `(\w+)(?:\(.*?\))?` \|", (HOW_TO / page).read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows))
    return set(rows)


def test_the_page_lists_all_that_an_operation_may_say():
    """Each attribute of the base class, and the fingerprint that one may have."""
    assert _listed("operation-members.md") == {
        name for name in vars(Operation) if name[0] != "_"
    } | {"fingerprint"}


OURS = {
    "describe_key": "of mixes and planned batches",
    "in_order": "of a RunThroughSource",
    "planned": "of batches and rows that are planned from lengths",
    "read_in_loop": "of an AsyncSource",
    "record_count": "of rows that are planned from lengths",
    "records_each": "of batches and rows that are planned from lengths",
    "records_of": "of mixes, and of batches and rows that are planned from lengths",
}
"""Facts that sources of users do not have."""


def test_the_page_lists_all_that_a_source_may_say():
    """Each fact, each member of generations, and the two methods that are not facts."""
    facts = set(SourceFacts._fields) - OURS.keys()
    generations = {name for name in vars(Generations) if name[0] != "_"}
    assert _listed("source-facts.md") == facts | generations
    assert _listed("write-a-source.md") == {"__getitems__", "fingerprint"}
