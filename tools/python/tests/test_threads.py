"""Threads, collectors and destructors that meet in one object: nobody waits for ever."""

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import perfring
import pytest
from conftest import WATCHDOG

START = """
import gc, sys, threading
import perfring
sys.setswitchinterval(1e-5)
ring = sys.argv[1]

def together(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

class AtDeath:
    '''Does something when a collector finds it.'''
    def __init__(self, do):
        self.do = do
        self.cycle = self
    def __del__(self):
        self.do()

def collected(do, work):
    '''Does work in which collectors run that do something.'''
    gc.set_threshold(1)
    for _ in range(100):
        AtDeath(do)
        work()
    gc.set_threshold(700)
"""

MEETINGS = {
    "producers of a ring with reservations": """
producer = perfring.Producer.create(ring, shared=True, policy="overwrite")
def publish():
    for _ in range(3000):
        producer.publish(bytes(16), timeout=None)
def reserve():
    for _ in range(3000):
        with producer.reserve(16, timeout=None) as view:
            view[:] = bytes(16)
together(publish, reserve, publish, reserve)
assert producer.totals["written_records"] == 12000
""",
    "an exclusive producer, whose reservations others wait for": """
producer = perfring.Producer.create(ring, policy="overwrite")
def publish():
    for _ in range(500):
        assert producer.publish(bytes(16), timeout=None)
def reserve():
    for _ in range(500):
        with producer.reserve(16, timeout=None) as view:
            view[:] = bytes(16)
together(publish, reserve, publish)
assert producer.totals["written_records"] == 1500
""",
    "names of types while one waits": """
producer = perfring.Producer.create(ring)
producer.publish(b"plain")
consumer = perfring.Consumer(ring)
record = consumer.read()
def wait():
    for _ in range(2000):
        consumer.wait(0.0001)
def ask():
    for _ in range(5000):
        assert record.type_name is None
        assert record.value == b"plain"
together(wait, ask, ask)
""",
    "values while a collector looks at the same record": """
import numpy as np
parts = np.dtype([(f"f{n}", [("a", "u1"), ("b", "u1")]) for n in range(100)])
producer = perfring.Producer.create(ring)
producer.publish(bytes(parts.itemsize), perfring.record_type("test.Parts", parts))
consumer = perfring.Consumer(ring)
record = consumer.read()
collected(lambda: bytes(record), lambda: record.value)
""",
    "exceptions while a collector reads": """
producer = perfring.Producer.create(ring)
consumer = perfring.Consumer(ring)
consumer.close()
def closed():
    try:
        consumer.read()
    except perfring.Closed:
        pass
collected(closed, closed)
""",
    "a reservation that a collector finds while another is refused": """
producer = perfring.Producer.create(ring)
def refused():
    try:
        producer.publish(b"")
    except perfring.Busy:
        pass
class Holder:
    pass
gc.set_threshold(1)
for _ in range(100):
    holder = Holder()
    try:
        holder.cycle, holder.of = holder, producer.reserve(8)
    except perfring.Busy:
        pass  # the last one was not found yet
    del holder
    refused()
gc.set_threshold(700)
gc.collect()
assert producer.publish(b"free")
""",
    "the items of a snapshot and of a merge": """
import os
os.mkdir(ring)
rings = perfring.RingSet(ring)
rings.producer("one").publish(b"1")
merge = rings.merge()
merge.close()
def closed():
    try:
        merge.read()
    except perfring.Closed:
        pass
collected(closed, closed)
reservation = rings.producer("two").reserve(8)
reservation.discard()
def ended():
    try:
        reservation.view
    except perfring.Closed:
        pass
collected(ended, ended)
""",
}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_nobody_waits_for_ever(ring: str, meeting: str) -> None:
    command = [sys.executable, "-c", START + MEETINGS[meeting], ring]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shared", [False, True])
def test_a_ring_full_of_holes_goes_on(ring: str, shared: bool) -> None:
    producer = perfring.Producer.create(ring, size=4096, shared=shared)
    consumer = perfring.Consumer(ring)
    reads: list[Callable[[], object]] = [
        consumer.read,
        lambda: consumer.read(0.001),
        consumer.drain,
        consumer.pin,
        lambda: consumer.wait(0.001),
    ]
    for read in reads:
        with pytest.raises(perfring.Full):  # noqa: PT012
            while True:
                producer.reserve(100).discard()
        read()
        consumer.read()
        assert producer.publish(bytes(2000)), read
        assert len(consumer.drain()) == 1


