"""The command line, `millrace …`, and checks of a user's pipeline."""

from typing import TYPE_CHECKING

from ..lazy import names_from

if TYPE_CHECKING:
    from .resume_check import check_resume
    from .tracing.trace import Trace, TracedRecord, trace

__all__ = ["Trace", "TracedRecord", "check_resume", "trace"]

__getattr__ = names_from(
    __name__,
    {
        "Trace": "tracing.trace",
        "TracedRecord": "tracing.trace",
        "check_resume": "resume_check",
        "trace": "tracing.trace",
    },
)
