"""Words of unequal number, collated by a function of one's own; elements are looked at by their
index.
"""

import keyword

import grain
import numpy as np

vocabulary = {word: number for number, word in enumerate(sorted(keyword.kwlist), 1)}
sentences = [keyword.kwlist[start : start + 1 + start % 5] for start in range(30)]


class Tokenize(grain.transforms.Map):
    def map(self, element):
        return {
            "tokens": np.array([vocabulary[word] for word in element], np.int32),
            "length": len(element),
        }


class DropWord(grain.transforms.RandomMap):
    def random_map(self, element, rng):
        keep = rng.random(element["length"]) > 0.2
        return {**element, "tokens": element["tokens"][keep]}


def collate(batch):
    """Rows of the length of the longest."""
    longest = max(len(each["tokens"]) for each in batch)
    tokens = np.zeros((len(batch), longest), np.int32)
    for row, each in zip(tokens, batch):
        row[: len(each["tokens"])] = each["tokens"]
    return {"tokens": tokens, "length": np.array([each["length"] for each in batch])}


dataset = (
    grain.MapDataset.source(sentences).seed(42).shuffle().map(Tokenize()).random_map(DropWord())
)
elements = [dataset[0], dataset[31], *dataset.batch(4, batch_fn=collate)]
