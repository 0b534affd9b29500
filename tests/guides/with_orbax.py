"""Checkpoints by Orbax, of a loader and of a chain, in the middle of an epoch."""

import tempfile
from pathlib import Path

import grain
import grain.checkpoint
import orbax.checkpoint as ocp

chain = grain.MapDataset.range(30).seed(1).shuffle().to_iter_dataset().map(lambda x: x * 2).batch(4)
loader = grain.load(list(range(30)), num_epochs=1, shuffle=True, seed=3, batch_size=4)
elements = []
for source in (chain, loader):
    iterator = iter(source)
    elements += [next(iterator), next(iterator)]
    with tempfile.TemporaryDirectory() as folder, ocp.CheckpointManager(Path(folder)) as manager:
        manager.save(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator)))
        manager.wait_until_finished()
        again = iter(source)
        manager.restore(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(again)))
    elements += list(again)
