"""Programs as guides and users write them run with real Grain and with ours, unchanged: the same elements in the same order."""

from pathlib import Path

import both
import grain  # noqa: F401 - the real one is there first
import numpy as np
import pytest

from millrace.compat.replaced import grain_replaced

GUIDES = sorted((Path(__file__).parent / "guides").glob("*.py"))


def elements_of(path, workers):
    """What a program has in `elements` in the end."""
    names = {"__name__": path.stem, "WORKERS": workers}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return both.told(names["elements"])


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_programs_of_grain_run_unchanged(path):
    """With Grain and without workers, and with ours and two: the same."""
    with both.quiet():
        expected = elements_of(path, 0)
    assert len(expected) > 3
    with grain_replaced():
        found = elements_of(path, 2 if "WORKERS" in path.read_text() else 0)
    np.testing.assert_equal(found, expected)
