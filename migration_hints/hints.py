"""Find what to write in place of a name of another library or a misspelled name.

The result is the end of an error message. The texts are in `hints.json`; code in them is between
backticks, and `test_foreign_names.py` runs it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..common.messages import first_few, short_repr, shorten

_CHAINS = "use a method of headrace.MapDataset or headrace.IterDataset, if there is one for this"


@cache
def tables() -> dict[str, dict[str, dict[str, str]]]:
    """Return all hints as nested dicts: "arguments", "methods" or "package"; owner; name; text.

    Hints of later owners override those of earlier ones.
    """
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("hints.json").read_text("utf-8"))
    return loaded


def remedies(what: str, *of: str) -> dict[str, str]:
    """Return a dict of the hints for arguments, methods or names of an object, by name.

    Args:
        what: "arguments", "methods" or "package".
        *of: names of the object or function; it may have several. Hints of later ones in the file
            override hints of earlier ones.
    """
    found: dict[str, str] = {}
    for owners, texts in tables()[what].items():
        if not set(of).isdisjoint(owners.split(", ")):
            found |= {name: text for names, text in texts.items() for name in names.split(", ")}
    return found


def unknown_argument(function: str, name: str, known: Sequence[str]) -> TypeError:
    """Make the TypeError for an unknown argument, with a hint.

    Args:
        function: name of the function as it is called: "load", "MapDataset.shuffle".
        name: name of the argument.
        known: arguments that the function has.

    >>> unknown_argument("load", "num_epoch", ["source", "num_epochs"])
    TypeError('load has no argument num_epoch=; use num_epochs=.')
    """
    return TypeError(
        f"{function} has no argument {shorten(name)}=; {argument_instead(function, name, known)}."
    )


def argument_instead(function: str, name: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown argument, such as "use batch_size=".

    If there is no replacement and no similar name, the hint lists the arguments that the function
    has.

    Args:
        function: name of the function as it is called: "load", "MapDataset.shuffle".
        name: name of the argument.
        known: arguments that the function has.

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
    """Return a dict of the hints for methods that a kind of object does not have, by method name.

    Args:
        kind: name of the kind: "MapDataset", "IterDataset", …

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
    """Make the AttributeError for a name that the package lacks, with a hint if there is one.

    >>> no_attribute("FilterTransform")
    AttributeError("module 'headrace' has no attribute 'FilterTransform'; use headrace.Filter")
    """
    of_chains = _CHAINS if name.endswith(("MapDataset", "IterDataset")) else ""
    remark = remedies("package", "headrace").get(name, of_chains)
    remark = f"; {remark}" if remark else ". Use one of the names in dir(headrace)."
    return AttributeError(f"module 'headrace' has no attribute {short_repr(name)}{remark}")
