"""Runs whose data live, played by a seed, and an account of what must come, which knows no orders
or states of headrace.

In: a seed. Out: elements of a run that is killed and begun again, on other shards, while records
are appended and left out, and the weights of a mix change; held against the account as they come.
"""

from __future__ import annotations

import copy
import json
import random

from headrace import (
    Batch,
    DataLoader,
    GrowthOptions,
    IndexSampler,
    MixSampler,
    ReadOptions,
    ShardOptions,
)
from support.growing_source import GrowingKeys, append

APART = 100_000
"""Between the first records of two parts."""


class PartAccount:
    """The records of a part that are still to come in its epoch.

    Args:
        known: the number of records that the run knows of.
    """

    def __init__(self, known):
        self.known = known
        self.left, self.began = set(), False

    def look(self, records, joins):
        """The run has looked, and there are so many; those that are new come in the epoch under
        way, or in the next one.
        """
        if joins and self.began:
            self.left |= set(range(self.known, records))
        self.known = max(records, self.known) if self.began else records

    def see(self, key, omitted):
        """A record comes."""
        if not self.left - omitted:
            self.left, self.began = set(range(self.known)), True
        assert key not in omitted, f"record {key} was left out"
        assert key in self.left, f"record {key} comes twice in an epoch, or not yet"
        self.left.remove(key)


class Account:
    """All that came, by position, and what is still to come of each part."""

    def __init__(self, at, every, known):
        self.at, self.every = at, every
        self.parts = {name: PartAccount(records) for name, records in known.items()}
        self.came = []  # the parts that were drawn
        self.weights = []  # and by which weights, each from a position on

    def see(self, name, key, there, omitted, looks):
        """A record of a part comes, and there are so many of each part when it does.

        `looks` holds what was found at places, also by runs that were killed: who comes there again
        finds the same.
        """
        position, part = len(self.came), self.parts[name]
        due = set(self.parts) if self.at == "now" and position % self.every == 0 else set()
        due |= set() if part.left - omitted[name] else {name}
        if due and self.at != "hand":
            found = looks.setdefault(
                (json.dumps(self.weights), position), {each: there[each] for each in due}
            )
            for each, records in found.items():
                self.parts[each].look(records, self.at == "now")
        part.see(key, omitted[name])
        self.came.append(name)
        self._check_share(name)

    def _check_share(self, name):
        """A part has come as often as its weight says."""
        since, weights = self.weights[-1]
        share = (len(self.came) - since) * weights[name] / sum(weights.values())
        assert abs(self.came[since:].count(name) - share) <= 3, (
            f"part {name} does not come as its weight says"
        )


