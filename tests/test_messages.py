"""Every error message, one by one, from the table of docs/messages.py."""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from pathlib import Path

import pytest
from support.histories import REASONS
from support.remedies import REMEDY

ROOT = Path(__file__).parent.parent
LONGEST = 400
"""Characters, with each value as one: values are shortened, so that no message is
longer than 500.
"""

RIDDLES = re.compile(
    r"(?<!there )\b(is|are) no\b(?! longer)|\bis none of\b|\b(nobody|told|of now|of before|go "
    r"on|goes on|gave)\b|\b(what is|those of)\b"
)

OF_OTHERS = (
    "in_use",
    "_no_state",
    "_other_backend",
    "unknown_argument",
    "self._unusable",
    "self._damaged",
)
"""Functions that make the exception: their argument is a part of its message."""


def _messages():
    spec = importlib.util.spec_from_file_location("messages", ROOT / "docs" / "messages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = _messages()


@pytest.fixture(scope="module")
def every():
    """All messages; read when a test needs them, as each process of the tests imports this file."""
    return [each for each in MODULE.messages() if each.error not in (*OF_OTHERS, "AttributeError")]


@pytest.fixture(scope="module")
def whole(every):
    """The messages that users see alone."""
    return [each for each in every if not MODULE.is_part(each)]


@pytest.mark.parametrize("reason", sorted({*REASONS} - {"planned batches"}))  # of two texts
def test_a_reason_that_random_histories_may_be_refused_for_is_in_a_message(reason):
    """The random histories themselves, most of which only long runs play, do not find all."""
    assert any(REASONS[reason] in each.text for each in MODULE.messages())


@pytest.mark.slow
def test_the_table_has_the_messages_of_the_package(every):
    """Several hundred, of most packages, with their values left out."""
    assert len(every) > 800
    assert {each.file.partition("/")[0] for each in every} >= {
        "loader",
        "samplers",
        "sources",
        "operations",
        "chains",
        "tools",
    }
    assert (
        "| `ClosedError` | this iterator was closed. Make a new one, iter(loader), and restore the "
        "state in it. |" in MODULE.table()
    )


def test_few_messages_are_parts_of_others(every):
    """A message that users see alone is one sentence or several, or ends with a command to install
    something.
    """
    parts = [each for each in every if MODULE.is_part(each)]
    assert len(parts) <= 64, parts


def test_every_message_says_what_to_do_in_plain_words(whole):
    """Each names a remedy, is short, and has none of the phrases that readers did not
    understand.
    """
    assert [each for each in whole if not REMEDY.search(each.text)] == []
    assert [each for each in whole if len(each.text) > LONGEST] == []
    assert [each for each in whole if RIDDLES.search(each.text)] == []


@pytest.mark.parametrize(
    "text", ["the file cannot be read.", "the order has no name.", "a run of 3 steps was set."]
)
def test_a_message_without_a_remedy_is_found(text):
    """Verbs in the middle of a clause are no remedy."""
    assert not REMEDY.search(text)


def test_the_same_mistake_has_the_same_remedy_wherever_it_is_found(whole):
    """Messages whose first sentences are equal are equal."""
    by_mistake = defaultdict(set)
    for message in whole:
        mistake, stop, remedy = message.text.partition(". ")
        if stop and set(mistake) > set("… :.=()"):
            by_mistake[mistake].add(remedy)
    assert {
        mistake: remedies for mistake, remedies in by_mistake.items() if len(remedies) > 1
    } == {}
