"""A simulation of workers and of a loop that takes their batches, event by event, to hold plans
against.

In: what a batch takes, and machines. Out: the mean length of a step.
"""

from __future__ import annotations

import heapq
import random

BUFFER = 1
"""Finished batches for each worker: `worker_buffer_size`."""


def simulated_step(needs, machines, workers, nodes, steps=2000, spread=0.5, seed=0):
    """Seconds of a step, on average: tasks vary by `spread` of their length, come in order, and
    cross one network.

    A task runs on any free worker; its part that is no waiting is stretched where there are more
    workers than cores. Tasks are given out as far ahead of the loop as the engine does.
    """
    chance = random.Random(seed)
    cores = machines.cores_per_node * nodes or machines.cores
    stretch = max(workers / cores, 1.0)
    free = [0.0] * workers
    network = user = 0.0
    taken = []  # when the loop took each batch
    window = workers * (1 + BUFFER)
    for number in range(steps):
        given = taken[number - window] if number >= window else 0.0
        length = chance.uniform(1 - spread, 1 + spread)
        busy = max(needs.work, needs.processor * stretch) * length
        ended = max(heapq.heappop(free), given) + busy
        heapq.heappush(free, ended)
        if nodes:
            ended = network = max(network, ended) + needs.nbytes / machines.bandwidth
        user = max(user, ended) + needs.hand_over
        taken.append(user)
        user += needs.step
    half = steps // 2
    return (taken[-1] - taken[half]) / (steps - 1 - half)
