"""Names of other libraries that people try, and slips of the pen: what to write instead.

In: the name of a function, of a kind of object or of the package, and a name that it has not. Out: the end of a message.

The words are in `hints.json`, by what they are said of; code in them is between backticks, and `test_foreign_names.py` runs it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..common.messages import first_few, short_repr, shorten

_CHAINS = "what it does is a method of headrace.MapDataset or headrace.IterDataset, as far as it is here"


@cache
def tables() -> dict[str, dict[str, dict[str, str]]]:
    """All remedies: of arguments, methods and the package, each by what has them, in which later ones count more."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("hints.json").read_text("utf-8"))
    return loaded


def remedies(what: str, *of: str) -> dict[str, str]:
    """The remedies for arguments or methods of something, which may have several names."""
    found: dict[str, str] = {}
    for owners, texts in tables()[what].items():
        if not set(of).isdisjoint(owners.split(", ")):
            found |= {name: text for names, text in texts.items() for name in names.split(", ")}
    return found


def unknown_argument(function: str, name: str, known: Sequence[str]) -> TypeError:
    """The error for an argument that a function has not.

    Args:
        function: as it is called: "load", "MapDataset.shuffle".
        name: of the argument.
        known: the arguments that it has.

    >>> unknown_argument("load", "num_epoch", ["source", "num_epochs"])
    TypeError('load has no argument num_epoch=; use num_epochs=.')
    """
    return TypeError(f"{function} has no argument {shorten(name)}=; {argument_instead(function, name, known)}.")


def argument_instead(function: str, name: str, known: Sequence[str]) -> str:
    """The replacement of an argument that a function does not have: another library's, or a misspelled one.

    >>> argument_instead("load", "num_workers", [])
    'use worker_count=2'
    """
    from difflib import get_close_matches  # here: few programs need it

    kind, _, method = function.rpartition(".")
    texts = remedies("arguments", kind, method, function)
    meant = [name] if name in texts else get_close_matches(name, [*known, *texts], 1, 0.8)
    if meant and meant[0] in known:
        return f"use {meant[0]}="
    if meant:
        return texts[meant[0]].replace("`", "")
    return f"it has {first_few(known, 12)}" if known else "it takes none by name"


@cache
def methods_instead(kind: str) -> dict[str, str]:
    """The replacements of methods that a kind of object does not have.

    >>> methods_instead("MapDataset")["take"]
    'use `dataset[:count]`'
    """
    texts = remedies("methods", kind)
    return (
        {name: text.replace("dataset.to_iter_dataset()", "stream") for name, text in texts.items()}
        if kind == "IterDataset"
        else texts
    )


def no_attribute(name: str) -> AttributeError:
    """The error for a name that the package has not.

    >>> no_attribute("FilterTransform")
    AttributeError("module 'headrace' has no attribute 'FilterTransform'; use headrace.Filter")
    """
    of_chains = _CHAINS if name.endswith(("MapDataset", "IterDataset")) else ""
    remark = remedies("package", "headrace").get(name, of_chains)
    return AttributeError(f"module 'headrace' has no attribute {short_repr(name)}{'; ' * bool(remark)}{remark}")
