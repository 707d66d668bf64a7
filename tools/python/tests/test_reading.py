import threading
from pathlib import Path

import numpy as np
import perfring
import pytest

Item = perfring.Record | perfring.Lost


def show(items: object) -> list[bytes | tuple[int, str]]:
    return [
        bytes(item) if isinstance(item, perfring.Record) else (item.records, item.cause)
        for item in items  # type: ignore[attr-defined]
    ]


@pytest.fixture(params=["drop", "overwrite"])
def producer(ring: str, request: pytest.FixtureRequest) -> perfring.Producer:
    return perfring.Producer.create(ring, policy=request.param, time=True)


def test_every_method_to_read_returns_the_same(producer: perfring.Producer, ring: str) -> None:
    expected: list[bytes | tuple[int, str]] = [b"%d" % n * (n % 5) for n in range(100)]
    for nth, payload in enumerate(expected):
        assert isinstance(payload, bytes)
        producer.publish(payload, 5000 + nth % 3)
    for read in (
        lambda: perfring.Snapshot(ring),
        lambda: perfring.Snapshot(ring).drain(),
        lambda: perfring.Observer(ring).snapshot(),
        lambda: perfring.Observer(ring).items(timeout=0),
        lambda: perfring.Observer(ring).drain(),
        lambda: perfring.Consumer(ring).drain(),
    ):
        assert show(read()) == expected
    producer.publish(b"and one")
    with perfring.Consumer(ring) as consumer:
        assert show([consumer.read()]) == [b"and one"]
        assert consumer.read() is None
        assert consumer.read_count[0] == 101


def test_a_record_says_what_it_is(producer: perfring.Producer, ring: str) -> None:
    producer.publish(b"payload", 5000)
    record = perfring.Consumer(ring).read()
    assert isinstance(record, perfring.Record)
    assert (record.pos, record.type, len(record)) == (0, 5000, 7)
    assert record.time is not None
    assert record.wall is not None
    assert record.wall > record.time
    assert record.type_name is None
    assert record.view.readonly
    assert record.view == b"payload" == record.tobytes()  # type: ignore[comparison-overlap]
    assert np.frombuffer(record, dtype="u1")[0] == ord("p")
    assert repr(record) == f"<perfring.Record type=5000, pos=0, time={record.time}, 7 bytes>"


def test_a_batch_is_a_sequence_with_columns(producer: perfring.Producer, ring: str) -> None:
    for n in range(5):
        producer.publish(bytes([n]) * 3, 5000)
    producer.publish(b"other", 5001)
    batch = perfring.Observer(ring).drain()
    assert len(batch) == 6
    assert bytes(batch) == b"\0\0\0\1\1\1\2\2\2\3\3\3\4\4\4other"
    assert bytes(batch[-1]) == b"other"
    assert bytes(batch[1]) == b"\1\1\1"
    assert [batch[n].pos for n in range(6)] == [24 * n for n in range(6)]
    assert batch.timed
    times = [batch[n].time for n in range(6)]
    assert times == np.frombuffer(batch._times(), dtype="u8").tolist()
    assert np.frombuffer(batch._positions(), dtype="u8").tolist() == [24 * n for n in range(6)]
    assert np.frombuffer(batch._types(), dtype="u4").tolist() == [5000] * 5 + [5001]
    assert np.frombuffer(batch._offsets(), dtype="u8").tolist() == [0, 3, 6, 9, 12, 15, 20]
    assert [bytes(record) for record in batch[3:]] == [b"\3" * 3, b"\4" * 3, b"other"]
    assert [record.pos for record in batch[-1::-2]] == [120, 72, 24]
    assert batch[7:] == []
    for wrong in (6, -7):
        with pytest.raises(IndexError, match=f"no record {wrong} in a batch of 6"):
            batch[wrong]
    assert repr(batch) == "<perfring.Batch 6 records, 0 lost>"
    assert len(perfring.Observer(ring).drain(2)) == 2
    assert perfring.Observer(ring, "latest").drain().timed  # an empty one, too


def test_an_observer_goes_on_where_another_stopped(producer: perfring.Producer, ring: str) -> None:
    first = perfring.Observer(ring)
    for n in range(10):
        producer.publish(b"%d" % n)
    assert len(first.drain(4)) == 4
    saved = first.saved
    assert saved.records == 4
    assert show(perfring.Observer(ring, saved).drain()) == [b"%d" % n for n in range(4, 10)]
    assert show(perfring.Observer(ring, tuple(saved)).drain(1)) == [b"4"]  # type: ignore[arg-type]
    assert perfring.Observer(ring, "latest").read() is None
    with pytest.raises(ValueError, match="oldest"):
        perfring.Observer(ring, "first")  # type: ignore[arg-type]


def test_lapped_readers_get_the_number_of_missed_records(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096, policy="overwrite")
    observer, consumer = perfring.Observer(ring), perfring.Consumer(ring)
    for n in range(1000):
        producer.publish(b"%08d" % n)
    for reader in (observer, consumer):
        items = list(reader.items(timeout=0))
        lost = items[0]
        assert isinstance(lost, perfring.Lost)
        assert lost.cause == "lapped"
        assert lost.records + len(items) - 1 == 1000
        assert bytes(items[-1]) == b"%08d" % 999  # type: ignore[arg-type]
        assert reader.lapped[0] == lost.records
        assert lost.bytes == 16 * lost.records
        assert repr(lost) == (
            f"<perfring.Lost records={lost.records}, bytes={lost.bytes}, cause='lapped', "
            f"pos={lost.pos}>"
        )
    again = perfring.Observer(ring, (0, 0, 0)).drain()
    assert again.lost == [lost]
    assert {lost} == {again.lost[0]}


