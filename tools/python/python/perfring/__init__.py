"""perf's ring buffer, between your own processes."""

from ._errors import (
    BadRing,
    BadType,
    Busy,
    Closed,
    Corrupt,
    Forked,
    Full,
    PerfringError,
    TooLarge,
)
from ._native import __version__

__all__ = [
    "BadRing",
    "BadType",
    "Busy",
    "Closed",
    "Corrupt",
    "Forked",
    "Full",
    "PerfringError",
    "TooLarge",
    "__version__",
]
