"""Whatever order objects die in: nothing dangles or leaks, and the tail stays where it must."""

import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import perfring
import pytest

Present = Callable[[], int]


def filled(ring: str, records: int = 10) -> perfring.Producer:
    producer = perfring.Producer.create(ring)
    for n in range(records):
        producer.publish(b"%08d" % n)
    return producer


# What Python code makes of a record, and how its number is read from it.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "record": lambda record: record,
    "view": lambda record: record.view,
    "slice": lambda record: record.view[1:],
    "memoryview": memoryview,
    "frombuffer": lambda record: np.frombuffer(record, dtype="u1"),
    "array of view": lambda record: np.frombuffer(record.view, dtype="u1"),
    "ndarray": lambda record: np.ndarray((8,), dtype="u1", buffer=record),
    "ndarray of view": lambda record: np.ndarray((8,), dtype="u1", buffer=record.view),
    "slice of array": lambda record: np.frombuffer(record, dtype="u1")[2:],
}


def last(view: Any) -> int:
    return memoryview(view)[-1] - ord("0")


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_keeps_the_tail_before_its_record(ring: str, present: Present, kind: str) -> None:
    producer = filled(ring)
    consumer = perfring.Consumer(ring)
    held = []
    for _ in range(10):
        record = consumer.read()
        held.append(VIEWS[kind](record))
        del record
    assert present() == 10
    del held[3:5]
    assert present() == 10  # others stand before it
    assert [last(view) for view in held] == [0, 1, 2, 5, 6, 7, 8, 9]
    del held[0]
    assert present() == 9
    del held[:2]
    assert present() == 5
    del held[1:]
    assert present() == 5
    held.clear()
    assert present() == 0
    producer.publish(b"more")
    assert bytes(consumer.read()) == b"more"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("close", ["close", "del", "with"])
def test_views_outlive_their_reader(ring: str, kind: str, close: str) -> None:
    producer = filled(ring)
    consumer = perfring.Consumer(ring)
    views = [VIEWS[kind](consumer.read()) for _ in range(10)]
    match close:
        case "close":
            consumer.close()
        case "del":
            del consumer
        case "with":
            with consumer:
                pass
    if kind == "record":  # nobody has a view: these are copies now
        perfring.Consumer(ring).close()
    else:
        # The place stays taken, so that no other consumer gives the space away.
        with pytest.raises(perfring.Busy, match="has a consumer already"):
            perfring.Consumer(ring)
    while producer.publish(b"x" * 64):
        pass
    assert [last(view) for view in views] == list(range(10))
    views.clear()
    with perfring.Consumer(ring) as again:
        assert len(again.drain()) == producer.totals["written_records"] - 10


def test_the_batches_views_too(ring: str, present: Present) -> None:
    filled(ring)
    consumer = perfring.Consumer(ring)
    batch = consumer.pin(6)
    record = batch[2]
    array = np.frombuffer(batch[5], dtype="u1")
    del batch
    assert len(consumer.drain()) == 4
    consumer.close()
    assert present() == 10
    del record
    assert present() == 10
    assert array.tobytes() == b"00000005"
    del array
    assert present() == 0


def test_copies_keep_nothing(ring: str, present: Present) -> None:
    filled(ring)
    consumer = perfring.Consumer(ring)
    batch = consumer.drain()
    assert present() == 0
    array = np.frombuffer(batch, dtype="S8")
    record = batch[7]
    consumer.close()
    del batch
    assert array[-1] == b"00000009"
    assert bytes(record) == b"00000007"
    assert record.wall is None
    assert record.type_name is None


