"""Who answers, of processes that listen: without Ray, by sockets of this process."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from headrace.common.pings import HELLO, Pings, answers
from headrace.loader.executors.ray.cluster import SILENT_SECONDS


@pytest.fixture
def listener():
    """Takes connections, as the kernel does for a process that stands still."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def pings():
    """Closed at the end."""
    asked = Pings(SILENT_SECONDS)
    yield asked
    asked.close()


def _address(server):
    return f"127.0.0.1:{server.getsockname()[1]}"


def _answer(server, text):
    """Take a connection, and say something once the greeting has come; or hang up
    without a word.
    """
    connection, _ = server.accept()
    connection.settimeout(10)
    assert connection.recv(len(HELLO), socket.MSG_WAITALL) == HELLO
    connection.sendall(text)
    connection.close()


def test_a_process_that_stands_still_is_silent(pings, listener):
    """It takes connections, and says nothing; that is known some seconds after it was asked, and
    stays so.
    """
    address = _address(listener)
    looks = [
        pings.silent([address], now)
        for now in (0.0, 1.0, SILENT_SECONDS, SILENT_SECONDS + 1.1, 99.0)
    ]
    assert looks == [[], [], [], [address], [address]]


def test_one_that_is_gone_is_silent(pings):
    """It is asked again and again, in case it comes back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = _address(server)
    assert [pings.silent([address], now) for now in (0.0, 1.0, 2.0, SILENT_SECONDS + 0.1)] == [
        [],
        [],
        [],
        [address],
    ]
    assert not answers(address)


@pytest.mark.parametrize("text", [b"settings", b""], ids=["answers", "hangs up"])
def test_one_that_answers_is_there(pings, listener, text):
    """Whatever it says, and if it hangs up: it is asked anew after each answer."""
    address = _address(listener)
    for number in range(4):
        assert pings.silent([address], 10.0 * number) == []
        assert pings.silent([address], 10.0 * number + 1) == []
        _answer(listener, text)


def test_a_pause_of_ours_is_no_silence_of_theirs(pings, listener):
    """Whoever asks may have been busy for an hour, or stopped, before the question was
    even sent.
    """
    address = _address(listener)
    assert pings.silent([address], 0.0) == []
    assert pings.silent([address], 3600.0) == []
    _answer(listener, b"settings")
    assert pings.silent([address], 7200.0) == []


def test_nothing_is_left_of_questions_about_nodes_that_nobody_uses(pings, listener):
    """Their connections are closed, and another question about them begins anew."""
    address = _address(listener)
    pings.silent([address], 0.0)
    pings.silent([address], 1.0)
    pings.silent([], 2.0)
    with ExitStack() as stack:
        connection = stack.enter_context(listener.accept()[0])
        assert connection.recv(100) == HELLO
        assert connection.recv(100) == b""
    assert pings.silent([address], 3600.0) == []
