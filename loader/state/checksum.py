"""The checksum of a state: a state of which a part was changed or lost is noticed.

In: a state as JSON. Out: the same with a checksum over all of it. It tells damage; it is no protection from people.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from ...common.messages import short_repr
from ...errors import CheckpointError

NAME = "checksum"
"""Of its value in a state. States of earlier versions have none."""


def sealed(content: bytes) -> bytes:
    """A state with its checksum, which comes first.

    Args:
        content: JSON as `json.dumps` writes it, with sorted keys and no spaces.

    >>> sealed(b'{"step":3}')
    b'{"checksum":"232fcf13","step":3}'
    """
    return b'{"%b":"%08x",%b' % (NAME.encode(), crc32(content), content[1:])


def unsealed(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a state without the checksum, if it has one.

    Raises:
        CheckpointError: the checksum is that of another state.
    """
    if NAME not in values:
        return values
    content = {name: value for name, value in values.items() if name != NAME}
    try:
        found = f"{crc32(json.dumps(content, sort_keys=True, separators=(',', ':')).encode()):08x}"
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"the state is damaged: its values are no JSON values ({short_repr(str(error))})."
        ) from None
    if values[NAME] != found:
        raise CheckpointError(
            f"the state is damaged: its checksum is {short_repr(values[NAME])}, that of its content {found}. Pass what "
            "get_state() gave, unchanged, or an earlier checkpoint."
        )
    return content
