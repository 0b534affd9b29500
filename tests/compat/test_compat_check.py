"""`python -m headrace.compat.check`: a program of Grain's, run with our names in their place."""

import subprocess
import sys

import pytest

from headrace.compat import check as checks

PROGRAM = """
import sys

import grain
import grain.python as pygrain
from grain import transforms
from grain.experimental import device_put


class Double(grain.transforms.Map):
    def map(self, element):
        return pygrain.Record(None, 2 * element).data  # a name that workers look up, too


def main():
    loader = pygrain.DataLoader(
        data_source=pygrain.RangeDataSource(0, 8, 1),
        sampler=grain.samplers.SequentialSampler(num_records=8),
        operations=[Double(), transforms.Batch(4)],
        worker_count=int(sys.argv[1]),
    )
    print([batch.tolist() for batch in loader], isinstance(Double(), transforms.Map))


if __name__ == "__main__":
    main()
"""


def run(tmp_path, text, *arguments):
    """What the command prints, and its exit status."""
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "headrace.compat.check", str(program), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert program.read_text() == text
    return result.stdout, result.stderr, result.returncode


def test_a_program_runs_as_it_is_and_its_names_are_listed(tmp_path):
    """Each way to import is followed, in a worker process too, and arguments go to the program."""
    out, err, status = run(tmp_path, PROGRAM, "1")
    assert status == 0, err
    assert "[[0, 2, 4, 6], [8, 10, 12, 14]] True" in out
    assert "ran through" in out
    for name in (
        "grain.transforms.Map",
        "grain.transforms.Batch",
        "grain.python.DataLoader",
        "grain.samplers.SequentialSampler",
        "grain.experimental.device_put",
    ):
        (line,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert line.endswith("  ok")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import grain\n\ngrain.Nothing\n", "grain.Nothing"),
        ("from grain._src.core import nothing\n", "grain._src.core.nothing"),
        ("from grain._src.core.config import nothing\n", "grain._src.core.config.nothing"),
        ("import grain._src.nothing\n", "grain._src.nothing"),
    ],
)
@pytest.mark.one_in(4)
def test_a_name_that_is_not_here_is_told(tmp_path, text, line):
    """It ends the program as it would without the command, and stands in the list."""
    out, err, status = run(tmp_path, text)
    assert status == 1
    assert "Error" in err
    assert "runpy" not in err  # the traceback begins in the program
    assert "failed" in out
    assert [found for found in out.splitlines() if found.startswith(line) and "not here" in found]


@pytest.mark.slow
def test_a_name_that_raises_is_told_with_what_it_raised(tmp_path):
    """The names in the statement that failed stand with the error; others went well."""
    text = (
        "import grain\n\ngrain.MapDataset.range(3)\nsampler = grain.samplers.SequentialSampler(\n  "
        "  num_records=-1\n)\n"
    )
    out, _, status = run(tmp_path, text)
    assert status == 1
    lines = out.splitlines()
    assert [
        line
        for line in lines
        if line.startswith("grain.samplers.SequentialSampler") and "raised ValueError" in line
    ]
    assert [line for line in lines if line.startswith("grain.MapDataset") and line.endswith("ok")]


@pytest.mark.slow
def test_an_error_far_from_grains_names_is_not_blamed_on_them(tmp_path):
    """The list says so, and the error stands above it."""
    text = (
        "import grain\n\nnumbers = grain.MapDataset.range(3).map(lambda x: 1 // x)\nfor number in "
        "numbers:\n    pass\n"
    )
    out, err, status = run(tmp_path, text)
    assert status == 1
    assert "ZeroDivisionError" in err
    assert out.endswith(
        "None of these names stands in the line that failed: see the error above.\n"
    )


def test_the_status_of_a_program_that_ends_itself_is_kept(tmp_path):
    """sys.exit(3) is 3; no such file is 2."""
    assert run(tmp_path, "import sys\n\nsys.exit(3)\n")[2] == 3
    with pytest.raises(SystemExit) as ended:
        checks.main([str(tmp_path / "nowhere.py")])
    assert ended.value.code == 2


def test_afterwards_grain_is_grain_again(tmp_path):
    """The real package is imported before and after as ever."""
    import grain

    program = tmp_path / "program.py"
    program.write_text(
        "import grain\n\nassert grain.DataLoader.__module__.startswith('headrace.')\n"
    )
    uses, failure = checks.check(str(program))
    assert failure is None
    assert uses.found == {"grain.DataLoader"}
    assert sys.modules["grain"] is grain
