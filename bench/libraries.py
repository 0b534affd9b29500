"""The roster: libraries, each with its adapter and its packages, and their settings in the
comparison on the same data.

An adapter is a file in `adapters/`, or a class in one, and is imported only by a process that
measures it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ENVIRONMENTS = Path(os.environ.get("BENCH_ENVIRONMENTS", Path.home() / ".cache" / "headrace-bench"))
"""`environments.py` makes them."""


@dataclass(frozen=True)
class Library:
    """A library, or a way to use one, that runs in an environment of its own.

    Attributes:
        title: its name in the tables.
        adapter: `module` or `module:Class` in `adapters/`.
        requirements: its file in `requirements/`, and the folder of its environment.
        stateless: why it takes no part in the comparison of resuming; the page says so.
        unmeasured: why it takes no part in the comparison of speed.
    """

    title: str
    adapter: str
    requirements: str
    stateless: str = ""
    unmeasured: str = ""


_ANOTHER_FORMAT = "it is headrace, with another format of files in the table of speeds"
_NO_STATE = "its pipelines have no state that could be saved and loaded"
_RESUMING = "not measured: its adapter has only the part about resuming"

LIBRARIES = {
    "headrace": Library("headrace", "headrace", "headrace"),
    "headrace_array_record": Library(
        "headrace, ArrayRecord", "headrace:ArrayRecord", "headrace", _ANOTHER_FORMAT
    ),
    "grain": Library("Grain", "grain", "grain"),
    "torch": Library("PyTorch, torchdata", "torch", "torchdata"),
    "streaming": Library("MosaicML Streaming", "streaming", "streaming"),
    "litdata": Library("LitData", "litdata", "litdata"),
    "hf_map": Library("Hugging Face, on disk", "hugging_face:OnDisk", "datasets"),
    "hf_stream": Library("Hugging Face, streaming", "hugging_face:Streaming", "datasets"),
    "webdataset": Library("webdataset", "webdataset", "webdataset"),
    "lancedb": Library("LanceDB", "lance", "lancedb", unmeasured=_RESUMING),
    "energon": Library("Megatron-Energon", "energon", "energon", unmeasured=_RESUMING),
    "spdl": Library("SPDL", "spdl", "spdl", _NO_STATE),
}


def python_of(library: Library) -> str | None:
    """The Python that has it: of its own environment, else this one if it has the package."""
    own = ENVIRONMENTS / library.requirements / "bin" / "python"
    if own.exists():
        return str(own)
    return sys.executable if importlib.util.find_spec(library.requirements) else None


def adapter_of(name: str) -> Any:
    """The adapter that `Library.adapter` names, or the function that `Setting.loader` names."""
    module, _, inner = name.partition(":")
    found = importlib.import_module(f"adapters.{module}")
    return getattr(found, inner) if inner else found


@dataclass(frozen=True)
class Setting:
    """A library under one setting, or a plain loop, in the comparison in one process.

    Attributes:
        label: its name in the tables.
        loader: `module:function` in `adapters/`. The function takes a workload with its data, the
            number of workers, and `options`.
        striped: whether its workers have an order of their own, which others cannot produce.
        workers: whether it takes numbers of workers; a loop takes none.
        alone: whether it makes sense without workers.
    """

    label: str
    loader: str
    options: dict[str, Any] = field(default_factory=dict)
    striped: bool = False
    workers: bool = True
    alone: bool = True


_INLINE = {"num_threads": 0}

SETTINGS = {
    "limit": Setting("limit loop", "plain_loops:limit", workers=False),
    "headrace": Setting("headrace", "headrace:data_loader"),
    "bare": Setting("bare NumPy loop", "plain_loops:bare", workers=False),
    "chain": Setting("headrace, chain", "headrace:chain"),
    "mix": Setting("headrace, mix of 35", "headrace:mix"),
    "grain_chain": Setting("Grain, chain", "grain:chain"),
    "grain_chain_inline": Setting("Grain, chain, num_threads=0", "grain:chain", _INLINE),
    "packing": Setting("headrace, packing", "headrace:packing"),
    "grain_packing": Setting("Grain, packing", "grain:packing"),
    "grain_packing_inline": Setting("Grain, packing, num_threads=0", "grain:packing", _INLINE),
    "grain": Setting("Grain", "grain:data_loader", striped=True),
    "grain_inline": Setting("Grain, num_threads=0", "grain:data_loader", _INLINE, striped=True),
    "torch": Setting("PyTorch", "torch:data_loader"),
    "torch_stack": Setting("PyTorch, np.stack", "torch:data_loader", {"stack": True}),
    "asynchronous": Setting("headrace, async, 512 reads", "headrace:asynchronous"),
    "limits": Setting("limit loops side by side", "plain_loops:side_by_side", alone=False),
}
"""In the order of their turns: the limit loop and headrace next to each other."""
