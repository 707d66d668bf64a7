"""Typed records: dataclasses with the layout of a Rust struct.

```rust
#[repr(C)]
#[derive(Clone, Copy, Record, Pod, Zeroable)]
#[record(name = "market.Trade")]
struct Trade { price: f64, #[record(text)] symbol: [u8; 6], size: u16 }
```

is the same type, with the same number, as

>>> from typing import Annotated
>>> import perfring
>>> @perfring.record(name="market.Trade")
... class Trade:
...     price: float
...     symbol: Annotated[str, perfring.text(6)]
...     size: perfring.U16
>>> trade = Trade(9.5, "ACME", 100)
>>> perfring.unpack(Trade, perfring.pack(trade)) == trade
True

Padding that Rust needs as a field, such as ``_pad: [u8; 3]``, is left out here and filled with
zeros. A field whose name begins with ``_`` takes space and is not in the type table, as in Rust.
"""

import dataclasses
import inspect
import json
import struct
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, dataclass_transform, overload

from . import _layout
from ._errors import BadType
from ._layout import RECORD, Place, Shape
from ._native import Record, RecordType, _describe

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance
    from numpy.typing import DTypeLike

    from ._native import _Data

__all__ = ["dtype_of", "pack", "record", "record_type", "spec_of", "type_of", "unpack"]

C = TypeVar("C", bound=type[Any])
R = TypeVar("R", bound="DataclassInstance")
Kind: TypeAlias = Literal[
    "plain", "log", "span_start", "span_end", "gauge", "sum", "histogram", "resource"
]

# The attributes that the decorated class gets besides its fields.
_OWN = ("id", "pack", "unpack")


@overload
def record(cls: C, /) -> C: ...


@overload
@dataclass_transform(field_specifiers=(dataclasses.field,))
def record(
    *,
    name: str = "",
    version: int = 1,
    id: int | None = None,
    help: str = "",
    kind: Kind = "plain",
) -> Callable[[C], C]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def record(
    cls: type[Any] | None = None,
    /,
    *,
    name: str = "",
    version: int = 1,
    id: int | None = None,
    help: str = "",
    kind: Kind = "plain",
) -> Any:
    """Make a class a record, with its fields laid out as by ``#[repr(C)]``.

    A class that is not a dataclass becomes one. `pack` converts an object to a payload, and
    `unpack` a payload to an object. `type_of` returns the type, whose ``id`` follows from name,
    version and layout and is the same in Rust. The class has ``Trade.id``, ``trade.pack()`` and
    ``Trade.unpack(data)`` as shortcuts, which type checkers do not know.

    ==========================================  =================================
    ``int``, `U8` ... `U64`, `I8` ... `I64`     ``i64``, ``u8`` ...
    ``float``, `F32`                            ``f64``, ``f32``
    ``Annotated[str, text(8)]``                 ``#[record(text)] [u8; 8]``
    ``Annotated[bytes, raw(8)]``                ``#[record(hex)] [u8; 8]``
    ``tuple[F64, F64]``                         ``[f64; 2]``
    ``Annotated[tuple[F64, ...], array(64)]``   ``[f64; 64]``
    an ``IntEnum``, ``Annotated[State, U16]``   ``Enum<State>``, of ``u8``, ``u16``
    another record                              another struct
    ``bool``, `Char`, `U128`, `I128`            none that is `Pod`: see below
    ==========================================  =================================

    Not every byte is a valid `bool`, so Rust's ``#[derive(Record)]`` has no such field. Readers
    show it; a Rust program that needs the struct itself implements ``Shaped`` for a type around
    a ``u8``. The same holds for ``char`` and a ``u32``, and for 128 bits, at multiples of 8,
    and two ``u64``.

    Args:
        cls: The class, for ``@record`` without arguments.
        name: The type's name, usually ``program.Type``. By default the module's first part, or the
            script's name, and the class's.
        version: Increase it when the meaning changes.
        id: The type's number, by default a hash of its layout.
        help: Its meaning, by default the first paragraph of the docstring.
        kind: What the sidecar takes it for: ``plain``, ``log``, ``span_start``, ``span_end``,
            ``gauge``, ``sum``, ``histogram``, ``resource``.

    Raises:
        BadType: A field cannot be in a record; the message says what to write.

    >>> import enum, perfring
    >>> class Side(enum.IntEnum):
    ...     Buy = 0
    ...     Sell = 1
    >>> @perfring.record(name="market.Trade", version=2)
    ... class Trade:
    ...     price: float
    ...     side: Side
    >>> trade = Trade(9.5, Side.Sell)
    >>> len(perfring.pack(trade)) # with seven bytes of padding, a field in Rust
    16
    >>> perfring.unpack(Trade, perfring.pack(trade))
    Trade(price=9.5, side=<Side.Sell: 1>)
    """

    def make(cls: type[Any]) -> type[Any]:
        about = help or _first_paragraph(cls)
        if "__dataclass_fields__" not in vars(cls):
            cls = dataclasses.dataclass(cls)
        made = _Record(cls, name or _default_name(cls), version, id, about, kind)
        setattr(cls, RECORD, made)
        cls.id = made.type.id
        cls.pack = made.pack
        cls.unpack = staticmethod(made.unpack)
        return cls

    return make if cls is None else make(cls)


