"""The producer."""

from os import PathLike
from typing import Literal, NoReturn, Self

from . import _native


class Producer(_native.Producer):
    """Publishes records into a ring.

    ``Producer(path)`` attaches to a ring, `Producer.create` makes one first. The ring says whether
    it is for one producer at a time or for many; one object does for both, and threads can share
    it. It is a context manager; `close` frees the place for the next producer.

    Args:
        path: The ring.
        name: Who attaches, as ``perfring stat`` shows it; the script's name without it.

    Raises:
        Busy: The ring has a producer, or of a shared one all slots are taken: the text says who.
        BadRing: The file is no ring.
        OSError: The system refused it.

    Example:
        >>> import perfring
        >>> with perfring.Producer.create(tmp / "ticks") as producer:
        ...     producer.publish(b"copied in")
        ...     with producer.reserve(8) as view:  # in the ring, in place
        ...         view[:] = b"in place"
        True
        >>> [bytes(record) for record in perfring.Snapshot(tmp / "ticks")]
        [b'copied in', b'in place']
    """

    @classmethod
    def create(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        *,
        size: int | str = "1M",
        policy: Literal["drop", "overwrite"] = "drop",
        shared: bool = False,
        slots: int = 64,
        time: bool = False,
        evict: Literal["exact", "half"] = "exact",
        mode: int = 0o600,
        types_size: int | str = "64K",
        aux_size: int | str = 0,
        name: str | None = None,
    ) -> Self:
        """Make a ring and attach to it.

        Args:
            path: Where: a file, best on a tmpfs; text that begins with ``shm:`` names a POSIX
                segment.
            size: Bytes of the data area, a power of two of at least a page; ``"64K"``, ``"16M"``
                and ``"1G"`` are understood.
            policy: What a full ring does: ``"drop"`` refuses the new record, ``"overwrite"`` lets
                the oldest go (a flight recorder).
            shared: Whether many producers attach at a time, in any processes.
            slots: The most producers of a shared ring at a time.
            time: Whether each record is stamped, in ns of ``CLOCK_BOOTTIME``.
            evict: How an overwrite ring makes room: record by record, or by halves (cheaper).
            mode: The file's mode bits, whatever the umask; ``0o600`` is its owner alone.
            types_size: Bytes of the table of record types.
            aux_size: Bytes for payloads that are too long for the data area, up to as many each: a
                power of two from ``"64K"``, or 0 for none.
            name: Who attaches, as ``perfring stat`` shows it; the script's name without it.

        Raises:
            FileExistsError: There is something by this name: attach to it, or remove it.
            OSError: With ``ENOSPC`` if there is no room for all of the ring; and others.
            ValueError: A size, a mode or a number that cannot be.
        """
        _native.Producer._make(
            path,
            size=size,
            policy=policy,
            shared=shared,
            slots=slots,
            time=time,
            evict=evict,
            mode=mode,
            types_size=types_size,
            aux_size=aux_size,
            exist_ok=False,
        )
        return cls(path, name=name)

    @classmethod
    def open_or_create(
        cls,
        path: str | bytes | PathLike[str] | PathLike[bytes],
        *,
        size: int | str = "1M",
        policy: Literal["drop", "overwrite"] = "drop",
        shared: bool = False,
        slots: int = 64,
        time: bool = False,
        evict: Literal["exact", "half"] = "exact",
        mode: int = 0o600,
        types_size: int | str = "64K",
        aux_size: int | str = 0,
        name: str | None = None,
    ) -> Self:
        """Attach to a ring, which is made if there is none.

        Processes that call this at once get one ring.

        Args:
            path: As for `create`, and so are all others.
            size: Bytes of the data area.
            policy: What a full ring does.
            shared: Whether many producers attach at a time.
            slots: The most producers of a shared ring at a time.
            time: Whether each record is stamped.
            evict: How an overwrite ring makes room.
            mode: The mode bits of a file that is made; one that is there may have others.
            types_size: Bytes of the table of record types.
            aux_size: Bytes for payloads that are too long for the data area.
            name: Who attaches, as ``perfring stat`` shows it; the script's name without it.

        Raises:
            FileExistsError: The ring is there and was made with other arguments: says which.
            BadRing: The file is no ring, or ``shared`` is not as it was made.
            Busy: The ring has a producer, or of a shared one all slots are taken.
            OSError: As for `create`.
            ValueError: A size, a mode or a number that cannot be.

        Example:
            >>> with perfring.Producer.open_or_create(tmp / "log") as producer:
            ...     producer.publish(b"hello")
            True
            >>> with perfring.Producer.open_or_create(tmp / "log") as producer:
            ...     producer.written[0]
            1
        """
        _native.Producer._make(
            path,
            size=size,
            policy=policy,
            shared=shared,
            slots=slots,
            time=time,
            evict=evict,
            mode=mode,
            types_size=types_size,
            aux_size=aux_size,
            exist_ok=True,
        )
        return cls(path, name=name)

    def __reduce__(self) -> NoReturn:
        """Refuse: a producer belongs to its process."""
        raise TypeError(
            "a Producer belongs to this process: hand the path to the other one, and attach there"
        )
