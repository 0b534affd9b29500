"""A plugin of pytest that tries mutants in forks of one process, in which all modules and tests are
loaded before.

In: the file `$MUTANTS`, a line of JSON for each mutant and the names of its tests. Out: a line of
JSON for each mutant in the file `$FOUND`. `tests/mutate.py` writes the one and reads the other.

A fork gives the functions of the module the code of the mutant. The file on disk is changed, too,
for the processes that tests start. A mutant that is in no function is tried by a new process, which
imports the changed file. So are tests of files that were not loaded: those that use a device when
they are imported, because JAX's threads are not in a fork. So are tests that fail in a fork without a
mutant, too.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

SECONDS = 8
"""Time for a test beyond ten times of what it took before. A mutant that hangs counts as found."""

MEMORY = 8 << 30
"""Bytes of a process that tries a mutant. One that fills the memory counts as found."""


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try all mutants in place of a run of the tests."""
    if "MUTANTS" not in os.environ:
        return None
    lines = Path(os.environ["MUTANTS"]).read_text().splitlines()
    trials = Trials(session)
    for line in lines:
        mutant = json.loads(line)
        start = time.monotonic()
        found = trials.find(mutant)
        names, _ = mutant.pop("names"), mutant.pop("apart")
        result = mutant | {
            "found": found,
            "tests": len(names),
            "seconds": round(time.monotonic() - start, 1),
        }
        with Path(os.environ["FOUND"]).open("a") as file:
            file.write(json.dumps(result) + "\n")
    return True


class Trials:
    """Forks of this process, each with a mutant.

    Args:
        session: session of pytest after the collection.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._items = {item.nodeid: item for item in session.items}
        # without a mutant, in a fork (True) or a new process (False), where they were tried
        self._passes: dict[bool, set[str]] = {True: set(), False: set()}
        self._fail: dict[bool, set[str]] = {True: set(), False: set()}
        self._turn = 0
        gc.unfreeze()
        self._functions: dict[str, list[types.FunctionType]] = {}
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType):
                self._functions.setdefault(os.path.realpath(each.__code__.co_filename), []).append(
                    each
                )
        gc.freeze()

    def find(self, mutant: dict[str, Any]) -> str:
        """Plant a mutant, run its tests until one fails, and take it out again. Return the name of
        the test, or "".
        """
        file = Path(mutant["file"]).resolve()
        data, stat = file.read_bytes(), file.stat()
        changed = data[: mutant["start"]] + mutant["now"].encode() + data[mutant["stop"] :]
        while True:
            self._turn += 1
            loaded = [
                each for each in mutant["names"] if not mutant["apart"] and each[0] in self._items
            ]
            names = [each for each in loaded if each[0] not in self._fail[True]]
            apart = [
                each
                for each in mutant["names"]
                if each not in names and each[0] not in self._fail[False]
            ]
            file.write_bytes(changed)
            # so that no bytecode of another mutant is taken for it
            os.utime(file, (self._turn, self._turn))
            try:
                found, reason = self._fork(names, file, data, changed) if names else ("", "")
                forked = bool(found)
                if not found and apart:
                    found, reason = _in_new_process(apart)
            finally:
                file.write_bytes(data)
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            if not found:
                return ""
            if found not in self._passes[forked]:
                alone = [each for each in mutant["names"] if each[0] == found]
                fails = (
                    self._fork(alone, file, data, data)[0] if forked else _in_new_process(alone)[0]
                )
                (self._fail if fails else self._passes)[forked].add(found)
            if found in self._passes[forked]:
                return f"{found} {reason}".strip()

    def _fork(
        self, names: list[tuple[str, float]], file: Path, before: bytes, after: bytes
    ) -> tuple[str, str]:
        """Run tests in a fork. Return the name of the first that fails, and whether it hung, or two
        empty strings.
        """
        receive, send = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # of JAX, which has no threads yet
            pid = os.fork()
        if pid == 0:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            _run(
                self._items,
                [name for name, _ in names],
                self._functions.get(str(file), []),
                before,
                after,
                send,
            )
        os.close(send)
        at, answer = -1, b""
        while True:
            seconds = SECONDS + 10 * (names[at][1] if at >= 0 else 0)
            ready = select.select([receive], [], [], seconds)[0]
            answer = os.read(receive, 1) if ready else b"hang"
            if answer != b".":
                break
            at += 1
        for _ in range(2):  # also the workers of tests
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                break
        os.waitpid(pid, 0)
        os.close(receive)
        if answer == b"s":
            return _in_new_process(names)
        if answer == b"!":
            return "", ""
        return (
            names[max(at, 0)][0],
            "" if answer == b"F" else "hang" if answer else "end of the process",
        )


def _run(
    items: dict[str, pytest.Item],
    names: list[str],
    functions: Any,
    before: bytes,
    after: bytes,
    send: int,
) -> None:
    """In the fork: give functions their code, run tests, and end. A letter for each step goes to
    the pipe.
    """
    try:
        if functions and not _swapped(functions, before, after):
            os.write(send, b"s")
            return
        chosen = [items[name] for name in names]
        for item, next_one in zip(chosen, [*chosen[1:], None]):
            os.write(send, b".")
            reports = runtestprotocol(item, nextitem=next_one, log=False)
            if failed := [report.longreprtext for report in reports if report.failed]:
                Path(os.environ["FOUND"] + ".text").write_text(failed[0])
                os.write(send, b"F")
                return
        os.write(send, b"!")
    finally:
        os._exit(0)


def _swapped(functions: list[types.FunctionType], before: bytes, after: bytes) -> bool:
    """Give functions the code of the source `after`. Return False if only an import
    would do that.
    """
    name = functions[0].__code__.co_filename
    olds, news = (
        [*_codes(compile(each, name, "exec", dont_inherit=True))] for each in (before, after)
    )
    if len(olds) != len(news):
        return False
    changed = [(old, new) for old, new in zip(olds, news) if old != new]
    if any(
        _own(old) != _own(new) for old, new in changed if not old.co_flags & inspect.CO_OPTIMIZED
    ):
        return False  # of the module or of a class
    keys = Counter(map(_key, olds))
    of = {_key(old): new for old, new in changed}
    if any(keys[key] > 1 for key in of):
        return False
    for function in functions:
        if (new := of.get(_key(function.__code__))) is not None:
            if len(new.co_freevars) != len(function.__code__.co_freevars):
                return False
            function.__code__ = new
    return True


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code and those in it, in the order of the source."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _own(code: types.CodeType) -> Any:
    """Return all of a code but the codes in it, which a change of a function's body
    does not touch.
    """
    return (
        code.co_code,
        [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)],
        code.co_names,
    )


def _key(code: types.CodeType) -> Any:
    return code.co_qualname, code.co_firstlineno


def _in_new_process(names: list[tuple[str, float]]) -> tuple[str, str]:
    listed = Path(os.environ["FOUND"] + ".names")
    listed.write_text("\n".join(name for name, _ in names))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"@{listed}",
    ]
    env = {name: value for name, value in os.environ.items() if name != "MUTANTS"}
    seconds = 2 * SECONDS + 10 * sum(seconds for _, seconds in names)
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as run:
        try:
            output, _ = run.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return names[0][0], "hang"
    if run.returncode in (0, 5):
        return "", ""
    failed = [
        line.split()[1]
        for line in output.decode(errors="replace").splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return next(
        (name for name, _ in names if name in failed), names[0][0]
    ), "" if failed else "end of the process"
