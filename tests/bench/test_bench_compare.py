"""`bench/speed.py compare` measures only contenders that do the same work."""

from dataclasses import replace
from pathlib import Path

import libraries
import numpy as np
import pytest
from compare.verify import DifferentWorkError, verify
from compare.work import Contender, Data, Work, Workload, contenders_for

RECORDS = [np.full(3, number) for number in range(40)]
WORKLOAD = Workload("tiny", "", lambda folder: None, lambda record: record * 2, batch_size=4)
WORK = Work(WORKLOAD, Data(RECORDS, RECORDS, lambda keys: map(RECORDS.__getitem__, keys)))

FAULTS = {
    "spoils one": "batch 2 of planted is not that of limit loop: leaf '': checksum",
    "another order": "batch 2 of planted is not that of limit loop: leaf '': checksum",
    "another dtype": "batch 0 of planted is not that of limit loop: leaf '': dtype float64 ≠ int64",
    "short": "batch 0 of planted is not that of limit loop: leaf '': shape (3, 3) ≠ (4, 3)",
}


@pytest.mark.long
@pytest.mark.one_in(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_contender_that_does_other_work_is_named_with_the_difference(fault, monkeypatch):
    """Its first batches are compared with those of the limit loop, in one order of the records."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "planted")
    planted = libraries.Setting("planted", "planted_loops:loader", options={"fault": fault})
    monkeypatch.setitem(libraries.SETTINGS, "planted", planted)
    with pytest.raises(DifferentWorkError) as raised:
        verify(WORK, [Contender("limit"), Contender("bare"), Contender("planted")])
    assert FAULTS[fault] in str(raised.value)


@pytest.mark.long
def test_loops_and_headrace_do_the_same_work():
    """None of them is named."""
    verify(WORK, [Contender(key) for key in ("limit", "bare", "headrace", "chain")])


def test_contenders_of_a_workload_are_those_that_it_names():
    """A loop takes no number of workers, and loops side by side make sense only with workers."""
    keys = ["limit", "headrace", "chain", "mix", "limits"]
    workload = replace(WORKLOAD, contenders=("limit", "headrace", "chain", "limits", "torch"))
    found = [one.name for one in contenders_for(workload, keys, [0, 2])]
    assert found == ["limit", "headrace", "headrace@2", "chain", "chain@2", "limits@2"]
