"""Iterators of event loops: a cancelled wait ends that wait alone, and loses no item."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import perfring
import pytest
from conftest import WATCHDOG

T = TypeVar("T")
Items = perfring.AsyncItems[Any]
Make = Callable[[str], perfring.Consumer | perfring.Observer | perfring.Merge]

READERS: dict[str, Make] = {
    "consumer": perfring.Consumer,
    "explicit": lambda ring: perfring.Consumer(ring, acknowledge="explicit"),
    "named": lambda ring: perfring.Consumer(ring, name="one of two"),
    "observer": perfring.Observer,
    "merge": lambda ring: perfring.Merge(Path(ring).parent, delay=0.0),
    "observing merge": lambda ring: perfring.Merge(Path(ring).parent, delay=0.0, observe=True),
}


class Case:
    """A ring, and an iterator over its items."""

    def __init__(self, ring: str, kind: str) -> None:
        consumers = 2 if kind == "named" else 0
        self.producer = perfring.Producer.create(ring, time=True, consumers=consumers)
        self.reader = READERS[kind](ring)
        self.items: Items = aiter(self.reader)

    async def next(self) -> bytes:
        """The next record's payload."""
        return payload(await anext(self.items))


def payload(item: Any) -> bytes:
    record = item.item if isinstance(item, perfring.Merged) else item
    assert isinstance(record, perfring.Record)
    return bytes(record)


@pytest.fixture(params=READERS)
def case(ring: str, request: pytest.FixtureRequest) -> Case:
    return Case(ring, request.param)


@pytest.fixture
def consumer(ring: str) -> Case:
    return Case(ring, "consumer")


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, in a thread that has nothing else to do."""
    deadline = time.monotonic() + WATCHDOG
    while not condition():
        assert time.monotonic() < deadline


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    deadline = time.monotonic() + WATCHDOG
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


@pytest.fixture
def threads() -> Callable[[], int]:
    """Returns the number of threads that wait for this test's readers."""
    others = set(threading.enumerate())
    return lambda: len(set(threading.enumerate()) - others)


