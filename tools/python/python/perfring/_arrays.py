"""Converts batches to numpy arrays, Arrow record batches and pandas frames."""

import json
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._errors import BadType
from ._layout import RECORD
from ._native import RecordType, TypeTable
from ._optional import need
from ._types import type_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

__all__ = ["numpy", "to_arrow", "to_pandas"]


builtin_type = type
Run: TypeAlias = tuple[int, int, int, int, int, int]
"""``(type, length, first, count, offset, stride)`` of records at regular distances."""


class BatchLike(Protocol):
    """The methods of a batch that are used here."""

    @property
    def _runs(self) -> list[Run]: ...

    @property
    def _span(self) -> Any:
        """The buffer of the runs."""

    @property
    def pinned(self) -> bool: ...
    @property
    def timed(self) -> bool: ...
    @property
    def sample_id(self) -> bool: ...
    @property
    def _table(self) -> TypeTable: ...
    def __len__(self) -> int: ...
    def _type_of(self, number: int, /) -> RecordType | None: ...
    def _times(self) -> bytes: ...
    def _writers(self) -> bytes: ...
    def _positions(self) -> bytes: ...
    def _types(self) -> bytes: ...
    def _offsets(self) -> bytes: ...


def numpy(batch: BatchLike, type: Any = None) -> "np.ndarray[Any, Any]":
    """Return a structured array of a batch's records of one type."""
    runs = batch._runs
    kind, dtype, number = _wanted(batch, runs, type)
    size = dtype.itemsize
    # Usually one run, of copies: this is the fast path.
    if len(runs) == 1:
        of, length, _, count, at, stride = runs[0]
        if length == stride == size != 0 and (number is None or of == number):
            array: np.ndarray[Any, Any] = _np().frombuffer(batch._span, dtype, count, at)
            return array
    if number is not None:
        runs = [run for run in runs if run[0] == number]
    for run in runs:
        if run[1] != size:
            raise BadType(
                f"a record has {run[1]} bytes, and {kind.name if kind else dtype} takes {size}: "
                "it was published with another layout, or as another type"
            )
    if len(runs) == 1 and size:
        return _strided(_np().frombuffer(batch._span, "u1"), dtype, runs[0])
    return _several(batch, runs, dtype)


