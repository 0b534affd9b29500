"""The ratios of the last release, held against those of now: arithmetic on made-up results."""

import json

import pytest
import speed
from compare import released


def _results(**rates):
    contenders = [
        {"name": name, "worker_count": 2 if name.endswith("2") else 0, "rate": rate}
        for name, rate in rates.items()
    ]
    return {
        "facts": {"cpu": "some"},
        "workloads": [{"workload": "mnist", "contenders": contenders}],
    }


def test_ratios_are_those_to_plain_loops_and_to_others_with_as_many_workers():
    """Two workers of ours are not held against none of another library."""
    found = released.ratios_of(_results(headrace=6, headrace_2=9, limit=12, grain=1, grain_2=3))
    assert found == {
        "mnist: headrace / grain": 6,
        "mnist: headrace / limit": 0.5,
        "mnist: headrace_2 / grain_2": 3,
        "mnist: headrace_2 / limit": 0.75,
    }


@pytest.mark.parametrize(("rate", "status"), [(9.1, 0), (8.9, 1)])
def test_a_ratio_that_fell_by_more_than_a_tenth_is_named(tmp_path, capsys, rate, status):
    """The exit status says it, too."""
    before, now, kept = (tmp_path / name for name in ("before.json", "now.json", "released.json"))
    before.write_text(json.dumps(_results(headrace=10, limit=10)))
    now.write_text(json.dumps(_results(headrace=rate, limit=10)))
    assert speed.main(["released", str(before), "--released", str(kept), "--keep"]) == 0
    assert speed.main(["released", str(now), "--released", str(kept)]) == status
    assert ("mnist: headrace / limit: 1.00 → 0.89" in capsys.readouterr().out) == bool(status)


def test_a_ratio_that_was_not_measured_is_named():
    """So that a workload that was left out does not pass for one that is as fast as before."""
    assert released.falls({"mnist: headrace / limit": 1.0}, {}) == [
        "mnist: headrace / limit: 1.00 → not measured"
    ]