def _first_paragraph(cls: type[Any]) -> str:
    doc = inspect.cleandoc(vars(cls).get("__doc__") or "")
    if doc.startswith(f"{cls.__name__}("):  # what `dataclass` writes
        return ""
    return " ".join(doc.split("\n\n")[0].split())


def _default_name(cls: type[Any]) -> str:
    module = cls.__module__.split(".")[0]
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and file:
        module = Path(file).stem
    return f"{module}.{cls.__name__}"


class _Record:
    """The layout and type of a record's class."""

    def __init__(
        self, cls: type[Any], name: str, version: int, id: int | None, help: str, kind: Kind
    ) -> None:
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except NameError as error:
            raise BadType(
                f"{cls.__name__}: {error}: annotations are looked up in the module, so define "
                "their names there"
            ) from error
        fields = []
        self.by_name = False
        for field in dataclasses.fields(cls):
            try:
                if field.name in _OWN:
                    raise BadType(
                        f"the class has its own {field.name}: give the attribute another name, "
                        f'and write Annotated[..., info(name="{field.name}")]'
                    )
                if not field.init:
                    raise BadType("a field with init=False could not be read back")
                fields.append((field.name, *_layout.shape_of(hints[field.name])))
            except BadType as error:
                raise BadType(f"{cls.__name__}.{field.name}: {error}") from None
            self.by_name = self.by_name or field.kw_only is True
        if not fields:
            raise BadType(f"{cls.__name__} has no fields")
        self.cls = cls
        self.places, self.size, align = _layout.lay_out(fields)
        json_fields = _layout.fields_json(self.places)
        self.packer = _layout.packer(_layout.format_of(self.places, self.size))
        self.shape = Shape(
            self.size,
            align,
            {"kind": "struct", "size": self.size, "fields": json_fields},
            _layout.format_of(self.places, self.size),
            self.put,
            self.take,
        )
        self.type = _describe(
            _spec(
                name,
                version,
                {"size": self.size, "fields": json_fields},
                id=id,
                help=help,
                kind=kind,
            )
        )
        self.is_plain = not self.by_name and all(
            place.shape.put is None and place.shape.take is None for place in self.places
        )

    def put(self, value: Any, out: list[Any]) -> None:
        if not isinstance(value, self.cls):
            raise TypeError(f"{value!r} is not a {self.cls.__name__}")
        for place in self.places:
            item = getattr(value, place.attribute)
            if place.shape.put is None:
                out.append(item)
            else:
                place.shape.put(item, out)

    def take(self, leaves: Iterator[Any]) -> Any:
        values = [
            next(leaves) if place.shape.take is None else place.shape.take(leaves)
            for place in self.places
        ]
        if self.by_name:
            names = [place.attribute for place in self.places]
            return self.cls(**dict(zip(names, values, strict=True)))
        return self.cls(*values)

    @property
    def pack(self) -> Callable[[Any], bytes]:
        return _packing(self)

    def unpack(self, buffer: Any) -> Any:
        """Convert a payload to an object."""
        try:
            leaves = self.packer.unpack(buffer)
        except struct.error:
            raise BadType(
                f"the record is not a valid {self.type.name}: it has "
                f"{memoryview(buffer).nbytes} bytes instead of {self.size}"
            ) from None
        return self.cls(*leaves) if self.is_plain else self.take(iter(leaves))


def _packing(of: _Record) -> Callable[[Any], bytes]:
    """Return the method ``pack``, a function as it is looked up on the object."""
    places, packer = of.places, of.packer

    if len(places) > 1 and all(place.shape.put is None for place in places):
        values: Callable[[Any], Iterable[Any]] = attrgetter(*[place.attribute for place in places])
    else:

        def values(value: Any) -> Iterable[Any]:
            leaves: list[Any] = []
            of.put(value, leaves)
            return leaves

    def pack(self: Any) -> bytes:
        """Return the payload of the object's fields."""
        try:
            return packer.pack(*values(self))
        except (struct.error, ValueError, TypeError, OverflowError, AttributeError) as error:
            raise _field_error(places, self, error) from error

    return pack


def _field_error(places: list[Place], value: Any, error: Exception) -> Exception:
    """Return the error for the field that cannot be packed."""
    for place in places:
        leaves: list[Any] = []
        try:
            item = getattr(value, place.attribute)
            if place.shape.put is None:
                leaves.append(item)
            else:
                place.shape.put(item, leaves)
            _layout.packer(place.shape.format).pack(*leaves)
        except (struct.error, ValueError, TypeError, OverflowError) as wrong:
            what = f"{type(value).__name__}.{place.attribute}: {wrong}"
            return TypeError(what) if isinstance(wrong, TypeError) else ValueError(what)
    return error


