"""Runs programs of tests in interpreters of their own: with eight host devices, or as several
processes of one run.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap

ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "error"}
EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


def run(program: str, *arguments: object, timeout: float = 120, **environment: str) -> str:
    """What a program prints that ends well and says nothing on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**ENVIRONMENT, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


SERVER = """
import contextlib, gc, io, json, sys, traceback
for line in sys.stdin:
    printed, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(json.loads(line), "<program>", "exec"), {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    gc.collect()
    print(json.dumps([printed.getvalue(), error]), flush=True)
"""


class Interpreter:
    """One interpreter for many programs, each with names of its own: JAX, and what it has compiled,
    is there already.
    """

    def __init__(self, **environment: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], text=True, env={**ENVIRONMENT, **environment}, **pipes
        )

    def run(self, program: str) -> str:
        """What a program prints that ends well and says nothing of errors on stderr."""
        print(json.dumps(program), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        self._errors.seek(0)
        said = self._errors.read()
        assert answer, f"the interpreter has ended: {said}"
        printed, error = json.loads(answer)
        assert error is None, error
        assert "Traceback" not in said, said
        return printed

    def close(self) -> None:
        """Ends it."""
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._errors.close()


JOIN = """
import sys
import jax
index, count, port = map(int, sys.argv[1:4])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", count, index)
"""
"""What a program of several processes begins with."""


ALONE = """
import sys
index, count = map(int, sys.argv[1:3])
"""
"""What a program begins with whose processes know nothing of one another."""


def run_together(
    program: str,
    count: int,
    *arguments: object,
    timeout: float = 120,
    devices: int = 1,
    join: str = JOIN,
    ends: int = 0,
) -> list[str]:
    """What each of `count` processes prints, all of which must end with the same return code."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                join + textwrap.dedent(program),
                *map(str, (index, count, port, *arguments)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", **flags},
        )
        for index in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == ends, errors
    return [output for output, _ in outputs]
