"""Random programs that change between their runs: other weights, new parts, more records left out, on other shards each time.

In: a seed. Out: each token of a stream, once; or a refusal, with its reason. What must come is counted from the records alone:
nothing here knows orders, positions or states.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from headrace import IterDataset, MapDataset, ShardOptions
from headrace.errors import CheckpointError

APART = 1000
"""Between the first records of two parts."""

MOST_STEPS = 500
"""No stream here has as many."""


def _copies(x):
    return [x, x + 0.5]


def _keeps(x):
    return int(np.ravel(x)[0]) % 5 != 3


def _document(x):
    return np.repeat(x, 1 + int(x) % 3)


def _tokens(row):
    return row["tokens"][row["tokens_segment_ids"] > 0]


TAILS = {
    "flat map": lambda stream, n: stream.flat_map(_copies),
    "filter": lambda stream, n: stream.filter(_keeps),
    "pack": lambda stream, n: stream.map(np.atleast_1d).pack(1 + n, window=2 * n).map(_tokens).flat_map(list),
    "packed": lambda stream, n: stream.map(np.atleast_1d).pack(1 + n, window=2 * n).map(_tokens),
    "window shuffle": lambda stream, n: stream.window_shuffle(n, seed=n),
    "batch taken apart": lambda stream, n: stream.batch(n).flat_map(list),
}
"""Methods after the mix; "packed" and batches come last."""

REASONS = {
    "steps of several sizes": "equal_steps=True needs a pipeline in which each step has the same number of records",
    "the end of a shard": "equal_steps=True cannot be used at the end of a shard",
    "shorter": "fewer than these shards have passed",
    "one shard": "shards do not say at which steps the other shards were",
    "records inside a window": "saved inside a window of a Pack",
    "late record": "is omitted now, but it is in a window that was begun",
    "a mix of streams after an omission": "records were appended or omitted earlier in the run",
    "a second omission": "were read with another omit= than now",
    "draws otherwise": "would draw other numbers",
    "rows after a mix": "restore a checkpoint that was saved between two windows",
}
"""What may be refused, and words of the message."""


class ChangingProgram:
    """A stream of a finite mix on some shards, which is stopped, changed and resumed on others.

    Args:
        seed: of all that happens.
        kinds: of changes, of "weights", "part" and "omit".
        of_streams: mixes streams in place of map datasets.
    """

    def __init__(self, seed, kinds=("weights", "part", "omit"), of_streams=False):
        self.draw, self.kinds, self.of_streams = random.Random(f"changing {seed}"), kinds, of_streams
        draw = self.draw
        self.counts = {name: draw.randint(1, 9) for name in "abc"[: draw.randint(1, 2)]}
        self.weights = {name: draw.randint(1, 3) for name in self.counts}
        self.omitted = {name: set() for name in self.counts}
        methods = draw.sample([*TAILS], draw.randint(0, 3))
        methods.sort(key=lambda name: name == "packed")
        self.tail = [(name, draw.randint(2, 4)) for name in methods]
        self.batch = draw.choice([None, None, 2, 3]) if "packed" not in methods else None
        self.trusting = 0.02 if self.tail or of_streams else 0.6
        self.shards = draw.randint(1, 3)
        self.ended = False
        self.log, self.refused = [], Counter()
        self.came, self.late = Counter(), Counter()

    def stream(self, shard):
        """The stream of one shard."""
        parts = {}
        for number, (name, count) in enumerate(self.counts.items()):
            first = APART * number
            part = MapDataset.source(np.arange(first, first + count, dtype=np.float64))
            parts[name] = part.omit(self.omitted[name]) if self.omitted[name] and self.of_streams else part
        shard = ShardOptions(*shard)
        if self.of_streams:
            parts = {name: part.to_iter_dataset(shard_options=shard) for name, part in parts.items()}
            stream = IterDataset.mix(parts, self.weights, when_exhausted="all")
        else:
            stream = MapDataset.mix(parts, self.weights, when_exhausted="all").to_iter_dataset(shard_options=shard)
        for name, n in self.tail:
            stream = TAILS[name](stream, n)
        if any(self.omitted.values()) and not self.of_streams:
            stream = stream.omit({name: keys for name, keys in self.omitted.items() if keys})
        return stream if self.batch is None else stream.batch(self.batch, batch_fn=np.stack)

    def play(self, runs=4):
        """All runs, the last one to its end. Raises AssertionError: a token is lost or comes twice."""
        iterators = self._opened()
        for _ in range(runs):
            self._take(iterators)
            iterators = self._resumed(iterators)
        for iterator in iterators:
            for _ in range(MOST_STEPS):
                if not self._next(iterator):
                    break
            else:
                raise AssertionError(f"no end comes: {self.log}")
        self._check()

    def _opened(self):
        return [iter(self.stream((shard, self.shards))) for shard in range(self.shards)]

    def _take(self, iterators):
        equal = self.draw.random() < 0.4
        steps = [self.draw.randint(0, 3)] * len(iterators) if equal else [self.draw.randint(0, 3) for _ in iterators]
        self.log.append(f"steps {steps}")
        for iterator, count in zip(iterators, steps):
            for _ in range(count):
                self._next(iterator)

    def _next(self, iterator):
        element = next(iterator, None)
        if element is not None:
            found = Counter(np.ravel(element).tolist())
            self.came += found
        self.ended |= element is None
        return element is not None

    def _stand_equal(self, iterators):
        """True if all shards stand at the same step, of which none was a short one at an end."""
        return not self.ended and len({iterator.step for iterator in iterators}) == 1

    def _resumed(self, iterators):
        """Iterators that go on after a change; where it is refused, without it."""
        states = [iterator.get_state() for iterator in iterators]
        before = (dict(self.counts), dict(self.weights), {name: set(keys) for name, keys in self.omitted.items()})
        was, kind = self.shards, self.draw.choice([*self.kinds, None])
        getattr(self, f"_change_{kind}", int)()
        self.shards = was if self.draw.random() < 0.4 else self.draw.randint(1, 3)
        way = "all states"
        if self.shards == was and self.draw.random() < 0.15:
            way = "own state"
        elif self._stand_equal(iterators) and self.draw.random() < self.trusting:
            way = "equal steps"
        self.log.append(f"{kind}, {was} → {self.shards} shards by {way}: {self._told()}")
        found, refusal = self._restored(states, way)
        if found is None:
            reason = next((name for name, words in REASONS.items() if words in refusal), None)
            assert reason is not None, f"refused, {refusal}: {self.log}"
            self.refused[reason] += 1
            self.log.append(f"refused: {reason}")
            self.counts, self.weights, self.omitted = before
            self.shards = was
            found, refusal = self._restored(states, "own state")
            assert found is not None, f"the same program is refused: {refusal}"
        self.ended &= self.shards == was
        return found

    def _restored(self, states, way):
        """Iterators that were restored in a way; or None, and why that was refused."""
        iterators = self._opened()
        try:
            for iterator, state in zip(iterators, states if way == "own state" else [None] * len(iterators)):
                if way == "own state":
                    iterator.set_state(state, strict=False)
                elif way == "equal steps":
                    iterator.set_states([self.draw.choice(states)], strict=False, equal_steps=True)
                else:
                    iterator.set_states(states, strict=False)
        except CheckpointError as error:
            return None, str(error)
        return iterators, ""

    def _change_weights(self):
        self.weights = {name: self.draw.randint(1, 5) for name in self.counts}

    def _change_part(self):
        name = "abcdefgh"[len(self.counts)]
        self.counts[name], self.weights[name] = self.draw.randint(1, 5), self.draw.randint(1, 3)
        self.omitted[name] = set()

    def _change_omit(self):
        name = self.draw.choice([*self.counts])
        left = [key for key in range(self.counts[name]) if key not in self.omitted[name]]
        if len(left) > 1:
            self.omitted[name] |= set(self.draw.sample(left, self.draw.randint(1, min(2, len(left) - 1))))

    def _told(self):
        return f"{self.counts}, weights {self.weights}, without {self.omitted}"

    def _check(self):
        """Each token of a record comes once; of one that was left out at some time, once at most."""
        copies, keeps = any(name == "flat map" for name, _ in self.tail), any(name == "filter" for name, _ in self.tail)
        lost, twice = [], []
        for number, (name, count) in enumerate(self.counts.items()):
            for key in range(count):
                record = float(APART * number + key)
                for token in _copies(record) if copies else [record]:
                    due = not (keeps and not _keeps(token))
                    came = self.came.pop(token, 0)
                    if came > due:
                        twice.append(token)
                    if came < due and key not in self.omitted[name]:
                        lost.append(token)
        program = f"{self.tail}, batch {self.batch}"
        wrong = [*lost, *twice, *self.came]
        assert not wrong, f"lost {lost}, twice {twice}, {self.came}: {program}, {self.log}"
