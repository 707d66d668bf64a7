"""What programs already have: `LoggerAdapter`, structlog, OpenTelemetry's SDK."""

import logging
import math
import sys
from pathlib import Path
from typing import Any

import perfring
import pytest
from perfring.logging import FieldsAdapter, RingHandler

Row = dict[str, Any]


def rows(ring: Path, name: str) -> list[Row]:
    """The fields of the records of a type."""
    return [
        item.value
        for item in perfring.Snapshot(ring)
        if isinstance(item, perfring.Record) and item.type_name == name
    ]


def has(row: Row, due: Row) -> None:
    assert {name: row.get(name) for name in due} == due


def test_an_adapter_adds_fields_and_a_call_replaces_them(tmp_path: Path) -> None:
    log = logging.Logger("shop")
    log.addHandler(RingHandler(tmp_path / "ring"))
    adapter = FieldsAdapter(log, {"customer": "c-4", "items": 1})
    adapter.info("first")
    adapter.bind(order=17).info("second %d", 2, extra={"items": 3})
    first, second = rows(tmp_path / "ring", "python.Log")
    has(first, {"body": "first", "customer": "c-4", "items": 1, "order": None})
    has(second, {"body": "second 2", "customer": "c-4", "items": 3, "order": 17})


@pytest.mark.packages
def test_an_event_of_structlog_is_a_record_with_its_fields(tmp_path: Path) -> None:
    structlog = pytest.importorskip("structlog")
    from perfring.structlog import RingProcessor

    handler = RingHandler(tmp_path / "ring", level="INFO")
    log = structlog.wrap_logger(
        None,
        processors=[structlog.stdlib.add_log_level, RingProcessor(handler)],
        context_class=dict,
    )
    log.debug("below")
    log.bind(customer="c-4").warning("nearly full", left=12, share=0.5, name="mine", ok=True)
    try:
        raise KeyError("stock")
    except KeyError:
        log.exception("out of stock")
    first, second = rows(tmp_path / "ring", "python.Log")
    has(first, {"body": "nearly full", "severity_number": 13, "severity_text": "WARNING"})
    has(first, {"customer": "c-4", "left": 12, "share": 0.5, "name_": "mine", "ok": True})
    assert "level" not in first
    has(second, {"severity_number": 17, "exception.type": "KeyError"})
    assert second["exception.stacktrace"].endswith("KeyError: 'stock'")
    assert handler.dropped == 0


@pytest.mark.packages
def test_spans_of_the_sdk_have_their_ids_times_links_events_and_status(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode, set_span_in_context
    from perfring.opentelemetry import RingSpanExporter

    ring = tmp_path / "ring"
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(RingSpanExporter(ring, size="64K")))
    tracer = provider.get_tracer("shop.orders")
    begun = 1_700_000_000_123_456_789
    other = tracer.start_span("other", start_time=begun)
    span = tracer.start_span(
        "buy",
        context=set_span_in_context(other),
        kind=SpanKind.CLIENT,
        start_time=begun + 1,
        links=[Link(other.get_span_context())] * 2,
        attributes={"order": 17, "name": "mine"},
    )
    span.add_event("paid", {"amount": 9.5}, timestamp=begun + 5)
    span.set_status(Status(StatusCode.ERROR, "no stock"))
    span.end(end_time=begun + 1001)
    other.end(end_time=begun + 2000)
    its, others = span.get_span_context(), other.get_span_context()
    ids = {"trace_id": its.trace_id.to_bytes(16, "big"), "span_id": its.span_id.to_bytes(8, "big")}
    parent = others.span_id.to_bytes(8, "big")
    (resource,) = rows(ring, "perfring.Resource")
    has(resource, {"service.name": "shop", "telemetry.sdk.language": "python"})
    start, *links, outer = rows(ring, "perfring.SpanStart")
    has(start, {**ids, "name": "buy", "kind": 3, "parent_span_id": parent})
    has(start, {"time_unix_nano": begun + 1, "order": 17, "attributes.name": "mine"})
    has(start, {"otel.scope.name": "shop.orders"})
    assert len(links) == 2
    for link in links:
        has(link, {**ids, "name": None, "link.span_id": parent})
        assert link["link.trace_id"] == ids["trace_id"]
    has(outer, {"name": "other", "kind": 1, "parent_span_id": None, "time_unix_nano": begun})
    (event,) = rows(ring, "perfring.Log")
    has(event, {**ids, "event_name": "paid", "time_unix_nano": begun + 5, "amount": 9.5})
    end, last = rows(ring, "perfring.SpanEnd")
    has(end, {**ids, "time_unix_nano": begun + 1001, "duration_nano": 1000, "name": "buy"})
    has(end, {"status.code": 2, "status.message": "no stock", "parent_span_id": parent})
    has(last, {"time_unix_nano": begun + 2000, "status.code": None, "duration_nano": 2000})


