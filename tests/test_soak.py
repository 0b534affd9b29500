"""The command that plays random programs with fresh seeds."""

from __future__ import annotations

import pytest
import soak
from support.histories import played


def test_numbers_are_played_until_the_time_is_over(capsys):
    """At least one is, and the last line says from which number on."""
    assert soak.main(["--minutes", "0", "--first", "6"]) == 0
    assert capsys.readouterr().out == "1 programs from 6 on, 0 of them wrong\n"


@pytest.mark.parametrize("number", [10, 11])
def test_a_program_that_fails_is_named_by_its_number(number, monkeypatch, capsys):
    """One command finds the number, and the other shows what is wrong with it."""

    def fails(*arguments):
        raise AssertionError("record 3 came twice")

    monkeypatch.setattr(soak, "played", fails)
    monkeypatch.setattr(soak.simulate, "play", fails)
    assert soak.main(["--minutes", "0", "--first", str(number)]) == 1
    assert f"{number}: AssertionError: record 3 came twice\n" in (out := capsys.readouterr().out)
    assert out.endswith(f"1 of them wrong: {number}\n")
    assert soak.main([str(number)]) == 1
    assert "record 3 came twice" in capsys.readouterr().err


def test_odd_numbers_are_histories():
    """The same as the tests of random histories play."""
    assert soak.played is played
    soak.play(3)
