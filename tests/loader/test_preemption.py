"""A run that is killed with SIGKILL, between steps or in the middle of a save, goes on from its
last whole checkpoint.
"""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from support.pipelines import chosen

PROGRAM = textwrap.dedent("""
    import json, sys, time
    import orbax.checkpoint as ocp
    import headrace
    from headrace.checkpoint import CheckpointRestore, CheckpointSave

    folder, log, asynchronous, workers = sys.argv[1:]
    sampler = headrace.IndexSampler(300, shuffle=True, seed=2, num_epochs=1)
    operations = [headrace.Filter(lambda x: x % 3), headrace.Batch(4)]
    iterator = iter(
        headrace.DataLoader(data_source=range(300), sampler=sampler, operations=operations, worker_count=int(workers))
    )
    options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=asynchronous == "True")
    with ocp.CheckpointManager(folder, options=options) as manager, open(log, "a") as file:
        step = manager.latest_step() or 0
        if step:
            manager.restore(step, args=ocp.args.Composite(loader=CheckpointRestore(iterator)))
        print("ready", flush=True)
        for batch in iterator:
            step += 1
            file.write(json.dumps([step, batch.tolist()]) + "\\n")
            file.flush()
            manager.save(step, args=ocp.args.Composite(loader=CheckpointSave(iterator)))
            time.sleep(0.01)
        manager.wait_until_finished()
    iterator.close()
    print("ended", flush=True)
""")


def _expected():
    import headrace

    sampler = headrace.IndexSampler(300, shuffle=True, seed=2, num_epochs=1)
    operations = [headrace.Filter(lambda x: x % 3), headrace.Batch(4)]
    return [
        batch.tolist()
        for batch in headrace.DataLoader(
            data_source=range(300), sampler=sampler, operations=operations
        )
    ]


def _saving(folder) -> bool:
    """Whether Orbax is writing a checkpoint at this moment: its folder still has a
    temporary name.
    """
    return any("tmp" in name for name in os.listdir(folder))


@pytest.mark.parametrize("kills", chosen([2, 6], 2))
@pytest.mark.parametrize(("asynchronous", "workers"), chosen([(True, 1), (False, 0)], (True, 1)))
@pytest.mark.long
def test_a_run_killed_again_and_again_delivers_what_it_would_have_delivered(
    asynchronous, workers, kills, tmp_path
):
    """Killed at random moments and, every second time, while a checkpoint is half written; the last
    run ends by itself.
    """
    folder, log, chance = tmp_path / "checkpoints", tmp_path / "log", random.Random(1)
    folder.mkdir()
    arguments = [str(folder), str(log), str(asynchronous), str(workers)]
    killed = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        if killed < kills:
            time.sleep(chance.uniform(0.05, 0.3))
            while killed % 2 and not _saving(folder) and process.poll() is None:
                pass
            process.send_signal(signal.SIGKILL)
            killed += 1
        output, errors = process.communicate(timeout=120)
        if process.returncode == 0:
            assert output == "ended\n"
            break
        assert process.returncode == -signal.SIGKILL, errors
    assert killed == kills
    # whole lines
    delivered = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("]]")]
    expected = _expected()
    assert all(batch == expected[step - 1] for step, batch in delivered)
    assert {step for step, _ in delivered} == set(range(1, len(expected) + 1))
