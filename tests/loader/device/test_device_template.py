"""What a host without batches is told of the others' batch: a text, which brings the same tree and
runs nothing.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optree
import pytest
from support.damage import ODD_VALUES, paths_in, with_value

from headrace.errors import HostsError
from headrace.loader.device.hosts.template import from_text, to_text
from headrace.operations.trees import flatten

Pair = namedtuple("Pair", ["a", "b"])


@dataclass(frozen=True)
class Example:
    """A batch of the user's."""

    tokens: Any
    more: Any = None


class Own:
    """A class that only optree knows."""

    def __init__(self, value):
        self.value = value


optree.register_pytree_node(
    Own, lambda own: ([own.value], None), lambda _, children: Own(*children), namespace="headrace"
)

TREES = [
    {"b": np.zeros((0, 3), np.float32), "a": np.zeros((0,), jnp.bfloat16), 3: np.array(5)},
    (np.zeros((0, 2), np.uint8), [None, Pair(np.zeros(0), Example(np.zeros((0, 4), np.int32)))]),
    OrderedDict(z=np.zeros(0, bool), a=np.zeros(0, np.complex64)),
    defaultdict(list, x=np.zeros((0, 1), ">i4")),
    {("a", 1): np.array(2.5), b"k": np.zeros(0, np.int8)},
    np.zeros((0, 7)),
]


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_comes_back_as_it_was(tree):
    """Classes, order of keys, dtypes, shapes and values; the text is JSON."""
    text = to_text(tree)
    json.loads(text)
    (before, structure), (after, again) = flatten(tree), flatten(from_text(text))
    assert again == structure
    assert [(one.dtype, one.shape, one.tobytes()) for one in after] == [
        (one.dtype, one.shape, one.tobytes()) for one in before
    ]


def test_keys_of_jax_come_back():
    """With their implementation and values."""
    keys = jax.random.split(jax.random.key(3), 2)
    again = from_text(to_text({"keys": keys}))["keys"]
    assert again.dtype == keys.dtype
    assert (jax.random.key_data(again) == jax.random.key_data(keys)).all()


def test_a_class_that_json_cannot_tell_is_an_error_where_it_is_needed():
    """Hosts that have batches of it go on; one that has none says what to do."""
    text = to_text({"x": Own(np.zeros(0))})
    with pytest.raises(
        HostsError, match=r"which cannot be described to it\. Make batches only of arrays"
    ):
        from_text(text)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("not.imported", "Pair"),
        ("test_device_template", "Own"),
    ],
)
def test_a_text_names_no_code(module, name, tmp_path):
    """Only named tuples and dataclasses that are imported already are made, and nothing
    is called.
    """
    with pytest.raises(HostsError, match="has not imported"):
        from_text(json.dumps(["class", module, name, {"a": None}]))


def test_a_forged_text_is_an_error():
    """Each value of it changed; a pickle; arrays of objects."""
    told = json.loads(to_text(TREES[0]))
    for place in paths_in(told):
        for value in ODD_VALUES:
            try:
                from_text(json.dumps(with_value(told, place, value)))
            except HostsError:
                continue
    for text in (
        "",
        "[",
        base64.b64encode(b"\x80\x04N.").decode(),
        '["array", "|O", [1], "AAAAAAAAAAA="]',
        "[" * 99_999,
    ):
        with pytest.raises(HostsError, match="cannot be read"):
            from_text(text)
