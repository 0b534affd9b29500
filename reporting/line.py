"""Show a progress line while a loop runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from tqdm.std import tqdm

from ..common.closing import close_of
from ..common.units import format_bytes
from ..loader.timing.snapshot import Snapshot
from .loops import WithLine, asked, snapshot

SECONDS = (
    0.5  # smallest time between two updates of the line: numbers that change faster cannot be read
)


def progress(
    iterator: Iterable[Any],
    *,
    description: str | None = None,
    disable: bool | None = None,
    file: Any = None,
) -> Progress:
    """Iterate with a progress line.

    It shows steps/s, records/s, bytes/s, the share of time that the loop waits for batches, and the
    epoch.

    Use the result in place of the iterator. It has the iterator's length, state, `stats()`,
    `close()` and all other attributes. By default, there is no line if the output is not a terminal
    or notebook, so that log files are not filled.

    Args:
        iterator: iterator of a loader, or a device feeder. For a loader or a dataset, `iter` is
            called. Other iterators get a line with fewer values.
        description: text before the line. None (default): no text.
        disable: True: no line. None (default): a line in terminals and notebooks. False: always a
            line.
        file: file to which the line is written. None (default): standard error.

    >>> import headrace
    >>> steps = headrace.progress(iter(headrace.load(range(6), batch_size=2, num_epochs=1)))
    >>> next(steps).tolist(), len(steps), steps.step
    ([0, 1], 3, 1)
    """
    return Progress(iter(iterator), {"desc": description, "file": file}, disable)


class Progress(WithLine):
    """Iterator with a progress line, made by `headrace.progress`.

    Its other attributes are those of the iterator inside.
    """

    def __init__(self, iterator: Any, line: dict[str, Any], disable: bool | None) -> None:
        self._iterator = iterator
        self._line, self._disable = line, disable
        self._bar: tqdm[Any] | None = None
        self._before = _NOTHING  # when the line was written last

    def __next__(self) -> Any:
        bar = self._bar
        if bar is None:
            bar = self._bar = self._new_bar()
        try:
            element = next(self._iterator)
        except StopIteration:
            self._end_line()
            raise
        if bar.update():
            self._tell(bar)
        return element

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        if name == "_iterator":  # of one that is being made or copied
            raise AttributeError(name)
        return getattr(self._iterator, name)

    @property
    def without_line(self) -> Any:
        return self._iterator

    def __repr__(self) -> str:
        return f"progress({self._iterator!r})"

    def get_state(self) -> Any:
        return self._iterator.get_state()

    def set_state(self, state: Any, strict: bool = True) -> None:
        self._iterator.set_state(state, *(() if strict else (strict,)))
        self._end_line()

    def set_states(
        self, states: Sequence[Any], strict: bool = True, equal_steps: bool = False
    ) -> None:
        self._iterator.set_states(states, strict, *((equal_steps,) if equal_steps else ()))
        self._end_line()

    def start_prefetch(self) -> None:
        self._iterator.start_prefetch()

    def close(self) -> None:
        """Close the iterator, and end the line."""
        self._end_line()
        close_of(self._iterator)()

    def _new_bar(self) -> tqdm[Any]:
        kind, disable = _kind_of_line(self._disable)
        self._before = snapshot(self._iterator) or _NOTHING
        try:
            length: int | None = len(self._iterator)
        except TypeError:  # endless, or known only when it has ended
            length = None
        passed = int(asked(self._iterator, "passed") or 0)
        own = {
            "total": length,
            "initial": passed,
            "unit": "step",
            "mininterval": SECONDS,
            "disable": disable,
        }
        return kind(**own, dynamic_ncols=True, **self._line)

    def _end_line(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            if not bar.disable:
                self._before = _NOTHING  # the last line is about all of it
                self._tell(bar)
            bar.close()

    def _tell(self, bar: tqdm[Any]) -> None:
        now = snapshot(self._iterator)
        if now is None or now == self._before:
            return
        new, self._before = now.since(self._before), now
        each = 1 / new.elapsed if new.elapsed > 0 else 0.0
        rates = (
            [f"{new.records * each:,.0f} records/s", f"{format_bytes(new.nbytes * each)}/s"]
            if now.records
            else []
        )
        epoch = asked(self._iterator, "epoch")
        epochs = [] if epoch is None else [f"epoch {epoch}"]
        bar.set_postfix_str(", ".join([*rates, f"waited {new.waited * each:.1%}", *epochs]))


_NOTHING = Snapshot(0, 0.0, 0.0)


def _kind_of_line(disable: bool | None) -> tuple[Any, bool | None]:
    """Return the class of the progress line (of tqdm), and True if the line is disabled.

    None in place of True or False means that tqdm disables the line if the output is not a
    terminal.
    """
    ipython = getattr(
        sys.modules.get("IPython"), "get_ipython", lambda: None
    )()  # as tqdm finds out
    if disable is not None or ipython is None or "IPKernelApp" not in ipython.config:
        return tqdm, disable
    if importlib.util.find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget

        return widget, False
    return tqdm, False
