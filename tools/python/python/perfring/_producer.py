"""The producer."""

from os import PathLike
from typing import Literal, NoReturn, Self

from . import _native


class Producer(_native.Producer):
    """Publishes records into a ring.

    ``Producer(path)`` attaches to a ring, `Producer.create` creates it first, and
    `Producer.open_or_create` does either. The ring is for one producer at a time or shared by many;
    this class handles both. Threads can share a producer. It is a context manager; `close` frees
    its seat.

    Args:
        path: The ring.
        name: The name that ``perfring stat`` shows for this producer; the script's name by default.
        trust: Whether the memory of `reserve` is the ring's own. ``"auto"``: it is, unless other
            users may write to the file: then it is private, and a commit copies it to the ring.
            ``"nobody"``: it is private. ``"peers"``: it is the ring's; you promise that every
            process which may write to the file keeps to the protocol. One that does not changes
            the memory of your views, and what native code does then is undefined.

    Raises:
        Busy: The ring has a producer, or all slots of a shared ring are taken.
        BadRing: The file is not a ring.
        OSError: The system returned an error.

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
        consumers: int = 0,
        name: str | None = None,
        trust: Literal["auto", "nobody", "peers"] = "auto",
    ) -> Self:
        """Create a ring and attach to it.

        Args:
            path: The file, best on a tmpfs; a string that begins with ``shm:`` names a POSIX
                segment.
            size: The bytes of the data area, a power of two of at least a page. Accepts strings
                such as ``"64K"``, ``"16M"`` and ``"1G"``, where K is 1024.
            policy: What a full ring does: ``"drop"`` refuses the new record, ``"overwrite"`` evicts
                the oldest ones (a flight recorder).
            shared: Whether many producers can attach at a time, in any processes.
            slots: The most producers of a shared ring at a time.
            time: Whether each record gets a timestamp, in ns of ``CLOCK_BOOTTIME``.
            evict: How an overwrite ring makes room: record by record, or by halves (cheaper).
            mode: The file's mode bits, regardless of the umask; ``0o600`` allows its owner alone.
            types_size: The bytes of the type table.
            aux_size: The bytes for payloads that are too long for the data area, each at most this
                long: a power of two from ``"64K"``, or 0 for none.
            consumers: Seats for named consumers, at most 32, each of which gets every record: a
                full ring waits for the slowest that is alive. They attach with ``Consumer(path,
                name=...)``, and `stat` lists them. 0 for one consumer.
            name: The name that ``perfring stat`` shows for this producer.
            trust: Whether the memory of `reserve` is the ring's own, as for ``Producer(path)``.

        Raises:
            FileExistsError: The file exists: attach to it, or remove it.
            OSError: With ``ENOSPC`` if there is no room for the whole ring; and others.
            ValueError: A size, a mode or a number is invalid.
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
            consumers=consumers,
            exist_ok=False,
            any_owner=False,
        )
        return cls(path, name=name, trust=trust)

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
        consumers: int = 0,
        any_owner: bool = False,
        name: str | None = None,
        trust: Literal["auto", "nobody", "peers"] = "auto",
    ) -> Self:
        """Attach to a ring, and create it if it does not exist.

        Processes that call this at the same time get one ring. The arguments are those of `create`.

        Args:
            path: The file.
            size: The bytes of the data area.
            policy: What a full ring does.
            shared: Whether many producers can attach at a time.
            slots: The most producers of a shared ring at a time.
            time: Whether each record gets a timestamp.
            evict: How an overwrite ring makes room.
            mode: The mode bits of a new file; an existing file lets nobody else in.
            types_size: The bytes of the type table.
            aux_size: The bytes for payloads that are too long for the data area.
            consumers: Seats for named consumers.
            any_owner: Whether to accept an existing ring of any owner and any mode. If not, the
                ring must belong to this user or to root.
            name: The name that ``perfring stat`` shows for this producer.
            trust: Whether the memory of `reserve` is the ring's own, as for ``Producer(path)``.

        Raises:
            FileExistsError: The ring exists and has other options; the message names the first.
            BadRing: The file is not a ring, or ``shared`` differs from the ring's.
            Busy: The ring has a producer, or all slots of a shared ring are taken.
            PermissionError: The ring belongs to another user, or its mode lets more users in.
            OSError: The system returned an error.
            ValueError: A size, a mode or a number is invalid.

        Example:
            >>> with perfring.Producer.open_or_create(tmp / "log") as producer:
            ...     producer.publish(b"hello")
            True
            >>> with perfring.Producer.open_or_create(tmp / "log") as producer:
            ...     producer.totals["written_records"]
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
            consumers=consumers,
            exist_ok=True,
            any_owner=any_owner,
        )
        return cls(path, name=name, trust=trust)

    def __reduce__(self) -> NoReturn:
        """Refuse: a producer belongs to its process."""
        raise TypeError(
            "a Producer belongs to this process: pass the path to the other one, and attach there"
        )
