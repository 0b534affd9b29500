"""What every executor must do, whatever runs the tasks."""

import threading
from itertools import product

import pytest
from support.pipelines import PIPELINES, chosen, loader, stream

from headrace import DataLoader


class _StartsThreads:
    """A list of numbers whose copies start threads, so that workers cannot be forked."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: int) -> int:
        return range(self._count)[key]

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        threading.Thread(target=threading.Event().wait, daemon=True).start()


EXECUTORS = {
    "inline": {"worker_count": 0},
    "one thread": {"worker_count": 1, "worker_kind": "thread"},
    "threads": {"worker_count": 3, "worker_kind": "thread"},
    "one process": {"worker_count": 1},
    "processes": {"worker_count": 3, "worker_buffer_size": 2},
    "fresh interpreters": {"worker_count": 2},
    "actors": {"worker_count": 2, "worker_kind": "ray"},
}


EVERYTHING = [
    (executor, pipeline)
    for executor, pipeline in product(EXECUTORS, PIPELINES)
    if executor != "actors"
    or pipeline in list(PIPELINES)[::-3]  # every third one: actors take a second to begin
]
ALWAYS = [
    (executor, pipeline)
    for executor, pipeline in EVERYTHING
    if executor in ("inline", "threads", "processes")
    or (executor != "actors" and pipeline in ("filter, batch", "batches of all dtypes"))
]


RESUMED = list(
    product(EXECUTORS, ["map, batch, map", "filter, batch", "batch of batches", "single records"])
)
RESUMED_ALWAYS = [pair for pair in RESUMED if pair in ALWAYS]


def _opened(executor: str, pipeline: str, records: int = 23) -> DataLoader:
    more = dict(EXECUTORS[executor])
    if executor == "fresh interpreters":
        more["data_source"] = _StartsThreads(records)
    return loader(pipeline, records=records, **more)


@pytest.fixture(params=EXECUTORS)
def executor(request):
    """The name of an executor."""
    return request.param


class TestEveryExecutor:
    """The conformance suite: the bytes of the stream are those of the inline executor."""

    @pytest.mark.one_in(20)
    @pytest.mark.parametrize(
        ("executor", "pipeline"), chosen(EVERYTHING, *ALWAYS), indirect=["executor"]
    )
    def test_gives_the_same_bytes(self, executor, pipeline):
        """On every kind of pipeline."""
        assert stream(_opened(executor, pipeline)) == stream(loader(pipeline, records=23))

    @pytest.mark.one_in(36)
    @pytest.mark.parametrize(
        ("executor", "pipeline"), chosen(RESUMED, *RESUMED_ALWAYS), indirect=["executor"]
    )
    def test_resumes_in_the_middle(self, executor, pipeline):
        """From the state after any element, the rest comes."""
        whole = stream(loader(pipeline, records=23))
        with iter(_opened(executor, pipeline)) as iterator:
            head = stream([next(iterator), next(iterator)])
            state = iterator.get_state()
        with iter(_opened(executor, pipeline)) as iterator:
            iterator.set_state(state)
            assert head + stream(iterator) == whole
