"""Grain's own tests, as its wheel has them, run with ours in its place; and the table of those that
fail, with the reasons.

In: the installed Grain. Out: the names of the tests of a file that fail; the table in
`docs/grain-names.md`. Run it to write the table anew: `python tests/grain_suite.py`. With names of
files, it tells what fails in them.
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
    "batch cache filter flatmap interleave limit map mix packing packing_concat_then_split "
    "prefetch prefetch_autotune process_prefetch rebatch repeat shuffle slice source zip"
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
"""Files of tests, `<name>_test.py`, and their folders. Those of queues, memory, logs and
measurements are not there.
"""

PORTED = (
    (
        r"\b((?:\w+\.)*\w+)\._element_spec\b(?!\()",
        r"__import__('grain').experimental.get_element_spec(\1)",
    ),
    (r"\._getitems\(", ".__getitem__("),  # our datasets take lists
    (
        r"from grain\._src\.core import pytest\n",
        "pytest = __import__('types').SimpleNamespace(RUN_IN_PYTEST=False)\n",
    ),
    (r"from grain\.proto import execution_summary_pb2\n", ""),
    (
        r"from grain\._src\.python\.dataset\.transformations import testing_util",
        "import testing_util",
    ),
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
    (r"from grain\._src\.python\.testing\.experimental import", "from grain_checks import"),
    (r"import grain\._src\.python\.testing\.experimental as", "import grain_checks as"),
    (r"\nimport parameterized\n", "\nimport cases_of_classes as parameterized\n"),
)
"""What stands for private names of Grain's in its tests."""

HEAD = "import jax\nimport headrace.compat\nheadrace.compat.install()\n"

CASES_OF_CLASSES = """
import sys


def parameterized_class(cases):
    def made(kind):
        for number, case in enumerate(cases):
            name = f"{kind.__name__}_{number}"
            more = {**case, "__module__": kind.__module__, "__qualname__": name}
            setattr(sys.modules[kind.__module__], name, type(kind)(name, (kind,), more))

    return made
"""


class Row(NamedTuple):
    """Tests that fail: of which files, what differs, why, and their names, of which parts may be
    `*`.
    """

    of: str
    differs: str
    reason: str
    tests: str


