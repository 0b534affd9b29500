"""Warnings about workers that wait for a place in a Ray cluster. Without Ray: the cluster is
played.
"""

from __future__ import annotations

import logging

import pytest

from headrace.loader.executors.ray import transport
from headrace.loader.executors.ray.transport import NO_ROOM_SECONDS, RayTransport


class PlayedCluster:
    """No node ends by itself."""

    def look(self):
        pass

    def silent(self, nodes):
        return []

    def describe_node(self, node):
        return node


@pytest.fixture
def waiting(monkeypatch, caplog):
    """Return a transport whose two workers never get a place, and a function: how many warnings
    there are at a time.
    """
    clock = [0.0]
    monkeypatch.setattr(transport.time, "monotonic", lambda: clock[0])
    made = RayTransport.__new__(RayTransport)
    made.worker_count, made._grows, made._needs, made._cluster = (
        2,
        False,
        {"CPU": 1.0},
        PlayedCluster(),
    )
    made._events, made._remotes, made._killed, made._gone = [], {}, set(), set()
    made._begun = made._resized = clock[0]

    def warnings_at(seconds):
        clock[0] = seconds
        made._look_after_all()
        return len(caplog.records)

    with caplog.at_level(logging.WARNING, "headrace"):
        yield made, warnings_at


def test_workers_that_wait_for_room_are_warned_of_once(waiting):
    """Some seconds after the start, and never again while nothing changes."""
    _, warnings_at = waiting
    assert [warnings_at(NO_ROOM_SECONDS * times) for times in (0.5, 1.1, 2, 3, 100)] == [
        0,
        1,
        1,
        1,
        1,
    ]


def test_workers_that_wait_for_room_are_warned_of_again_after_a_node_is_lost(waiting):
    """Its workers look for another place, for which they have as long as at the start."""
    made, warnings_at = waiting
    assert warnings_at(NO_ROOM_SECONDS * 1.1) == 1
    made._lose("a node")
    assert [warnings_at(NO_ROOM_SECONDS * times) for times in (1.9, 2.5, 3, 100)] == [1, 2, 2, 2]
    made._lose("a node")
    assert warnings_at(NO_ROOM_SECONDS * 200) == 2, "its loss was known"
