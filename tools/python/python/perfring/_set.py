"""Directories with a ring for each producer, and their records in the order of time."""

import os
import sys
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn

from . import _native
from ._async import AsyncItems
from ._native import Merged, RingFailed, RingGone
from ._producer import Producer

__all__ = ["Merge", "Merged", "Pruned", "Ring", "RingFailed", "RingGone", "RingSet"]

_NTH: Final = count(1)
_TRIES: Final = 100


class Ring(NamedTuple):
    """A ring in a directory; `perfring.stat` returns its figures.

    Attributes:
        name: Its name in the directory.
        path: Its file.
        uuid: The ring's id: a new ring of the same name has another.
        policy: ``"drop"`` or ``"overwrite"``.
        shared: Whether it is for many producers at a time.
        size: The bytes of its data area.
        timed: Whether its records have timestamps: without, a merge uses the time when it found
            them.
    """

    name: str
    path: Path
    uuid: str
    policy: Literal["drop", "overwrite"]
    shared: bool
    size: int
    timed: bool


class Pruned(NamedTuple):
    """The outcome of `RingSet.prune` for a ring.

    Attributes:
        name: Its name in the directory.
        path: Its file.
        removed: Whether it was removed; in a plan: whether it would be.
        why: Why it was kept.
        size: The bytes of its file.
    """

    name: str
    path: Path
    removed: bool
    why: str
    size: int


