"""A store on the loopback: moto's server of S3, and before it a proxy of ours that counts requests
and spoils some of them.
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from headrace.files.remote.hot import HOT
from headrace.files.remote.store import close_stores

BUCKET = "data"
STALL_SECONDS = 20


@dataclass
class Faults:
    """What the proxy does to requests; each fault to every so manieth one, 0 for none."""

    delay: float = 0.0
    error: int = 0
    truncate: int = 0
    stall: int = 0
    refuse: int = 0
    """Answer 403."""


@dataclass
class Proxy:
    """Stands before a store.

    Attributes:
        faults: may be changed at any time.
        asked: method, path and range of each request.
    """

    upstream: tuple[str, int]
    faults: Faults = field(default_factory=Faults)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    url: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def reads(self) -> int:
        """How many requests were for bytes of files."""
        return sum(method == "GET" and bool(asked) for method, _, asked in self.asked)

    @property
    def bytes_asked(self) -> int:
        """How many bytes they were for."""
        edges = [
            asked.removeprefix("bytes=").split("-")
            for method, _, asked in self.asked
            if method == "GET" and asked
        ]
        return sum(int(last) + 1 - int(first) for first, last in edges)


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            faults, number = proxy.faults, next(proxy.numbers)
            proxy.asked.append((self.command, self.path, self.headers.get("Range", "")))
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(faults.delay)

            def meets(every: int) -> bool:
                return bool(every) and number % every == 0

            if meets(faults.error) or meets(faults.refuse):
                self._answer(503 if meets(faults.error) else 403, {}, b"")
                return
            status, headers, body = self._upstream(body)
            if meets(faults.stall):
                self._answer(status, headers, body, len(body) // 2)
                proxy.ended.wait(STALL_SECONDS)
                self.close_connection = True
            elif meets(faults.truncate):
                self._answer(status, headers, body, len(body) // 2)
                self.close_connection = True
            else:
                self._answer(status, headers, body)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        def _upstream(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(*proxy.upstream)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                kept = ("etag", "content-range", "last-modified", "content-type")
                headers = {
                    name: value for name, value in answer.getheaders() if name.lower() in kept
                }
                if self.command == "HEAD":
                    headers["Content-Length"] = answer.getheader("Content-Length", "0")
                return answer.status, headers, answer.read()
            finally:
                connection.close()

        def _answer(
            self, status: int, headers: dict[str, str], body: bytes, sent: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:sent])

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle of answers; that is what is tested."""

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.settimeout(60)
        return connection, address


@contextmanager
def moto_server() -> Iterator[tuple[str, int]]:
    """Moto's S3, in a thread."""
    # it keeps files in memory, not in temporary files
    os.environ["MOTO_S3_DEFAULT_KEY_BUFFER_SIZE"] = str(1 << 30)
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = server.get_host_and_port()
        # all of its servers in a process share one store
        _ask(address, "POST", "/moto-api/reset", b"")
        yield address
    finally:
        server.stop()


@contextmanager
def proxy_to(upstream: tuple[str, int]) -> Iterator[Proxy]:
    """A proxy in a thread; connections are closed at the end, those of headrace too."""
    proxy = Proxy(upstream)
    server = _Server(("127.0.0.1", 0), _handler(proxy))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.ended.set()
        close_stores()
        HOT.clear()
        server.shutdown()
        server.server_close()
        thread.join()


def put(upstream: tuple[str, int], key: str, content: bytes) -> None:
    """Write a file to the store; `key` "" makes the bucket."""
    _ask(upstream, "PUT", f"/{BUCKET}/{key}".rstrip("/"), content)


def _ask(upstream: tuple[str, int], method: str, path: str, content: bytes) -> None:
    signed = "AWS4-HMAC-SHA256 Credential=a/1/us-east-1/s3/aws4_request"
    connection = http.client.HTTPConnection(*upstream)
    try:
        connection.request(
            method, path, content, {"Authorization": signed, "x-amz-acl": "public-read"}
        )
        assert connection.getresponse().status == 200
    finally:
        connection.close()


def options(proxy: Proxy, **more: Any) -> dict[str, Any]:
    """What leads to the proxy."""
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
    return {"endpoint": proxy.url, **keys, **more}