@pytest.mark.parametrize("policy", ["drop", "overwrite"])
def test_batches_that_live_keep_their_bytes_while_readers_use_memory_again(
    ring: str, policy: Any
) -> None:
    producer = perfring.Producer.create(ring, policy=policy)
    is_drop = policy == "drop"
    reader: Any = perfring.Consumer(ring) if is_drop else perfring.Observer(ring)
    kind = producer.register(perfring.record_type("app.Word", np.dtype([("n", "u8")])))
    rng, held, dead = random.Random("memory"), [], 0
    for number in range(400):
        words = np.full(rng.choice([1, 7, 100, 1000, 5000]), number, "u8")
        assert producer.publish_array(words, kind) == len(words)
        batch = reader.drain()
        assert bytes(batch) == words.tobytes()  # nothing of what was there before
        views = [batch, batch.numpy(kind)["n"], batch[len(words) // 2], memoryview(batch)]
        held.append((rng.choice(views), number))
        del batch, views
        while rng.random() < 0.5 and held:
            held.pop(rng.randrange(len(held)))
            dead += 1
        for view, of in held:
            assert set(np.frombuffer(view, "u8")) == {of}
        if number == 300:
            reader.close()
            reader = perfring.Consumer(ring) if is_drop else perfring.Observer(ring, "latest")
    print(f"{len(held)} of 400 batches live, {dead} are dead")


def test_cycles_with_views_are_collected(ring: str, present: Present) -> None:
    filled(ring)
    consumer = perfring.Consumer(ring)
    for _ in range(10):
        cycle: list[Any] = [consumer.read()]
        cycle.append(cycle)
        cycle.append(cycle[0].view)
    del cycle
    gc.collect()
    assert present() == 0


def test_any_order_of_deaths(ring: str, present: Present) -> None:
    """A plain model: the tail stands before the oldest record that something has."""
    choose = random.Random(6)
    producer = perfring.Producer.create(ring, size=4096)
    consumer = perfring.Consumer(ring)
    published = read = refused = 0
    held: dict[int, list[Any]] = {}
    for _ in range(6000):
        match choose.randrange(4):
            case 0 | 1:
                if producer.publish(b"%08d" % published):
                    published += 1
                else:
                    refused += 1
            case 2 if read < published:
                record = consumer.read()
                while isinstance(record, perfring.Lost):
                    record = consumer.read()
                held[read] = [VIEWS[kind](record) for kind in choose.sample(list(VIEWS), 2)]
                read += 1
                del record
            case 3 if held:
                number = choose.choice(list(held))
                assert last(held[number].pop()) == number % 10
                if not held[number]:
                    del held[number]
        assert present() == published - min(held, default=read)
    assert refused > 100
    assert read > 100
    held.clear()
    assert present() == published - read


# What Python code makes of a reservation's view.
SPACES: dict[str, Callable[[memoryview], Any]] = {
    "slice": lambda view: view[1:],
    "frombuffer": lambda view: np.frombuffer(view, dtype="u1"),
    "ndarray": lambda view: np.ndarray((8,), dtype="u1", buffer=view),
    "cast": lambda view: view.cast("I"),
    "memoryview": memoryview,
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("close", [False, True])
def test_nobody_writes_to_a_record_that_is_published(
    ring: str, kind: str, shared: bool, close: bool
) -> None:
    producer = perfring.Producer.create(ring, shared=shared)
    kept: Any = None
    with (
        pytest.raises(BufferError, match="could write to"),
        producer.reserve(8) as view,
    ):
        kept = SPACES[kind](view)
    assert perfring.stat(ring)["written_records"] == 0
    if close:
        producer.close()
        kept[0] = 7  # harmless: the space is still this process's
        with pytest.raises(perfring.Closed):
            producer.publish(b"more")
        if not shared:
            with pytest.raises(perfring.Busy):
                perfring.Producer(ring)
        del kept, view
        producer = perfring.Producer(ring)
    else:
        kept[0] = 7
        if shared:
            producer.publish(b"more")  # behind the open one
            assert perfring.stat(ring)["written_records"] == 0
        else:
            with pytest.raises(perfring.PerfringError, match="view of one still exists"):
                producer.publish(b"more")
        del kept, view
    assert producer.publish(b"more")
    stat = perfring.stat(ring)
    assert (stat["discarded_records"], stat["written_records"]) == (
        1,
        2 if shared and not close else 1,
    )


def test_a_forgotten_reservation_is_discarded_with_its_last_view(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    view = producer.reserve(8).view
    view[:] = bytes(8)
    with pytest.raises(perfring.PerfringError, match="is open"):
        producer.publish(b"more")
    del view
    assert producer.publish(b"more")
    assert perfring.stat(ring)["discarded_records"] == 1


def resources() -> tuple[int, int]:
    """Descriptors and mappings of this process."""
    maps = Path("/proc/self/maps").read_text().count("\n")
    return len(os.listdir("/proc/self/fd")), maps


def use(ring: str, policy: Any, shared: bool) -> None:
    with perfring.Producer.create(ring, size=4096, policy=policy, shared=shared) as producer:
        producer.publish(b"12345678")
        with producer.reserve(8) as view:
            view[:] = b"12345678"
        reservation = producer.reserve(8)
        consumer = perfring.Consumer(ring)
        record, other = consumer.read(), consumer.read()
        array = np.frombuffer(record, dtype="u1")  # type: ignore[arg-type]
        consumer.wait(0)
        observer = perfring.Observer(ring)
        batch = observer.drain()
        perfring.Snapshot(ring).drain()
        del reservation
        perfring.stat(ring)
    consumer.close()
    del array, record, other, observer, batch
    os.unlink(ring)


@pytest.mark.parametrize("policy", ["drop", "overwrite"])
@pytest.mark.parametrize("shared", [False, True])
def test_thousands_of_rounds_leak_nothing(ring: str, policy: str, shared: bool) -> None:
    rounds = 2500 if os.environ.get("PERFRING_LONG") else 500  # of each of four
    for _ in range(20):
        use(ring, policy, shared)
    gc.collect()
    before = resources()
    for _ in range(rounds):
        use(ring, policy, shared)
    gc.collect()
    fds, maps = resources()
    assert fds == before[0]
    assert maps <= before[1] + 4  # the allocator's own


AT_EXIT = """
import numpy as np, perfring, sys, threading
ring = sys.argv[1]
producer = perfring.Producer.create(ring)
producer.publish(b"12345678")
producer.publish(b"abcdefgh")
consumer = perfring.Consumer(ring)
record = consumer.read()
array = np.frombuffer(record, dtype="u1")
batch = consumer.pin()
items = perfring.Observer(ring).items()
"""


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "reservation = producer.reserve(8); view = reservation.view",
        "class Later:\n    def __del__(self): self.of[0]\nlater = Later(); later.of = array",
        "threading.Thread(target=consumer.wait, daemon=True).start()",
        "threading.Thread(target=lambda: list(items), daemon=True).start()",
        "import atexit; atexit.register(consumer.close); atexit.register(producer.close)",
        "sys.modules.clear()",
        "raise SystemExit(0)",
        "import perfring._native as native; native.self = (array, consumer, producer, items)",
    ],
)
def test_the_interpreters_end_is_quiet(ring: str, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", AT_EXIT + end, ring], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    stat = perfring.stat(ring)
    assert stat["producer"] is not None
    assert (stat["written_records"], stat["producer"]["alive"]) == (2, False)
