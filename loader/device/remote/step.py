"""Make a step of all hosts: decide what hosts do, fetch their rows, and assemble the global arrays.

In: the answers of the hosts. Out: a batch on the sharding, and its mask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from ....common.validation import warn
from ..hosts.verdict import FILLING, Go, Offer, Refuse, Verdict, decide
from ..prepared import Prepared
from .caller import AskedBatch, Caller
from .host import BATCH, FAILED, Answer, answer_of
from .options import RemoteOptions


@dataclass
class Step:
    """A step for which all hosts were asked to make a batch.

    Attributes:
        asked: for each host, the batch that it was asked for.
        verdict: what all hosts do; None: not yet decided.
        rows: for each host, the number of rows of its batch, without rows that are filled in.
        leaves: for each host, the leaves of its batch; None if all of its rows are zeros.
        layout: a batch without rows, of the same structure as the batches of all hosts.
        wanted: number of rows of each host, including rows that are filled in.
    """

    asked: list[AskedBatch]
    verdict: Verdict | None = None
    rows: list[int] = field(default_factory=list)
    leaves: list[list[Any] | None] = field(default_factory=list)
    layout: Prepared | None = None
    wanted: int = 0

    def is_answered(self) -> bool:
        return all(asked.answer.is_ready() for asked in self.asked)


def decide_step(own: RemoteOptions, hosts: list[Caller], step: Step, number: int) -> None:
    """Decide what all hosts do at a step, and store the verdict and the hosts' leaves in `step`.

    This call waits for answers that have not arrived yet. A host whose batch does not have the
    expected layout or number of rows is asked for its leaves again.

    Args:
        own: options of the loader.
        hosts: the hosts.
        step: the step.
        number: number of the step in this run.
    """
    answers = [answer_of(asked.answer) for asked in step.asked]
    verdict = step.verdict = decide(_offers(own, hosts, answers, number), number)
    if not isinstance(verdict, Go):
        return
    for host, answer in zip(hosts, answers):
        if answer.warns:
            warn(host.text("message", number))
    step.layout = next(
        host.layout(answer.layout) for host, answer in zip(hosts, answers) if answer.kind == BATCH
    )
    step.rows = [answer.rows for answer in answers]
    step.wanted = max(step.rows) if verdict.rows is None else verdict.rows
    if any(step.wanted % host.parts for host in hosts):
        step.verdict = Refuse(
            f"batch {number} of this run has {step.wanted} rows of each host, which its devices "
            f"cannot divide into {hosts[0].parts} equal parts. Choose another batch size, "
            'drop_remainder=True, or on_uneven="pad".'
        )
        return
    for host, asked, answer in zip(hosts, step.asked, answers):
        leaves = _leaves(own, host, asked, answer, step, number, verdict)
        if isinstance(leaves, Refuse):
            step.verdict = leaves
            return
        step.leaves.append(leaves)


def _leaves(
    own: RemoteOptions,
    host: Caller,
    asked: AskedBatch,
    answer: Answer,
    step: Step,
    number: int,
    verdict: Go,
) -> list[Any] | Refuse | None:
    """Return the leaves of a host's batch, filled up with rows.

    Return None if all rows of the host are zeros, or a `Refuse` (an error) if the host has no batch
    left and cannot repeat one.

    Args:
        own: options of the loader.
        host: the host.
        asked: the batch that it was asked for.
        answer: the host's answer.
        step: the step.
        number: number of the step in this run.
        verdict: what all hosts do.
    """
    if answer.kind == BATCH:
        same = asked.expected == (answer.layout, step.wanted)
        return asked.leaves if same else host.take(number, answer.layout, step.wanted)
    if own.on_uneven != "repeat":
        return None
    answer = host.again(number, verdict.at - answer.at - 1)
    if answer.kind != BATCH:
        return Refuse(
            f"a host cannot repeat a batch: {host.text('message', number)}. Correct the cause, and "
            "start again."
        )
    described, layout = host.layout(answer.layout).arrangement.described, step.layout
    if layout is None or described != layout.arrangement.described:
        return Refuse(
            f"a host whose stream has ended would repeat a batch with {described}, but the batch "
            'of the others has another shape. Make all batches alike, or pass on_uneven="pad".'
        )
    return host.take(number, answer.layout, step.wanted)


def _offers(
    own: RemoteOptions, hosts: list[Caller], answers: list[Answer], step: int
) -> dict[int, Offer]:
    offers, policy = {}, own.on_uneven
    for number, (host, answer) in enumerate(zip(hosts, answers)):
        if answer.kind == FAILED:
            offers[number] = Offer("failed", policy, detail=host.text("message", step))
        elif answer.kind == BATCH:
            layout = host.layout(answer.layout).arrangement.described
            usual = answer.usual if policy in FILLING else 0
            offers[number] = Offer(
                "batch", policy, answer.rows, usual, host.parts, layout, at=answer.at
            )
        else:
            offers[number] = Offer("end", policy, at=answer.at)
    return offers


def assembled(own: RemoteOptions, hosts: list[Caller], step: Step) -> tuple[Any, Any]:
    """Assemble the pieces of all hosts to the global batch and its mask, and return both.

    The mask is None if batches are not filled up.
    """
    assert step.layout is not None
    devices = [device for host in hosts for device in host.devices]
    pieces: list[Any] = []
    for number, like in enumerate(step.layout.leaves):
        for host, leaves in zip(hosts, step.leaves):
            if leaves is None:
                pieces += _zeros(host, like, step.wanted)
            else:
                by_device = {
                    shard.device: shard.data for shard in leaves[number].addressable_shards
                }
                pieces += [by_device[cpu] for cpu in host.cpus]
    placed = jax.device_put(pieces, devices * len(step.layout.leaves))
    rows, each = step.wanted * len({host.shard for host in hosts}), len(devices)
    arrays = [
        jax.make_array_from_single_device_arrays(
            (rows, *like.shape[1:]), own.sharding, placed[number * each : (number + 1) * each]
        )
        for number, like in enumerate(step.layout.leaves)
    ]
    mask = _mask(own, hosts, step) if own.on_uneven in FILLING else None
    return step.layout.arrangement.structure.unflatten(arrays), mask


def _zeros(host: Caller, like: Any, rows: int) -> list[Any]:
    shape, dtype = (rows // host.parts, *like.shape[1:]), jax.dtypes.canonicalize_dtype(like.dtype)
    return [jax.numpy.zeros(shape, dtype, device=device) for device in host.devices]


def _mask(own: RemoteOptions, hosts: list[Caller], step: Step) -> Any:
    shards = {host.shard: rows for host, rows in zip(hosts, step.rows)}
    mask = np.concatenate([np.arange(step.wanted) < shards[shard] for shard in sorted(shards)])
    return jax.device_put(mask, NamedSharding(own.sharding.mesh, own.sharding.spec))
