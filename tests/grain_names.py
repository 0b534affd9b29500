"""The table of Grain's public names in docs/grain-names.md. `python tests/grain_names.py` writes it anew."""

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

_TOLD_BY_STATS = "`iterator.stats()` and `feeder.stats()` tell where time goes"
_OUR_MEMORY = "batches come from worker processes in shared memory by themselves"

REMARKS = {
    "config": (DIFFERS, "flags are kept, and do nothing"),
    "monitoring": (ABSENT, _TOLD_BY_STATS),
    "proto": (ABSENT, f"messages of Grain's execution summary; {_TOLD_BY_STATS}"),
    "SharedMemoryArray": (DIFFERS, f"no object is of this class: {_OUR_MEMORY}"),
    "SharedMemoryArrayMetadata": (DIFFERS, f"no object is of this class: {_OUR_MEMORY}"),
    "DataLoader": (
        BETTER,
        "the stream of Grain with 0 workers, whatever `worker_count`; a warning where no record is left; shard options that "
        "are not the sampler's hold alone, where Grain reads the sampler's records, some twice",
    ),
    "DataLoaderIterator": (BETTER, "states continue with any number of workers; those of Grain are read"),
    "PyGrainDatasetIterator": (BETTER, "as `DataLoaderIterator`"),
    "DatasetIterator": (BETTER, "states continue with any number of workers"),
    "MapDataset": (
        BETTER,
        "`ds[[3, 1, 4]]`; `slice` takes indices and `wrap_around`, as in Grain 0.2.19; a generator is valid during the call "
        "only; a map that gives None leaves nothing out (`filter` does), and a batch with it is an error",
    ),
    "IterDataset": (
        BETTER,
        "the stream of 0 workers, whatever their number; `sequential_slice` does nothing",
    ),
    "Batch": (
        DIFFERS,
        "strings become arrays of objects, which lose nothing",
    ),
    "BatchOperation": (DIFFERS, "as `Batch`"),
    "MapOperation": (BETTER, "the exception of your function comes as it is, not as a ValueError"),
    "RandomMapOperation": (BETTER, "as `MapOperation`"),
    "FilterOperation": (BETTER, "as `MapOperation`"),
    "DatasetOptions": (DIFFERS, "the thresholds of filters; the other options do nothing"),
    "ExecutionTrackingMode": (DIFFERS, f"does nothing; {_TOLD_BY_STATS}"),
    "WithOptionsIterDataset": (DIFFERS, "as `DatasetOptions`; a dataset of a class of yours does not hand options on"),
    "ThreadPrefetchIterDataset": (DIFFERS, "the same stream, all of it made on one thread of the engine"),
    "ThreadPrefetchDatasetIterator": (DIFFERS, "the same elements, made on one thread of the engine"),
    "SharedMemoryDataSource": (DIFFERS, "needs `elements`; no memory is shared by name"),
    "InMemoryDataSource": (DIFFERS, "as `SharedMemoryDataSource`"),
    "ElasticIterator": (
        SAME,
        "over streams of an interleave, too, as in Grain 0.2.19, but not over mixes and zips of these; Orbax restores it on "
        "other numbers of processes, from Grain's checkpoints, too",
    ),
    "ConcatThenSplitIterDataset": (
        BETTER,
        "features of unequal length are not begun anew where one of them is cut twice",
    ),
    "InterleaveIterDataset": (DIFFERS, "threads and buffers do nothing; it is run through in one worker"),
    "CheckpointHandler": (
        BETTER,
        "other numbers of processes read the states, too; of an `ElasticIterator`, the files of processes tell all: there are "
        "no `shard_state_*.json`",
    ),
    "PyGrainCheckpointHandler": (BETTER, "as `CheckpointHandler`"),
    "Sampler": (BETTER, "`__len__` may be missing, as in Grain; our samplers answer for many positions at once"),
    "pick_performance_config": (DIFFERS, "looks at sizes alone; the numbers may be others"),
}
"""What there is to say of a name, wherever it stands."""


def public_names(package, module):
    """The public names of a module of the real package, or of ours."""
    found = importlib.import_module(f"{package}.{module}" if module else package)
    return {name: getattr(found, name) for name in sorted(dir(found)) if not name.startswith("_")}


def arguments_of(thing):
    """The names of the arguments of a function, or of what makes an object of a class; None where nobody knows them."""
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
    """(module, names, kind, remark) for each public name of Grain; same names of several modules in one row."""
    found = {}
    for module in MODULES:
        for name, thing in public_names("grain", module).items():
            kind, remark = REMARKS.get(name, (SAME, ""))
            if isinstance(thing, ModuleType) and name in MODULES:
                continue
            found.setdefault((name, kind, remark), []).append(f"grain.{module}" if module else "grain")
    return [(name, places, kind, remark) for (name, kind, remark), places in found.items()]


def table():
    """The table, in Markdown."""
    lines = ["| name | in | here | |\n", "|---|---|---|---|\n"]
    for name, places, kind, remark in sorted(rows(), key=lambda row: row[0].lower()):
        lines.append(f"| `{name}` | {', '.join(f'`{place}`' for place in places)} | {kind} | {remark} |\n")
    return "".join(lines)


def written():
    """The page with the table as it is to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written())
