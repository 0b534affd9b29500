"""Executors: where tasks run."""

from .inline import InlineExecutor
from .protocol import Executor, Handle

__all__ = ["Executor", "Handle", "InlineExecutor"]