class Merge(_native.Merge):
    """The records of all rings of a directory, in the order of time.

    Follows the directory: a ring is read from its creation until it is read to its end and its file
    is removed. Each item is a `Merged`: ``ring`` is the ring's name, and ``item`` is

    * a `Record`, as a copy,
    * a `Lost`: records of this ring were lost,
    * a `RingGone`: the ring was read to its end, and its file was removed,
    * a `RingFailed`: a file is not read (it is damaged, not a ring, another consumer has it, or
      permission is missing), with a message. The other rings are read on.

    A record is held back for at most ``delay``, until every ring was polled after its timestamp. A
    record that is published later than half of that is returned at once, and ``late`` is the number
    of nanoseconds.

    As the consumer of each ring, a merge releases returned items when the next read begins
    (``read``, ``drain`` or the next step of an iteration), or when `acknowledge` is called. If the
    process dies before that, the next consumer gets it again. ``close`` and the end of a ``with``
    release it, except for a ``with`` that an exception leaves. With ``observe`` nothing is
    released, and what a ring overwrites meanwhile is reported as `Lost`.

    Args:
        dir: The directory. It need not exist yet.
        delay: The longest time, in seconds, that a record is held back.
        observe: Whether to observe the rings instead of consuming them.
        start: Where observers start in rings that exist at first: ``"oldest"`` or ``"latest"``.
            Later rings are observed from their oldest record.
        name: The name that ``perfring stat`` shows for this reader; the script's name by default.

    Example:
        >>> import perfring
        >>> rings = perfring.RingSet(tmp / "rings")
        >>> one, two = rings.producer("one"), rings.producer("two")
        >>> one.publish(b"first"), two.publish(b"second"), one.publish(b"third")
        (True, True, True)
        >>> with rings.merge(delay=0.02) as merge:
        ...     for merged in merge.items(timeout=1):
        ...         match merged.item:
        ...             case perfring.Record() as record:
        ...                 print(merged.ring, bytes(record))
        ...             case perfring.Lost() as lost:
        ...                 print(merged.ring, lost)
        ...             case perfring.RingFailed(why=why):
        ...                 print(why)
        one b'first'
        two b'second'
        one b'third'

    """

    def __aiter__(self) -> AsyncItems[Merged]:
        """Iterate over items as they come, for ever."""
        return AsyncItems(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: a merge belongs to its process."""
        raise TypeError(
            "a Merge belongs to this process: pass the directory to the other one, and merge there"
        )


class RingSet(_native.RingSet):
    """A directory of rings, one for each producer: a process or a thread.

    Each producer writes into its own ring at full speed; `merge` reads them as one. The ring
    of a dead producer stays until it is read to its end and pruned.

    Creates the directory if it is missing, but not its parent. A RingSet can be pickled, because
    it is only a path.

    Args:
        dir: The directory; by default ``$XDG_RUNTIME_DIR/perfring``, or where that is not set
            ``/dev/shm/perfring-UID``.
        mode: The permissions of a new directory, regardless of the umask.
        access: ``"private"``: the directory must be this user's or root's, and other users may not
            write to it. ``"shared"``: any directory; users that may write to it can remove rings.

    Raises:
        NotADirectoryError: The path is not a directory.
        PermissionError: The directory is another user's, or others may write to it.
        OSError: The system returned an error.

    Example:
        >>> import perfring
        >>> rings = perfring.RingSet(tmp / "shop")
        >>> with rings.producer("worker-1") as producer:
        ...     producer.publish(b"hello")
        True
        >>> [(ring.name, ring.policy) for ring in rings.rings()]
        [('worker-1', 'drop')]

    """

    def producer(
        self,
        name: str | None = None,
        *,
        size: int | str = "1M",
        policy: Literal["drop", "overwrite"] = "drop",
        shared: bool = False,
        slots: int = 64,
        time: bool = True,
        evict: Literal["exact", "half"] = "exact",
        mode: int = 0o600,
        types_size: int | str = "64K",
        aux_size: int | str = 0,
    ) -> Producer:
        """Attach to the ring of this name, and create it if it does not exist.

        Continues in a ring whose last producer is dead, however it ended: unread records stay. If
        its options differ, a ring beside it is used, ``NAME.2`` to ``NAME.9``. The options are
        those of `Producer.create`, except that records have timestamps by default, which the order
        of time needs. The sidecar reads a ring whose name ends with ``.priority`` before all
        others.

        Args:
            name: 1 to 200 bytes, without ``/``, and no ``.`` first. By default a unique name: the
                script's, the pid, a number and a random one.
            size: The bytes of the data area.
            policy: What a full ring does.
            shared: Whether any number of processes share the ring of this name.
            slots: The most producers of a shared ring at a time.
            time: Whether records have timestamps.
            evict: How an overwrite ring makes room.
            mode: The file's mode bits; ``0o600`` allows its owner alone.
            types_size: The bytes of the type table.
            aux_size: The bytes for payloads that are too long for the data area.

        Raises:
            Busy: A live producer has this name; the message names it.
            FileExistsError: There are nine rings of this name, each with other options.
            ValueError: The name or an option is invalid.
            OSError: The system returned an error.
        """
        if name is None:
            name = _own_name()
        tries = 0
        while True:
            path = self._ready(
                name,
                size=size,
                policy=policy,
                shared=shared,
                slots=slots,
                time=time,
                evict=evict,
                mode=mode,
                types_size=types_size,
                aux_size=aux_size,
            )
            try:
                return Producer(path)
            except FileNotFoundError:
                # Another process pruned the ring: the name is free again.
                tries += 1
                if tries == _TRIES:
                    raise

    def rings(self) -> list[Ring]:
        """Return the rings of the directory, sorted by name."""
        rings, _ = self._list()
        return [Ring(*row) for row in rings]

    def others(self) -> list[tuple[Path, str]]:
        """Return the path of each file that is not a ring, and why it is not."""
        _, others = self._list()
        return others

    def merge(
        self,
        delay: float = 0.1,
        *,
        observe: bool = False,
        start: Literal["oldest", "latest"] = "oldest",
        name: str | None = None,
    ) -> Merge:
        """Return a `Merge`, which reads all rings in the order of time."""
        return Merge(self.dir, delay, observe=observe, start=start, name=name)

    def prune(
        self,
        dead_for: float | str = 3600.0,
        *,
        keep: int = 0,
        max_bytes: int | str | None = None,
        flight_recorders: bool = False,
        plan: bool = False,
    ) -> list[Pruned]:
        """Remove rings that no process is attached to and that were read to their end.

        Args:
            dead_for: The time since a process was last attached: seconds, or text such as
                ``"1h30m"``.
            keep: The number of removable rings that are kept, the newest ones.
            max_bytes: The bytes that all files may take together: beyond that, removable rings are
                removed regardless of ``dead_for``.
            flight_recorders: Whether overwrite rings that hold records are removable: they are the
                last records of a dead program.
            plan: Whether only to return what would be removed.

        Returns:
            The outcome for each ring, sorted by name.
        """
        outcomes = self._prune(
            dead_for=dead_for,
            keep=keep,
            max_bytes=max_bytes,
            flight_recorders=flight_recorders,
            plan=plan,
        )
        return [Pruned(*row) for row in outcomes]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and its options."""
        return _again, (type(self), self.dir, *self._reported)


def _again(
    of: type[RingSet], dir: Path, mode: int, access: Literal["private", "shared"]
) -> RingSet:
    """Make a RingSet that was pickled."""
    return of(dir, mode=mode, access=access)


def _own_name() -> str:
    script = os.path.basename(sys.argv[0]) if sys.argv else ""
    if script in ("", "-c", "-m"):
        script = "python"
    script = "".join(c for c in script if c.isprintable() and c != "/").lstrip(".")[:40]
    return f"{script or 'python'}.{os.getpid()}.{next(_NTH)}.{os.urandom(6).hex()}"
