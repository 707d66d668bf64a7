"""Batches as arrays, Arrow and pandas, of rings that Rust and Python wrote."""

import json
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import perfring
import pyarrow as pa
import pytest
from perfring import _arrays
from perfring._native import _describe
from test_types import (
    EXAMPLES,
    PACKED,
    PAYLOADS,
    TYPES,
    Nested,
    Numbers,
    Trade,
    any_bytes,
    any_dtype,
)


class Fake:
    """A batch of records of one type, in as many runs as there are strides."""

    timed = False
    pinned = False
    sample_id = False

    def __init__(self, kind: perfring.RecordType, payloads: list[bytes]) -> None:
        self.kind, self.payloads = kind, payloads
        self._span = b"".join(payloads)
        size = len(payloads[0]) if payloads else 0
        self._runs = [(kind.id, size, 0, len(payloads), 0, size)] if payloads else []

    @property
    def _table(self) -> perfring.TypeTable:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.payloads)

    def _type_of(self, number: int) -> perfring.RecordType | None:
        return self.kind if number == self.kind.id else None

    def _times(self) -> bytes:
        return b""

    def _positions(self) -> bytes:
        return np.arange(len(self), dtype=np.uint64).tobytes()

    def _writers(self) -> bytes:
        return b""

    def _types(self) -> bytes:
        return np.full(len(self), self.kind.id, np.uint32).tobytes()

    def _offsets(self) -> bytes:
        ends = np.cumsum([0, *map(len, self.payloads)], dtype=np.uint64)
        return ends.tobytes()


def as_arrow(shape: dict[str, Any], value: Any) -> Any:
    """What Arrow has of a value that `decode` made."""
    match shape["kind"]:
        case "enum" | "u128" | "i128":
            return str(value)
        case "array":
            return [as_arrow(shape["of"], one) for one in value]
        case "struct":
            return {f["name"]: as_arrow(f, value[f["name"]]) for f in shape["fields"]}
        case _:
            return value


def test_any_type_is_the_same_in_arrow() -> None:
    rng = random.Random("arrow")
    for number in range(200):
        dtype = any_dtype(rng, 3, bool(number & 1))
        kind = perfring.record_type(f"any.T{number}", dtype)
        payloads = []
        for _ in range(rng.randint(1, 4)):
            payload = bytearray(dtype.itemsize)
            any_bytes(rng, dtype, payload, 0)
            payloads.append(bytes(payload))
        batch = _arrays.to_arrow(Fake(kind, payloads))
        batch.validate(full=True)
        fields = json.loads(kind.json)["fields"]
        for nth, payload in enumerate(payloads):  # type: ignore[assignment]
            values = kind.decode(payload)
            for field in fields:
                found = batch.column(field["name"])[nth].as_py()
                assert found == as_arrow(field, values[field["name"]]), field
        assert batch.to_pandas().shape == (len(payloads), 1 + len(fields))


@pytest.fixture
def ring(tmp_path: Path, rust: Callable[..., list[str]]) -> Path:
    """A ring with a record of each of Rust's types."""
    rust("write", tmp_path / "ring")
    return tmp_path / "ring"


def test_rusts_types_arrive_by_name(ring: Path) -> None:
    batch = perfring.Snapshot(ring).drain()
    assert len(batch) == len(TYPES)
    trade = batch.numpy("agree.Trade")
    assert trade.shape == (1,)
    assert trade["time"][0] == 1 << 60
    assert trade["symbol"][0].decode() == "ÜBER"
    assert trade.dtype["side"].metadata == {"labels": {1: "Buy", 2: "Sell"}}
    nested = batch.numpy("agree.Nested")[0]
    assert nested["line"]["x"].tolist() == [5.5, 8.5]
    assert nested["matrix"].tolist() == [[11, 12, 13], [14, 15, 16]]
    # The same without the name: by class, by number, by type, by dtype alone.
    for wanted in (Trade, Trade.id, perfring.type_of(Trade)):  # type: ignore[attr-defined]
        again = batch.numpy(wanted)
        assert again.tobytes() == trade.tobytes()
    with pytest.raises(perfring.BadType, match=r"a record has 64 bytes, and .* takes 32"):
        batch.numpy(trade.dtype)


def test_what_rust_published_is_what_python_has(ring: Path) -> None:
    records = list(perfring.Snapshot(ring))
    by_id = {TYPES[name].id: (TYPES[name], payload) for name, payload in PAYLOADS}
    for record in records:
        assert isinstance(record, perfring.Record)
        kind, payload = by_id[record.type]
        assert bytes(record) == payload, kind
    assert perfring.unpack(Nested, bytes(records[2])) == EXAMPLES[2]  # type: ignore[arg-type]


def test_rust_reads_what_python_published(tmp_path: Path, rust: Callable[..., list[str]]) -> None:
    ring = tmp_path / "ring"
    with perfring.Producer.create(ring) as producer:
        for name, payload in PAYLOADS:
            assert producer.publish(payload, TYPES[name])
    lines = "".join(f"{name} {payload.hex()}\n" for name, payload in PAYLOADS)
    assert rust("read", ring) == rust("show", input=lines)


