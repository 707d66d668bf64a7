"""Instruments of `perfring.telemetry.Meter` are memory that every reader sees alike."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import perfring
import pytest
from perfring.telemetry import Counter, Meter, Telemetry

Row = dict[str, Any]


def values(ring: Path) -> dict[tuple[str, int], object]:
    """The values of the counters and gauges, by their names and pids."""
    return {(one["name"], one["pid"]): one["value"] for one in perfring.metrics(ring)}


def spawned(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Another Python, which runs a script."""
    args = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(args, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def test_values_are_those_that_the_command_shows(tmp_path: Path, command: str) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, resource={"service.name": "shop"})
    attributes = {"by": "card", "till": 3, "name": "mine", "share": 0.5, "ok": True, "of": [1]}
    orders = meter.counter(
        "orders", unit="{order}", description="taken", scope="shop.till", attributes=attributes
    )
    orders.add()
    orders.add(2**63)
    meter.counter("seconds", of=float).add(0.25)
    meter.up_down_counter("open").add(-3)
    meter.up_down_counter("balance", of=float).add(-0.5)
    meter.gauge("load").set(1)
    meter.gauge("depth", of=int).set(-7)
    meter.gauge("never set")
    took = meter.histogram("took", unit="s")
    for value in (0.25, 0.5, 3, 0.0, -1.0, math.nan, math.inf):
        took.record(value)
    meter.histogram("none", scale=0, powers=(0, 4))

    seen = perfring.metrics(ring)
    args = [command, "metrics", "--json", str(ring)]
    out = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    assert seen == [json.loads(line) for line in out.splitlines()]

    by_name: dict[str, Row] = {one["name"]: dict(one) for one in seen}
    assert list(by_name) == sorted(by_name)
    assert by_name["orders"]["value"] == 2**63 + 1
    assert by_name["orders"]["attributes"] == {**attributes, "of": "[1]"}
    assert (by_name["orders"]["unit"], by_name["orders"]["description"]) == ("{order}", "taken")
    kinds = {name: (one["kind"], one.get("value")) for name, one in by_name.items()}
    assert kinds["seconds"] == ("counter", 0.25)
    assert kinds["open"] == ("up_down_counter", -3)
    assert kinds["balance"] == ("up_down_counter", -0.5)
    assert kinds["load"] == ("gauge", 1.0)
    assert type(kinds["load"][1]) is float
    assert kinds["depth"] == ("gauge", -7)
    assert "never set" not in by_name
    measured = by_name["took"]
    assert measured["kind"] == "histogram"
    assert (measured["count"], measured["sum"], measured["refused"]) == (4, 3.75, 3)
    assert (measured["min"], measured["max"], measured["zero_count"]) == (0.0, 3.0, 1)
    # Bucket i of scale 3 has what is above 2**(i / 8), up to and with 2**((i + 1) / 8).
    filled = [measured["offset"] + at for at, n in enumerate(measured["bucket_counts"]) if n]
    assert filled == [-17, -9, math.floor(math.log2(3) * 8)]
    nothing = by_name["none"]
    assert (nothing["count"], nothing["min"], nothing["scale"]) == (0, None, 0)
    for one in seen:
        assert (one["pid"], one["alive"]) == (os.getpid(), True)
        assert one["resource"]["service.name"] == "shop"
        assert one["resource"]["telemetry.sdk.language"] == "python"
        assert one["start_time_unix_ns"] > 0


def test_the_same_name_and_attributes_are_the_same_instrument(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "ring")
    meter.counter("orders", attributes={"by": "card", "till": 1}).add(1)
    meter.counter("orders", attributes={"till": 1, "by": "card"}).add(2)
    meter.counter("orders", attributes={"till": 2, "by": "card"}).add(4)
    assert sorted(one["value"] for one in perfring.metrics(tmp_path / "ring")) == [3, 4]
    with pytest.raises(perfring.BadType, match="has the instrument already"):
        meter.counter("orders", attributes={"by": "card", "till": 1}, of=float)


