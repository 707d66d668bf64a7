"""Writes spans and metrics into a ring, with OpenTelemetry's names for their parts.

    >>> import os, tempfile
    >>> from perfring.telemetry import Telemetry
    >>> ring = os.path.join(tempfile.mkdtemp(), "shop")
    >>> telemetry = Telemetry(ring, resource={"service.name": "shop"})
    >>> with telemetry.span("buy", kind="server", attributes={"order": 17}) as span:
    ...     with telemetry.span("SELECT stock", kind="client"):
    ...         telemetry.counter("shop.orders", unit="{order}")
    ...     telemetry.histogram("shop.request.duration", 0.25, unit="s")
    ...     span.set({"items": 3})
    >>> telemetry.gauge("shop.queue", 4, unit="{job}")
    >>> telemetry.dropped
    0

``perfring dump RING`` shows the records, ``perfring sidecar`` forwards them as OTLP or to
Prometheus. A span's start is in the ring before its body runs: after ``kill -9`` the ring says
which spans were open. Log records of a `perfring.logging.RingHandler` are in the span around them.

`Telemetry` publishes a record for each measurement. The instruments of a `Meter` are memory, which
readers sample: choose it for frequent measurements.
"""

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextvars import Token
from os import PathLike
from types import TracebackType
from typing import Final, Literal, Self

from ._errors import Forked
from ._native import Counter, Gauge, Histogram, UpDownCounter, _LogSink, _Meter
from ._span import CURRENT
from .logging import _class_name, _resource, _text_of

__all__ = ["Counter", "Gauge", "Histogram", "Meter", "Span", "Telemetry", "UpDownCounter"]

_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUS: Final = {"unset": 0, "ok": 1, "error": 2}
_DELTA: Final = 1

_Kind = Literal["internal", "server", "client", "producer", "consumer"]
_Attributes = Mapping[str, object]
_Row = tuple[str, tuple[object, ...], dict[str, object] | None]


