"""What static types admit and refuse is what the package takes and refuses.

A call that mypy refuses has a comment, which mypy reports when it is not needed. The same call
raises an exception. So a line fails if one side changes without the other.
"""

import array
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import perfring
import perfring.logging
import pytest


@perfring.record
class Bare:
    x: perfring.U64


@perfring.record(name="static.Named")
class Named:
    x: perfring.U64


class HasId:
    id = 5000


@dataclass
class Plain:
    x: int


KIND = perfring.type_of(Named)


@pytest.fixture
def producer(ring: str) -> perfring.Producer:
    return perfring.Producer.create(ring)


def raises(*calls: Callable[[], object]) -> None:
    """Each call is refused as an argument of a wrong type, or a wrong value."""
    for number, call in enumerate(calls):
        with pytest.raises((TypeError, ValueError)):
            print(f"call {number} returned {call()!r}")


def test_payloads(producer: perfring.Producer) -> None:
    publish = producer.publish
    with producer.batch() as batch:
        for put in (publish, batch.publish):
            put(b"bytes")
            put(bytearray(b"bytes"))
            put(memoryview(b"bytes"))
            put(array.array("i", [1]))
            put(np.zeros(2, "u8"))
            put(np.float64(1.5))
            put(Named(1))
            put(Bare(1))
        raises(
            lambda: publish("text"),  # type: ignore[arg-type]
            lambda: publish(5),  # type: ignore[arg-type]
            lambda: publish(None),  # type: ignore[arg-type]
            lambda: publish([b"bytes"]),  # type: ignore[arg-type]
            lambda: publish(HasId()),  # type: ignore[arg-type]
            lambda: publish(Named),  # type: ignore[arg-type]
            lambda: batch.publish("text"),  # type: ignore[arg-type]
            lambda: batch.publish(5),  # type: ignore[arg-type]
        )
    assert producer.publish_array(np.zeros(2, "u8")) == 2
    assert producer.publish_array(b"ab") == 2
    raises(
        lambda: producer.publish_array("text"),  # type: ignore[arg-type]
        lambda: producer.publish_array([1, 2]),  # type: ignore[arg-type]
        lambda: producer.publish_array(Named(1)),  # type: ignore[arg-type]
        lambda: publish(Plain(1)),  # as a record's object, to mypy
    )


def test_types_of_records(producer: perfring.Producer) -> None:
    for kind in (5000, KIND, Named, Bare, Named(1)):
        producer.publish(bytes(8), kind)
        producer.publish_array(np.zeros(1, "u8"), kind)
        producer.reserve(8, kind).discard()
        with producer.batch() as batch:
            batch.publish(bytes(8), kind)
    raises(
        lambda: producer.publish(b"", "static.Named"),  # type: ignore[arg-type]
        lambda: producer.publish(b"", None),  # type: ignore[arg-type]
        lambda: producer.publish(b"", int),  # type: ignore[arg-type]
        lambda: producer.publish(b"", HasId),  # type: ignore[arg-type]
        lambda: producer.publish(b"", HasId()),  # type: ignore[arg-type]
        lambda: producer.publish_array(b"ab", HasId),  # type: ignore[arg-type]
        lambda: producer.reserve(8, HasId),  # type: ignore[arg-type]
        lambda: producer.reserve(8, "static.Named"),  # type: ignore[arg-type]
    )
    with producer.batch() as batch:
        raises(
            lambda: batch.publish(b"", HasId),  # type: ignore[arg-type]
            lambda: batch.publish(b"", "static.Named"),  # type: ignore[arg-type]
        )


def test_descriptions_of_types(producer: perfring.Producer) -> None:
    for known in (KIND, Named, Named(1)):
        assert producer.register(known) == perfring.type_of(known) == KIND
        assert perfring.dtype_of(known) == np.dtype([("x", "u8")])
    raises(
        lambda: producer.register(5000),  # type: ignore[arg-type]
        lambda: producer.register("static.Named"),  # type: ignore[arg-type]
        lambda: producer.register(HasId),  # type: ignore[arg-type]
        lambda: perfring.type_of(5000),  # type: ignore[arg-type]
        lambda: perfring.type_of(HasId),  # type: ignore[arg-type]
        lambda: perfring.dtype_of("static.Named"),  # type: ignore[arg-type]
        lambda: perfring.pack(5000),  # type: ignore[arg-type]
        lambda: perfring.pack(Named),  # type: ignore[arg-type]
        lambda: perfring.pack(KIND),  # type: ignore[arg-type]
        lambda: perfring.unpack(int, bytes(8)),  # type: ignore[type-var]
        lambda: perfring.unpack(KIND, bytes(8)),  # type: ignore[arg-type]
        lambda: perfring.unpack(Named, "12345678"),  # type: ignore[arg-type]
        lambda: KIND.decode("12345678"),  # type: ignore[arg-type]
        lambda: perfring.record(kind="spam")(Plain),  # type: ignore[call-overload]
        lambda: perfring.record_type("static.T", object()),  # type: ignore[arg-type]
        lambda: perfring.record_type("static.T", [("a", "u8")], kind="spam"),  # type: ignore[arg-type]
    )
    assert perfring.unpack(Named, perfring.pack(Named(5))).x == 5
    assert KIND.decode(np.zeros(1, "u8")) == {"x": 0}
    assert perfring.record_type("static.T", [("a", "u8")], kind="log").kind == "log"
    assert perfring.record_type("static.T", np.dtype([("a", "u8")])).size == 8
    assert perfring.record_type("static.T", "u8,u8").size == 16


