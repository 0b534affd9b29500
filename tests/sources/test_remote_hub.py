"""Files of Hugging Face: read at one commit, whatever becomes of the branch."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import huggingface_hub
import pytest

from headrace.errors import SourceError
from headrace.files.opened import open_file
from headrace.files.remote import other_store
from headrace.files.remote.store import close_stores

URL = "hf://datasets/me/data/a.bin"


class Hub:
    """A repository of one file: its content at each commit, and the commit of its branch."""

    def __init__(self):
        self.contents = {}
        self.now = ""

    def push(self, content):
        """A new commit."""
        self.now = f"{len(self.contents):040x}"
        self.contents[self.now] = content

    def answer(self, path, span):
        """The body, or None: for the questions of the library."""
        asked = re.fullmatch(
            r"/api/datasets/me/data(?:/revision/(\w+)|/(?:tree|paths-info)/(\w+))?", path
        )
        if asked and asked[2]:
            content = self.contents[asked[2]]
            file = {
                "type": "file",
                "path": "a.bin",
                "size": len(content),
                "oid": hashlib.sha1(content).hexdigest(),
            }
            return json.dumps([file]).encode()
        if asked:
            commit = asked[1] if asked[1] in self.contents else self.now
            return json.dumps({"id": "me/data", "sha": commit, "siblings": []}).encode()
        asked = re.fullmatch(r"/datasets/me/data/resolve/(\w+)/a.bin", path)
        if not asked:
            return None
        first, last = map(int, span.removeprefix("bytes=").split("-"))
        return self.contents[asked[1]][first : last + 1]


@pytest.fixture
def hub():
    """A Hub, and the options that lead there."""
    repository = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = repository.answer(unquote(urlsplit(self.path).path), self.headers.get("Range"))
            self.send_response(404 if body is None else 206 if "Range" in self.headers else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            yield (
                repository,
                {
                    "endpoint": url,
                    "token": False,
                    "cache_bytes": 0,
                    "tries": 1,
                    "skip_instance_cache": True,
                },
            )
        finally:
            close_stores()
            huggingface_hub.close_session()
            server.shutdown()
            thread.join()


def test_a_file_is_read_at_one_commit(hub, monkeypatch):
    """A branch that moves changes nothing for who reads; new files are of the new commit, and old
    ones then an error.
    """
    repository, options = hub
    repository.push(b"old content")
    file = open_file(URL, options)
    assert file.read(0, 3) == b"old"
    repository.push(b"new, and longer")
    assert file.read(4, 7) == b"content"
    monkeypatch.setattr(other_store, "KNOWN_SECONDS", 0.0)
    assert open_file(URL, options).read(0, 3) == b"new"
    with pytest.raises(
        SourceError, match=r"the file changed after the source was made \(11 → 15 bytes\)"
    ):
        file.read(4, 7)


def test_a_process_that_comes_later_reads_the_same_or_says_so(hub):
    """It knows the version by the stamp: another commit with the same file is as good."""
    repository, options = hub
    repository.push(b"content")
    stamp = open_file(URL, options).stamp
    for content in (b"content", b"changed"):
        close_stores()
        repository.push(content)
        file = open_file(URL, options, stamp)
        if content == b"content":
            assert file.read(0, 7) == content
        else:
            with pytest.raises(SourceError, match="the file changed after the source was made"):
                file.read(0, 7)
