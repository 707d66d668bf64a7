"""The readers: the consumer and observers."""

from typing import NamedTuple, NoReturn

from . import _native
from ._async import AsyncItems


class Saved(NamedTuple):
    """The position of an observer that continues: for `Observer`'s ``start``, in any process.

    Attributes:
        pos: The position of the next record.
        records: The number of records before it since the ring was created.
        bytes: The bytes that these took.
        told: The lost records, and their bytes, that were reported until then: those that were
            refused because the ring was full, too large, contended, and pending. Empty: those that
            are reported in the stream before the position.
    """

    pos: int
    records: int
    bytes: int
    told: tuple[tuple[int, int], ...] = ()


class Consumer(_native.Consumer):
    """A ring's consumer, or one of several by name. A new one continues where the last one ended.

    A drop ring's records are borrowed: a `Record` is a view of the ring. Its space goes back to the
    producer when the record and its views and arrays are dead. An overwrite ring's records are
    copies, and the consumer's position is saved in the file.

    Args:
        path: The ring.
        name: The name that ``perfring stat`` shows for this consumer; the script's name by default.
            In a ring with named consumers, its seat: the next consumer of this name continues where
            the last one released.
        timeout: The seconds to wait for a ring that does not exist yet; ``None`` for ever.
        wait_strategy: How a waiting consumer polls while a producer publishes: ``"latency"``
            without a pause, ``"throughput"`` with pauses, which lets the producer be faster;
            ``"adaptive"`` pauses while the producer is the faster one, and is as fast as
            ``"latency"`` while records come one at a time.
        trust: Whether records are read in place, or copied as somebody may change them meanwhile.
            ``"auto"``: in place, unless other users may write to the file. ``"nobody"``: each
            record is copied before it is returned, and there is no `pin`. ``"peers"``: in place;
            you promise that every process which may write to the file keeps to the protocol. One
            that does not changes the memory of your views, and what native code does then is
            undefined.
        acknowledge: When items count as read. ``"at_next_read"``: at the next call that reads, once
            their views are dead. ``"explicit"``: when `acknowledge` is called; a consumer that ends
            before that leaves them for the next one (at-least-once delivery).

    Raises:
        Busy: The ring has a consumer; the message names it.
        BadRing: The file is not a ring.
        FileNotFoundError: There is no ring within ``timeout`` seconds.
        OSError: The system returned an error.

    Iteration waits for ever, ``items(timeout)`` for at most so many seconds for each item.
    ``async for`` does not block the event loop. Losses are reported in place, as a `Lost`.

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
        ...                 print(item)
        b'hello'
    """

    def __aiter__(self) -> AsyncItems[_native.Record | _native.Lost]:
        """Iterate over items as they come, for ever."""
        return AsyncItems(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: a consumer belongs to its process."""
        raise TypeError(
            "a Consumer belongs to this process: pass the path to the other one, and attach there"
        )


class Observer(_native.Observer):
    """Reads a ring without taking anything from it. Any number can observe at a time.

    An observer maps the ring read-only, so other processes cannot detect it. Every record is a copy
    that was checked to be intact. An observer that is too slow is lapped: it gets a `Lost` with the
    exact number of records, and continues at the oldest one.

    Args:
        path: The ring.
        start: The start: ``"oldest"``, ``"latest"`` for only what is published from now on, or the
            `saved` position of another observer.
        wait_strategy: How a waiting observer polls, as for a `Consumer`.

    Raises:
        BadRing: The file is not a ring.
        OSError: The system returned an error.

    Example:
        >>> import perfring
        >>> producer = perfring.Producer.create(tmp / "ring", policy="overwrite")
        >>> observer = perfring.Observer(tmp / "ring", "latest")
        >>> producer.publish(b"news")
        True
        >>> bytes(observer.read())
        b'news'
        >>> later = perfring.Observer(tmp / "ring", observer.saved)  # continues there
        >>> later.read() is None
        True
    """

    @property
    def saved(self) -> Saved:
        """The position where this observer continues."""
        return Saved(*self._saved)

    def __aiter__(self) -> AsyncItems[_native.Record | _native.Lost]:
        """Iterate over items as they come, for ever."""
        return AsyncItems(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: an observer belongs to its process."""
        raise TypeError(
            "an Observer belongs to this process: pass the path to the other one, and open it there"
        )
