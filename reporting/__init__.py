"""Show how a loop performs, while it runs and later: progress line, metrics, timeline, report."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .hosts import watch_hosts
    from .line import progress
    from .perfetto import write_perfetto
    from .report import write_report

__all__ = ["progress", "watch_hosts", "write_perfetto", "write_report"]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "progress": "line",
            "watch_hosts": "hosts",
            "write_perfetto": "perfetto",
            "write_report": "report",
        },
    )
