"""Compare the programs of tests/guides/, with more data, with real Grain and with `headrace.compat.grain`.

    python bench/speed.py guides --seconds 1 --rounds 3 [--only NAME …]

Prints a line of medians in elements per second, and the ratio of headrace's rate to Grain's better
one, for each program. Contenders take turns; their start is not measured. Grain runs with its default number of
threads, and with two workers; headrace runs with two workers.
"""

from __future__ import annotations

import argparse
import functools
import logging
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grain as real
import grain.python
import jax
import numpy as np
from absl import flags
from array_record.python.array_record_module import ArrayRecordWriter
from measuring import frozen, keep_bytecode, medians, take_turn

import headrace.compat.grain as ours

RECORDS = 20_000
WORKERS = 2

Program = Callable[[Any, int], Any]
PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    """One of those that are run."""
    PROGRAMS[make.__name__] = make
    return make


def with_workers(g: Any, stream: Any, workers: int) -> Any:
    """The stream, made in worker processes if there are to be some."""
    return stream.mp_prefetch(g.MultiprocessingOptions(num_workers=workers)) if workers else stream


@functools.cache
def documents() -> list[dict[str, Any]]:
    """Token arrays of unequal length."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 200, RECORDS)
    return [{"inputs": rng.integers(2, 30_000, length).astype(np.int32)} for length in lengths]


@functools.cache
def array_record() -> str:
    """The path of a file of pickled records."""
    path = Path(tempfile.mkdtemp(), "data.array_record")
    writer = ArrayRecordWriter(str(path), "group_size:1")
    for number in range(RECORDS):
        writer.write(pickle.dumps({"id": number, "x": np.full(30, number)}))
    writer.close()
    return str(path)


@program
def minimal(g: Any, workers: int) -> Any:
    """Source, shuffle, map, batch."""
    digits = [(np.full(64, number % 256, np.uint8), number % 10) for number in range(RECORDS)]
    shuffled = g.MapDataset.source(digits).shuffle(seed=10).repeat()
    mapped = shuffled.map(lambda pair: {"image": pair[0].reshape(8, 8), "label": pair[1]})
    return with_workers(g, mapped.batch(batch_size=32).to_iter_dataset(), workers)


@program
def stable_shapes(g: Any, workers: int) -> Any:
    """Endless epochs of numbers."""
    return with_workers(g, g.MapDataset.range(RECORDS).seed(3).shuffle().repeat().batch(4).to_iter_dataset(), workers)


def collate(batch: Any) -> dict[str, Any]:
    """Rows of the length of the longest."""
    tokens = np.zeros((len(batch), max(len(each["inputs"]) for each in batch)), np.int32)
    for row, each in zip(tokens, batch):
        row[: len(each["inputs"])] = each["inputs"]
    return {"inputs": tokens, "length": np.array([len(each["inputs"]) for each in batch])}


def with_words_dropped(element: Any, rng: np.random.Generator) -> Any:
    """A random map of tokens."""
    return {"inputs": element["inputs"][rng.random(len(element["inputs"])) > 0.2]}


@program
def ragged_tokens(g: Any, workers: int) -> Any:
    """A random map, and a function that makes batches."""
    dropped = g.MapDataset.source(documents()).seed(42).shuffle().repeat().random_map(with_words_dropped)
    return with_workers(g, dropped.batch(8, batch_fn=collate).to_iter_dataset(), workers)


class Squares:
    """A source of a user's."""

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        return {"x": np.float32(index**2), "index": index}

    def __repr__(self) -> str:
        return "Squares()"


@program
def four_parts(g: Any, workers: int) -> Any:
    """A DataLoader of four parts."""

    class Jitter(g.python.RandomMapTransform):  # type: ignore[misc]
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            return {**element, "x": element["x"] + rng.normal()}

    class Even(g.python.FilterTransform):  # type: ignore[misc]
        def filter(self, element: Any) -> bool:
            return bool(element["index"] % 2 == 0)

    return g.DataLoader(
        data_source=Squares(),
        sampler=g.python.IndexSampler(num_records=RECORDS, shard_options=g.python.NoSharding(), shuffle=True, seed=0),
        operations=[Jitter(), Even(), g.python.Batch(batch_size=16, drop_remainder=True)],
        worker_count=workers,
    )


@program
def workers_and_states(g: Any, workers: int) -> Any:
    """ArrayRecord, decoded."""
    source = g.sources.ArrayRecordDataSource([array_record()])
    decoded = g.MapDataset.source(source).seed(1).shuffle().repeat().map(pickle.loads)
    return with_workers(g, decoded.to_iter_dataset().batch(16, drop_remainder=True), workers)


