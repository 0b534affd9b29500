"""`headrace report`: what users send with a report of a fault."""

import textwrap

import numpy as np
import pytest

import headrace
from headrace.tools.command_line import main

PROGRAM = """
    import headrace

    class Confidential(headrace.MapTransform):
        def map(self, record):
            return record

    def secret_names(name):
        return [{"x": name}] * 50

    loader = headrace.DataLoader(
        data_source=headrace.JsonLinesDataSource({path!r}),
        sampler=headrace.IndexSampler(3, shuffle=True, seed=11, num_epochs=2),
        operations=[
            Confidential(), secret_names, headrace.Filter(lambda record: record["ssn"] != "secret value"), headrace.Batch(2)
        ],
        worker_count=2,
    )
    """


@pytest.fixture
def program(tmp_path):
    """A program whose file, data, functions and classes have names that nobody else should see."""
    folder = tmp_path / "secret_customer"
    folder.mkdir()
    records = folder / "secret_records.jsonl"
    records.write_text('{"ssn": "secret value"}\n' * 3)
    path = folder / "secret_program.py"
    path.write_text(textwrap.dedent(PROGRAM).replace("{path!r}", repr(str(records))))
    return path


def test_a_report_tells_versions_platform_and_pipeline(program, capsys):
    """What somebody else needs to see the fault, too."""
    assert main(["report", str(program)]) == 0
    told = capsys.readouterr().out
    assert f"headrace {headrace.__version__}" in told
    assert f"numpy {np.__version__}" in told
    assert (
        "JsonLinesDataSource in the order of IndexSampler(records=3, shuffle=True, epochs=2, "
        "seed=11, algorithm=headrace)" in told
    )
    assert "stage 0: a class of the program, MapTransform, Filter" in told
    assert "batch sizes [2], shard 0 of 1" in told
    assert "worker_kind=process, worker_count=2" in told


def test_a_report_holds_nothing_that_is_the_users(program, capsys, monkeypatch):
    """No data, no paths, no names of functions or classes, nothing of the environment."""
    monkeypatch.setenv("MY_TOKEN", "secret token")
    assert main(["report", str(program)]) == 0
    told = capsys.readouterr().out.lower()
    assert "secret" not in told
    assert "confidential" not in told
    assert str(program.parent.parent) not in told


def test_a_report_of_no_program_tells_of_the_machine(capsys):
    """The first lines alone."""
    assert main(["report"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_report_of_a_mix_of_streams_tells_its_joins(tmp_path, capsys):
    """Names of the parts are the user's."""
    path = tmp_path / "program.py"
    path.write_text(
        "import headrace\n"
        "one, two = (headrace.MapDataset.range(count).to_iter_dataset() for count in (4, 9))\n"
        "parts = {'secret': one, 'other': two}\n"
        "mixed = headrace.IterDataset.mix(parts).batch(2)\n"
    )
    assert main(["report", f"{path}:mixed"]) == 0
    told = capsys.readouterr().out
    assert "join: " in told
    assert "secret" not in told
