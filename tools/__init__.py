"""The command line, `millrace …`, and checks of a user's pipeline."""

from typing import TYPE_CHECKING

from ..lazy import names_from

if TYPE_CHECKING:
    from .resume_check import check_resume

__all__ = ["check_resume"]

__getattr__ = names_from(__name__, {"check_resume": "resume_check"})
