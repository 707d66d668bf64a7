"""Waits: other threads run, Ctrl-C is answered, and an event loop goes on."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing

import perfring
import pytest
from conftest import WATCHDOG

READERS: dict[str, Callable[[str], perfring.Consumer | perfring.Observer]] = {
    "consumer": perfring.Consumer,
    "observer": perfring.Observer,
}


@pytest.fixture(params=READERS)
def reader(ring: str, request: pytest.FixtureRequest) -> perfring.Consumer | perfring.Observer:
    perfring.Producer.create(ring).close()
    return READERS[request.param](ring)


WAITS: dict[str, Callable[[perfring.Consumer | perfring.Observer], object]] = {
    "read": lambda reader: reader.read(None),
    "wait": lambda reader: reader.wait(),
    "drain": lambda reader: reader.drain(timeout=None),
    "for": lambda reader: next(iter(reader)),
    "items": lambda reader: next(reader.items(1e6)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_ends_when_something_comes(
    reader: perfring.Consumer | perfring.Observer, ring: str, wait: str
) -> None:
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(WAITS[wait](reader)))
    thread.start()
    ticks = sum(1 for _ in range(100_000))  # this thread runs meanwhile
    assert ticks == 100_000
    assert not got
    with perfring.Producer(ring) as producer:
        producer.publish(b"now")
    thread.join()
    assert got


def test_what_does_not_come_is_not_waited_for_longer(
    reader: perfring.Consumer | perfring.Observer,
) -> None:
    assert reader.read() is None
    assert reader.read(0.01) is None
    assert reader.wait(0.01) is False
    assert len(reader.drain(timeout=0.01)) == 0
    assert list(reader.items(0.01)) == []


@pytest.mark.parametrize("wait", WAITS)
def test_close_ends_the_waits_of_other_threads(
    reader: perfring.Consumer | perfring.Observer, wait: str
) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            WAITS[wait](reader)
        except perfring.Closed as closed:
            raised.append(closed)

    thread = threading.Thread(target=run)
    thread.start()
    reader.close()
    thread.join()
    assert len(raised) == 1


INTERRUPTED = """
import perfring, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
ring, what = sys.argv[1:]
producer = perfring.Producer.create(ring, size=4096)
consumer = perfring.Consumer(ring)
while what == "publish" and producer.publish(bytes(500)):
    pass
try:
    print("waiting", flush=True)
    if what == "publish":
        producer.publish(bytes(500), timeout=None)
    elif what == "consumer":
        consumer.read(None)
    else:
        for record in perfring.Observer(ring):
            pass
except KeyboardInterrupt:
    print("interrupted", producer.totals["full_records"], flush=True)
"""


@pytest.mark.parametrize("what", ["publish", "consumer", "observer"])
def test_ctrl_c_is_answered(ring: str, what: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, ring, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        while "S" not in status(process.pid):  # until it sleeps
            pass
        process.send_signal(signal.SIGINT)
        try:
            said, _ = process.communicate(timeout=WATCHDOG)
        finally:
            process.kill()
    assert said.startswith("interrupted")
    assert process.returncode == 0


def status(pid: int | str) -> str:
    """S of one that sleeps."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_record_that_waits_in_the_way_becomes_a_copy(ring: str) -> None:
    """A loop over large records has the last one in its variable while it waits for the next."""
    producer = perfring.Producer.create(ring, size=8192)
    consumer = perfring.Consumer(ring)

    def publish() -> None:
        for n in range(20):
            assert producer.publish(bytes([n]) * 5000, timeout=None)

    thread = threading.Thread(target=publish)
    thread.start()
    held = []
    for record in consumer:
        assert isinstance(record, perfring.Record)
        held.append(record)
        if len(held) == 20:
            break
    thread.join()
    for n, record in enumerate(held):
        assert bytes(record) == bytes([n]) * 5000


def test_a_thread_that_sleeps_holds_nobody_up(ring: str) -> None:
    """Another thread reads, and lets go of records, while one waits."""
    producer = perfring.Producer.create(ring, size=8192)
    consumer = perfring.Consumer(ring)
    producer.publish(bytes(5000))
    view = consumer.read().view  # type: ignore[union-attr]  # pinned for good
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(consumer.read(None)))
    thread.start()
    while "S" not in status(f"self/task/{thread.native_id}"):
        pass
    assert not producer.publish(bytes(5000))
    assert consumer.unread == 0
    told = consumer.drain().lost  # the refused one, unless the other thread has it
    del view
    assert producer.publish(bytes(5000))
    thread.join()
    assert len(done) == 1
    assert len(told) == (0 if isinstance(done[0], perfring.Lost) else 1)


def test_async_for_gives_items_as_they_come(
    reader: perfring.Consumer | perfring.Observer, ring: str
) -> None:
    async def main() -> list[bytes]:
        producer = perfring.Producer(ring)
        seen: list[bytes] = []
        turns = 0

        async def others() -> None:
            nonlocal turns
            while len(seen) < 100:
                turns += 1
                await asyncio.sleep(0)
                if turns % 10 == 0 and producer.totals["written_records"] < 100:
                    producer.publish(b"%d" % producer.totals["written_records"])

        task = asyncio.create_task(others())
        async for item in reader:
            assert isinstance(item, perfring.Record)
            seen.append(bytes(item))
            if len(seen) == 100:
                break
        await task
        return seen

    assert asyncio.run(main()) == [b"%d" % n for n in range(100)]


def test_async_for_lets_others_run_while_there_is_always_more(
    reader: perfring.Consumer | perfring.Observer, ring: str
) -> None:
    async def main() -> int:
        producer = perfring.Producer(ring)
        producer.publish(b"first")
        called: list[bool] = []
        asyncio.get_running_loop().call_later(0.01, called.append, True)
        seen = 0
        async with aclosing(aiter(reader)) as items:
            async for _ in items:
                seen += 1
                if called or seen == 1_000_000:
                    break
                assert producer.publish(b"more")
        assert called, "a million items, and nobody else had a turn"
        return seen

    assert asyncio.run(main()) > 0


def test_a_timeout_comes_while_there_is_always_more(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    producer.publish(b"the first")  # the other thread may begin after the time is over
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            producer.publish(b"more")

    seen = 0

    async def watch() -> None:
        nonlocal seen
        async for _ in perfring.Consumer(ring):
            seen += 1
            assert seen < 10_000_000

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch(), 0.05)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        asyncio.run(main())
        assert seen > 0
    finally:
        stop.set()
        thread.join()