def _several(batch: BatchLike, runs: list[Run], dtype: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    import numpy as np

    count, size = sum(run[3] for run in runs), dtype.itemsize
    if not count or not size:
        return _read_only(np.zeros(count, dtype))
    # Copies are contiguous; in the ring, headers are between the payloads.
    if all(before[4] + before[3] * size == after[4] for before, after in pairwise(runs)):
        return np.frombuffer(batch._span, dtype, count, runs[0][4])
    span, copy, end = np.frombuffer(batch._span, "u1"), np.empty(count, dtype), 0
    for run in runs:
        copy[end : end + run[3]] = _strided(span, dtype, run)
        end += run[3]
    return _read_only(copy)


@cache
def _np() -> Any:
    """Return the module numpy, imported at the first call."""
    return need("numpy")


def _strided(
    span: "np.ndarray[Any, Any]", dtype: "np.dtype[Any]", run: Run
) -> "np.ndarray[Any, Any]":
    import numpy as np

    _, _, _, count, at, stride = run
    return np.ndarray((count,), dtype, span, at, (stride,))


def _read_only(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    array.flags.writeable = False
    return array


def _wanted(
    batch: BatchLike, runs: list[Run], type: Any
) -> "tuple[RecordType | None, np.dtype[Any], int | None]":
    """Return the type, dtype and number of the wanted records; no number for all records."""
    if type is None:
        numbers = {run[0] for run in runs}
        if len(numbers) != 1:
            raise BadType(_say_which(batch, numbers))
        return _of_number(batch, numbers.pop())
    if isinstance(type, str):
        return _of_name(batch, runs, type)
    if isinstance(type, RecordType) or RECORD in getattr(type, "__dict__", ()):
        ours = type_of(type)
        theirs = batch._type_of(ours.id)
        if theirs is not None and theirs.layout != ours.layout:
            raise BadType(
                f"type {ours.id:#x} is {theirs.name} in this ring, with another layout than "
                f"{ours.name} has here: build both from the same definition"
            )
        return ours, ours.dtype, ours.id
    if isinstance(type, builtin_type) and issubclass(type, _np().generic):
        return _wanted(batch, runs, _np().dtype(type))
    if isinstance(type, _np().dtype):
        if type.hasobject:
            raise BadType(f"{type} holds Python objects: pointers mean nothing in a ring")
        return None, type, None
    if isinstance(type, int):
        return _of_number(batch, type)
    raise TypeError(
        "a type is a name, a number, a RecordType, a class made by perfring.record or a numpy "
        f"dtype, not {type!r}"
    )


def _of_name(
    batch: BatchLike, runs: list[Run], name: str
) -> tuple[RecordType, "np.dtype[Any]", int]:
    present = {run[0] for run in runs}
    named = batch._table.named(name)
    found = [kind for kind in named if kind.id in present] or named[-1:]
    if not found:
        raise BadType(
            f"the ring has no type {name!r}: none was published yet, or it has another name "
            "(see `types` of the reader)"
        )
    if len(found) > 1:
        ids = ", ".join(f"{kind.id:#x}" for kind in found)
        raise BadType(f"there are several types {name!r} in the batch: pass one of {ids}")
    return found[0], found[0].dtype, found[0].id


def _of_number(batch: BatchLike, number: int) -> tuple[RecordType, "np.dtype[Any]", int]:
    kind = batch._type_of(number)
    if kind is None:
        raise BadType(
            f"the ring's type table does not have type {number:#x}: pass a dtype, as in "
            "numpy(np.dtype(...)), if you know its layout"
        )
    return kind, kind.dtype, number


def _say_which(batch: BatchLike, numbers: set[int]) -> str:
    if not numbers:
        return "an empty batch has no type: pass one, as in numpy('app.Tick')"
    names = [
        repr(kind.name) if kind is not None else f"{number:#x}"
        for number, kind in ((number, batch._type_of(number)) for number in sorted(numbers))
    ]
    return f"the batch has records of several types: pass one of {', '.join(names)}"


def to_arrow(batch: BatchLike) -> "pa.RecordBatch":
    """Return an Arrow record batch with columns of the fields, or of payloads if types differ."""
    need("pyarrow", "arrow")
    import numpy as np
    import pyarrow as pa

    count = len(batch)
    common: list[tuple[pa.Field, pa.Array]] = []

    def add(name: str, array: "pa.Array") -> None:
        common.append((pa.field(name, array.type), array))

    def words(data: bytes) -> "pa.Array":
        return pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(data)])

    add("pos", words(batch._positions()))
    if batch.timed:
        add("time", words(batch._times()))
    if batch.sample_id:
        writers = np.frombuffer(batch._writers(), np.uint32)
        add("pid", pa.array(writers[0::2]))
        add("tid", pa.array(writers[1::2]))
    runs = batch._runs
    kind = batch._type_of(runs[0][0]) if runs and len({run[0] for run in runs}) == 1 else None
    if kind is not None and kind.encoding == "pod" and all(run[1] == kind.size for run in runs):
        taken = {field.name for field, _ in common}
        own = _columns(numpy(batch, kind), json.loads(kind._known).get("fields", []), taken)
        columns = common + own
    else:
        types = np.frombuffer(batch._types(), np.uint32)
        add("type", pa.array(types))
        add("type_name", _names(batch, types))
        add("payload", _payloads(batch, count))
        columns = common
    schema = pa.schema([field for field, _ in columns])
    return pa.RecordBatch.from_arrays([array for _, array in columns], schema=schema)


def to_pandas(batch: BatchLike) -> "pd.DataFrame":
    """Return a pandas frame, made from `to_arrow`."""
    need("pandas")
    frame: pd.DataFrame = to_arrow(batch).to_pandas()
    return frame


def _names(batch: BatchLike, types: "np.ndarray[Any, Any]") -> "pa.Array":
    import numpy as np
    import pyarrow as pa

    numbers, places = np.unique(types, return_inverse=True)
    kinds = [batch._type_of(int(number)) for number in numbers]
    # Null where a type is unknown: pandas accepts no null among the names.
    names: dict[str, int] = {}
    known = [-1 if kind is None else names.setdefault(kind.name, len(names)) for kind in kinds]
    indices = np.array(known, np.int32)[places.reshape(-1)]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=indices < 0), pa.array(list(names), pa.string())
    )


