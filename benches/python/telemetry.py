"""Measures updates of metrics, and batches of OpenTelemetry's SDK, in one run.

    python benches/python/telemetry.py [--json] [--calls 20000]

It needs prometheus_client and opentelemetry-sdk. Instruments are held handles; the contestants take
turns, and all values are read back.
Compare the ratios: absolute figures prove nothing on another machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perfring
from perfring.opentelemetry import RingSpanExporter
from perfring.telemetry import Meter, Telemetry

from machine import machine
from payloads import WrongRecordError
from peers import shared_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REPETITIONS = 5
ROUND = 500
"""The calls of a contestant before it is the next one's turn."""
BATCH = 512
"""The spans that the SDK's batch processor exports at a time."""


def nothing(_: float) -> None:
    """What a call costs in Python."""


class Updates:
    """Instruments, each with a call that updates it by 1."""

    def __init__(self, directory: Path) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.ring = directory / "meter"
        meter = Meter(self.ring)
        self.registry = CollectorRegistry()
        counted = Counter("c", "c", ["by"], registry=self.registry).labels("card")
        measured = Histogram("h", "h", ["by"], registry=self.registry).labels("card")
        self.reader = InMemoryMetricReader()
        sdk = MeterProvider([self.reader]).get_meter("shop")
        counter, histogram = sdk.create_counter("c"), sdk.create_histogram("h")
        by = {"by": "card"}
        records = Telemetry(directory / "records")
        self.calls: dict[str, dict[str, Callable[[float], object]]] = {
            "counter": {
                "a Python function": nothing,
                "Meter.counter": meter.counter("c", attributes=by).add,
                "prometheus_client": counted.inc,
                "OpenTelemetry's SDK": lambda value: counter.add(value, by),
                "Telemetry.counter": lambda value: records.counter("c", value, attributes=by),
            },
            "histogram": {
                "a Python function": nothing,
                "Meter.histogram": meter.histogram("h", attributes=by).record,
                "prometheus_client": measured.observe,
                "OpenTelemetry's SDK": lambda value: histogram.record(value, by),
                "Telemetry.histogram": lambda value: records.histogram("h", value, attributes=by),
            },
        }

    def check(self, calls: int) -> None:
        """Compares what was counted."""
        ours = perfring.metrics(self.ring)
        found = {one["name"]: one.get("value", one.get("count")) for one in ours}
        theirs = [
            self.registry.get_sample_value(name, {"by": "card"}) for name in ("c_total", "h_count")
        ]
        data = json.loads(getattr(self.reader.get_metrics_data(), "to_json", str)())
        points = [
            metric["data"]["data_points"][0]
            for metric in data["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        ]
        sdk = [point.get("value", point.get("count")) for point in points]
        if not [found["c"], found["h"]] == theirs == sdk == [calls, calls]:
            raise WrongRecordError(f"{found}, {theirs}, {sdk} are not {calls}")


def turn(calls: dict[str, Callable[[float], object]], count: int) -> dict[str, float]:
    """Returns the ns a call of each contestant: of its median round, of `ROUND` calls."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    for _ in range(count // ROUND):
        for name, call in calls.items():
            begun = time.thread_time_ns()
            for _ in range(ROUND):
                call(1)
            took[name].append((time.thread_time_ns() - begun) / ROUND)
    return {name: statistics.median(each) for name, each in took.items()}


class Spans:
    """Exports batches of spans, with three attributes each."""

    def __init__(self, directory: Path) -> None:
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import SpanExporter

        tracer = TracerProvider().get_tracer("shop")
        self.spans: list[ReadableSpan] = []
        for number in range(BATCH):
            its: dict[str, str | int | float] = {"order": number, "customer": "c-4", "price": 9.5}
            span = tracer.start_span("buy", attributes=its)
            span.end()
            assert isinstance(span, ReadableSpan)
            self.spans.append(span)
        self.ring = directory / "spans"
        self.exporters: dict[str, SpanExporter] = {
            "RingSpanExporter": RingSpanExporter(self.ring, size="4M")
        }

    def turn(self, batches: int) -> dict[str, float]:
        """Returns the ns a span of each exporter."""
        took: dict[str, list[float]] = {name: [] for name in self.exporters}
        gc.collect()
        for _ in range(batches):
            for name, exporter in self.exporters.items():
                begun = time.thread_time_ns()
                exporter.export(self.spans)
                took[name].append((time.thread_time_ns() - begun) / BATCH)
        return {name: statistics.median(each) for name, each in took.items()}

    def check(self) -> None:
        """Reads the last batch."""
        values: list[Any] = [
            item.value for item in perfring.Snapshot(self.ring) if isinstance(item, perfring.Record)
        ]
        starts = [value for value in values if "order" in value][-BATCH:]
        if [value["order"] for value in starts] != list(range(BATCH)):
            raise WrongRecordError(f"{len(starts)} spans of a batch, or others")


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Returns the median and the range."""
    sure = list(values)
    low, middle, high = min(sure), statistics.median(sure), max(sure)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}..{high:,.{digits}f})"


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000, help="calls of a sample")
    parser.add_argument("--json", action="store_true", help="JSON, an object a line")
    asked = parser.parse_args()
    about = machine()
    if asked.json:
        print(json.dumps({"kind": "machine", **about}))
    else:
        print("; ".join(f"{name} {value}" for name, value in about.items()))
        print(f"{REPETITIONS} samples of {asked.calls} calls; time of this thread alone")
    with tempfile.TemporaryDirectory(dir=shared_memory()) as name:
        updates, spans = Updates(Path(name)), Spans(Path(name))
        for what, calls in updates.calls.items():
            turns = [turn(calls, asked.calls) for _ in range(REPETITIONS)]
            for contestant in calls:
                samples = [each[contestant] for each in turns]
                ratios = [each[contestant] / each["prometheus_client"] for each in turns]
                if asked.json:
                    more = {"name": contestant, "ns": samples, "ratios": ratios}
                    print(json.dumps({"kind": what, **more}))
                else:
                    print(f"{what}: {contestant:<24}{spread(samples):>26}{spread(ratios, 2):>24}")
        updates.check(REPETITIONS * (asked.calls // ROUND) * ROUND)
        batches = [spans.turn(asked.calls // BATCH) for _ in range(REPETITIONS)]
        spans.check()
        for contestant in spans.exporters:
            samples = [each[contestant] for each in batches]
            if asked.json:
                print(json.dumps({"kind": "span", "name": contestant, "ns": samples}))
            else:
                print(f"span of a batch: {contestant:<18}{spread(samples):>23}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