def corpora(g: Any) -> list[Any]:
    """Three corpora of documents, each endless."""
    rows = documents()
    parts = [rows[: RECORDS // 2], rows[RECORDS // 2 : -1000], rows[-1000:]]
    return [g.MapDataset.source(part).shuffle(seed=number).repeat(None)[1::2] for number, part in enumerate(parts)]


@program
def language_model(g: Any, workers: int) -> Any:
    """A mixture, concatenated and split, with BOS."""
    packed = g.experimental.ConcatThenSplitIterDataset(
        g.MapDataset.mix(corpora(g), [0.7, 0.2, 0.1]).seed(7).to_iter_dataset(),
        length_struct={"inputs": 512},
        bos_handling=g.experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=("inputs",),
        bos_token_id=1,
    )
    return with_workers(g, packed.batch(4), workers)


@program
def interleaved_files(g: Any, workers: int) -> Any:
    """Files interleaved, shuffled in windows, packed into bins, padded."""
    files = [corpus.to_iter_dataset() for corpus in corpora(g)]
    interleaved = g.experimental.InterleaveIterDataset(files, cycle_length=3)
    shuffled = g.experimental.WindowShuffleIterDataset(interleaved, window_size=100, seed=3)
    bins = g.experimental.FirstFitPackIterDataset(
        shuffled.map(lambda element: {**element, "targets": element["inputs"][1:]}),
        length_struct={"inputs": 512, "targets": 512},
        num_packing_bins=16,
        seed=2,
        max_sequences_per_bin=12,
    )
    pad = functools.partial(g.experimental.batch_and_pad, batch_size=3)
    return with_workers(g, bins.batch(3, batch_fn=pad), workers)


@program
def mixed_streams(g: Any, workers: int) -> Any:
    """A mix of streams, each filtered, and a random map of what comes."""
    streams = [corpus.to_iter_dataset().filter(lambda each: len(each["inputs"]) > 20) for corpus in corpora(g)]
    mixed = g.IterDataset.mix(streams, [0.6, 0.3, 0.1]).seed(4).random_map(with_words_dropped)
    return with_workers(g, mixed.batch(8, batch_fn=collate), workers)


@program
def shuffled_in_windows(g: Any, workers: int) -> Any:
    """A stream shuffled in windows, and mapped."""
    shuffled = g.experimental.WindowShuffleIterDataset(corpora(g)[0].to_iter_dataset(), window_size=100, seed=3)
    return with_workers(g, shuffled.map(lambda each: each["inputs"][:3] + 1).batch(16), workers)


@program
def tuning(g: Any, workers: int) -> Any:
    """Instruction data: filtered, masked, in batches."""
    length = 16

    def masked(element: Any) -> Any:
        tokens = np.zeros(length, np.int32)
        tokens[: len(element["inputs"][:length])] = element["inputs"][:length]
        return {"tokens": tokens, "mask": (tokens > 0).astype(np.int32)}

    kept = g.MapDataset.source(documents()).seed(5).shuffle().repeat().filter(lambda each: len(each["inputs"]) < 150)
    return with_workers(g, kept.map(masked).to_iter_dataset().batch(4, drop_remainder=True), workers)


@program
def on_devices(g: Any, workers: int) -> Any:
    """Batches on a device, ahead of the loop."""
    numbers = g.MapDataset.range(RECORDS).seed(2).shuffle().repeat().map(lambda x: np.full(2, x, np.float32))
    stream = with_workers(g, numbers.batch(128).to_iter_dataset(), workers)
    return g.experimental.device_put(stream, jax.devices()[0], cpu_buffer_size=2, device_buffer_size=1)


CONTENDERS: dict[str, tuple[Any, int]] = {
    "Grain": (real, 0),
    "Grain, 2 workers": (real, WORKERS),
    "ours": (ours, WORKERS),
}


def rate(name: str, contender: str, seconds: float) -> float:
    """Elements a second in one turn."""
    g, workers = CONTENDERS[contender]
    return take_turn(PROGRAMS[name](g, workers), 1, seconds).rate


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))


def main(options: argparse.Namespace) -> None:
    """Run the programs, and print a line for each."""
    keep_bytecode()
    flags.FLAGS.mark_as_parsed()
    logging.getLogger("absl").setLevel(logging.ERROR)
    with frozen():
        for name in options.only:
            turns = {each: functools.partial(rate, name, each, options.seconds) for each in CONTENDERS}
            found = medians(options.rounds, turns)
            told = ", ".join(f"{each} {value:,.0f}" for each, value in found.items())
            print(f"{name}: {told}; {found['ours'] / max(found['Grain'], found['Grain, 2 workers']):.2f} ×", flush=True)