def test_two_processes_have_their_own_values_and_slots(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, resource={"service.name": "here"})
    orders = meter.counter("orders")
    orders.add(5)
    script = """
        import sys
        from perfring.telemetry import Meter
        orders = Meter(sys.argv[1], resource={"service.name": "there"}).counter("orders")
        for _ in range(1000):
            orders.add(2)
        print("done", flush=True)
        sys.stdin.read()
    """
    with spawned(script, ring) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "done\n"
        here, there = sorted(perfring.metrics(ring), key=lambda one: one["value"])
        other.communicate()
    assert (here["value"], here["pid"], here["alive"]) == (5, os.getpid(), True)
    assert (there["value"], there["pid"], there["alive"]) == (2000, other.pid, True)
    assert here["resource"]["service.name"] == "here"
    assert there["resource"]["service.name"] == "there"
    assert here["slot"] != there["slot"]
    assert here["start_time_unix_ns"] < there["start_time_unix_ns"]
    ended = {one["pid"]: one["alive"] for one in perfring.metrics(ring)}
    assert ended == {os.getpid(): True, other.pid: False}


def test_the_values_of_a_killed_process_are_there_and_known_as_dead(tmp_path: Path) -> None:
    script = """
        import sys
        from perfring.telemetry import Meter
        meter = Meter(sys.argv[1])
        orders, took = meter.counter("orders"), meter.histogram("took")
        orders.add(7)
        took.record(0.5)
        print("done", flush=True)
        while True:
            orders.add(0)
    """
    ring = tmp_path / "ring"
    with spawned(script, ring) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "done\n"
        assert all(one["alive"] for one in perfring.metrics(ring))
        victim.send_signal(signal.SIGKILL)
    assert victim.returncode == -signal.SIGKILL
    orders, took = perfring.metrics(ring)
    assert (orders["value"], orders["alive"], orders["pid"]) == (7, False, victim.pid)
    assert (took["count"], took["sum"], took["alive"]) == (1, 0.5, False)


