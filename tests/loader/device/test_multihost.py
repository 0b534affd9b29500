"""Several processes under jax.distributed save together, and another number of them goes on."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest
from support.pipelines import chosen

PROGRAM = textwrap.dedent("""
    import json, sys
    import jax
    import orbax.checkpoint as ocp
    import headrace
    from headrace.checkpoint import CheckpointRestore, CheckpointSave

    index, count, port, folder, restore_from, save_at = sys.argv[1:]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", int(count), int(index))
    sampler = headrace.IndexSampler(500, headrace.ShardByJaxProcess(), shuffle=True, seed=2, num_epochs=1)
    operations = [headrace.Filter(lambda x: x % 3), headrace.Batch(4)]
    iterator = iter(headrace.DataLoader(data_source=range(500), sampler=sampler, operations=operations, worker_count=1))
    seen, step = [], 0
    with ocp.CheckpointManager(folder) as manager:
        if int(restore_from):
            manager.restore(int(restore_from), args=ocp.args.Composite(loader=CheckpointRestore(iterator)))
        for batch in iterator:
            seen += batch.tolist()
            step += 1
            if step == int(save_at):
                manager.save(int(restore_from) + step, args=ocp.args.Composite(loader=CheckpointSave(iterator)))
                manager.wait_until_finished()
                break
    iterator.close()
    print(json.dumps(seen), flush=True)
""")


def _run(count: int, folder, restore_from: int, save_at: int) -> list[int]:
    """All that the processes delivered, until they saved."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                *map(str, (index, count, port, folder, restore_from, save_at)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for index in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=180) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
    return [number for output, _ in outputs for number in json.loads(output.splitlines()[-1])]


@pytest.mark.parametrize(("many", "few"), chosen([(2, 1), (4, 2)], (2, 1)))
@pytest.mark.long
def test_many_processes_save_and_few_go_on_and_many_again(many, few, tmp_path):
    """Each record that passes the filter comes exactly once, through Orbax, on all of these numbers
    of processes.
    """
    seen = _run(many, tmp_path, 0, 5)
    assert len(list((tmp_path / "5" / "loader").glob(f"process_*-of-{many}.json"))) == many
    seen += _run(few, tmp_path, 5, 7)
    seen += _run(many, tmp_path, 12, 10**6)
    assert sorted(seen) == [number for number in range(500) if number % 3]
