"""What the remedy in an error message looks like."""

from __future__ import annotations

import re

VERBS = (
    "add|append|apply|ask|await|begin|call|catch|change|check|choose|close|convert|copy|correct|count|cut|define|do|download|draw|feed|filter|"
    "finish|free|give|import|install|iterate|keep|leave|let|loop|lower|make|map|mend|mix|move|name|number|omit|order|pack|pass|prepare|"
    "put|raise|read|remove|rename|report|restore|return|run|save|say|set|skip|slice|solve|sort|start|trace|truncate|unpack|unset|update|use|"
    "wait|write"
)

REMEDY = re.compile(
    rf"(^|[.?:,;] |… |\b(or|and|please|otherwise) )({VERBS})\b|\bmust\b|should be marked|pip "
    rf"install|…\.?$|\. …",
    re.IGNORECASE,
)
"""A clause that begins with such a verb; what the user's function must do; or a value, which says
it.
"""