class History:
    """A run of one stream on some shards, killed and begun again on others, while its records and
    weights change.

    Args:
        seed: of all that happens.
        folder: for the data.
        parts: how many sources are mixed; 1 for one that is not.
        options: of the loader.
    """

    def __init__(self, seed, folder, parts=1, **options):
        self.draw, self.options = random.Random(seed), options
        self.folder = folder / f"history {seed}"
        self.folder.mkdir()
        self.names = [chr(ord("a") + number) for number in range(parts)]
        for name in self.names:
            self._append(name, self.draw.randint(3, 20))
        self.at = self.draw.choice(["epoch", "now", "hand"])
        self.every = self.draw.randint(1, 20)
        self.shuffle, self.seed = self.draw.random() < 0.8, seed
        self.omitted = {name: set() for name in self.names}
        self.weights = dict.fromkeys(self.names, 1)
        self.account, self.looks = Account(self.at, self.every, self._there()), {}
        self.states, self.saved = [], copy.deepcopy(self.account)

    def _append(self, name, records):
        append(self.folder / f"{name}.json", records)

    def _sources(self):
        return {
            name: GrowingKeys(self.folder / f"{name}.json", first=APART * number)
            for number, name in enumerate(self.names)
        }

    def _there(self):
        return {name: len(source) for name, source in self._sources().items()}

    def loader(self, batch, shard):
        """One shard of the run, over what there is now."""
        sources = self._sources()
        common = {"shuffle": self.shuffle, "seed": self.seed}
        if len(sources) == 1:
            (source,) = sources.values()
            kind = {
                "data_source": source,
                "sampler": IndexSampler(len(source), **common),
                "omit": self.omitted["a"],
            }
        else:
            mix = MixSampler(sources, self.weights, when_exhausted="repeat", **common)
            kind = {"data_source": sources, "sampler": mix, "omit": self.omitted}
        growth = (
            "hand" if self.at == "hand" else GrowthOptions(self.at, self.every, self.folder / "log")
        )
        return DataLoader(
            **kind,
            operations=[Batch(batch)],
            shard_options=ShardOptions(*shard),
            growth=growth,
            read_options=ReadOptions(num_threads=0),
            **self.options,
        )

    def run(self):
        """One run, until it is killed. Returns what came, by step and shard."""
        shards, batch = self.draw.choice([1, 1, 2, 3]), self.draw.randint(1, 4)
        made = self._there()
        iterators = [iter(self.loader(batch, (shard, shards))) for shard in range(shards)]
        alone = bool(self.states) and self.at == "hand" and self.draw.random() < 0.5
        for iterator in iterators:
            if alone:
                state = self.draw.choice(self.states)
                iterator.set_states([state], strict=len(self.names) == 1, equal_steps=True)
            elif self.states:
                iterator.set_states(self.states, strict=len(self.names) == 1)
        came, keeps = [], self.draw.random() < 0.5
        self._begin(made)
        for _ in range(self.draw.randint(0, 10)):
            # else what comes now is lost when the run is killed
            if keeps or self.draw.random() < 0.7:
                self._save(iterators)
            rows = [next(iterator).tolist() for iterator in iterators]
            came.append(rows)
            there = made if self.at == "hand" else self._there()
            for row in range(batch):
                for shard in range(shards):
                    self._see(rows[shard][row], there)
            for name in self.names:
                if self.draw.random() < 0.2:
                    self._append(name, self.draw.randint(1, 6))
        if keeps:
            self._save(iterators)
        self._restore()
        for iterator in iterators:
            iterator.close()
        return came

    def _begin(self, made):
        """A run begins, whose loaders were made when there were so many records."""
        account = self.account
        if not account.weights or self.weights != account.weights[-1][1]:
            account.weights = [stage for stage in account.weights if stage[0] < len(account.came)]
            account.weights.append([len(account.came), self.weights])
        if self.at == "hand":
            for name, part in account.parts.items():
                part.known = made[name]

    def _see(self, record, there):
        number, key = divmod(record, APART)
        self.account.see(self.names[number], key, there, self.omitted, self.looks)

    def _save(self, iterators):
        self.states, self.saved = (
            [iterator.get_state() for iterator in iterators],
            copy.deepcopy(self.account),
        )

    def _restore(self):
        self.account = copy.deepcopy(self.saved)

    def omit(self):
        """Leave out some more of the records of a part that the run knows."""
        name = self.draw.choice(self.names)
        known = self.account.parts[name].known
        if known > len(self.omitted[name]) + 3:
            self.omitted[name] |= set(self.draw.sample(range(known), self.draw.randint(1, 2)))

    def reweigh(self):
        """Give the parts of a mix other weights."""
        self.weights = {name: self.draw.randint(1, 5) for name in self.names}

    def change(self):
        """What happens between two runs."""
        if self.draw.random() < 0.4:
            self.omit()
        if len(self.names) > 1 and self.draw.random() < 0.4:
            self.reweigh()

    @property
    def changes(self):
        """The number of changes that the last state knows."""
        state = json.loads(self.states[0]) if self.states else {}
        return len(state.get("history", {}).get("orders", []))
