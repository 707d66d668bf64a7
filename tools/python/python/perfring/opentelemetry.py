"""Exporters of OpenTelemetry's SDK that write into a ring: a program changes one line.

It needs ``opentelemetry-sdk``.

    >>> import os, tempfile
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    >>> from perfring.opentelemetry import RingSpanExporter
    >>> ring = os.path.join(tempfile.mkdtemp(), "shop")
    >>> provider = TracerProvider()
    >>> provider.add_span_processor(SimpleSpanProcessor(RingSpanExporter(ring)))
    >>> with provider.get_tracer("shop").start_as_current_span("buy"):
    ...     pass

A call does no input or output beyond the ring's memory, so the SDK's simple processors suffice,
and after ``kill -9`` the ring has all spans that ended. The records have the times of the SDK as
``time_unix_nano``, exactly; a span's end has ``duration_nano`` as well.

A batch is one native call. A span's events are log records with its ids. These are not carried:
exemplars, trace state and flags, attributes of links and scopes, versions of scopes, schema URLs,
counts of dropped attributes, all resources of a process but its first. The resource's
``telemetry.sdk.name`` is perfring's. Lists in attributes become their ``str()``.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ExponentialHistogramDataPoint,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext

from .telemetry import Telemetry, _Row

__all__ = ["RingLogExporter", "RingMetricExporter", "RingSpanExporter"]

_Path = str | os.PathLike[str]


class _Ring:
    """A ring, which is attached to with the resource of the first batch."""

    def __init__(self, path: _Path, options: dict[str, Any]) -> None:
        self._path, self._options = path, options
        self._telemetry: Telemetry | None = None

    def put(self, resource: Resource, rows: list[_Row]) -> bool:
        """Write rows. Return whether the ring took them all."""
        if self._telemetry is None:
            its = {name: str(value) for name, value in resource.attributes.items()}
            self._telemetry = Telemetry(self._path, resource=its, **self._options)
        return self._telemetry._publish_all(rows) == 0


class RingSpanExporter(SpanExporter):
    """Writes the start and the end of each span that has ended, and its events as log records.

    Args:
        path: The ring, which is created if it is missing.
        options: ``size``, ``policy`` and ``mode``: see `perfring.telemetry.Telemetry`.

    """

    def __init__(self, path: _Path, **options: Any) -> None:
        self._ring = _Ring(path, options)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans. Fails if the ring refused a record."""
        rows: list[_Row] = []
        for span in spans:
            _add_span(rows, span)
        took = self._ring.put(spans[0].resource, rows) if rows else True
        return SpanExportResult.SUCCESS if took else SpanExportResult.FAILURE


def _add_span(rows: list[_Row], span: ReadableSpan) -> None:
    context, around, its_scope = span.context, span.parent, span.instrumentation_scope
    if context is None:
        return
    trace, its = _ids(context)
    parent = around.span_id.to_bytes(8, "big") if around else None
    scope = its_scope.name if its_scope else None
    name, begun, ended, status = span.name, span.start_time, span.end_time, span.status
    start = (begun, trace, its, parent, name, span.kind.value + 1, scope)
    rows.append(("span_start", start, _attributes(span.attributes)))
    for link in span.links:
        to = (begun, trace, its, None, None, None, None, *_ids(link.context))
        rows.append(("span_start", to, None))
    for event in span.events:
        named = (event.timestamp, trace, its, event.name, scope)
        rows.append(("log", named, _attributes(event.attributes)))
    took = ended - begun if begun is not None and ended is not None else None
    code = status.status_code.value or None
    end = (ended, trace, its, parent, name, took, code, status.description if code else None)
    rows.append(("span_end", end, None))


