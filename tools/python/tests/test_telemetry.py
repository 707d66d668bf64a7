"""Spans and samples of `perfring.telemetry` are what OpenTelemetry's readers expect."""

import contextvars
import importlib
import json
import logging
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from perfring.logging import RingHandler
from perfring.telemetry import Telemetry

Row = dict[str, Any]
Dump = Callable[[Path], list[Row]]


@pytest.fixture
def dump(command: str) -> Dump:
    def dump(ring: Path) -> list[Row]:
        args = [command, "dump", "--format", "json", str(ring)]
        out = subprocess.run(args, check=True, capture_output=True, text=True)
        return [json.loads(line) for line in out.stdout.splitlines()]

    return dump


def of(rows: list[Row], name: str) -> list[Row]:
    return [row["fields"] for row in rows if row.get("type_name") == name]


def test_spans_have_their_ids_kinds_status_and_attributes(tmp_path: Path, dump: Dump) -> None:
    telemetry = Telemetry(tmp_path / "ring", resource={"service.name": "shop"})
    with telemetry.span("buy", kind="server", attributes={"order": 17, "name": "mine"}) as buy:
        with pytest.raises(KeyError), telemetry.span("SELECT", kind="client") as select:
            raise KeyError("stock")
        buy.set({"items": 3})
        buy.status("ok")
    with telemetry.span("alone") as alone:
        pass
    rows = dump(tmp_path / "ring")
    (resource,) = of(rows, "perfring.Resource")
    assert resource["service.name"] == "shop"
    first, second, more, third = of(rows, "perfring.SpanStart")
    assert (first["name"], first["kind"], first["order"]) == ("buy", 2, 17)
    assert first["attributes.name"] == "mine"
    assert (first["trace_id"], first["span_id"]) == (buy.trace_id, buy.span_id)
    assert "parent_span_id" not in first
    assert (second["name"], second["kind"]) == ("SELECT", 3)
    assert second["trace_id"] == buy.trace_id
    assert second["parent_span_id"] == buy.span_id
    assert (more["span_id"], more["items"]) == (buy.span_id, 3)
    assert "name" not in more
    assert third["trace_id"] == alone.trace_id != buy.trace_id
    of_select, of_buy, of_alone = of(rows, "perfring.SpanEnd")
    assert of_select["span_id"] == select.span_id
    assert (of_select["status.code"], of_select["status.message"]) == (2, "'stock'")
    assert of_select["exception.type"] == "KeyError"
    assert of_buy["status.code"] == 1
    assert of_buy["duration_nano"] >= of_select["duration_nano"] > 0
    assert "status.code" not in of_alone
    assert first["process.pid"] == os.getpid()


def test_samples_have_their_values_units_and_attributes(tmp_path: Path, dump: Dump) -> None:
    telemetry = Telemetry(tmp_path / "ring", policy="drop")
    telemetry.counter("orders", unit="{order}", attributes={"region": "eu", "unit": "x"})
    telemetry.counter("bytes", 1.5)
    telemetry.gauge("queue", -4, description="jobs that wait")
    telemetry.histogram("took", 2, unit="s")
    rows = dump(tmp_path / "ring")
    orders, size = of(rows, "perfring.Sum")
    assert (orders["name"], orders["value"], orders["unit"]) == ("orders", 1, "{order}")
    assert (orders["region"], orders["attributes.unit"]) == ("eu", "x")
    assert orders["is_monotonic"] is True
    assert orders["aggregation_temporality"] == 1
    assert (size["value"], "unit" in size) == (1.5, False)
    (queue,) = of(rows, "perfring.Gauge")
    assert (queue["value"], queue["description"]) == (-4, "jobs that wait")
    (took,) = of(rows, "perfring.Histogram")
    assert (took["value"], took["unit"]) == (2.0, "s")
    assert telemetry.dropped == 0


@pytest.mark.packages
def test_a_sidecar_s_outputs_take_them(tmp_path: Path, command: str) -> None:
    """What a page for Prometheus would have is in the table of metrics, and spans have a kind."""
    parquet = importlib.import_module("pyarrow.parquet")
    telemetry = Telemetry(tmp_path / "ring")
    with telemetry.span("buy", kind="server"):
        telemetry.counter("orders", 2)
    out = tmp_path / "out"
    args = [command, "export", str(tmp_path / "ring"), "--to", "parquet", "-o", str(out)]
    subprocess.run(args, check=True, capture_output=True)
    (orders,) = parquet.read_table(out / "metrics.parquet").to_pylist()
    assert (orders["class"], orders["value"], orders["value.integer"]) == ("sum", 2.0, 2)
    start, end = parquet.read_table(out / "spans.parquet").to_pylist()
    assert (start["kind"], end["span_id"]) == (2, start["span_id"])


def test_log_records_are_in_the_span_around_them(tmp_path: Path, dump: Dump) -> None:
    ring = tmp_path / "ring"
    telemetry, handler = Telemetry(ring), RingHandler(ring)
    log = logging.Logger("shop")
    log.addHandler(handler)
    with telemetry.span("buy") as buy:
        log.info("in it")
        log.info("elsewhere", extra={"trace_id": "07" * 16, "span_id": "08" * 8})
        # A thread begins outside of all spans; with a copy of the context, within.
        run: Callable[..., object] = contextvars.copy_context().run
        threads = [
            threading.Thread(target=log.info, args=("apart",)),
            threading.Thread(target=run, args=(log.info, "with it")),
        ]
        for thread in threads:
            thread.start()
            thread.join()
    log.info("after")
    handler.close()
    found = {row["body"]: row for row in of(dump(ring), "python.Log")}
    ids = (buy.trace_id, buy.span_id)
    for body in ("in it", "with it"):
        assert (found[body]["trace_id"], found[body]["span_id"]) == ids
    assert found["elsewhere"]["trace_id"] == "07" * 16
    for body in ("apart", "after"):
        assert "trace_id" not in found[body]


def test_a_forked_child_continues_in_the_ring(tmp_path: Path, dump: Dump) -> None:
    telemetry = Telemetry(tmp_path / "ring")
    telemetry.gauge("of", 1)
    child = os.fork()
    if child == 0:
        try:
            telemetry.gauge("of", 2)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    pids = [row["process.pid"] for row in of(dump(tmp_path / "ring"), "perfring.Gauge")]
    assert pids == [os.getpid(), child]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    telemetry = Telemetry(tmp_path / "ring")
    with pytest.raises(ValueError, match="kind 'sideways' is none: it is internal, server"):
        telemetry.span("x", kind="sideways")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="increases by 0 or more, not -1"):
        telemetry.counter("x", -1)
    with telemetry.span("x") as span, pytest.raises(ValueError, match="status 'bad' is none"):
        span.status("bad")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="begins once"), span:
        pass
