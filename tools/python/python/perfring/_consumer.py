"""Readers: the consumer and observers."""

from collections.abc import AsyncGenerator
from typing import NamedTuple, NoReturn

from . import _native
from ._async import items


class Saved(NamedTuple):
    """Where an observer would go on: for `Observer`'s ``start``, also in another process.

    Attributes:
        pos: The position of the next record.
        records: Records that stood before it since the ring was made.
        bytes: Bytes that these took.
    """

    pos: int
    records: int
    bytes: int


class Consumer(_native.Consumer):
    """The one consumer of a ring. A new one goes on where the last one was done.

    Of a drop ring, records are borrowed: a `Record` is a view of the ring, and its space goes back
    to the producer when the record and all that was made of it are gone (a ``memoryview``, an
    array). Of an overwrite ring they are copies, and the place is saved in the file.

    Args:
        path: The ring.
        name: Who attaches, as ``perfring stat`` shows it; the script's name without it.
        pace: How it looks for more while a producer is at work: ``"latency"`` all the time,
            ``"throughput"`` with pauses, which lets the producer be faster; ``"adaptive"`` pauses
            if the producer is the faster one.
        trust: Whom to trust not to change records while they are read. ``"peers"``: all who may write
            the ring's file. ``"nobody"``: each record is copied before it is returned, and such a
            consumer has no `pin`. ``"auto"``: peers, unless others than this process's user may write
            the file.

    Raises:
        Busy: The ring has a consumer: the text says who.
        BadRing: The file is no ring.
        OSError: The system refused it.

    Iteration waits for ever; ``items(timeout)`` for at most so many seconds for each item, and
    ``async for`` without holding the event loop up. What is lost is told in its place, as a `Lost`.

    Example:
        >>> import perfring
        >>> producer = perfring.Producer.create(tmp / "ring")
        >>> producer.publish(b"hello")
        True
        >>> with perfring.Consumer(tmp / "ring") as consumer:
        ...     for item in consumer.items(timeout=0):
        ...         match item:
        ...             case perfring.Record():
        ...                 print(bytes(item))
        ...             case perfring.Lost():
        ...                 print(item.records, "lost:", item.cause)
        b'hello'
    """

    def __aiter__(self) -> AsyncGenerator[_native.Record | _native.Lost]:
        """Items as they come, for ever."""
        return items(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: a consumer belongs to its process."""
        raise TypeError(
            "a Consumer belongs to this process: hand the path to the other one, and attach there"
        )


class Observer(_native.Observer):
    """Watches a ring, read-only, which nobody can tell. Any number at a time.

    Every record is a copy that was checked to be whole. An observer that is too slow is lapped: it
    gets a `Lost` with the exact number of records, and goes on from the oldest one.

    Args:
        path: The ring.
        start: Where to begin: ``"oldest"``, ``"latest"`` for only what comes from now on, or the
            `saved` place of another observer.
        pace: As of `Consumer`.

    Raises:
        BadRing: The file is no ring.
        OSError: The system refused it.

    Example:
        >>> import perfring
        >>> producer = perfring.Producer.create(tmp / "ring", policy="overwrite")
        >>> observer = perfring.Observer(tmp / "ring", "latest")
        >>> producer.publish(b"news")
        True
        >>> bytes(observer.read())
        b'news'
        >>> later = perfring.Observer(tmp / "ring", observer.saved)  # goes on there
        >>> later.read() is None
        True
    """

    @property
    def saved(self) -> Saved:
        """Where this observer would go on."""
        return Saved(*self._saved)

    def __aiter__(self) -> AsyncGenerator[_native.Record | _native.Lost]:
        """Items as they come, for ever."""
        return items(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: an observer belongs to its process."""
        raise TypeError(
            "an Observer belongs to this process: hand the path to the other one, and open it there"
        )
