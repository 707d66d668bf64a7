"""Types: what Python and Rust say of the same record is the same."""

import copy
import enum
import json
import math
import pickle
import random
import resource
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import perfring
import pytest
from perfring import I8, I16, I32, I128, U8, U16, U32, U64, array, info, raw, text
from perfring._native import _describe
from perfring._types import spec_of

# The same as in agreement/src/structs.rs.


@perfring.record(name="agree.Numbers")
class Numbers:
    """Every number, in an order that needs padding."""

    a: U8
    b: I16
    c: I8
    d: U32
    e: U64
    f: perfring.F32
    g: I32
    h: int
    i: U16
    j: float
    k: U8


class Side(enum.IntEnum):
    Buy = 1
    Sell = 2


class Trend(enum.IntEnum):
    DOWN = -300
    UP = 300


@perfring.record(name="agree.Trade", version=3, kind="log")
class Trade:
    """A trade, as the exchange
    told it.

    More of it.
    """

    time: Annotated[U64, info(unit="ns", help="When it was made.")]
    symbol: Annotated[str, text(6)]
    side: Side
    trend: Annotated[Trend, I16, info(labels=("going down", "Up"))]
    key: Annotated[bytes, raw(5)]
    kind: Annotated[U32, info(name="r#type")]


@perfring.record
class Point:
    x: float
    y: perfring.F32
    on: U8


@perfring.record(name="agree.Nested")
class Nested:
    first: U8
    point: Point
    line: tuple[Point, Point]
    matrix: Annotated[tuple[tuple[U16, U16, U16], ...], array(2)]
    names: Annotated[tuple[Annotated[str, text(4)], ...], array(2)]
    sides: tuple[Side, Side, Side]


@perfring.record(name="agree.Own")
class Own:
    flag: bool
    letter: perfring.Char
    wide: I128


@perfring.record(name="agree.Numbered", id=4711)
@dataclass(frozen=True, kw_only=True, slots=True)
class Numbered:
    a: U32
    b: U32
    _spare: Annotated[bytes, raw(0)] = b""


@perfring.record(name="agree.Numbered", id=4711)
@dataclass(slots=True)
class Numbered2:
    a: U32
    _spare: Annotated[bytes, raw(8)]
    b: U32


PACKED = np.dtype([("a", "u1"), ("b", "u8"), ("c", "f4", 3), ("d", "S5"), ("e", "i2")])

EXAMPLES: list[Any] = [
    Numbers(250, -2, -3, 4_000_000_000, 2**64 - 6, 6.5, -7, -(2**63), 65_000, -0.1, 11),
    Trade(1 << 60, "ÜBER", Side.Sell, Trend.DOWN, b"\0\1\xfe\xff\0", 9),
    Nested(
        1,
        Point(2.5, 3.5, 4),
        (Point(5.5, 6.5, 7), Point(8.5, 9.5, 10)),
        ((11, 12, 13), (14, 15, 16)),
        ("ab", "cdef"),
        (Side.Buy, Side.Sell, Side.Buy),
    ),
    Own(True, "ß", -3),
    Numbered2(1, bytes(8), 2),
]
TYPES = {perfring.type_of(value).name: perfring.type_of(value) for value in EXAMPLES}
TYPES["agree.Packed"] = perfring.record_type("agree.Packed", PACKED)
PACKED_EXAMPLE = np.array((1, 1 << 40, (0.5, 1.5, 2.5), b"packs", -5), PACKED).tobytes()
PAYLOADS = [(perfring.type_of(value).name, perfring.pack(value)) for value in EXAMPLES]
PAYLOADS.append(("agree.Packed", PACKED_EXAMPLE))


def test_a_type_is_the_same_in_rust(rust: Callable[..., list[str]]) -> None:
    lines = [line.split("\t") for line in rust("schemas")]
    assert sorted(TYPES) == sorted(name for name, *_ in lines)
    for name, number, layout, theirs in lines:
        ours = TYPES[name]
        assert (ours.id, ours.layout) == (int(number), int(layout)), (ours.json, theirs)
        if name == "agree.Trade":  # units and help are no part of the layout
            assert ours.json == theirs


