"""Whether an array is what a type says of its records."""

import random
from typing import Any

import numpy as np
import perfring
import pytest
from perfring._dtypes import check
from test_types import TYPES, any_dtype

POINT = np.dtype([("x", "f8"), ("y", "f8")])
FIELDS: list[Any] = [
    ("at", "M8[ns]"),
    ("number", "u4"),
    ("other", "u4"),
    ("price", "f8"),
    ("symbol", "S6"),
    ("key", "V5"),
    ("side", np.dtype("u1", metadata={"labels": {0: "Buy", 1: "Sell"}})),
    ("on", "?"),
    ("letter", "U1"),
    ("point", POINT),
    ("matrix", "f4", (2, 3)),
    ("points", POINT, (2,)),
]
TICK = np.dtype(FIELDS, align=True)
KIND = perfring.record_type("check.Tick", TICK)


def with_(rename: str = "", **formats: Any) -> np.dtype[Any]:
    """The dtype, with other formats at the same offsets, or another name."""
    fields: Any = TICK.fields
    names = list(TICK.names or ())
    return np.dtype(
        {
            "names": ["renamed" if name == rename else name for name in names],
            "formats": [formats.get(name, fields[name][0]) for name in names],
            "offsets": [fields[name][1] for name in names],
            "itemsize": TICK.itemsize,
        }
    )


@pytest.mark.parametrize(
    "dtype",
    [
        TICK,
        KIND.dtype,
        np.dtype(f"V{TICK.itemsize}"),
        np.dtype("u1"),
        with_(at="i8"),
        with_(at="m8[ns]"),
        with_(number="V4", price="V8"),
        with_(symbol=("u1", 6), key=("u1", 5)),
        with_(symbol="V6", key="S5"),
        with_(point=("f8", 2), matrix=("f4", 6)),
        with_(points=("f8", (2, 2))),
    ],
)
def test_what_has_the_same_bytes_is_taken(dtype: Any) -> None:
    check(dtype, KIND)


@pytest.mark.parametrize(
    ("dtype", "sentence"),
    [
        (np.dtype(FIELDS), "it has 120 bytes, and not 113"),  # not aligned
        (
            np.dtype([FIELDS[0], FIELDS[2], FIELDS[1], *FIELDS[3:]], align=True),
            "field 'number' is at byte 8, and not 12",
        ),
        (with_(number="i4"), "field 'number': it is uint32, and not int32"),
        (with_(number="f4"), "field 'number': it is uint32, and not float32"),
        (with_(number=">u4"), "field 'number': it is uint32, and not >u4"),
        (with_(price="i8"), "field 'price': it is float64, and not int64"),
        (with_(price="m8[ns]"), "field 'price': it is float64, and not timedelta64"),
        (with_(number="u2"), "field 'number': it has 4 bytes, and not 2"),
        (with_(at="M8[s]"), "field 'at': its unit is ns, and not s"),
        (with_(at="M8[2ns]"), "field 'at': it is int64, and not datetime64"),
        (with_(at="u8"), "field 'at': it is int64, and not uint64"),
        (with_(on="u1"), "field 'on': it is bool, and not uint8"),
        (with_(side="i1"), "field 'side': it is uint8, and not int8"),
        (with_(symbol=("u2", 3)), "field 'symbol': it is .S6, and not"),
        (with_(point=("i8", 2)), "field 'point': it is .*, and not"),
        (with_(point=[("y", "f8"), ("x", "f8")]), "field 'point': field 'x' is at byte 0, and"),
        (with_(points=([("x", "f8"), ("y", "i8")], 2)), "field 'points': field 'y': it is float64"),
        (with_(matrix=("i4", (2, 3))), "field 'matrix': it is"),
        (with_("number"), "there is no field 'number'"),
        (np.dtype("f8"), f"it has {TICK.itemsize} bytes, and not 8"),
        (np.dtype(f"S{TICK.itemsize}"), "it is .*, and not .S"),
        (np.dtype("V3"), f"it has {TICK.itemsize} bytes, and not 3"),
    ],
)
def test_what_has_other_bytes_is_refused_with_the_field(dtype: Any, sentence: str) -> None:
    with pytest.raises(perfring.BadType, match=rf"are not valid check\.Tick: {sentence}"):
        check(dtype, KIND)


def test_a_field_more_is_refused_unless_it_is_padding() -> None:
    kind = perfring.record_type("check.Few", np.dtype([("a", "u4"), ("_pad", "u4")]))
    check(np.dtype([("a", "u4"), ("_other", "u4")]), kind)
    with pytest.raises(perfring.BadType, match="the type has no field 'b'"):
        check(np.dtype([("a", "u4"), ("b", "u4")]), kind)


def test_numbers_do_for_records_of_such_numbers() -> None:
    point = perfring.record_type("check.Point", POINT)
    check(np.dtype("f8"), point)  # a row of two is a record
    for other in ("i8", "f4", ">f8"):
        with pytest.raises(perfring.BadType, match=r"are not valid check\.Point"):
            check(np.dtype(other), point)


def test_any_type_takes_its_own_dtype() -> None:
    rng = random.Random("check")
    for number in range(300):
        dtype = any_dtype(rng, 3, bool(number & 1))
        kind = perfring.record_type(f"any.T{number}", dtype)
        check(dtype, kind)
        check(kind.dtype, kind)
    for kind in TYPES.values():
        check(kind.dtype, kind)


def test_it_is_asked_once() -> None:
    kind = perfring.record_type("check.Once", POINT)
    before = check.cache_info()
    for _ in range(3):
        check(POINT, kind)
    after = check.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
