"""Opens or closes a pipeline with a worker, with one interrupt at each place where Python may run a
signal's handler.

    python interrupted_everywhere.py opening|closing FIRST EVERY

Those places are the beginnings of functions, what follows a call, and the ends of loops. Each is
tried in a forked child with a time limit, from the one numbered FIRST on, each EVERY-th. Prints how
many there are, and those that left something behind.
"""

from __future__ import annotations

import dis
import functools
import gc
import os
import signal
import sys
import threading
import time
import traceback

import headrace

SECONDS = 60
FILES = ("/threading.py", "/subprocess.py", "/selectors.py", "/weakref.py")
OURS = os.path.dirname(os.path.abspath(headrace.__file__)) + "/loader/"
LOADER = headrace.load(range(12), batch_size=4, num_epochs=1, worker_count=1)


@functools.cache
def places_of(code):
    """Offsets of the instructions before which a handler may run.

    What it raises after a call is caught where the call's own exceptions are. Where the next
    instruction stands outside of that, to raise there would be what never happens: the end of a
    `with` would not be run.
    """
    entries = dis.Bytecode(code).exception_entries
    found, call = set(), None
    for instruction in dis.get_instructions(code):
        after_call = call is not None and _catches(entries, call) == _catches(
            entries, instruction.offset
        )
        if after_call or instruction.opname in ("RESUME", "JUMP_BACKWARD"):
            found.add(instruction.offset)
        call = instruction.offset if instruction.opname.startswith("CALL") else None
    return found


def _catches(entries, offset):
    """Where what is raised at an offset is caught, if it is."""
    return next((entry.target for entry in entries if entry.start <= offset < entry.end), None)


class Tracer:
    """Sees each place once, and interrupts at one of them."""

    def __init__(self, at=None):
        self.at = at
        self.seen = {}
        self.fired = False

    def __call__(self, frame, event, argument):
        name = frame.f_code.co_filename
        if not (name.startswith(OURS) or name.endswith(FILES)) or in_a_finalizer(frame):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self.see

    def see(self, frame, event, argument):
        code = frame.f_code
        place = (code.co_filename, code.co_qualname, code.co_firstlineno, frame.f_lasti)
        if event == "opcode" and frame.f_lasti in places_of(code) and place not in self.seen:
            self.seen[place] = len(self.seen)
            if place == self.at:
                self.fired = True
                signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)
        return self.see


def in_a_finalizer(frame):
    """Python itself prints what is raised there, and goes on."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def opening(tracer):
    """How many interrupts came out, and what is wrong."""
    interrupts, iterator, got = 0, iter(LOADER), []
    sys.settrace(tracer)
    try:
        got.append(next(iterator).tolist())
    except KeyboardInterrupt:
        interrupts += 1
    finally:
        sys.settrace(None)
    got += [batch.tolist() for batch in iterator]
    iterator.close()
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], got
    return interrupts


def closing(tracer):
    """The same, of closing."""
    interrupts, iterator = 0, iter(LOADER)
    next(iterator)
    sys.settrace(tracer)
    try:
        iterator.close()
    except KeyboardInterrupt:
        interrupts += 1
    finally:
        sys.settrace(None)
    iterator.close()
    return interrupts


def left():
    """What there is in this process."""
    gc.collect()
    return sorted(os.listdir("/proc/self/fd")), threading.active_count()


def check(run, place):
    """In a child: whether one interrupt at this place comes out once and leaves nothing."""
    signal.alarm(SECONDS)
    before, tracer = left(), Tracer(place)
    interrupts = run(tracer)
    until = time.monotonic() + 5
    while left() != before and time.monotonic() < until:
        time.sleep(0.01)
    assert left() == before, (before, left())
    assert interrupts == tracer.fired, interrupts
    try:
        raise AssertionError(f"a child is left: {os.waitpid(-1, os.WNOHANG)}")
    except ChildProcessError:
        return


def in_a_child(run, place):
    """The status of a child that does it."""
    pid = os.fork()
    if pid == 0:
        try:
            check(run, place)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    """As above."""
    run = {"opening": opening, "closing": closing}[sys.argv[1]]
    first, every = map(int, sys.argv[2:])
    run(tracer := Tracer())  # the first time modules are imported
    run(tracer := Tracer())
    for place in list(tracer.seen)[first::every]:
        status = in_a_child(run, place)
        if status:
            print("left something:", place, status, flush=True)
    print(len(tracer.seen), "places", flush=True)


if __name__ == "__main__":
    main()