def test_rust_sees_the_values_that_python_packed(rust: Callable[..., list[str]]) -> None:
    lines = "".join(f"{name} {payload.hex()}\n" for name, payload in PAYLOADS)
    shown = dict(zip([name for name, _ in PAYLOADS], rust("show", input=lines), strict=True))
    assert shown["agree.Numbers"].startswith(
        "Numbers { a: 250, _pad: [0], b: -2, c: -3, _pad_c: [0, 0, 0], d: 4000000000, "
        "_pad_d: [0, 0, 0, 0], e: 18446744073709551610, f: 6.5, g: -7, h: -9223372036854775808, "
        "i: 65000, _pad_i: [0, 0, 0, 0, 0, 0], j: -0.1, k: 11, "
    )
    assert shown["agree.Trade"] == (
        "Trade { time: 1152921504606846976, symbol: [195, 156, 66, 69, 82, 0], side: Sell, "
        "_pad: [0], trend: going down, key: [0, 1, 254, 255, 0], _pad_key: [0], kind: 9, "
        "_pad_kind: [0, 0, 0, 0] }"
    )
    point = "Point {{ x: {}.5, y: {}.5, on: {}, _pad: [0, 0, 0] }}".format
    assert shown["agree.Nested"] == (
        f"Nested {{ first: 1, _pad: [0, 0, 0, 0, 0, 0, 0], point: {point(2, 3, 4)}, "
        f"line: [{point(5, 6, 7)}, {point(8, 9, 10)}], matrix: [[11, 12, 13], [14, 15, 16]], "
        "names: [[97, 98, 0, 0], [99, 100, 101, 102]], sides: [Buy, Sell, Buy], _pad_sides: [0] }"
    )
    assert shown["agree.Packed"] == (
        "Packed { a: 1, b: 1099511627776, c: [0.5, 1.5, 2.5], d: [112, 97, 99, 107, 115], e: -5 }"
    )
    wide = f"Wide([{2**64 - 3}, {2**64 - 1}])"
    assert shown["agree.Own"] == (
        f"Own {{ flag: Flag(1), _pad: [0, 0, 0], letter: Letter(223), wide: {wide} }}"
    )


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_what_is_packed_is_unpacked(value: Any) -> None:
    payload = perfring.pack(value)
    assert len(payload) == perfring.type_of(value).size
    again = perfring.unpack(type(value), payload)
    assert again == value
    assert perfring.unpack(type(value), memoryview(bytearray(payload))) == value
    assert type(value).unpack(value.pack()) == value
    assert type(value).id == perfring.type_of(value).id


def test_an_enumeration_comes_back_as_one_and_a_newer_value_as_its_number() -> None:
    payload = bytearray(perfring.pack(EXAMPLES[1]))
    assert perfring.unpack(Trade, payload).side is Side.Sell
    payload[14] = 77
    assert perfring.unpack(Trade, payload).side == 77
    assert perfring.type_of(Trade).decode(payload)["side"] == 77


def test_a_ring_says_what_python_said() -> None:
    values = perfring.type_of(Trade).decode(perfring.pack(EXAMPLES[1]))
    assert values == {
        "time": 1 << 60,
        "symbol": "ÜBER",
        "side": "Sell",
        "trend": "going down",
        "key": b"\0\1\xfe\xff\0",
        "r#type": 9,
    }
    assert perfring.type_of(Trade).help == "A trade, as the exchange told it."
    assert perfring.type_of(Trade).kind == "log"
    assert perfring.type_of(Own).decode(perfring.pack(EXAMPLES[3])) == {
        "flag": True,
        "letter": "ß",
        "wide": -3,
    }


def test_a_type_of_a_table_can_be_registered_in_another_ring() -> None:
    for kind in TYPES.values():
        assert _describe(spec_of(kind)) == kind
    assert perfring.type_of(Numbered2).id == 4711
    assert perfring.type_of(Trade) != perfring.type_of(Point)
    assert len({perfring.type_of(Trade), perfring.type_of(EXAMPLES[1])}) == 1


def test_a_name_is_the_modules_and_the_classs() -> None:
    assert perfring.type_of(Point).name == f"{__name__.split('.')[0]}.Point"


# Any schema: as numpy has it, as the dataclass has it, and as Rust reads it.

NUMBERS = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"]


