"""Acknowledgement: what is not acknowledged comes again, and keeps its space."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import perfring
import pytest


def payload(item: object) -> bytes:
    assert isinstance(item, perfring.Record)
    return bytes(item)


@pytest.fixture(params=["drop", "overwrite"])
def producer(ring: str, request: pytest.FixtureRequest) -> perfring.Producer:
    return perfring.Producer.create(ring, policy=request.param)


@pytest.fixture(params=["peers", "nobody"])
def attach(ring: str, request: pytest.FixtureRequest) -> Callable[[], perfring.Consumer]:
    return lambda: perfring.Consumer(ring, trust=request.param, acknowledge="explicit")


Attach = Callable[[], perfring.Consumer]


def test_what_was_not_acknowledged_comes_again(producer: perfring.Producer, attach: Attach) -> None:
    for n in range(5):
        producer.publish(b"%d" % n)
    with attach() as consumer:
        assert [payload(consumer.read()) for _ in range(2)] == [b"0", b"1"]
        consumer.acknowledge()
        assert payload(consumer.read()) == b"2"
        assert len(consumer.drain()) == 2
        assert consumer.read() is None
    with attach() as consumer:
        batch = consumer.drain()
        assert [bytes(record) for record in batch] == [b"2", b"3", b"4"]  # type: ignore[arg-type]
        consumer.acknowledge()
        assert not consumer.wait(0)
    with attach() as consumer:
        assert consumer.read() is None


def test_a_killed_consumer_leaves_what_it_did_not_acknowledge(
    producer: perfring.Producer, ring: str
) -> None:
    for n in range(3):
        producer.publish(b"%d" % n)
    program = """if True:
        import os, perfring, signal, sys
        consumer = perfring.Consumer(sys.argv[1], acknowledge="explicit")
        consumer.read()
        consumer.acknowledge()
        while consumer.read():
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert subprocess.run([sys.executable, "-c", program, ring]).returncode == -9
    with perfring.Consumer(ring) as consumer:
        assert [payload(consumer.read()) for _ in range(2)] == [b"1", b"2"]
        assert consumer.read() is None


def test_what_is_not_acknowledged_keeps_its_space(
    ring: str, present: Callable[[], int], attach: Attach
) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    consumer = attach()
    for _ in range(2):
        assert producer.publish(bytes(1800))
    assert len(list(consumer.items(timeout=0))) == 2
    assert not consumer.wait(0.01)  # which makes room for the producer, but not here
    assert (present(), producer.publish(bytes(1800))) == (2, False)
    consumer.acknowledge()
    assert (present(), producer.publish(bytes(1800))) == (0, True)


def test_a_view_keeps_what_is_acknowledged(ring: str, present: Callable[[], int]) -> None:
    producer = perfring.Producer.create(ring)
    for n in range(3):
        producer.publish(b"%d" % n)
    consumer = perfring.Consumer(ring, acknowledge="explicit")
    consumer.read()
    second = consumer.read()
    assert isinstance(second, perfring.Record)
    view = second.view
    consumer.acknowledge()
    assert present() == 2  # the first is released
    del second, view
    assert present() == 1
    batch = consumer.pin()
    consumer.acknowledge()
    assert present() == 1
    del batch
    assert present() == 0
    consumer.close()
    perfring.Consumer(ring).close()  # the seat is free


def test_close_frees_the_seat_though_something_is_not_acknowledged(
    producer: perfring.Producer, attach: Attach
) -> None:
    producer.publish(b"one")
    consumer = attach()
    record = consumer.read()
    assert isinstance(record, perfring.Record)
    consumer.close()
    assert bytes(record) == b"one"
    with attach() as successor:
        assert payload(successor.read()) == b"one"


def test_async_for_leaves_what_was_not_acknowledged(
    producer: perfring.Producer, attach: Attach
) -> None:
    for n in range(3):
        producer.publish(b"%d" % n)

    async def forward() -> None:
        with attach() as consumer:
            async with aclosing(aiter(consumer)) as items:
                async for item in items:
                    if payload(item) == b"1":
                        raise ConnectionResetError  # it was not delivered
                    consumer.acknowledge()

    with pytest.raises(ConnectionResetError):
        asyncio.run(forward())
    with attach() as consumer:
        assert payload(consumer.read()) == b"1"


def test_a_merge_releases_what_is_acknowledged(ring: str) -> None:
    rings = perfring.RingSet(ring)
    producer = rings.producer("one")
    for n in range(2):
        producer.publish(b"%d" % n)

    def read(merge: perfring.Merge) -> Any:
        merged = merge.read(30)
        assert merged is not None
        return payload(merged.item)

    def read_and_fail(expected: bytes, acknowledge: bool) -> None:
        with rings.merge(delay=0.001) as merge:
            assert read(merge) == expected
            if acknowledge:
                merge.acknowledge()
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        read_and_fail(b"0", acknowledge=True)
    with pytest.raises(ConnectionResetError):
        read_and_fail(b"1", acknowledge=False)
    with rings.merge(delay=0.001) as merge:
        assert read(merge) == b"1"


def test_a_consumer_attaches_once_the_ring_exists(ring: str) -> None:
    with pytest.raises(FileNotFoundError):
        perfring.Consumer(ring)
    with pytest.raises(FileNotFoundError):
        perfring.Consumer(ring, timeout=0.01)
    got: list[perfring.Consumer] = []
    thread = threading.Thread(target=lambda: got.append(perfring.Consumer(ring, timeout=None)))
    thread.start()
    perfring.Producer.create(ring).close()
    thread.join()
    assert got[0].path == ring


def test_wrong_options_are_refused(ring: str) -> None:
    perfring.Producer.create(ring).close()
    with pytest.raises(ValueError, match='acknowledge "never" is none: it is "at_next_read"'):
        perfring.Consumer(ring, acknowledge="never")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='wait_strategy "never" is none'):
        perfring.Observer(ring, wait_strategy="never")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pace"):
        perfring.Consumer(ring, pace="latency")  # type: ignore[call-arg]
