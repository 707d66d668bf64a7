"""Typed records through a ring, and by the ring's own table."""

import enum
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import perfring
import pytest
import test_types


class Side(enum.IntEnum):
    BUY = 0
    SELL = 1


@perfring.record(name="test.Trade", version=2)
class Trade:
    """A trade."""

    time: perfring.U64
    price: float
    symbol: Annotated[str, perfring.text(6)]
    side: Annotated[Side, perfring.U8]
    flags: perfring.U8


@perfring.record(name="test.Other")
class Other:
    number: perfring.U32


TRADES = [Trade(n, n / 4, f"S{n}", Side(n % 2), 7) for n in range(5)]
PLAIN = [
    {"time": n, "price": n / 4, "symbol": f"S{n}", "side": "SELL" if n % 2 else "BUY", "flags": 7}
    for n in range(5)
]


def published(ring: str, **options: Any) -> perfring.Producer:
    producer = perfring.Producer.create(ring, **options)
    for trade in TRADES:
        assert producer.publish(trade)
    return producer


@pytest.mark.parametrize("options", [{}, {"policy": "overwrite"}, {"shared": True}, {"time": True}])
def test_objects_go_through_a_ring_and_come_back(ring: str, options: dict[str, Any]) -> None:
    producer = published(ring, **options)
    with producer.batch() as batch:
        for trade in TRADES:
            batch.publish(trade)
    with pytest.raises(TypeError, match="leave out type=5000"):
        producer.publish(TRADES[0], 5000)
    assert producer.publish(b"plain", 5000)
    records = [
        item for item in perfring.Observer(ring).drain() if isinstance(item, perfring.Record)
    ]
    assert [perfring.unpack(Trade, record) for record in records[:10]] == TRADES * 2
    assert [record.value for record in records] == [*PLAIN, *PLAIN, b"plain"]
    assert {record.type_name for record in records[:10]} == {"test.Trade"}
    assert records[0].record_type == perfring.type_of(Trade)
    assert records[10].record_type is None
    with pytest.raises(
        perfring.BadType, match=r"not a Trade \(test.Trade\): its type is number 5000"
    ):
        perfring.unpack(Trade, records[10])


def test_the_table_needs_no_program(ring: str) -> None:
    published(ring).close()
    snapshot = perfring.Snapshot(ring)
    kind = snapshot.types["test.Trade"]
    assert (kind.id, kind.version, kind.help) == (perfring.type_of(Trade).id, 2, "A trade.")
    array = snapshot.drain().numpy("test.Trade")
    assert array["price"].tolist() == [n / 4 for n in range(5)]
    assert array["symbol"].tolist() == [b"S%d" % n for n in range(5)]
    assert len(perfring.Observer(ring).types) == 1
    assert "test.Trade" in perfring.Consumer(ring).types


def test_arrays_under_a_type(ring: str) -> None:
    dtype = np.dtype([("number", "u8"), ("value", "f4"), ("pad", "V4")])
    kind = perfring.record_type("test.Sample", dtype)
    producer = perfring.Producer.create(ring)
    array = np.zeros(100, dtype=dtype)
    array["number"] = np.arange(100)
    assert producer.publish_array(array, kind) == 100
    consumer = perfring.Consumer(ring)
    for batch in (perfring.Observer(ring).drain(), consumer.pin()):
        back = batch.numpy()
        assert back["number"].tolist() == list(range(100))
        assert batch[7].value["number"] == 7
    with producer.reserve(16, kind) as view:
        np.frombuffer(view, dtype=dtype)["number"][0] = 100
    assert consumer.drain().numpy("test.Sample")["number"].tolist() == [100]


def test_bytes_of_another_size_are_no_record_of_a_type(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    kind = producer.register(Trade)
    assert kind == perfring.type_of(Trade)
    for publish in (
        lambda: producer.publish(b"short", kind),
        lambda: producer.publish(b"short", Trade),
        lambda: producer.reserve(5, kind),
        lambda: producer.publish_array(np.zeros(3, dtype="u8"), Trade),
        lambda: producer.batch().publish(b"short", kind),
    ):
        with pytest.raises(perfring.BadType, match="24 bytes, and not"):
            publish()
    assert producer.publish(perfring.pack(TRADES[3]), Trade)
    totals = producer.totals
    assert (totals["written_records"], totals["written_bytes"]) == (1, 32)


def test_arrays_that_are_no_records_of_a_type(ring: str) -> None:
    producer = perfring.Producer.create(ring)
    kind = perfring.record_type("test.Pair", np.dtype([("a", "u4"), ("b", "f4")]))
    swapped = np.zeros(3, dtype=[("b", "f4"), ("a", "u4")])
    for publish in (producer.publish_array, producer.publish):
        for wrong in (swapped[:1], np.zeros(1, dtype="f8")):
            with pytest.raises(perfring.BadType):
                publish(wrong, kind)
    assert producer.publish_array(np.zeros(3, dtype="V8"), kind) == 3
    assert producer.publish_array(np.zeros((3, 8), dtype="u1"), kind) == 3
    assert producer.totals["written_records"] == 6


def test_a_table_without_room_says_so_and_plain_records_go_on(ring: str) -> None:
    producer = perfring.Producer.create(ring, types_size=0)
    for publish in (lambda: producer.register(Trade), lambda: producer.publish(TRADES[0])):
        with pytest.raises(perfring.BadType, match="type table"):
            publish()
    assert producer.publish(b"plain")
    # Whoever does not need the table can use the number.
    assert producer.publish(perfring.pack(TRADES[0]), perfring.type_of(Trade).id)


def test_types_that_come_later_are_found(ring: str) -> None:
    producer = published(ring)
    consumer = perfring.Consumer(ring)
    assert consumer.read().value == PLAIN[0]  # type: ignore[union-attr]
    producer.publish(Other(42))
    assert [record.value for record in consumer.items(timeout=0)][-1] == {"number": 42}  # type: ignore[union-attr]


def test_what_only_looks_like_a_record(ring: str) -> None:
    class Pretends:
        id = 5000

    producer = perfring.Producer.create(ring)
    with pytest.raises(perfring.BadType, match="is not a record"):
        producer.publish(b"", Pretends)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        producer.publish(Pretends())  # type: ignore[arg-type]


def test_rust_reads_what_python_registered(ring: str, rust: Callable[..., list[str]]) -> None:
    with perfring.Producer.create(ring) as producer:
        for value in test_types.EXAMPLES:
            assert producer.publish(value)
        packed = test_types.TYPES["agree.Packed"]
        assert producer.publish(test_types.PACKED_EXAMPLE, packed)
        names = [kind.name for kind in perfring.Observer(ring).types]
    assert sorted(names) == sorted(test_types.TYPES)
    lines = "".join(f"{name} {payload.hex()}\n" for name, payload in test_types.PAYLOADS)
    assert rust("read", ring) == rust("show", input=lines)
