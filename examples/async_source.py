"""Read from a service that takes 20 ms for each record, 500 at a time, and resume.

    pip install headrace
    python examples/async_source.py [--out DIR]

1. A small HTTP service is started on this machine. It answers each request after 20 ms, as one far
   away would.
2. `Service` is a source whose reads are coroutines: `async def __getitem__`. The loader has
   hundreds of them under way.
3. The service counts the requests that it works on at the same time.
4. A loader that is resumed from a state gives the rest of the same stream, also with worker
   processes.

Each claim that is printed as "verified" was checked; one that fails ends the program with exit code
1.
"""

import argparse
import asyncio
import json
import sys
import threading

import numpy as np

import headrace

RECORDS, LATENCY = 2000, 0.02


class Server:
    """The service: `GET /key` gives a record as JSON."""

    def __init__(self):
        self.under_way = self.most = 0
        self.started = threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve()))

    async def serve(self):
        """Answer requests until `stop`."""
        self.loop, self.stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0, backlog=1000)
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        await self.stopped.wait()
        server.close()

    async def answer(self, reader, writer):
        """Answer one request."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            line, _, _ = (await reader.readuntil(b"\r\n\r\n")).partition(b" HTTP")
            key = int(line.removeprefix(b"GET /"))
            await asyncio.sleep(LATENCY)
            record = json.dumps({"x": key, "y": key * key}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + record)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            # who asked does not want to know any more: a loader that is closed cancels its reads
            pass
        finally:
            self.under_way -= 1
            writer.close()

    def __enter__(self):
        self.thread.start()
        self.started.wait()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stopped.set)
        self.thread.join()


class Service:
    """The records of the service.

    With an HTTP library, a session would be made in the first read, and kept.
    """

    def __init__(self, port):
        self.port = port

    def __len__(self):
        return RECORDS

    async def __getitem__(self, key):
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(f"GET /{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
        return json.loads(answer.partition(b"\r\n\r\n")[2])


def make(port, worker_count=0):
    """A loader of the service."""
    return headrace.load(
        Service(port), shuffle=True, seed=0, num_epochs=1, batch_size=100, worker_count=worker_count
    )


def verify(claim, holds):
    """Print a claim that was checked; end the program where it fails."""
    print(f"{'verified' if holds else 'FAILED'}: {claim}")
    if not holds:
        sys.exit(1)


def main():
    """Run the example."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", help="not used: nothing is written")
    parser.parse_args()
    with Server() as server:
        batches = list(make(server.port))
        keys = np.concatenate([batch["x"] for batch in batches])
        verify(
            f"{RECORDS:,} records came, each once", sorted(keys.tolist()) == list(range(RECORDS))
        )
        verify(
            "each is what the service has for its key",
            all((b["y"] == b["x"] ** 2).all() for b in batches),
        )
        verify(f"{server.most} requests were under way at the same time", 100 < server.most <= 500)

        iterator = iter(make(server.port))
        for _ in range(7):
            next(iterator)
        state = iterator.get_state()
        iterator.close()
        for workers in (0, 2):
            again = iter(make(server.port, worker_count=workers))
            again.set_state(state)
            rest = np.concatenate([batch["x"] for batch in again])
            verify(
                f"resumed with {workers} workers: the rest of the same stream",
                (rest == keys[700:]).all(),
            )


if __name__ == "__main__":
    main()