def ticks(producer: perfring.Producer, numbers: range) -> None:
    for number in numbers:
        value = Numbers(*[number % 100] * 11)
        assert producer.publish(perfring.pack(value), Numbers)


def test_an_array_of_drained_records_is_a_view_and_of_several_stretches_too(tmp_path: Path) -> None:
    with perfring.Producer.create(tmp_path / "ring") as producer:
        ticks(producer, range(50))
        producer.publish(b"between", 4096)
        ticks(producer, range(50, 80))
    batch = perfring.Snapshot(tmp_path / "ring").drain()
    array = batch.numpy(Numbers)
    assert array["h"].tolist() == list(range(80))
    assert not array.flags.writeable
    with pytest.raises(perfring.BadType, match=r"several types: pass one of 0x1000, 'agree"):
        batch.numpy()
    with pytest.raises(perfring.BadType, match="type table does not have type 0x1000"):
        batch.numpy(4096)
    with pytest.raises(perfring.BadType, match=r"the ring has no type 'app\.Tick'"):
        batch.numpy("app.Tick")
    with pytest.raises(TypeError, match="a type is a name, a number"):
        batch.numpy(1.5)  # type: ignore[arg-type]
    del batch
    assert array["h"].sum() == sum(range(80))


def test_one_run_of_another_type_or_length_is_not_taken_for_what_was_asked_for(
    tmp_path: Path,
) -> None:
    one = perfring.record_type("app.One", np.dtype([("n", "u8")]))
    two = perfring.record_type("app.Two", np.dtype([("x", "f8")]))  # as long
    with perfring.Producer.create(tmp_path / "ring") as producer:
        producer.register(two)
        producer.publish_array(np.arange(3, dtype="u8"), one)
    batch = perfring.Snapshot(tmp_path / "ring").drain()
    assert batch.numpy(one)["n"].tolist() == [0, 1, 2]
    assert batch.numpy(two).tolist() == []
    with perfring.Producer.create(tmp_path / "long") as producer:
        producer.register(one)
        producer.publish(bytes(16), one.id)
    with pytest.raises(perfring.BadType, match="a record has 16 bytes"):
        perfring.Snapshot(tmp_path / "long").drain().numpy(one)


def test_pinned_records_are_an_array_in_the_ring(tmp_path: Path) -> None:
    producer = perfring.Producer.create(tmp_path / "ring")
    ticks(producer, range(100))
    consumer = perfring.Consumer(tmp_path / "ring")
    batch = consumer.pin()
    array = batch.numpy(Numbers)
    assert array["h"].tolist() == list(range(100))
    assert array.strides != (array.itemsize,)  # headers stand between
    assert array.base is not None
    assert not array.flags.owndata
    del batch
    consumer.close()
    producer.close()
    assert array["h"].tolist() == list(range(100))


def test_pinned_records_between_others_are_copied_out(tmp_path: Path) -> None:
    producer = perfring.Producer.create(tmp_path / "ring")
    ticks(producer, range(5))
    producer.publish(b"between")
    ticks(producer, range(5, 9))
    array = perfring.Consumer(tmp_path / "ring").pin().numpy(Numbers)
    assert array["h"].tolist() == list(range(9))
    assert not array.flags.writeable


def test_arrow_of_one_type_has_its_fields(ring: Path) -> None:
    with perfring.Consumer(ring) as consumer:
        for name in TYPES:
            batch = consumer.drain(1)
            arrow = batch.to_arrow()
            arrow.validate(full=True)
            fields = json.loads(TYPES[batch_type(batch)].json)["fields"]
            own = [f["name"] for f in fields]
            assert arrow.schema.names == ["pos", *own], name
    assert batch_type(batch) == "agree.Numbered"


def batch_type(batch: perfring.Batch) -> str:
    record = batch[0]
    assert record.type_name is not None
    return record.type_name


def test_arrow_of_several_types_has_payloads_without_a_copy(ring: Path) -> None:
    snapshot = perfring.Snapshot(ring)
    batch = snapshot.drain()
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert arrow.schema.names == ["pos", "type", "type_name", "payload"]
    records = list(batch)
    assert arrow["payload"].to_pylist() == [bytes(record) for record in records]  # type: ignore[arg-type]
    assert arrow["type"].to_pylist() == [record.type for record in records]  # type: ignore[union-attr]
    assert arrow["type_name"].to_pylist() == [record.type_name for record in records]  # type: ignore[union-attr]
    assert arrow["pos"].to_pylist() == [record.pos for record in records]
    inside = np.frombuffer(batch, np.uint8)
    assert arrow["payload"].buffers()[2].address == inside.ctypes.data
    assert pa.record_batch(batch).equals(arrow)  # by `__arrow_c_array__`
    frame = batch.to_pandas()
    assert frame["type_name"].tolist() == [record.type_name for record in records]  # type: ignore[union-attr]


