"""The pages say what the results say."""

import pages

FACTS = {"date": "2026-11-25 13:30 UTC", "cores": "2", "CPU": "some CPU", "load average": "3.0"}
CELL = {"rate": 2000.0, "cpu": 0.5, "first": 1.25, "memory": 3 << 20, "wrong": ""}
RESULTS = {
    "grain": {
        "versions": {"grain": "0.2"},
        "facts": FACTS,
        "cells": {
            "plain:middle": ["ok", ""],
            "shuffle:middle": ["lost", "1 element"],
            "mix:middle": ["grey", "“no”"],
        },
        "speed_facts": FACTS,
        "speed": {
            "jpeg": CELL,
            "tar": {"unclaimed": "no tar"},
            "mnist": CELL | {"wrong": "record 7 is spoiled"},
        },
    },
    "spdl": {
        "versions": {"spdl": "0.8"},
        "facts": FACTS,
        "cells": {},
        "speed_facts": FACTS | {"load average": "11.5"},
        "speed": {"jpeg": {"missing": "not installed"}},
    },
}


def test_a_speed_cell_has_its_rate_processor_time_first_batch_and_memory():
    """2,000 a second with half a processor is 250 µs for each."""
    table = pages.speed_tables(RESULTS)
    assert "| `jpeg`, records/s | 2,000 (250 µs) | – |" in table
    assert "| first batch, s: `jpeg` | 1.2 | – |" in table
    assert "| memory, MiB: `jpeg` | 3 | – |" in table


def test_the_best_other_loader_is_named_and_the_factor_is_the_lowest_of_all_runs():
    """Wrong figures do not count, nor does headrace with another format; without figures there is
    no factor.
    """

    def run(ours, theirs):
        speed = {"headrace": ours, "headrace_array_record": 9999.0, "spdl": theirs}
        found = {name: {"speed": {"jpeg": CELL | {"rate": rate}}} for name, rate in speed.items()}
        return found | {
            "grain": {"speed": {"jpeg": CELL | {"rate": 5000.0, "wrong": "record 7 is spoiled"}}}
        }

    table = pages.rivals_table([run(2000.0, 500.0), run(900.0, 600.0)]).splitlines()
    (jpeg,) = [line for line in table if line.startswith("| `jpeg`")]
    assert jpeg.endswith("| 2,000 records/s | SPDL: 500 | 1.5 |")
    assert all(
        line.endswith("| 0 records/s | – | – |") for line in table if line.startswith("| `tar`")
    )


def test_a_cell_without_a_figure_has_a_sentence():
    """What is not claimed, not installed, or wrong; what is wrong has no figure, though it was
    fast.
    """
    table = pages.speed_tables(RESULTS)
    assert "| `mnist`, records/s | – | – |" in table
    for row in (
        "Grain | `tar` | no tar",
        "SPDL | `jpeg` | not installed",
        "Grain | `mnist` | wrong: record 7 is spoiled",
    ):
        assert f"| {row} |" in table


def test_a_resume_table_counts_verdicts_and_lists_what_is_wrong():
    """Grey cells are not counted."""
    table = pages.resume_tables(RESULTS)
    assert "| stopped and resumed in the middle | 1 ok, 1 lost |" in table
    assert "| Grain | `middle` | lost | 1 | `shuffle`: 1 element |" in table
    assert "mix" not in table


def test_date_machine_load_and_versions_are_those_that_the_command_noted():
    """Of loads, the least and the most."""
    table = pages.speed_tables(RESULTS)
    assert table.startswith(
        "* **When**: 2026-11-25 13:30 UTC.\n* **Machine**: 2 cores, some CPU; load average 3.0 to "
        "11.5.\n"
    )
    assert "* **Versions**: grain 0.2, spdl 0.8." in table


def test_a_table_is_written_between_its_own_marks():
    """All else on the page stays."""
    page = (
        "a\n<!-- by bench/pages.py -->\nold\n<!-- end -->\nb\n<!-- speed -->\nold\n<!-- end of "
        "speed -->\nc\n"
    )
    written = pages.between(page, "speed", "new\n")
    assert written.count("old") == 1
    assert written.endswith("b\n<!-- speed -->\n\nnew\n\n<!-- end of speed -->\nc\n")


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
    workload = {
        "workload": "mnist",
        "about": "pictures",
        "contenders": [*contenders, one("grain@2", 6)],
    }
    lines = list(pages.performance_tables({"facts": {"cores": "2"}, "workloads": [workload]}))
    assert lines[0] == "* **Conditions of the measurement**: cores 2."
    assert "| `mnist`: pictures | 90 (91) | 0.90 | 3 |  | 180 (181) | 1.80 | 30 |  |" in lines
