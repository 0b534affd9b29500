"""Grain's own tests, as its wheel has them, run with ours in its place; and the table of those that fail, with the reasons.

In: the installed Grain. Out: the names of the tests of a file that fail; the table in `docs/grain-names.md`.
Run it to write the table anew: `python tests/grain_suite.py`. With names of files, it tells what fails in them.
"""

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import grain_names

BEGIN, END = "<!-- tests: written by tests/grain_suite.py -->\n", "<!-- end of tests -->"
ROOT = Path(find_spec("grain").submodule_search_locations[0]) / "_src"

_TRANSFORMATIONS = (
    "batch cache filter flatmap interleave limit map mix packing packing_concat_then_split prefetch prefetch_autotune "
    "process_prefetch rebatch repeat shuffle slice source zip"
)
FILES = {
    "data_loader": "python",
    "data_sources": "python",
    "load": "python",
    "operations": "python",
    "options": "python",
    "record": "python",
    "samplers": "python",
    "pack_and_batch": "python/experimental/example_packing",
    "index_shuffle": "python/experimental/index_shuffle/python",
    "base": "python/dataset",
    "dataset": "python/dataset",
    "elastic_iterator": "python/dataset",
    "parquet_dataset": "python/dataset/sources",
    "tfrecord_dataset": "python/dataset/sources",
    "sharding": "core",
    **dict.fromkeys(_TRANSFORMATIONS.split(), "python/dataset/transformations"),
}
"""Files of tests, `<name>_test.py`, and their folders. Those of queues, memory, logs and measurements inside Grain are not there."""

PORTED = (
    (r"\b((?:\w+\.)*\w+)\._element_spec\b(?!\()", r"__import__('grain').experimental.get_element_spec(\1)"),
    (r"\._getitems\(", ".__getitem__("),  # our datasets take lists
    (r"from grain\._src\.core import pytest\n", "pytest = __import__('types').SimpleNamespace(RUN_IN_PYTEST=False)\n"),
    (r"from grain\.proto import execution_summary_pb2\n", ""),
    (r"from grain\._src\.python\.dataset\.transformations import testing_util", "import testing_util"),
    (
        r"from grain\._src\.python\.dataset\.transformations import packing_packed_batch\n",
        "packing_packed_batch = __import__('types').SimpleNamespace(get_non_sequence_meta_features=lambda lengths, meta: "
        "[name for name in meta if name not in lengths])\n",
    ),
    (r"self\.assertIs\(ds\._batch_fn, batch\.make_batch\)", "pass"),
    (r"packing\.PackIterDataset\]", "object]"),
    (r"importlib\.reload\(.*\)", "pass"),
    (r" *@flagsaver\.flagsaver\(grain_py_debug_mode=True\)\n", ""),
    (r'@absltest\.skipThisClass\("Base class"\)\n', ""),  # else no test of interleaves would run
    (r"\nimport parameterized\n", "\nimport cases_of_classes as parameterized\n"),
)
"""What stands for private names of Grain's in its tests."""

HEAD = "import jax\nimport headrace.compat\nheadrace.compat.install()\n"

CASES_OF_CLASSES = '''
import sys


def parameterized_class(cases):
    def made(kind):
        for number, case in enumerate(cases):
            name = f"{kind.__name__}_{number}"
            more = {**case, "__module__": kind.__module__, "__qualname__": name}
            setattr(sys.modules[kind.__module__], name, type(kind)(name, (kind,), more))

    return made
'''


class Row(NamedTuple):
    """Tests that fail: of which files, what differs, why, and their names, of which parts may be `*`."""

    of: str
    differs: str
    reason: str
    tests: str


ROWS: tuple[Row, ...] = ()


class Outcome(NamedTuple):
    """How many tests a file has, and those that failed, each with a text."""

    count: int
    failed: dict[str, str]


def ported(path):
    """The text of a file of Grain's, whose private names are those that it has here."""
    text = path.read_text()
    for pattern, here in PORTED:
        text = re.sub(pattern, here, text)
    return text


def run(name, folder, limit=900):
    """Run a file of tests in an empty folder."""
    file = ROOT / FILES[name] / f"{name}_test.py"
    (folder / file.name).write_text(HEAD + ported(file))
    (folder / "cases_of_classes.py").write_text(CASES_OF_CLASSES)
    for helper in file.parent.glob("testing_util.py"):
        (folder / helper.name).write_text(ported(helper))
    report = folder / "report.xml"
    command = [sys.executable, file.name, f"--test_srcdir={ROOT / 'python'}", f"--test_tmpdir={folder / 'tmp'}"]
    result = subprocess.run(
        [*command, f"--xml_output_file={report}"],
        cwd=folder,
        env=os.environ | {"PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
    )
    assert report.exists(), result.stdout[-2000:]
    cases = [*ElementTree.parse(report).iter("testcase")]
    assert cases, result.stdout[-2000:]
    failed = {}
    for case in cases:
        for trouble in case:
            if trouble.tag in ("failure", "error"):
                failed.setdefault(f"{name}: {case.get('name').partition(' ')[0]}", trouble.get("message") or "")
    return Outcome(len(cases), failed)


def expected(name):
    """The patterns of the tests of a file that fail."""
    return [f"{name}: {test}" for row in ROWS for of, _, test in map(_parted, row.tests.split()) if of == name]


def unlike(name, failed):
    """Tests that fail and are in no row, and patterns of rows for which none fails."""
    patterns = expected(name)
    unknown = [test for test in failed if not any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)]
    gone = [pattern for pattern in patterns if not fnmatch.filter(failed, pattern)]
    return unknown, gone


def _parted(test):
    return test.partition(":")


def table():
    """The table, in Markdown."""
    lines = [f"| {row.of} | {row.differs} | {row.reason} |\n" for row in ROWS]
    return "".join(["| tests of | what differs | reason |\n", "|---|---|---|\n", *lines])


def written():
    """The page with the table as it is to be."""
    before, _, rest = grain_names.PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def tell(names):
    """Print what fails in these files."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            count, failed = run(name, Path(folder))
        print(f"{name}: {len(failed)} of {count} fail")
        unknown, gone = unlike(name, failed)
        for test in unknown:
            print("  not in the table:", test, failed[test][:160].replace("\n", " "))
        for pattern in gone:
            print("  does not fail:", pattern)


if __name__ == "__main__":
    if sys.argv[1:]:
        tell(sys.argv[1:])
    else:
        grain_names.PAGE.write_text(written())
