"""All that guides print about datasets, samplers and sources: lengths, elements of any epoch,
records, specs, texts.
"""

from pprint import pprint

import grain
import numpy as np


class Numbers(grain.sources.RandomAccessDataSource):
    """Eight numbers."""

    def __len__(self):
        return 8

    def __getitem__(self, key):
        return int(range(8)[key])


shuffled = grain.MapDataset.source(Numbers()).shuffle(seed=10).map(lambda x: x + 1)
batches = shuffled.batch(2)
print("length:", len(batches))
pprint(batches[0])
pprint(list(batches))
pprint(batches[len(batches) + 2])
pprint(batches[len(batches) + 2] == batches[2])
even = batches.filter(lambda batch: batch.sum() % 2 == 0)
pprint(f"length with a filter: {len(even)}")
pprint([even[index] for index in range(len(even))])
part = batches[0::2]
print(f"length of a shard: {len(part)}")
for element in part.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)):
    pprint(element)

training = (
    grain.MapDataset.source(Numbers())
    .seed(42)
    .shuffle()
    .repeat()
    .map(lambda x: {"x": np.array([x])})
)
print("length:", len(training))
for options in ({}, {"drop_remainder": True}):
    print(
        "length in batches:",
        len(training.batch(128, **options)),
        len(training[3:].batch(5, **options)),
    )
print(
    "length of parts:",
    len(training[3:]),
    len(training[::2]),
    len(training[:10]),
    len(training[-4:]),
)
print("length of a mix:", len(grain.MapDataset.mix([training, shuffled], [0.7, 0.3])))
print("length of endless mixes:", len(grain.MapDataset.mix([training, training.batch(2)])))
pprint(training[0])

iterator = iter(batches)
pprint(isinstance(iterator, grain.DatasetIterator))
pprint(next(iterator))
state = iterator.get_state()
pprint(next(iterator))
iterator.set_state(state)
pprint(next(iterator))

sampler = grain.samplers.IndexSampler(
    num_records=5, num_epochs=2, shard_options=grain.sharding.NoSharding(), shuffle=True, seed=0
)
for metadata in sampler:
    print(metadata)
print(sampler, grain.samplers.SequentialSampler(num_records=5))
print(
    grain.sharding.ShardOptions(shard_index=0, shard_count=2),
    grain.ReadOptions(),
    grain.MultiprocessingOptions(2),
)
source = grain.sources.RangeDataSource(start=0, stop=10, step=2)
print(source, "records:", len(source), "first:", source[0])
print(grain.experimental.get_element_spec(grain.MapDataset.range(4).batch(2)))
for element in grain.DataLoader(data_source=source, sampler=sampler, worker_count=WORKERS):  # noqa: F821
    print(element)
elements = list(batches)
