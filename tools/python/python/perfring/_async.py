"""Iterates over items as they come, in an event loop."""

from collections.abc import AsyncGenerator
from typing import Final, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)

_TURN: Final = 0.001
"""The seconds of uninterrupted reading before other tasks of the event loop get a turn."""


class Reader(Protocol[T_co]):
    """Returns items, or waits until there are some."""

    def read(self) -> T_co | None:
        """Return the next item, if there is one."""

    def wait(self, timeout: float) -> bool:
        """Return whether there is an item within the timeout."""


async def items(reader: Reader[T_co]) -> AsyncGenerator[T_co]:
    """Yield items as they come, without blocking the event loop.

    A thread of its own waits, so that the loop's executor stays free. It waits for a fifth of a
    second at a time, so that it ends soon when the task is cancelled. While there is always more,
    other tasks get a turn each millisecond.
    """
    import asyncio  # imported here, as most readers need neither
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
            del item  # or it would keep its space while this waits
            # Here, as a cancellation loses no item.
            if monotonic() >= turn:
                await asyncio.sleep(0)
                turn = monotonic() + _TURN
    finally:
        waiting.shutdown(wait=False)
