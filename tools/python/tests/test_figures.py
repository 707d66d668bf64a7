"""Figures: those of the command, key by key, and their static types."""

import json
import subprocess
import types
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import perfring
import pytest


@perfring.record(name="test.Figures")
class Point:
    x: perfring.U64


def exclusive(ring: str) -> object:
    producer = perfring.Producer.create(ring, size=4096)
    for n in range(100):
        producer.publish(bytes(n))
    perfring.Consumer(ring).drain(30)
    producer.reserve(8).discard()
    producer.publish(Point(1))
    return producer


def overwritten(ring: str) -> object:
    producer = perfring.Producer.create(ring, size=4096, policy="overwrite", time=True)
    for n in range(100):
        producer.publish(bytes(n))
    return producer


def named(ring: str) -> object:
    producer = perfring.Producer.create(ring, consumers=3, evict="half")
    producer.publish(b"one")
    readers = [perfring.Consumer(ring, name=name) for name in ("first", "second")]
    readers[0].drain()
    readers[0].close()
    return producer, readers


def held_up(ring: str) -> object:
    producer = perfring.Producer.create(ring, shared=True, aux_size="64K")
    other = perfring.Producer(ring)
    reservation = other.reserve(8)
    producer.publish(b"behind it")
    return producer, other, reservation


def damaged(ring: str) -> object:
    producer = perfring.Producer.create(ring)
    with open(ring, "r+b") as file:
        file.seek(1024)  # data_head, which is a multiple of eight
        file.write((1).to_bytes(8, "little"))
    return producer


RINGS: dict[str, Callable[[str], object]] = {
    made.__name__: made for made in (exclusive, overwritten, named, held_up, damaged)
}


@pytest.fixture(params=RINGS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stat(ring: str, kind: str) -> perfring.RingStat:
    """The figures of a ring that other processes have open meanwhile."""
    kept = RINGS[kind](ring)
    figures = perfring.stat(ring)
    assert kept
    return figures


def without_times(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures but for how long the ring is held up by now."""
    if figures["held_up"]:
        figures["held_up"].pop("for_ns")
    return figures


def test_the_figures_are_those_of_the_command(ring: str, kind: str, command: str) -> None:
    kept = RINGS[kind](ring)
    done = subprocess.run([command, "stat", "--json", ring], capture_output=True)
    assert (done.returncode == 0) == (kind != "damaged"), done.stderr
    shown = json.loads(done.stdout)
    assert without_times(dict(perfring.stat(ring))) == without_times(shown)
    if kind != "damaged":
        assert perfring.Snapshot(ring).totals.items() <= shown.items()
    assert kept


def wrong(value: object, hint: Any, at: str) -> list[str]:
    """What in a value is not of its static type."""
    if is_typeddict(hint):
        if type(value) is not dict:
            return [f"{at} is {value!r}"]
        hints = get_type_hints(hint)
        missing = hint.__required_keys__ - value.keys()
        found = [f"{at}.{name} is missing" for name in missing]
        found += [f"{at}.{name} has no type" for name in value.keys() - hints.keys()]
        for name in value.keys() & hints.keys():
            found += wrong(value[name], hints[name], f"{at}.{name}")
        return found
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is types.UnionType:
        return min((wrong(value, one, at) for one in arguments), key=len)
    if origin is Literal:
        return [] if value in arguments else [f"{at} is {value!r}"]
    if origin is list:
        assert isinstance(value, list)
        return [one for item in value for one in wrong(item, arguments[0], at)]
    return [] if type(value) is hint else [f"{at} is {value!r}, not {hint}"]


def test_every_figure_has_its_static_type(stat: perfring.RingStat, kind: str) -> None:
    assert wrong(stat, perfring.RingStat, "stat") == []
    assert stat["damaged"] == (kind == "damaged")
    assert (stat["held_up"] is None) == (kind != "held_up")
    assert len(stat["slots"]) == (2 if kind == "held_up" else 0)
    assert len(stat["consumers"]) == (2 if kind == "named" else 0)
    if kind == "exclusive":
        assert (stat["type_count"], stat["types_damaged"]) == (1, False)
        assert 0 < stat["types_used"] < stat["types_size"]
    if kind != "damaged":
        assert stat["balanced"]


def test_only_a_damaged_ring_lacks_figures(stat: perfring.RingStat, kind: str) -> None:
    optional = perfring.RingStat.__optional_keys__
    assert optional == perfring.RingTotals.__required_keys__ | {"balanced"}
    assert optional & stat.keys() == (set() if kind == "damaged" else optional)


def test_totals_have_their_static_types(ring: str) -> None:
    with perfring.Producer.create(ring) as producer:
        assert wrong(producer.totals, perfring.ProducerTotals, "totals") == []
    assert wrong(perfring.Snapshot(ring).totals, perfring.RingTotals, "totals") == []


def test_the_figures_of_a_merge_have_their_static_types(ring: str) -> None:
    with perfring.Merge(ring) as merge:
        assert wrong(merge.figures, perfring.MergeFigures, "figures") == []
