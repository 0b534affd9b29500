"""Instruction and preference data: prompts and answers, masks, filters, pairs side by side."""

import grain
import numpy as np
from grain import experimental

LENGTH = 16
rows = [
    {
        "prompt": list(range(1, 2 + i % 6)),
        "chosen": list(range(50, 53 + i % 5)),
        "rejected": list(range(80, 81 + i % 9)),
    }
    for i in range(40)
]


class Masked(grain.transforms.Map):
    def __init__(self, answer):
        self._answer = answer

    def map(self, element):
        tokens = (element["prompt"] + element[self._answer])[:LENGTH]
        mask = [0] * len(element["prompt"]) + [1] * len(element[self._answer])
        padding = LENGTH - len(tokens)
        return {
            "tokens": np.array(tokens + [0] * padding, np.int32),
            "mask": np.array(mask[:LENGTH] + [0] * padding, np.int32),
        }


class FitsInto(grain.transforms.Filter):
    def filter(self, element):
        return len(element["prompt"]) + len(element["rejected"]) < 13


kept = grain.MapDataset.source(rows).seed(5).shuffle().filter(FitsInto())
tuned = kept.map(Masked("chosen")).to_iter_dataset().batch(4, drop_remainder=True)
pairs = experimental.ZipMapDataset([kept.map(Masked("chosen")), kept.map(Masked("rejected"))])
compared = pairs.filter(lambda pair: pair[0] is not None).to_iter_dataset().batch(5)
elements = [*tuned, *compared]