def test_arrow_of_pinned_records(ring: Path) -> None:
    with perfring.Consumer(ring) as consumer:
        batch = consumer.pin()
        payloads = [bytes(record) for record in batch]  # type: ignore[arg-type]
        assert batch.to_arrow()["payload"].to_pylist() == payloads


def test_arrow_has_units_and_labels_and_never_two_columns_of_one_name() -> None:
    spec = {
        "name": "any.Clash",
        "encoding": "pod",
        "size": 16,
        "fields": [
            {"name": "pos", "kind": "u64", "unit": "m", "help": "Where."},
            {"name": "field.pos", "at": 8, "kind": "u32"},
            {"name": "site", "constant": "here"},
            {
                "name": "side",
                "at": 12,
                "kind": "enum",
                "of": {"kind": "u8"},
                "labels": [{"value": 1, "name": "Buy"}, {"value": 2, "name": "Sell"}],
            },
        ],
    }
    kind = _describe(json.dumps(spec))
    payloads = [struct.pack("QIB3x", n, n, n) for n in (2, 1, 7)]
    arrow = _arrays.to_arrow(Fake(kind, payloads))
    assert arrow.schema.names == ["pos", "field.pos", "field.field.pos", "site", "side"]
    assert arrow["field.pos"].to_pylist() == [2, 1, 7]
    assert arrow["site"].to_pylist() == ["here"] * 3
    assert arrow["side"].to_pylist() == ["Sell", "Buy", "7"]
    assert arrow.schema.field("field.pos").metadata == {b"unit": b"m", b"help": b"Where."}
    frame = _arrays.to_pandas(Fake(kind, payloads))
    assert frame["side"].cat.categories.tolist() == ["Buy", "Sell", "7"]


def test_bytes_that_are_none_of_their_kind_do_no_harm() -> None:
    dtype = np.dtype([("t", "S3"), ("b", "?"), ("c", "U1")])
    kind = perfring.record_type("any.Odd", dtype)
    odd = [struct.pack("=3sBI", b"\xff\xfe", 2, code) for code in (0xFFFF_FFFF, 0xD800)]
    arrow = _arrays.to_arrow(Fake(kind, odd))
    arrow.validate(full=True)
    for nth in range(2):
        assert [arrow[name][nth].as_py() for name in "tbc"] == ["\ufffd\ufffd", True, "\ufffd"]


def test_a_number_that_another_type_has_is_not_mistaken(ring: Path) -> None:
    other = perfring.record_type("other.Name", perfring.dtype_of(TYPES["agree.Numbered"]), id=4711)
    with pytest.raises(perfring.BadType, match=r"0x1267 is agree\.Numbered in this ring, with"):
        perfring.Snapshot(ring).drain().numpy(other)


def test_an_empty_batch(tmp_path: Path) -> None:
    perfring.Producer.create(tmp_path / "ring").close()
    batch = perfring.Snapshot(tmp_path / "ring").drain()
    assert batch.numpy(Trade).shape == (0,)
    assert batch.numpy(PACKED).dtype == PACKED
    with pytest.raises(perfring.BadType, match="an empty batch has no type"):
        batch.numpy()
    assert batch.to_arrow().num_rows == 0


@pytest.mark.parametrize("typed", [False, True])
def test_records_without_a_type_are_in_a_frame_too(tmp_path: Path, typed: bool) -> None:
    expected: list[str | None] = [None, None]
    with perfring.Producer.create(tmp_path / "ring") as producer:
        producer.publish(b"plain")
        producer.publish(b"more", 5000)
        if typed:
            fields = [("a", "u8")]
            # Two of one name, as of two versions of a program.
            for version in (1, 2):
                producer.publish(bytes(8), perfring.record_type("a.B", fields, version=version))
            expected += ["a.B", "a.B"]
    batch = perfring.Snapshot(tmp_path / "ring").drain()
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert arrow["type_name"].to_pylist() == expected
    assert arrow["type_name"].dictionary.null_count == 0
    for frame in (batch.to_pandas(), pa.record_batch(batch).to_pandas()):
        names = frame["type_name"]
        assert [None if none else name for name, none in zip(names, names.isna(), strict=True)] == (
            expected
        )
        assert frame["payload"].tolist()[:2] == [b"plain", b"more"]


def test_who_wrote_a_record_is_two_columns(command: str, tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    options = ["--producers", "cpu", "--time", "--sample-id"]
    subprocess.run([command, "create", rings, *options], check=True)
    with subprocess.Popen([command, "publish", rings], stdin=subprocess.PIPE) as publisher:
        publisher.communicate(b"one\ntwo\n")
    pids = []
    for ring in rings.iterdir():
        columns = perfring.Snapshot(ring).drain().to_arrow().to_pydict()
        assert columns["pid"] == columns["tid"]
        pids += columns["pid"]
    assert pids == [publisher.pid] * 2
