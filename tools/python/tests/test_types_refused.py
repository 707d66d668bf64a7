"""Types and values that cannot be, and what to write instead."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import perfring
import pytest
from perfring import U8, info, raw, text
from perfring._layout import RECORD
from perfring._native import _describe
from test_types import EXAMPLES, Own, Point, Side, Trade


class Colour(enum.Enum):
    RED = "red"


class Big(enum.IntEnum):
    HUGE = 1000


@dataclass
class Plain:
    a: int


def make(annotation: Any, **options: Any) -> Any:
    return perfring.record(name="bad.T", **options)(
        type("T", (), {"__annotations__": {"a": annotation}})
    )


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (str, r"T\.a: say how many bytes the text may have: Annotated\[str, text\(16\)\]"),
        (bytes, r"T\.a: say how many bytes there are: Annotated\[bytes, raw\(16\)\]"),
        (int | None, r"T\.a: None has no bytes: let one value mean none"),
        (list[int], r"T\.a: say how many values there are: .*array\(4\)"),
        (tuple[int, ...], r"T\.a: say how many values there are"),
        (tuple[int, float], r"T\.a: the layout of a tuple of different types is not stable"),
        (Colour, r"T\.a: let Colour be an enum.IntEnum"),
        (Big, r"T\.a: say how many bytes Big has: Annotated\[Big, U32\]"),
        (Annotated[Big, U8], r"T\.a: 1000 of Big is beyond u8"),
        (Annotated[Side, info(labels=("x",))], r"Side has 2 values, and 1 labels are given"),
        (Plain, r"T\.a: Plain is a dataclass that is not a record: decorate it"),
        (dict[str, int], r"T\.a: no shape is known for dict"),
        (Annotated[int, text(4)], r"T\.a: Text\(size=4\) does not go with int"),
        (Annotated[str, U8], r"T\.a: u8 is not what str stands as: use Char, or text\(n\)"),
        (Annotated[float, U8], r"T\.a: u8 is not what float stands as: use F32 or F64"),
        (Annotated[int, perfring.F32], r"T\.a: f32 is not what int stands as: use U8 and"),
        (Annotated[int, perfring.Char], r"T\.a: char is not what int stands as"),
        (Annotated[bool, perfring.F64], r"T\.a: f64 is not what bool stands as"),
        (Annotated[int, perfring.U8, perfring.U16], r"T\.a: it has two annotations"),
        (Annotated[bytes, raw(70_000)], r'"bad.T" cannot be: it has 70000 bytes'),
    ],
)
def test_a_field_that_cannot_be_is_refused_with_what_to_write(
    annotation: Any, sentence: str
) -> None:
    with pytest.raises(perfring.BadType, match=sentence):
        make(annotation)


@pytest.mark.parametrize("of", [text, raw, perfring.array])
def test_a_size_that_cannot_be_is_refused(of: Any) -> None:
    with pytest.raises(perfring.BadType, match=rf"{of.__name__}\(-1\): a size is not negative"):
        of(-1)
    with pytest.raises(perfring.BadType, match=rf"{of.__name__}\('8'\): pass a number"):
        of("8")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"id": 8}, "the id 8 is the kernel's or the ring's"),
        ({"id": 1 << 40}, "no number of 32 bits"),
        ({"version": 70_000}, "version 70000 is above 65535"),
        ({"version": -1}, "version is not an unsigned integer"),
        ({"kind": "logs"}, '"logs" is no class that this version knows'),
    ],
)
def test_a_type_that_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(perfring.BadType, match=sentence):
        make(int, **options)


def test_classes_that_cannot_be_are_refused() -> None:
    with pytest.raises(perfring.BadType, match=r"T\.id: the class has its own id"):
        perfring.record(type("T", (), {"__annotations__": {"id": int}}))
    with pytest.raises(perfring.BadType, match="T has no fields"):
        perfring.record(type("T", (), {}))
    both = {"a": int, "b": Annotated[int, info(name="a")]}
    with pytest.raises(perfring.BadType, match="two fields have the name 'a'"):
        perfring.record(type("T", (), {"__annotations__": both}))
    unset = type("T", (), {"__annotations__": {"a": int}, "a": field(init=False)})
    with pytest.raises(perfring.BadType, match="init=False"):
        perfring.record(unset)
    with pytest.raises(perfring.BadType, match="int is not a record: decorate it"):
        perfring.pack(5)  # type: ignore[arg-type]

    class Sub(Point):
        z: int

    with pytest.raises(perfring.BadType, match="Sub is not a record"):
        perfring.type_of(Sub)
    assert RECORD in vars(Point)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("f8", "float64 has no fields: a record's dtype is structured"),
        ([("a", "U5")], "field 'a': <U5 cannot be a field of a record: use S"),
        ([("a", "O")], "field 'a': object cannot .* means nothing in another process"),
        ([("a", "c16")], "field 'a': complex128 cannot .* two floats"),
        ([("a", "f2")], "use f4 or f8"),
        ([("a", "m8[2us]")], r"use m8\[ns\], or i8"),
        ([("a", ">u4")], "field 'a': >u4 has the other byte order"),
        ([("a", [("b", "O")])], "field 'a': field 'b': object"),
    ],
)
def test_a_dtype_that_cannot_be_is_refused_with_what_to_use(code: Any, sentence: str) -> None:
    with pytest.raises(perfring.BadType, match=sentence):
        perfring.record_type("bad.T", np.dtype(code))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("{", "this is no type: it is not JSON"),
        ("[]", "this is no type: expected a JSON object"),
        ("{}", 'the type "" cannot be: it has no name'),
        ('{"name":"x","encoding":"xml"}', '"xml" is no encoding'),
        ('{"name":"x","fields":[{"name":"a","kind":"u256","size":32}]}', '"u256" is no kind'),
        ('{"name":"x","encoding":"pod","fields":[{"name":"a","kind":"u8"}]}', "reach beyond"),
        ('{"name":"x","fields":[{"name":"a","constant":[1]}]}', "a constant is a truth value"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(perfring.BadType, match=sentence):
        _describe(spec)


def bad_values() -> Sequence[tuple[Any, type[Exception], str]]:
    good = EXAMPLES[1]
    numbers = EXAMPLES[0]
    nested = EXAMPLES[2]

    def with_(value: Any, **changes: Any) -> Any:
        return type(value)(**{**vars(value), **changes})

    return [
        (with_(numbers, a=256), ValueError, r"Numbers\.a: "),
        (with_(numbers, a=-1), ValueError, r"Numbers\.a: "),
        (with_(numbers, h="5"), ValueError, r"Numbers\.h: "),
        (with_(numbers, f=1e300), ValueError, r"Numbers\.f: "),
        (with_(good, symbol="1234567"), ValueError, r"Trade\.symbol: '1234567' takes 7 bytes"),
        (with_(good, symbol="äöüß"), ValueError, r"takes 8 bytes, and there are 6"),
        (with_(good, key=b"1"), ValueError, r"Trade\.key: it has 1 bytes, and it takes 5"),
        (with_(good, symbol=b"ACME"), TypeError, r"Trade\.symbol: it takes a str, and b'ACME' is"),
        (with_(good, key=5), TypeError, r"Trade\.key: it takes bytes, and 5 is none"),
        (with_(good, key=[1, 2, 3, 4, 5]), TypeError, r"Trade\.key: it takes bytes, and \[1, 2"),
        (with_(nested, line=nested.line[:1]), ValueError, r"it has 1 values, and it takes 2"),
        (with_(nested, point=good), TypeError, r"Nested\.point: Trade.* is not a Point"),
        (Own(True, "ab", 1), TypeError, r"Own\.letter: "),
        (Own(True, "a", 1 << 127), ValueError, r"Own\.wide: "),
    ]


@pytest.mark.parametrize(("value", "error", "sentence"), bad_values())
def test_a_value_that_does_not_fit_is_refused_by_name(
    value: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        perfring.pack(value)


def test_whatever_has_bytes_is_bytes() -> None:
    one = Trade(**{**vars(EXAMPLES[1]), "key": b"12345"})
    for key in (bytearray(b"12345"), memoryview(b"12345"), np.frombuffer(b"12345", "u1")):
        same = Trade(**{**vars(one), "key": key})
        assert perfring.pack(same) == perfring.pack(one)


def test_a_payload_of_another_size_is_refused() -> None:
    with pytest.raises(perfring.BadType, match=r"not a valid agree\.Trade: it has 3 bytes"):
        perfring.unpack(Trade, b"abc")
    with pytest.raises(
        perfring.BadType, match=r'not a valid "agree\.Trade": it has 3 bytes instead of 32'
    ):
        perfring.type_of(Trade).decode(b"abc")
    with pytest.raises(perfring.BadType, match=r'field "flag": 2 is not a boolean'):
        perfring.type_of(Own).decode(b"\2" + bytes(23))
