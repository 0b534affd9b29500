"""ArrayRecord → shuffle → map → batch → workers; the run is stopped in the middle, and goes on."""

import os
import pickle
import tempfile

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "data.array_record")
    writer = ArrayRecordWriter(path, "group_size:1")
    for number in range(40):
        writer.write(pickle.dumps({"id": number, "x": np.full(3, number)}))
    writer.close()

    class Decode(grain.transforms.Map):
        def map(self, element):
            return pickle.loads(element)

    source = grain.sources.ArrayRecordDataSource([path])
    dataset = (
        grain.MapDataset.source(source)
        .seed(1)
        .shuffle()
        .repeat(2)
        .map(Decode())
        .to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
        .batch(6, drop_remainder=True)
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=WORKERS))  # noqa: F821 - the test says how many
    )
    iterator = iter(dataset)
    first = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    rest = list(iterator)
    iterator.close()
    again = iter(dataset)
    again.set_state(state)
    elements = [isinstance(state, dict), *first, *rest, *again]
    again.close()
    source.__exit__(None, None, None)