class RingLogExporter(LogRecordExporter):
    """Writes log records.

    Args:
        path: The ring, which is created if it is missing.
        options: ``size``, ``policy`` and ``mode``: see `perfring.telemetry.Telemetry`.

    """

    def __init__(self, path: _Path, **options: Any) -> None:
        self._ring = _Ring(path, options)

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Write records. Fails if the ring refused one."""
        rows: list[_Row] = []
        for readable in batch:
            record, scope = readable.log_record, readable.instrumentation_scope
            number, body = record.severity_number, record.body
            trace = its = None
            if record.trace_id and record.span_id:
                trace = record.trace_id.to_bytes(16, "big")
                its = record.span_id.to_bytes(8, "big")
            fields = (
                record.timestamp,
                trace,
                its,
                record.event_name,
                scope.name if scope else None,
                record.observed_timestamp,
                number.value if number else None,
                record.severity_text,
                str(body) if isinstance(body, tuple) else body,
            )
            rows.append(("log", fields, _attributes(record.attributes)))
        took = self._ring.put(batch[0].resource, rows) if rows else True
        return LogRecordExportResult.SUCCESS if took else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        """Do nothing: what was exported is in the ring."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Do nothing: what was exported is in the ring."""
        return True


class RingMetricExporter(MetricExporter):
    """Writes the data points of gauges, sums and histograms.

    Args:
        path: The ring, which is created if it is missing.
        preferred_temporality: As of all exporters of the SDK.
        preferred_aggregation: Likewise.
        options: ``size``, ``policy`` and ``mode``: see `perfring.telemetry.Telemetry`.

    """

    def __init__(
        self,
        path: _Path,
        *,
        preferred_temporality: dict[type, AggregationTemporality] | None = None,
        preferred_aggregation: dict[type, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(preferred_temporality, preferred_aggregation)
        self._ring = _Ring(path, options)

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_more: Any
    ) -> MetricExportResult:
        """Write data points. Fails if the ring refused one."""
        rows: list[_Row] = []
        for of_resource in metrics_data.resource_metrics:
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    _add_metric(rows, metric, of_scope.scope.name)
        took = self._ring.put(metrics_data.resource_metrics[0].resource, rows) if rows else True
        return MetricExportResult.SUCCESS if took else MetricExportResult.FAILURE

    def shutdown(self, timeout_millis: float = 30_000, **_more: Any) -> None:
        """Do nothing: what was exported is in the ring."""

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Do nothing: what was exported is in the ring."""
        return True


def _add_metric(rows: list[_Row], metric: Metric, scope: str) -> None:
    what, data = (metric.name, metric.unit, metric.description, scope), metric.data
    if isinstance(data, Gauge):
        for of_gauge in data.data_points:
            gauge = (of_gauge.time_unix_nano, *what, of_gauge.value)
            rows.append(("gauge", gauge, _attributes(of_gauge.attributes)))
        return
    temporality = data.aggregation_temporality.value
    if isinstance(data, Sum):
        for of_sum in data.data_points:
            start = of_sum.start_time_unix_nano
            total = (*what, of_sum.value, temporality, start, data.is_monotonic)
            rows.append(("sum", (of_sum.time_unix_nano, *total), _attributes(of_sum.attributes)))
        return
    for point in data.data_points:
        totals = [
            number if math.isfinite(number := float(one)) else None
            for one in (point.sum, point.min, point.max)
        ]
        start = point.start_time_unix_nano
        common = (point.time_unix_nano, *what, None, temporality, start, point.count, *totals)
        rows.append(("histogram", (*common, *_buckets(point)), _attributes(point.attributes)))


def _buckets(point: HistogramDataPoint | ExponentialHistogramDataPoint) -> tuple[object, ...]:
    if isinstance(point, HistogramDataPoint):
        bounds = tuple(float(bound) for bound in point.explicit_bounds)
        return bounds, tuple(point.bucket_counts)
    spread: list[object] = []
    for half in (point.positive, point.negative):
        counts = tuple(half.bucket_counts)
        # Buckets without a measurement say nothing.
        spread += (half.offset, counts) if any(counts) else (None, None)
    # The SDK counts only 0 itself as zero.
    return None, None, point.scale, point.zero_count, 0.0, *spread


def _ids(of: SpanContext) -> tuple[bytes, bytes]:
    return of.trace_id.to_bytes(16, "big"), of.span_id.to_bytes(8, "big")


def _attributes(of: Mapping[str, object] | None) -> dict[str, object] | None:
    if of is None:
        return None
    # The SDK's own mapping copies itself to a dict five times as fast as `dict` reads it.
    copy = getattr(of, "copy", None)
    its: object = copy() if copy else None
    return its if isinstance(its, dict) else dict(of)
