"""perf's ring buffer, between your own processes."""

import os

from . import _native
from ._consumer import Consumer, Observer, Saved
from ._dtypes import dtype_of
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
from ._fields import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    Char,
    array,
    info,
    raw,
    text,
)
from ._native import (
    BYTES,
    Batch,
    Lost,
    ProducerBatch,
    Record,
    RecordType,
    Reservation,
    Snapshot,
    TypeTable,
    __version__,
    stat,
)
from ._producer import Producer
from ._types import pack, record, record_type, type_of, unpack

__all__ = [
    "BYTES",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "I128",
    "U8",
    "U16",
    "U32",
    "U64",
    "U128",
    "BadRing",
    "BadType",
    "Batch",
    "Busy",
    "Char",
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
    "RecordType",
    "Reservation",
    "Saved",
    "Snapshot",
    "TooLarge",
    "TypeTable",
    "__version__",
    "array",
    "dtype_of",
    "info",
    "pack",
    "raw",
    "record",
    "record_type",
    "stat",
    "text",
    "type_of",
    "unpack",
]

os.register_at_fork(after_in_child=_native._forked)
