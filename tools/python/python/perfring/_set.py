"""Many rings: a directory with one for each producer, and their records in the order of time."""

import os
import sys
from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn

from . import _native
from ._async import items
from ._native import Merged, RingFailed, RingGone
from ._producer import Producer

__all__ = ["Merge", "Merged", "Pruned", "Ring", "RingFailed", "RingGone", "RingSet"]

_NTH: Final = count(1)
_TRIES: Final = 100


class Ring(NamedTuple):
    """A ring in a directory; `perfring.stat` has its figures.

    Attributes:
        name: Its name in the directory.
        path: Its file.
        uuid: Which ring it is, in hexadecimal: another of the same name has another.
        policy: ``"drop"`` or ``"overwrite"``.
        shared: Whether it is for many producers at a time.
        size: Bytes of its data.
        timed: Whether its records have stamps: without, a merge takes the time when it found them.
    """

    name: str
    path: Path
    uuid: str
    policy: str
    shared: bool
    size: int
    timed: bool


class Pruned(NamedTuple):
    """What became of a ring.

    Attributes:
        name: Its name in the directory.
        path: Its file.
        removed: Whether it is gone; in a plan: whether it would go.
        why: Why it stays.
        size: Bytes of its file.
    """

    name: str
    path: Path
    removed: bool
    why: str
    size: int


class Merge(_native.Merge):
    """The records of all rings of a directory, in the order of time.

    It follows the directory: rings are read from the moment they are there, until they are read to
    the end and their file is gone. Each item is a `Merged`: ``ring`` is the ring's name, ``item``

    * a `Record`, as a copy,
    * a `Lost`: records of this ring that are not there,
    * a `RingGone`: the ring was read to its end, and its file is gone,
    * a `RingFailed`: something there is not read (it is damaged, no ring, another consumer has it,
      or permission is missing), with the reason as a sentence. The others go on.

    A record is held back for at most ``delay``, until every ring was looked at after its stamp.
    What is published later than half of that comes at once, and ``late`` says by how many
    nanoseconds.

    As the consumer of each ring, it releases what it gave when the next read begins (``read``,
    ``drain`` or the next turn of an iteration): a process that dies meanwhile leaves it in the
    ring, and whoever reads next gets it again. ``close`` and the end of a ``with`` release it, but
    for a ``with`` that is left by an exception. With ``observe`` everything stays where it is for
    others, and what a ring overwrites meanwhile is told as `Lost`.

    Args:
        dir: The directory. It need not be there yet.
        delay: The longest time, in seconds, that a record is held back.
        observe: Leave everything where it is.
        start: Where observers begin in rings that are there at first: ``"oldest"`` or
            ``"latest"``. Rings that come later are observed from their oldest record.
        name: Who reads, as ``perfring stat`` shows it; the script's name without it.

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
        ...                 print(merged.ring, lost.records, "lost:", lost.cause)
        ...             case perfring.RingFailed(why=why):
        ...                 print(why)
        one b'first'
        two b'second'
        one b'third'

    """

    def __aiter__(self) -> AsyncGenerator[Merged]:
        """Items as they come, for ever."""
        return items(self)

    def __reduce__(self) -> NoReturn:
        """Refuse: a merge belongs to its process."""
        raise TypeError(
            "a Merge belongs to this process: hand the directory to the other one, and merge there"
        )


class RingSet(_native.RingSet):
    """A directory of rings, one for each producer: a process or a thread.

    Each producer writes into a ring of its own at full speed; `merge` reads them as one. A ring
    stays when its producer is gone, until it has been read to the end and is pruned.

    The directory is made if it is missing; the one it stands in is not. It can be pickled, as it is
    no more than a path.

    Args:
        dir: The directory; without it ``$XDG_RUNTIME_DIR/perfring``, or where that is not set
            ``/dev/shm/perfring-UID``.
        mode: Permissions of a directory that is made, whatever the umask.
        access: ``"private"``: it must be this user's or root's, and nobody else may write to it.
            ``"shared"``: whatever is there; whoever may write to it can remove rings.

    Raises:
        NotADirectoryError: Something else has the name.
        PermissionError: The directory is another user's, or others may write to it.
        OSError: The system refused it.

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
        """Make or go on with the ring of this name.

        A ring that is there, and whose producer is gone by whatever end, is gone on with: what was
        not read yet stays. If it has another shape than is asked for, a ring beside it is used,
        ``NAME.2`` to ``NAME.9``. The options are those of `Producer.create`, but that records are
        stamped, as the order of time needs it.

        Args:
            name: 1 to 200 bytes, without ``/``, and no ``.`` first. Without it, a name that nobody
                else has: the script's, the pid, a number and a random one.
            size: As of `Producer.create`, as all that follow.
            policy: What a full ring does.
            shared: Any number of processes ask for the same name, and share the ring.
            slots: The most producers of a shared ring at a time.
            time: Whether records are stamped.
            evict: How an overwrite ring makes room.
            mode: The file's mode bits; ``0o600`` is its owner alone.
            types_size: Bytes of the table of record types.
            aux_size: Bytes for payloads that are too long for the data area, up to as many each: a
                power of two from ``"64K"``, or 0 for none.

        Raises:
            Busy: A live producer has this name: the text says who.
            FileExistsError: There are nine rings of this name, each of another shape.
            ValueError: No ring can have such a name or such options.
            OSError: As `RingSet`, and as `Producer.create`.
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
                # Somebody prunes rings beside us: the name is free again.
                tries += 1
                if tries == _TRIES:
                    raise

    def rings(self) -> list[Ring]:
        """Give the rings that are there now, by name."""
        rings, _ = self._list()
        return [Ring(*row) for row in rings]

    def others(self) -> list[tuple[Path, str]]:
        """Give the path of what is there and is no ring, and why."""
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
        """Read all rings in the order of time: see `Merge`."""
        return Merge(self.dir, delay, observe=observe, start=start, name=name)

    def prune(
        self,
        dead_for: float = 3600.0,
        *,
        keep: int = 0,
        max_bytes: int | str | None = None,
        flight_recorders: bool = False,
        plan: bool = False,
    ) -> list[Pruned]:
        """Remove rings that no process is attached to, and that were read to their end.

        Args:
            dead_for: Seconds since their last sign of life.
            keep: How many of those that may go stay, the newest of them.
            max_bytes: What all files may take together: beyond that, rings that may go do so
                however young they are.
            flight_recorders: Whether overwrite rings may go that have records: they are a dead
                program's last words.
            plan: Say only what would become of them.

        Returns:
            What became of all rings, by name.
        """
        told = self._prune(
            dead_for=dead_for,
            keep=keep,
            max_bytes=max_bytes,
            flight_recorders=flight_recorders,
            plan=plan,
        )
        return [Pruned(*row) for row in told]

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to other processes as what it is, a path."""
        return _again, (type(self), self.dir, *self._reported)


def _again(of: type[RingSet], dir: Path, mode: int, access: Literal["private", "shared"]) -> RingSet:
    """Make what was pickled."""
    return of(dir, mode=mode, access=access)


def _own_name() -> str:
    script = os.path.basename(sys.argv[0]) if sys.argv else ""
    if script in ("", "-c", "-m"):
        script = "python"
    script = "".join(c for c in script if c.isprintable() and c != "/").lstrip(".")[:40]
    return f"{script or 'python'}.{os.getpid()}.{next(_NTH)}.{os.urandom(6).hex()}"
