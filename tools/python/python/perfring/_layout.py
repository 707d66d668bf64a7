"""Lays out the fields of a record as ``#[repr(C)]`` does, and encodes their values.

A `Shape` is the layout of one field. `shape_of` returns the shape of an annotation.
"""

import enum
import struct
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeAlias

from ._errors import BadType

ORDER: typing.Literal["<", ">"] = "<" if sys.byteorder == "little" else ">"


@dataclass(frozen=True)
class Kind:
    """In an ``Annotated``, the kind of a number: `U8` to `F64` use it."""

    name: str


@dataclass(frozen=True)
class Text:
    """In ``Annotated[str, ...]``, the bytes of the text."""

    size: int


@dataclass(frozen=True)
class Raw:
    """In ``Annotated[bytes, ...]``, the number of bytes."""

    size: int


@dataclass(frozen=True)
class Array:
    """In ``Annotated[tuple[T, ...], ...]``, the number of values."""

    count: int


@dataclass(frozen=True)
class Info:
    """In an ``Annotated``, a description of the field for readers."""

    unit: str = ""
    help: str = ""
    name: str = ""
    labels: tuple[str, ...] = ()


Put: TypeAlias = Callable[[Any, list[Any]], None]
Take: TypeAlias = Callable[[Iterator[Any]], Any]


@dataclass(frozen=True)
class Shape:
    """The shape of a field."""

    size: int
    align: int
    json: dict[str, Any]
    """As in the type table, from ``kind`` on."""
    format: str
    """For `struct`, without the byte order."""
    put: Put | None = None
    """Appends what `struct` packs; ``None`` if that is the value itself."""
    take: Take | None = None
    """Converts what `struct` unpacked; ``None`` if that is the value itself."""


# Format and size of each plain kind; the size is the alignment as well.
_PLAIN = {
    "u8": ("B", 1),
    "u16": ("H", 2),
    "u32": ("I", 4),
    "u64": ("Q", 8),
    "i8": ("b", 1),
    "i16": ("h", 2),
    "i32": ("i", 4),
    "i64": ("q", 8),
    "f32": ("f", 4),
    "f64": ("d", 8),
    "bool": ("?", 1),
}
# The kinds that each Python type can have.
_STANDS_AS = {
    int: frozenset({"u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128"}),
    float: frozenset({"f32", "f64"}),
    str: frozenset({"char"}),
    bool: frozenset({"bool", "u8"}),
}
# The integers that an enumeration can be, as Rust's `#[repr(...)]` has them.
_RANGES = {
    name: range(1 << 8 * size) if name[0] == "u" else range(-(1 << 8 * size - 1), 1 << 8 * size - 1)
    for name, (_, size) in _PLAIN.items()
    if name[0] in "ui"
}

RECORD = "__record__"
"""The attribute of a record's class that holds its `_Record`."""


