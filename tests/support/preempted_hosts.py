"""Plays a training on two hosts that get SIGTERM at random moments, until all its records have
come.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

RECORDS = 30_000
SECONDS = 60.0
"""Seconds after which a host that should end has hung."""

GRACE = 5.0
"""Seconds after which a scheduler kills the other hosts once one has ended by an error."""

PROGRAM = textwrap.dedent("""
    import json, os, pathlib, sys, time
    index, count, port, folder, attempt, workers, by, records = sys.argv[1:]
    index, count, attempt, folder = int(index), int(count), int(attempt), pathlib.Path(folder)
    if by == "jax":
        import jax
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", count, index)
        from jax.experimental import multihost_utils
    import headrace

    def kept(x):
        return x % 2 == 0 or x < 22500  # a host has all even numbers, the other one the odd ones below 22500

    def slow(x):
        time.sleep(0.0003)
        return x

    loader = headrace.load(range(int(records)), transformations=[slow, headrace.Filter(kept)], batch_size=3, num_epochs=1,
                           shard_options=headrace.ShardOptions(index, count), worker_count=int(workers))
    if by != "alone":
        loader = loader.across_hosts("pad", folder=folder / "meeting" if by == "folder" else None)

    # A checkpoint is the "model" (what was seen) and the state of each host; it counts once all hosts have written theirs.
    def path(number, host):
        return folder / f"{number}-{host}.json"

    def save(iterator):
        text = json.dumps({"state": iterator.get_state().decode(), "seen": seen})
        unfinished = folder / f".{attempt}-{index}"
        unfinished.write_text(text)
        unfinished.rename(path(attempt, index))

    seen = []
    with iter(loader) as iterator:
        whole = [number for number in range(attempt) if all(path(number, host).exists() for host in range(count))]
        if whole:
            last = [json.loads(path(whole[-1], host).read_text()) for host in range(count)]
            seen = last[index]["seen"]
            states = [each["state"].encode() for each in last]
            iterator.set_states(states) if attempt % 2 else iterator.set_state(states[index])
        if by == "jax":
            multihost_utils.sync_global_devices("begin")
        with headrace.on_preemption(iterator, save) as batches:
            print("ready", flush=True)
            for batch in batches:
                seen += (batch if by == "alone" else batch[iterator.mask]).tolist()
        if not batches.preempted:
            save(iterator)
        print("ended " + json.dumps([batches.preempted, iterator.step]), flush=True)
    # As a program that is restarted at once: neither waits for the other at its end.
    os._exit(3 if batches.preempted else 0)
""")


class LostRecordError(AssertionError):
    """A record was lost or came twice, a host hung, or hosts ended at different steps."""


def play(folder: Path, signals: int, seed: int, by: str, workers: int = 0) -> Counter[str]:
    """How attempts ended, by a word, with the sum of all steps; begins anew when all records have
    come.

    Args:
        folder: an empty folder.
        signals: number of attempts at which SIGTERM is sent.
        seed: of the moments, and of the hosts that get it.
        by: "jax": hosts are connected, and make the same steps; "folder": likewise, without jax;
            "alone": each ends for itself.
        workers: worker processes of each host.
    """
    chance, found, sent, run = random.Random(seed), Counter(), 0, 0
    while sent < signals:
        own, attempt, over = folder / str(run), 0, False
        own.mkdir()
        while not over:
            how, over = _attempt(own, attempt, chance if sent < signals else None, by, workers)
            sent += sent < signals
            found[how] += 1
            attempt += 1
        texts = [json.loads((own / f"{attempt - 1}-{host}.json").read_text()) for host in range(2)]
        seen = Counter(record for text in texts for record in text["seen"])
        expected = Counter(x for x in range(RECORDS) if x % 2 == 0 or x < 22500)
        if seen != expected:
            raise LostRecordError(
                f"run {run}: {len(expected - seen)} lost, {len(seen - expected)} too often, after "
                f"{attempt} attempts"
            )
        found["runs to the end"] += 1
        run += 1
    return found


def _attempt(
    folder: Path, attempt: int, chance: random.Random | None, by: str, workers: int
) -> tuple[str, bool]:
    """How one start of both hosts ended, and whether the training is over. Without `chance`, no
    signal is sent.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    arguments = [port, folder, attempt, workers, by, RECORDS]
    outputs = [(folder / f"out-{attempt}-{index}").open("w+") for index in range(2)]
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(index), "2", *map(str, arguments)],
            stdout=outputs[index],
            stderr=subprocess.STDOUT,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            start_new_session=True,
        )
        for index in range(2)
    ]
    try:
        if chance is not None:
            _send(hosts, outputs, chance)
        codes = _ended(hosts)
    finally:
        for host in hosts:
            if host.poll() is None:
                os.killpg(host.pid, signal.SIGKILL)
            host.wait()
        said = [_read(output) for output in outputs]
        for output in outputs:
            output.close()
    if None in codes:
        raise LostRecordError(f"attempt {attempt}: a host hung: {said}")
    if os.environ.get("PREEMPTIONS_SHOW") and (
        shown := [text for text in said if "Traceback" in text]
    ):
        print(f"attempt {attempt}:", *shown, sep="\n", flush=True)
    whole = all((folder / f"{attempt}-{index}.json").exists() for index in range(2))
    if not whole:
        return (
            f"no checkpoint: {'before' if not all('ready' in text for text in said) else 'after'} the loop began",
            False,
        )
    lines = [[line[6:] for line in text.splitlines() if line.startswith("ended ")] for text in said]
    last = [json.loads(each[0]) if each else None for each in lines]
    if by != "alone" and None not in last and last[0] != last[1]:
        raise LostRecordError(f"attempt {attempt}: hosts ended differently: {last}")
    if all(each is not None and not each[0] for each in last) or codes == [0, 0]:
        return "ended", True
    return "preempted", False


def _send(hosts: list[subprocess.Popen], outputs: list, chance: random.Random) -> None:
    """Sends SIGTERM to one host or both, once or twice, at a moment from the start or from the
    beginning of the loop.
    """
    if chance.random() < 0.8:
        until = time.monotonic() + SECONDS
        while not all("ready" in _read(output) for output in outputs) and time.monotonic() < until:
            if any(host.poll() is not None for host in hosts):
                break
            time.sleep(0.002)
        time.sleep(chance.random() ** 2 * 1.5)
    else:
        time.sleep(chance.random() * 4)
    for host in chance.choice([hosts[:1], hosts[1:], hosts, hosts[::-1], [*hosts, *hosts]]):
        if host.poll() is None:
            host.send_signal(signal.SIGTERM)
        time.sleep(chance.choice([0.0, 0.0, 0.003, 0.05]))


def _ended(hosts: list[subprocess.Popen]) -> list[int | None]:
    """Return codes, None of a host that hung. Once one has ended by an error, the other is killed
    soon.
    """
    until = time.monotonic() + SECONDS
    shortened = False
    while any(host.poll() is None for host in hosts) and time.monotonic() < until:
        if not shortened and any(host.poll() not in (None, 0, 3) for host in hosts):
            until, shortened = min(until, time.monotonic() + GRACE), True
        time.sleep(0.005)
    codes = [host.poll() for host in hosts]
    return [-signal.SIGKILL if code is None and shortened else code for code in codes]


def _read(output) -> str:
    output.seek(0)
    return output.read()