def any_dtype(rng: random.Random, depth: int, align: bool) -> np.dtype[Any]:
    def one(depth: int) -> Any:
        match rng.randrange(12 if depth else 8):
            case 0:
                return f"S{rng.randint(1, 9)}"
            case 1:
                return f"V{rng.randint(1, 9)}"
            case 2:
                return "?"
            case 3:
                return "U1"
            case 4:
                base = np.dtype(rng.choice([code for code in NUMBERS if code[0] in "ui"]))
                labels = {n: f"v{n}" for n in rng.sample(range(100), 3)}
                return np.dtype(base, metadata={"labels": labels})
            case 8 | 9:
                of, counts = np.dtype(one(depth - 1)), (rng.randint(1, 3),) * rng.randint(1, 2)
                # numpy keeps an array of arrays apart from one of two dimensions.
                return (of.base, counts + of.shape)
            case 10 | 11:
                return any_dtype(rng, depth - 1, align)
            case _:
                return rng.choice(NUMBERS)

    fields: list[Any] = [(f"f{at}", one(depth)) for at in range(rng.randint(1, 6))]
    return np.dtype(fields, align=align)


def any_bytes(rng: random.Random, dtype: np.dtype[Any], out: bytearray, at: int) -> None:
    """Fills what is no gap with values of any size."""
    if dtype.subdtype is not None:
        of, counts = dtype.subdtype
        for item in range(math.prod(counts)):
            any_bytes(rng, of, out, at + item * of.itemsize)
    elif dtype.fields is not None:
        for of, offset, *_ in dtype.fields.values():
            any_bytes(rng, of, out, at + offset)
    else:
        size = dtype.itemsize
        match dtype.kind:
            case "b":
                data = bytes([rng.randint(0, 1)])
            case "S":
                words = ["", "a", "\0b", "äöü", "€uro", "x" * 9]
                data = rng.choice(words).encode()[:size].ljust(size, b"\0")
            case "U":
                data = np.array(rng.choice("a€😀"), "U1").tobytes()
            case "f":
                number = rng.choice([0.0, -1.5, 1e30, -math.inf, rng.random()])
                data = struct.pack("f" if size == 4 else "d", number)
            case _ if dtype.metadata:
                label = rng.choice([*dtype.metadata["labels"], 101])
                data = np.array(label, dtype).tobytes()
            case _:
                data = rng.randbytes(size)
        out[at : at + size] = data


def expected(dtype: np.dtype[Any], value: Any) -> Any:
    """What `decode` makes of a numpy value."""
    if dtype.subdtype is not None:
        of, counts = dtype.subdtype
        for _ in counts[1:]:
            of = np.dtype((of, counts[1:]))
            break
        return [expected(of, item) for item in value]
    if dtype.fields is not None:
        return {name: expected(of[0], value[name]) for name, of in dtype.fields.items()}
    match dtype.kind:
        case "S":
            return value.decode(errors="replace")
        case "V":
            return value.tobytes()
        case _ if dtype.metadata:
            return dtype.metadata["labels"].get(int(value), int(value))
        case _:
            return value.item()


@pytest.mark.parametrize("align", [False, True], ids=["packed", "aligned"])
def test_any_dtype_is_read_alike_by_numpy_and_by_rust(align: bool) -> None:
    rng = random.Random(f"any dtype {align}")
    kinds = set()
    for number in range(300):
        dtype = any_dtype(rng, 3, align)
        kind = perfring.record_type(f"any.T{number}", dtype)
        kinds.update(json.loads(kind.json)["fields"][0].items() & {("kind", "struct")})
        # The table's own type, of whoever wrote it, is the same.
        assert kind.dtype == dtype
        assert perfring.record_type(kind.name, kind.dtype) == kind
        payload = bytearray(dtype.itemsize)
        any_bytes(rng, dtype, payload, 0)
        value = np.frombuffer(payload, kind.dtype)[0]
        assert kind.decode(payload) == expected(dtype, value), kind.json
    assert kinds, "no dtype was nested"


def test_a_rust_layout_is_numpys_aligned_one() -> None:
    codes = ["u1", "i2", "i1", "u4", "u8", "f4", "i4", "i8", "u2", "f8", "u1"]
    aligned = np.dtype(list(zip("abcdefghijk", codes, strict=True)), align=True)
    assert perfring.record_type("agree.Numbers", aligned).id == Numbers.id  # type: ignore[attr-defined]
    assert perfring.dtype_of(Numbers) == aligned


