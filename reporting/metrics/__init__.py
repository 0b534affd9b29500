"""Metrics of loops and hosts: for Prometheus, OpenTelemetry and, as plain numbers, other programs.

They are computed when they are asked for. Until then, they take no time.
"""

from .numbers import as_dict
from .open_telemetry import Exported, export
from .prometheus import Server, serve

__all__ = ["Exported", "Server", "as_dict", "export", "serve"]