def _payloads(batch: BatchLike, count: int) -> "pa.Array":
    import numpy as np
    import pyarrow as pa

    if not batch.pinned:
        buffers = [None, pa.py_buffer(batch._offsets()), pa.py_buffer(batch._span)]
        return pa.Array.from_buffers(pa.large_binary(), count, buffers)
    span = np.frombuffer(batch._span, np.uint8)
    payloads = [
        span[at + nth * stride :][:length].tobytes()
        for _, length, _, many, at, stride in batch._runs
        for nth in range(many)
    ]
    return pa.array(payloads, pa.large_binary())


def _columns(
    array: "np.ndarray[Any, Any]", fields: list[dict[str, Any]], taken: set[str]
) -> "list[tuple[pa.Field, pa.Array]]":
    """Return the columns of a struct's fields, including constants, with unique names."""
    import pyarrow as pa

    places = iter(array.dtype.names or ())
    columns = []
    for field in fields:
        name, column = field.get("name", ""), None
        if "constant" in field:
            column = pa.array([field["constant"]] * len(array))
        elif _is_shown(field):
            column = _column(array[next(places)], field)
        if column is None:
            continue
        if name in taken:
            name = f"field.{name}"
        while name in taken:
            name += "_"
        taken.add(name)
        about = {key: field[key] for key in ("unit", "help") if field.get(key)}
        columns.append((pa.field(name, column.type, metadata=about or None), column))
    return columns


def _is_shown(shape: dict[str, Any]) -> bool:
    """Return whether it fits in a dtype: not if it is of a later version, without a size."""
    from ._dtypes import _of_shape

    return _of_shape(shape) is not None


def _column(array: "np.ndarray[Any, Any]", shape: dict[str, Any]) -> "pa.Array":
    import numpy as np
    import pyarrow as pa

    count, kind = len(array), shape["kind"]
    match kind:
        case "array":
            many, rest = shape.get("count", 0), array.shape[2:]
            values = _column(array.reshape((count * many, *rest)), shape["of"])
            if not many:
                return pa.array([[]] * count, pa.list_(values.type))
            return pa.FixedSizeListArray.from_arrays(values, many)
        case "struct":
            columns = _columns(array, shape.get("fields", []), set())
            if not columns:
                return pa.array([{}] * count, pa.struct([]))
            return pa.StructArray.from_arrays(
                [column for _, column in columns], fields=[field for field, _ in columns]
            )
        case "text":
            texts = array.tolist()
            return pa.array([one.decode(errors="replace") for one in texts], pa.string())
        case "char":
            codes = np.ascontiguousarray(array).view(np.uint32).tolist()
            return pa.array([_character(code) for code in codes], pa.string())
        case "u128" | "i128":
            return pa.array([str(number) for number in _wide(array, kind)], pa.string())
        case "enum":
            return _labels(array, shape)
        case "bool":
            return pa.array(np.ascontiguousarray(array).view(np.uint8) != 0)
    if array.dtype.kind != "V":
        return pa.array(np.ascontiguousarray(array))
    # Not Arrow's fixed-size binary: pandas accepts no lists of it.
    ends = (np.arange(count + 1) * array.dtype.itemsize).astype(np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(array.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def _character(code: int) -> str:
    is_one = code < 0x110000 and not 0xD800 <= code < 0xE000
    return chr(code) if is_one else "\N{REPLACEMENT CHARACTER}"


def _wide(array: "np.ndarray[Any, Any]", kind: str) -> list[int]:
    signed = kind == "i128"
    return [int.from_bytes(one.tobytes(), sys.byteorder, signed=signed) for one in array]


def _labels(array: "np.ndarray[Any, Any]", shape: dict[str, Any]) -> "pa.Array":
    """Return a dictionary array of all labels, and of the numbers without one."""
    import pyarrow as pa

    of = shape["of"]["kind"]
    values = _wide(array, of) if of.endswith("128") else array.tolist()
    names: dict[str, int] = {}
    known: dict[int, int] = {}
    for label in shape.get("labels", []):
        place = names.setdefault(label.get("name", ""), len(names))
        known.setdefault(label.get("value", 0), place)
    for value in set(values) - known.keys():
        known[value] = names.setdefault(str(value), len(names))
    places = pa.array([known[value] for value in values], pa.int32())
    return pa.DictionaryArray.from_arrays(places, pa.array(list(names), pa.string()))
