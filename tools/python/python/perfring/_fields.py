"""What the annotations of a record's fields say."""

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
        raise BadType(f"{what}({count!r}): it takes a number, as {what}(8)")
    if count < 0:
        raise BadType(f"{what}({count}): a record has no negative part; use a number from 0 on")
    return count


def text(size: int) -> Text:
    """A text of at most so many bytes in UTF-8: ``Annotated[str, perfring.text(8)]``.

    In Rust: ``#[record(text)] [u8; 8]``.
    """
    return Text(_checked("text", size))


def raw(size: int) -> Raw:
    """Exactly so many bytes: ``Annotated[bytes, perfring.raw(16)]``.

    In Rust: ``#[record(hex)] [u8; 16]``.
    """
    return Raw(_checked("raw", size))


def array(count: int) -> Array:
    """So many values: ``Annotated[tuple[perfring.F32, ...], perfring.array(64)]``.

    In Rust: ``[f32; 64]``. Of a few values ``tuple[F32, F32]`` says the same.
    """
    return Array(_checked("array", count))


def info(*, unit: str = "", help: str = "", name: str = "", labels: tuple[str, ...] = ()) -> Info:
    """Tell readers more about a field.

    Args:
        unit: As UCUM has it: ``"ns"``, ``"By"``, ``"{request}"``.
        help: What it means.
        name: Its name in the table, if not the attribute's.
        labels: Names of an ``IntEnum``'s values, in their order, if not the members' own.

    Unit and help may change and the type is still the same; names and labels are part of it.

    >>> from typing import Annotated
    >>> import perfring
    >>> @perfring.record(name="demo.Request")
    ... class Request:
    ...     took: Annotated[perfring.U64, perfring.info(unit="ns", help="First to last byte")]
    >>> perfring.type_of(Request).fields
    ('took',)
    """
    return Info(unit, help, name, labels)
