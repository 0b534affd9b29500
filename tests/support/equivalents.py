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
        "return int(self.positions(local, local + 1)[0])",
        "(2)",
    ): "the first of two positions is taken",
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
        "loader/work/steps/fused.py",
        "ended.append(True)",
        "(False)",
    ): "only whether the list is empty matters",
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
    (
        "operations/packing/arrays.py",
        "out.reshape(-1)[:] = np.repeat(numbers, self.lengths)",
        "(2)",
    ): "NumPy takes any negative length as the one to find",
    (
        "loader/work/slabs.py",
        "MAX_FREE, FREE_BYTES = 2, 64 << 20",
        "(3)",
    ): "one more free slab is kept",
    (
        "loader/stream/regroup.py",
        "return 0",
        "(1)",
    ): "one row is too few to check memory for, as none",
    (
        "loader/executors/processes/channel.py",
        "end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STREAM_BUFFER)",
        "pass",
    ): "Linux has room for many packets by default",
    (
        "loader/executors/processes/channel.py",
        "end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_BUFFER)",
        "pass",
    ): "Linux has room for many packets by default",
    ("loader/executors/local.py", "MOST_UNITS = 64", "(65)"): "tasks may have one more batch",
    (
        "operations/packing/plan.py",
        "narrow = max(rows) <= 1 << 16",
        "(max(rows) < 1 << 16)",
    ): "row numbers take four bytes instead of two",
    (
        "conversion/progress.py",
        "print(line, file=self._to, flush=True)",
        "(False)",
    ): "standard error is flushed after each line",
    (
        "conversion/inputs/comma_separated.py",
        "FIELD_CHARACTERS = 1 << 28",
        "(2)",
    ): "longer values are taken",
    ("loader/stream/barren.py", "BARREN_REPEATS = 1000", "(1001)"): "one more repetition",
    (
        "conversion/inputs/from_source.py",
        "CHUNK_RECORDS = 256",
        "(257)",
    ): "chunks have one more record",
    (
        "loader/device/transfer.py",
        "return held if held.itemsize < dtype.itemsize else None",
        "(held.itemsize <= dtype.itemsize)",
    ): "integers that fit are looked at in vain",
    (
        "operations/packing/fit.py",
        "space[row] = space[row] - tokens if filled[row] < self._most else -1",
        "(2)",
    ): "any negative number says that a row is full",
    (
        "loader/state/checks/batch_sizes.py",
        "if not 0 < after <= len(skips):",
        "(0 <= after <= len(skips))",
    ): "where nothing was begun, no size counts",
    (
        "loader/executors/pace.py",
        "return 2 * self._together[stage] > most and seconds <= TASK_SECONDS and rows <= most",
        "(seconds < TASK_SECONDS)",
    ): "no task takes exactly that long",
    (
        "loader/executors/processes/channel.py",
        "_PREFIX = 4  # bytes of the number before a packet",
        "(5)",
    ): "both ends use it",
    (
        "sources/tokens/writer.py",
        "int(array.max(initial=0)),",
        "(1)",
    ): "each dtype of tokens holds 1",
    (
        "operations/packing/fit.py",
        "long = int(np.searchsorted(tokens, spread * tokens[-1]))",
        "(2)",
    ): "more pieces are tried to be spread",
    (
        "loader/executors/processes/zygote.py",
        "wakeup.setblocking(False)",
        "(True)",
    ): "a wake-up has come when it is received",
    ("loader/executors/processes/spawner.py", "size = 0", "(1)"): "the memory is 64 bytes larger",
    (
        "loader/device/hosts/folder.py",
        "self._beats, self._checked = 0, 0.0",
        "(1)",
    ): "only changes of the count matter",
    (
        "loader/work/slabs.py",
        "while len(free) > MAX_FREE and len(free) * len(free[0].memory) > FREE_BYTES:",
        "(1)",
    ): "another free slab is looked at",
    ("loader/device/remote/caller.py", "UNKNOWN = (-1, 0)", "(2)"): "any negative layout is none",
    (
        "loader/work/slabs.py",
        "return max(-(-size // PAGE), 1) * PAGE",
        "(2)",
    ): "slabs of one page have two",
    (
        "loader/plan/identity.py",
        "if len(text) < PACKED_FROM:",
        "(len(text) <= PACKED_FROM)",
    ): "a text of exactly that length is not compressed",
    (
        "loader/work/reader.py",
        "elif second <= start and stop <= second + len(coming):",
        "(second < start)",
    ): "the keys are computed once more",
    (
        "loader/work/reader.py",
        "elif second <= start and stop <= second + len(coming):",
        "(stop < second + len(coming))",
    ): "the keys are computed once more",
    (
        "loader/device/hosts/folder.py",
        "count, since = self._alive.get(process, (-1, now))",
        "(2)",
    ): "any negative count differs from all that come",
    (
        "loader/executors/processes/channel.py",
        "ahead = max(len(descriptors) - MAX_DESCRIPTORS + 1, 0)",
        "(len(descriptors) + MAX_DESCRIPTORS)",
    ): "packets without descriptors go ahead",
    (
        "loader/device/queue.py",
        "at: int = 0",
        "(1)",
    ): "an iterator's end is replaced by one with the number of all hosts, and a batch passes it",
    (
        "sources/derived/windows.py",
        "for row in places.reshape(len(keys), -1).tolist()",
        "(2)",
    ): "NumPy takes any negative length as the one to find",
    (
        "samplers/chain/order.py",
        "joining: ClassVar[bool] = False",
        "(True)",
    ): "no records are appended in such an order: `resized` refuses it",
    (
        "loader/state/changed_records.py",
        "knows = not part.described or part.changes or GENERATION in part.described",
        "(not part.described and part.changes and (GENERATION in part.described))",
    ): "a known generation is found once more by its number of records",
    (
        "loader/state/leftover.py",
        "return any(stage > 0 or end > total for stage in begun)",
        "(end >= total)",
    ): "a window that ends where the former order ends has the same records in both orders",
    (
        "loader/executors/pooled.py",
        "cost = max(inputs, 1) * self._sizes.pace.seconds.get(task.stage, 1e-6)",
        "(2)",
    ): "a task of one input is thought to cost as much as one of two",
    (
        "loader/executors/processes/spawner.py",
        "return number != 0",
        "return None",
    ): "the next look, a moment later, finds no process",
    (
        "loader/work/slabs.py",
        'large = size >= LARGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE")',
        "(size > LARGE_PAGE)",
    ): "memory of one large page has small pages",
    (
        "operations/packing/arrays.py",
        "tokens.reshape(-1, *leaf.tail)[line.begins(first)] = leaf.bos",
        "(2)",
    ): "NumPy takes any negative length as the one to find",
    (
        "sources/tokens/document_file.py",
        "self._tokens.close()",
        "pass",
    ): "a file without a reference closes itself",
    (
        "loader/work/steps/chain.py",
        "self.functions = plain_at_front(self._stage.operations[1:])",
        "(2)",
    ): "batches of columns are made one by one by the other way: slower",
    (
        "loader/work/steps/chain.py",
        "self._take_all = self._hooks.take_all.get(stage.first + len(self._fused))",
        "(stage.first - len(self._fused))",
    ): "elements are passed on one by one: slower",
    (
        "conversion/prepare.py",
        "return value[:2].copy()",
        "(3)",
    ): "one more value is kept, of the same type",
    (
        "sources/growing/growing_files.py",
        "first = [path for path, file in growth.files(before) if file.records][:1]",
        "(2)",
    ): "new files are compared with one more file, which is like the first",
    (
        "samplers/changing/living.py",
        "position += left if is_part or stop == ENDLESS else (end - place) // full * left",
        "((end - place) * full)",
    ): "no piece follows whole epochs, which go on to a change, so nobody reads it",
    (
        "loader/state/growing.py",
        "return mix.with_parts(parts).resumed(saved, change.position, False)",
        "(True)",
    ): "a change to weights that the mix has already changes no draw",
    (
        "loader/work/units.py",
        "self._untimed -= 1",
        "pass",
    ): "fewer batches of a long task are timed",
    (
        "loader/plan/leaf.py",
        "max(self.lineage.blocks.size // self.shard.shard_count, 1), self.facts.block_size",
        "(self.lineage.blocks.size * self.shard.shard_count)",
    ): "more positions are computed in advance",
    (
        "loader/device/remote/stats.py",
        "if self.total.waited > LITTLE * self.elapsed and self.total.reading > self.total.waited / 2:",
        "(self.total.reading >= self.total.waited / 2)",
    ): "no time is exactly half of another",
    (
        "loader/plan/stages.py",
        "COLUMN_UNITS, COLUMN_BYTES = 8, 2 << 20",
        "(21)",
    ): "tasks may have more bytes",
    (
        "loader/executors/processes/zygote.py",
        "keep_freed_memory()  # all workers that are forked from here do so, too",
        "pass",
    ): "freed memory is mapped once more: slower",
    (
        "loader/executors/processes/channel.py",
        "PACKET = 64 << 10",
        "(64 >> 10)",
    ): "messages are in memory of their own: slower",
    (
        "loader/executors/processes/channel.py",
        "_STREAM_BUFFER = 256 << 10",
        "(11)",
    ): "more messages are on their way",
    (
        "loader/device/prepared.py",
        "return None, -1, []",
        "(2)",
    ): "without a leaf that has rows, nobody reads their number",
    (
        "loader/state/growing.py",
        "time.sleep(PAUSE_SECONDS)",
        "pass",
    ): "the next look comes at once",
    (
        "loader/device/hosts/folder.py",
        "for path in former if self._me == min([self._me, *self._others]) else ():",
        "(self._me != min([self._me, *self._others]))",
    ): "other processes remove what former runs have left",
    (
        "loader/stream/barren.py",
        "times.update({leaf: max(new, times.get(leaf, 0)) for leaf in leaves})",
        "(1)",
    ): "only a thousand repetitions matter",
}
"""Mutants that change nothing that can be seen, by file, line before and new code, and why."""
