"""In the manner of Tunix's examples: translations are tokenized, made into inputs and masks,
filtered and batched.
"""

import numpy as np
from grain import python as grain

BOS, EOS, PAD, LONGEST = 1, 2, 0, 16


class Tokenize(grain.MapTransform):
    """Two texts become tokens: a number for each letter."""

    def map(self, element):
        source, target = ([ord(letter) for letter in element[name]] for name in ("src", "dst"))
        return np.array([BOS, *source]), np.array([*target, EOS])


class BuildTrainInput(grain.MapTransform):
    """One row of both, filled up; the mask says what is to be learned."""

    def map(self, tokens):
        source, target = tokens
        row = np.concatenate(tokens)
        mask = np.concatenate([np.zeros_like(source), np.ones_like(target)])
        free = LONGEST - len(row)
        if free < 0:
            return {"input_tokens": row, "input_mask": mask.astype(bool)}
        filled = {
            "input_tokens": np.pad(row, (0, free), constant_values=PAD),
            "input_mask": np.pad(mask, (0, free)),
        }
        return {**filled, "input_mask": filled["input_mask"].astype(bool)}


class FilterOverlength(grain.FilterTransform):
    """Rows that are too long are left out."""

    def filter(self, element):
        return element["input_tokens"].shape[0] <= LONGEST


def pipeline(workers=0):
    """What the program trains on."""
    texts = [{"src": "a" * (n % 9), "dst": "bc" * (n % 5 + 1)} for n in range(61)]
    sampler = grain.IndexSampler(
        num_records=len(texts),
        num_epochs=2,
        shard_options=grain.NoSharding(),
        shuffle=True,
        seed=12,
    )
    return grain.DataLoader(
        data_source=texts,
        sampler=sampler,
        operations=[
            Tokenize(),
            BuildTrainInput(),
            FilterOverlength(),
            grain.Batch(batch_size=6, drop_remainder=True),
        ],
        worker_count=workers,
    )


if __name__ == "__main__":
    print(len(list(pipeline())))
