"""The annotations of a record's fields."""

from typing import Annotated

from ._errors import BadType
from ._layout import Array, Info, Kind, Raw, Text

__all__ = [
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "I128",
    "U8",
    "U16",
    "U32",
    "U64",
    "U128",
    "Char",
    "array",
    "info",
    "raw",
    "text",
]

U8 = Annotated[int, Kind("u8")]
U16 = Annotated[int, Kind("u16")]
U32 = Annotated[int, Kind("u32")]
U64 = Annotated[int, Kind("u64")]
U128 = Annotated[int, Kind("u128")]
I8 = Annotated[int, Kind("i8")]
I16 = Annotated[int, Kind("i16")]
I32 = Annotated[int, Kind("i32")]
I64 = Annotated[int, Kind("i64")]
I128 = Annotated[int, Kind("i128")]
F32 = Annotated[float, Kind("f32")]
F64 = Annotated[float, Kind("f64")]
Char = Annotated[str, Kind("char")]


def _checked(what: str, count: int) -> int:
    if not isinstance(count, int):
        raise BadType(f"{what}({count!r}): pass a number, as in {what}(8)")
    if count < 0:
        raise BadType(f"{what}({count}): a size is not negative; use a number from 0 on")
    return count


def text(size: int) -> Text:
    """Annotate a text of at most so many bytes in UTF-8: ``Annotated[str, perfring.text(8)]``.

    In Rust: ``#[record(text)] [u8; 8]``.
    """
    return Text(_checked("text", size))


def raw(size: int) -> Raw:
    """Annotate exactly so many bytes: ``Annotated[bytes, perfring.raw(16)]``.

    In Rust: ``#[record(hex)] [u8; 16]``.
    """
    return Raw(_checked("raw", size))


def array(count: int) -> Array:
    """Annotate so many values: ``Annotated[tuple[perfring.F32, ...], perfring.array(64)]``.

    In Rust: ``[f32; 64]``. For a few values ``tuple[F32, F32]`` means the same.
    """
    return Array(_checked("array", count))


def info(*, unit: str = "", help: str = "", name: str = "", labels: tuple[str, ...] = ()) -> Info:
    """Describe a field to readers.

    Args:
        unit: Its unit in UCUM: ``"ns"``, ``"By"``, ``"{request}"``.
        help: Its meaning.
        name: Its name in the type table, if not the attribute's.
        labels: The names of an ``IntEnum``'s values, in order, if not the members' own.

    Unit and help may change without changing the type. Names and labels are part of the type.

    >>> from typing import Annotated
    >>> import perfring
    >>> @perfring.record(name="demo.Request")
    ... class Request:
    ...     took: Annotated[perfring.U64, perfring.info(unit="ns", help="First to last byte")]
    >>> perfring.type_of(Request).fields
    ('took',)
    """
    return Info(unit, help, name, labels)
