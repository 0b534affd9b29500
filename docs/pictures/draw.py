"""The pictures of the docs, written anew by `python docs/pictures/draw.py`.

What they show, the library has computed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from drawing import Drawing

import headrace

WIDTH = 760
COLOURS = "abcd"


def flow() -> Drawing:
    """How a batch flows: who does what, and what the state is."""
    picture = Drawing(WIDTH, 324, "How a batch flows, from the sampler to your step")
    for y, who, does in (
        (20, "your process", "decides"),
        (118, "workers", "do the work"),
        (228, "your process", "delivers"),
    ):
        picture.rectangle(16, y, 728, 76, "lane", 6)
        picture.text(28, y + 34, who, "strong")
        picture.text(28, y + 52, does, "small quiet")
    picture.box(136, 30, 136, 56, "sampler", "position → record key")
    picture.box(302, 30, 136, 56, "task", "positions 128 … 191")
    picture.box(468, 30, 160, 56, "state", "step 2: position 128")
    picture.box(136, 128, 136, 56, "source", "reads records")
    picture.box(302, 128, 136, 56, "operations", "map, filter, batch …")
    picture.box(468, 128, 160, 56, "batch", "in shared memory")
    picture.box(136, 238, 136, 56, "your loop", "is at step 2")
    picture.box(302, 238, 136, 56, "device feeder", "transfers ahead")
    picture.box(468, 238, 160, 56, "order", "batches leave in order")
    picture.arrow((272, 58), (302, 58))
    picture.arrow((370, 86), (370, 107), (204, 107), (204, 128))
    picture.arrow((272, 156), (302, 156))
    picture.arrow((438, 156), (468, 156))
    picture.arrow((548, 184), (548, 238))
    picture.arrow((468, 266), (438, 266))
    picture.arrow((302, 266), (272, 266))
    picture.arrow((204, 238), (204, 211), (690, 211), (690, 58), (628, 58), dashed=True)
    picture.arrow((468, 58), (438, 58), dashed=True)
    picture.text(216, 206, "get_state(): where you stand, a few integers", "small quiet")
    return picture


def _shard(index: int, count: int, batch_size: int) -> headrace.DataLoaderIterator:
    options = headrace.ShardOptions(index, count)
    return iter(
        headrace.load(
            np.arange(32),
            shuffle=True,
            seed=0,
            num_epochs=1,
            batch_size=batch_size,
            shard_options=options,
        )
    )


def shards() -> Drawing:
    """Sharding stripes the global order.

    After a restart on fewer processes the same global batches go on.
    """
    picture = Drawing(
        WIDTH, 442, "Four processes read a shuffled order in turns; two go on with what is left"
    )
    order = [int(key) for key in _shard(0, 1, 32).__next__()]
    colour = {key: COLOURS[position % 4] for position, key in enumerate(order)}
    picture.text(
        20,
        30,
        "The global order: 32 records, shuffled. Four processes take them in turns.",
        "strong",
    )
    for position, key in enumerate(order):
        picture.cell(20 + 22.5 * position, 42, 22.5, 26, key, colour[key])
    picture.text(20, 102, "4 processes, batches of 2: all stop after two steps", "strong")
    four = [_shard(index, 4, 2) for index in range(4)]
    for index, run in enumerate(four):
        _process(picture, index, 114 + 32 * index, [next(run) for _ in range(2)], colour)
    _beside(
        picture,
        148,
        "Each process reads every fourth record",
        "of the global order. Each saves its state,",
        "a few integers.",
    )
    _brackets(picture, 246, first=1)
    picture.text(
        20, 302, "2 processes, batches of 4: they go on with the records that are left", "strong"
    )
    states = [run.get_state() for run in four]
    for index in range(2):
        run = _shard(index, 2, 4)
        run.set_states(states)
        _process(picture, index, 314 + 32 * index, list(run), colour)
    _beside(
        picture,
        332,
        "Each reads every second record of what is left.",
        "They got the states of all four.",
    )
    _brackets(picture, 382, first=3)
    picture.text(
        20,
        428,
        "The global batches are those that one process would have made. No record is lost, none "
        "comes twice.",
        "small quiet",
    )
    return picture


def _process(
    picture: Drawing, index: int, y: float, batches: list[np.ndarray], colour: dict[int, str]
) -> None:
    picture.text(20, y + 18, f"process {index}", "small")
    for step, batch in enumerate(batches):
        width = 116 / len(batch)
        for place, key in enumerate(batch.tolist()):
            picture.cell(90 + 132 * step + width * place, y, width, 26, key, colour[key])


def _beside(picture: Drawing, y: float, *lines: str) -> None:
    for number, line in enumerate(lines):
        picture.text(372, y + 18 * number, line, "small quiet")


def _brackets(picture: Drawing, y: float, first: int) -> None:
    for x, step in ((90, first), (222, first + 1)):
        picture.bracket(x, y, 116, f"step {step}: 8 records")


def mix() -> Drawing:
    """Each part is drawn as often as its weight says.

    After a change of weights each part goes on where it stood.
    """
    picture = Drawing(WIDTH, 282, "Two sources are mixed by their weights, which then change")
    parts = {"web": 40, "books": 40}
    sources = {name: np.arange(40) for name in parts}

    def run(**weights: float) -> headrace.DataLoaderIterator:
        sampler = headrace.MixSampler(parts, weights=weights, shuffle=True, seed=0)
        return iter(headrace.DataLoader(data_source=sources, sampler=sampler))

    before = run(web=0.7, books=0.3)
    drawn = [_drawn(before) for _ in range(10)]
    after = run(web=0.2, books=0.8)
    after.set_state(before.get_state(), strict=False)
    drawn += [_drawn(after) for _ in range(10)]
    picture.text(20, 30, "Each source has a shuffled order of its own", "strong")
    for row, name in enumerate(parts):
        picture.text(20, 62 + 34 * row, name, "small")
        keys = [key for part, key in drawn if part == name]
        for place, key in enumerate(keys):
            picture.cell(80 + 30 * place, 45 + 34 * row, 30, 26, key, COLOURS[row])
        picture.text(80 + 30 * len(keys) + 10, 62 + 34 * row, "…", "small")
    picture.text(20, 146, "The mix: the position says whose turn it is", "strong")
    for position, (part, key) in enumerate(drawn):
        x = 80 + 30 * position + 20 * (position >= 10)
        picture.cell(x, 160, 30, 26, key, COLOURS[list(parts).index(part)])
    for x, weights, half in (
        (80, "0.7 web, 0.3 books", drawn[:10]),
        (400, "0.2 web, 0.8 books", drawn[10:]),
    ):
        count = sum(part == "web" for part, _ in half)
        picture.bracket(x, 194, 300, f"weights {weights}: {count} and {10 - count} of 10")
    picture.arrow((390, 252), (390, 192), dashed=True)
    picture.text(
        390,
        268,
        "restart with new weights: each source goes on with its next record",
        "small quiet",
        "middle",
    )
    return picture


def _drawn(run: headrace.DataLoaderIterator) -> tuple[str, int]:
    """Of which part the next record is, and its key."""
    next(run)
    ((part, keys),) = ((part, keys) for part, keys in run.last_records().items() if len(keys))
    return part, int(keys[0])


def pack() -> Drawing:
    """Ten documents, one in each row and then packed."""
    lengths = [9, 5, 12, 3, 16, 7, 4, 10, 6, 4]
    row_length, unit = 16, 19
    plan = headrace.Pack(row_length, window=len(lengths)).plan(np.array(lengths))
    picture = Drawing(
        WIDTH, 74 + 26 * len(lengths), "Ten documents fill ten rows, or, packed, five"
    )
    picture.text(20, 30, f"Padded: {len(lengths)} rows (grey is padding)", "strong")
    left, right = 20, 20 + row_length * unit + 90
    for row, length in enumerate(lengths):
        y = 44 + 26 * row
        picture.cell(
            left, y, length * unit, 22, f"document {row}" if length > 4 else row, COLOURS[row % 4]
        )
        if length < row_length:
            picture.rectangle(
                left + length * unit, y, (row_length - length) * unit, 22, "cell empty"
            )
    filled = sum(lengths) / (plan.rows * row_length)
    picture.text(right, 30, f"Packed: {plan.rows} rows, {filled:.0%} full", "strong")
    for row in range(plan.rows):
        y = 44 + 26 * row
        picture.rectangle(right, y, row_length * unit, 22, "cell empty")
        x = right
        pieces = plan.row(row)
        for document in pieces.documents.tolist():
            width = lengths[document] * unit
            picture.cell(
                x,
                y,
                width,
                22,
                f"document {document}" if lengths[document] > 4 else document,
                COLOURS[document % 4],
            )
            x += width
    y = 44 + 26 * plan.rows + 22
    picture.text(right, y, "A row has segment ids (1, 1, 1, 2, 2, …) and positions", "small quiet")
    picture.text(right, y + 18, "(0, 1, 2, 0, 1, …), so that attention stays within", "small quiet")
    picture.text(right, y + 36, "one document.", "small quiet")
    picture.arrow((left + row_length * unit + 20, 160), (right - 20, 160))
    return picture


def budget() -> Drawing:
    """The same records in batches of random order, and in batches by budget."""
    lengths = np.clip(np.random.default_rng(3).lognormal(2.6, 0.8, 36), 3, 60).astype(int)
    picture = Drawing(
        WIDTH, 372, "Batches in random order are mostly padding; batches by budget are not"
    )
    random = lengths.reshape(-1, 6)
    padded = sum(part.max() * len(part) for part in random)
    picture.text(
        20, 30, f"Batches of 6 in random order: {1 - lengths.sum() / padded:.0%} padding", "strong"
    )
    x = 20.0
    for number, part in enumerate(random):
        _batch(picture, x, 46, part, part.max(), COLOURS[number % 4])
        x += 1.9 * part.max() + 10
    tokens = [np.zeros(length, np.int32) for length in lengths]
    dataset = headrace.MapDataset.source(tokens).budget_batch(168, pad_to=4, lengths=lengths)
    batches = sorted(
        (dataset[index] for index in range(len(dataset))), key=lambda batch: batch["mask"].shape[1]
    )
    sizes = sum(batch["mask"].size for batch in batches)
    shapes = len({batch["mask"].shape for batch in batches})
    title = f"At most 168 tokens, {shapes} shapes: {1 - lengths.sum() / sizes:.0%} padding"
    picture.text(20, 152, title, "strong")
    x = 20.0
    for number, batch in enumerate(batches):
        _batch(picture, x, 168, batch["lengths"], batch["mask"].shape[1], COLOURS[number % 4])
        x += 1.9 * batch["mask"].shape[1] + 10
    picture.text(
        20,
        354,
        "A coloured bar is a record, grey is padding. They come in a random order.",
        "small quiet",
    )
    return picture


def _batch(
    picture: Drawing, x: float, y: float, lengths: np.ndarray, width: int, kind: str
) -> None:
    for row, length in enumerate(lengths.tolist()):
        picture.rectangle(x, y + 11 * row, 1.9 * width, 10, "cell empty", 1)
        if length:
            picture.rectangle(x, y + 11 * row, 1.9 * length, 10, f"cell {kind}", 1)


def ranks() -> Drawing:
    """The time that four ranks take for some steps, and wait for one another."""
    lengths = np.clip(np.random.default_rng(1).lognormal(5, 1, 4000), 16, 1024).astype(int)
    windows = headrace.BudgetBatch(8192, pad_to=8).windows(lengths)
    shapes = windows.shapes
    rows = round(float(np.mean(shapes.rows)))
    before = lengths[: 6 * 4 * rows].reshape(6, 4, rows).max(axis=2) ** 2 * float(rows)
    numbers = np.random.default_rng(2).permutation(int(windows.steps_on(4).before[-1]))[:6]
    shape = windows.pieces(4, np.zeros(6, int), numbers, np.zeros(6, int))[2]
    after = np.repeat(
        (np.array(shapes.rows) * np.array(shapes.lengths) ** 2.0)[shape][:, None], 4, axis=1
    )
    picture = Drawing(
        WIDTH,
        330,
        "Four ranks wait for the one with the longest record; with batches by budget, for none",
    )
    for y, title, costs in (
        (30, "Batches in random order", before),
        (180, "Batches by budget", after),
    ):
        waited = 1 - costs.mean(axis=1).sum() / costs.max(axis=1).sum()
        picture.text(20, y, f"{title}: {waited:.0%} of the time of the ranks is waiting", "strong")
        scale = 640 / costs.max(axis=1).sum()
        for rank in range(4):
            x, top = 90.0, y + 14 + 26 * rank
            picture.text(20, top + 15, f"rank {rank}", "small")
            for step, cost in enumerate(costs):
                picture.rectangle(x, top, cost.max() * scale, 22, "cell empty")
                picture.rectangle(x, top, cost[rank] * scale, 22, f"cell {COLOURS[step % 4]}")
                x += cost.max() * scale
    text = (
        "Six steps each, a colour for each. The time of a batch is rows · length², as of "
        "attention; grey is waiting."
    )
    picture.text(20, 316, text, "small quiet")
    return picture


PICTURES = {
    "flow": flow,
    "shards": shards,
    "mix": mix,
    "pack": pack,
    "budget": budget,
    "ranks": ranks,
}


def main() -> None:
    """Write all of them beside this file."""
    for name, draw in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
