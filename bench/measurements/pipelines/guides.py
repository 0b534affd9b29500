"""Compare the programs of tests/guides/, with more data, with real Grain and with `headrace.compat.grain`.

    python bench/speed.py guides [--seconds 1] [--rounds 3] [TABLE …]

A table has the elements per second of a program. Contenders take turns; their start is not measured. Grain
runs with its default number of threads, and with two workers; headrace runs with two workers.
"""

from __future__ import annotations

import functools
import logging
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain as real
import grain.python
import jax
import numpy as np
from absl import flags
from adapters.files import write_array_record
from measurement import Table
from measuring import take_turn

import headrace.compat.grain as ours

OPTIONS = {"rounds": 3, "seconds": 1.0}
RECORDS = 20_000
CONTENDERS: dict[str, tuple[Any, int]] = {
    "Grain, threads": (real, 0),
    "Grain, 2 workers": (real, 2),
    "headrace, 2 workers": (ours, 2),
}

flags.FLAGS.mark_as_parsed()
logging.getLogger("absl").setLevel(logging.ERROR)


@functools.cache
def documents() -> list[dict[str, Any]]:
    """Token arrays of unequal length."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 200, RECORDS)
    return [{"inputs": rng.integers(2, 30_000, length).astype(np.int32)} for length in lengths]


@functools.cache
def array_record() -> str:
    """The path of a file of pickled records."""
    records = ({"id": number, "x": np.full(30, number)} for number in range(RECORDS))
    return write_array_record(map(pickle.dumps, records), Path(tempfile.mkdtemp()))


def corpora(g: Any) -> list[Any]:
    """Three corpora of documents, each endless."""
    rows = documents()
    parts = [rows[: RECORDS // 2], rows[RECORDS // 2 : -1000], rows[-1000:]]
    return [g.MapDataset.source(part).shuffle(seed=number).repeat(None)[1::2] for number, part in enumerate(parts)]


def collate(batch: Any) -> dict[str, Any]:
    """Rows of the length of the longest."""
    tokens = np.zeros((len(batch), max(len(each["inputs"]) for each in batch)), np.int32)
    for row, each in zip(tokens, batch):
        row[: len(each["inputs"])] = each["inputs"]
    return {"inputs": tokens, "length": np.array([len(each["inputs"]) for each in batch])}


def with_words_dropped(element: Any, rng: np.random.Generator) -> Any:
    """A random map of tokens."""
    return {"inputs": element["inputs"][rng.random(len(element["inputs"])) > 0.2]}


def masked(element: Any, length: int = 16) -> Any:
    """The first tokens, and where there are some."""
    tokens = np.zeros(length, np.int32)
    tokens[: len(element["inputs"][:length])] = element["inputs"][:length]
    return {"tokens": tokens, "mask": (tokens > 0).astype(np.int32)}


# The programs: each takes `grain`, and returns a dataset


def minimal(g: Any) -> Any:
    """Source, shuffle, map, batch."""
    digits = [(np.full(64, number % 256, np.uint8), number % 10) for number in range(RECORDS)]
    shuffled = g.MapDataset.source(digits).shuffle(seed=10).repeat()
    return shuffled.map(lambda pair: {"image": pair[0].reshape(8, 8), "label": pair[1]}).batch(batch_size=32)


def stable_shapes(g: Any) -> Any:
    """Endless epochs of numbers."""
    return g.MapDataset.range(RECORDS).seed(3).shuffle().repeat().batch(4)


def ragged_tokens(g: Any) -> Any:
    """A random map, and a function that makes batches."""
    dropped = g.MapDataset.source(documents()).seed(42).shuffle().repeat().random_map(with_words_dropped)
    return dropped.batch(8, batch_fn=collate)


def workers_and_states(g: Any) -> Any:
    """ArrayRecord, decoded."""
    source = g.sources.ArrayRecordDataSource([array_record()])
    decoded = g.MapDataset.source(source).seed(1).shuffle().repeat().map(pickle.loads)
    return decoded.to_iter_dataset().batch(16, drop_remainder=True)


def language_model(g: Any) -> Any:
    """A mixture, concatenated and split, with BOS."""
    return g.experimental.ConcatThenSplitIterDataset(
        g.MapDataset.mix(corpora(g), [0.7, 0.2, 0.1]).seed(7).to_iter_dataset(),
        length_struct={"inputs": 512},
        bos_handling=g.experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=("inputs",),
        bos_token_id=1,
    ).batch(4)


def interleaved_files(g: Any) -> Any:
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
    return bins.batch(3, batch_fn=functools.partial(g.experimental.batch_and_pad, batch_size=3))


def mixed_streams(g: Any) -> Any:
    """A mix of streams, each filtered, and a random map of what comes."""
    streams = [corpus.to_iter_dataset().filter(lambda each: len(each["inputs"]) > 20) for corpus in corpora(g)]
    mixed = g.IterDataset.mix(streams, [0.6, 0.3, 0.1]).seed(4).random_map(with_words_dropped)
    return mixed.batch(8, batch_fn=collate)


def shuffled_in_windows(g: Any) -> Any:
    """A stream shuffled in windows, and mapped."""
    shuffled = g.experimental.WindowShuffleIterDataset(corpora(g)[0].to_iter_dataset(), window_size=100, seed=3)
    return shuffled.map(lambda each: each["inputs"][:3] + 1).batch(16)


def tuning(g: Any) -> Any:
    """Instruction data: filtered, masked, in batches."""
    kept = g.MapDataset.source(documents()).seed(5).shuffle().repeat().filter(lambda each: len(each["inputs"]) < 150)
    return kept.map(masked).to_iter_dataset().batch(4, drop_remainder=True)


def on_devices(g: Any) -> Any:
    """Batches that go to a device, ahead of the loop."""
    numbers = g.MapDataset.range(RECORDS).seed(2).shuffle().repeat().map(lambda x: np.full(2, x, np.float32))
    return numbers.batch(128)


class Squares:
    """A source of a user's."""

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        return {"x": np.float32(index**2), "index": index}

    def __repr__(self) -> str:
        return "Squares()"


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


def stream_of(program: Callable[..., Any], g: Any, workers: int) -> Any:
    """The batches of a program, made in worker processes if there are to be some."""
    if program is four_parts:
        return four_parts(g, workers)
    dataset = program(g)
    stream = dataset.to_iter_dataset() if hasattr(dataset, "to_iter_dataset") else dataset
    if workers:
        stream = stream.mp_prefetch(g.MultiprocessingOptions(num_workers=workers))
    if program is on_devices:
        return g.experimental.device_put(stream, jax.devices()[0], cpu_buffer_size=2, device_buffer_size=1)
    return stream


def rates(program: Callable[..., Any], options: Any) -> Iterator[Table]:
    """Elements a second, of each contender."""

    def rate(g: Any, workers: int) -> float:
        return take_turn(stream_of(program, g, workers), 1, options.seconds).rate

    turns = {told: functools.partial(rate, *contender) for told, contender in CONTENDERS.items()}
    yield Table(f"{program.__name__} (elements/s)", turns, "more")


PROGRAMS = (
    *(minimal, stable_shapes, ragged_tokens, four_parts, workers_and_states, language_model),
    *(interleaved_files, mixed_streams, shuffled_in_windows, tuning, on_devices),
)
TABLES = {program.__name__: functools.partial(rates, program) for program in PROGRAMS}
