"""The store of JAX's coordination service, as far as a version of JAX has it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.loader.device.hosts import store


@pytest.mark.parametrize(
    ("methods", "expected"), [({}, 0), ({"key_value_increment": lambda key, by: 4 + by}, 5)]
)
def test_a_store_counts_if_jax_does(methods, expected, monkeypatch):
    """A version of JAX without such a method gives 0; the store is open from the beginning."""
    state = SimpleNamespace(client=SimpleNamespace(**methods))
    monkeypatch.setattr(store, "_global_state", lambda: state)
    made = store.KeyValueStore()
    assert made.is_open
    assert made.count("key") == expected
