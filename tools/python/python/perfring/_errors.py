"""The exceptions.

An error of the system is an ``OSError`` of the natural kind: ``FileExistsError``,
``FileNotFoundError``, ``PermissionError``, or an ``OSError`` with its ``errno``. A wrong argument
is a ``ValueError`` or a ``TypeError``. Every other error is a `PerfringError`. A loss is not an
error: it is a `Lost` among the records.
"""

import errno as _errno
from collections.abc import Sequence

from ._figures import Measured

__all__ = [
    "BadRing",
    "BadType",
    "Busy",
    "Closed",
    "Corrupt",
    "Forked",
    "Full",
    "PerfringError",
    "RingRemoved",
    "TooLarge",
    "Truncated",
]


class PerfringError(Exception):
    """The base class of perfring's own exceptions."""


class BadRing(PerfringError, ValueError):
    """The file is not a ring that this version and machine can use; the message says why."""


class Busy(PerfringError, BlockingIOError):
    """Another process has the seat of the producer or consumer; the message names it.

    A publish raises it too, if another producer has attached beside this one by another path.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = _errno.EAGAIN


class Full(PerfringError):
    """The ring has no space for a reservation now; the record is counted as lost.

    ``cause`` is ``"full"``. In a shared ring it can also be ``"contended"``, if another producer
    holds the lock, or ``"pending"``, if another producer's open reservation is in the way.
    """

    def __init__(self, message: str, cause: str = "full") -> None:
        super().__init__(message)
        self.cause = cause


class TooLarge(PerfringError, ValueError):
    """The record is too large for a ring of this size; it is counted as lost."""


class BadType(PerfringError, ValueError):
    """A record's type cannot be registered, or bytes do not match their type."""


class Corrupt(PerfringError):
    """The ring holds what no producer writes, at position ``pos`` where that is known.

    Of a damaged metrics area ``pos`` counts from its beginning, and ``before`` has the instruments
    that precede the damage: see `metrics`.
    """

    def __init__(
        self, message: str, pos: int | None = None, before: Sequence[Measured] = ()
    ) -> None:
        super().__init__(message)
        self.pos = pos
        self.before = before


class RingRemoved(PerfringError):
    """The ring's file was removed or replaced, and everything in it was read.

    A reader that waits checks for that once a second. Attach again for the ring that has the name
    now.
    """


class Closed(PerfringError, ValueError):
    """The object is closed."""


class Forked(PerfringError, RuntimeError):
    """This process is a forked child of the one that attached; attach again here."""


class Truncated(PerfringError):
    """The ring's file was truncated while it was in use; nothing more can be read from it."""