ROWS = (
    Row(
        "batch",
        "`enable_shared_memory_output`, parallel batches (`_MakeBatchParallel`), a loader's "
        "`_dataset`",
        "private; headrace always passes batches in shared memory",
        "batch:*shared_memory* batch:test_batch_iter_dataset_shm_* batch:test_parallel_batch_* "
        "batch:*parallel_batch* batch:test_batch_non_numpy_values",
    ),
    Row(
        "batch",
        'the text "can not follow `FlatMapMapDataset`"',
        "a private class; headrace's text names the method instead",
        "batch:test_batch_after_flatmap_raises_error",
    ),
    Row(
        "data loader",
        "checkpoints with 3 workers",
        "the tests expect batches that each worker makes of its own records; headrace's batches "
        "do not depend on the workers",
        "data_loader:test_data_loader_checkpointing_*",
    ),
    Row(
        "data loader",
        "`CopyNumPyArrayToSharedMemory`; the `str` of an iterator",
        "private; headrace always passes batches in shared memory",
        "data_loader:test_copy_* data_loader:test_str",
    ),
    Row(
        "data sources, mix",
        "texts of `repr`; the error about datasets of length 0 contains such texts",
        "private; headrace's error contains the lengths",
        "data_sources:test_str mix:test_repr mix:test_mixing_zero_length_dataset_fails_with_error",
    ),
    Row(
        "dataset",
        "`apply` refuses a `TfRandomMap`",
        "headrace accepts it, as a random map",
        "dataset:test_unsupported_transform",
    ),
    Row(
        "base, dataset, prefetch",
        "`_seed`, `_default_seed`, `_ctx`, `IteratorContext`",
        "private; random numbers and thresholds are the same",
        "base:test_merge base:test_merge_with_different_mp_context "
        "dataset:test_seed_is_different_with_chained_transforms "
        "dataset:test_seed_results_in_the_same_default_seed* dataset:test_conflicting_options "
        "dataset:test_propagates_options_in_* prefetch:test_mp_context_is_set_correctly",
    ),
    Row(
        "dataset",
        "on a Python without a global lock, Grain uses threads instead of worker processes",
        "headrace uses worker processes there, too; only the speed depends on it",
        "dataset:test_mp_prefetch_switches_to_threads_for_free_threaded_python",
    ),
    Row(
        "dataset, prefetch, process prefetch, source",
        "`sequential_slice=True`, slices of sources (`set_slice`)",
        "with these, the elements would depend on the number of workers",
        "dataset:test_prefetch_with_slice_source prefetch:*sequential_slice* "
        "process_prefetch:*sequential_slice* source:test_set_slice*",
    ),
    Row(
        "dataset, interleave, prefetch",
        "execution summaries, `_stats`",
        "private; `iterator.stats()` says where the time goes",
        "dataset:test_execution_summary_* dataset:test_get_execution_summary_* "
        "interleave:test_interleave_stats* prefetch:test_stats_are_initialized_in_a_single_thread*",
    ),
    Row(
        "filter, map, mix, packing",
        "`FilterThresholdChecker`, `_reset_rng_state`, `_ConcatSelectionMap`, "
        "`PackingDatasetIterator`",
        "private; headrace's tests of the public methods test what they do",
        "filter:test_raises filter:test_validates filter:test_warns map:test_reset_rng_state "
        "mix:test_cannot_concatenate_infinite_datasets mix:test_concat_selection_map "
        "packing:test_get_packed_batch_size_bytes*",
    ),
    Row(
        "interleave",
        "`mp_prefetch` of an interleave with 3 workers",
        "in Grain the elements depend on the number of workers; headrace's are those of 0 workers",
        "interleave:test_with_mp_prefetch",
    ),
    Row(
        "interleave",
        "contents of states, `future_states`, and that `set_state` keeps inner iterators",
        "private; headrace's states have another content, and states of Grain can be restored",
        "interleave:test_correct_interleave_state_after_* interleave:test_future_states "
        "interleave:test_setting_shard_state_* interleave:test_set_state_does_not_recreate_* "
        "interleave:test_slice_state_management_*",
    ),
    Row(
        "operations",
        "the error of `BatchOperation` for elements of unequal structure; a batch of dataclass "
        "objects",
        "headrace's error names the leaf; dataclasses are batched field by field",
        "operations:test_batch_dicts_different_keys operations:test_batch_lists_different_length "
        "operations:test_batch_unsupported_type",
    ),
    Row(
        "prefetch, process prefetch",
        "the state of a prefetch over a dataset of your own class is the state of this dataset",
        "headrace's state has another form, which contains the state of this dataset",
        "prefetch:test_parent_dataset_modifies_state "
        "process_prefetch:test_parent_dataset_modifies_state",
    ),
    Row(
        "prefetch",
        "`PrefetchDatasetIterator`, `_buffer`, `_read_options`, and changes of the number of "
        "threads during a run",
        "private; headrace reads ahead without them",
        "prefetch:test_prefetch_data_* prefetch:test_prefetch_does_not_buffer_* "
        "prefetch:test_set_num_threads_* prefetch:test_set_prefetch_buffer_size_* "
        "prefetch:test_start_prefetch* prefetch:test_set_next_index_get_state",
    ),
    Row(
        "prefetch, slice",
        "`isinstance(dataset, PrefetchIterDataset)`, and the same for similar classes",
        "private classes; no dataset is an instance of them",
        "prefetch:test_dataset_and_iterator_types slice:test_getitem_with_slice_on_sliced_dataset",
    ),
    Row(
        "prefetch autotune",
        "private functions such as `_get_num_workers`, and the numbers that are chosen",
        "headrace considers only sizes",
        "prefetch_autotune:*",
    ),
    Row(
        "process prefetch",
        'Grain\'s name of the dataset in the note "Dataset: … cannot be pickled!"',
        "private; headrace's note has its own name of the dataset, and a second note has the path "
        "of the attribute",
        "process_prefetch:test_reports_first_unpicklable_dataset_* "
        "process_prefetch:test_reports_unpicklable_*",
    ),
    Row(
        "process prefetch",
        "frames of a worker's functions in the traceback of an error",
        "headrace adds the worker's traceback as text, before the error",
        "process_prefetch:test_prefetch_traceback_preserves_worker_frames*",
    ),
    Row(
        "process prefetch",
        'the text "Worker process was terminated unexpectedly"',
        'headrace says "a worker was terminated unexpectedly with exit code …", and names the record',
        "process_prefetch:test_reports_worker_crash",
    ),
    Row(
        "process prefetch",
        "that each of two workers makes two of the first four elements",
        "headrace gives each worker several elements at a time",
        "process_prefetch:test_set_state_does_not_restart_process",
    ),
    Row(
        "rebatch",
        "a ValueError if the first batch is empty",
        "headrace ignores an empty batch",
        "rebatch:test_empty_batch",
    ),
    Row(
        "shuffle",
        "`window_index` in the state of a window shuffle",
        "headrace's state has another form; states of Grain can be restored",
        "shuffle:test_checkpoint_restore_on_fresh_iterator",
    ),
    Row(
        "TFRecord",
        "the error for a file whose end is missing",
        "headrace's error names the file and the byte",
        "tfrecord_dataset:test_invalid_tfrecord_file",
    ),
)


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
    (folder / "grain_checks.py").write_text(ported(ROOT / "python" / "testing" / "experimental.py"))
    for helper in file.parent.glob("testing_util.py"):
        (folder / helper.name).write_text(ported(helper))
    report = folder / "report.xml"
    command = [
        sys.executable,
        file.name,
        f"--test_srcdir={ROOT / 'python'}",
        f"--test_tmpdir={folder / 'tmp'}",
    ]
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
                failed.setdefault(
                    f"{name}: {case.get('name').partition(' ')[0]}", trouble.get("message") or ""
                )
    return Outcome(len(cases), failed)


def expected(name):
    """The patterns of the tests of a file that fail."""
    return [
        f"{name}: {test}"
        for row in ROWS
        for of, _, test in map(_parted, row.tests.split())
        if of == name
    ]


def unlike(name, failed):
    """Tests that fail and are in no row, and patterns of rows for which none fails."""
    patterns = expected(name)
    unknown = [
        test
        for test in failed
        if not any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)
    ]
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
