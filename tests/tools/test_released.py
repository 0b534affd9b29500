"""The ratios of the last release, held against those of now: arithmetic on made-up results."""

import importlib.util
import json
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "released.py"
_SPEC = importlib.util.spec_from_file_location("released", _PATH)
released = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(released)


def _results(**rates):
    contenders = [
        {"name": name, "worker_count": 2 if name.endswith("2") else 0, "rate": rate} for name, rate in rates.items()
    ]
    return {"facts": {"cpu": "some"}, "workloads": [{"workload": "mnist", "contenders": contenders}]}


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
    assert released.main([str(before), "--released", str(kept), "--keep"]) == 0
    assert released.main([str(now), "--released", str(kept)]) == status
    assert ("mnist: headrace / limit: 1.00 → 0.89" in capsys.readouterr().out) == bool(status)


def test_a_ratio_that_was_not_measured_is_named():
    """So that a workload that was left out does not pass for one that is as fast as before."""
    assert released.falls({"mnist: headrace / limit": 1.0}, {}) == ["mnist: headrace / limit: 1.00 → not measured"]


def _page():
    spec = importlib.util.spec_from_file_location("page", _PATH.parent / "page.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    return page


def test_the_page_has_each_rival_at_its_better_setting_and_only_with_as_many_workers():
    """A rival that took no part leaves its cell empty."""

    def one(name, rate):
        return {"name": name, "rate": rate, "rate_high": rate + 1, "to_limit": rate / 100}

    contenders = [
        one("limit", 100),
        one("headrace", 90),
        one("grain", 3),
        one("grain_inline", 30),
        one("headrace@2", 180),
    ]
    workload = {"workload": "mnist", "about": "pictures", "contenders": [*contenders, one("grain@2", 6)]}
    lines = list(_page().lines({"facts": {"cores": "2"}, "workloads": [workload]}))
    assert lines[0] == "* **Conditions of the measurement**: cores 2."
    assert "| `mnist`: pictures | 90 (91) | 0.90 | 3 |  | 180 (181) | 1.80 | 30 |  |" in lines
