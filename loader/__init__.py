"""The loader: runs source, sampler and operations, and knows where the stream stands."""

from .data_loader import DataLoader, load
from .iterator import DataLoaderIterator
from .options import ReadOptions
from .resume_check import check_resume

__all__ = ["DataLoader", "DataLoaderIterator", "ReadOptions", "check_resume", "load"]
