"""The command line, `headrace …`, and checks of a user's pipeline."""

from typing import TYPE_CHECKING

from ..common.lazy_exports import names_from

if TYPE_CHECKING:
    from .diagnosis.diagnose import diagnose
    from .diagnosis.diagnosis import Diagnosis
    from .provenance.diff import Difference, Reason, diff
    from .provenance.omitted import OmittedSearch, ReadRecord, find_omitted
    from .provenance.trace import Trace, TracedRecord, trace
    from .resume_check import check_resume

__all__ = [
    "Diagnosis",
    "Difference",
    "OmittedSearch",
    "ReadRecord",
    "Reason",
    "Trace",
    "TracedRecord",
    "check_resume",
    "diagnose",
    "diff",
    "find_omitted",
    "trace",
]

if not TYPE_CHECKING:
    __getattr__ = names_from(
        __name__,
        {
            "Diagnosis": "diagnosis.diagnosis",
            "Difference": "provenance.diff",
            "OmittedSearch": "provenance.omitted",
            "ReadRecord": "provenance.omitted",
            "Reason": "provenance.diff",
            "Trace": "provenance.trace",
            "TracedRecord": "provenance.trace",
            "check_resume": "resume_check",
            "diagnose": "diagnosis.diagnose",
            "diff": "provenance.diff",
            "find_omitted": "provenance.omitted",
            "trace": "provenance.trace",
        },
    )
