"""The table of Grain's public names in docs/grain-names.md. `python tests/grain_names.py` writes it
anew.
"""

import importlib
import inspect
from pathlib import Path
from types import ModuleType

MODULES = (
    "",
    "checkpoint",
    "constants",
    "multiprocessing",
    "samplers",
    "sharding",
    "sources",
    "transforms",
    "python",
    "experimental",
)
PAGE = Path(__file__).parent.parent / "docs" / "grain-names.md"
BEGIN, END = "<!-- names: written by tests/grain_names.py -->\n", "<!-- end of names -->\n"

BETTER = "better"
DIFFERS = "differs"
ABSENT = "not there"
SAME = "same"

_TOLD_BY_STATS = "`iterator.stats()` and `feeder.stats()` say where the time goes"
_OUR_MEMORY = "headrace always passes batches from worker processes in shared memory"

REMARKS = {
    "config": (DIFFERS, "flags can be set and read, but have no effect"),
    "monitoring": (ABSENT, _TOLD_BY_STATS),
    "proto": (ABSENT, f"the message types of Grain's execution summary; {_TOLD_BY_STATS}"),
    "SharedMemoryArray": (DIFFERS, f"no object is of this class: {_OUR_MEMORY}"),
    "SharedMemoryArrayMetadata": (DIFFERS, f"no object is of this class: {_OUR_MEMORY}"),
    "DataLoader": (
        BETTER,
        "with any `worker_count`, the stream that Grain gives with 0 workers; a warning if a shard has no records; if you pass "
        "`shard_options` to the loader, only these hold (Grain reads records of the sampler's shard, some twice)",
    ),
    "DataLoaderIterator": (
        BETTER,
        "states can be restored with any number of workers, also states that Grain saved",
    ),
    "PyGrainDatasetIterator": (BETTER, "see `DataLoaderIterator`"),
    "DatasetIterator": (BETTER, "states can be restored with any number of workers"),
    "MapDataset": (
        BETTER,
        "`ds[[3, 1, 4]]` returns a list of elements; `slice` takes indices and `wrap_around`, as in Grain 0.2.19; a random "
        "generator may be used only during the call; a map that returns None does not drop the element (use `filter`), and a "
        "batch with None is an error",
    ),
    "IterDataset": (
        BETTER,
        "with any number of workers, the stream that Grain gives with 0 workers; `sequential_slice` has no effect",
    ),
    "Batch": (DIFFERS, "strings become arrays of objects, which keep every byte"),
    "BatchOperation": (DIFFERS, "see `Batch`"),
    "MapOperation": (
        BETTER,
        "if your function fails, its own exception is raised, not a ValueError",
    ),
    "RandomMapOperation": (BETTER, "see `MapOperation`"),
    "FilterOperation": (BETTER, "see `MapOperation`"),
    "DatasetOptions": (DIFFERS, "only the thresholds of filters have an effect"),
    "ExecutionTrackingMode": (DIFFERS, f"has no effect; {_TOLD_BY_STATS}"),
    "WithOptionsIterDataset": (
        DIFFERS,
        "see `DatasetOptions`; options do not pass through a dataset of your own class",
    ),
    "multithread_prefetch": (
        BETTER,
        "with any `num_threads`, the stream that Grain gives with 0 threads; `sequential_slice` has no effect",
    ),
    "ThreadPrefetchIterDataset": (DIFFERS, "the same stream; one thread makes all of it"),
    "ThreadPrefetchDatasetIterator": (DIFFERS, "the same elements; one thread makes all of them"),
    "SharedMemoryDataSource": (
        DIFFERS,
        "the argument `elements` is needed; no memory is shared by name",
    ),
    "InMemoryDataSource": (DIFFERS, "see `SharedMemoryDataSource`"),
    "ElasticIterator": (
        SAME,
        "also works for streams that an interleave makes, as in Grain 0.2.19, but not for mixes and zips of such streams; "
        "Orbax restores it on another number of processes, also from checkpoints that Grain saved",
    ),
    "ConcatThenSplitIterDataset": (
        BETTER,
        "if features differ in length and one of them is cut twice, the others continue where they were cut, and do not begin "
        "again",
    ),
    "InterleaveIterDataset": (
        DIFFERS,
        "the arguments for threads and buffers have no effect; one worker reads the interleave in order",
    ),
    "CheckpointHandler": (
        BETTER,
        "the states can be restored on another number of processes; for an `ElasticIterator`, there is one file for each "
        "process, and no `shard_state_*.json`",
    ),
    "PyGrainCheckpointHandler": (BETTER, "see `CheckpointHandler`"),
    "Sampler": (
        BETTER,
        "`__len__` may be missing, as in Grain; headrace's samplers compute many positions in one call",
    ),
    "pick_performance_config": (
        DIFFERS,
        "considers only sizes; it may choose other numbers than Grain",
    ),
}
"""What there is to say of a name, wherever it stands."""


def public_names(package, module):
    """The public names of a module of the real package, or of ours."""
    found = importlib.import_module(f"{package}.{module}" if module else package)
    return {name: getattr(found, name) for name in sorted(dir(found)) if not name.startswith("_")}


def arguments_of(thing):
    """The names of the arguments of a function, or of what makes an object of a class; None where
    nobody knows them.
    """
    if isinstance(thing, ModuleType) or not callable(thing):
        return None
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        each.name
        for each in parameters
        if not each.name.startswith("_") and each.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")
    ]


def rows():
    """(module, names, kind, remark) for each public name of Grain; same names of several modules in
    one row.
    """
    found = {}
    for module in MODULES:
        for name, thing in public_names("grain", module).items():
            kind, remark = REMARKS.get(name, (SAME, ""))
            if isinstance(thing, ModuleType) and name in MODULES:
                continue
            found.setdefault((name, kind, remark), []).append(
                f"grain.{module}" if module else "grain"
            )
    return [(name, places, kind, remark) for (name, kind, remark), places in found.items()]


def table():
    """The table, in Markdown."""
    lines = ["| name | in | here | |\n", "|---|---|---|---|\n"]
    for name, places, kind, remark in sorted(rows(), key=lambda row: row[0].lower()):
        lines.append(
            f"| `{name}` | {', '.join(f'`{place}`' for place in places)} | {kind} | {remark} |\n"
        )
    return "".join(lines)


def written():
    """The page with the table as it is to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written())
