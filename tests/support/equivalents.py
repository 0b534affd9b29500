"""Mutants of `tests/mutate.py` that change nothing that can be seen. They are not in its score."""

from __future__ import annotations

EQUIVALENT = {
    (
        "operations/packing/plan.py",
        "KEPT_DOCUMENTS = 1 << 20",
        "(1 >> 20)",
    ): "fewer documents are kept: slower",
    (
        "operations/packing/plan.py",
        "if len(self._kept) * self._window >= KEPT_DOCUMENTS:",
        "(len(self._kept) * self._window > KEPT_DOCUMENTS)",
    ): "one more window is kept",
    (
        "loader/plan/leaf.py",
        "return int(self.places(local, local + 1)[0])",
        "(2)",
    ): "the first of two places is taken",
    (
        "loader/plan/stages.py",
        "MIN_SPAN, MAX_SPAN = 32, 1024",
        "(33)",
    ): "tasks are one position longer",
    (
        "loader/plan/stages.py",
        "return self.leaf is not None and self.number in regrouped and not self.groups",
        "(self.groups)",
    ): "rows that are sent to another process are put into columns, or not",
    ("loader/stream/flow.py", "planned: bool = False,", "(True)"): "tasks have other lengths",
    (
        "loader/stream/join.py",
        "self._inputs[number].has(1, wait=False)",
        "(2)",
    ): "more is begun in advance",
    (
        "loader/work/steps/faults.py",
        "alone = fault is None or (window is not None and fault.number > window)",
        "(fault.number >= window)",
    ): "a window shuffle never fails itself",
    (
        "loader/work/steps/collected.py",
        "if self._pipeline.traced and self._context.packed is not None:",
        "(self._pipeline.traced or self._context.packed is not None)",
    ): "what is kept without a trace is never read",
    (
        "loader/work/steps/chain.py",
        "seeds_globals: bool = False,",
        "(True)",
    ): "every caller passes it",
    (
        "loader/work/worker.py",
        "stacks_rows: bool = False,",
        "(True)",
    ): "rows are put into columns in vain",
    (
        "loader/executors/batches_at_hand.py",
        "if rows > MOST_COPIED * min(map(len, (first, *(each for each, _, _ in others[:-1])))):",
        "(2)",
    ): "the batch is made elsewhere",
    (
        "loader/device/hosts/arrays.py",
        "leading, rows, with_rows = leading_rows(shapes, [], [False] * len(shapes))",
        "(True)",
    ): "the flags count only beside divided leaves",
    (
        "loader/device/hosts/repeats.py",
        "iterator.close()",
        "pass",
    ): "an iterator without a reference closes itself",
    (
        "conversion/outputs/arrow_values.py",
        "if kinds <= _EXACT.get(str(array.type), frozenset()):",
        "(kinds < _EXACT.get(str(array.type), frozenset()))",
    ): "the values are compared one by one: slower",
    (
        "conversion/inputs/from_files.py",
        "if record[0] - found[0][0] > CHUNK_BYTES:",
        "(record[0] + found[0][0])",
    ): "chunks are shorter",
    (
        "loader/work/slabs.py",
        "memory = self._leased(size) if size >= PAGE else self._piece(size)",
        "(size > PAGE)",
    ): "arrays of a page share memory with others",
    ("loader/work/units.py", "return False", "(True)"): "nobody asks, as the result is at hand",
    (
        "sources/tokens/files.py",
        "found.close()",
        "pass",
    ): "an archive without a reference closes itself",
    ("common/system.py", "KEPT_FREE = 1 << 30", "(2)"): "more memory is kept for reuse",
    (
        "loader/executors/processes/zygote.py",
        "wakeup.recv(4096)",
        "(4097)",
    ): "one wake-up has a byte",
    (
        "conversion/prepare.py",
        "_BEGIN = 60",
        "(61)",
    ): "one more character is kept, whose value does not matter",
    (
        "conversion/processes.py",
        "worker.channel.close()",
        "pass",
    ): "the channel is closed with its last reference",
    (
        "conversion/processes.py",
        "if time.monotonic() >= last + REPORT_SECONDS:",
        "(last - REPORT_SECONDS)",
    ): "progress is reported more often",
}
"""Mutants that change nothing that can be seen, by file, line before and new code, and why."""