def test_types_of_arrays(producer: perfring.Producer, ring: str) -> None:
    producer.publish(Named(1))
    batch = perfring.Snapshot(ring).drain()
    for kind in ("static.Named", KIND.id, KIND, Named, np.dtype("u8"), np.uint64, None):
        assert len(batch.numpy(kind)) == 1
    raises(
        lambda: batch.numpy(5.0),  # type: ignore[arg-type]
        lambda: batch.numpy(int),  # type: ignore[arg-type]
        lambda: batch.numpy(HasId),  # type: ignore[arg-type]
        lambda: batch.numpy(HasId()),  # type: ignore[arg-type]
        lambda: batch.numpy(Named(1)),  # type: ignore[arg-type]
    )


class BytesPath:
    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self.path)


def test_paths(ring: str, tmp_path: Path) -> None:
    perfring.Producer.create(ring).close()
    for path in (ring, Path(ring), os.fsencode(ring), BytesPath(ring)):
        assert perfring.stat(path)["ring"] == perfring.Snapshot(path).path == ring
        perfring.Observer(path).close()
        perfring.Consumer(path).close()
        perfring.Producer(path).close()
    rings = str(tmp_path / "rings")
    for path in (rings, Path(rings), os.fsencode(rings), BytesPath(rings)):
        assert perfring.RingSet(path, access="shared").dir == Path(rings)
        with perfring.Merge(path) as merge:
            assert merge.dir == Path(rings)
    raises(
        lambda: perfring.stat(5),  # type: ignore[arg-type]
        lambda: perfring.Snapshot(None),  # type: ignore[arg-type]
        lambda: perfring.RingSet(5),  # type: ignore[arg-type]
        lambda: perfring.Merge(None),  # type: ignore[arg-type]
        lambda: perfring.logging.RingHandler(os.fsencode(ring)),  # type: ignore[arg-type]
    )


def test_choices(ring: str, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    create = perfring.Producer.create
    with create(one, policy="overwrite", evict="half", trust="nobody") as producer:
        create(two, policy=producer.policy).close()  # what one returns, another one takes
        assert perfring.Observer(two).policy == perfring.stat(two)["policy"] == "overwrite"
    raises(
        lambda: create(ring, policy="keep"),  # type: ignore[arg-type]
        lambda: create(ring, evict="all"),  # type: ignore[arg-type]
        lambda: create(ring, size=4096.0),  # type: ignore[arg-type]
        lambda: create(ring, mode="0600"),  # type: ignore[arg-type]
        lambda: create(ring, shared=1),  # type: ignore[arg-type]
        lambda: create(ring, name=b"x"),  # type: ignore[arg-type]
        lambda: perfring.Producer(one, trust="me"),  # type: ignore[arg-type]
        lambda: perfring.Consumer(one, wait_strategy="sleep"),  # type: ignore[arg-type]
        lambda: perfring.Consumer(one, acknowledge="never"),  # type: ignore[arg-type]
        lambda: perfring.Consumer(one, timeout=b"1"),  # type: ignore[arg-type]
        lambda: perfring.Observer(one, "last"),  # type: ignore[arg-type]
        lambda: perfring.Observer(one, [0, 0, 0]),  # type: ignore[arg-type]
        lambda: perfring.Merge(tmp_path, start="last"),  # type: ignore[arg-type]
        lambda: perfring.RingSet(tmp_path / "set", access="public"),  # type: ignore[arg-type]
    )


def test_keys_of_figures(producer: perfring.Producer, ring: str) -> None:
    raises_key: list[Callable[[], object]] = [
        lambda: perfring.stat(ring)["writen_records"],  # type: ignore[typeddict-item]
        lambda: producer.totals["read_records"],  # type: ignore[typeddict-item]
        lambda: perfring.Snapshot(ring).totals["balanced"],  # type: ignore[typeddict-item]
    ]
    for call in raises_key:
        with pytest.raises(KeyError):
            call()


USER = """
import perfring

@perfring.record(name="user.Point")
class Point:
    x: perfring.U64

producer = perfring.Producer.create("ring")
producer.publish(b"bytes")
producer.publish(Point(1))
producer.publish("text")  # type: ignore[arg-type]
reveal_type(perfring.stat("ring")["written_records"])
"""


@pytest.mark.packages
def test_a_program_is_checked_without_numpy(tmp_path: Path) -> None:
    """A missing module has any type: what is a union with it admits everything."""
    (tmp_path / "site").mkdir()
    shutil.copytree(Path(perfring.__file__).parent, tmp_path / "site" / "perfring")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "mypy.ini").write_text(
        "[mypy-numpy.*,pandas.*,pyarrow.*]\nignore_missing_imports = True\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "user.py"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": "site", "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    mine = [line for line in done.stdout.splitlines() if line.startswith("user.py")]
    assert mine == ['user.py:12: note: Revealed type is "int"'], done.stdout