def align_up(at: int, align: int) -> int:
    """Return the next multiple of ``align``."""
    return -(-at // align) * align


def plain(kind: str) -> Shape:
    """Return the shape of a number, a truth value or a character."""
    if kind in _PLAIN:
        letter, size = _PLAIN[kind]
        return Shape(size, size, {"kind": kind}, letter)
    if kind == "char":
        return Shape(
            4,
            4,
            {"kind": kind},
            "I",
            put=lambda value, out: out.append(ord(value)),
            take=lambda leaves: chr(next(leaves)),
        )
    signed = kind == "i128"

    def put(value: int, out: list[Any]) -> None:
        out.append(int(value).to_bytes(16, sys.byteorder, signed=signed))

    def take(leaves: Iterator[Any]) -> int:
        return int.from_bytes(next(leaves), sys.byteorder, signed=signed)

    # A record begins at a multiple of 8, so no field has a larger alignment.
    return Shape(16, 8, {"kind": kind}, "16s", put, take)


def text(size: int) -> Shape:
    """Return the shape of a text: UTF-8, padded with zeros."""

    def put(value: str, out: list[Any]) -> None:
        if not isinstance(value, str):
            raise TypeError(f"it takes a str, and {value!r} is none")
        data = value.encode()
        if len(data) > size:
            raise ValueError(f"{value!r} takes {len(data)} bytes, and there are {size}")
        out.append(data)

    def take(leaves: Iterator[Any]) -> str:
        data: bytes = next(leaves)
        return data.rstrip(b"\0").decode(errors="replace")

    return Shape(size, 1, {"kind": "text", "size": size}, f"{size}s", put, take)


def raw(size: int) -> Shape:
    """Return the shape of bytes."""

    def put(value: bytes, out: list[Any]) -> None:
        try:
            # Of an int, `bytes` would make so many zeros.
            data = value if isinstance(value, bytes) else memoryview(value).tobytes()
        except TypeError:
            raise TypeError(f"it takes bytes, and {value!r} is none") from None
        if len(data) != size:
            raise ValueError(f"it has {len(data)} bytes, and it takes {size}")
        out.append(data)

    return Shape(size, 1, {"kind": "bytes", "size": size}, f"{size}s", put)


def array(of: Shape, count: int) -> Shape:
    """Return the shape of an array."""
    put_one, take_one = of.put, of.take

    def put(value: Sequence[Any], out: list[Any]) -> None:
        if len(value) != count:
            raise ValueError(f"it has {len(value)} values, and it takes {count}")
        if put_one is None:
            out.extend(value)
        else:
            for item in value:
                put_one(item, out)

    def take(leaves: Iterator[Any]) -> tuple[Any, ...]:
        if take_one is None:
            return tuple(islice(leaves, count))
        return tuple(take_one(leaves) for _ in range(count))

    json = {"kind": "array", "count": count, "of": of.json}
    many = f"{count}{of.format}" if len(of.format) == 1 else of.format * count
    return Shape(of.size * count, of.align, json, many, put, take)


def labelled(of: Shape, values: type[enum.IntEnum], names: Sequence[str]) -> Shape:
    """Return the shape of an enumeration: an integer whose values have names."""
    members = list(values)
    if names and len(names) != len(members):
        raise BadType(
            f"{values.__name__} has {len(members)} values, and {len(names)} labels are given"
        )
    labels = [
        {"value": member.value, "name": name}
        for member, name in zip(members, names or [m.name for m in members], strict=True)
    ]
    known = {member.value: member for member in members}

    def take(leaves: Iterator[Any]) -> int:
        value: int = next(leaves)
        return known.get(value, value)  # of a newer program: a number without a name here

    json = {"kind": "enum", "of": of.json, "labels": labels}
    return Shape(of.size, of.align, json, of.format, None, take)


def shape_of(annotation: Any) -> tuple[Shape, Info]:
    """Return the shape of an annotation, and its description.

    Raises:
        BadType: It has no shape; the message says what to write.
    """
    marks: list[Any] = []
    info = Info()
    while typing.get_origin(annotation) is Annotated:
        annotation, *more = typing.get_args(annotation)
        marks = [*more, *marks]
    found: list[Any] = []
    for mark in marks:
        if isinstance(mark, Info):
            info = mark
        elif typing.get_origin(mark) is Annotated:  # `Annotated[State, U8]`
            found += [one for one in typing.get_args(mark)[1:] if isinstance(one, Kind)]
        elif isinstance(mark, Kind | Text | Raw | Array):
            found.append(mark)
    if len(found) > 1:
        raise BadType(f"it has two annotations: {found[0]} and {found[1]}")
    return _shape(annotation, found[0] if found else None, info), info


def _shape(annotation: Any, mark: Kind | Text | Raw | Array | None, info: Info) -> Shape:
    if isinstance(annotation, type) and RECORD in vars(annotation) and mark is None:
        shape: Shape = vars(annotation)[RECORD].shape
        return shape
    if isinstance(annotation, type) and issubclass(annotation, enum.IntEnum):
        return _enum(annotation, mark, info)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    match mark:
        case Kind(name) if annotation in (int, float, str, bool):
            if name in _STANDS_AS[annotation]:
                return plain(name)
        case Text(size) if annotation is str:
            return text(size)
        case Raw(size) if annotation is bytes:
            return raw(size)
        case Array(count) if origin is tuple and len(args) == 2 and args[1] is ...:
            return array(shape_of(args[0])[0], count)
        case None if annotation in (int, float, bool):
            return plain({int: "i64", float: "f64", bool: "bool"}[annotation])
        case None if origin is tuple and args and ... not in args:
            shapes = [shape_of(arg)[0] for arg in args]
            if any(shape.json != shapes[0].json for shape in shapes):
                raise BadType(
                    "the layout of a tuple of different types is not stable: use a record as field"
                )
            return array(shapes[0], len(args))
    raise BadType(_advice(annotation, origin, mark))


def _enum(values: type[enum.IntEnum], mark: object, info: Info) -> Shape:
    numbers = [member.value for member in values]
    if not numbers:
        raise BadType(f"{values.__name__} has no values")
    if mark is None and min(numbers) >= 0 and max(numbers) < 256:
        mark = Kind("u8")
    if not isinstance(mark, Kind) or mark.name not in _RANGES:
        raise BadType(
            f"say how many bytes {values.__name__} has: Annotated[{values.__name__}, U32]"
        )
    wrong = [n for n in numbers if n not in _RANGES[mark.name] or n not in _RANGES["i64"]]
    if wrong:
        raise BadType(f"{wrong[0]} of {values.__name__} is beyond {mark.name}")
    return labelled(plain(mark.name), values, info.labels)


def _advice(annotation: Any, origin: Any, mark: object) -> str:
    name = getattr(annotation, "__name__", None) or str(annotation)
    if isinstance(mark, Kind):
        own = {int: "U8 and the like", float: "F32 or F64", str: "Char, or text(n)"}
        what = own.get(annotation)
        return f"{mark.name} is not what {name} stands as" + (f": use {what}" if what else "")
    if mark is not None:
        return f"{mark} does not go with {name}"
    if annotation is str:
        return "say how many bytes the text may have: Annotated[str, text(16)]"
    if annotation is bytes:
        return "say how many bytes there are: Annotated[bytes, raw(16)]"
    if origin in (typing.Union, types.UnionType):
        return "None has no bytes: let one value mean none"
    if annotation in (list, tuple) or origin in (list, tuple):
        return "say how many values there are: Annotated[tuple[F64, ...], array(4)]"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return f"let {name} be an enum.IntEnum: its value is an integer"
    if isinstance(annotation, type) and hasattr(annotation, "__dataclass_fields__"):
        return f"{name} is a dataclass that is not a record: decorate it with @perfring.record"
    return (
        f"no shape is known for {name}: use int, float, bool, perfring.U8 and the like, "
        "Annotated[str, text(n)], Annotated[bytes, raw(n)], an IntEnum, a record, or tuples of them"
    )


@dataclass(frozen=True)
class Place:
    """A field of a record and its offset."""

    attribute: str
    name: str | None
    """The name in the type table; ``None`` for padding, which is not in it."""
    at: int
    shape: Shape
    info: Info


def lay_out(fields: Sequence[tuple[str, Shape, Info]]) -> tuple[list[Place], int, int]:
    """Return the places of the fields, and size and alignment of the record."""
    places, end, align = [], 0, 1
    for attribute, shape, info in fields:
        at = align_up(end, shape.align)
        hidden = attribute.startswith("_") and not info.name
        name = None if hidden else info.name or attribute
        places.append(Place(attribute, name, at, shape, info))
        end, align = at + shape.size, max(align, shape.align)
    return places, align_up(end, align), align


def fields_json(places: Sequence[Place]) -> list[dict[str, Any]]:
    """Return the fields as in the type table."""
    named = [(place, place.name) for place in places if place.name is not None]
    names = [name for _, name in named]
    for name in names:
        if names.count(name) > 1:
            raise BadType(f"two fields have the name {name!r}")
    return [
        {
            "name": name,
            "at": place.at,
            **place.shape.json,
            "unit": place.info.unit,
            "help": place.info.help,
        }
        for place, name in named
    ]


def format_of(places: Sequence[Place], size: int) -> str:
    """Return the format for `struct`, with zeros in gaps."""
    parts, end = [], 0
    for place in places:
        if place.at > end:
            parts.append(f"{place.at - end}x")
        parts.append(place.shape.format)
        end = place.at + place.shape.size
    return "".join(parts) + (f"{size - end}x" if size > end else "")


def packer(format: str) -> struct.Struct:
    """Return a `struct.Struct` in native byte order, without added gaps."""
    return struct.Struct(ORDER + format)