def test_what_numpy_has_no_type_for() -> None:
    dtype = perfring.dtype_of(Trade)
    assert dtype["side"].metadata == {"labels": {1: "Buy", 2: "Sell"}}
    assert dtype["trend"].metadata == {"labels": {-300: "going down", 300: "Up"}}
    assert dtype["time"].metadata == {"unit": "ns", "help": "When it was made."}
    wide = perfring.dtype_of(Own)
    assert (wide["wide"], wide["letter"], wide["flag"]) == (
        np.dtype("V16"),
        np.dtype("U1"),
        np.dtype("?"),
    )
    spec = {
        "name": "any.Later",
        "encoding": "pod",
        "size": 12,
        "fields": [
            {"name": "always", "constant": 5},
            {"name": "x", "at": 4, "kind": "u64"},
        ],
    }
    later = _describe(json.dumps(spec))
    assert later.dtype.fields is not None
    assert later.dtype.names == ("x",)
    assert (later.dtype.fields["x"][1], later.dtype.itemsize) == (4, 12)
    assert later.decode(bytes(12)) == {"always": 5, "x": 0}


def test_durations_have_their_unit() -> None:
    kind = perfring.record_type("any.Took", np.dtype([("took", "m8[us]"), ("at", "M8[ns]")]))
    fields = json.loads(kind.json)["fields"]
    assert [(field["kind"], field["unit"]) for field in fields] == [("i64", "us"), ("i64", "ns")]


@pytest.mark.parametrize("encoding", ["tagged", "rkyv", "json", "utf-8", "bytes"])
def test_what_has_no_fixed_places_is_no_array(encoding: str) -> None:
    kind = _describe(json.dumps({"name": "any.Free", "encoding": encoding}))
    with pytest.raises(perfring.BadType, match=rf"any.Free are {encoding}.*use record\.value"):
        _ = kind.dtype


def test_values_of_all_encodings() -> None:
    def of(encoding: str, payload: bytes) -> Any:
        return _describe(json.dumps({"name": "any.T", "encoding": encoding})).decode(payload)

    assert of("utf-8", "grüezi".encode()) == "grüezi"
    assert of("json", b'{"a":[1,-2,null,true,0.5,18446744073709551615]}') == {
        "a": [1, -2, None, True, 0.5, 2**64 - 1]
    }
    assert of("bytes", b"\xff\0") == b"\xff\0"
    tagged = struct.pack("HBBIq", 0xFFFF, 2, 1, 8, 0)[:8] + b"n" + struct.pack("q", -5)
    assert of("tagged", tagged.ljust(24, b"\0")) == {"n": -5}
    with pytest.raises(perfring.BadType, match="it is not UTF-8"):
        of("utf-8", b"\xff")


def test_a_buffer_of_any_shape_is_decoded() -> None:
    values = np.array([(1, 2.5)], np.dtype([("a", "u8"), ("b", "f8")]))
    kind = perfring.record_type("any.Pair", values.dtype)
    assert kind.decode(values) == {"a": 1, "b": 2.5}
    assert kind.decode(memoryview(values.tobytes())) == {"a": 1, "b": 2.5}
    with pytest.raises(TypeError):
        kind.decode("text")  # type: ignore[arg-type]


def test_a_program_that_describes_types_for_ever_does_not_grow() -> None:
    spec = spec_of(Nested)

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    for _ in range(2000):
        _describe(spec)
    before = pages()
    for _ in range(20_000):
        _describe(spec)
    # A copy of the spec alone would be 20 MB.
    assert (pages() - before) * resource.getpagesize() < 4 << 20


def test_a_type_is_the_same_after_a_pickle() -> None:
    later = _describe(json.dumps({"name": "a.Log", "encoding": "json", "help": "ä", "id": 9999}))
    for kind in (*TYPES.values(), later):
        for again in (pickle.loads(pickle.dumps(kind)), copy.deepcopy(kind)):
            assert again == kind
            assert (again.id, again.layout, again.json) == (kind.id, kind.layout, kind.json)
            assert again.encoding == kind.encoding
