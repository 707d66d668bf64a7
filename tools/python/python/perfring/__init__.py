"""perf's ring buffer, between your own processes."""

import os

from . import _native
from ._consumer import Consumer, Observer, Saved
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
from ._native import (
    BYTES,
    Batch,
    Lost,
    ProducerBatch,
    Record,
    Reservation,
    Snapshot,
    __version__,
    stat,
)
from ._producer import Producer

__all__ = [
    "BYTES",
    "BadRing",
    "BadType",
    "Batch",
    "Busy",
    "Closed",
    "Consumer",
    "Corrupt",
    "Forked",
    "Full",
    "Lost",
    "Observer",
    "PerfringError",
    "Producer",
    "ProducerBatch",
    "Record",
    "Reservation",
    "Saved",
    "Snapshot",
    "TooLarge",
    "__version__",
    "stat",
]

os.register_at_fork(after_in_child=_native._forked)
