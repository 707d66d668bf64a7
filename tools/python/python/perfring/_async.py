"""Items as they come, in an event loop."""

from collections.abc import AsyncGenerator
from typing import Final, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)

_TURN: Final = 0.001
"""Seconds of items one after the other, before the event loop's others have their turn."""


class Reader(Protocol[T_co]):
    """What gives items, or waits until there are some."""

    def read(self) -> T_co | None:
        """Give the next item, if there is one."""

    def wait(self, timeout: float) -> bool:
        """Tell whether there is one, in time."""


async def items(reader: Reader[T_co]) -> AsyncGenerator[T_co]:
    """What comes, while the event loop goes on.

    A thread waits, of its own, so that others who use the loop's threads are not held up; a fifth
    of a second at a time, so that it does not stay for long when the task is cancelled. While there
    is always more, the loop goes on each millisecond, as nothing else would let it.
    """
    import asyncio  # here: most who read don't need them
    from concurrent.futures import ThreadPoolExecutor
    from time import monotonic

    loop = asyncio.get_running_loop()
    waiting = ThreadPoolExecutor(1, "perfring")
    turn = monotonic() + _TURN
    try:
        while True:
            item = reader.read()
            if item is None:
                await loop.run_in_executor(waiting, reader.wait, 0.2)
                turn = monotonic() + _TURN
                continue
            yield item
            del item  # or its space would stay taken while this waits
            # Here, where no item is held that a cancellation would lose.
            if monotonic() >= turn:
                await asyncio.sleep(0)
                turn = monotonic() + _TURN
    finally:
        waiting.shutdown(wait=False)