def run(wait: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop."""
    return asyncio.run(asyncio.wait_for(wait, WATCHDOG))


def waits(items: Items) -> bool:
    """Whether a task waits, and not only is about to."""
    return bool(items._tasks)


async def by_wait_for(wait: Coroutine[Any, Any, bytes]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait, 0.01)


async def by_timeout(wait: Coroutine[Any, Any, bytes]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await wait


async def by_cancel(wait: Coroutine[Any, Any, bytes]) -> None:
    task = asyncio.create_task(wait)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("end", [by_wait_for, by_timeout, by_cancel])
def test_a_cancelled_wait_is_not_the_end_of_the_iterator(
    case: Case, end: Callable[[Coroutine[Any, Any, bytes]], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        for n in range(3):
            await end(case.next())
            case.producer.publish(b"%d" % n)
            assert await case.next() == b"%d" % n

    run(main())


@pytest.mark.parametrize("steps", range(5))
def test_a_cancellation_loses_no_record_at_any_step_between_the_thread_and_the_task(
    case: Case, steps: int
) -> None:
    async def main() -> list[bytes]:
        got = []
        for n in range(10):
            task = asyncio.create_task(case.next())
            await turns_until(lambda: waits(case.items))
            case.producer.publish(b"%d" % n)
            # The thread has found the record, and this task lets the other one take so many steps.
            until(lambda: not waits(case.items))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            try:
                got.append(await task)
            except asyncio.CancelledError:
                got.append(await case.next())
        return got

    assert run(main()) == [b"%d" % n for n in range(10)]


def test_each_record_goes_to_one_of_the_tasks_that_wait(case: Case) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(case.next()) for _ in range(3)]
        await turns_until(lambda: len(case.items._tasks) == 3)
        tasks[1].cancel()
        case.producer.publish(b"one")
        case.producer.publish(b"two")
        assert {await tasks[0], await tasks[2]} == {b"one", b"two"}
        assert tasks[1].cancelled()

    run(main())


def test_a_cancelled_wait_leaves_no_thread(case: Case, threads: Callable[[], int]) -> None:
    async def main() -> None:
        most = 0
        for _ in range(50):
            task = asyncio.create_task(case.next())
            await turns_until(lambda: waits(case.items))
            most = max(most, threads())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert most == 1
        until(lambda: threads() == 0)  # while the iterator is there

    run(main())


class WithoutReaders(asyncio.SelectorEventLoop):
    """A loop that watches no descriptors for programs, as some are."""

    def add_reader(self, *_: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_wait_registers_nothing_with_the_loop(case: Case) -> None:
    with asyncio.Runner(loop_factory=WithoutReaders) as runner:
        runner.run(by_wait_for(case.next()))
        case.producer.publish(b"later")
        assert runner.run(case.next()) == b"later"


def test_the_iterator_continues_in_another_loop(case: Case) -> None:
    run(by_wait_for(case.next()))
    case.producer.publish(b"later")
    assert run(case.next()) == b"later"


class Gate:
    """A reader whose waits end once it is opened."""

    def __init__(self) -> None:
        self.item: bytes | None = None
        self.opened = threading.Event()
        self.error: Exception | None = None

    def read(self) -> bytes | None:
        item, self.item = self.item, None
        return item

    def wait(self, _timeout: float) -> bool:
        self.opened.wait(WATCHDOG)
        if self.error is not None:
            raise self.error
        return True


def test_an_error_of_the_wait_itself_is_raised_once() -> None:
    gate = Gate()
    gate.error = OSError("no descriptors")
    gate.opened.set()

    async def main() -> None:
        items = perfring.AsyncItems(gate)
        with pytest.raises(OSError, match="no descriptors"):
            await anext(items)
        gate.item = b"later"
        assert await anext(items) == b"later"

    run(main())


def test_a_loop_that_is_closed_under_a_wait_holds_up_no_other_loop() -> None:
    gate = Gate()
    items = perfring.AsyncItems(gate)
    closed = asyncio.new_event_loop()
    closed.set_exception_handler(lambda *_: None)  # asyncio reports that the task was pending
    task = closed.create_task(items.__anext__())
    closed.run_until_complete(turns_until(lambda: waits(items)))
    closed.close()

    async def main() -> None:
        other = asyncio.create_task(items.__anext__())
        await turns_until(lambda: len(items._tasks) == 2)
        gate.item = b"later"
        gate.opened.set()
        assert await other == b"later"

    run(main())
    assert not task.done()


def test_aclose_ends_the_waits_and_the_thread(case: Case, threads: Callable[[], int]) -> None:
    async def main() -> None:
        tasks = [asyncio.create_task(case.next()) for _ in range(2)]
        await turns_until(lambda: len(case.items._tasks) == 2)
        await case.items.aclose()
        for task in tasks:
            with pytest.raises(StopAsyncIteration):
                await task
        until(lambda: threads() == 0)
        case.producer.publish(b"later")
        with pytest.raises(StopAsyncIteration):
            await case.next()
        assert await anext(aiter(case.reader))  # the reader itself continues

    run(main())


def test_an_iterator_that_is_dropped_after_an_item_leaves_no_thread(
    case: Case, threads: Callable[[], int]
) -> None:
    async def main() -> None:
        task = asyncio.create_task(case.next())
        await turns_until(lambda: waits(case.items))
        case.producer.publish(b"one")
        assert await task == b"one"
        del case.items
        until(lambda: threads() == 0)

    run(main())


def test_closing_the_reader_is_an_error_of_each_wait(case: Case) -> None:
    async def main() -> None:
        task = asyncio.create_task(case.next())
        await turns_until(lambda: waits(case.items))
        case.reader.close()
        with pytest.raises(perfring.Closed):
            await task
        with pytest.raises(perfring.Closed):
            await case.next()

    run(main())


def test_a_removed_ring_is_an_error_of_each_step(consumer: Case, ring: str) -> None:
    async def main() -> None:
        consumer.producer.publish(b"the last one")
        os.unlink(ring)
        assert await consumer.next() == b"the last one"
        for _ in range(2):
            with pytest.raises(perfring.RingRemoved):
                await consumer.next()

    run(main())


def test_what_was_not_acknowledged_comes_again_after_a_cancelled_wait(ring: str) -> None:
    case = Case(ring, "explicit")

    async def main() -> None:
        case.producer.publish(b"one")
        assert await case.next() == b"one"
        await by_wait_for(case.next())
        case.reader.close()
        with perfring.Consumer(ring) as again:
            assert await anext(aiter(again))

    run(main())
