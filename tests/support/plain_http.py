"""An HTTP server on the loopback that sends only whole files, in one of several ways."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from headrace.files.remote.hot import HOT
from headrace.files.remote.store import close_stores


@dataclass
class PlainServer:
    """What it has and does; may be changed at any time.

    Attributes:
        files: contents by name.
        headers: sent with each file.
        refusal: status of the answer to a request for a range; 0: the range is ignored.
        sends_size: whether answers have a Content-Length.
        head: whether it answers HEAD.
        cut: how many of the next answers end in the middle.
        asked: method and range of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    refusal: int = 0
    sends_size: bool = True
    head: bool = True
    cut: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    @property
    def whole(self) -> int:
        """How many requests were for a whole file. Each is counted before its answer."""
        return self.asked.count(("GET", ""))


def _handler(server: PlainServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            server.asked.append((self.command, asked))
            content = server.files.get(self.path.strip("/"))
            if content is None:
                self._end(404)
            elif self.command == "HEAD" and not server.head:
                self._end(405)
            elif asked and server.refusal:
                self._end(server.refusal)
            else:
                self._send(content)

        do_HEAD = do_GET  # noqa: N815

        def _end(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _send(self, content: bytes) -> None:
            self.send_response(200)
            sizes = {"Content-Length": str(len(content))} if server.sends_size else {}
            for name, value in {**sizes, **server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            is_cut, server.cut = (
                server.cut > 0 and not self.headers.get("Range"),
                max(server.cut - 1, 0),
            )
            with suppress(OSError):  # who wanted a range goes away
                self.wfile.write(content[: len(content) // 2] if is_cut else content)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def plain_server() -> Iterator[PlainServer]:
    """Such a server, in a thread; connections are closed at the end."""
    server = PlainServer()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        close_stores()
        HOT.clear()
        listening.shutdown()
        listening.server_close()
        thread.join()