def _spec(
    name: str,
    version: int,
    layout: Mapping[str, Any],
    *,
    id: int | None = None,
    help: str = "",
    kind: Kind = "plain",
) -> str:
    spec: dict[str, Any] = {"name": name, "version": version, "encoding": "pod", "class": kind}
    spec |= {"help": help, **layout}
    if id is not None:
        spec["id"] = id
    return json.dumps(spec)


def _record_of(what: object) -> _Record:
    cls = what if isinstance(what, type) else type(what)
    found: _Record | None = vars(cls).get(RECORD)
    if found is None:
        raise BadType(f"{cls.__name__} is not a record: decorate it with @perfring.record")
    return found


def pack(value: "DataclassInstance") -> bytes:
    """Return the payload of a record's object.

    Raises:
        ValueError: A value does not fit in its field; the message names the field.
        TypeError: A value's type differs from its field's.
    """
    if isinstance(value, type):
        raise TypeError(f"{value.__name__} is a class: pass an object of it")
    packed: bytes = _record_of(value).pack(value)
    return packed


def unpack(cls: type[R], buffer: "_Data") -> R:
    """Convert a payload, or a `Record`, to an object of a record's class.

    Raises:
        BadType: The payload has another size, or the record another type.
    """
    of = _record_of(cls)
    if isinstance(buffer, Record) and buffer.type != of.type.id:
        name = buffer.type_name or f"number {buffer.type}"
        raise BadType(f"the record is not a {cls.__name__} ({of.type.name}): its type is {name}")
    unpacked: R = of.unpack(buffer)
    return unpacked


def type_of(what: "RecordType | DataclassInstance | type[DataclassInstance]") -> RecordType:
    """Return the type of a record's class, or of an object of one.

    >>> import perfring
    >>> @perfring.record(name="demo.Tick")
    ... class Tick:
    ...     at: perfring.U64
    >>> perfring.type_of(Tick)
    RecordType("demo.Tick", version=1, pod, 8 bytes, fields: at, id=0x...)
    """
    return what if isinstance(what, RecordType) else _record_of(what).type


def dtype_of(
    what: "RecordType | DataclassInstance | type[DataclassInstance]",
) -> "np.dtype[Any]":
    """Return the numpy dtype of a plain type: a `RecordType`, or a class made by ``@record``.

    Every field has its offset in the payload. Types that numpy does not have are converted:

    ===============  =====================================================================
    text             ``S``, bytes without the zeros at their end
    bytes, 128 bits  ``V``
    char             ``U1``; a NUL reads as the empty text
    an enumeration   its integer; ``dtype[name].metadata["labels"]`` has the names by value
    constants        left out: they are not in the payload
    ===============  =====================================================================

    ``metadata`` also has ``unit`` and ``help``, where the type has them.

    Raises:
        BadType: It is a tagged record, an rkyv archive, JSON, text or bytes, whose fields have no
            fixed offsets; use ``record.value``.

    >>> import perfring
    >>> @perfring.record(name="demo.Reading")
    ... class Reading:
    ...     at: perfring.U64
    ...     on: bool
    >>> perfring.dtype_of(Reading)["on"]
    dtype('bool')
    """
    dtype: np.dtype[Any] = type_of(what).dtype
    return dtype


def record_type(
    name: str,
    dtype: "DTypeLike",
    *,
    version: int = 1,
    id: int | None = None,
    help: str = "",
    kind: Kind = "plain",
) -> RecordType:
    """Return a type with the fields of a structured numpy dtype, at their offsets.

    A Rust struct with ``#[repr(C)]`` has the layout of ``np.dtype(..., align=True)``, one with
    ``#[repr(C, packed)]`` that of a dtype without ``align``. ``S`` is text, ``V`` bytes, ``U1`` a
    character; ``metadata`` of a field's dtype may have ``unit``, ``help`` and ``labels``, a dict
    from numbers to names. Fields that begin with ``_`` are not in the type.

    Args:
        name: The type's name, usually ``program.Type``.
        dtype: A dtype, or an argument of ``np.dtype``.
        version: Increase it when the meaning changes.
        id: The type's number, by default a hash of its layout.
        help: Its meaning.
        kind: What the sidecar takes it for, as for `record`.

    Raises:
        BadType: A field cannot be in a record; the message says what to use.

    >>> import numpy as np, perfring
    >>> tick = np.dtype([("price", "f8"), ("symbol", "S6"), ("size", "u2")], align=True)
    >>> perfring.record_type("market.Trade", tick).size
    16
    """
    from . import _dtypes

    layout = _dtypes.layout_of(dtype)
    return _describe(_spec(name, version, layout, id=id, help=help, kind=kind))


def spec_of(what: Any) -> str:
    """Return the spec of a record's class, an object of one, or a type."""
    kind = type_of(what)
    spec: dict[str, Any] = json.loads(kind._known)
    return json.dumps({**spec, "id": kind.id})