def test_records_behind_holes_are_there_at_once(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    consumer = perfring.Consumer(ring)
    reads: list[Callable[[], list[Any]]] = [
        lambda: list(consumer.items(timeout=0)),
        lambda: list(consumer.drain()),
        lambda: list(consumer.pin()),
    ]
    for read in reads:
        producer.publish(b"a")
        producer.reserve(8).discard()
        assert bytes(consumer.read()) == b"a"  # type: ignore[arg-type]
        producer.publish(b"b")
        assert [bytes(item) for item in read()] == [b"b"]


def test_a_wait_is_over_though_holes_come_all_the_time(ring: str) -> None:
    producer = perfring.Producer.create(ring, policy="overwrite")
    consumer = perfring.Consumer(ring)
    done = threading.Event()

    def discard() -> None:
        while not done.is_set():
            producer.reserve(8).discard()

    thread = threading.Thread(target=discard)
    thread.start()
    assert consumer.read(0.1) is None
    assert len(consumer.drain(timeout=0.1)) == 0
    done.set()
    thread.join()


def test_records_that_are_held_without_views_do_not_fill_the_ring(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    consumer = perfring.Consumer(ring)
    held = []
    for n in range(500):
        assert producer.publish(b"%064d" % n)
        while (record := consumer.read()) is not None:
            held.append(record)
    assert [bytes(record) for record in held] == [b"%064d" % n for n in range(500)]  # type: ignore[arg-type]


def test_nothing_at_most_is_nothing_at_once(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    producer.publish(b"there")
    consumer = perfring.Consumer(ring)
    assert len(consumer.drain(0, timeout=None)) == 0
    assert len(consumer.pin(0, timeout=None)) == 0
    assert bytes(consumer.read()) == b"there"  # type: ignore[arg-type]


def test_a_batch_that_fails_keeps_what_was_not_published(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    batch = producer.batch()
    batch.publish(b"1")
    batch.publish(b"2")
    reservation = producer.reserve(8)
    with pytest.raises(perfring.Busy):
        batch.flush()
    assert (len(batch), batch.published, batch.lost) == (2, 0, 0)
    reservation.discard()
    batch.publish(b"3")
    assert batch.flush() == 3
    assert [bytes(record) for record in perfring.Snapshot(ring)] == [b"1", b"2", b"3"]  # type: ignore[arg-type]


def test_an_interrupted_batch_says_how_far_it_came(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    batch = producer.batch(timeout=None)
    for n in range(500):
        batch.publish(b"%08d" % n)

    def close() -> None:
        while producer.totals["written_records"] < 100:
            pass
        producer.close()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(perfring.Closed):
        batch.flush()
    thread.join()
    published = perfring.stat(ring)["written_records"]
    assert 100 <= published < 500
    assert (batch.published, batch.lost, len(batch)) == (published, 0, 500 - published)


def test_another_type_of_the_same_number_is_refused(ring: str) -> None:
    one = perfring.record_type("test.One", np.dtype([("a", "u8")]), id=9000)
    two = perfring.record_type("test.Two", np.dtype([("b", "f8")]), id=9000)
    producer = perfring.Producer.create(ring)
    assert producer.publish(bytes(8), one)
    for _ in range(2):
        with pytest.raises(perfring.BadType):
            producer.publish(bytes(8), two)
    assert producer.publish(bytes(8), one)


def test_an_object_whose_payload_is_no_buffer(ring: str) -> None:
    class Itself:
        id = 9000
        __record__ = 1

        def pack(self) -> Any:
            return self

    producer = perfring.Producer.create(ring)
    with pytest.raises(TypeError), producer.batch() as batch:
        producer.publish(Itself())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        batch.publish(Itself())  # type: ignore[arg-type]


def test_a_consumer_in_a_cycle_is_collected(ring: str) -> None:
    class Own(perfring.Consumer):
        pass

    perfring.Producer.create(ring).close()
    consumer = Own(ring)
    consumer.items_of_it = iter(consumer)  # type: ignore[attr-defined]
    gone = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert gone() is None
    perfring.Consumer(ring).close()


def test_buffers_of_all_shapes_are_published(ring: str) -> None:
    import ctypes

    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_uint32), ("b", ctypes.c_uint32))

    structured = np.array([(1, 2.5)], dtype=[("a", "u4"), ("b", "f8")])
    days = np.array(["2026-11-21"], dtype="M8[D]")
    buffers: list[tuple[Any, bytes]] = [
        (np.float64(1.5), np.float64(1.5).tobytes()),
        (np.array(7, dtype="u2"), b"\7\0"),
        (structured[0], structured.tobytes()),
        (Pair(1, 2), bytes(Pair(1, 2))),
        ((ctypes.c_uint16 * 3)(1, 2, 3), b"\1\0\2\0\3\0"),
        (days, days.tobytes()),
        (np.zeros((0, 4)), b""),
    ]
    producer = perfring.Producer.create(ring)
    for given, _ in buffers:
        assert producer.publish(given)
    assert [bytes(r) for r in perfring.Snapshot(ring)] == [expected for _, expected in buffers]  # type: ignore[arg-type]
    assert producer.publish_array(days) == 1
    assert producer.publish_array(np.zeros(0, dtype="u8"), 5000) == 0
    for publish in (producer.publish, producer.publish_array):
        with pytest.raises(TypeError, match="pointers"):
            publish(np.array([object()]))


def test_an_array_of_objects_is_never_made_of_a_ring(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    producer.publish(bytes(8))
    consumer = perfring.Consumer(ring)
    for batch in (perfring.Observer(ring).drain(), consumer.pin()):
        with pytest.raises(perfring.BadType, match="pointers"):
            batch.numpy(np.dtype("O"))
