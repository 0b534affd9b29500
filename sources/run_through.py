"""Source for a user's dataset that can only be iterated.

It converts the states of the iterators to text.

The dataset has `__iter__`. Its iterators have `get_state` and `set_state`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..common.identity.values import described, digest, plain_attributes
from ..common.messages import a_kind_of, short_repr
from ..errors import SourceError
from .facts import SourceFacts

ENDLESS = (1 << 63) - 1


def run_through_dataset(source: Any) -> Any:
    """Return the dataset that a source loops over.

    Return None for a source that is no `RunThroughSource`.
    """
    return source.dataset if isinstance(source, RunThroughSource) else None


class RunThroughSource:
    """Source whose elements one worker reads in order, from a dataset that can only be iterated.

    The state of its iterator is a JSON value, which may also contain `bytes`.

    Args:
        dataset: the dataset to iterate.
        has_workers: True: the dataset itself, or one from which it is made, makes its elements in
            workers of its own.
        parents: digests of the datasets from which `dataset` is made.
        identity: dataset whose attributes give the fingerprint. None (default): `dataset`.
        endless: True: the dataset never ends. False (default): this is unknown.
    """

    def __init__(
        self,
        dataset: Any,
        has_workers: bool = False,
        parents: Sequence[str] = (),
        identity: Any = None,
        endless: bool = False,
    ) -> None:
        self._dataset = dataset
        self._identity = dataset if identity is None else identity
        self.has_workers = has_workers
        self._parents = list(parents)
        self._endless = endless

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(
            checks_keys=True, reads_ahead=False, in_order=True, endless=self._endless
        )

    @property
    def dataset(self) -> Any:
        return self._dataset

    def __len__(self) -> int:
        return ENDLESS  # nobody knows

    def __getitem__(self, key: int) -> Any:
        raise SourceError(
            f"{type(self._dataset).__name__} can only be read from its beginning to its end, so "
            f"element {key} cannot be read on its own. Read the elements in a loop."
        )

    def __repr__(self) -> str:
        return f"{type(self._dataset).__name__}, run through"

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Values that identify the dataset.

        They are its class, and digests of its parents and of its `fingerprint` or attributes.
        """
        kind, given = (
            type(self._identity).__qualname__,
            getattr(self._identity, "fingerprint", None),
        )
        told = (
            plain_attributes(self._identity)
            if given is None
            else described(given() if callable(given) else given)
        )
        own = digest([told], 8)
        return {"kind": kind, "parameters": own, "parents": self._parents}

    def with_workers(self, dataset: Any) -> RunThroughSource:
        """Return a source that reads `dataset` in workers.

        It makes the same elements as this source.
        """
        return RunThroughSource(
            dataset, has_workers=True, parents=self._parents, endless=self._endless
        )

    def of(self, dataset: Any) -> RunThroughSource:
        """Return a source that reads `dataset` in another way.

        It makes the same elements as this source.

        States saved by one of the two sources can be restored by the other.
        """
        return RunThroughSource(
            dataset, self.has_workers, self._parents, self._identity, self._endless
        )

    def open(self, state: str) -> Iterator[Any]:
        """Return a new iterator over the dataset.

        Args:
            state: state at which it begins, as `state_of` returned it; "" for the beginning.

        Raises:
            TypeError: the iterator has no `get_state` or no `set_state`.
        """
        iterator: Any = iter(self._dataset)
        for method in ("get_state", "set_state"):
            if not hasattr(iterator, method):
                raise TypeError(
                    f"iter({type(self._dataset).__name__}) returned {a_kind_of(iterator)} without "
                    f"{method}. Make __iter__ return an object with __next__, get_state() and "
                    "set_state(state), so that a run can resume."
                )
        if state:
            iterator.set_state(json.loads(state, object_hook=_with_bytes))
        opened: Iterator[Any] = iterator
        return opened

    def state_of(self, iterator: Any) -> str:
        state = iterator.get_state()
        try:
            return json.dumps(state, default=_as_text, separators=(",", ":"))
        except (TypeError, ValueError):
            raise TypeError(
                f"get_state() of {a_kind_of(iterator)} returned {short_repr(state)}, which cannot "
                "be stored as JSON. Return only Python's int, float, bool, str, bytes and None, "
                "and lists and dicts of these whose keys are strings."
            ) from None


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(value)


def _with_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if set(value) == {"base64"} else value
