"""Executors: where tasks run. Those with workers are imported where they are used."""

from .inline import InlineExecutor
from .protocol import Executor, Handle

__all__ = ["Executor", "Handle", "InlineExecutor"]
