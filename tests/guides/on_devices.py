"""Batches on devices: in a map, in the loop, and ahead of it; then sharded over a mesh, each host
its part.
"""

import grain
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

device = jax.devices()[0]
numbers = (
    grain.MapDataset.range(24).seed(2).shuffle().map(lambda x: np.full(2, x, np.float32)).batch(8)
)
in_loop = [jax.device_put(batch, device) for batch in numbers.to_iter_dataset()]
ahead = list(
    grain.experimental.device_put(
        numbers.to_iter_dataset(), device, cpu_buffer_size=2, device_buffer_size=1
    )
)

mesh = Mesh(np.array(jax.devices()), ("data",))
sharding = NamedSharding(mesh, PartitionSpec("data"))
loader = grain.DataLoader(
    data_source=np.arange(24, dtype=np.float32),
    sampler=grain.samplers.IndexSampler(
        24, grain.sharding.ShardByJaxProcess(drop_remainder=True), True, 1, 4
    ),
    operations=[grain.transforms.Batch(8 // jax.process_count())],
)
shards = [jax.make_array_from_process_local_data(sharding, batch) for batch in loader]
elements = [np.asarray(each) for each in (*in_loop, *ahead, *shards)]
