"""Exporters of OpenTelemetry's SDK that write into a ring: a program needs one other line.

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

A span's events are log records with its ids. Not carried: exemplars, exponential histograms (see
`RingMetricExporter.left_out`), trace state and flags, attributes of links and scopes, versions of
scopes, schema URLs, counts of dropped attributes, all resources of a process but its first. The
resource's ``telemetry.sdk.name`` is perfring's. Lists in attributes become their ``str()``.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from .telemetry import Telemetry

__all__ = ["RingLogExporter", "RingMetricExporter", "RingSpanExporter"]

_SCOPE: Final = "otel.scope.name"
_TIME: Final = "time_unix_nano"

_Path = str | os.PathLike[str]
_Fields = dict[str, object]
_Attributes = Mapping[str, object] | None


class _Ring:
    """A ring, which is attached to with the resource of the first batch."""

    def __init__(self, path: _Path, options: dict[str, Any]) -> None:
        self._path, self._options = path, options
        self._telemetry: Telemetry | None = None
        self._refused = False

    def of(self, resource: Resource) -> None:
        if self._telemetry is None:
            its = {name: str(value) for name, value in resource.attributes.items()}
            self._telemetry = Telemetry(self._path, resource=its, **self._options)

    def put(self, what: str, fields: _Fields, attributes: _Attributes = None) -> None:
        assert self._telemetry is not None
        fields = {name: value for name, value in fields.items() if value not in (None, "")}
        if not self._telemetry._signal(what, fields, attributes):
            self._refused = True

    def took_all(self) -> bool:
        """Return whether the ring took all since the last call."""
        refused, self._refused = self._refused, False
        return not refused


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
        for span in spans:
            self._ring.of(span.resource)
            self._put(span)
        return SpanExportResult.SUCCESS if self._ring.took_all() else SpanExportResult.FAILURE

    def _put(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is None:
            return
        put = self._ring.put
        ids = _ids(context.trace_id, context.span_id)
        parent = {"parent_span_id": span.parent.span_id.to_bytes(8, "big")} if span.parent else {}
        scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
        first: _Fields = {**ids, **parent, "name": span.name, "kind": span.kind.value + 1}
        put("span_start", {_TIME: span.start_time, **first, _SCOPE: scope}, span.attributes)
        for link in span.links:
            trace, its = link.context.trace_id, link.context.span_id
            to = {f"link.{name}": value for name, value in _ids(trace, its).items()}
            put("span_start", {_TIME: span.start_time, **ids, **to})
        for event in span.events:
            named = {_TIME: event.timestamp, **ids, "event_name": event.name, _SCOPE: scope}
            put("log", named, event.attributes)
        end: _Fields = {_TIME: span.end_time, **ids, **parent, "name": span.name}
        if span.start_time is not None and span.end_time is not None:
            end["duration_nano"] = span.end_time - span.start_time
        if code := span.status.status_code.value:
            end.update({"status.code": code, "status.message": span.status.description})
        put("span_end", end)


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
        for readable in batch:
            self._ring.of(readable.resource)
            record = readable.log_record
            scope = readable.instrumentation_scope
            number = record.severity_number
            fields: _Fields = {
                _TIME: record.timestamp,
                "observed_time_unix_nano": record.observed_timestamp,
                "severity_number": number.value if number else None,
                "severity_text": record.severity_text,
                "event_name": record.event_name,
                _SCOPE: scope.name if scope else "",
                "body": str(record.body) if isinstance(record.body, tuple) else record.body,
            }
            if record.trace_id and record.span_id:
                fields.update(_ids(record.trace_id, record.span_id))
            self._ring.put("log", fields, record.attributes)
        took = self._ring.took_all()
        return LogRecordExportResult.SUCCESS if took else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        """Do nothing: what was exported is in the ring."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Do nothing: what was exported is in the ring."""
        return True


class RingMetricExporter(MetricExporter):
    """Writes the data points of gauges, sums and histograms with explicit buckets.

    Args:
        path: The ring, which is created if it is missing.
        preferred_temporality: As of all exporters of the SDK.
        preferred_aggregation: Likewise.
        options: ``size``, ``policy`` and ``mode``: see `perfring.telemetry.Telemetry`.

    """

    left_out: int = 0
    """The number of data points that were not written: those of exponential histograms."""

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
        for of_resource in metrics_data.resource_metrics:
            self._ring.of(of_resource.resource)
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    self._put(metric, of_scope.scope.name)
        return MetricExportResult.SUCCESS if self._ring.took_all() else MetricExportResult.FAILURE

    def _put(self, metric: Metric, scope: str) -> None:
        what: _Fields = {
            "name": metric.name,
            "unit": metric.unit,
            "description": metric.description,
        }
        data = metric.data
        if isinstance(data, Gauge):
            for one in data.data_points:
                fields: _Fields = {
                    _TIME: one.time_unix_nano,
                    **what,
                    _SCOPE: scope,
                    "value": one.value,
                }
                self._ring.put("gauge", fields, one.attributes)
            return
        if not isinstance(data, Sum | Histogram):
            self.left_out += len(data.data_points)
            return
        what["aggregation_temporality"] = data.aggregation_temporality.value
        for point in data.data_points:
            fields = {_TIME: point.time_unix_nano, **what, _SCOPE: scope}
            fields["start_time_unix_nano"] = point.start_time_unix_nano
            if isinstance(point, NumberDataPoint):
                fields["value"] = point.value
                fields["is_monotonic"] = isinstance(data, Sum) and data.is_monotonic
                self._ring.put("sum", fields, point.attributes)
                continue
            fields["count"] = point.count
            for name in ("sum", "min", "max"):
                if math.isfinite(number := float(getattr(point, name))):
                    fields[name] = number
            fields["explicit_bounds"] = tuple(float(bound) for bound in point.explicit_bounds)
            fields["bucket_counts"] = tuple(point.bucket_counts)
            self._ring.put("histogram", fields, point.attributes)

    def shutdown(self, timeout_millis: float = 30_000, **_more: Any) -> None:
        """Do nothing: what was exported is in the ring."""

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Do nothing: what was exported is in the ring."""
        return True


def _ids(trace: int, span: int) -> dict[str, object]:
    return {"trace_id": trace.to_bytes(16, "big"), "span_id": span.to_bytes(8, "big")}
