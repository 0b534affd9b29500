"""Endless epochs, so that every batch is whole; then padding instead; then what does not fill a
batch is dropped.
"""

import functools

import grain

numbers = grain.MapDataset.range(10).seed(3).shuffle()
endless = iter(numbers.repeat(num_epochs=None).batch(4).to_iter_dataset())
pad = functools.partial(grain.experimental.batch_and_pad, batch_size=4, pad_value=-1)
elements = [
    *(next(endless) for _ in range(9)),
    *numbers.batch(4, batch_fn=pad),
    *numbers.batch(4, drop_remainder=True).to_iter_dataset(),
]