@pytest.mark.packages
def test_log_records_of_the_sdk_have_their_times_and_severity(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from perfring.opentelemetry import RingLogExporter

    ring = tmp_path / "ring"
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(RingLogExporter(ring)))
    provider.get_logger("shop").emit(
        LogRecord(
            timestamp=1_700_000_000_000_000_001,
            observed_timestamp=1_700_000_000_000_000_002,
            severity_number=SeverityNumber.WARN,
            severity_text="WARN",
            body="nearly full",
            event_name="disk",
            attributes={"left": 12, "body": "mine"},
        )
    )
    (row,) = rows(ring, "perfring.Log")
    has(row, {"time_unix_nano": 1_700_000_000_000_000_001, "body": "nearly full"})
    has(row, {"observed_time_unix_nano": 1_700_000_000_000_000_002, "severity_number": 13})
    has(row, {"severity_text": "WARN", "event_name": "disk", "left": 12})
    has(row, {"attributes.body": "mine", "otel.scope.name": "shop"})


@pytest.mark.packages
def test_metrics_of_the_sdk_have_their_temporality_and_buckets(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import Counter, MeterProvider
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        PeriodicExportingMetricReader,
    )
    from opentelemetry.sdk.metrics.view import (
        ExplicitBucketHistogramAggregation,
        ExponentialBucketHistogramAggregation,
        View,
    )
    from perfring.opentelemetry import RingMetricExporter

    ring = tmp_path / "ring"
    exporter = RingMetricExporter(
        ring, preferred_temporality={Counter: AggregationTemporality.DELTA}
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    explicit = ExplicitBucketHistogramAggregation([0.5, 1.0])
    views = [
        View(instrument_name="took", aggregation=explicit),
        View(instrument_name="fine", aggregation=ExponentialBucketHistogramAggregation()),
    ]
    provider = MeterProvider([reader], views=views)
    meter = provider.get_meter("shop")
    meter.create_counter("orders", unit="{order}", description="taken").add(3, {"region": "eu"})
    meter.create_up_down_counter("open").add(-2)
    meter.create_gauge("queue").set(1.5)
    took = meter.create_histogram("took", unit="s")
    for value in (0.25, 0.5, 0.75, 4.0):
        took.record(value)
    fine = meter.create_histogram("fine", unit="s", description="in fine buckets")
    for value in (1, 1, 3, 0):
        fine.record(value, {"region": "eu"})
    reader.collect()
    orders, opened = rows(ring, "perfring.Sum")
    has(orders, {"name": "orders", "value": 3, "unit": "{order}", "description": "taken"})
    has(orders, {"region": "eu", "is_monotonic": True, "aggregation_temporality": 1})
    has(opened, {"value": -2, "is_monotonic": False, "aggregation_temporality": 2})
    for row in (orders, opened):
        assert 0 < row["start_time_unix_nano"] <= row["time_unix_nano"]
    (queue,) = rows(ring, "perfring.Gauge")
    has(queue, {"name": "queue", "value": 1.5, "otel.scope.name": "shop"})
    spent, exponential = rows(ring, "perfring.Histogram")
    has(spent, {"name": "took", "unit": "s", "count": 4, "sum": 5.5, "min": 0.25, "max": 4.0})
    assert list(spent["explicit_bounds"]) == [0.5, 1.0]
    assert list(spent["bucket_counts"]) == [2, 1, 1]
    assert spent["aggregation_temporality"] == 2
    has(exponential, {"name": "fine", "unit": "s", "description": "in fine buckets"})
    has(exponential, {"count": 4, "sum": 5.0, "min": 0.0, "max": 3.0, "region": "eu"})
    has(exponential, {"zero_count": 1, "zero_threshold": 0.0, "aggregation_temporality": 2})
    has(exponential, {"explicit_bounds": None, "bucket_counts": None, "negative.offset": None})
    assert 0 < exponential["start_time_unix_nano"] <= exponential["time_unix_nano"]
    counts = enumerate(exponential["positive.bucket_counts"], exponential["positive.offset"])
    # The bucket i has what is above 2**(i / 2**scale), up to and with the next bound.
    buckets = {math.ceil(math.log2(of) * 2 ** exponential["scale"]) - 1: of for of in (1, 3)}
    filled = {buckets[index]: count for index, count in counts if count}
    assert filled == {1: 2, 3: 1}
    provider.shutdown()


@pytest.mark.packages
def test_an_exponential_histogram_has_both_halves(tmp_path: Path) -> None:
    """Also of a library that counts negative measurements, which the SDK does not."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from perfring.opentelemetry import RingMetricExporter

    point = export.ExponentialHistogramDataPoint(
        attributes={"region": "eu"},
        start_time_unix_nano=5,
        time_unix_nano=9,
        count=6,
        sum=-1.5,
        scale=-2,
        zero_count=1,
        positive=export.Buckets(-3, [0, 2]),
        negative=export.Buckets(4, [3]),
        flags=0,
        min=-9.0,
        max=float("inf"),
    )
    delta = export.AggregationTemporality.DELTA
    data = export.ExponentialHistogram([point], delta)
    metrics = [export.Metric("took", "took by orders", "s", data)]
    scope = export.ScopeMetrics(InstrumentationScope("shop"), metrics, "")
    of_resource = export.ResourceMetrics(Resource({"service.name": "shop"}), [scope], "")
    ring = tmp_path / "ring"
    done = RingMetricExporter(ring).export(export.MetricsData([of_resource]))
    assert done is export.MetricExportResult.SUCCESS
    (row,) = rows(ring, "perfring.Histogram")
    has(row, {"name": "took", "unit": "s", "description": "took by orders", "region": "eu"})
    has(row, {"start_time_unix_nano": 5, "time_unix_nano": 9, "otel.scope.name": "shop"})
    has(row, {"count": 6, "sum": -1.5, "min": -9.0, "max": None, "aggregation_temporality": 1})
    has(row, {"scale": -2, "zero_count": 1, "zero_threshold": 0.0})
    has(row, {"positive.offset": -3, "negative.offset": 4})
    assert list(row["positive.bucket_counts"]) == [0, 2]
    assert list(row["negative.bucket_counts"]) == [3]


@pytest.mark.packages
def test_a_batch_of_the_sdk_is_one_native_call(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from perfring.opentelemetry import RingSpanExporter

    tracer = TracerProvider().get_tracer("shop")
    spans: list[ReadableSpan] = []
    for number in range(100):
        span = tracer.start_span(f"buy {number}", attributes={"order": number})
        span.end()
        assert isinstance(span, ReadableSpan)
        spans.append(span)
    exporter = RingSpanExporter(tmp_path / "ring")
    assert exporter.export([]) is SpanExportResult.SUCCESS
    exporter.export(spans[:1])  # attaches
    calls: list[str] = []

    def profile(_frame: object, event: str, of: object) -> None:
        if event == "c_call" and "perfring" in repr(getattr(of, "__self__", None)):
            calls.append(getattr(of, "__name__", ""))

    sys.setprofile(profile)
    try:
        assert exporter.export(spans) is SpanExportResult.SUCCESS
    finally:
        sys.setprofile(None)
    assert calls == ["publish_all"]
    starts, ends = (rows(tmp_path / "ring", f"perfring.Span{of}") for of in ("Start", "End"))
    assert [row["name"] for row in ends] == ["buy 0", *(f"buy {number}" for number in range(100))]
    assert [row["order"] for row in starts] == [0, *range(100)]


@pytest.mark.packages
def test_a_batch_that_the_ring_refuses_is_a_failure_and_counted(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from perfring.opentelemetry import RingSpanExporter

    span = TracerProvider().get_tracer("shop").start_span("buy")
    span.end()
    assert isinstance(span, ReadableSpan)
    exporter = RingSpanExporter(tmp_path / "ring", size="4K", policy="drop")
    assert exporter.export([span]) is SpanExportResult.SUCCESS
    assert exporter.export([span] * 100) is SpanExportResult.FAILURE
    stat = perfring.stat(tmp_path / "ring")
    published = len(rows(tmp_path / "ring", "perfring.SpanStart"))
    published += len(rows(tmp_path / "ring", "perfring.SpanEnd"))
    assert published + stat["full_records"] == 202