def test_losses_stand_in_their_place_in_a_batch(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    consumer = perfring.Consumer(ring)
    for _ in range(3):
        while producer.publish(bytes(500)):
            pass
        consumer.read()
    expected: list[bytes | tuple[int, str]] = []
    batch = consumer.drain()
    for item in batch:
        expected.append((item.records, item.cause) if isinstance(item, perfring.Lost) else b"")
    assert len(batch.lost) == 3  # the last one at the end
    assert [what for what in expected if what] == [(lost.records, "full") for lost in batch.lost]
    assert expected.count(b"") == len(batch)
    assert expected[0] == b""


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize(
    "how", ["read", "items", "drain", "drain by tens", "pin", "observe", "snapshot"]
)
def test_losses_at_the_end_of_a_ring_are_returned_once(ring: str, how: str, alive: bool) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    for _ in range(500):
        producer.publish(bytes(40))
    with pytest.raises(perfring.TooLarge):
        producer.publish(bytes(8192))
    written = producer.totals["written_records"]
    if not alive:
        producer.close()
    reader: perfring.Consumer | perfring.Observer
    reader = perfring.Observer(ring) if how == "observe" else perfring.Consumer(ring)
    items: list[Item] = []
    match how:
        case "read":
            while (item := reader.read()) is not None:
                items.append(item)
        case "items":
            items.extend(reader.items(timeout=0))
        case "drain" | "observe":
            items.extend(reader.drain())
        case "drain by tens":
            while batch := list(reader.drain(10)):
                items.extend(batch)
        case "pin":
            assert isinstance(reader, perfring.Consumer)
            items.extend(reader.pin())
        case _:
            items.extend(perfring.Snapshot(ring))
    lost = [item for item in items if isinstance(item, perfring.Lost)]
    assert [(it.records, it.cause) for it in lost] == [(500 - written, "full"), (1, "too_large")]
    assert all(it.at_end for it in lost)
    assert len(items) - len(lost) == written
    if how == "snapshot":
        return
    del items
    assert reader.read() is None
    if isinstance(reader, perfring.Observer):
        saved = reader.saved
        assert sum(records for records, _ in saved.told) == 501 - written
        assert perfring.Observer(ring, saved).read() is None
    reader.close()
    if how != "observe":
        assert perfring.Consumer(ring).read() is None  # it is saved with the position


def test_a_reader_that_waits_is_told_of_a_loss_within_a_second(ring: str) -> None:
    producer = perfring.Producer.create(ring, size=4096)
    readers = perfring.Consumer(ring), perfring.Observer(ring)

    def lose() -> None:
        with pytest.raises(perfring.TooLarge):
            producer.publish(bytes(8192))

    timer = threading.Timer(0.1, lose)
    timer.start()
    for reader in readers:
        item = reader.read(timeout=60)
        assert isinstance(item, perfring.Lost)
        assert (item.records, item.cause) == (1, "too_large")
    timer.join()


@pytest.mark.parametrize("time", [False, True])
def test_a_pinned_batch_is_the_ring_itself(ring: str, time: bool) -> None:
    producer = perfring.Producer.create(ring, size=8192, time=time)
    consumer = perfring.Consumer(ring)
    row = 64 + 8 + 8 * time
    for _ in range(10):  # past the end of the ring, too
        values = np.arange(40 * 8, dtype="u8").reshape(40, 8)
        assert producer.publish_array(values) == 40
        batch = consumer.pin()
        assert batch.pinned
        assert len(batch) == 40
        assert batch._runs == [(perfring.BYTES, 64, 0, 40, row - 64, row)]
        assert b"".join(bytes(record) for record in batch) == values.tobytes()  # type: ignore[arg-type]
        with pytest.raises(BufferError, match="pinned"):
            memoryview(batch)
    with pytest.raises(perfring.PerfringError, match="only the consumer of a drop ring can pin"):
        perfring.Consumer(overwrite_ring(ring)).pin()


def overwrite_ring(ring: str) -> str:
    perfring.Producer.create(ring + "2", policy="overwrite").close()
    return ring + "2"


def test_damage_is_reported_after_the_valid_records(ring: str) -> None:
    with perfring.Producer.create(ring) as producer:
        for _ in range(3):
            producer.publish(b"12345678")
    with open(ring, "r+b") as file:
        file.seek(4096 + 32)
        file.write(b"\xff" * 8)
    for reader in (perfring.Observer(ring), perfring.Consumer(ring)):
        assert len(reader.drain()) == 2
        for _ in range(2):
            with pytest.raises(perfring.Corrupt, match="damaged at position 32") as corrupt:
                reader.drain()
            assert corrupt.value.pos == 32
            with pytest.raises(perfring.Corrupt):
                reader.read()
    with pytest.raises(perfring.Corrupt):
        list(perfring.Snapshot(ring))


def test_a_reader_of_a_removed_ring_gets_what_is_left_and_then_an_exception(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    producer = perfring.Producer.create(ring)
    with perfring.Consumer(ring) as consumer, perfring.Observer(ring) as observer:
        assert producer.publish(b"last words")
        ring.unlink()
        for reader in (observer, consumer):
            item = reader.read(timeout=None)
            assert isinstance(item, perfring.Record)
            assert bytes(item) == b"last words"
            with pytest.raises(perfring.RingRemoved, match="removed"):
                reader.read(timeout=None)
            with pytest.raises(perfring.RingRemoved):
                next(iter(reader))
