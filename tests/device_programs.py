"""Runs programs of tests in interpreters of their own: with eight host devices, or as several processes of one run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
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


JOIN = """
import sys
import jax
index, count, port = map(int, sys.argv[1:4])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", count, index)
"""
"""What a program of several processes begins with."""


def run_together(program: str, count: int, *arguments: object, timeout: float = 120, devices: int = 1) -> list[str]:
    """What each of `count` processes prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN + textwrap.dedent(program), *map(str, (index, count, port, *arguments))],
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
        assert process.returncode == 0, errors
    return [output for output, _ in outputs]