def test_a_forked_child_has_its_own_values_which_begin_at_nothing(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, resource={"service.name": "shop"})
    orders, load = meter.counter("orders"), meter.gauge("load")
    orders.add(10)
    load.set(1.0)
    to_child, of_parent = os.pipe()
    to_parent, of_child = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            orders.add(3)
            meter.counter("of the child").add(1)
            os.write(of_child, b"x")
            os.read(to_child, 1)
        finally:
            os._exit(0)
    assert os.read(to_parent, 1) == b"x"
    orders.add(1)
    seen = perfring.metrics(ring)
    os.write(of_parent, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for end in (to_child, of_parent, to_parent, of_child):
        os.close(end)
    assert values(ring) == {
        ("orders", os.getpid()): 11,
        ("load", os.getpid()): 1.0,
        ("orders", child): 3,
        ("of the child", child): 1,
    }
    assert all(one["alive"] for one in seen)
    assert {one["resource"]["service.name"] for one in seen} == {"shop"}
    alive = {one["pid"]: one["alive"] for one in perfring.metrics(ring)}
    assert alive == {os.getpid(): True, child: False}
    assert meter.lost == 0


def test_updates_of_a_child_that_cannot_attach_are_counted(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "ring")
    orders = meter.counter("orders")
    orders.add(1)
    assert not meter.removed
    os.remove(tmp_path / "ring")
    assert meter.removed
    child = os.fork()
    if child == 0:
        try:
            orders.add(1)
            orders.add(1)
            os._exit(meter.lost)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert meter.lost == 0


def test_a_full_area_is_an_error_and_a_count_and_disturbs_no_other(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, metrics_size="4K")
    made: list[Counter] = []
    refused: list[perfring.Full] = []
    for number in range(100):
        try:
            made.append(meter.counter(f"instrument {number}"))
        except perfring.Full as error:
            refused.append(error)
            break
    [full] = refused
    assert full.cause == "full"
    assert "the metrics area is full" in str(full)
    assert 10 < len(made) < 100
    assert meter.refused == 1
    with pytest.raises(perfring.Full):
        meter.histogram("took")
    assert meter.refused == 2
    for counter in made:
        counter.add(2)
    assert {one["value"] for one in perfring.metrics(ring)} == {2}
    stat = perfring.stat(ring)
    assert (stat["instrument_count"], stat["instruments_refused"]) == (len(made), 2)
    # One that this process has is found in a full area.
    meter.counter("instrument 0").add(1)
    assert sorted(one["value"] for one in perfring.metrics(ring))[-1] == 3


def area_of(ring: Path) -> int:
    """The offset of the metrics area, whose first word is the end of its last block."""
    stat = perfring.stat(ring)
    image = ring.read_bytes()
    assert len(image) % 4096 == 0
    due = stat["metrics_used"].to_bytes(8, "little") + bytes(56)
    [found] = [at for at in range(0, len(image), 4096) if image[at : at + 64] == due]
    return found


def test_a_damaged_area_is_an_error_that_has_what_precedes_the_damage(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, metrics_size="64K")
    meter.counter("a").add(1)
    used = perfring.stat(ring)["metrics_used"]
    meter.counter("b").add(2)
    meter.counter("c").add(3)
    with open(ring, "r+b") as file:
        file.seek(area_of(ring) + used + 8)  # the bytes of the block of `b`
        file.write((65).to_bytes(8, "little"))
    with pytest.raises(perfring.Corrupt, match=f"damaged {used} bytes after its beginn") as raised:
        perfring.metrics(ring)
    assert raised.value.pos == used
    [before] = raised.value.before
    assert (before["name"], before["value"]) == ("a", 1)
    # No reader would see what is registered behind the damage.
    for register in (lambda: Meter(ring), lambda: meter.counter("d")):
        with pytest.raises(perfring.Corrupt, match="no block can have a size of 65 bytes") as late:
            register()
        assert late.value.pos == used


def test_what_has_no_area_is_refused(tmp_path: Path) -> None:
    readers: list[Callable[[Path], object]] = [perfring.metrics, Meter]
    without = tmp_path / "without"
    Telemetry(without)
    for read in readers:
        with pytest.raises(perfring.BadRing, match="has no metrics area"):
            read(without)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"x" * 10_000)
    for read in readers:
        with pytest.raises(perfring.BadRing, match="not a perfring file"):
            read(foreign)
    with pytest.raises(FileNotFoundError):
        perfring.metrics(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        Meter(tmp_path / "no directory" / "ring")
    with pytest.raises(IsADirectoryError):
        perfring.metrics(tmp_path)


def test_wrong_numbers_are_refused_and_change_nothing(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "ring")
    orders, seconds = meter.counter("orders"), meter.counter("seconds", of=float)
    opened, balance = meter.up_down_counter("open"), meter.up_down_counter("balance", of=float)
    depth, load = meter.gauge("depth", of=int), meter.gauge("load")
    took = meter.histogram("took")
    for counter in (orders, seconds):
        with pytest.raises(ValueError, match="increases by 0 or more"):
            counter.add(-1)
    for whole in (orders.add, opened.add, depth.set):
        with pytest.raises(TypeError, match="has whole numbers: make it with of=float"):
            whole(0.5)
        with pytest.raises(OverflowError):
            whole(2**64)
    for of_floats in (seconds, balance):
        for number in (math.inf, math.nan):
            with pytest.raises(ValueError, match="a sum adds finite numbers, not"):
                of_floats.add(number)
    for update in (orders.add, seconds.add, opened.add, depth.set, load.set, took.record):
        for wrong in ("1", None):
            with pytest.raises(TypeError):
                update(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="of is int or float"):
        meter.counter("x", of=str)  # type: ignore[arg-type]
    for scale, powers in ((5, (0, 1)), (-1, (0, 1)), (3, (1, 0)), (4, (-1000, 1000))):
        with pytest.raises(ValueError, match="a histogram cannot have scale"):
            meter.histogram("x", scale=scale, powers=powers)
    for one in perfring.metrics(tmp_path / "ring"):
        assert one.get("value", 0) == 0
        assert one.get("count", 0) == one.get("refused", 0) == 0


def test_an_update_is_one_call_that_allocates_nothing(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "ring")
    updates: list[tuple[Callable[[float], None], float]] = [
        (meter.counter("orders").add, 1),
        (meter.counter("seconds", of=float).add, 0.5),
        (meter.up_down_counter("open").add, -1),
        (meter.gauge("load").set, 0.5),
        (meter.histogram("took").record, 0.5),
    ]
    calls: list[str] = []
    for update, number in updates:
        update(number)
        before = sys.getallocatedblocks()
        for _ in range(10_000):
            update(number)
        assert sys.getallocatedblocks() - before < 100
        sys.setprofile(lambda _frame, event, _arg: calls.append(event))
        try:
            update(number)
        finally:
            sys.setprofile(None)
    # The call of `setprofile` at the end is the other one.
    assert calls == ["c_call", "c_return", "c_call"] * len(updates)


def test_logs_and_spans_may_be_in_the_same_ring(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    meter = Meter(ring, size="256K")
    meter.counter("orders").add(1)
    telemetry = Telemetry(ring)
    with telemetry.span("buy"):
        meter.counter("orders").add(1)
    assert [one["value"] for one in perfring.metrics(ring)] == [2]
    records = (item for item in perfring.Snapshot(ring) if isinstance(item, perfring.Record))
    names = [record.type_name for record in records]
    assert "perfring.SpanEnd" in names
