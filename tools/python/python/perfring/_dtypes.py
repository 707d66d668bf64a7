"""Converts between a ring's types and numpy's."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ._errors import BadType
from ._native import RecordType
from ._optional import need

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check", "layout_of"]

_CODES = {
    "u8": "u1",
    "u16": "u2",
    "u32": "u4",
    "u64": "u8",
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "f32": "f4",
    "f64": "f8",
    "bool": "?",
    "char": "U1",
    "u128": "V16",
    "i128": "V16",
}
_KINDS = {code: kind for kind, code in _CODES.items() if kind[1:] != "128"}
_UNITS = {"ns": "ns", "us": "us", "ms": "ms", "s": "s", "m": "min", "h": "h", "D": "d"}


def _dtype(kind: RecordType) -> "np.dtype[Any]":
    """Return the dtype, for `RecordType.dtype`."""
    if kind.encoding != "pod":
        raise BadType(
            f"records of {kind.name} are {kind.encoding}: their fields have no fixed offsets, so "
            "there is no array of them; use record.value"
        )
    need("numpy")
    try:
        return _of_text(kind._known)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadType(f"numpy cannot hold {kind.name}: {error}") from error


@lru_cache(maxsize=256)
def _of_text(known: str) -> "np.dtype[Any]":
    spec = json.loads(known)
    return _structure(spec.get("size", 0), spec.get("fields", []))


def _structure(size: int, fields: list[dict[str, Any]]) -> "np.dtype[Any]":
    import numpy as np

    shown = [(field, _of_shape(field)) for field in fields if "constant" not in field]
    known = [(field, dtype) for field, dtype in shown if dtype is not None]
    formats = []
    for field, dtype in known:
        about = {key: field[key] for key in ("unit", "help") if field.get(key)}
        about |= dtype.metadata or {}
        formats.append(np.dtype(dtype, metadata=about) if about else dtype)
    # `np.dtype` takes such a dict; its stubs know less.
    parts: Any = {
        "names": [field.get("name", "") for field, _ in known],
        "formats": formats,
        "offsets": [field.get("at", 0) for field, _ in known],
        "itemsize": size,
    }
    made: np.dtype[Any] = np.dtype(parts)
    return made


def _of_shape(shape: dict[str, Any]) -> "np.dtype[Any] | None":
    """Return the dtype of a shape; ``None`` if it has none."""
    import numpy as np

    kind, size = shape["kind"], shape.get("size", 0)
    if kind in _CODES:
        return np.dtype(_CODES[kind])
    match kind:
        case "text":
            return np.dtype(f"S{size}")
        case "bytes":
            return np.dtype(f"V{size}")
        case "struct":
            return _structure(size, shape.get("fields", []))
        case "array":
            counts = []
            while shape["kind"] == "array":
                counts.append(shape.get("count", 0))
                shape = shape["of"]
            of = _of_shape(shape)
            return None if of is None else np.dtype((of, tuple(counts)))
        case "enum":
            of = _of_shape(shape["of"])
            labels = {
                label.get("value", 0): label.get("name", "") for label in shape.get("labels", [])
            }
            return None if of is None else np.dtype(of, metadata={"labels": labels})
    # A kind of a later version.
    return np.dtype(f"V{size}") if size else None


@lru_cache(maxsize=256)
def check(dtype: "np.dtype[Any]", record_type: RecordType) -> None:
    """Refuse an array whose items do not match a type.

    Bytes (``V`` of the record's size, ``u1``) are accepted unchecked. A dtype without fields
    matches a record whose fields are all of it: floats for a record of three floats.

    Raises:
        BadType: It has other fields, or at other offsets; the message names the first.
    """
    if record_type.encoding != "pod":
        return
    known: np.dtype[Any] = record_type.dtype
    if not known.names or dtype.str == "|u1":
        return
    if dtype.kind != "V" and not any(_difference(dtype, leaf) for leaf in _leaves(known)):
        return
    wrong = _difference(dtype, known)
    if wrong:
        raise BadType(
            f"the array's items are not valid {record_type.name}: {wrong}; use the dtype "
            f"perfring.dtype_of(type), or V{known.itemsize} for bytes that need no check"
        )


def _difference(dtype: "np.dtype[Any]", known: "np.dtype[Any]") -> str:
    """Return how a dtype differs from another; an empty string if its bytes are the same."""
    if dtype.itemsize != known.itemsize:
        return f"it has {known.itemsize} bytes, and not {dtype.itemsize}"
    of, own = _item(dtype), _item(known)
    if of.kind == "V" and of.names is None:
        return ""
    other = f"it is {known}, and not {dtype}"
    if own.names is not None:
        if of.names is not None:
            return _other_field(of, own)
        return other if any(_difference(of, leaf) for leaf in _leaves(own)) else ""
    match own.kind:
        case "V":
            is_same = of.names is not None or of.kind == "S" or of.str == "|u1"
        case "S":
            is_same = of.kind == "S" or of.str == "|u1"
        case "i" if of.kind in "mM" and of.isnative:
            unit, step = _unit(of)
            about: Any = known.metadata or own.metadata or {}
            known_unit = about.get("unit")
            if step and known_unit in _UNITS.values() and known_unit != unit:
                return f"its unit is {known_unit}, and not {unit}"
            is_same = own.itemsize == 8 and step == 1
        case _:
            is_same = of.str == own.str and of.names is None
    return "" if is_same else other


def _other_field(dtype: "np.dtype[Any]", known: "np.dtype[Any]") -> str:
    names, present = known.names or (), dtype.names or ()
    for name in names:
        if name not in present:
            return f"there is no field {name!r}"
        at, instead = _offset(known, name), _offset(dtype, name)
        if at != instead:
            return f"field {name!r} is at byte {at}, and not {instead}"
        wrong = _difference(dtype[name], known[name])
        if wrong:
            return f"field {name!r}: {wrong}"
    # A field that begins with `_` is not in the type.
    more = [name for name in present if name not in names and not name.startswith("_")]
    return f"the type has no field {more[0]!r}" if more else ""


def _item(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """Return the dtype of an array's items; their count follows from the size."""
    return dtype if dtype.subdtype is None else dtype.subdtype[0]


def _leaves(dtype: "np.dtype[Any]") -> "list[np.dtype[Any]]":
    of = _item(dtype)
    if of.names is None:
        return [of]
    return [leaf for name in of.names for leaf in _leaves(of[name])]


def layout_of(dtype: Any) -> dict[str, Any]:
    """Return size and fields of a structured dtype, as in the type table.

    Raises:
        BadType: A field cannot be in a record; the message says what to use.
    """
    need("numpy")
    import numpy as np

    dtype = np.dtype(dtype)
    if dtype.names is None:
        raise BadType(
            f"{dtype} has no fields: a record's dtype is structured, as "
            'np.dtype([("value", "f8")])'
        )
    return {"size": dtype.itemsize, "fields": _fields(dtype)}


def _fields(dtype: "np.dtype[Any]") -> list[dict[str, Any]]:
    fields = []
    for name in dtype.names or ():
        # As in Rust: padding, which is not in the type.
        if name.startswith("_"):
            continue
        of, at = dtype[name], _offset(dtype, name)
        try:
            shape = _shape_of(of)
        except BadType as error:
            raise BadType(f"field {name!r}: {error}") from None
        about: Any = of.metadata or {}
        fields.append(
            {
                "name": name,
                "at": at,
                **shape,
                "unit": about.get("unit") or shape.get("unit", ""),
                "help": about.get("help", ""),
            }
        )
    return fields


def _offset(dtype: "np.dtype[Any]", name: str) -> int:
    fields: Any = dtype.fields
    at: int = fields[name][1]
    return at


def _shape_of(dtype: "np.dtype[Any]") -> dict[str, Any]:
    if dtype.subdtype is not None:
        of, counts = dtype.subdtype
        shape = _shape_of(of)
        for count in reversed(counts):
            shape = {"kind": "array", "count": count, "of": shape}
        return shape
    if dtype.names is not None:
        return {"kind": "struct", "size": dtype.itemsize, "fields": _fields(dtype)}
    if not dtype.isnative:
        raise BadType(
            f"{dtype} has the other byte order: use dtype.newbyteorder('=') and array.astype"
        )
    match dtype.kind:
        case "S":
            return {"kind": "text", "size": dtype.itemsize}
        case "V":
            return {"kind": "bytes", "size": dtype.itemsize}
        case "m" | "M":
            unit, step = _unit(dtype)
            if step == 1:
                return {"kind": "i64", "unit": unit}
    kind = _KINDS.get("?" if dtype.kind == "b" else dtype.str[1:])
    if kind is None:
        raise BadType(f"{dtype} cannot be a field of a record: {_advice(dtype)}")
    about: Any = dtype.metadata or {}
    labels = about.get("labels")
    if labels is None:
        return {"kind": kind}
    named = [{"value": int(value), "name": str(name)} for value, name in dict(labels).items()]
    return {"kind": "enum", "of": {"kind": kind}, "labels": named}


def _unit(dtype: "np.dtype[Any]") -> tuple[str, int]:
    import numpy as np

    unit, step = np.datetime_data(dtype)
    return _UNITS.get(unit, ""), step if unit in _UNITS else 0


def _advice(dtype: "np.dtype[Any]") -> str:
    return {
        "U": "use S, which is UTF-8 here, or U1 for one character",
        "O": "a pointer means nothing in another process",
        "c": "use a nested dtype of two floats",
        "m": "use m8[ns], or i8",
        "M": "use M8[ns], or i8",
        "f": "use f4 or f8",
    }.get(dtype.kind, "use integers, floats, S, V, or dtypes of these")
