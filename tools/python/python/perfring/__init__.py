"""perf's ring buffer, between your own processes.

A producer publishes records into a file-backed ring in shared memory. A consumer and any number of
observers read them, in this process or in others, in Python or in Rust. After ``kill -9`` the file
still holds the last records.

    >>> import perfring
    >>> with perfring.Producer.create(tmp / "ticks") as producer:
    ...     producer.publish(b"hello")
    True
    >>> with perfring.Consumer(tmp / "ticks") as consumer:
    ...     bytes(consumer.read())
    b'hello'

To publish:
    `Producer`, its `Reservation` and `ProducerBatch`; `BYTES`, the default type of a record.

To read:
    `Consumer`, `Observer` (which can start at a `Saved` position), `Snapshot`. They return a
    `Record` or a `Lost`, or many as a `Batch`; in an event loop as `AsyncItems`.

Figures:
    `stat` returns a `RingStat`, with a `Holding` of each seat, or a `Slot`, a `NamedConsumer`, and
    `HeldUp`. ``totals`` are `ProducerTotals` and `RingTotals`, a merge has `MergeFigures`.
    `metrics` returns what instruments have `Measured`. All are dicts.

Typed records:
    `record` makes a dataclass a record's class, with fields such as `U8`, `U16`, `U32`, `U64`,
    `U128`, `I8`, `I16`, `I32`, `I64`, `I128`, `F32`, `F64`, `Char`, `text`, `raw`, `array`, and
    `info` about them. `record_type` converts a numpy dtype. `pack`, `unpack`, `type_of` and
    `dtype_of` work on both. A ring's `TypeTable` holds its types, each a `RecordType`.

Many rings:
    `RingSet`, a directory of rings (`Ring`, `Pruned`); `Merge` reads them in the order of time, as
    `Merged` items, with `RingGone` and `RingFailed` among them.

Errors:
    `PerfringError`: `BadRing`, `BadType`, `Busy`, `Closed`, `Corrupt`, `Forked`, `Full`,
    `RingRemoved`, `TooLarge` and `Truncated`.
    An error of the system is an ``OSError`` of the natural kind. A loss is not an error.

`perfring.logging` has a handler for Python's ``logging``, `perfring.telemetry` spans and metrics;
``perfring.structlog`` and ``perfring.opentelemetry`` are for programs that use those packages.
``python -m perfring demo`` kills a process and reads its last records. Timeouts are seconds, or
text such as ``"250ms"``: 0 does not wait, ``None`` waits for ever.
"""

import os as _os

from . import _native
from ._async import AsyncItems
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
    RingRemoved,
    TooLarge,
    Truncated,
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
from ._figures import (
    HeldUp,
    Holding,
    Measured,
    MergeFigures,
    NamedConsumer,
    ProducerTotals,
    RingStat,
    RingTotals,
    Slot,
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
    metrics,
    stat,
)
from ._producer import Producer
from ._set import Merge, Merged, Pruned, Ring, RingFailed, RingGone, RingSet
from ._types import dtype_of, pack, record, record_type, type_of, unpack

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
    "AsyncItems",
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
    "HeldUp",
    "Holding",
    "Lost",
    "Measured",
    "Merge",
    "MergeFigures",
    "Merged",
    "NamedConsumer",
    "Observer",
    "PerfringError",
    "Producer",
    "ProducerBatch",
    "ProducerTotals",
    "Pruned",
    "Record",
    "RecordType",
    "Reservation",
    "Ring",
    "RingFailed",
    "RingGone",
    "RingRemoved",
    "RingSet",
    "RingStat",
    "RingTotals",
    "Saved",
    "Slot",
    "Snapshot",
    "TooLarge",
    "Truncated",
    "TypeTable",
    "__version__",
    "array",
    "dtype_of",
    "info",
    "metrics",
    "pack",
    "raw",
    "record",
    "record_type",
    "stat",
    "text",
    "type_of",
    "unpack",
]

_os.register_at_fork(after_in_child=_native._forked)

# help(), tracebacks and pickles name the module that users import from.
for _name in __all__:
    _one = globals()[_name]
    if getattr(_one, "__module__", "").startswith("perfring."):
        _one.__module__ = "perfring"
del _name, _one
