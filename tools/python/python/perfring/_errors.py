"""What goes wrong, as exceptions.

What the system refuses is an ``OSError`` of the natural kind: ``FileExistsError``,
``FileNotFoundError``, ``PermissionError``, or an ``OSError`` with its ``errno``. A wrong argument
is a ``ValueError`` or a ``TypeError``. All else is a `PerfringError`. A loss is none of these: it
is a `Lost` among the records.
"""

import errno as _errno

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
]


class PerfringError(Exception):
    """The base of what only perfring raises."""


class BadRing(PerfringError, ValueError):
    """The file is no ring that this version and machine can use; the text says why."""


class Busy(PerfringError, BlockingIOError):
    """Somebody else has the place: the text names who."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = _errno.EAGAIN


class Full(PerfringError):
    """There is no space for a reservation now.

    ``cause`` is ``"full"``, or in a shared ring ``"contended"`` or ``"pending"`` as well: another
    producer holds the lock, or has a reservation open that is in the way. It is counted as lost.
    """

    def __init__(self, message: str, cause: str = "full") -> None:
        super().__init__(message)
        self.cause = cause


class TooLarge(PerfringError, ValueError):
    """No ring of this size can hold the record. It is counted as lost."""


class BadType(PerfringError, ValueError):
    """A record's type cannot be registered, or bytes are none of their type."""


class Corrupt(PerfringError):
    """The ring holds what no producer writes, at position ``pos``.

    ``pos`` is ``None`` if the ring's file was truncated while it was in use.
    """

    def __init__(self, message: str, pos: int | None = None) -> None:
        super().__init__(message)
        self.pos = pos


class RingRemoved(PerfringError):
    """The ring's file was removed, or another took its place, and everything in it was read.

    A reader that waits looks for that once a second. Attach anew for the ring that has the name now.
    """


class Closed(PerfringError, ValueError):
    """It was closed before."""


class Forked(PerfringError, RuntimeError):
    """This process is a forked child of the one that attached: attach anew here."""