class Telemetry:
    """Writes spans and samples into a ring.

    Creates the ring if it is missing, and continues in an existing one. The ring is shared: many
    processes, and log handlers, may write into one. A forked child continues in the same ring; with
    ``{pid}`` in the path each process has its own ring. A refused record is counted in
    `dropped`, and never raises.

    Args:
        path: The ring. The directory must exist.
        size: The bytes of the ring's data area, a power of two: a number, or text such as ``"1M"``.
        policy: ``"overwrite"`` evicts the oldest records. ``"drop"`` keeps the first ones until
            they are read, and counts new ones as dropped: choose it for counters, of which each
            sample counts.
        resource: The process, by OpenTelemetry's names. ``service.name`` defaults to
            ``OTEL_SERVICE_NAME``, or to the script's name.
        mode: The permissions of a new ring.

    Raises:
        OSError: The ring cannot be created or opened.
        perfring.BadRing: The file is not a ring, or a ring for one producer.
        perfring.Busy: All slots of the ring are taken.
        ValueError: An argument is invalid.

    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        size: int | str = "1M",
        policy: Literal["overwrite", "drop"] = "overwrite",
        resource: Mapping[str, str] | None = None,
        mode: int = 0o600,
    ) -> None:
        at = os.fspath(path)
        self._template = at if at.startswith("shm:") else os.path.abspath(at)
        self._shape = (size, policy, mode)
        self._resource = _resource(resource or {})
        self._sink = self._attach()

    @property
    def path(self) -> str:
        """The path of this process's ring."""
        return self._template.replace("{pid}", str(os.getpid()))

    @property
    def dropped(self) -> int:
        """The number of this process's records that are not in the ring."""
        return self._sink.dropped

    def span(
        self, name: str, *, kind: _Kind = "internal", attributes: _Attributes | None = None
    ) -> "Span":
        """Return a span: ``with telemetry.span("buy"):`` begins it, and ends it after its body.

        It is a child of the span that the thread or task is in. An exception that leaves the body
        is its status: an error, with the exception's class and text.

        Args:
            name: Its name, the same for all spans of the kind.
            kind: ``"server"`` handles a request from elsewhere, ``"client"`` sends one,
                ``"producer"`` and ``"consumer"`` are of queues; all others are ``"internal"``.
            attributes: All else: text, numbers, truth values, bytes and ``None`` unchanged, other
                values as their ``str()``.

        """
        if kind not in _KINDS:
            raise ValueError(f"kind {kind!r} is none: it is {', '.join(_KINDS)}")
        return Span(self, name, _KINDS[kind], attributes)

    def counter(
        self,
        name: str,
        increase: float = 1,
        *,
        unit: str = "",
        description: str = "",
        attributes: _Attributes | None = None,
    ) -> None:
        """Count: publish how much a sum has increased, which readers add up."""
        if not increase >= 0:
            raise ValueError(f"a counter increases by 0 or more, not {increase}: use a gauge")
        what = (None, name, unit, description, "", increase, _DELTA, None, True)
        self._publish("sum", what, attributes)

    def gauge(
        self,
        name: str,
        value: float,
        *,
        unit: str = "",
        description: str = "",
        attributes: _Attributes | None = None,
    ) -> None:
        """Publish a value that rises and falls."""
        self._publish("gauge", (None, name, unit, description, "", value), attributes)

    def histogram(
        self,
        name: str,
        value: float,
        *,
        unit: str = "",
        description: str = "",
        attributes: _Attributes | None = None,
    ) -> None:
        """Publish one measurement, such as a duration, which readers sort into buckets."""
        what = (None, name, unit, description, "", float(value), _DELTA)
        self._publish("histogram", what, attributes)

    def _attach(self) -> _LogSink:
        size, policy, mode = self._shape
        return _LogSink(self.path, size, policy, mode, self._resource)

    def _publish(
        self, what: str, fields: tuple[object, ...], attributes: _Attributes | None
    ) -> None:
        self._publish_all([(what, fields, None if attributes is None else dict(attributes))])

    def _publish_all(self, rows: Sequence[_Row]) -> int:
        """Publish rows in one native call. Returns how many were refused, and counted."""
        try:
            return self._sink.publish_all(rows)
        except Forked:
            self._sink = self._attach()
            return self._sink.publish_all(rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


class Meter:
    """Makes instruments whose values are memory in a ring's file.

    `Telemetry` publishes a record for each measurement. A meter keeps the results of measurements:
    an update is one call of a few instructions, with no record, no allocation and no lock.
    Readers sample the values: `perfring.metrics`, ``perfring metrics RING``, and ``perfring
    sidecar`` for OTLP and Prometheus. After ``kill -9`` they are still in the file.

        >>> meter = Meter(tmp / "shop", resource={"service.name": "shop"})
        >>> orders = meter.counter("orders", unit="{order}", attributes={"by": "card"})
        >>> took = meter.histogram("took", unit="s")
        >>> for _ in range(3):
        ...     orders.add()
        ...     took.record(0.25)
        >>> for one in perfring.metrics(tmp / "shop"):
        ...     print(one["name"], one.get("value", one.get("sum")))
        orders 3
        took 0.75

    Make an instrument once, keep it, and make one for each set of attributes: the same name with
    the same attributes is the same instrument. Each process has its own values, also a forked
    child. The child attaches when it first updates an instrument, and its values begin at zero.
    Readers add up the values of all processes.

    Args:
        path: The ring, which is created if it is missing. The directory must exist. An existing
            ring keeps its sizes. The ring may have log records and spans as well: then make it with
            a larger ``size``, by a meter that comes first.
        size: The bytes of the ring's data area, a power of two: a number, or text such as ``"1M"``.
        metrics_size: The bytes for instruments: 128 for a counter or a gauge, and 5.1 KiB for a
            histogram, in each process. Those of dead processes are reused when it is full.
        resource: The process, by OpenTelemetry's names. ``service.name`` defaults to
            ``OTEL_SERVICE_NAME``, or to the script's name.
        mode: The permissions of a new ring.

    Raises:
        OSError: The ring cannot be created or opened.
        perfring.BadRing: The file is not a ring, or one without a metrics area.
        perfring.Busy: All slots of the ring are taken.
        perfring.Full: The area has no room for the resource.
        perfring.Corrupt: The area is damaged, and no reader would see the instruments.
        ValueError: An argument is invalid.

    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        size: int | str = "64K",
        metrics_size: int | str = "1M",
        resource: Mapping[str, str] | None = None,
        mode: int = 0o600,
    ) -> None:
        at = os.fspath(path)
        self._path = at if at.startswith("shm:") else os.path.abspath(at)
        self._meter = _Meter(self._path, size, metrics_size, mode, _resource(resource or {}))

    @property
    def path(self) -> str:
        """The path of the ring."""
        return self._path

    @property
    def lost(self) -> int:
        """The number of updates that no file has: a forked child could not attach."""
        return self._meter.lost

    @property
    def refused(self) -> int:
        """The number of instruments that found no room in the ring, of all processes."""
        return self._meter.refused

    @property
    def removed(self) -> bool:
        """Whether the ring's file was removed or replaced: no reader finds the values then."""
        return self._meter.removed

    def counter(
        self,
        name: str,
        *,
        unit: str = "",
        description: str = "",
        scope: str = "",
        attributes: _Attributes | None = None,
        of: type[int] | type[float] = int,
    ) -> Counter:
        """Return a sum that only grows.

        Args:
            name: The instrument's name.
            unit: Its unit in UCUM, such as ``"s"``, ``"By"`` or ``"{order}"``.
            description: What it measures.
            scope: The part of the program that it is from.
            attributes: Those of all its measurements: text, numbers and truth values unchanged,
                other values as their ``str()``.
            of: ``int`` for whole numbers, ``float`` for all.

        Raises:
            perfring.Full: There is no room for it. The ring counts that.
            perfring.Corrupt: The area is damaged, and no reader would see it.
            perfring.BadType: This process has the instrument with other values.

        """
        return self._meter.counter(_what(name, unit, description, scope, attributes), of)

    def up_down_counter(
        self,
        name: str,
        *,
        unit: str = "",
        description: str = "",
        scope: str = "",
        attributes: _Attributes | None = None,
        of: type[int] | type[float] = int,
    ) -> UpDownCounter:
        """Return a sum that grows and shrinks. The arguments are those of `counter`."""
        return self._meter.up_down_counter(_what(name, unit, description, scope, attributes), of)

    def gauge(
        self,
        name: str,
        *,
        unit: str = "",
        description: str = "",
        scope: str = "",
        attributes: _Attributes | None = None,
        of: type[int] | type[float] = float,
    ) -> Gauge:
        """Return a value that is set. Readers do not see it before that.

        The arguments are those of `counter`.
        """
        return self._meter.gauge(_what(name, unit, description, scope, attributes), of)

    def histogram(
        self,
        name: str,
        *,
        unit: str = "",
        description: str = "",
        scope: str = "",
        attributes: _Attributes | None = None,
        scale: int = 3,
        powers: tuple[int, int] = (-30, 50),
    ) -> Histogram:
        """Return counts of measurements in exponential buckets.

        The other arguments are those of `counter`.

        Args:
            name: The instrument's name.
            unit: Its unit.
            description: What it measures.
            scope: The part of the program that it is from.
            attributes: Those of all its measurements.
            scale: OpenTelemetry's scale, 0 to 4: there are ``2**scale`` buckets for each power of
                two. Those of the default are 9 % wide.
            powers: The range of the buckets, in powers of two: a smaller measurement counts as
                zero, and a greater one is in the last bucket. The default begins at a nanosecond
                where measurements are in seconds.

        """
        what = _what(name, unit, description, scope, attributes)
        return self._meter.histogram(what, scale, powers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"


def _what(
    name: str, unit: str, description: str, scope: str, attributes: _Attributes | None
) -> tuple[str, str, str, str, dict[str, object]]:
    its = {str(name): value for name, value in (attributes or {}).items()}
    return name, unit, description, scope, its


class Span:
    """A span of `Telemetry.span`, for one ``with``."""

    def __init__(
        self, telemetry: Telemetry, name: str, kind: int, attributes: _Attributes | None
    ) -> None:
        self._telemetry = telemetry
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._status: tuple[int, str] | None = None
        self._ids: tuple[bytes, bytes] | None = None
        self._parent: bytes | None = None
        self._began: int | None = None
        self._token: Token[tuple[bytes, bytes] | None] | None = None

    @property
    def trace_id(self) -> str:
        """The trace's id, in hexadecimal; empty before the span begins."""
        return self._ids[0].hex() if self._ids else ""

    @property
    def span_id(self) -> str:
        """The span's id, in hexadecimal; empty before the span begins."""
        return self._ids[1].hex() if self._ids else ""

    def set(self, attributes: _Attributes) -> None:
        """Add attributes. They are in the ring at once."""
        self._telemetry._publish("span_start", (None, *(self._ids or ())), attributes)

    def status(self, status: Literal["ok", "error", "unset"], message: str = "") -> None:
        """Set the status that the span ends with."""
        if status not in _STATUS:
            raise ValueError(f"status {status!r} is none: it is {', '.join(_STATUS)}")
        self._status = (_STATUS[status], message)

    def __enter__(self) -> Self:
        """Begin the span."""
        if self._began is not None:
            raise RuntimeError("a span begins once: make another one")
        around = CURRENT.get()
        trace = around[0] if around else random.getrandbits(128).to_bytes(16, "big")
        span = (random.getrandbits(64) or 1).to_bytes(8, "big")
        self._ids = trace, span
        self._parent = around[1] if around else None
        self._began = time.monotonic_ns()
        start = (None, trace, span, self._parent, self._name, self._kind)
        self._telemetry._publish("span_start", start, self._attributes)
        self._token = CURRENT.set(self._ids)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span."""
        if self._token is not None:
            CURRENT.reset(self._token)
        attributes: dict[str, object] | None = None
        if error is not None:
            text = _text_of(error)
            self._status = self._status or (_STATUS["error"], text)
            attributes = {"exception.type": _class_name(type(error)), "exception.message": text}
        took = time.monotonic_ns() - (self._began or 0)
        end = (None, *(self._ids or ()), self._parent, self._name, took, *(self._status or ()))
        self._telemetry._publish("span_end", end, attributes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} {self.span_id}>"
