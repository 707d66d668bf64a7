"""Iterates over items in an event loop."""

from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

if TYPE_CHECKING:  # most programs need neither
    from asyncio import Future
    from concurrent.futures import ThreadPoolExecutor

T_co = TypeVar("T_co", covariant=True)

_TURN: Final = 0.001
"""The seconds of uninterrupted reading before other tasks of the event loop get a turn."""

_SLICE: Final = 0.2
"""The most seconds for which the thread waits after the last task has stopped waiting."""


class Reader(Protocol[T_co]):
    """Returns items, or waits until there are some."""

    def read(self) -> T_co | None:
        """Return the next item, if there is one."""

    def wait(self, timeout: float) -> bool:
        """Return whether there is an item within the timeout."""


class AsyncItems(AsyncIterator[T_co]):
    """The items of a `Consumer`, an `Observer` or a `Merge`, awaited in an event loop.

    ``aiter(reader)`` and ``async for item in reader`` make one. The event loop is not blocked:
    while a task waits, a thread waits. It ends within a fifth of a second after the wait was
    cancelled. While there is always more, other tasks get a turn each millisecond.

    A wait that is cancelled, also by a timeout, loses no item, and the next wait continues: the
    step that returns an item is the step that takes it from the ring. Several tasks can wait for
    the items of one iterator, each of which goes to one task. The iteration never ends by itself.
    An error, such as `RingRemoved`, is raised again by the next step.

    Example:
        >>> import asyncio, perfring
        >>> producer = perfring.Producer.create(tmp / "ring")
        >>> async def main():
        ...     items = aiter(perfring.Consumer(tmp / "ring"))
        ...     try:
        ...         await asyncio.wait_for(anext(items), 0.01)
        ...     except TimeoutError:
        ...         producer.publish(b"late")
        ...     return bytes(await anext(items))
        >>> asyncio.run(main())
        b'late'
    """

    def __init__(self, reader: Reader[T_co]) -> None:
        self._reader = reader
        self._closed = False
        self._turn = 0.0
        # The lock guards what follows.
        self._lock = Lock()
        self._tasks: list[Future[None]] = []  # each task that waits is woken by its future
        self._is_waiting = False  # in the thread
        self._thread: ThreadPoolExecutor | None = None

    def __aiter__(self) -> Self:
        """Return the iterator."""
        return self

    async def __anext__(self) -> T_co:
        """Return the next item, and wait for it."""
        from asyncio import sleep

        if monotonic() >= self._turn:
            await sleep(0)
            self._turn = monotonic() + _TURN
        while not self._closed:
            # The thread may have the reader while it waits: a read would block the event loop.
            if not self._is_waiting:
                item = self._reader.read()
                if item is not None:
                    return item  # no `await` stands in between: a cancellation there would lose it
            await self._wait()
            self._turn = monotonic() + _TURN
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration, also of the tasks that wait."""
        self._closed = True
        with self._lock:
            self._end_thread()
            tasks, self._tasks = self._tasks, []
        _wake(tasks, None)

    async def _wait(self) -> None:
        """Wait until there may be an item, or for a slice of time."""
        from asyncio import get_running_loop
        from concurrent.futures import ThreadPoolExecutor

        woken = get_running_loop().create_future()
        try:
            with self._lock:
                self._tasks.append(woken)
                if not self._is_waiting:
                    self._thread = self._thread or ThreadPoolExecutor(1, "perfring")
                    self._thread.submit(self._wait_in_thread)
                    self._is_waiting = True
            await woken
        finally:
            with self._lock, suppress(ValueError):
                self._tasks.remove(woken)

    def _wait_in_thread(self) -> None:
        try:
            self._reader.wait(_SLICE)
        except BaseException as error:
            self._end_wait(error)
        else:
            self._end_wait(None)

    def _end_wait(self, error: BaseException | None) -> None:
        with self._lock:
            self._is_waiting = False
            if not self._tasks:
                self._end_thread()  # all were cancelled, and perhaps no other task will wait
            tasks, self._tasks = self._tasks, []
        _wake(tasks, error)

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None


def _wake(tasks: "list[Future[None]]", error: BaseException | None) -> None:
    for woken in tasks:
        with suppress(RuntimeError):  # its event loop was closed
            woken.get_loop().call_soon_threadsafe(_set, woken, error)


def _set(woken: "Future[None]", error: BaseException | None) -> None:
    if woken.done():
        return  # the task was cancelled
    if error is None:
        woken.set_result(None)
    else:
        woken.set_exception(error)
